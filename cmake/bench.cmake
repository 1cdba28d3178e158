# Every bench/<name>.c is one program, built as <build>/bench/<name>: the part of a bench that needs the library's
# own headers. The scripts in bench/ build and start them (bench/common.py).

file(GLOB NEAP_BENCH_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.c")

add_custom_target(bench_programs)
foreach(source IN LISTS NEAP_BENCH_SOURCES)
  get_filename_component(name "${source}" NAME_WE)
  add_executable(bench-${name} "${source}")
  set_target_properties(bench-${name} PROPERTIES OUTPUT_NAME "${name}" RUNTIME_OUTPUT_DIRECTORY
                                                 "${PROJECT_BINARY_DIR}/bench")
  target_include_directories(bench-${name} PRIVATE "${PROJECT_SOURCE_DIR}/src"
                                                   "${PROJECT_SOURCE_DIR}/bench")
  target_compile_definitions(bench-${name} PRIVATE NEAP_HAS_ONEDNN=${NEAP_HAS_ONEDNN}
                                                   NEAP_HAS_EMULATION=${NEAP_HAS_EMULATION})
  target_link_libraries(bench-${name} PRIVATE neap_options neap_static ${CMAKE_DL_LIBS})
  add_dependencies(bench_programs bench-${name})
endforeach()
