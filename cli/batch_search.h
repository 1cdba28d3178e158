/*
 * batch_search.h - the largest batch in a budget: what max-batch and plan --objective batch share.
 */
#ifndef NEAP_CLI_BATCH_SEARCH_H
#define NEAP_CLI_BATCH_SEARCH_H

#include "solve.h"

#include <neap/batch.h>

/* What one method made of it. All zero is nothing. */
typedef struct cli_batch_row {
    bool solved; /* false: the method cannot do this at all; `note` says why */
    neap_batch_result result;
    neap_diag note;
} cli_batch_row;

typedef struct cli_batch_search {
    const cli_settings *settings;
    const char *who;          /* finds it, for errors: "max-batch" */
    const char *batch_option; /* that sets a batch, likewise: "--set batch=" */
    cli_loaded model;
    int64_t budget;
    int64_t most; /* batches that the model takes */
    double time_limit;
    cli_methods methods;
    cli_batch_row *rows; /* one a method */
    uint32_t n_done;     /* of them; fewer than methods after Ctrl-C */
} cli_batch_search;

/* Loads the model and asks each --method. settings, who and batch_option are given. */
int cli_batch_search_run(cli_batch_search *search);
void cli_batch_search_clear(cli_batch_search *search);

/* The row with the largest batch, the first of them; NULL: none fits. */
cli_batch_row *cli_batch_search_best(const cli_batch_search *search);
/* The line and the exit code where none does. */
int cli_batch_search_fail(cli_batch_search *search);

/* The graph of a batch, with the model's settings; or the file's, scaled. `context` is the search.
 */
neap_status cli_batch_graph(void *context, int64_t batch, neap_graph **graph, neap_diag *diag);

#endif
