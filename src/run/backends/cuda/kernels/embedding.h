#ifndef NEAP_CUDA_EMBEDDING_H
#define NEAP_CUDA_EMBEDDING_H

#include "image.h"

#define EMBEDDING_THREADS 256 /* of a block that sorts; also the values of a digit */
#define EMBEDDING_ROUNDS  4   /* ids that each of its threads has */
#define EMBEDDING_TILE    (EMBEDDING_THREADS * EMBEDDING_ROUNDS)
#define EMBEDDING_CHUNK   32 /* sorted ids that a thread sums up in its columns */

/* The ids, and the rows of y or dy that go with them: position i of the row-major order. */
typedef struct embedding_ids {
    const void *at;
    i32 is_i64;
    i32 rank;
    i64 count;
    i64 shape[MOST_DIMS], strides[MOST_DIMS], row_strides[MOST_DIMS];
} embedding_ids;

typedef struct embedding_params {
    embedding_ids ids;
    void *rows;  /* y or dy */
    void *table; /* w or dw */
    i64 row_step, table_row, table_step;
    i64 features, entries;   /* of the table */
    i64 items;               /* vectors or elements of all rows; of the table for embedding_zero */
    image_divisor by_groups; /* vectors or elements of a row */
    i32 wide;                /* the items do not fit in 31 bits */
    i32 *trouble;
} embedding_params;

/* One pass of a stable sort by digits of 8 bits. Keys are ids; one out of range is `entries`. */
typedef struct embedding_sort_params {
    embedding_ids ids;
    const u32 *keys, *positions; /* NULL: the ids, in order */
    u32 *sorted_keys, *sorted_positions;
    u32 *counts; /* of each tile, of each digit */
    i64 entries;
    i32 tiles, shift;
    i32 *trouble;
} embedding_sort_params;

typedef struct embedding_sum_params {
    embedding_ids ids;
    const u32 *keys, *positions; /* sorted */
    const void *dy;
    void *dw;
    float *heads, *tails; /* of each chunk: sums of runs that go on in another */
    i64 partial_row;      /* elements from one row of heads or tails to the next */
    i64 dy_step, dw_row, dw_step;
    i64 features, entries;
} embedding_sum_params;

#endif
