/* Leading dimensions of products. */
#include "run/batches.h"

static bool continues(const run_batches *made, int64_t extent, const int64_t *stride)
{
    if (made->rank == 0)
        return false;
    for (int k = 0; k < RUN_BATCH_OPERANDS; k++)
        if (made->stride[made->rank - 1][k] != extent * stride[k])
            return false;
    return true;
}

run_batches neap_run_batches_of(const run_array *a, const run_array *b, const run_array *y)
{
    run_batches made = {.rank = 0};
    for (uint32_t d = 0; d + 2 < y->rank; d++) {
        int64_t extent = y->shape[d];
        const int64_t stride[] = {a->strides[d], b->strides[d], y->strides[d]};
        if (extent == 1)
            continue;
        if (continues(&made, extent, stride)) {
            made.extent[made.rank - 1] *= extent;
        } else {
            made.extent[made.rank] = extent;
            made.rank++;
        }
        for (int k = 0; k < RUN_BATCH_OPERANDS; k++)
            made.stride[made.rank - 1][k] = stride[k];
    }
    if (made.rank == 0)
        made.extent[made.rank++] = 1;
    return made;
}
