# complete.bash SCRIPT WORD...: what bash offers for the last word, with the completion SCRIPT, on one line. A last
# word _ is an empty one. Words are cut at = as bash does.
source "$1"
shift
COMP_WORDS=()
for word in "$@"; do
    if [[ $word == --*=* ]]; then
        COMP_WORDS+=("${word%%=*}" "=")
        [[ -z ${word#*=} ]] || COMP_WORDS+=("${word#*=}")
    else
        COMP_WORDS+=("$word")
    fi
done
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
[[ ${COMP_WORDS[COMP_CWORD]} == _ ]] && COMP_WORDS[COMP_CWORD]=
compopt() { :; } # only while a key is pressed
complete -p neap | grep -q -- '-F _neap' || exit 1
_neap
echo "${COMPREPLY[*]}"
