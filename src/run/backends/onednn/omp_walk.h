/*
 * Walks over the elements of several arrays of one shape at a time, whatever their strides.
 *
 * Planning sorts the dimensions so that the first operand is walked in the order of its memory, and
 * merges dimensions that all operands take in even steps: arrays of one dense layout become one
 * long row. What is left is handed out in *blocks*: rows of elements, where both the step from
 * element to element and the one from row to row are constant for each operand.
 *
 * An operand that repeats has strides of 0. An operand may also be no memory at all: the plain
 * strides of a shape count its elements in row-major order.
 */
#ifndef NEAP_RUN_OMP_WALK_H
#define NEAP_RUN_OMP_WALK_H

#include "run/backends/onednn/omp_kernel.h"

#define OMP_MOST_OPERANDS 6
#define OMP_MOST_DIMS     (NEAP_MAX_RANK + 2)

typedef struct omp_walk {
    uint32_t operands, rank; /* rank is at least 2: ..., rows, elements of a row */
    int64_t extent[OMP_MOST_DIMS];
    int64_t stride[OMP_MOST_DIMS][OMP_MOST_OPERANDS];
    int64_t total;   /* elements */
    int64_t unit;    /* a part's share is a multiple */
    bool contiguous; /* every operand's step within a row is 1 */
} omp_walk;

/* From one element of a row to the next, and from a row to the next, of operand k. */
static inline int64_t omp_step(const omp_walk *walk, uint32_t k)
{
    return walk->stride[walk->rank - 1][k];
}

static inline int64_t omp_row_step(const omp_walk *walk, uint32_t k)
{
    return walk->stride[walk->rank - 2][k];
}

/* `at`: of each operand, the elements from its first to the block's first. */
typedef void omp_block(const omp_task *task, const omp_walk *walk, const int64_t *at, int64_t rows,
                       int64_t length);

/* All arrays have the first one's shape. Shares are multiples of `grain` elements, or rows. */
void neap_omp_walk_plan(omp_walk *walk, uint32_t operands, const run_array *arrays, int64_t grain,
                        int parts);
/* Calls `block` for everything in the task's share. */
void neap_omp_walk_share(const omp_walk *walk, const omp_task *task, omp_block *block);

#endif
