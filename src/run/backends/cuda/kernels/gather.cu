/*
 * Elements by their positions along an axis.
 *
 * The gradient has a thread for each element of dx. It finds the run of its position among the
 * sorted indices and adds up what they brought, in the order of the indices.
 */
#include "gather.h"
#include "walk.cuh"

DEVICE i64 gather_index(const gather_params *p, i64 at)
{
    i64 index = p->is_i64 ? ((const i64 *)p->indices)[at] : ((const i32 *)p->indices)[at];
    if (index >= 0 && index < p->entries)
        return index;
    *p->trouble = 1;
    return -1;
}

KERNEL(gather_forward, gather_params)
{
    T element[WALK_UNROLL];
    i64 at[WALK_UNROLL][3];
    u32 first = walk_first();
    UNROLL
    for (int j = 0; j < WALK_UNROLL; j++)
        if (first + j * blockDim.x < p.walk.units) {
            walk_find(&p.walk, 3, first + j * blockDim.x, at[j]);
            i64 index = gather_index(&p, at[j][2]);
            element[j] = index < 0 ? to_t(0.0f)
                                   : ((const T *)p.x)[at[j][1] + index * p.axis_step];
        }
    UNROLL
    for (int j = 0; j < WALK_UNROLL; j++)
        if (first + j * blockDim.x < p.walk.units)
            ((T *)p.y)[at[j][0]] = element[j];
}

/* The first of the sorted keys that is not below. */
DEVICE i64 gather_run(const gather_bw_params *p, u32 key)
{
    i64 low = 0, high = p->count;
    while (low < high) {
        i64 middle = (low + high) / 2;
        if (p->keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

DEVICE i64 gather_offset(const gather_bw_params *p, u32 position)
{
    i64 at = 0;
    if (p->rank == 1)
        return position * p->strides[0];
    for (int d = p->rank - 1; d > 0; d--) {
        u32 rest = position / (u32)p->shape[d];
        at += (position - rest * (u32)p->shape[d]) * p->strides[d];
        position = rest;
    }
    return at + position * p->strides[0];
}

KERNEL(gather_backward, gather_bw_params)
{
    u32 first = walk_first();
    for (int j = 0; j < WALK_UNROLL; j++)
        if (first + j * blockDim.x < p.walk.units) {
            i64 at[3];
            float sum = 0;
            walk_find(&p.walk, 3, first + j * blockDim.x, at);
            u32 key = (u32)(p.first + at[2]);
            for (i64 i = gather_run(&p, key); i < p.count && p.keys[i] == key; i++)
                sum += load((const T *)p.dy, at[1] + gather_offset(&p, p.positions[i]));
            store((T *)p.dx, at[0], sum);
        }
}
