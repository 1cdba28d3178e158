/*
 * An array as rows: all of its dimensions but one (the elements of a row), counted in row-major
 * order. Dimensions that follow each other in memory are joined, so that rank is 1 where rows are
 * evenly spaced.
 */
#ifndef NEAP_CUDA_KERNELS_ROW_WALK_H
#define NEAP_CUDA_KERNELS_ROW_WALK_H

#include "types.h"

typedef struct row_walk {
    i64 count;
    i32 rank;              /* at least 1 */
    i64 extent[MOST_DIMS]; /* the innermost first */
    i64 stride[MOST_DIMS]; /* in elements */
} row_walk;

#endif
