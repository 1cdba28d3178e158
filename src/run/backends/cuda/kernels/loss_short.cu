/*
 * Losses of short rows, and of rows whose classes are not neighbours: a row is done by a few lanes
 * of a warp, by one where neighbours in memory are elements of different rows.
 */
#include "loss.cuh"

#define LOSS_BATCH 4 /* elements that are loaded before the first is used */

/* Which lane of a row a thread is, and the first row of its block and of its own. */
typedef struct loss_place {
    int lane, lanes;
    i64 block, row, step; /* step: rows of all blocks */
} loss_place;

DEVICE loss_place loss_here(const loss_params *p)
{
    loss_place at;
    at.lanes = 1 << p->lanes_log2;
    at.lane = (int)threadIdx.x & (at.lanes - 1);
    at.block = (i64)blockIdx.x * (LOSS_THREADS >> p->lanes_log2);
    at.row = at.block + (threadIdx.x >> p->lanes_log2);
    at.step = (i64)gridDim.x * (LOSS_THREADS >> p->lanes_log2);
    return at;
}

/* log of the sum of exp of a row; all threads of the warp are here, some without classes. */
DEVICE float loss_lanes_lse(const T *x, i64 step, int classes, const loss_place *at)
{
    float max = LOSS_LOWEST, sum = 0;
    i64 stride = at->lanes * step;
    x += at->lane * step;
    for (int k = at->lane; k < classes; k += LOSS_BATCH * at->lanes, x += LOSS_BATCH * stride) {
        float e[LOSS_BATCH];
        UNROLL
        for (int i = 0; i < LOSS_BATCH; i++)
            e[i] = k + i * at->lanes < classes ? load(x, i * stride) : LOSS_NOTHING;
        loss_add(&max, &sum, e, LOSS_BATCH);
    }
    float largest = loss_lanes_max(max, at->lanes);
    return largest + logf(loss_lanes_sum(sum * loss_exp(max - largest), at->lanes));
}

KERNEL_SYNC(xent_short, loss_params)
{
    SHARED float scratch[WARP];
    loss_place at = loss_here(&p);
    float losses = 0;
    for (; at.block < p.rows; at.block += at.step, at.row += at.step) {
        int there = at.row < p.rows;
        const T *x = (const T *)p.x + (there ? row_at(&p.x_rows, at.row) : 0);
        float lse = loss_lanes_lse(x, p.x_step, there ? p.classes : 0, &at);
        if (there && at.lane == 0) {
            int label = loss_label(&p, at.row);
            p.lse[row_at(&p.lse_rows, at.row)] = lse;
            losses += label < 0 ? 0.0f : lse - load(x, label * p.x_step);
        }
    }
    losses = block_sum(losses, scratch);
    if (threadIdx.x == 0)
        p.partials[blockIdx.x] = losses;
}

/* out may be x. */
KERNEL(xent_bw_short, loss_params)
{
    float factor = p.loss[0] * p.share;
    loss_place at = loss_here(&p);
    i64 x_stride = at.lanes * p.x_step, out_stride = at.lanes * p.out_step;
    for (; at.row < p.rows; at.row += at.step) {
        const T *x = (const T *)p.x + row_at(&p.x_rows, at.row);
        T *out = (T *)p.out + row_at(&p.out_rows, at.row);
        float lse = p.lse[row_at(&p.lse_rows, at.row)];
        int label = loss_label(&p, at.row);
        x += at.lane * p.x_step;
        out += at.lane * p.out_step;
        for (int k = at.lane; k < p.classes; k += LOSS_BATCH * at.lanes) {
            float e[LOSS_BATCH];
            UNROLL
            for (int i = 0; i < LOSS_BATCH; i++)
                e[i] = k + i * at.lanes < p.classes ? load(x, i * x_stride) : 0.0f;
            UNROLL
            for (int i = 0; i < LOSS_BATCH; i++) {
                int c = k + i * at.lanes;
                float d = factor * loss_exp(e[i] - lse);
                if (c < p.classes)
                    store(out, i * out_stride, c == label ? d - factor : d);
            }
            x += LOSS_BATCH * x_stride;
            out += LOSS_BATCH * out_stride;
        }
    }
}

/* out may be x. */
KERNEL_SYNC(log_softmax_short, loss_params)
{
    loss_place at = loss_here(&p);
    for (; at.block < p.rows; at.block += at.step, at.row += at.step) {
        int there = at.row < p.rows;
        const T *x = (const T *)p.x + (there ? row_at(&p.x_rows, at.row) : 0);
        T *out = (T *)p.out + (there ? row_at(&p.out_rows, at.row) : 0);
        float lse = loss_lanes_lse(x, p.x_step, there ? p.classes : 0, &at);
        for (int k = at.lane; there && k < p.classes; k += at.lanes)
            store(out, k * p.out_step, load(x, k * p.x_step) - lse);
    }
}

/* out may be dy or x. */
KERNEL_SYNC(log_softmax_bw_short, loss_params)
{
    loss_place at = loss_here(&p);
    for (; at.block < p.rows; at.block += at.step, at.row += at.step) {
        int there = at.row < p.rows;
        const T *dy = (const T *)p.dy + (there ? row_at(&p.dy_rows, at.row) : 0);
        const T *x = (const T *)p.x + (there ? row_at(&p.x_rows, at.row) : 0);
        T *out = (T *)p.out + (there ? row_at(&p.out_rows, at.row) : 0);
        float sum = 0;
        for (int k = at.lane; there && k < p.classes; k += at.lanes)
            sum += load(dy, k * p.dy_step);
        sum = loss_lanes_sum(sum, at.lanes);
        for (int k = at.lane; there && k < p.classes; k += at.lanes)
            store(out, k * p.out_step,
                  load(dy, k * p.dy_step) - loss_exp(load(x, k * p.x_step)) * sum);
    }
}

KERNEL(nll_bw_short, loss_params)
{
    float gradient = -p.loss[0] * p.share;
    loss_place at = loss_here(&p);
    for (; at.row < p.rows; at.row += at.step) {
        T *out = (T *)p.out + row_at(&p.out_rows, at.row);
        int label = loss_label(&p, at.row);
        for (int k = at.lane; k < p.classes; k += at.lanes)
            store(out, k * p.out_step, k == label ? gradient : 0.0f);
    }
}

/* A thread for each row. */
KERNEL_SYNC(nll_rows, loss_params)
{
    SHARED float scratch[WARP];
    float losses = 0;
    for (i64 row = global_thread(); row < p.rows; row += global_threads()) {
        int label = loss_label(&p, row);
        if (label >= 0)
            losses -= load((const T *)p.x, row_at(&p.x_rows, row) + label * p.x_step);
    }
    losses = block_sum(losses, scratch);
    if (threadIdx.x == 0)
        p.partials[blockIdx.x] = losses;
}

/* The mean of all rows, from the sums of blocks: one block. */
KERNEL_SYNC(loss_mean, loss_params)
{
    SHARED float scratch[WARP];
    float sum = 0;
    for (int i = (int)threadIdx.x; i < p.parts; i += (int)blockDim.x)
        sum += p.partials[i];
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0)
        p.loss[0] = sum * p.share;
}
