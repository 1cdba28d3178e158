# NEAP_WHEEL=ON: libneap.so as the Python package carries it (python/packaging/library.py). It lies in one folder with
# libhighs.so, finds it there, and has no symbols for debuggers.

option(NEAP_WHEEL "Build libneap.so for the Python package" OFF)

if(NEAP_WHEEL)
  set_target_properties(neap_shared PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN"
                                               INSTALL_RPATH_USE_LINK_PATH OFF)
  target_link_options(neap_shared PRIVATE LINKER:--strip-all)
endif()
