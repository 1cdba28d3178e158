# Writes files as byte arrays into one C source: cmake -D FOLDER=... -D ROOT=... -D TABLES=... -D OUTPUT=... -P
# embed.cmake. TABLES are more files, named relative to ROOT. Each array ends with a NUL that its size does not count
# (src/run/backends/cuda/sources.h).

file(GLOB names RELATIVE "${FOLDER}" "${FOLDER}/*.cu" "${FOLDER}/*.cuh" "${FOLDER}/*.h")
list(SORT names)
set(arrays "")
set(table "")
foreach(name IN LISTS names TABLES)
  string(MAKE_C_IDENTIFIER "${name}" id)
  set(path "${FOLDER}/${name}")
  if(NOT EXISTS "${path}")
    set(path "${ROOT}/${name}")
  endif()
  file(READ "${path}" bytes HEX)
  string(REPEAT "[0-9a-f]" 40 line)
  string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "static const unsigned char ${id}[] = {\n${bytes}0};\n")
  string(APPEND table "    {\"${name}\", (const char *)${id}, sizeof ${id} - 1},\n")
endforeach()
file(WRITE "${OUTPUT}" "/* Made by cmake/embed.cmake. */
#include \"run/backends/cuda/sources.h\"

${arrays}
const cuda_source neap_cuda_sources[] = {
${table}    {0, 0, 0},
};
")
