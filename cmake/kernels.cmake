# The sources of GPU kernels become part of the library: it compiles them for the device that it finds.

set(kernel_folder "${PROJECT_SOURCE_DIR}/src/run/backends/cuda/kernels")
set(kernel_tables "graph/unary.def") # included by kernels, relative to src/
set(kernel_sources "${PROJECT_BINARY_DIR}/generated/kernel_sources.c")
file(GLOB kernel_files CONFIGURE_DEPENDS "${kernel_folder}/*.cu" "${kernel_folder}/*.cuh" "${kernel_folder}/*.h")
add_custom_command(
  OUTPUT "${kernel_sources}"
  COMMAND "${CMAKE_COMMAND}" -D "FOLDER=${kernel_folder}" -D "ROOT=${PROJECT_SOURCE_DIR}/src" -D "TABLES=${kernel_tables}" -D "OUTPUT=${kernel_sources}" -P
          "${PROJECT_SOURCE_DIR}/cmake/embed.cmake"
  DEPENDS ${kernel_files} "${PROJECT_SOURCE_DIR}/src/graph/unary.def" "${PROJECT_SOURCE_DIR}/cmake/embed.cmake"
  VERBATIM)
list(APPEND NEAP_SOURCES "${kernel_sources}")
