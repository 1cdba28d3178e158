/*
 * train_options.h - the options of training and measuring, for the table in options.c.
 */
#ifndef NEAP_CLI_TRAIN_OPTIONS_H
#define NEAP_CLI_TRAIN_OPTIONS_H

#include "options.h"

int cli_apply_backend(cli_settings *settings, char *value);
int cli_apply_profile_cache(cli_settings *settings, char *value);
int cli_apply_fresh(cli_settings *settings, char *value);
int cli_apply_steps(cli_settings *settings, char *value);
int cli_apply_data(cli_settings *settings, char *value);
int cli_apply_plan_file(cli_settings *settings, char *value);
int cli_apply_rate(cli_settings *settings, char *value);
int cli_apply_momentum(cli_settings *settings, char *value);
int cli_apply_weight_decay(cli_settings *settings, char *value);
int cli_apply_warmup(cli_settings *settings, char *value);
int cli_apply_cosine(cli_settings *settings, char *value);
int cli_apply_save(cli_settings *settings, char *value);
int cli_apply_save_every(cli_settings *settings, char *value);
int cli_apply_resume(cli_settings *settings, char *value);
int cli_apply_verify(cli_settings *settings, char *value);
int cli_apply_poison(cli_settings *settings, char *value);

#endif
