/*
 * The gradient of attention on tensor cores. With P = exp(S - lse), dP = do v^T and D = do . o
 *
 *     dS = P (kept dP - D)     dq = dS k / sqrt(width)     dk = dS^T q / sqrt(width)
 *     dv = (kept P)^T do
 *
 * A block either has queries and passes by the keys, for dq, or has keys and passes by the queries,
 * for dk and dv; the products S and dP, or their transposes, are computed in both. So no sum is
 * shared by blocks, and its order is always the same.
 */
#ifndef NEAP_CUDA_ATTENTION_MMA_BW_CUH
#define NEAP_CUDA_ATTENTION_MMA_BW_CUH

#include "attention_mma.cuh"

/* Log-sum-exps, in powers of 2, and do . o: of the block's rows, or of those that pass by. */
typedef struct attention_statistics {
    float lse[8], inner[8];
} attention_statistics;

/* For products of 16 x 8, number i: of its row in tile m of the block's, or of its column in tile n
   of those that pass by. */
DEVICE int attention_statistic(bool by_keys, int m, int n, int i)
{
    return by_keys ? 2 * n + i % 2 : 2 * m + i / 2;
}

DEVICE void attention_row_statistics(const attention_params *p, const attention_place *at,
                                     attention_statistics *of, int first, int tiles)
{
    UNROLL for (int row = 0; row < 2 * tiles; row++)
    {
        int query = first + 16 * (row / 2) + attention_g(row % 2 * 2);
        bool there = query < p->queries;
        of->lse[row] =
            there ? p->lse[attention_lse_index(p, at, query)] * ATTENTION_LOG2_E : 0;
        of->inner[row] = there ? p->inner[attention_inner_index(p, at, query)] : 0;
    }
}

/* Of 32 queries, from shared memory. */
DEVICE void attention_column_statistics(const attention_params *p, attention_statistics *of,
                                        const float *shared)
{
    UNROLL for (int i = 0; i < 8; i++)
    {
        int column = 8 * (i / 2) + attention_t() + i % 2;
        of->lse[i] = shared[column] * ATTENTION_LOG2_E;
        of->inner[i] = p->inner ? shared[ATTENTION_BACKWARD_ROWS + column] : 0;
    }
}

/* S becomes P; 0 where a query does not see a key. Queries that are not there have zeros
   everywhere: what P is for them does not matter. */
DEVICE void attention_probabilities_of(const attention_params *p, attention_square s,
                                       const attention_statistics *of, bool by_keys, bool mask,
                                       int row, int column, int tiles)
{
    UNROLL for (int m = 0; m < tiles; m++)
        UNROLL for (int n = 0; n < ATTENTION_BACKWARD_ROWS / 8; n++)
            UNROLL for (int i = 0; i < 4; i++)
            {
                int r = row + 16 * m + attention_g(i), c = column + 8 * n + attention_t() + i % 2;
                s[m][n][i] = attention_exp2(s[m][n][i] * p->scale_2 -
                                            of->lse[attention_statistic(by_keys, m, n, i)]);
                if (mask && !attention_sees(p, by_keys ? c : r, by_keys ? r : c))
                    s[m][n][i] = 0;
            }
}

/* dP becomes dS. */
DEVICE void attention_score_gradients(const attention_params *p, attention_square s,
                                      attention_square dp, const attention_statistics *of,
                                      bool by_keys, const u32 dropped[2], int tiles)
{
    UNROLL for (int m = 0; m < tiles; m++)
        UNROLL for (int n = 0; n < ATTENTION_BACKWARD_ROWS / 8; n++)
            UNROLL for (int i = 0; i < 4; i++)
            {
                float d = dp[m][n][i];
                if (p->least)
                    d = dropped[m] >> (4 * n + i) & 1 ? 0 : d * p->keep;
                dp[m][n][i] =
                    s[m][n][i] * (d - of->inner[attention_statistic(by_keys, m, n, i)]);
            }
}

/* A tile of the rows that pass by, and the statistics of queries. */
DEVICE void attention_fetch_pair(const attention_params *p, T *tile, float *statistics,
                                 const attention_place *at, bool by_keys, int first, int width)
{
    const attention_operand *u = by_keys ? &p->q : &p->k, *w = by_keys ? &p->d_o : &p->v;
    int end = by_keys ? p->queries : p->keys, query = first + (int)threadIdx.x % WARP;
    attention_fetch(p, tile, u, at, first, end, ATTENTION_BACKWARD_ROWS, width);
    attention_fetch(p, tile + ATTENTION_BACKWARD_ROWS * (width + VECTOR), w, at, first, end,
                    ATTENTION_BACKWARD_ROWS, width);
    if (!by_keys || threadIdx.x >= 2 * WARP)
        return;
    bool there = query < p->queries;
    query = there ? query : 0;
    if (threadIdx.x < WARP)
        copy_number(statistics + threadIdx.x, p->lse + attention_lse_index(p, at, query), there);
    else if (p->inner)
        copy_number(statistics + threadIdx.x, p->inner + attention_inner_index(p, at, query),
                    there);
}

/* The sums of a block to one of the gradients, through a tile of its size. */
DEVICE void attention_put_gradient(const attention_params *p, const attention_operand *x,
                                   const attention_place *at, T *tile, attention_sums sums,
                                   float factor, int end, int width, int tiles)
{
    float factors[4] = {factor, factor, factor, factor};
    if (!x->at)
        return;
    attention_stage(tile, sums, factors, width, tiles);
    __syncthreads();
    attention_store(p, x, at, tile, end, 64 * tiles, width);
}

/*
 * A block's share. x and y are its rows, u and w those that pass by: q, do and k, v where it has
 * queries; k, v and q, do where it has keys.
 */
typedef struct attention_share {
    attention_place at;
    T *x, *y, *streams; /* two tiles of u and w each */
    float *statistics;  /* of queries that pass by, for both */
    int own, row;       /* rows that there are; the warp's first */
    int begin, end;     /* of those that pass by */
    bool scores;        /* the gradient of scores is wanted */
} attention_share;

DEVICE attention_share attention_share_of(const attention_params *p, T *shared, bool by_keys,
                                          int width, int tiles)
{
    const int own = 64 * tiles * (width + VECTOR);
    attention_share share;
    share.x = shared;
    share.y = share.x + own;
    share.streams = share.y + own;
    share.statistics =
        (float *)(share.streams + 4 * ATTENTION_BACKWARD_ROWS * (width + VECTOR));
    share.own = by_keys ? p->keys : p->queries;
    share.at = attention_find(p, share.own, 64 * tiles, !by_keys);
    share.row = share.at.first + attention_warp_first(tiles);
    share.begin = by_keys && p->causal ? share.at.first : 0;
    share.end = by_keys ? p->queries : attention_keys(p, share.at.first + 64 * tiles);
    share.scores = !by_keys || p->dk.at;
    return share;
}

/* Left factors that stay in registers, and sums. */
typedef struct attention_state {
    attention_left x, y;
    attention_sums dx, dy;
    attention_statistics of;
} attention_state;

/* Whether they do: beside both sums there is no room for them. */
DEVICE bool attention_is_held_bw(bool by_keys, int width)
{
    return attention_is_held(width) && !by_keys;
}

/* What the tile of rows from `first` on adds to the sums. */
DEVICE void attention_add_tile(const attention_params *p, const attention_share *share,
                               attention_state *state, const T *u, bool by_keys, int first,
                               int width, int tiles)
{
    const int pitch = width + VECTOR, rows = ATTENTION_BACKWARD_ROWS;
    const bool hold = attention_is_held_bw(by_keys, width);
    const T *w = u + rows * pitch;
    int warp = attention_warp_first(tiles) * pitch, row = share->row;
    bool mask = p->causal && (by_keys ? first < row + 16 * tiles - 1 : first + rows > row + 1);
    attention_square s, dp;
    u32 dropped[2] = {0, 0};
    attention_product(s, state->x, hold, share->x + warp, u, width, tiles, rows);
    attention_probabilities_of(p, s, &state->of, by_keys,
                               mask || (!by_keys && first + rows > p->keys), row, first, tiles);
    if (p->least)
        UNROLL for (int m = 0; m < tiles; m++)
            dropped[m] =
                attention_dropped_bits(p, &share->at, by_keys, row + 16 * m, first, rows);
    if (share->scores) {
        attention_product(dp, state->y, hold, share->y + warp, w, width, tiles, rows);
        attention_score_gradients(p, s, dp, &state->of, by_keys, dropped, tiles);
        attention_add_product(state->dx, dp, u, width, tiles, rows);
    }
    if (by_keys && p->dv.at) {
        if (p->least)
            UNROLL for (int m = 0; m < tiles; m++)
                attention_drop(s[m], dropped[m], rows);
        attention_add_product(state->dy, s, w, width, tiles, rows);
    }
}

/* All tiles, each while the next is on its way. */
DEVICE void attention_pass(const attention_params *p, const attention_share *share,
                           attention_state *state, bool by_keys, int width, int tiles)
{
    const int pitch = width + VECTOR, rows = ATTENTION_BACKWARD_ROWS;
    int warp = attention_warp_first(tiles) * pitch, row = share->row, turn = 0;
    for (int first = share->begin; first < share->end; first += rows, turn ^= 1) {
        T *u = share->streams + turn * 2 * rows * pitch;
        wait_copies();
        if (first == share->begin)
            attention_round(share->x, (share->scores ? 128 : 64) * tiles, width);
        attention_round(u, 2 * rows, width);
        __syncthreads(); /* the next tile takes the place of one that all have passed */
        if (first + rows < share->end)
            attention_fetch_pair(p, share->streams + (turn ^ 1) * 2 * rows * pitch,
                                 share->statistics + (turn ^ 1) * 2 * rows, &share->at, by_keys,
                                 first + rows, width);
        if (first == share->begin && attention_is_held_bw(by_keys, width)) {
            attention_hold(state->x, share->x + warp, width, tiles);
            attention_hold(state->y, share->y + warp, width, tiles);
        }
        if (row >= share->own ||
            (p->causal && (by_keys ? first + rows <= row : first >= row + 16 * tiles)))
            continue; /* none of the queries sees any of the keys */
        if (by_keys)
            attention_column_statistics(p, &state->of, share->statistics + turn * 2 * rows);
        attention_add_tile(p, share, state, u, by_keys, first, width, tiles);
    }
}

/* Blocks: tiles of 64 x `tiles` queries, or keys, x heads x examples. */
DEVICE void attention_backward(const attention_params *p, T *shared, bool by_keys, int width,
                               int tiles)
{
    attention_share share = attention_share_of(p, shared, by_keys, width, tiles);
    attention_state state;
    attention_clear_sums(state.dx, width, tiles);
    attention_clear_sums(state.dy, width, tiles);
    attention_fetch(p, share.x, by_keys ? &p->k : &p->q, &share.at, share.at.first, share.own,
                    64 * tiles, width);
    if (share.scores)
        attention_fetch(p, share.y, by_keys ? &p->v : &p->d_o, &share.at, share.at.first, share.own,
                        64 * tiles, width);
    if (share.begin < share.end)
        attention_fetch_pair(p, share.streams, share.statistics, &share.at, by_keys, share.begin,
                             width);
    if (!by_keys)
        attention_row_statistics(p, &share.at, &state.of, share.row, tiles);
    attention_pass(p, &share, &state, by_keys, width, tiles);
    wait_copies();
    __syncthreads();
    attention_put_gradient(p, by_keys ? &p->dk : &p->dq, &share.at, share.x, state.dx, p->scale,
                           share.own, width, tiles);
    if (by_keys)
        attention_put_gradient(p, &p->dv, &share.at, share.y, state.dy, p->least ? p->keep : 1,
                               share.own, width, tiles);
}

/* The kernels for heads of up to `width` features. */
#define ATTENTION_KERNELS(width)                                                                   \
    KERNEL_SYNC(attention_##width, attention_params)                                               \
    {                                                                                              \
        DYNAMIC_SHARED(T, shared);                                                                 \
        attention_forward(&p, shared, width, ATTENTION_FORWARD_TILES(width * (int)sizeof(T)),      \
                          ATTENTION_FORWARD_ROWS(width * (int)sizeof(T)));                         \
    }                                                                                              \
    KERNEL_SYNC(attention_##width##_dq, attention_params)                                          \
    {                                                                                              \
        DYNAMIC_SHARED(T, shared);                                                                 \
        attention_backward(&p, shared, false, width, ATTENTION_DQ_TILES(width * (int)sizeof(T)));  \
    }                                                                                              \
    KERNEL_SYNC(attention_##width##_dkv, attention_params)                                         \
    {                                                                                              \
        DYNAMIC_SHARED(T, shared);                                                                 \
        attention_backward(&p, shared, true, width, ATTENTION_DKV_TILES(width));                   \
    }

#endif
