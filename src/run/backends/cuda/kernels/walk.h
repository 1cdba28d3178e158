/*
 * A walk over the elements of several arrays of one shape at a time, whatever their strides.
 *
 * Its units are elements, or vectors of them. Unit i has a digit for each dimension, the innermost
 * first, and lies the digits' strides away from an operand's first element.
 */
#ifndef NEAP_CUDA_KERNELS_WALK_H
#define NEAP_CUDA_KERNELS_WALK_H

#include "types.h"

#define WALK_OPERANDS 4
#define WALK_UNROLL   4 /* units of a thread */

/* Numbers below 2^31 divided by one of 1 to 2^31: (n * magic / 2^32 + n) / 2^shift. */
typedef struct divisor {
    u32 magic, shift;
} divisor;

typedef struct walk {
    i64 units; /* of one launch: at most 2^30 */
    i32 rank;  /* at least 1 */
    divisor by[MOST_DIMS];
    i64 extent[MOST_DIMS];
    i64 stride[MOST_DIMS][WALK_OPERANDS]; /* 0 where an operand repeats */
} walk;

#endif
