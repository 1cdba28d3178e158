/* Parameters of kernels that move elements, whatever their type. */
#ifndef NEAP_CUDA_COPY_H
#define NEAP_CUDA_COPY_H

#include "walk.h"

/* Elements to copy, or places to set to a value, in words of 1, 2, 4, 8 or 16 bytes. */
typedef struct copy_box {
    walk walk; /* operands: the result, the source; strides in bytes */
    void *to;
    const void *from; /* NULL: the value */
    u64 value;        /* its bits, as often as they fit */
    i32 word;
} copy_box;

#define COPY_MOST_BOXES 8

typedef struct copy_boxes {
    copy_box box[COPY_MOST_BOXES]; /* one for each blockIdx.y */
} copy_boxes;

/* Matrices to transpose: a row's elements are neighbours in the source, a column's in the result.
   Strides count elements. */
typedef struct tile_params {
    void *to;
    const void *from;
    i64 rows, columns;
    i64 from_row;     /* from a row to the next, in the source */
    i64 to_column;    /* from a column to the next, in the result */
    u32 tiles_across; /* tiles next to each other in a row */
    u32 tiles;        /* of a matrix */
    divisor by_across, by_tiles;
    walk matrices; /* operands: the result, the source */
} tile_params;

#endif
