# Writes the manual pages and the shells' completions, which the command prints from its tables:
#   cmake -D NEAP=build/neap -D FOLDER=build/generated/share -P generated_docs.cmake

# neap_print(FILE WORD...): what `neap WORD...` prints, to a file.
function(neap_print file)
  execute_process(COMMAND "${NEAP}" ${ARGN} OUTPUT_VARIABLE text RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "neap ${ARGN}: exit status ${code}")
  endif()
  file(WRITE "${file}" "${text}")
endfunction()

file(REMOVE_RECURSE "${FOLDER}")
neap_print("${FOLDER}/man/neap.1" help --man)
file(STRINGS "${FOLDER}/man/neap.1" lines REGEX "^.fBneap.-.*.fR.1.$") # a command each
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^.fBneap.-(.*).fR.1.$" "\\1" name "${line}")
  string(REPLACE "\\-" "-" name "${name}")
  neap_print("${FOLDER}/man/neap-${name}.1" help --man "${name}")
endforeach()
neap_print("${FOLDER}/bash/neap" help --completion bash)
neap_print("${FOLDER}/zsh/_neap" help --completion zsh)
neap_print("${FOLDER}/fish/neap.fish" help --completion fish)
file(TOUCH "${FOLDER}/done")
