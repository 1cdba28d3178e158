/* Planning of walks over strided arrays, and walking. */
#include "run/backends/onednn/omp_walk.h"

#include <string.h>

/* ---- Planning ---- */

static void swap_dims(omp_walk *w, uint32_t a, uint32_t b)
{
    int64_t extent = w->extent[a], stride[OMP_MOST_OPERANDS];
    memcpy(stride, w->stride[a], sizeof stride);
    memcpy(w->stride[a], w->stride[b], sizeof stride);
    memcpy(w->stride[b], stride, sizeof stride);
    w->extent[a] = w->extent[b];
    w->extent[b] = extent;
}

/* Whether dimension a should be outside b: by the first operand whose strides differ. */
static bool is_outer(const omp_walk *w, uint32_t a, uint32_t b)
{
    for (uint32_t k = 0; k < w->operands; k++)
        if (w->stride[a][k] != w->stride[b][k])
            return w->stride[a][k] > w->stride[b][k];
    return false;
}

static bool merges(const omp_walk *w, uint32_t outer, uint32_t inner)
{
    for (uint32_t k = 0; k < w->operands; k++)
        if (w->stride[outer][k] != w->stride[inner][k] * w->extent[inner])
            return false;
    return true;
}

static void sort_and_merge(omp_walk *w)
{
    for (uint32_t i = 1; i < w->rank; i++)
        for (uint32_t d = i; d > 0 && is_outer(w, d, d - 1); d--)
            swap_dims(w, d, d - 1);
    uint32_t kept = 0;
    for (uint32_t d = 1; d < w->rank; d++) {
        if (merges(w, kept, d)) {
            w->extent[kept] *= w->extent[d];
            memcpy(w->stride[kept], w->stride[d], sizeof w->stride[d]);
        } else if (++kept != d) {
            w->extent[kept] = w->extent[d];
            memcpy(w->stride[kept], w->stride[d], sizeof w->stride[d]);
        }
    }
    w->rank = kept + 1;
}

/*
 * An operand that a row takes in long steps, but some other dimension in single ones: that becomes
 * the one outside the rows, so that a block uses all of each line of memory it touches.
 */
static void choose_rows(omp_walk *w)
{
    uint32_t row = w->rank - 1;
    for (uint32_t k = 0; k < w->operands; k++)
        if (w->stride[row][k] > 1)
            for (uint32_t d = 0; d < row; d++)
                if (w->stride[d][k] == 1) {
                    for (; d + 1 < row; d++)
                        swap_dims(w, d, d + 1);
                    return;
                }
}

void neap_omp_walk_plan(omp_walk *w, uint32_t operands, const run_array *arrays, int64_t grain,
                        int parts)
{
    *w = (omp_walk){.operands = operands, .total = 1, .contiguous = true};
    for (uint32_t d = 0; d < arrays[0].rank; d++) {
        if (arrays[0].shape[d] == 1)
            continue;
        for (uint32_t k = 0; k < operands; k++)
            w->stride[w->rank][k] = arrays[k].strides[d];
        w->extent[w->rank++] = arrays[0].shape[d];
        w->total *= arrays[0].shape[d];
    }
    if (w->rank > 1) {
        sort_and_merge(w);
        choose_rows(w);
    }
    while (w->rank < 2) { /* an extent of 1 outside, and inside where there is only one element */
        memmove(w->extent + 1, w->extent, sizeof w->extent - sizeof *w->extent);
        memmove(w->stride + 1, w->stride, sizeof w->stride - sizeof *w->stride);
        w->extent[0] = 1;
        for (uint32_t k = 0; k < operands; k++)
            w->stride[0][k] = 1;
        w->rank++;
    }
    for (uint32_t k = 0; k < operands; k++)
        w->contiguous = w->contiguous && omp_step(w, k) == 1;
    int64_t length = w->extent[w->rank - 1];
    w->unit = w->total / length >= 8 * parts ? length : grain;
}

/* ---- Walking ---- */

void neap_omp_walk_share(const omp_walk *w, const omp_task *task, omp_block *block)
{
    omp_range share = omp_share(task, w->total, w->unit);
    int64_t length = w->extent[w->rank - 1], rows = w->extent[w->rank - 2];
    for (int64_t i = share.begin; i < share.end;) {
        int64_t at[OMP_MOST_OPERANDS] = {0}, rest = i;
        for (uint32_t d = w->rank; d-- > 0; rest /= w->extent[d])
            for (uint32_t k = 0; k < w->operands; k++)
                at[k] += rest % w->extent[d] * w->stride[d][k];
        int64_t column = i % length, left = share.end - i;
        if (column || left < length) {
            int64_t n = length - column < left ? length - column : left;
            block(task, w, at, 1, n);
            i += n;
        } else {
            int64_t row = i / length % rows, n = left / length;
            n = n < rows - row ? n : rows - row;
            block(task, w, at, n, length);
            i += n * length;
        }
    }
}
