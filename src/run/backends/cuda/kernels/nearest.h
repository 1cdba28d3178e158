/* Parameters of resizing to the nearest pixel. */
#ifndef NEAP_CUDA_KERNELS_NEAREST_H
#define NEAP_CUDA_KERNELS_NEAREST_H

#include "walk.h"

/* Where each row and then each column of the large image comes from: never decreases. */
typedef struct nearest_table_params {
    i32 *sources;
    i64 from[2], to[2]; /* rows and columns of the small image, and of the large one */
    double scale[2];
    i32 half_pixel, round;
} nearest_table_params;

typedef struct nearest_params {
    walk walk; /* operands: the result; the operand at pixel (0, 0); row; column */
    const void *from;
    void *to;
    const i32 *sources;
    i64 rows, columns;           /* of the large image */
    i64 from_row, from_column;   /* steps */
    i64 first_row, first_column; /* of the walk's first unit */
} nearest_params;

#endif
