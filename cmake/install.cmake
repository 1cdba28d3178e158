# What `cmake --install` installs: headers, both libraries, the command, its manual pages and completions, neap.pc, a CMake
# package, the docs and the examples. The tree can be moved: it finds its parts relative to each other.
# tools/check_install.sh tests that.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/neap")
set(private_dir "${CMAKE_INSTALL_LIBDIR}/neap") # libraries that come along

install(FILES ${NEAP_PUBLIC_HEADERS} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/neap")

file(GLOB NEAP_DOCS CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/*.md")
file(GLOB NEAP_EXAMPLE_FILES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.c")
install(FILES LICENSE README.md CONTRIBUTING.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(FILES ${NEAP_DOCS} DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs")
install(FILES ${NEAP_EXAMPLE_FILES} DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples/offloading" DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples")

# --- what libneap.a needs of other libraries ----------------------------------------------------

# Unpacked libraries come along in a folder of our own, where they cannot take the place of others (the file name of
# HiGHS has no version). Any other stays where it is.
file(RELATIVE_PATH from_bin "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}/neap")
foreach(target IN ITEMS neap_shared neap)
  if(TARGET ${target})
    set_target_properties(${target} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  endif()
endforeach()
set(NEAP_PC_PRIVATE "")
if(NEAP_HIGHS_BUNDLED OR NEAP_DNNL_BUNDLED)
  set_target_properties(neap_shared PROPERTIES INSTALL_RPATH "$ORIGIN/neap")
  if(TARGET neap)
    set_target_properties(neap PROPERTIES INSTALL_RPATH "$ORIGIN/${from_bin}")
  endif()
  set(NEAP_PC_PRIVATE " -L\${libdir}/neap -Wl,-rpath,\${libdir}/neap")
endif()

# neap_install_library(NAME BUNDLED LIBRARY LICENSE): installs a bundled library, and appends what links with it to
# NEAP_PC_PRIVATE, with the folder of another one only where the linker does not look by itself.
function(neap_install_library name bundled library license)
  get_filename_component(folder "${library}" DIRECTORY)
  get_filename_component(file "${library}" NAME)
  if(bundled)
    install(FILES "${library}" DESTINATION "${private_dir}")
    install(FILES "${license}" DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME ${name}-LICENSE.txt)
  elseif(NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    string(APPEND NEAP_PC_PRIVATE " -L${folder} -Wl,-rpath,${folder}")
  endif()
  set(NEAP_PC_PRIVATE "${NEAP_PC_PRIVATE} -l:${file}" PARENT_SCOPE)
endfunction()

if(NEAP_HIGHS)
  neap_install_library(HiGHS ${NEAP_HIGHS_BUNDLED} "${NEAP_HIGHS_LIBRARY}" "${NEAP_HIGHS_LICENSE}")
endif()
if(NEAP_HAS_PNG)
  string(APPEND NEAP_PC_PRIVATE " -lpng")
endif()
if(NEAP_HAS_ONNX)
  string(APPEND NEAP_PC_PRIVATE " -lprotobuf-c")
endif()
if(NEAP_ONEDNN)
  neap_install_library(oneDNN ${NEAP_DNNL_BUNDLED} "${NEAP_DNNL_LIBRARY}" "${NEAP_DNNL_LICENSE}")
  foreach(name IN LISTS OpenMP_C_LIB_NAMES)
    if(NOT name STREQUAL "pthread")
      string(APPEND NEAP_PC_PRIVATE " -l${name}")
    endif()
  endforeach()
endif()
foreach(name IN LISTS CMAKE_DL_LIBS) # what loads the libraries of a GPU
  string(APPEND NEAP_PC_PRIVATE " -l${name}")
endforeach()
get_filename_component(NEAP_HIGHS_FILE "${NEAP_HIGHS_LIBRARY}" NAME)
get_filename_component(NEAP_DNNL_FILE "${NEAP_DNNL_LIBRARY}" NAME)

# --- libraries, command, packages ---------------------------------------------------------------

install(TARGETS neap_shared neap_static EXPORT neap-targets)
if(TARGET neap)
  install(TARGETS neap)
  set(shared_files "${CMAKE_CURRENT_BINARY_DIR}/generated/share")
  add_custom_command(
    OUTPUT "${shared_files}/done"
    COMMAND "${CMAKE_COMMAND}" -D "NEAP=$<TARGET_FILE:neap>" -D "FOLDER=${shared_files}" -P
            "${PROJECT_SOURCE_DIR}/cmake/generated_docs.cmake"
    DEPENDS neap "${PROJECT_SOURCE_DIR}/cmake/generated_docs.cmake" VERBATIM
    COMMENT "Generating manual pages and completions")
  add_custom_target(man ALL DEPENDS "${shared_files}/done")
  install(DIRECTORY "${shared_files}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
  install(FILES "${shared_files}/bash/neap" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
  install(FILES "${shared_files}/zsh/_neap" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
  install(FILES "${shared_files}/fish/neap.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
endif()
install(EXPORT neap-targets NAMESPACE neap:: DESTINATION "${package_dir}")

configure_package_config_file(cmake/neap-config.cmake.in "${PROJECT_BINARY_DIR}/neap-config.cmake"
                              INSTALL_DESTINATION "${package_dir}" PATH_VARS private_dir)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/neap-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/neap-config.cmake"
              "${PROJECT_BINARY_DIR}/neap-config-version.cmake" DESTINATION "${package_dir}")

# The .pc file finds its prefix from its own location, so `cmake --install --prefix` may choose it late.
file(RELATIVE_PATH NEAP_PC_TO_PREFIX "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig"
     "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" NEAP_PC_TO_PREFIX "${NEAP_PC_TO_PREFIX}")
configure_file(cmake/neap.pc.in "${PROJECT_BINARY_DIR}/neap.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/neap.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
