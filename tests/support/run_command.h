/*
 * run_command.h - starts a program and captures its output and exit status.
 *
 * The program gets a small environment of its own (PATH, TMPDIR and the sanitizers' settings are
 * passed on; LC_ALL is C.UTF-8, TERM is xterm), so that tests do not depend on the user's. If the
 * program cannot be started, the test fails.
 */
#ifndef NEAP_TEST_RUN_COMMAND_H
#define NEAP_TEST_RUN_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

typedef struct run_options {
    const char *folder;      /* where it runs; NULL: here */
    const char *input;       /* its standard input; NULL: empty */
    const char *environment; /* one more "NAME=VALUE", or NULL */
    const char
        *output_path;   /* where its stdout goes instead of `out`, such as /dev/full; or NULL */
    bool closed_output; /* it starts without a stdout */
    bool terminal;      /* its stdout is a terminal */
    int columns;        /* of the terminal; 0: 100 */
    bool errors;        /* its stderr is that terminal, too */
} run_options;

typedef struct run_result {
    int code;  /* exit status; 128 + signal if it was killed */
    char *out; /* NUL-terminated */
    char *err;
} run_result;

/* Runs `program` with the words of a line, which have no quotes: blanks separate them. options may
 * be NULL. */
void run_line(const char *program, const char *line, const run_options *options,
              run_result *result);
void run_result_clear(run_result *result);

/* ---- A program that is watched while it runs ---- */

typedef struct run_child {
    int pid;
    int out, err; /* files of what it writes; `out` is the other end of its terminal */
    bool terminal;
    bool ended;
    int code; /* once it has ended */
} run_child;

void run_start(const char *program, const char *line, const run_options *options, run_child *child);
/* Each waits at most half a minute and says whether it came so: a line on stdout with this text;
 * this much processor time, in milliseconds; a handler for the signal. Not for terminals. */
bool run_wait_output(run_child *child, const char *text);
bool run_wait_cpu(run_child *child, int milliseconds);
bool run_wait_handler(run_child *child, int signal_number);
void run_signal(const run_child *child, int signal_number);
/* Waits until it ends. */
void run_finish(run_child *child, run_result *result);

/* A new empty folder below TMPDIR, whose path the caller frees. */
char *make_temporary_folder(void);
/* Removes it and the files in it. */
void remove_temporary_folder(char *folder);

/* A whole file as text, NULL if it cannot be read; the caller frees it. */
char *read_text_file(const char *path);
void write_text_file(const char *path, const char *text);
/* folder/name; the caller frees it. */
char *join_path(const char *folder, const char *name);

#endif
