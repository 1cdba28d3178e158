/* The pixel that a pixel of a resized image is taken from. */
#ifndef NEAP_RUN_NEAREST_H
#define NEAP_RUN_NEAREST_H

#include "run/backend.h"

#include <math.h>

/* One dimension of a resize to the nearest pixel. */
typedef struct run_nearest {
    int64_t from, to; /* extents */
    double scale;
    bool half_pixel, round;
} run_nearest;

/* `which` is 0 for rows, 1 for columns; x and y are the small and the large image, or the other way
   round. */
static inline run_nearest run_nearest_of(const run_spec *spec, const run_array *x,
                                         const run_array *y, uint32_t which)
{
    return (run_nearest){.from = x->shape[2 + which],
                         .to = y->shape[2 + which],
                         .scale = neap_run_spec_real(spec, which ? "scale_w" : "scale_h", 1),
                         .half_pixel = neap_run_spec_int(spec, "half_pixel", 0) != 0,
                         .round = neap_run_spec_int(spec, "round", 0) != 0};
}

/* It never decreases with i. */
static inline int64_t run_nearest_pixel(const run_nearest *n, int64_t i)
{
    double at = n->half_pixel ? ((double)i + 0.5) / n->scale - 0.5 : (double)i / n->scale;
    at = n->round ? ceil(at - 0.5) : floor(at);
    if (!(at > 0))
        return 0;
    return at < (double)n->from ? (int64_t)at : n->from - 1;
}

#endif
