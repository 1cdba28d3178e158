/*
 * Matrix products and sums of columns by kernels of our own (kernels/gemm.cu), for any strides.
 *
 *     d[m, n] = the sum over k of a[m, k] b[k, n], plus bias[n]
 *
 * Workspace holds partial sums; with less of it sums are split into fewer parts. How they are split
 * depends on shapes, types and the room given, never on addresses.
 */
#ifndef NEAP_CUDA_GEMM_H
#define NEAP_CUDA_GEMM_H

#include "run/backends/cuda/cuda.h"
#include "run/backends/cuda/kernels/gemm.h"

/* The two indices of a matrix: of a, m and k; of b, k and n; of d, m and n. */
typedef struct cuda_matrix {
    gemm_axis row, column;
    int64_t batch; /* the stride to the next matrix */
} cuda_matrix;

typedef struct cuda_product {
    neap_dtype type; /* of all operands */
    int64_t m, n, k;
    int64_t batches; /* at most 65,535; 1 with bias */
    cuda_matrix a, b, d;
    bool bias;
    int64_t bias_stride;
} cuda_product;

/* All dimensions of an array but the last, and the last; those of extent 1 are dropped, and those
   that can be are merged. */
gemm_axis neap_cuda_rows(const run_array *array);
gemm_axis neap_cuda_columns(const run_array *array);
cuda_matrix neap_cuda_matrix(const run_array *array);
/* Rows for columns. */
cuda_matrix neap_cuda_transposed(cuda_matrix matrix);
/* Whether index i lies at i * strides[0]. */
static inline bool cuda_axis_is_even(const gemm_axis *axis)
{
    return axis->dims == 1;
}

typedef struct cuda_addresses {
    const void *a, *b, *bias;
    void *d;
} cuda_addresses;

typedef struct cuda_gemm {
    const cuda_function *tiles, *finish;
    gemm_params params;
    cuda_dims dims;
    int64_t splits, batches;
} cuda_gemm;

/* The workspace that suits the product best; `most` limits it, and may be 0. */
int64_t neap_cuda_gemm_workspace(const cuda_product *product, int64_t most);
neap_status neap_cuda_gemm_plan(cuda_backend *backend, const cuda_product *product, int64_t most,
                                cuda_gemm *gemm, neap_diag *diag);
neap_status neap_cuda_gemm_run(cuda_backend *backend, const cuda_gemm *gemm,
                               const cuda_addresses *at, void *workspace, neap_diag *diag);

/* The sum of each column of a matrix. */
typedef struct cuda_column_sums {
    const cuda_function *sum, *finish;
    gemm_sums_params params;
    int64_t chunks;
    bool can_use_vectors;
} cuda_column_sums;

int64_t neap_cuda_column_sums_workspace(neap_dtype type, int64_t rows, int64_t columns,
                                        int64_t most);
neap_status neap_cuda_column_sums_plan(cuda_backend *backend, neap_dtype type, int64_t rows,
                                       int64_t columns, const cuda_matrix *x, int64_t sum_stride,
                                       int64_t most, cuda_column_sums *sums, neap_diag *diag);
neap_status neap_cuda_column_sums_run(cuda_backend *backend, const cuda_column_sums *sums,
                                      const void *x, void *to, void *workspace, neap_diag *diag);

#endif
