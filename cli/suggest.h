/*
 * suggest.h - the name that was probably meant.
 */
#ifndef NEAP_CLI_SUGGEST_H
#define NEAP_CLI_SUGGEST_H

/* Candidates are offered one by one; the nearest one wins, the earlier of two equally near. */
typedef struct cli_suggestion {
    const char *wrong;
    const char *best; /* NULL while nothing was near enough */
    unsigned distance;
} cli_suggestion;

void cli_suggestion_begin(cli_suggestion *suggestion, const char *wrong);
void cli_suggestion_offer(cli_suggestion *suggestion, const char *candidate);

#endif
