/*
 * Sorts ids, stably, by kernels of kernels/embedding.cu: equal ids follow each other in the order
 * of their positions. What adds up by id does so in that order.
 */
#ifndef NEAP_CUDA_ID_SORT_H
#define NEAP_CUDA_ID_SORT_H

#include "run/backends/cuda/cuda.h"
#include "run/backends/cuda/kernels/embedding.h"

typedef struct cuda_id_sort {
    const cuda_function *count, *scatter;
    embedding_ids ids;
    int64_t entries; /* ids are below, or sorted as this number */
} cuda_id_sort;

typedef struct cuda_sorted_ids {
    const u32 *keys, *positions;
} cuda_sorted_ids;

/* The ids and the rows that go with them: dimensions `first` and following of `rows` are those of
   the ids. Dimensions that are evenly spaced in both become one. */
embedding_ids neap_cuda_ids(const run_array *ids, const run_array *rows, uint32_t first);

int64_t neap_cuda_id_sort_workspace(int64_t count);
neap_status neap_cuda_id_sort_plan(cuda_backend *backend, const embedding_ids *ids, int64_t entries,
                                   cuda_id_sort *sort, neap_diag *diag);
/* The result lies in the workspace. */
neap_status neap_cuda_id_sort_run(cuda_backend *backend, const cuda_id_sort *sort, const void *ids,
                                  void *workspace, cuda_sorted_ids *sorted, neap_diag *diag);

#endif
