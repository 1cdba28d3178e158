/* resume.h - reads the settings of a training from its checkpoint. */
#ifndef NEAP_CLI_RESUME_H
#define NEAP_CLI_RESUME_H

#include "options.h"

#include <neap/safetensors.h>

/*
 * Opens the checkpoint of settings->resume. Settings that the command line leaves open are taken
 * from it: seed, data set, optimizer, micro-batches, learning rate, momentum, weight decay,
 * clipping, warm-up and cosine. A different seed or data set is an error; the rate and similar
 * settings may change, with a note on stderr.
 * The settings then point to texts of *file, which the caller closes.
 */
int cli_resume_settings(cli_settings *settings, neap_safetensors **file);

#endif
