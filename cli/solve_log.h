/*
 * solve_log.h - how a search goes, a line whenever its best plan or its bound improves:
 *
 *      seconds    best time  overhead        bound      gap
 *         0.02     61.21 ms     12.4%     54.45 ms    12.4%
 *
 * At most a few lines a second; what came in between shows in the next line, or the last.
 */
#ifndef NEAP_CLI_SOLVE_LOG_H
#define NEAP_CLI_SOLVE_LOG_H

#include <neap/text.h>
#include <stdbool.h>

typedef struct cli_solve_log {
    double base_time;   /* every op once, in seconds; 0: unknown */
    double best, bound; /* last shown in this section; negative: none */
    double shown;       /* when; negative: nothing in this section */
    bool headed;        /* the columns' titles stand there */
    char section[128];  /* what the lines are about; "": only one thing */
} cli_solve_log;

void cli_solve_log_init(cli_solve_log *log, double base_time);

/* What the next lines are about, if it is something else than before. */
void cli_solve_log_section(cli_solve_log *log, const char *title);

/* Adds lines, if there is something to tell: best and bound as they stand, negative for none. At
   the end of a solve the last state is told in any case. */
void cli_solve_log_add(cli_solve_log *log, double seconds, double best, double bound, bool at_end,
                       neap_text *lines);

#endif
