/* The mean of squared differences: sums of blocks, then their sum. */
#include "mse.h"
#include "walk.cuh"

DEVICE i64 mse_find(const walk *w, int operand, i64 unit)
{
    if (w->rank == 1)
        return unit * w->stride[0][operand];
    return w->units < 1 << 30 ? walk_find_one(w, operand, (u32)unit)
                              : walk_find_slowly(w, operand, unit);
}

KERNEL_SYNC(mse_parts, mse_params)
{
    SHARED float scratch[WARP];
    float sum = 0;
    for (i64 i = global_thread(); i < p.walk.units; i += global_threads()) {
        float difference = load((const T *)p.x, mse_find(&p.walk, 0, i)) -
                           load((const T *)p.target, mse_find(&p.walk, 1, i));
        sum += difference * difference;
    }
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0)
        p.partials[blockIdx.x] = sum;
}

/* One block. */
KERNEL_SYNC(mse_mean, mse_params)
{
    SHARED float scratch[WARP];
    float sum = 0;
    for (int i = (int)threadIdx.x; i < p.parts; i += (int)blockDim.x)
        sum += p.partials[i];
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0)
        p.loss[0] = sum * p.share;
}
