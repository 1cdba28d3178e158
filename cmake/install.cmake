# What `cmake --install` leaves behind: headers, both libraries, the command, neap.pc and a CMake package.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/neap")

install(FILES ${NEAP_PUBLIC_HEADERS} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/neap")
install(TARGETS neap_shared neap_static EXPORT neap-targets)
if(TARGET neap)
  install(TARGETS neap)
endif()
install(EXPORT neap-targets NAMESPACE neap:: DESTINATION "${package_dir}")

configure_package_config_file(cmake/neap-config.cmake.in "${PROJECT_BINARY_DIR}/neap-config.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/neap-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/neap-config.cmake"
              "${PROJECT_BINARY_DIR}/neap-config-version.cmake" DESTINATION "${package_dir}")

# The .pc file finds its prefix from where it lies, so `cmake --install --prefix` may choose it late.
file(RELATIVE_PATH NEAP_PC_TO_PREFIX "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig"
     "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" NEAP_PC_TO_PREFIX "${NEAP_PC_TO_PREFIX}")
configure_file(cmake/neap.pc.in "${PROJECT_BINARY_DIR}/neap.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/neap.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
