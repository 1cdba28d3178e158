/*
 * batch_search.h - the largest batch in a budget: what max-batch and plan --objective batch share.
 */
#ifndef NEAP_CLI_BATCH_SEARCH_H
#define NEAP_CLI_BATCH_SEARCH_H

#include "solve.h"

#include <neap/batch.h>
#include <neap/run.h>

/* The result of one method. All zero: none. */
typedef struct cli_batch_row {
    bool solved; /* false: the method does not support the request; `note` says why */
    neap_batch_result result;
    neap_diag note;
} cli_batch_row;

/* The measured graph of a batch, as text. */
typedef struct cli_measured_batch {
    int64_t batch;
    char *text;
    size_t length;
} cli_measured_batch;

typedef struct cli_batch_search {
    const cli_settings *settings;
    const char *who;          /* name of the search, for errors: "max-batch" */
    const char *batch_option; /* the option that sets a batch, for errors: "--set batch=" */
    cli_loaded model;
    neap_backend *backend; /* with --backend: kernels are measured for every batch; else NULL */
    int64_t budget;
    int64_t most; /* the largest batch that the model supports */
    double time_limit;
    cli_progress *progress;       /* of the method that is searched for */
    cli_measured_batch *measured; /* each batch is measured once: the kernels of a plan must last */
    size_t n_measured, measured_capacity;
    bool interrupted;  /* while kernels were measured, */
    neap_diag message; /* which is said here */
    cli_methods methods;
    cli_batch_row *rows; /* one per method */
    uint32_t n_done;     /* finished rows; fewer than methods after Ctrl-C */
} cli_batch_search;

/* Loads the model and runs each --method. The caller sets settings, who and batch_option. */
int cli_batch_search_run(cli_batch_search *search);
void cli_batch_search_clear(cli_batch_search *search);

/* The first row with the largest batch; NULL if none fits. */
cli_batch_row *cli_batch_search_best(const cli_batch_search *search);
/* Writes the error line if no batch fits, and returns the exit code. */
int cli_batch_search_fail(cli_batch_search *search);

/*
 * The graph for a batch: the model with its settings, or the file's graph, scaled. `context` is the
 * search.
 */
neap_status cli_batch_graph(void *context, int64_t batch, neap_graph **graph, neap_diag *diag);

#endif
