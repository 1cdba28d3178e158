/*
 * Small matrix products inside one thread: C = A B, or C += A B.
 *
 * A is read element by element and may have any strides, so that a transposed matrix needs no copy.
 * B is read in strips of 32 columns whose rows have no gaps: either the columns of a row-major
 * matrix, or strips packed one after the other. Extents are padded by the caller: rows of C to a
 * multiple of 8, columns to one of 16.
 */
#ifndef NEAP_RUN_OMP_GEMM_H
#define NEAP_RUN_OMP_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#define OMP_GEMM_ROWS    8
#define OMP_GEMM_COLUMNS 16
#define OMP_GEMM_STRIP   32

typedef struct omp_gemm_a {
    const float *at;
    int64_t row, column; /* steps */
} omp_gemm_a;

typedef struct omp_gemm_b {
    const float *at;
    int64_t row;   /* from a row to the next, within a strip */
    int64_t strip; /* from a strip to the next: OMP_GEMM_STRIP where B is row-major */
} omp_gemm_b;

typedef struct omp_gemm_c {
    float *at;
    int64_t row;
    bool add; /* to what is there */
} omp_gemm_c;

/* C: rows x columns, A: rows x depth, B: depth x columns. */
typedef void omp_gemm(omp_gemm_a a, omp_gemm_b b, omp_gemm_c c, int64_t rows, int64_t columns,
                      int64_t depth);

/* The fastest for this processor. */
omp_gemm *neap_omp_gemm_choose(void);

#endif
