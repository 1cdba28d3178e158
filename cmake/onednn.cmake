# oneDNN (CPU kernels) and OpenMP: finds both and defines neap_onednn.
#   NEAP_ONEDNN=OFF  builds without; the library's sources see NEAP_HAS_ONEDNN=0, and training runs on the reference
#                    kernels
#   DNNL_ROOT        a folder with include/ and lib/, instead of the one in NEAP_DEPS_DIR and of the system's
# Release 3, which tools/setup.sh unpacks, comes before the system's, which may be release 2;
# src/run/backends/onednn/dnnl_api.c hides the difference.

option(NEAP_ONEDNN "Build the backend on oneDNN's kernels" ON)

set(NEAP_DNNL_BUNDLED OFF) # is it installed with neap?
if(NOT NEAP_ONEDNN)
  set(NEAP_HAS_ONEDNN 0)
  return()
endif()
set(NEAP_HAS_ONEDNN 1)

set(dnnl_unpacked "${NEAP_DEPS_DIR}/onednn-3.2") # a line in tools/setup.sh
set(DNNL_ROOT "$ENV{DNNL_ROOT}" CACHE PATH "A folder with include/ and lib/ of oneDNN")

unset(NEAP_DNNL_LIBRARY CACHE)
unset(NEAP_DNNL_INCLUDE CACHE)
if(DNNL_ROOT)
  find_library(NEAP_DNNL_LIBRARY dnnl PATHS "${DNNL_ROOT}/lib" NO_DEFAULT_PATH NO_CACHE)
  find_path(NEAP_DNNL_INCLUDE oneapi/dnnl/dnnl.h PATHS "${DNNL_ROOT}/include" NO_DEFAULT_PATH NO_CACHE)
elseif(EXISTS "${dnnl_unpacked}")
  set(NEAP_DNNL_BUNDLED ON)
  set(NEAP_DNNL_LICENSE "${dnnl_unpacked}/LICENSE")
  set(NEAP_DNNL_LIBRARY "${PROJECT_BINARY_DIR}/deps/lib/libdnnl.so.3")
  set(NEAP_DNNL_INCLUDE "${dnnl_unpacked}/include")
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/deps/lib")
  file(CREATE_LINK "${dnnl_unpacked}/lib/libdnnl.so.3" "${NEAP_DNNL_LIBRARY}" COPY_ON_ERROR)
else()
  find_library(NEAP_DNNL_LIBRARY dnnl NO_CACHE)
  find_path(NEAP_DNNL_INCLUDE oneapi/dnnl/dnnl.h NO_CACHE)
endif()
find_package(OpenMP COMPONENTS C)
if(NOT NEAP_DNNL_LIBRARY OR NOT NEAP_DNNL_INCLUDE OR NOT OpenMP_C_FOUND)
  message(FATAL_ERROR "no oneDNN, or a compiler without OpenMP: run `tools/setup.sh build`, or name oneDNN's folder "
                      "(-DDNNL_ROOT=), or do without (-DNEAP_ONEDNN=OFF)")
endif()
message(STATUS "oneDNN: ${NEAP_DNNL_LIBRARY}")

add_library(neap_onednn SHARED IMPORTED)
set_target_properties(
  neap_onednn PROPERTIES IMPORTED_LOCATION "${NEAP_DNNL_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES
                                                                  "${NEAP_DNNL_INCLUDE}")
