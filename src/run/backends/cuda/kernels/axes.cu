/*
 * Sums, extremes and products over sets of axes. A column of elements that become one is done by
 * one thread, where neighbours in memory belong to different columns, by lanes of a warp, or by a
 * block; long ones in parts that a second kernel joins. What is joined with what depends on shapes
 * and strides alone.
 */
#include "axes.h"
#include "walk.cuh"

#define AXES_UNROLL 4

DEVICE i64 axes_find(const walk *w, int operand, i64 unit)
{
    if (w->rank == 1)
        return unit * w->stride[0][operand];
    return w->units < 1 << 30 ? walk_find_one(w, operand, (u32)unit)
                              : walk_find_slowly(w, operand, unit);
}

/* Which column and which lane of it a thread is. */
typedef struct axes_place {
    i64 column;
    int lane, lanes;
} axes_place;

DEVICE axes_place axes_here(i32 lanes_log2)
{
    axes_place at;
    at.lanes = 1 << lanes_log2;
    at.lane = (int)threadIdx.x & (at.lanes - 1);
    at.column = (i64)blockIdx.x * (AXES_THREADS >> lanes_log2) + (threadIdx.x >> lanes_log2);
    return at;
}

DEVICE float axes_plus(float a, float b)
{
    return a + b;
}

DEVICE float axes_times(float a, float b)
{
    return a * b;
}

/* What is not a number stays so. */
DEVICE float axes_larger(float a, float b)
{
    return b > a || b != b ? b : a;
}

DEVICE float axes_smaller(float a, float b)
{
    return b < a || b != b ? b : a;
}

#define AXES_INFINITY bits_float(0x7f800000u)

/* The lanes of a column together: all of them get the result. */
#define AXES_LANES(name, join)                                                                     \
    DEVICE float name(float x, int lanes, float *scratch)                                          \
    {                                                                                              \
        int within = lanes < WARP ? lanes : WARP;                                                  \
        for (int mask = within / 2; mask > 0; mask /= 2)                                           \
            x = join(x, shuffle_xor(x, mask));                                                     \
        if (lanes <= WARP)                                                                         \
            return x;                                                                              \
        __syncthreads();                                                                           \
        if (threadIdx.x % WARP == 0)                                                               \
            scratch[threadIdx.x / WARP] = x;                                                       \
        __syncthreads();                                                                           \
        x = scratch[0];                                                                            \
        for (int warp = 1; warp < AXES_THREADS / WARP; warp++)                                     \
            x = join(x, scratch[warp]);                                                            \
        return x;                                                                                  \
    }

AXES_LANES(axes_lanes_sum, axes_plus)
AXES_LANES(axes_lanes_product, axes_times)
AXES_LANES(axes_lanes_largest, axes_larger)
AXES_LANES(axes_lanes_smallest, axes_smaller)

#define AXES_FOLD(name, join, lanes_join, first)                                                   \
    KERNEL_SYNC(axes_##name, axes_params)                                                          \
    {                                                                                              \
        SHARED float scratch[WARP];                                                                \
        axes_place at = axes_here(p.lanes_log2);                                                   \
        bool there = at.column < p.columns.units;                                                  \
        i64 begin = blockIdx.y * p.part_rows, end = begin + p.part_rows;                           \
        end = end < p.rows.units ? end : p.rows.units;                                             \
        const T *x = (const T *)p.x + (there ? axes_find(&p.columns, 0, at.column) : 0);           \
        float result = first;                                                                      \
        for (i64 r = begin + at.lane; there && r < end; r += AXES_UNROLL * at.lanes) {             \
            float e[AXES_UNROLL];                                                                  \
            UNROLL                                                                                 \
            for (int j = 0; j < AXES_UNROLL; j++)                                                  \
                e[j] = r + j * at.lanes < end ? load(x, axes_find(&p.rows, 0, r + j * at.lanes))   \
                                              : first;                                             \
            UNROLL                                                                                 \
            for (int j = 0; j < AXES_UNROLL; j++)                                                  \
                result = join(result, e[j]);                                                       \
        }                                                                                          \
        result = lanes_join(result, at.lanes, scratch);                                            \
        if (!there || at.lane != 0)                                                                \
            return;                                                                                \
        if (p.partial)                                                                             \
            p.partial[blockIdx.y * p.columns.units + at.column] = result;                          \
        else                                                                                       \
            store((T *)p.y, axes_find(&p.columns, 1, at.column), p.factor * result);               \
    }                                                                                              \
    KERNEL(axes_join_##name, axes_join_params)                                                     \
    {                                                                                              \
        i64 column = global_thread();                                                              \
        float result = first;                                                                      \
        if (column >= p.columns.units)                                                             \
            return;                                                                                \
        for (int part = 0; part < p.parts; part++)                                                 \
            result = join(result, p.partial[part * p.columns.units + column]);                     \
        store((T *)p.y, axes_find(&p.columns, 1, column), p.factor * result);                      \
    }

AXES_FOLD(sum, axes_plus, axes_lanes_sum, 0.0f)
AXES_FOLD(prod, axes_times, axes_lanes_product, 1.0f)
AXES_FOLD(max, axes_larger, axes_lanes_largest, -AXES_INFINITY)
AXES_FOLD(min, axes_smaller, axes_lanes_smallest, AXES_INFINITY)

/* ---- Gradients: dx may be x ---- */

/* Elements that equal the extreme share its gradient. */
KERNEL_SYNC(axes_max_bw, axes_bw_params)
{
    SHARED float scratch[WARP];
    axes_place at = axes_here(p.lanes_log2);
    bool there = at.column < p.columns.units;
    i64 column = there ? at.column : 0, rows = there ? p.rows.units : 0;
    const T *x = (const T *)p.x + axes_find(&p.columns, 0, column);
    T *dx = (T *)p.dx + axes_find(&p.columns, 1, column);
    float y = load((const T *)p.y, axes_find(&p.columns, 3, column)), ties = 0;
    for (i64 r = at.lane; r < rows; r += at.lanes)
        ties += load(x, axes_find(&p.rows, 0, r)) == y ? 1.0f : 0.0f;
    ties = axes_lanes_sum(ties, at.lanes, scratch);
    float share = load((const T *)p.dy, axes_find(&p.columns, 2, column)) / ties;
    for (i64 r = at.lane; r < rows; r += at.lanes)
        store(dx, axes_find(&p.rows, 1, r),
              load(x, axes_find(&p.rows, 0, r)) == y ? share : 0.0f);
}

/* dy times the product of all others, of which one may be 0. */
KERNEL_SYNC(axes_prod_bw, axes_bw_params)
{
    SHARED float scratch[WARP];
    axes_place at = axes_here(p.lanes_log2);
    bool there = at.column < p.columns.units;
    i64 column = there ? at.column : 0, rows = there ? p.rows.units : 0;
    const T *x = (const T *)p.x + axes_find(&p.columns, 0, column);
    T *dx = (T *)p.dx + axes_find(&p.columns, 1, column);
    float zeros = 0, product = 1;
    for (i64 r = at.lane; r < rows; r += at.lanes) {
        float e = load(x, axes_find(&p.rows, 0, r));
        zeros += e == 0 ? 1.0f : 0.0f;
        product *= e == 0 ? 1.0f : e;
    }
    zeros = axes_lanes_sum(zeros, at.lanes, scratch);
    product = axes_lanes_product(product, at.lanes, scratch);
    product *= load((const T *)p.dy, axes_find(&p.columns, 2, column));
    for (i64 r = at.lane; r < rows; r += at.lanes) {
        float e = load(x, axes_find(&p.rows, 0, r));
        bool whole = zeros == (e == 0 ? 1.0f : 0.0f);
        store(dx, axes_find(&p.rows, 1, r), !whole ? 0.0f : e == 0 ? product : product / e);
    }
}
