/* Finding the units of a walk. */
#ifndef NEAP_CUDA_WALK_CUH
#define NEAP_CUDA_WALK_CUH

#include "prelude.cuh"
#include "walk.h"

/* ANY_TYPE: of words that stand for elements of any type. ROLLED: a loop that stays one. */
#ifdef __CUDACC__
#define ANY_TYPE
#define ROLLED _Pragma("unroll 1")
#else
#define ANY_TYPE __attribute__((may_alias))
#define ROLLED
#endif

DEVICE u32 walk_divide(u32 n, divisor by)
{
    return ((u32)((u64)n * by.magic >> 32) + n) >> by.shift;
}

/* Takes the digit of dimension d off a unit. */
DEVICE u32 walk_step(const walk *w, int operands, int d, u32 unit, i64 *at)
{
    u32 next = walk_divide(unit, w->by[d]), digit = unit - next * (u32)w->extent[d];
    UNROLL
    for (int k = 0; k < operands; k++)
        at[k] += digit * w->stride[d][k];
    return next;
}

/* Where a unit lies in the first `operands` operands. More than three dimensions are rare: code for
   them is kept short. */
DEVICE void walk_find(const walk *w, int operands, u32 unit, i64 *at)
{
    UNROLL
    for (int k = 0; k < operands; k++)
        at[k] = 0;
    if (w->rank > 1)
        unit = walk_step(w, operands, 0, unit, at);
    if (w->rank > 2)
        unit = walk_step(w, operands, 1, unit, at);
    ROLLED
    for (int d = 2; d < w->rank - 1; d++)
        unit = walk_step(w, operands, d, unit, at);
    UNROLL
    for (int k = 0; k < operands; k++)
        at[k] += unit * w->stride[w->rank - 1][k];
}

/* The same for one operand, whichever. */
DEVICE i64 walk_find_one(const walk *w, int operand, u32 unit)
{
    i64 at = 0;
    ROLLED
    for (int d = 0; d + 1 < w->rank; d++) {
        u32 next = walk_divide(unit, w->by[d]);
        at += (unit - next * (u32)w->extent[d]) * w->stride[d][operand];
        unit = next;
    }
    return at + unit * w->stride[w->rank - 1][operand];
}

/* The same for walks of any length, which are too slow for inner loops. */
DEVICE i64 walk_find_slowly(const walk *w, int operand, i64 unit)
{
    i64 at = 0;
    ROLLED
    for (int d = 0; d + 1 < w->rank; d++) {
        i64 next = unit / w->extent[d];
        at += (unit - next * w->extent[d]) * w->stride[d][operand];
        unit = next;
    }
    return at + unit * w->stride[w->rank - 1][operand];
}

/* The first of a thread's units; the others follow blockDim.x apart. */
DEVICE u32 walk_first(void)
{
    return blockIdx.x * (WALK_UNROLL * blockDim.x) + threadIdx.x;
}

#endif
