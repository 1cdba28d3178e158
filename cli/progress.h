/*
 * progress.h - a status line on stderr during long work, and Ctrl-C.
 *
 * The line appears only on a terminal and only after the first second. With a log, lines about the
 * search are written as well, on a terminal or not. The first Ctrl-C (or SIGTERM) asks the work to
 * end with the best result so far; a second one ends the process.
 */
#ifndef NEAP_CLI_PROGRESS_H
#define NEAP_CLI_PROGRESS_H

#include "solve_log.h"

#include <neap/progress.h>
#include <stdint.h>

typedef struct cli_progress {
    neap_progress base;
    double begin; /* when the work began */
    double shown; /* when the line was last written; negative: there is none */
    bool on_terminal;
    const char *purpose;  /* of all that follows, where it is not what was asked for; or NULL */
    const char *label;    /* a method, or what is being done; NULL: none */
    const char *phase;    /* in the line as shown; of an event, whose texts are constants */
    uint32_t done, total; /* parts of the work; total 0: it has none */
    bool logs;
    cli_solve_log log;
} cli_progress;

/* Begins to catch Ctrl-C. May be nested: the outermost catches it. */
void cli_progress_begin(cli_progress *progress);
/* Keeps a log of the search. base_time: every op once, in seconds; 0: unknown. */
void cli_progress_log(cli_progress *progress, double base_time);
/* Announces the next work: part `done` of `total`. */
void cli_progress_part(cli_progress *progress, const char *label, uint32_t done, uint32_t total);
/* Clears the line and stops catching Ctrl-C. */
void cli_progress_end(cli_progress *progress);

/* Whether stderr is a terminal on which a line can be rewritten. */
bool cli_live_terminal(void);
/* Whether Ctrl-C was pressed. */
bool cli_interrupted(void);
/* Seconds on a monotonic clock. */
double cli_clock(void);

#endif
