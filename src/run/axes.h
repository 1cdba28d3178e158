/*
 * Arrays that repeat along some dimensions of others, and sums over those.
 */
#ifndef NEAP_RUN_AXES_H
#define NEAP_RUN_AXES_H

#include "run/backend.h"

/* A small array beside a large one, whose elements it stands for along a set of dimensions. */
typedef struct run_spread {
    run_array small; /* of the large one's rank; the dimensions of the set have extent 1 */
    uint32_t axes;   /* the set, one bit each */
} run_spread;

/* By the op's attributes `axes` and `keepdims`; where it has none, by numpy's rules of repetition:
   dimensions are compared from the last on, and those of extent 1 repeat. */
run_spread neap_run_spread_of(const run_spec *spec, const run_array *small, const run_array *large);
/* The small array in the shape of the large one, with strides of 0 along the set. */
run_array neap_run_spread_repeat(const run_spread *spread, const run_array *large);
/* Of a large array: its dimensions outside of the set, or in it; others have extent 1. */
run_array neap_run_spread_kept(const run_spread *spread, const run_array *large);
run_array neap_run_spread_summed(const run_spread *spread, const run_array *large);

/* One dimension of a pad: elements of the value before and after, elements of x that are kept, and
   those skipped before them. */
typedef struct run_padding {
    int64_t before, after, kept, skipped;
} run_padding;

run_padding neap_run_padding_of(const run_spec *spec, uint32_t dim);

/* The array with its dimensions in the order of the attributes axis_0, axis_1, ... */
run_array neap_run_array_permute(const run_spec *spec, const run_array *array);

#endif
