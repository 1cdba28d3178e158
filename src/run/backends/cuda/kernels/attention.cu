/*
 * Attention for any head size and strides, in f32 arithmetic (Dao et al., FlashAttention): tiles of
 * 64 queries and 64 keys, whose scores are never in memory.
 *
 * A tile in shared memory is 64 rows of 16 groups of four floats. A thread of the 16 x 8 has 4
 * columns and 8 rows of every product. It reads groups, along rows of both factors where the sum is
 * over columns of both; the groups of a row are permuted so that these are in different banks.
 * Heads of more than 64 features are cut into chunks: scores are summed over all, and results are
 * computed by one block for each.
 */
#include "attention_common.cuh"

#define ATTENTION_GROUPS (ATTENTION_TILE / 4)
#define ATTENTION_AREA   (ATTENTION_TILE * ATTENTION_TILE) /* floats of a tile */

typedef struct ALIGNED(16) attention_four {
    float e[4];
} attention_four;

/* Four elements, one access of memory. */
typedef struct ALIGNED(4 * sizeof(T)) attention_elements {
    T e[4];
} attention_elements;

/* The rows and columns of products that a thread has: from 8 row and 4 column on. */
DEVICE int attention_row(void)
{
    return (int)threadIdx.x / 16;
}

DEVICE int attention_column(void)
{
    return (int)threadIdx.x % 16;
}

DEVICE attention_four *attention_group(float *tile, int row, int group)
{
    return (attention_four *)(tile + row * ATTENTION_TILE + ((group ^ (row >> 2 & 7)) << 2));
}

/* ---- Tiles from memory and to it ---- */

/* 64 rows from `first` on and features from `begin` on; zeros where there are none. */
DEVICE void attention_load(const attention_params *p, float *tile, const attention_operand *x,
                           const attention_place *at, int first, int rows, int begin)
{
    const T *head = attention_head(p, x, at);
    for (int i = (int)threadIdx.x; i < ATTENTION_AREA / 4; i += ATTENTION_THREADS) {
        int row = i / ATTENTION_GROUPS, d = begin + i % ATTENTION_GROUPS * 4;
        const T *from = head + (i64)(first + row) * x->row + d * x->step;
        attention_four four = {{0, 0, 0, 0}};
        if (first + row < rows && d < p->width) {
            if (x->vectors) {
                attention_elements elements = *(const attention_elements *)from;
                for (int e = 0; e < 4; e++)
                    four.e[e] = from_t(elements.e[e]);
            } else {
                for (int e = 0; e < 4 && d + e < p->width; e++)
                    four.e[e] = load(from, e * x->step);
            }
        }
        *attention_group(tile, row, i % ATTENTION_GROUPS) = four;
    }
}

/* A thread's part of 64 rows, each times its factor. */
DEVICE void attention_write(const attention_params *p, const attention_operand *x,
                            const attention_place *at, int rows, int begin, float part[8][4],
                            const float factors[8])
{
    T *head = attention_head(p, x, at);
    int d = begin + attention_column() * 4;
    UNROLL for (int r = 0; r < 8; r++)
    {
        int row = at->first + attention_row() * 8 + r;
        T *to = head + (i64)row * x->row + d * x->step;
        if (row >= rows || d >= p->width)
            continue;
        if (x->vectors) {
            attention_elements elements;
            for (int e = 0; e < 4; e++)
                elements.e[e] = to_t(part[r][e] * factors[r]);
            *(attention_elements *)to = elements;
        } else {
            UNROLL for (int e = 0; e < 4; e++)
                if (d + e < p->width)
                    store(to, e * x->step, part[r][e] * factors[r]);
        }
    }
}

/* ---- Products of tiles: sum += ... ---- */

/* a b^T over the columns of `groups` groups. */
DEVICE void attention_multiply_nt(float sum[8][4], float *a, float *b, int groups)
{
    int row = attention_row() * 8, column = attention_column() * 4;
    for (int g = 0; g < groups; g++) {
        attention_four x, y[4];
        UNROLL for (int c = 0; c < 4; c++)
            y[c] = *attention_group(b, column + c, g);
        UNROLL for (int r = 0; r < 8; r++)
        {
            x = *attention_group(a, row + r, g);
            UNROLL for (int c = 0; c < 4; c++)
                UNROLL for (int e = 0; e < 4; e++)
                    sum[r][c] += x.e[e] * y[c].e[e];
        }
    }
}

/* a b over `groups` groups of a's columns. */
DEVICE void attention_multiply_nn(float sum[8][4], float *a, float *b, int groups)
{
    int row = attention_row() * 8;
    for (int g = 0; g < groups; g++) {
        attention_four x, y[4];
        UNROLL for (int e = 0; e < 4; e++)
            y[e] = *attention_group(b, 4 * g + e, attention_column());
        UNROLL for (int r = 0; r < 8; r++)
        {
            x = *attention_group(a, row + r, g);
            UNROLL for (int e = 0; e < 4; e++)
                UNROLL for (int c = 0; c < 4; c++)
                    sum[r][c] += x.e[e] * y[e].e[c];
        }
    }
}

/* a^T b over `count` rows. */
DEVICE void attention_multiply_tn(float sum[8][4], float *a, float *b, int count)
{
    for (int i = 0; i < count; i++) {
        attention_four x[2], y = *attention_group(b, i, attention_column());
        x[0] = *attention_group(a, i, attention_row() * 2);
        x[1] = *attention_group(a, i, attention_row() * 2 + 1);
        UNROLL for (int r = 0; r < 8; r++)
            UNROLL for (int c = 0; c < 4; c++)
                sum[r][c] += x[r / 4].e[r % 4] * y.e[c];
    }
}

DEVICE void attention_clear(float part[8][4])
{
    UNROLL for (int r = 0; r < 8; r++)
        UNROLL for (int c = 0; c < 4; c++)
            part[r][c] = 0;
}

/* A thread's part of 64 x 64 into a tile. */
DEVICE void attention_put(float *tile, float part[8][4])
{
    UNROLL for (int r = 0; r < 8; r++)
    {
        attention_four four;
        UNROLL for (int c = 0; c < 4; c++)
            four.e[c] = part[r][c];
        *attention_group(tile, attention_row() * 8 + r, attention_column()) = four;
    }
}

/* x y^T of 64 rows of both over all features. Tiles that change are loaded; those of a head of one
   chunk stay as they are for `x_stays` or `y_stays`. Ends with a barrier if there are more. */
DEVICE void attention_scores(const attention_params *p, float sum[8][4], const attention_place *at,
                             float *x_tile, const attention_operand *x, int x_first, int x_rows,
                             bool x_stays, float *y_tile, const attention_operand *y, int y_first,
                             int y_rows, bool y_stays)
{
    bool one = p->width <= ATTENTION_TILE;
    attention_clear(sum);
    for (int begin = 0; begin < p->width; begin += ATTENTION_TILE) {
        int left = p->width - begin;
        if (!one || !x_stays)
            attention_load(p, x_tile, x, at, x_first, x_rows, begin);
        if (!one || !y_stays)
            attention_load(p, y_tile, y, at, y_first, y_rows, begin);
        __syncthreads();
        attention_multiply_nt(sum, x_tile, y_tile,
                              ((left < ATTENTION_TILE ? left : ATTENTION_TILE) + 3) / 4);
        if (!one)
            __syncthreads();
    }
}

/* ---- Forward ---- */

/* The largest score of each row so far, the sum of exponentials, and what to multiply with. */
typedef struct attention_rows {
    float largest[8], sum[8];
} attention_rows;

DEVICE float attention_row_max(float x)
{
    for (int mask = 8; mask > 0; mask /= 2)
        x = fmaxf(x, shuffle_xor(x, mask));
    return x;
}

DEVICE float attention_row_sum(float x)
{
    for (int mask = 8; mask > 0; mask /= 2)
        x += shuffle_xor(x, mask);
    return x;
}

/* Which of a thread's 32 probabilities are dropped, a bit each. */
DEVICE u32 attention_drops(const attention_params *p, const attention_place *at, int query, int key)
{
    u32 drops = 0;
    u64 state = attention_random_state(p, at, query, key);
    for (int r = 0; r < 8 && p->least; r++, state += (u64)p->keys * ATTENTION_RANDOM_STEP)
        UNROLL for (int c = 0; c < 4; c++)
            drops |= attention_is_dropped(p, state + (u64)c * ATTENTION_RANDOM_STEP)
                     << (r * 4 + c);
    return drops;
}

/* Scores become exponentials, in powers of 2; results so far are scaled to the new maximum. */
DEVICE void attention_softmax(const attention_params *p, const attention_place *at, int key,
                              float s[8][4], float o[8][4], attention_rows *rows)
{
    u32 drops = attention_drops(p, at, at->first + attention_row() * 8, key);
    UNROLL for (int r = 0; r < 8; r++)
    {
        int query = at->first + attention_row() * 8 + r;
        float largest = rows->largest[r], sum = 0;
        UNROLL for (int c = 0; c < 4; c++)
        {
            bool sees = attention_sees(p, query, key + c);
            s[r][c] = sees ? s[r][c] * p->scale_2 : attention_minus_infinity();
            largest = fmaxf(largest, s[r][c]);
        }
        largest = attention_row_max(largest);
        float factor = attention_exp2(rows->largest[r] - largest);
        rows->largest[r] = largest;
        UNROLL for (int c = 0; c < 4; c++)
        {
            s[r][c] = attention_exp2(s[r][c] - largest);
            sum += s[r][c];
            o[r][c] *= factor;
            if (drops >> (r * 4 + c) & 1)
                s[r][c] = 0;
        }
        rows->sum[r] = rows->sum[r] * factor + sum;
    }
}

DEVICE void attention_finish(const attention_params *p, const attention_place *at, float o[8][4],
                             attention_rows *rows, int begin)
{
    float factors[8];
    UNROLL for (int r = 0; r < 8; r++)
    {
        int query = at->first + attention_row() * 8 + r;
        float sum = attention_row_sum(rows->sum[r]);
        factors[r] = (p->least ? p->keep : 1.0f) / sum;
        if (begin == 0 && attention_column() == 0 && query < p->queries)
            p->lse[attention_lse_index(p, at, query)] =
                rows->largest[r] * ATTENTION_LN_2 + logf(sum);
    }
    attention_write(p, &p->o, at, p->queries, begin, o, factors);
}

/* Blocks: tiles of queries x heads x examples; y: chunks of features. */
KERNEL_SYNC(attention_any_head, attention_params)
{
    DYNAMIC_SHARED(float, shared);
    float *q = shared, *k = q + ATTENTION_AREA, *v = k + ATTENTION_AREA;
    attention_place at = attention_find(&p, p.queries, ATTENTION_TILE, true);
    int keys = attention_keys(&p, at.first + ATTENTION_TILE);
    int begin = (int)blockIdx.y * ATTENTION_TILE;
    float s[8][4], o[8][4];
    attention_rows rows;
    UNROLL for (int r = 0; r < 8; r++)
    {
        rows.largest[r] = attention_minus_infinity();
        rows.sum[r] = 0;
    }
    attention_clear(o);
    for (int first = 0; first < keys; first += ATTENTION_TILE) {
        int left = keys - first;
        __syncthreads();
        attention_load(&p, v, &p.v, &at, first, p.keys, begin);
        attention_scores(&p, s, &at, q, &p.q, at.first, p.queries, first > 0, k, &p.k, first,
                         p.keys, false);
        attention_softmax(&p, &at, first + attention_column() * 4, s, o, &rows);
        __syncthreads(); /* the probabilities take the place of the keys */
        attention_put(k, s);
        __syncthreads();
        attention_multiply_nn(o, k, v, ((left < ATTENTION_TILE ? left : ATTENTION_TILE) + 3) / 4);
    }
    attention_finish(&p, &at, o, &rows, begin);
}

/* ---- Backward ---- */

/* Scores become probabilities, 0 beyond the end. */
DEVICE void attention_probabilities(const attention_params *p, const attention_place *at, int query,
                                    int key, float s[8][4])
{
    UNROLL for (int r = 0; r < 8; r++)
    {
        bool there = query + r < p->queries;
        float lse = there ? p->lse[attention_lse_index(p, at, query + r)] * ATTENTION_LOG2_E : 0;
        UNROLL for (int c = 0; c < 4; c++)
            s[r][c] = there && attention_sees(p, query + r, key + c)
                          ? attention_exp2(s[r][c] * p->scale_2 - lse)
                          : 0;
    }
}

/* dp = do v^T becomes the gradient of the scores, before scaling. */
DEVICE void attention_d_scores(const attention_params *p, const attention_place *at, int query,
                               float s[8][4], float dp[8][4], u32 drops)
{
    float keep = p->least ? p->keep : 1;
    UNROLL for (int r = 0; r < 8; r++)
    {
        float inner =
            query + r < p->queries ? p->inner[attention_inner_index(p, at, query + r)] : 0;
        UNROLL for (int c = 0; c < 4; c++)
        {
            float d = drops >> (r * 4 + c) & 1 ? 0 : dp[r][c] * keep;
            dp[r][c] = s[r][c] * (d - inner);
        }
    }
}

DEVICE void attention_write_scaled(const attention_params *p, const attention_operand *x,
                                   const attention_place *at, int rows, int begin,
                                   float part[8][4], float factor)
{
    float factors[8];
    UNROLL for (int r = 0; r < 8; r++)
        factors[r] = factor;
    attention_write(p, x, at, rows, begin, part, factors);
}

/* Blocks: tiles of queries x heads x examples; y: chunks of features. */
KERNEL_SYNC(attention_any_head_dq, attention_params)
{
    DYNAMIC_SHARED(float, shared);
    float *q = shared, *k = q + ATTENTION_AREA, *v = k + ATTENTION_AREA, *d_o = v + ATTENTION_AREA;
    attention_place at = attention_find(&p, p.queries, ATTENTION_TILE, true);
    int keys = attention_keys(&p, at.first + ATTENTION_TILE);
    int query = at.first + attention_row() * 8;
    int begin = (int)blockIdx.y * ATTENTION_TILE;
    float s[8][4], dp[8][4], dq[8][4];
    attention_clear(dq);
    for (int first = 0; first < keys; first += ATTENTION_TILE) {
        int left = keys - first, key = first + attention_column() * 4;
        __syncthreads();
        attention_scores(&p, s, &at, q, &p.q, at.first, p.queries, first > 0, k, &p.k, first,
                         p.keys, false);
        attention_probabilities(&p, &at, query, key, s);
        attention_scores(&p, dp, &at, d_o, &p.d_o, at.first, p.queries, first > 0, v, &p.v, first,
                         p.keys, false);
        attention_d_scores(&p, &at, query, s, dp, attention_drops(&p, &at, query, key));
        __syncthreads();
        attention_put(v, dp);
        if (p.width > ATTENTION_TILE)
            attention_load(&p, k, &p.k, &at, first, p.keys, begin);
        __syncthreads();
        attention_multiply_nn(dq, v, k, ((left < ATTENTION_TILE ? left : ATTENTION_TILE) + 3) / 4);
    }
    attention_write_scaled(&p, &p.dq, &at, p.queries, begin, dq, p.scale);
}

/* What a block of keys adds to its dk and dv for the queries from `first` on. */
DEVICE void attention_add_dkv(const attention_params *p, const attention_place *at, float *shared,
                              int first, int begin, bool again, float dk[8][4], float dv[8][4])
{
    float *k = shared, *v = k + ATTENTION_AREA, *q = v + ATTENTION_AREA, *d_o = q + ATTENTION_AREA,
          *probabilities = d_o + ATTENTION_AREA, s[8][4], dp[8][4];
    int left = p->queries - first, count = left < ATTENTION_TILE ? left : ATTENTION_TILE;
    int query = first + attention_row() * 8, key = at->first + attention_column() * 4;
    bool many = p->width > ATTENTION_TILE;
    attention_scores(p, s, at, q, &p->q, first, p->queries, false, k, &p->k, at->first, p->keys,
                     again);
    attention_probabilities(p, at, query, key, s);
    u32 drops = attention_drops(p, at, query, key);
    if (p->dk.at) {
        attention_scores(p, dp, at, d_o, &p->d_o, first, p->queries, false, v, &p->v, at->first,
                         p->keys, again);
        attention_d_scores(p, at, query, s, dp, drops);
        __syncthreads();
        attention_put(probabilities, dp);
        if (many)
            attention_load(p, q, &p->q, at, first, p->queries, begin);
        __syncthreads();
        attention_multiply_tn(dk, probabilities, q, count);
    }
    if (p->dv.at) {
        UNROLL for (int r = 0; r < 8; r++)
            UNROLL for (int c = 0; c < 4; c++)
                s[r][c] = drops >> (r * 4 + c) & 1 ? 0 : s[r][c];
        __syncthreads();
        attention_put(probabilities, s);
        if (many || !p->dk.at)
            attention_load(p, d_o, &p->d_o, at, first, p->queries, begin);
        __syncthreads();
        attention_multiply_tn(dv, probabilities, d_o, count);
    }
}

/* Blocks: tiles of keys x heads x examples; y: chunks of features. */
KERNEL_SYNC(attention_any_head_dkv, attention_params)
{
    DYNAMIC_SHARED(float, shared);
    attention_place at = attention_find(&p, p.keys, ATTENTION_TILE, false);
    int begin = (int)blockIdx.y * ATTENTION_TILE, first = p.causal ? at.first : 0;
    bool again = false;
    float dk[8][4], dv[8][4];
    attention_clear(dk);
    attention_clear(dv);
    for (; first < p.queries; first += ATTENTION_TILE) {
        __syncthreads();
        attention_add_dkv(&p, &at, shared, first, begin, again, dk, dv);
        again = true;
    }
    if (p.dk.at)
        attention_write_scaled(&p, &p.dk, &at, p.keys, begin, dk, p.scale);
    if (p.dv.at)
        attention_write_scaled(&p, &p.dv, &at, p.keys, begin, dv, p.least ? p.keep : 1);
}
