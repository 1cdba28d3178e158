/*
 * A matrix product with its variants: cuBLASLt's algorithms, and last the kernel of our own, which
 * also serves where the library cannot take operands as they lie or their addresses as they are.
 *
 * With `sums`, the sum of each row of a over k comes with it: the gradient of a bias. The variants
 * with an algorithm for the product and sums of our own come first, then those whose algorithm does
 * both, then our own.
 */
#ifndef NEAP_CUDA_MATMUL_H
#define NEAP_CUDA_MATMUL_H

#include "run/backends/cuda/cublaslt_matmul.h"
#include "run/backends/cuda/gemm.h"

typedef struct cuda_matmul_form {
    cuda_product product;
    bool sums;
    int64_t sum_stride;
} cuda_matmul_form;

typedef struct cuda_matmul {
    bool library; /* else kernels of our own */
    bool vector;  /* the library adds the bias or sums up */
    bool bias, sums;
    cublaslt_matmul by_library;
    cuda_gemm own;
    cuda_column_sums own_sums;
} cuda_matmul;

/* Up to RUN_MOST_VARIANTS, and their workspaces. */
neap_status neap_cuda_matmul_variants(cuda_backend *backend, const cuda_matmul_form *form,
                                      int64_t *workspaces, uint32_t *count, neap_diag *diag);
/* Clear the zeroed struct after a failure too. */
neap_status neap_cuda_matmul_plan(cuda_backend *backend, const cuda_matmul_form *form,
                                  uint32_t variant, cuda_matmul *matmul, neap_diag *diag);
void neap_cuda_matmul_clear(cuda_backend *backend, cuda_matmul *matmul);
/* `sums` is where the sums go, if there are any. */
neap_status neap_cuda_matmul_run(cuda_backend *backend, const cuda_matmul *matmul,
                                 const cuda_addresses *at, void *sums, void *workspace,
                                 neap_diag *diag);

/*
 * Plain batches, for ops made of several products: matrices [rows, columns] of a batch are `stride`
 * apart, their rows `ld` apart; transposed ones are stored as [columns, rows].
 */
typedef struct cuda_batched_matrix {
    int64_t ld, stride;
    bool transposed;
} cuda_batched_matrix;

/* At most 65,535 batches. */
cuda_matmul_form neap_cuda_batched_matmul(neap_dtype type, int64_t batches, int64_t m, int64_t n,
                                          int64_t k, cuda_batched_matrix a, cuda_batched_matrix b,
                                          cuda_batched_matrix d);

#endif
