# What `cmake --install` leaves behind: headers, both libraries, the command, neap.pc and a CMake package.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/neap")

install(FILES ${NEAP_PUBLIC_HEADERS} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/neap")

# Unpacked libraries come along in a folder of our own, where they cannot take the place of others (the file name of
# HiGHS has no version). Any other stays where it is.
set(deps_dir "${CMAKE_INSTALL_LIBDIR}/neap")
file(RELATIVE_PATH from_bin "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}/neap")
foreach(target IN ITEMS neap_shared neap)
  if(TARGET ${target})
    set_target_properties(${target} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  endif()
endforeach()
if(NEAP_HIGHS_BUNDLED OR NEAP_DNNL_BUNDLED)
  set_target_properties(neap_shared PROPERTIES INSTALL_RPATH "$ORIGIN/neap")
  if(TARGET neap)
    set_target_properties(neap PROPERTIES INSTALL_RPATH "$ORIGIN/${from_bin}")
  endif()
endif()

# neap_install_bundled(NAME LIBRARY LICENSE PC_VARIABLE): PC_VARIABLE gets the linker's flags.
function(neap_install_bundled name library license pc)
  get_filename_component(file "${library}" NAME)
  install(FILES "${library}" DESTINATION "${deps_dir}")
  install(FILES "${license}" DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME ${name}-LICENSE.txt)
  set(${pc} "-L\${libdir}/neap -l:${file} -Wl,-rpath,\${libdir}/neap" PARENT_SCOPE)
endfunction()

set(NEAP_PC_HIGHS "")
set(highs_dir "${deps_dir}")
if(NEAP_HIGHS_BUNDLED)
  neap_install_bundled(HiGHS "${NEAP_HIGHS_LIBRARY}" "${NEAP_HIGHS_LICENSE}" NEAP_PC_HIGHS)
elseif(NEAP_HIGHS)
  get_filename_component(highs_dir "${NEAP_HIGHS_LIBRARY}" DIRECTORY)
  set(NEAP_PC_HIGHS "-L${highs_dir} -lhighs")
endif()

set(NEAP_PC_ONEDNN "")
set(dnnl_dir "${deps_dir}")
get_filename_component(NEAP_DNNL_FILE "${NEAP_DNNL_LIBRARY}" NAME)
if(NEAP_DNNL_BUNDLED)
  neap_install_bundled(oneDNN "${NEAP_DNNL_LIBRARY}" "${NEAP_DNNL_LICENSE}" NEAP_PC_ONEDNN)
elseif(NEAP_ONEDNN)
  get_filename_component(dnnl_dir "${NEAP_DNNL_LIBRARY}" DIRECTORY)
  set(NEAP_PC_ONEDNN "${NEAP_DNNL_LIBRARY}")
endif()
if(NEAP_ONEDNN)
  string(REPLACE ";" " " openmp "${OpenMP_C_LIBRARIES}")
  string(APPEND NEAP_PC_ONEDNN " ${openmp}")
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
                              INSTALL_DESTINATION "${package_dir}" PATH_VARS highs_dir dnnl_dir)
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
