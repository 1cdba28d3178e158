/* Parameters of sums over leading dimensions. */
#ifndef NEAP_CUDA_REDUCE_H
#define NEAP_CUDA_REDUCE_H

#include "walk.h"

#define REDUCE_THREADS      256
#define REDUCE_JOIN_COLUMNS 8 /* of a block: as wide as memory is read */

typedef struct reduce_params {
    const void *x;  /* rows of columns */
    void *y;        /* their sums */
    float *partial; /* NULL: sums go to y; else those of part k to columns of their own */
    walk columns;   /* operands: x, y; any length */
    walk rows;      /* operand: x; any length */
    i64 part_rows;  /* of a part, blockIdx.y; the last may have fewer */
    i32 across;     /* groups of columns that a block has next to each other: a power of two */
} reduce_params;

/* The parts' sums. */
typedef struct reduce_join_params {
    const float *partial;
    void *y;
    walk columns; /* operands: x, y */
    i32 parts;
} reduce_join_params;

#endif
