# oneDNN (CPU kernels) and OpenMP: finds both and defines neap_onednn.
#   NEAP_ONEDNN=OFF  builds without; the library's sources see NEAP_HAS_ONEDNN=0, and training runs on the reference
#                    kernels
#   DNNL_ROOT        a folder with include/ and lib/, instead of the system's
# Releases 2 and 3 will do; src/run/backends/onednn/dnnl_api.c hides the difference.

option(NEAP_ONEDNN "Build the backend on oneDNN's kernels" ON)

if(NOT NEAP_ONEDNN)
  set(NEAP_HAS_ONEDNN 0)
  return()
endif()
set(NEAP_HAS_ONEDNN 1)

set(DNNL_ROOT "$ENV{DNNL_ROOT}" CACHE PATH "A folder with include/ and lib/ of oneDNN")
find_library(NEAP_DNNL_LIBRARY dnnl HINTS "${DNNL_ROOT}/lib")
find_path(NEAP_DNNL_INCLUDE oneapi/dnnl/dnnl.h HINTS "${DNNL_ROOT}/include")
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
