/* Planning of walks over strided arrays. */
#include "run/backends/cuda/walk.h"

#include <string.h>

#define MOST_UNITS    ((int64_t)1 << 30)
#define ENOUGH_BLOCKS 256 /* below that, smaller ones */

/* ---- Planning ---- */

static void swap_dims(walk *w, int a, int b)
{
    i64 extent = w->extent[a], stride[WALK_OPERANDS];
    memcpy(stride, w->stride[a], sizeof stride);
    memcpy(w->stride[a], w->stride[b], sizeof stride);
    memcpy(w->stride[b], stride, sizeof stride);
    w->extent[a] = w->extent[b];
    w->extent[b] = extent;
}

/* Whether dimension a should be inside b: by the first operand whose strides differ. */
static bool is_inner(const walk *w, int a, int b)
{
    for (int k = 0; k < WALK_OPERANDS; k++)
        if (w->stride[a][k] != w->stride[b][k])
            return w->stride[a][k] < w->stride[b][k];
    return false;
}

static bool merges(const walk *w, int inner, int outer)
{
    for (int k = 0; k < WALK_OPERANDS; k++)
        if (w->stride[outer][k] != w->stride[inner][k] * w->extent[inner])
            return false;
    return true;
}

static void sort_and_merge(walk *w)
{
    int kept = 0;
    for (int i = 1; i < w->rank; i++)
        for (int d = i; d > 0 && is_inner(w, d, d - 1); d--)
            swap_dims(w, d, d - 1);
    for (int d = 1; d < w->rank; d++) {
        if (merges(w, kept, d)) {
            w->extent[kept] *= w->extent[d];
        } else if (++kept != d) {
            w->extent[kept] = w->extent[d];
            memcpy(w->stride[kept], w->stride[d], sizeof w->stride[d]);
        }
    }
    w->rank = kept + 1;
}

divisor neap_cuda_divisor(int64_t by)
{
    u32 shift = 0;
    if (by < 1)
        return (divisor){1, 0};
    while (((int64_t)1 << shift) < by)
        shift++;
    u64 magic = by <= (int64_t)1 << 31
                    ? (((u64)1 << shift) - (u64)by) * ((u64)1 << 32) / (u64)by + 1
                    : 0; /* of walks that do not fit a launch */
    return (divisor){(u32)magic, shift};
}

void neap_cuda_walk_finish(walk *w)
{
    w->units = 1;
    for (int d = 0; d < w->rank; d++) {
        w->units *= w->extent[d];
        w->by[d] = neap_cuda_divisor(w->extent[d]);
    }
}

void neap_cuda_walk_plan(walk *w, uint32_t operands, const run_array *arrays)
{
    *w = (walk){0};
    for (uint32_t d = arrays[0].rank; d-- > 0;) {
        if (arrays[0].shape[d] == 1)
            continue;
        for (uint32_t k = 0; k < operands; k++)
            w->stride[w->rank][k] = arrays[k].strides[d];
        w->extent[w->rank++] = arrays[0].shape[d];
    }
    if (w->rank == 0) {
        for (uint32_t k = 0; k < operands; k++)
            w->stride[0][k] = 1;
        w->extent[w->rank++] = 1;
    }
    sort_and_merge(w);
    neap_cuda_walk_finish(w);
}

void neap_cuda_walk_scale(walk *w, uint32_t operand, int64_t multiple)
{
    for (int d = 0; d < w->rank; d++)
        w->stride[d][operand] *= multiple;
}

bool neap_cuda_walk_widen(walk *w, uint32_t operands, int64_t width, uint32_t apart)
{
    if (w->rank > 1 && w->extent[0] % width != 0)
        return false;
    for (uint32_t k = 0; k < operands; k++) {
        if (apart >> k & 1)
            continue;
        if (w->stride[0][k] != 1)
            return false;
        for (int d = 1; d < w->rank; d++)
            if (w->stride[d][k] % width != 0)
                return false;
    }
    w->extent[0] /= width;
    for (uint32_t k = 0; k < operands; k++)
        w->stride[0][k] *= width;
    neap_cuda_walk_finish(w);
    return true;
}

/* ---- Launching ---- */

cuda_dims neap_cuda_walk_dims(const walk *w)
{
    uint32_t threads = WALK_MOST_THREADS;
    while (threads > WALK_LEAST_THREADS && w->units < ENOUGH_BLOCKS * threads * WALK_UNROLL)
        threads /= 2;
    int64_t each = threads * WALK_UNROLL, blocks = (w->units + each - 1) / each;
    return (cuda_dims){.blocks = blocks > 0 ? (uint32_t)blocks : 1, .threads = threads};
}

bool neap_cuda_walk_fits(const walk *w)
{
    return w->units <= MOST_UNITS;
}

bool neap_cuda_walk_cut(const walk *w, int64_t *begin, walk *part, int64_t *at)
{
    int outer = w->rank - 1;
    int64_t left = w->extent[outer] - *begin, most = MOST_UNITS / (w->units / w->extent[outer]);
    if (left == 0)
        return false;
    if (most == 0)
        most = 1;
    *part = *w;
    part->extent[outer] = left < most ? left : most;
    for (int k = 0; k < WALK_OPERANDS; k++)
        at[k] = *begin * w->stride[outer][k];
    *begin += part->extent[outer];
    if (part->extent[outer] == 1 && outer > 0)
        part->rank--;
    neap_cuda_walk_finish(part);
    return true;
}
