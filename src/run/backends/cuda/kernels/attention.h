#ifndef NEAP_CUDA_ATTENTION_H
#define NEAP_CUDA_ATTENTION_H

#include "types.h"

#define ATTENTION_TILE    64  /* queries and keys of a tile, and features of one in any_head */
#define ATTENTION_THREADS 128 /* of a block */

/*
 * On tensor cores a head's rows are padded to 32, 64, 96 or 128 features; what follows depends on
 * their bytes. Each of 4 warps has _TILES times 16 rows of the block's, and passes by the others in
 * tiles of _ROWS, of which two are in shared memory. For devices that have too little of it, there
 * are kernels for rows of ATTENTION_TIGHT_ROW bytes with one tile for each warp.
 */
#define ATTENTION_WARPS              4
#define ATTENTION_FORWARD_TILES(row) ((row) <= 256 ? 2 : 1)
#define ATTENTION_FORWARD_ROWS(row)  ((row) <= 256 ? 64 : 32)
#define ATTENTION_DQ_TILES(row)      ((row) <= 256 ? 2 : 1)
#define ATTENTION_DKV_TILES(width)   ((width) <= 64 ? 2 : 1)
#define ATTENTION_BACKWARD_ROWS      32
#define ATTENTION_TIGHT_ROW          256
/* Bytes of shared memory: rows have a gap of 16 bytes, so that cells of a column are in different
   banks. */
#define ATTENTION_FORWARD_SHARED(row, tiles)                                                       \
    (((row) + 16) * (64 * (tiles) + 4 * ATTENTION_FORWARD_ROWS(row)))
#define ATTENTION_BACKWARD_SHARED(row, tiles)                                                      \
    (((row) + 16) * (128 * (tiles) + 4 * ATTENTION_BACKWARD_ROWS) + 16 * ATTENTION_BACKWARD_ROWS)

/* One of q, k, v, o and their gradients: feature d of head h of row t of example n is element
   n * batch + t * row + (h * width + d) * step. */
typedef struct attention_operand {
    void *at; /* NULL: not there, or not wanted */
    i64 batch, row, step;
    i32 vectors; /* rows of heads begin at multiples of 16 bytes and have no gaps */
} attention_operand;

typedef struct attention_params {
    attention_operand q, k, v, o;
    attention_operand d_o, dq, dk, dv; /* of the gradient */
    float *lse;                        /* natural logarithms */
    i64 lse_batch, lse_head, lse_row;  /* strides */
    float *inner;                      /* N x heads x queries: do . o, or NULL */
    i32 batch, heads, queries, keys;
    i32 width;     /* of a head */
    i32 causal;    /* query i sees keys 0 to i */
    float scale;   /* 1 / sqrt(width) */
    float scale_2; /* the same times log2(e) */
    u32 least;     /* of 2^24 draws, those below are dropped; 0: no dropout */
    float keep;    /* 1 / (1 - p) */
    seed_source seed;
} attention_params;

#endif
