# complete.zsh SCRIPT WORD...: what zsh makes of the words and a Tab, with the completion SCRIPT. A last word _ is
# an empty one.
zmodload zsh/zpty || exit 1
zpty shell zsh -f -i
zpty -w shell 'PS1= ; unset zle_bracketed_paste; bindkey -e; autoload -Uz compinit; compinit -D -u'
zpty -w shell "source ${(q)1}"
zpty -w shell 'capture() { print -r -- "<<$BUFFER>>"; exit }; zle -N capture; bindkey "^X" capture; print re''ady'
while zpty -r shell text; do [[ $text == *ready* && $text != *print* ]] && break; done
line="${*[2,-1]}"
zpty -n -w shell "${line%_}"$'\t\x18'
while zpty -r shell text; do
    if [[ $text == *'<<'*'>>'* ]]; then
        text=${text#*<<}
        print -r -- "${text%>>*}"
        break
    fi
done
zpty -d shell
