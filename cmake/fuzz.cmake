# Every tests/fuzz/fuzz_<target>.c is one libFuzzer program, built as <build>/fuzz_<target>. tools/run_fuzz.sh builds
# and runs them.

if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "NEAP_BUILD_FUZZ needs clang: -DCMAKE_C_COMPILER=clang")
endif()

file(GLOB NEAP_FUZZ_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_*.c")
foreach(source IN LISTS NEAP_FUZZ_SOURCES)
  get_filename_component(target "${source}" NAME_WE)
  add_executable(${target} "${source}")
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests/support")
  target_link_libraries(${target} PRIVATE neap_options neap_static)
  target_link_options(${target} PRIVATE -fsanitize=fuzzer)
endforeach()
target_compile_options(neap_options INTERFACE -fsanitize=fuzzer-no-link)
