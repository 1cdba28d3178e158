/* What the kernels of attention share: which part a block has, probabilities, dropout. */
#ifndef NEAP_CUDA_ATTENTION_COMMON_CUH
#define NEAP_CUDA_ATTENTION_COMMON_CUH

#include "attention.h"
#include "prelude.cuh"

#define ATTENTION_LOG2_E 1.4426950408889634f
#define ATTENTION_LN_2   0.6931471805599453f

/* A block's tile of rows of one head. */
typedef struct attention_place {
    i32 example, head, first; /* the tile's first row */
    u64 seed;
} attention_place;

/*
 * Blocks are tiles x heads x examples. The tiles of a head follow each other, so that they find its
 * keys in the cache; those of a causal one are not alike, and the longest start first.
 */
DEVICE attention_place attention_find(const attention_params *p, int rows, int tile_rows,
                                      bool longest_last)
{
    u32 tiles = (u32)((rows + tile_rows - 1) / tile_rows), pairs = (u32)(p->batch * p->heads);
    u32 pair = p->causal ? blockIdx.x % pairs : blockIdx.x / tiles;
    u32 tile = p->causal ? blockIdx.x / pairs : blockIdx.x % tiles;
    attention_place at;
    if (p->causal && longest_last)
        tile = tiles - 1 - tile;
    at.example = (i32)(pair / (u32)p->heads);
    at.head = (i32)(pair % (u32)p->heads);
    at.first = (i32)tile * tile_rows;
    at.seed = p->least ? seed_of(p->seed) : 0;
    return at;
}

/* Row 0, feature 0 of the block's head. */
DEVICE T *attention_head(const attention_params *p, const attention_operand *x,
                         const attention_place *at)
{
    return (T *)x->at + (at->example * x->batch + (i64)at->head * p->width * x->step);
}

DEVICE i64 attention_lse_index(const attention_params *p, const attention_place *at, int query)
{
    return at->example * p->lse_batch + at->head * p->lse_head + query * p->lse_row;
}

DEVICE i64 attention_inner_index(const attention_params *p, const attention_place *at, int query)
{
    return ((i64)at->example * p->heads + at->head) * p->queries + query;
}

/* How many keys the queries before `end` see at most. */
DEVICE int attention_keys(const attention_params *p, int end)
{
    return p->causal && end < p->keys ? end : p->keys;
}

DEVICE bool attention_sees(const attention_params *p, int query, int key)
{
    return key < p->keys && (!p->causal || key <= query);
}

/* Random numbers are random_draw of prelude.cuh, at steps of its state: see docs/ops.md for which
   one a probability has. */
#define ATTENTION_RANDOM_STEP 0x9e3779b97f4a7c15ull

DEVICE u64 attention_random_state(const attention_params *p, const attention_place *at, int query,
                                  int key)
{
    u64 index = (u64)attention_inner_index(p, at, query) * (u64)p->keys + (u64)key;
    return at->seed + (index + 1) * ATTENTION_RANDOM_STEP;
}

DEVICE u32 attention_is_dropped(const attention_params *p, u64 state)
{
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ull;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebull;
    return (u32)(state >> 40) < p->least;
}

/* 2^x; 0 for minus infinity. */
DEVICE float attention_exp2(float x)
{
#ifdef __CUDACC__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

DEVICE float attention_minus_infinity(void)
{
    return bits_float(0xff800000u);
}

#endif
