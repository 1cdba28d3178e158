/*
 * Matrix products by cuBLASLt: which algorithms there are for a problem, and running one.
 *
 * cuBLASLt's matrices are column-major, so that our row-major d = a b is its d^T = b^T a^T: its A
 * is our b, its B is our a, and its M is our n. Then the bias that is added runs along its rows, as
 * its epilogue wants it, and the sum of our a over k is the gradient that its epilogue BGRADB
 * gives.
 */
#ifndef NEAP_CUBLASLT_MATMUL_H
#define NEAP_CUBLASLT_MATMUL_H

#include "run/backends/cuda/cublaslt_constants.h"
#include "run/backends/cuda/gemm.h"

/* A column-major matrix. */
typedef struct cublaslt_shape {
    int64_t rows, columns, ld, batch;
} cublaslt_shape;

/* In the library's terms. Equal problems have equal bytes: begin with zeros. */
typedef struct cublaslt_problem {
    int32_t type, compute, epilogue;
    int32_t transpose_a, transpose_b;
    int32_t batches;
    cublaslt_shape a, b, d;
} cublaslt_problem;

/* False if the library cannot take the operands as they lie. */
bool neap_cublaslt_pose(const cuda_product *product, int32_t epilogue, bool tf32,
                        cublaslt_problem *problem);

typedef struct cublaslt_candidate {
    cublaslt_algo algo;
    int64_t workspace; /* what it needs, its alignment included */
    float waves;
    int64_t limit; /* of the search that found it first */
} cublaslt_candidate;

/* All that there are, the library's first choice at the usual limit of workspace in front; maybe
   none. The same each time; they live as long as the backend. */
neap_status neap_cublaslt_candidates(cuda_backend *backend, const cublaslt_problem *problem,
                                     const cublaslt_candidate **candidates, uint32_t *count,
                                     neap_diag *diag);
/* For the closing backend. `cache` may be NULL. */
void neap_cublaslt_cache_delete(neap_allocator *allocator, cublaslt_cache *cache);

typedef struct cublaslt_matmul {
    cublaslt_desc desc;
    cublaslt_layout a, b, d;
    cublaslt_candidate candidate;
    bool has_vector; /* a bias, or the gradient of one */
} cublaslt_matmul;

/* Clear the zeroed struct after a failure too. */
neap_status neap_cublaslt_matmul_init(cuda_backend *backend, const cublaslt_problem *problem,
                                      const cublaslt_candidate *candidate, cublaslt_matmul *matmul,
                                      neap_diag *diag);
void neap_cublaslt_matmul_clear(cuda_backend *backend, cublaslt_matmul *matmul);
/* Addresses are multiples of 16. `vector` is the bias to add, or where the sums of a go. */
neap_status neap_cublaslt_matmul_run(cuda_backend *backend, const cublaslt_matmul *matmul,
                                     const cuda_addresses *at, void *vector, void *workspace,
                                     neap_diag *diag);

#endif
