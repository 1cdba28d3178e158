/*
 * Softmax along an axis. A row is done by one thread, where neighbours in memory are elements of
 * different rows, by lanes of a warp, or by a block. The result may lie where an operand does: what
 * a thread writes it alone has read, and only after all sums of the row are there.
 */
#include "loss.cuh"
#include "softmax.h"

/* What a thread has to do. Threads without a row take part in exchanges nevertheless. */
typedef struct softmax_place {
    int lane, lanes, there;
    i64 block, row, step; /* step: rows of all blocks */
} softmax_place;

DEVICE softmax_place softmax_here(const softmax_params *p)
{
    softmax_place at;
    i64 in_block = SOFTMAX_THREADS >> p->lanes_log2;
    at.lanes = 1 << p->lanes_log2;
    at.lane = (int)threadIdx.x & (at.lanes - 1);
    at.block = blockIdx.x * in_block;
    at.row = at.block + (threadIdx.x >> p->lanes_log2);
    at.step = gridDim.x * in_block;
    at.there = at.row < p->rows;
    return at;
}

DEVICE void softmax_next(const softmax_params *p, softmax_place *at)
{
    at->block += at->step;
    at->row += at->step;
    at->there = at->row < p->rows;
}

DEVICE float softmax_sum(float x, int lanes, float *scratch)
{
    return lanes > WARP ? block_sum(x, scratch) : loss_lanes_sum(x, lanes);
}

DEVICE float softmax_max(float x, int lanes, float *scratch)
{
    return lanes > WARP ? block_max(x, scratch) : loss_lanes_max(x, lanes);
}

KERNEL_SYNC(softmax_rows, softmax_params)
{
    SHARED float scratch[WARP];
    for (softmax_place at = softmax_here(&p); at.block < p.rows; softmax_next(&p, &at)) {
        const T *x = (const T *)p.x + (at.there ? row_at(&p.x_rows, at.row) : 0);
        T *out = (T *)p.out + (at.there ? row_at(&p.out_rows, at.row) : 0);
        float max = LOSS_LOWEST, sum = 0;
        for (i64 k = at.lane; at.there && k < p.length; k += at.lanes) {
            float e = load(x, k * p.x_step);
            loss_add(&max, &sum, &e, 1);
        }
        float largest = softmax_max(max, at.lanes, scratch);
        float share = 1 / softmax_sum(sum * loss_exp(max - largest), at.lanes, scratch);
        for (i64 k = at.lane; at.there && k < p.length; k += at.lanes)
            store(out, k * p.out_step, share * loss_exp(load(x, k * p.x_step) - largest));
    }
}

KERNEL_SYNC(softmax_rows_bw, softmax_params)
{
    SHARED float scratch[WARP];
    for (softmax_place at = softmax_here(&p); at.block < p.rows; softmax_next(&p, &at)) {
        const T *y = (const T *)p.x + (at.there ? row_at(&p.x_rows, at.row) : 0);
        const T *dy = (const T *)p.dy + (at.there ? row_at(&p.dy_rows, at.row) : 0);
        T *out = (T *)p.out + (at.there ? row_at(&p.out_rows, at.row) : 0);
        float sum = 0;
        for (i64 k = at.lane; at.there && k < p.length; k += at.lanes)
            sum += load(dy, k * p.dy_step) * load(y, k * p.x_step);
        sum = softmax_sum(sum, at.lanes, scratch);
        for (i64 k = at.lane; at.there && k < p.length; k += at.lanes)
            store(out, k * p.out_step, load(y, k * p.x_step) * (load(dy, k * p.dy_step) - sum));
    }
}
