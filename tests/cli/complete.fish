# complete.fish SCRIPT WORD...: what fish offers for the last word, with the completion SCRIPT, on one line. A last
# word _ is an empty one.
source $argv[1]
set -l line (string join -- ' ' $argv[2..-1] | string replace --regex -- '_$' '')
complete --do-complete "$line" | string replace --regex '\t.*' '' | string join ' '
exit 0 # joining a single one counts as a failure
