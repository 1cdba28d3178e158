/*
 * train_log.h - neap train --log: one line of JSON for each step, in a file that can be followed.
 *
 * Every line has the same fields, so that programs read the file as a table. A line is written by
 * one call when its step has ended: a crash loses at most the line that is being written.
 */
#ifndef NEAP_CLI_TRAIN_LOG_H
#define NEAP_CLI_TRAIN_LOG_H

#include <neap/text.h>
#include <neap/train.h>

typedef struct cli_training cli_training;

typedef struct cli_train_log {
    int file;           /* -1: none */
    neap_text constant; /* the fields that are the same in every line */
    neap_text line;
} cli_train_log;

/* Whether an old log can be continued: CLI_BAD_INPUT if the file is something else. */
int cli_train_log_check(const char *path, bool append);
/* Opens the file of --log, if there is one: a new one, or for --resume the old one. */
int cli_train_log_open(cli_training *t);
int cli_train_log_add(cli_training *t, const neap_train_report *report);
void cli_train_log_close(cli_train_log *log);

#endif
