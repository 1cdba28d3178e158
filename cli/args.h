/*
 * args.h - the command line: options that describe themselves, and operands.
 *
 * An option is `--name value`, `--name=value` or, for a few, `-n value`; `--` ends options, `-` is
 * an operand. Options and operands can be mixed. The parser does not know what options mean: each
 * has a function that stores its value in the settings (options.c).
 *
 * A default is a text that is passed to the same function before the command line is read. The help
 * prints that text, so the two cannot differ.
 */
#ifndef NEAP_CLI_ARGS_H
#define NEAP_CLI_ARGS_H

#include <neap/text.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cli_settings cli_settings; /* options.h */
typedef struct cli_command cli_command;   /* command.h */
typedef struct cli_option cli_option;

/* One of the words that an option takes. */
typedef struct cli_choice {
    const char *name;
    const char *meaning; /* for the help; NULL: the name says it */
    int value;
} cli_choice;

typedef struct cli_default {
    const char *command; /* NULL: every command that no entry before this names */
    const char *value;   /* as it would be typed; NULL: none */
    const char *words;   /* for the help, if the value alone is not enough */
} cli_default;

enum { CLI_MOST_DEFAULTS = 7, CLI_MOST_CHOICES = 6 };

struct cli_option {
    const char *name;     /* without its dashes */
    char letter;          /* 0: none */
    const char *argument; /* its argument, for the help; NULL: none */
    uint64_t group;       /* one bit of a command's `groups` */
    const char *section;  /* the help's heading */
    const char *help;     /* "%s" is replaced by the output of `list` */
    void (*list)(neap_text *out);
    /* Returns CLI_OK, or another exit code after an error line. */
    int (*set)(const cli_option *option, cli_settings *settings, const char *value);
    bool is_pair;        /* NAME=VALUE: `value` is NAME, and VALUE follows its NUL */
    size_t field;        /* offset in the settings, for setters that several options share */
    int64_t least, most; /* of a number; most 0: no limit */
    cli_choice choices[CLI_MOST_CHOICES]; /* ended by one without a name */
    cli_default defaults[CLI_MOST_DEFAULTS];
};

/*
 * Parses the arguments after the command's name. Returns an exit code, after an error line on
 * stderr if it is not CLI_OK.
 */
int cli_args_parse(const cli_command *command, int count, char **arguments, cli_settings *settings);

/* An option's meaning with its choices and its default for the command. */
void cli_option_describe(const cli_option *option, const cli_command *command, neap_text *out);

/* Calls `visit` for each option that the command takes, section by section. */
void cli_args_visit(const cli_command *command,
                    void (*visit)(void *context, const cli_option *option), void *context);

#endif
