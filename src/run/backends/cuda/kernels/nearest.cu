/*
 * Resizing to the nearest pixel. The sources of rows and columns are worked out in f64 first, so
 * that all backends choose the same pixels. Backward, a thread adds up the block of pixels that came
 * from its own, row by row.
 */
#include "nearest.h"
#include "walk.cuh"

DEVICE i32 nearest_pixel(const nearest_table_params *p, int which, i64 i)
{
    double at = p->half_pixel ? ((double)i + 0.5) / p->scale[which] - 0.5
                              : (double)i / p->scale[which];
    at = p->round ? ceil(at - 0.5) : floor(at);
    if (!(at > 0))
        return 0;
    return at < (double)p->from[which] ? (i32)at : (i32)(p->from[which] - 1);
}

KERNEL(nearest_table, nearest_table_params)
{
    i64 i = global_thread();
    if (i < p.to[0])
        p.sources[i] = nearest_pixel(&p, 0, i);
    else if (i < p.to[0] + p.to[1])
        p.sources[i] = nearest_pixel(&p, 1, i - p.to[0]);
}

KERNEL(nearest_forward, nearest_params)
{
    u32 first = walk_first();
    for (int j = 0; j < WALK_UNROLL; j++)
        if (first + j * blockDim.x < p.walk.units) {
            i64 at[4];
            walk_find(&p.walk, 4, first + j * blockDim.x, at);
            i64 row = p.sources[p.first_row + at[2]];
            i64 column = p.sources[p.rows + p.first_column + at[3]];
            ((T *)p.to)[at[0]] =
                ((const T *)p.from)[at[1] + row * p.from_row + column * p.from_column];
        }
}

/* The first of the sources that is not below. */
DEVICE i64 nearest_begin(const i32 *sources, i64 count, i64 source)
{
    i64 low = 0, high = count;
    while (low < high) {
        i64 middle = (low + high) / 2;
        if (sources[middle] < source)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

DEVICE float nearest_sum(const nearest_params *p, const T *dy, i64 row, i64 column)
{
    const i32 *columns = p->sources + p->rows;
    i64 begin = nearest_begin(columns, p->columns, column);
    float sum = 0;
    for (i64 i = nearest_begin(p->sources, p->rows, row); i < p->rows && p->sources[i] == row; i++)
        for (i64 j = begin; j < p->columns && columns[j] == column; j++)
            sum += load(dy, i * p->from_row + j * p->from_column);
    return sum;
}

KERNEL(nearest_backward, nearest_params)
{
    u32 first = walk_first();
    for (int j = 0; j < WALK_UNROLL; j++)
        if (first + j * blockDim.x < p.walk.units) {
            i64 at[4];
            walk_find(&p.walk, 4, first + j * blockDim.x, at);
            store((T *)p.to, at[0], nearest_sum(&p, (const T *)p.from + at[1], p.first_row + at[2],
                                                p.first_column + at[3]));
        }
}
