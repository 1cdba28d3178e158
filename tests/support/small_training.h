/*
 * Training with the executor alone: weights and data from a fixed seed, momentum, and a hash of all
 * results, to compare runs to the bit.
 */
#ifndef NEAP_TESTS_SMALL_TRAINING_H
#define NEAP_TESTS_SMALL_TRAINING_H

#include <neap/run.h>

/* Of one training: for each step the loss and all gradients, then all weights. */
typedef struct training_record {
    uint32_t per_step;
    uint32_t steps;
    uint64_t *hashes; /* steps x per_step */
    double loss;      /* of the last step */
    double seconds;   /* of all steps */
    int64_t arena_bytes, host_bytes;
    uint64_t transferred;
} training_record;

/* Fills all inputs with what the ops that read them can take. */
neap_status small_training_fill(neap_runner *runner, const neap_graph *graph, neap_diag *diag);

/* Runs a plan and updates the weights, `steps` times. The graph may be split (neap/split.h). Clear
   the record in any case. */
neap_status small_training_run(const neap_graph *graph, const neap_plan *plan,
                               neap_backend *backend, const neap_run_options *options,
                               uint32_t steps, training_record *record, neap_diag *diag);
void training_record_clear(training_record *record);
/* The index of the first hash that differs, or UINT32_MAX. */
uint32_t training_record_compare(const training_record *a, const training_record *b);
/* What the n-th hash is of: "step 2, gradient of conv1.weight". */
void training_record_name(const neap_graph *graph, const training_record *record, uint32_t index,
                          char *text, size_t capacity);

#endif
