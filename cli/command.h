/* command.h - the subcommands. Each is in its own file and describes itself here. */
#ifndef NEAP_CLI_COMMAND_H
#define NEAP_CLI_COMMAND_H

#include "args.h"
#include "options.h"
#include "output.h"

#include <neap/text.h>

typedef struct cli_example {
    const char *line;
    const char *meaning;
} cli_example;

enum { CLI_EXAMPLES = 4 };

typedef struct cli_exit_code {
    int code;
    const char *meaning;
} cli_exit_code;

extern const cli_exit_code cli_exit_codes[CLI_EXIT_CODES];

struct cli_command {
    const char *name;
    const char *operands; /* for the usage line: "MODEL" */
    const char *summary;  /* a few words, for the overview */
    const char *about;    /* what it does and why; paragraphs are kept */
    cli_example examples[CLI_EXAMPLES];
    uint64_t groups; /* groups of options that it accepts */
    size_t least_operands, most_operands;
    /*
     * Appends the output for stdout to `out`; returns an exit code, after an error line on stderr
     * if it is not CLI_OK.
     */
    int (*run)(const cli_settings *settings, neap_text *out);
};

extern const cli_command cli_command_models;
extern const cli_command cli_command_methods;
extern const cli_command cli_command_devices;
extern const cli_command cli_command_graph;
extern const cli_command cli_command_plan;
extern const cli_command cli_command_explain;
extern const cli_command cli_command_doctor;
extern const cli_command cli_command_check;
extern const cli_command cli_command_compare;
extern const cli_command cli_command_curve;
extern const cli_command cli_command_max_batch;
extern const cli_command cli_command_profile;
extern const cli_command cli_command_train;
extern const cli_command cli_command_report;

/* In the order of the overview, ended by NULL. */
extern const cli_command *const cli_commands[];

const cli_command *cli_command_find(const char *name); /* NULL: none */
/* Writes the error line for a name that is not a command. */
int cli_command_unknown(const char *name);

extern const char cli_help_about[]; /* what neap does, in a sentence or two */
void cli_help_overview(neap_text *out);
/* A manual page, for man: of a command, or NULL for neap itself. */
void cli_help_man(const cli_command *command, neap_text *out);
/* The script that completes the command line of a shell; returns an exit code. */
int cli_help_completion(const char *shell, neap_text *out);
void cli_help_command(const cli_command *command, neap_text *out);

#endif
