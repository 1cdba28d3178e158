/* What kernels for long and short rows, and those of softmax, have in common. */
#ifndef NEAP_CUDA_LOSS_CUH
#define NEAP_CUDA_LOSS_CUH

#include "loss.h"
#include "row_walk.cuh"

#define LOSS_LOWEST   (-3.402823466e38f)
#define LOSS_NOTHING  bits_float(0xff800000u) /* minus infinity: adds nothing to a sum of exp */

DEVICE float loss_exp(float x)
{
    return exp2f(x * 1.44269504f);
}

/* max and sum so far of exp(x - max), and n more elements. One pass does for both. */
DEVICE void loss_add(float *max, float *sum, const float *x, int n)
{
    float m = *max;
    UNROLL
    for (int i = 0; i < n; i++)
        m = fmaxf(m, x[i]);
    float s = *sum * loss_exp(*max - m);
    UNROLL
    for (int i = 0; i < n; i++)
        s += loss_exp(x[i] - m);
    *max = m;
    *sum = s;
}

/* Every one of the lanes of a warp that share a row gets the result. */
DEVICE float loss_lanes_sum(float x, int lanes)
{
    for (int mask = lanes / 2; mask > 0; mask /= 2)
        x += shuffle_xor(x, mask);
    return x;
}

DEVICE float loss_lanes_max(float x, int lanes)
{
    for (int mask = lanes / 2; mask > 0; mask /= 2)
        x = fmaxf(x, shuffle_xor(x, mask));
    return x;
}

/* The label of a row, or -1 if there is no such class. */
DEVICE int loss_label(const loss_params *p, i64 row)
{
    i64 at = row_at(&p->label_rows, row);
    i64 label = p->wide_labels ? ((const i64 *)p->labels)[at] : ((const i32 *)p->labels)[at];
    if (label >= 0 && label < p->classes)
        return (int)label;
    *p->trouble = 1;
    return -1;
}

#endif
