# What `cmake --install` leaves behind: headers, both libraries, the command, neap.pc and a CMake package.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/neap")

install(FILES ${NEAP_PUBLIC_HEADERS} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/neap")

# An unpacked HiGHS comes along in a folder of our own: its file name has no version, so beside other libraries it
# could take the place of one that is not ours. Any other stays where it is.
set(NEAP_PC_HIGHS "")
set(highs_dir "${CMAKE_INSTALL_LIBDIR}/neap")
if(NEAP_HIGHS)
  if(NEAP_HIGHS_BUNDLED)
    install(FILES "${NEAP_HIGHS_LIBRARY}" DESTINATION "${highs_dir}")
    install(FILES "${NEAP_HIGHS_LICENSE}" DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME HiGHS-LICENSE.txt)
    file(RELATIVE_PATH from_bin "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}/neap")
    set_target_properties(neap_shared PROPERTIES INSTALL_RPATH "$ORIGIN/neap")
    if(TARGET neap)
      set_target_properties(neap PROPERTIES INSTALL_RPATH "$ORIGIN/${from_bin}")
    endif()
    set(NEAP_PC_HIGHS "-L\${libdir}/neap -lhighs -Wl,-rpath,\${libdir}/neap")
  else()
    foreach(target IN ITEMS neap_shared neap)
      if(TARGET ${target})
        set_target_properties(${target} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
      endif()
    endforeach()
    get_filename_component(highs_dir "${NEAP_HIGHS_LIBRARY}" DIRECTORY)
    set(NEAP_PC_HIGHS "-L${highs_dir} -lhighs")
  endif()
endif()

set(NEAP_PC_ONEDNN "")
if(NEAP_ONEDNN)
  set(NEAP_PC_ONEDNN "${NEAP_DNNL_LIBRARY} ${OpenMP_C_LIBRARIES}")
  string(REPLACE ";" " " NEAP_PC_ONEDNN "${NEAP_PC_ONEDNN}")
endif()
set(NEAP_PC_PNG "")
if(NEAP_HAS_PNG)
  set(NEAP_PC_PNG "-lpng")
endif()

install(TARGETS neap_shared neap_static EXPORT neap-targets)
if(TARGET neap)
  install(TARGETS neap)
endif()
install(EXPORT neap-targets NAMESPACE neap:: DESTINATION "${package_dir}")

configure_package_config_file(cmake/neap-config.cmake.in "${PROJECT_BINARY_DIR}/neap-config.cmake"
                              INSTALL_DESTINATION "${package_dir}" PATH_VARS highs_dir)
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
