/* measured.h - a backend, and a model with times measured on it; shared by profile and train. */
#ifndef NEAP_CLI_MEASURED_H
#define NEAP_CLI_MEASURED_H

#include "load.h"
#include "progress.h"

#include <neap/run.h>

/* All zero is nothing. */
typedef struct cli_measured {
    neap_backend *backend;
    neap_profile_report profile;
    bool known; /* nothing was measured: the graph's file has the kernels of --plan */
} cli_measured;

/*
 * Opens the backend and measures the model's kernels on it, or reads their times from the profile
 * cache; with --plan, a graph that was measured on this machine keeps the kernels that the plan
 * chose from. The model then has these times, and no device. Returns an exit code, after an error
 * line on stderr if it is not CLI_OK.
 */
int cli_measure(const cli_settings *settings, cli_loaded *model, cli_progress *progress,
                cli_measured *measured);
/* Opens the backend of the command line, and measures its link with --link measured. */
int cli_backend_open(const cli_settings *settings, cli_loaded *model, neap_backend **backend);
/* Measures the kernels of a graph, as cli_measure those of the model. Ctrl-C makes it fail.
   `progress` may be NULL. */
neap_status cli_profile_graph(const cli_settings *settings, const cli_loaded *model,
                              neap_backend *backend, cli_progress *progress, neap_graph *graph,
                              neap_diag *diag);
/* Loads the model of the command line; with --backend, its times are then measured there. */
int cli_load_with_times(const cli_settings *settings, cli_loaded *model);
void cli_measured_clear(cli_measured *measured);
/* Marks the cached times as wrong, so that the next command measures again, and reports it. */
void cli_measured_doubt(const cli_settings *settings, const cli_loaded *model,
                        const cli_measured *measured);

#endif
