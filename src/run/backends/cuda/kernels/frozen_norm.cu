/*
 * Batch normalisation by given statistics.
 *
 * For the gradient of the weight a block has some channels next to each other, one where rows are
 * neighbours in memory, and its threads share the rows. Parts of rows meet in a second kernel.
 */
#include "frozen_norm.h"
#include "walk.cuh"

DEVICE float frozen_invstd(const float *variance, i64 at, float epsilon)
{
    return 1.0f / sqrtf(variance[at] + epsilon);
}

/* y may be x. */
KERNEL(frozen_elements, frozen_params)
{
    float x[WALK_UNROLL];
    i64 at[WALK_UNROLL][3];
    u32 first = walk_first();
    UNROLL
    for (int j = 0; j < WALK_UNROLL; j++)
        if (first + j * blockDim.x < p.walk.units) {
            walk_find(&p.walk, 3, first + j * blockDim.x, at[j]);
            x[j] = load((const T *)p.x, at[j][1]);
        }
    UNROLL
    for (int j = 0; j < WALK_UNROLL; j++)
        if (first + j * blockDim.x < p.walk.units) {
            i64 c = p.first + at[j][2];
            float mean = p.mean ? p.mean[c * p.mean_step] : 0.0f;
            float beta = p.beta ? load((const T *)p.beta, c * p.beta_step) : 0.0f;
            float factor = load((const T *)p.gamma, c * p.gamma_step) *
                           frozen_invstd(p.variance, c * p.variance_step, p.epsilon);
            store((T *)p.y, at[j][0], (x[j] - mean) * factor + beta);
        }
}

DEVICE i64 frozen_row(const walk *w, int operand, i64 row)
{
    if (w->rank == 1)
        return row * w->stride[0][operand];
    return w->units < 1 << 30 ? walk_find_one(w, operand, (u32)row)
                              : walk_find_slowly(w, operand, row);
}

KERNEL_SYNC(frozen_weight, frozen_weight_params)
{
    SHARED float all[FROZEN_THREADS];
    int me = (int)threadIdx.x;
    i64 channel = (i64)blockIdx.x * p.lanes + me % p.lanes;
    i64 begin = blockIdx.y * p.part_rows, end = begin + p.part_rows;
    float sum = 0;
    end = end < p.rows.units ? end : p.rows.units;
    if (channel < p.channels) {
        const T *dy = (const T *)p.dy + channel * p.dy_channel;
        const T *x = (const T *)p.x + channel * p.x_channel;
        float mean = p.mean[channel * p.mean_step];
        for (i64 r = begin + me / p.lanes; r < end; r += FROZEN_THREADS / p.lanes)
            sum += load(dy, frozen_row(&p.rows, 0, r)) *
                   (load(x, frozen_row(&p.rows, 1, r)) - mean);
        sum *= frozen_invstd(p.variance, channel * p.variance_step, p.epsilon);
    }
    all[me] = sum;
    for (int half = FROZEN_THREADS / 2; half >= p.lanes; half /= 2) {
        __syncthreads();
        if (me < half)
            all[me] += all[me + half];
    }
    if (me >= p.lanes || channel >= p.channels)
        return;
    if (p.partial)
        p.partial[blockIdx.y * p.channels + channel] = all[me];
    else
        store((T *)p.dgamma, channel * p.dgamma_step, all[me]);
}

KERNEL(frozen_weight_join, frozen_weight_params)
{
    i64 channel = global_thread();
    float sum = 0;
    if (channel >= p.channels)
        return;
    for (int part = 0; part < p.parts; part++)
        sum += p.partial[part * p.channels + channel];
    store((T *)p.dgamma, channel * p.dgamma_step, sum);
}
