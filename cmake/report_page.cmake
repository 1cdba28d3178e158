# The page of a report becomes part of the library, as one text: report.html with its style and its scripts inside.

set(page_folder "${PROJECT_SOURCE_DIR}/src/report/web")
set(page_source "${PROJECT_BINARY_DIR}/generated/report_page_source.c")
file(GLOB page_files CONFIGURE_DEPENDS "${page_folder}/*.html" "${page_folder}/*.css" "${page_folder}/js/*.js")
add_custom_command(
  OUTPUT "${page_source}"
  COMMAND "${CMAKE_COMMAND}" -D "FOLDER=${page_folder}" -D "OUTPUT=${page_source}" -P
          "${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake"
  DEPENDS ${page_files} "${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake"
  VERBATIM)
list(APPEND NEAP_SOURCES "${page_source}")
