# Proves that each public header compiles alone, survives being included twice, and defines nothing
# that collides when two files of one program include it. Where a C++ compiler exists, the headers
# must compile there as well.

if(NOT NEAP_PUBLIC_HEADERS)
  return()
endif()

set(folder "${PROJECT_BINARY_DIR}/generated/header_selfcheck")
set(declarations "")
set(calls "")
set(sources "")
list(LENGTH NEAP_PUBLIC_HEADERS count)
foreach(header IN LISTS NEAP_PUBLIC_HEADERS)
  get_filename_component(file_name "${header}" NAME)
  string(MAKE_C_IDENTIFIER "${file_name}" id)
  foreach(copy IN ITEMS a b)
    set(source "${folder}/${id}_${copy}.c")
    file(
      CONFIGURE
      OUTPUT "${source}"
      CONTENT "#include <neap/@file_name@>
#include <neap/@file_name@>
int selfcheck_@id@_@copy@(void);
int selfcheck_@id@_@copy@(void)
{
    return 1;
}
"
      @ONLY)
    list(APPEND sources "${source}")
    string(APPEND declarations "int selfcheck_${id}_${copy}(void);\n")
    string(APPEND calls "    files += selfcheck_${id}_${copy}();\n")
  endforeach()
endforeach()
file(
  CONFIGURE
  OUTPUT "${folder}/main.c"
  CONTENT "#include <stdio.h>
@declarations@
int main(void)
{
    int files = 0;
@calls@
    printf(\"header_selfcheck: %d headers in %d files\\n\", @count@, files);
    return files == 2 * @count@ ? 0 : 1;
}
"
  @ONLY)
add_executable(header_selfcheck "${folder}/main.c" ${sources})
set_target_properties(header_selfcheck PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                  "${PROJECT_BINARY_DIR}/tests")
target_include_directories(header_selfcheck PRIVATE "${PROJECT_SOURCE_DIR}/include")
target_link_libraries(header_selfcheck PRIVATE neap_options)
neap_register_test(header_selfcheck plain header_selfcheck)

include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
  set(includes "")
  foreach(header IN LISTS NEAP_PUBLIC_HEADERS)
    get_filename_component(file_name "${header}" NAME)
    string(APPEND includes "#include <neap/${file_name}>\n")
  endforeach()
  file(CONFIGURE OUTPUT "${folder}/all.cpp" CONTENT "@includes@" @ONLY)
  add_library(header_selfcheck_cxx OBJECT "${folder}/all.cpp")
  set_target_properties(header_selfcheck_cxx PROPERTIES CXX_STANDARD 11 CXX_EXTENSIONS OFF)
  target_include_directories(header_selfcheck_cxx PRIVATE "${PROJECT_SOURCE_DIR}/include")
  target_compile_options(header_selfcheck_cxx PRIVATE -Wall -Wextra -Wpedantic)
  target_link_libraries(header_selfcheck_cxx PRIVATE neap_options)
endif()
