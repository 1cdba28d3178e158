/*
 * solve_log.h - the log of a search, one line whenever its best plan or bound improves:
 *
 *      seconds    best time  overhead        bound      gap
 *         0.02     61.21 ms     12.4%     54.45 ms    12.4%
 *
 * At most a few lines per second; the next line, or the last, covers changes in between.
 */
#ifndef NEAP_CLI_SOLVE_LOG_H
#define NEAP_CLI_SOLVE_LOG_H

#include <neap/text.h>
#include <stdbool.h>

typedef struct cli_solve_log {
    double base_time;   /* every op once, in seconds; 0: unknown */
    double best, bound; /* last shown in this section; negative: none */
    double shown;       /* when; negative: nothing in this section */
    bool headed;        /* the column titles are written */
    char section[128];  /* the subject of the lines; "": there is only one */
} cli_solve_log;

void cli_solve_log_init(cli_solve_log *log, double base_time);

/* Sets the subject of the next lines, if it has changed. */
void cli_solve_log_section(cli_solve_log *log, const char *title);

/*
 * Appends lines if there is news: the current best and bound, negative for none. At the end of a
 * solve the final state is always written.
 */
void cli_solve_log_add(cli_solve_log *log, double seconds, double best, double bound, bool at_end,
                       neap_text *lines);

#endif
