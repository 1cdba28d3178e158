/* Parameters of elementwise kernels. */
#ifndef NEAP_CUDA_ELEMENTWISE_H
#define NEAP_CUDA_ELEMENTWISE_H

#include "walk.h"

typedef struct elementwise_params {
    walk walk;         /* operands: y; a; b, or dropout's mask; c, or a counter of elements */
    void *y;           /* of type T, like a and b, unless `wide` says otherwise */
    const void *a, *b; /* dropout_bw: b is the mask, of bytes */
    const void *c;     /* of ops that have three: where's condition; mse_bw: a float */
    u8 *mask;          /* dropout */
    seed_source seed;  /* dropout */
    u64 first;         /* dropout: the number of the first element */
    u64 step;          /* dropout: from one element of a vector to the next, in numbers */
    float p, q;        /* what the op's attributes come down to */
    u32 least;         /* dropout: of 2^24 draws, those below are dropped */
    i32 exponent;      /* pow: one of the kinds below */
    i32 other;         /* dropout_bw, where_bw: chosen is what the mask has as 0 */
    i32 vectors;       /* units are vectors; else elements */
    i32 tail;          /* elements after the last vector */
    i32 splat;         /* b does not change within a vector */
    u32 wide;          /* a set of operands that are f32 whatever T is; then no vectors */
} elementwise_params;

/* Kinds of exponents. */
enum { POWER_ANY, POWER_0, POWER_1, POWER_2, POWER_3, POWER_HALF };

#endif
