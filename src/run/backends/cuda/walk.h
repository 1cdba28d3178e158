/*
 * Planning of walks (kernels/walk.h): dimensions are sorted so that the first operand is walked in
 * the order of its memory, and those that all operands take in even steps are merged. Arrays of one
 * dense layout become one long row.
 */
#ifndef NEAP_CUDA_WALK_H
#define NEAP_CUDA_WALK_H

#include "run/backends/cuda/cuda.h"
#include "run/backends/cuda/kernels/walk.h"

/* Of a block. */
#define WALK_MOST_THREADS  256
#define WALK_LEAST_THREADS 64

divisor neap_cuda_divisor(int64_t by);

/* All arrays have the first one's shape. Strides count elements. */
void neap_cuda_walk_plan(walk *w, uint32_t operands, const run_array *arrays);
/* After extents have changed. */
void neap_cuda_walk_finish(walk *w);
/* `multiple` times as long strides for one operand: to bytes, for instance. */
void neap_cuda_walk_scale(walk *w, uint32_t operand, int64_t multiple);
/*
 * Makes a unit of `width` neighbours in a row. False, with the walk unchanged, if rows or the steps
 * between them are no multiples; where there is only one row, units * width may be less than its
 * length, and the caller sees to the rest. In the operands of the set `apart`, one bit each, the
 * neighbours may lie anywhere.
 */
bool neap_cuda_walk_widen(walk *w, uint32_t operands, int64_t width, uint32_t apart);

/* The launch for a walk: WALK_UNROLL units a thread. */
cuda_dims neap_cuda_walk_dims(const walk *w);
/* Whether one launch is enough. */
bool neap_cuda_walk_fits(const walk *w);
/*
 * If it is not: the part of the walk from index *begin of its outermost dimension on, which begins
 * at at[k] in operand k and may not fit either. Advances *begin; false if there is no more.
 */
bool neap_cuda_walk_cut(const walk *w, int64_t *begin, walk *part, int64_t *at);

#endif
