/*
 * resume.h - what a checkpoint says about the training that wrote it.
 */
#ifndef NEAP_CLI_RESUME_H
#define NEAP_CLI_RESUME_H

#include "options.h"

#include <neap/safetensors.h>

/*
 * Opens the checkpoint of settings->resume. What the command line leaves open is taken from it:
 * seed, data set, learning rate, momentum, weight decay, warm-up and cosine. Another seed or data
 * set than the checkpoint's is an error; a rate or the like may change, which a line says.
 * Settings then have texts of *file, which the caller closes.
 */
int cli_resume_settings(cli_settings *settings, neap_safetensors **file);

#endif
