# Writes a page as a C array: cmake -D FOLDER=... -D OUTPUT=... -P embed_page.cmake. FOLDER has report.html with the
# marks /*NEAP-CSS*/ and /*NEAP-JS*/, whose places report.css and the scripts js/*.js, in the order of their names, take;
# the other marks are for src/report/report_page.c. Each mark must be there once.

function(read_file name variable)
  file(READ "${FOLDER}/${name}" text)
  string(TOLOWER "${text}" lower)
  if(NOT name STREQUAL "report.html" AND lower MATCHES "</(script|style)|<!--")
    message(FATAL_ERROR "${name}: \"${CMAKE_MATCH_0}\" would end the element that it stands in")
  endif()
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

read_file(report.html page)
foreach(mark IN ITEMS "/*NEAP-CSS*/" "/*NEAP-JS*/" "NEAP-TITLE" "<!--NEAP-DATA-->")
  string(FIND "${page}" "${mark}" first)
  string(FIND "${page}" "${mark}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "report.html must have ${mark} exactly once")
  endif()
endforeach()
read_file(report.css style)
set(script "")
file(GLOB names RELATIVE "${FOLDER}" "${FOLDER}/js/*.js")
list(SORT names)
foreach(name IN LISTS names)
  read_file("${name}" part)
  string(APPEND script "${part}\n")
endforeach()
string(REPLACE "/*NEAP-CSS*/" "${style}" page "${page}")
string(REPLACE "/*NEAP-JS*/" "${script}" page "${page}")

string(HEX "${page}" bytes)
string(REPEAT "[0-9a-f]" 40 line)
string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE "${OUTPUT}" "/* Made by cmake/embed_page.cmake. */
#include \"report/report_page.h\"

static const unsigned char page[] = {
${bytes}0};
const char *const neap_report_page = (const char *)page;
const size_t neap_report_page_length = sizeof page - 1;
")
