/*
 * reduce: sums over leading dimensions, as sums of the columns of a matrix.
 *
 * A thread has a group of columns, of the size of a vector, and every n-th row of its block's part.
 * The block adds up what its threads have, and a second kernel the parts. What is added to what
 * depends on shapes alone, not on whether memory can be read in vectors.
 */
#include "reduce.h"
#include "walk.cuh"

#define REDUCE_UNROLL 4

DEVICE i64 reduce_row(const reduce_params *p, i64 row)
{
    i64 at;
    if (p->rows.rank == 1)
        return row * p->rows.stride[0][0];
    if (p->rows.units >= 1 << 30)
        return walk_find_slowly(&p->rows, 0, row);
    walk_find(&p->rows, 1, (u32)row, &at);
    return at;
}

/* Adds rows from `row` on, `step` apart, to the sums of a group that is a vector. */
DEVICE void reduce_vectors(const reduce_params *p, i64 column, i64 row, i64 end, i64 step,
                           float *sum)
{
    const T *x = (const T *)p->x + column;
    for (; row < end; row += REDUCE_UNROLL * step) {
        vector v[REDUCE_UNROLL];
        UNROLL
        for (int j = 0; j < REDUCE_UNROLL; j++)
            if (row + j * step < end)
                v[j] = *(const vector *)(x + reduce_row(p, row + j * step));
        UNROLL
        for (int j = 0; j < REDUCE_UNROLL; j++)
            UNROLL
            for (int e = 0; e < VECTOR; e++)
                sum[e] += row + j * step < end ? from_t(v[j].e[e]) : 0;
    }
}

/* The same for a group whose columns lie anywhere; at -1 there is none. */
DEVICE void reduce_elements(const reduce_params *p, const i64 *column, i64 row, i64 end, i64 step,
                            float *sum)
{
    const T *x = (const T *)p->x;
    for (; row < end; row += REDUCE_UNROLL * step) {
        float v[REDUCE_UNROLL][VECTOR];
        UNROLL
        for (int j = 0; j < REDUCE_UNROLL; j++) {
            bool inside = row + j * step < end;
            i64 at = inside ? reduce_row(p, row + j * step) : 0;
            UNROLL
            for (int e = 0; e < VECTOR; e++)
                v[j][e] = inside && column[e] >= 0 ? load(x, at + column[e]) : 0;
        }
        UNROLL
        for (int j = 0; j < REDUCE_UNROLL; j++)
            UNROLL
            for (int e = 0; e < VECTOR; e++)
                sum[e] += v[j][e];
    }
}

/* Adds the sums of threads that have the same columns; the first rows of threads get the result. */
DEVICE void reduce_block(float *sum, int across)
{
    SHARED float all[REDUCE_THREADS][16 / sizeof(T) + 1];
    int me = (int)threadIdx.x;
    UNROLL
    for (int e = 0; e < VECTOR; e++)
        all[me][e] = sum[e];
    for (int half = REDUCE_THREADS / 2; half >= across; half /= 2) {
        __syncthreads();
        if (me < half)
            UNROLL
            for (int e = 0; e < VECTOR; e++)
                all[me][e] += all[me + half][e];
    }
    UNROLL
    for (int e = 0; e < VECTOR; e++)
        sum[e] = all[me][e];
}

/* What a thread does: its first column, its rows from `row` to `end`, `step` apart. */
typedef struct reduce_share {
    i64 column, row, end, step;
} reduce_share;

DEVICE reduce_share reduce_mine(const reduce_params *p)
{
    reduce_share s;
    int me = (int)threadIdx.x;
    i64 begin = blockIdx.y * p->part_rows, end = begin + p->part_rows;
    s.column = ((i64)blockIdx.x * p->across + me % p->across) * VECTOR;
    s.row = begin + me / p->across;
    s.end = end < p->rows.units ? end : p->rows.units;
    s.step = REDUCE_THREADS / p->across;
    return s;
}

/* The block's sums, to the workspace or to their place. */
DEVICE void reduce_finish(const reduce_params *p, i64 column, float *sum)
{
    reduce_block(sum, p->across);
    if ((int)threadIdx.x >= p->across)
        return;
    UNROLL
    for (int e = 0; e < VECTOR; e++)
        if (column + e < p->columns.units) {
            if (p->partial)
                p->partial[blockIdx.y * p->columns.units + column + e] = sum[e];
            else
                store((T *)p->y, walk_find_slowly(&p->columns, 1, column + e), sum[e]);
        }
}

KERNEL_SYNC(reduce_columns, reduce_params)
{
    float sum[16 / sizeof(T)];
    i64 column[16 / sizeof(T)];
    reduce_share s = reduce_mine(&p);
    UNROLL
    for (int e = 0; e < VECTOR; e++) {
        bool inside = s.column + e < p.columns.units;
        sum[e] = 0;
        column[e] = inside ? walk_find_slowly(&p.columns, 0, s.column + e) : -1;
    }
    reduce_elements(&p, column, s.row, s.end, s.step, sum);
    reduce_finish(&p, s.column, sum);
}

/* The same where every group of columns is a vector. */
KERNEL_SYNC(reduce_in_vectors, reduce_params)
{
    float sum[16 / sizeof(T)];
    reduce_share s = reduce_mine(&p);
    UNROLL
    for (int e = 0; e < VECTOR; e++)
        sum[e] = 0;
    if (s.column < p.columns.units)
        reduce_vectors(&p, walk_find_slowly(&p.columns, 0, s.column), s.row, s.end, s.step, sum);
    reduce_finish(&p, s.column, sum);
}

/* A block has few columns, so that many threads share the parts of each. */
KERNEL_SYNC(reduce_join, reduce_join_params)
{
    SHARED float all[REDUCE_THREADS];
    i64 column = (i64)blockIdx.x * REDUCE_JOIN_COLUMNS + threadIdx.x % REDUCE_JOIN_COLUMNS;
    int part = (int)threadIdx.x / REDUCE_JOIN_COLUMNS, step = REDUCE_THREADS / REDUCE_JOIN_COLUMNS;
    float sum = 0;
    for (; column < p.columns.units && part < p.parts; part += REDUCE_UNROLL * step) {
        float v[REDUCE_UNROLL];
        UNROLL
        for (int j = 0; j < REDUCE_UNROLL; j++)
            v[j] = part + j * step < p.parts
                       ? p.partial[(part + j * step) * p.columns.units + column]
                       : 0;
        UNROLL
        for (int j = 0; j < REDUCE_UNROLL; j++)
            sum += v[j];
    }
    all[threadIdx.x] = sum;
    for (int half = REDUCE_THREADS / 2; half >= REDUCE_JOIN_COLUMNS; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half)
            all[threadIdx.x] += all[threadIdx.x + half];
    }
    if (threadIdx.x < REDUCE_JOIN_COLUMNS && column < p.columns.units)
        store((T *)p.y, walk_find_slowly(&p.columns, 1, column), all[threadIdx.x]);
}
