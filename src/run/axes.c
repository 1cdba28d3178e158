/* Arrays that repeat along dimensions of others. */
#include "run/axes.h"

#include <stdio.h>

static bool is_in(const run_spread *spread, uint32_t dim)
{
    return spread->axes >> dim & 1;
}

static void spread_by_shape(run_spread *made, const run_array *small, const run_array *large)
{
    uint32_t lead = large->rank - small->rank;
    for (uint32_t d = 0; d < large->rank; d++) {
        bool repeats = d < lead || small->shape[d - lead] != large->shape[d];
        made->small.shape[d] = repeats ? 1 : large->shape[d];
        made->small.strides[d] = repeats ? 0 : small->strides[d - lead];
        made->axes |= (uint32_t)repeats << d;
    }
}

run_spread neap_run_spread_of(const run_spec *spec, const run_array *small, const run_array *large)
{
    run_spread made = {.small = *small, .axes = (uint32_t)neap_run_spec_int(spec, "axes", 0)};
    bool keep = neap_run_spec_int(spec, "keepdims", 0) != 0;
    made.small.rank = large->rank;
    if (made.axes == 0) {
        spread_by_shape(&made, small, large);
        return made;
    }
    for (uint32_t d = 0, from = 0; d < large->rank; d++) {
        made.small.shape[d] = is_in(&made, d) ? 1 : large->shape[d];
        made.small.strides[d] = is_in(&made, d) ? 0 : small->strides[from];
        from += keep || !is_in(&made, d);
    }
    return made;
}

run_array neap_run_spread_repeat(const run_spread *spread, const run_array *large)
{
    run_array repeated = spread->small;
    for (uint32_t d = 0; d < large->rank; d++)
        repeated.shape[d] = large->shape[d];
    return repeated;
}

run_array neap_run_spread_kept(const run_spread *spread, const run_array *large)
{
    run_array kept = *large;
    for (uint32_t d = 0; d < large->rank; d++)
        kept.shape[d] = is_in(spread, d) ? 1 : large->shape[d];
    return kept;
}

run_array neap_run_spread_summed(const run_spread *spread, const run_array *large)
{
    run_array summed = *large;
    for (uint32_t d = 0; d < large->rank; d++)
        summed.shape[d] = is_in(spread, d) ? large->shape[d] : 1;
    return summed;
}

run_array neap_run_array_permute(const run_spec *spec, const run_array *array)
{
    run_array turned = *array;
    for (uint32_t d = 0; d < array->rank; d++) {
        char name[24];
        snprintf(name, sizeof name, "axis_%u", d);
        int64_t from = neap_run_spec_int(spec, name, 0);
        turned.shape[d] = array->shape[from];
        turned.strides[d] = array->strides[from];
    }
    return turned;
}

static int64_t positive(int64_t number)
{
    return number > 0 ? number : 0;
}

run_padding neap_run_padding_of(const run_spec *spec, uint32_t dim)
{
    char name[24];
    snprintf(name, sizeof name, "before_%u", dim);
    int64_t before = neap_run_spec_int(spec, name, 0);
    snprintf(name, sizeof name, "after_%u", dim);
    int64_t after = neap_run_spec_int(spec, name, 0);
    return (run_padding){.before = positive(before),
                         .after = positive(after),
                         .kept = spec->in[0].shape[dim] - positive(-before) - positive(-after),
                         .skipped = positive(-before)};
}
