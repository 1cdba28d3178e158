/* The arrays of a gather. */
#include "run/gathering.h"

run_array neap_run_gathered_rest(const run_array *x, const run_array *indices, uint32_t axis)
{
    run_array rest = {.dtype = x->dtype, .rank = x->rank - 1 + indices->rank};
    for (uint32_t d = 0; d < rest.rank; d++) {
        bool inside = d >= axis && d < axis + indices->rank;
        uint32_t from = d < axis ? d : d - indices->rank + 1;
        rest.shape[d] = inside ? indices->shape[d - axis] : x->shape[from];
        rest.strides[d] = inside ? 0 : x->strides[from];
    }
    return rest;
}

run_array neap_run_gathered_indices(const run_array *indices, const run_array *y, uint32_t axis)
{
    run_array spread = *y;
    spread.dtype = indices->dtype;
    for (uint32_t d = 0; d < y->rank; d++) {
        bool inside = d >= axis && d < axis + indices->rank;
        spread.strides[d] = inside ? indices->strides[d - axis] : 0;
    }
    return spread;
}

run_array neap_run_gathered_source(const run_array *y, const run_array *indices, const run_array *x,
                                   uint32_t axis)
{
    run_array source = *x;
    for (uint32_t d = 0; d < x->rank; d++)
        source.strides[d] = d < axis ? y->strides[d] : y->strides[d - 1 + indices->rank];
    source.strides[axis] = 0;
    return source;
}
