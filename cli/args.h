/*
 * args.h - the command line: options that describe themselves, and operands.
 *
 * An option is `--name value`, `--name=value` or, for a few, `-n value`; `--` ends options, `-` is
 * an operand. Options and operands mix. The parser knows nothing of what options mean: each puts
 * its value into the settings by its own function (options.c).
 */
#ifndef NEAP_CLI_ARGS_H
#define NEAP_CLI_ARGS_H

#include <neap/text.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct cli_settings cli_settings; /* options.h */
typedef struct cli_command cli_command;   /* command.h */

typedef struct cli_option {
    const char *name;     /* without its dashes */
    char letter;          /* 0: none */
    const char *argument; /* what it takes, for the help; NULL: nothing */
    unsigned group;       /* one bit of those a command takes */
    const char *section;  /* the help's heading */
    const char *help;
    /* Returns CLI_OK, or another exit code after an error line. The value, argv's own text, may be
     * cut up. */
    int (*apply)(cli_settings *settings, char *value);
} cli_option;

/* Parses what follows the command's name. An exit code; the line on stderr is written. */
int cli_args_parse(const cli_command *command, int count, char **arguments, cli_settings *settings);

/* The table of options that a command takes, with headings. */
void cli_args_help(const cli_command *command, neap_text *out);

#endif
