/*
 * measured.h - a backend, and a model with the times that it measured: what profile and train
 * share.
 */
#ifndef NEAP_CLI_MEASURED_H
#define NEAP_CLI_MEASURED_H

#include "load.h"
#include "progress.h"

#include <neap/run.h>

/* All zero is nothing. */
typedef struct cli_measured {
    neap_backend *backend;
    neap_profile_report profile;
} cli_measured;

/*
 * Opens the backend and measures the model's kernels on it, or takes their times from the file
 * where they are kept. The model then has them, and no device. An exit code, after the line on
 * stderr if it is not CLI_OK.
 */
int cli_measure(const cli_settings *settings, cli_loaded *model, cli_progress *progress,
                cli_measured *measured);
void cli_measured_clear(cli_measured *measured);
/* Notes that the times kept are wrong, so that the next command measures them, and says so. */
void cli_measured_doubt(const cli_settings *settings, const cli_loaded *model,
                        const cli_measured *measured);

#endif
