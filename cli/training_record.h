/* training_record.h - loss and time of the steps of a training run, for its report. */
#ifndef NEAP_CLI_TRAINING_RECORD_H
#define NEAP_CLI_TRAINING_RECORD_H

#include <stddef.h>
#include <stdint.h>

/*
 * All zero is empty. A long run is thinned out: once there are CLI_MOST_RECORDED steps, every
 * second of them is dropped, and from then on half as many are kept.
 */
typedef struct cli_training_record {
    size_t count;
    int64_t *steps;
    double *losses, *seconds;
    int64_t stride; /* of the steps that are kept */
    int64_t seen;
} cli_training_record;

enum { CLI_MOST_RECORDED = 4096 };

/* Returns an exit code. */
int cli_training_record_add(cli_training_record *record, int64_t step, double loss, double seconds);
void cli_training_record_clear(cli_training_record *record);

#endif
