# Every tests/<kind>/test_<subject>.c is one cmocka program, built as <build>/tests/<kind>/test_<subject>.
# <build>/tests.list names them for tools/run_tests.sh: one "kind-of-output name path" per line.

set(NEAP_TEST_LIST "")

function(neap_register_test target output name)
  add_test(NAME ${name} COMMAND ${target})
  string(APPEND NEAP_TEST_LIST "${output} ${name} $<TARGET_FILE:${target}>\n")
  set(NEAP_TEST_LIST "${NEAP_TEST_LIST}" PARENT_SCOPE)
endfunction()

# --- public headers: each alone, twice in a row, in two files of one program ------------------

include(cmake/header_selfcheck.cmake)

# --- examples/: built as a user builds them, against the shared library ------------------------

file(GLOB NEAP_EXAMPLES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.c")
foreach(source IN LISTS NEAP_EXAMPLES)
  get_filename_component(name "${source}" NAME_WE)
  add_executable(example-${name} "${source}")
  set_target_properties(example-${name} PROPERTIES OUTPUT_NAME "${name}" RUNTIME_OUTPUT_DIRECTORY
                                                   "${PROJECT_BINARY_DIR}/examples")
  target_link_libraries(example-${name} PRIVATE neap_options neap_shared)
endforeach()

# --- oneDNN: the one file that sees the library also compiles against the system's release ------

find_path(dnnl_system oneapi/dnnl/dnnl.h PATHS /usr/include NO_DEFAULT_PATH NO_CACHE)
if(NEAP_DNNL_BUNDLED AND dnnl_system)
  add_library(neap_dnnl_check OBJECT "${PROJECT_SOURCE_DIR}/src/run/backends/onednn/dnnl_api.c")
  target_include_directories(neap_dnnl_check PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
  target_compile_definitions(neap_dnnl_check PRIVATE NEAP_HAS_ONEDNN=1 NEAP_HAS_EMULATION=0)
  target_link_libraries(neap_dnnl_check PRIVATE neap_options OpenMP::OpenMP_C)
endif()

# --- cmocka programs --------------------------------------------------------------------------

file(GLOB NEAP_TEST_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/*/test_*.c")
file(GLOB NEAP_TEST_SUPPORT CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/support/*.c")
list(REMOVE_ITEM NEAP_TEST_SOURCES ${NEAP_TEST_SUPPORT})

if(NEAP_SOURCES AND NEAP_TEST_SOURCES)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

  add_library(neap_test_setting INTERFACE)
  target_include_directories(
    neap_test_setting INTERFACE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include"
                                "${PROJECT_SOURCE_DIR}/tests/support")
  target_compile_definitions(
    neap_test_setting
    INTERFACE "NEAP_CLI=\"${PROJECT_BINARY_DIR}/neap\"" "NEAP_BINARY_DIR=\"${PROJECT_BINARY_DIR}\""
              "NEAP_SOURCE_DIR=\"${CMAKE_SOURCE_DIR}\""
              "NEAP_SHARED_DIR=\"${CMAKE_SOURCE_DIR}/../shared\"" NEAP_HAS_HIGHS=${NEAP_HAS_HIGHS}
              NEAP_HAS_ONEDNN=${NEAP_HAS_ONEDNN}
              NEAP_HAS_EMULATION=${NEAP_HAS_EMULATION}
              NEAP_HAS_PNG=${NEAP_HAS_PNG} NEAP_HAS_ONNX=${NEAP_HAS_ONNX}
              "NEAP_TEST_NVRTC=\"${NEAP_DEPS_DIR}/nvrtc-13.0/lib/libnvrtc.so.13\"" # a line in tools/setup.sh
              NEAP_TEST_FULL=$<BOOL:${NEAP_TEST_FULL}>
              NEAP_TEST_REDUCED=$<AND:$<BOOL:${NEAP_TEST_REDUCED}>,$<NOT:$<BOOL:${NEAP_TEST_FULL}>>>)
  target_link_libraries(neap_test_setting INTERFACE neap_options neap_static PkgConfig::CMOCKA)

  # Stand-ins for NVIDIA's libraries, named like them.
  set(NEAP_FAKES neap_fake_cuda neap_fake_nvrtc)
  add_library(neap_fake_cuda MODULE "${PROJECT_SOURCE_DIR}/tests/fakes/libcuda.c")
  add_library(neap_fake_nvrtc MODULE "${PROJECT_SOURCE_DIR}/tests/fakes/libnvrtc.c")
  set_target_properties(neap_fake_cuda PROPERTIES OUTPUT_NAME libcuda.so SUFFIX .1)
  set_target_properties(neap_fake_nvrtc PROPERTIES OUTPUT_NAME libnvrtc.so SUFFIX .13)
  foreach(fake IN LISTS NEAP_FAKES)
    set_target_properties(${fake} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY
                                                       "${PROJECT_BINARY_DIR}/tests/fakes")
    target_include_directories(${fake} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
    target_link_libraries(${fake} PRIVATE neap_options)
  endforeach()

  if(NEAP_TEST_SUPPORT)
    add_library(neap_test_support STATIC ${NEAP_TEST_SUPPORT})
    target_link_libraries(neap_test_support PRIVATE neap_test_setting)
  endif()

  foreach(source IN LISTS NEAP_TEST_SOURCES)
    get_filename_component(subject "${source}" NAME_WE)
    get_filename_component(folder "${source}" DIRECTORY)
    get_filename_component(kind "${folder}" NAME)
    set(target "${kind}-${subject}")
    add_executable(${target} "${source}")
    set_target_properties(${target} PROPERTIES OUTPUT_NAME "${subject}" RUNTIME_OUTPUT_DIRECTORY
                                               "${PROJECT_BINARY_DIR}/tests/${kind}")
    if(TARGET neap_test_support)
      target_link_libraries(${target} PRIVATE neap_test_support)
    endif()
    target_link_libraries(${target} PRIVATE neap_test_setting)
    add_dependencies(${target} ${NEAP_FAKES})
    if(TARGET neap)
      add_dependencies(${target} neap) # tests may start the command
    endif()
    neap_register_test(${target} cmocka "${kind}/${subject}")
  endforeach()

  # NVIDIA's headers, where they are installed, are read by one test alone.
  if(TARGET unit-test_cuda_constants AND EXISTS "/usr/local/cuda/include/cudnn_graph.h")
    target_include_directories(unit-test_cuda_constants SYSTEM PRIVATE "/usr/local/cuda/include")
  endif()
endif()

# --- cuBLASLt: what was copied from its headers is compared with them where they are ------------

find_path(cublaslt_headers cublasLt.h PATHS /usr/local/cuda/include NO_CACHE)
if(TARGET unit-test_cublaslt AND cublaslt_headers)
  target_include_directories(unit-test_cublaslt SYSTEM PRIVATE "${cublaslt_headers}")
endif()

# --- reports in a browser: tests/browser/run.py with this build's command; once is enough --------

find_package(Python3 COMPONENTS Interpreter QUIET)
if(TARGET neap AND Python3_FOUND AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT NEAP_SANITIZE)
  set(browser_tests "${PROJECT_BINARY_DIR}/tests/browser/test_report")
  file(
    GENERATE
    OUTPUT "${browser_tests}"
    CONTENT "#!/bin/sh
exec \"${Python3_EXECUTABLE}\" \"${PROJECT_SOURCE_DIR}/tests/browser/run.py\" \"$<TARGET_FILE:neap>\" \"$@\"
"
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  add_test(NAME browser/test_report COMMAND "${browser_tests}")
  string(APPEND NEAP_TEST_LIST "plain browser/test_report ${browser_tests}\n")
endif()

file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/tests.list" CONTENT "${NEAP_TEST_LIST}")
