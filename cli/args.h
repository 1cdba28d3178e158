/*
 * args.h - the command line: options that describe themselves, and operands.
 *
 * An option is `--name value`, `--name=value` or, for a few, `-n value`; `--` ends options, `-` is
 * an operand. Options and operands mix. The parser knows nothing of what options mean: each has a
 * function that puts its value into the settings (options.c).
 *
 * A default is a text that passes through the same function before the command line is read, and
 * the help prints that text, so the two cannot differ.
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
    const char *words;   /* for the help, where the value does not say it all */
} cli_default;

enum { CLI_MOST_DEFAULTS = 5, CLI_MOST_CHOICES = 5 };

struct cli_option {
    const char *name;     /* without its dashes */
    char letter;          /* 0: none */
    const char *argument; /* what it takes, for the help; NULL: nothing */
    unsigned group;       /* one bit of those a command takes */
    const char *section;  /* the help's heading */
    const char *help;     /* "%s" stands for what `list` writes */
    void (*list)(neap_text *out);
    /* Returns CLI_OK, or another exit code after an error line. */
    int (*set)(const cli_option *option, cli_settings *settings, const char *value);
    bool is_pair;        /* NAME=VALUE: `value` is NAME, and VALUE follows its NUL */
    size_t field;        /* where in the settings the value goes, for setters that share it */
    int64_t least, most; /* of a number; most 0: no limit */
    cli_choice choices[CLI_MOST_CHOICES]; /* ended by one without a name */
    cli_default defaults[CLI_MOST_DEFAULTS];
};

/* Parses what follows the command's name. An exit code; the line on stderr is written. */
int cli_args_parse(const cli_command *command, int count, char **arguments, cli_settings *settings);

/* An option's meaning with its choices and its default for the command. */
void cli_option_describe(const cli_option *option, const cli_command *command, neap_text *out);

/* Calls `visit` for each option that the command takes, section by section. */
void cli_args_visit(const cli_command *command,
                    void (*visit)(void *context, const cli_option *option), void *context);

#endif
