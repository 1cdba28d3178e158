# HiGHS (LP and MILP): finds it and defines the imported target neap_highs.
#   NEAP_HIGHS=OFF  builds without it; the library's sources see NEAP_HAS_HIGHS=0
#   HIGHS_ROOT      a folder with include/highs/ and lib/, instead of the system's and of the one in NEAP_DEPS_DIR
# The system's comes first, if it is new enough. The unpacked one is copied into the build folder and installed with
# the library, found relative to the programs, so that both trees can be moved.

option(NEAP_HIGHS "Build the methods that need the solver HiGHS" ON)

set(NEAP_HIGHS_BUNDLED OFF) # is it installed with neap?
if(NOT NEAP_HIGHS)
  set(NEAP_HAS_HIGHS 0)
  return()
endif()
set(NEAP_HAS_HIGHS 1)

# One line each in tools/setup.sh: the oldest release that will do, and the one it unpacks.
set(highs_oldest 1.12)
set(highs_unpacked highs-1.15.1)

set(HIGHS_ROOT "$ENV{HIGHS_ROOT}" CACHE PATH "A folder with include/highs/ and lib/ of HiGHS")

# Sets highs_library and highs_include (or NOTFOUND) from the given folders and from nowhere else.
macro(neap_find_highs include_folders library_folders)
  unset(highs_library)
  unset(highs_include)
  find_library(highs_library libhighs.so PATHS ${library_folders} NO_DEFAULT_PATH NO_CACHE)
  find_path(highs_include interfaces/highs_c_api.h PATHS ${include_folders} NO_DEFAULT_PATH NO_CACHE)
endmacro()

if(HIGHS_ROOT)
  neap_find_highs("${HIGHS_ROOT}/include/highs" "${HIGHS_ROOT}/lib;${HIGHS_ROOT}/lib64")
  set(highs_remedy "${HIGHS_ROOT} lacks include/highs/interfaces/highs_c_api.h or lib/libhighs.so")
else()
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(HIGHS_PC QUIET highs>=${highs_oldest})
  endif()
  if(HIGHS_PC_FOUND)
    pkg_get_variable(highs_libdir highs libdir)
    pkg_get_variable(highs_includedir highs includedir)
    neap_find_highs("${highs_includedir};${highs_includedir}/highs" "${highs_libdir}")
  endif()
  if(NOT highs_library OR NOT highs_include)
    set(folder "${NEAP_DEPS_DIR}/${highs_unpacked}")
    neap_find_highs("${folder}/include/highs" "${folder}/lib")
    set(NEAP_HIGHS_BUNDLED ON)
  endif()
  set(highs_remedy "run `tools/setup.sh build`, or name its folder (-DHIGHS_ROOT=), or do without (-DNEAP_HIGHS=OFF)")
endif()
if(NOT highs_library OR NOT highs_include)
  message(FATAL_ERROR "no HiGHS: ${highs_remedy}")
endif()

if(NEAP_HIGHS_BUNDLED)
  set(NEAP_HIGHS_LICENSE "${folder}/LICENSE.txt")
  file(COPY "${highs_library}" DESTINATION "${PROJECT_BINARY_DIR}/deps/lib")
  set(highs_library "${PROJECT_BINARY_DIR}/deps/lib/libhighs.so")
endif()
set(NEAP_HIGHS_LIBRARY "${highs_library}")

add_library(neap_highs SHARED IMPORTED)
set_target_properties(
  neap_highs PROPERTIES IMPORTED_LOCATION "${highs_library}" INTERFACE_INCLUDE_DIRECTORIES
                                                             "${highs_include}")
message(STATUS "HiGHS: ${highs_library}")

# What its header does to a C file that includes it: a static function is declared and never defined, and some
# constants are not static, which would be symbols of libneap.a that are not ours.
set(highs_user "${PROJECT_SOURCE_DIR}/src/lp/highs_model.c")
set_property(SOURCE "${highs_user}" APPEND PROPERTY COMPILE_OPTIONS -Wno-unused-function)
foreach(constant IN ITEMS StrategyLight StrategyFromLpRowPriority StrategyFromLpColPriority BoundFree BoundLower
                          BoundUpper BoundBoxed StatusNotInConflict StatusMaybeInConflict StatusInConflict)
  set_property(SOURCE "${highs_user}" APPEND PROPERTY COMPILE_DEFINITIONS
                                                      kHighsIis${constant}=neap_highs_iis_${constant})
endforeach()
