/*
 * An array as rows of channels: all dimensions but one, in their order, count rows; the one is the
 * channels of a row. Batch normalisation and biases see images and matrices alike this way.
 */
#ifndef NEAP_RUN_OMP_ROWS_H
#define NEAP_RUN_OMP_ROWS_H

#include "run/backend.h"

typedef struct omp_rows {
    int64_t count, channels;
    int64_t channel_stride;
    bool even;      /* rows follow each other at a stride */
    int64_t stride; /* if so, the stride */
    run_array array;
    uint32_t axis;
} omp_rows;

omp_rows neap_omp_rows_of(const run_array *array, uint32_t axis);

int64_t neap_omp_rows_find(const omp_rows *rows, int64_t row);

/* From the array's address to a row's first element. */
static inline int64_t omp_row(const omp_rows *rows, int64_t row)
{
    return rows->even ? row * rows->stride : neap_omp_rows_find(rows, row);
}

/* Copies to or from a matrix [count, channels] without gaps. */
void neap_omp_rows_copy(const omp_rows *rows, int threads, float *at, float *matrix,
                        bool to_matrix);

/* y[row][c] += b[c] */
void neap_omp_rows_add(const omp_rows *y, int threads, float *at, const float *b);

/* b[c] = the sum of a channel over all rows; needs scratch. */
int64_t neap_omp_rows_sum_bytes(const omp_rows *x, int threads);
void neap_omp_rows_sum(const omp_rows *x, int threads, const float *at, float *b, void *scratch);

#endif
