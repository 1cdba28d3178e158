/*
 * completion.h - scripts that complete neap's command line in a shell, from the same tables as the
 * help: commands, options, the words that options take, names of models, methods and devices.
 */
#ifndef NEAP_CLI_COMPLETION_H
#define NEAP_CLI_COMPLETION_H

#include "command.h"

/* What completes a word. */
typedef enum completion_kind {
    COMPLETION_NONE = 0, /* nothing: any text, such as a size */
    COMPLETION_FILES,
    COMPLETION_WORDS, /* one of some words */
    COMPLETION_LIST,  /* such words with commas between them */
    COMPLETION_WORDS_OR_FILES
} completion_kind;

/* What completes the argument of an option; its words, separated by blanks, go to `words`. */
completion_kind completion_of_option(const cli_option *option, neap_text *words);
/* What completes an operand of a command, the first being 0. */
completion_kind completion_of_operand(const cli_command *command, size_t index, neap_text *words);

/* The words of an option's help up to its first clause, at most about 60 characters. */
void completion_summary(const cli_option *option, neap_text *out);
/* Adds text inside single quotes of a shell: 'it'\''s'. */
void completion_quoted(neap_text *out, const char *text);

void completion_bash(neap_text *out);
void completion_zsh(neap_text *out);
void completion_fish(neap_text *out);

#endif
