/*
 * The leading dimensions of a product of matrices: which matrices are multiplied with which.
 * Neighbouring dimensions that all three arrays take in even steps are one.
 */
#ifndef NEAP_RUN_BATCHES_H
#define NEAP_RUN_BATCHES_H

#include "run/backend.h"

enum { RUN_BATCH_A, RUN_BATCH_B, RUN_BATCH_Y, RUN_BATCH_OPERANDS };

typedef struct run_batches {
    uint32_t rank; /* at least 1 */
    int64_t extent[NEAP_MAX_RANK];
    int64_t stride[NEAP_MAX_RANK][RUN_BATCH_OPERANDS]; /* in elements */
} run_batches;

/* All dimensions but the last two, which all three arrays have alike. */
run_batches neap_run_batches_of(const run_array *a, const run_array *b, const run_array *y);

#endif
