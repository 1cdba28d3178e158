/*
 * Convolutions in all directions: every variant of a backend of the cuda family against sums in
 * double precision.
 */
#ifndef NEAP_TESTS_CONV_CHECK_H
#define NEAP_TESTS_CONV_CHECK_H

#include "run/backends/cuda/conv.h"

typedef struct conv_case {
    int64_t n, c, h, w, k, side, stride, pad, dilation, groups;
    bool plain;    /* row-major, else channels-last */
    int64_t shift; /* elements that images are off their alignment */
    bool relu;
} conv_case;

/* Fails the test at the first wrong element; `number` of the case is in the message. */
void conv_check(neap_backend *backend, const conv_case *c, int number, neap_dtype type);

/* ---- Numbers ---- */

/* An array in a block of its own. */
typedef struct conv_array {
    run_array array;
    void *block;
    unsigned char *at;
} conv_array;

/* Not numbers, at first. Free `block`. */
conv_array conv_array_new(neap_dtype type, uint32_t rank, const int64_t *shape, bool plain,
                          int64_t shift);
/* Multiples of 1/64 from -1 to 1, which bf16 has. */
void conv_array_fill(conv_array *a, uint64_t *random);
/* Of a vector, and of an image or filters. */
double conv_array_get(const conv_array *a, int64_t i);
double conv_array_at(const conv_array *a, int64_t n, int64_t c, int64_t h, int64_t w);

#endif
