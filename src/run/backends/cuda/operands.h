/* Operands for kernels: which types they have, and how their rows lie in memory. */
#ifndef NEAP_CUDA_OPERANDS_H
#define NEAP_CUDA_OPERANDS_H

#include "run/backends/cuda/cuda.h"
#include "run/backends/cuda/kernels/row_walk.h"

/* Rows over all dimensions from `first` on but `axis` (or the rank: none). */
row_walk neap_cuda_row_walk(const run_array *array, uint32_t first, uint32_t axis);
/* Whether vectors of `count` elements can be read from every row whose elements are neighbours,
   if the array's address allows it. */
bool neap_cuda_rows_are_whole(const row_walk *rows, int64_t count);
/* A stride, or 1 where the extent is 1. */
int64_t neap_cuda_step(const run_array *array, uint32_t dim);

/* Elements of 16 bytes. */
static inline int64_t cuda_vector(neap_dtype type)
{
    return type == NEAP_BF16 ? 8 : 4;
}

/* NEAP_UNSUPPORTED unless floats are of the type of the kernel (neap_cuda_type) or, where a bit is
   set, f32. */
neap_status neap_cuda_check_mix(const run_spec *spec, uint32_t f32_inputs, uint32_t f32_outputs,
                                neap_diag *diag);

#endif
