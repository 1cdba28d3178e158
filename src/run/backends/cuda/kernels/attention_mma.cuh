/*
 * Attention on tensor cores (Dao, FlashAttention-2): what forward and backward share. Elements are
 * bf16, or f32 rounded to tf32.
 *
 * A block has 4 warps; each has `tiles` times 16 rows of its own and passes by the rows of the
 * other side, a tile of them at a time, while the next is on its way to shared memory. Products
 * stay in registers: a sum c is the left factor of the next product. `width`, `tiles` and `rows`
 * are constants after inlining; arrays have room for the largest.
 */
#ifndef NEAP_CUDA_ATTENTION_MMA_CUH
#define NEAP_CUDA_ATTENTION_MMA_CUH

#include "attention_common.cuh"
#include "mma.cuh"

#ifdef __CUDACC__
#define ATTENTION_ROLLED _Pragma("unroll 1")
#else
#define ATTENTION_ROLLED
#endif

#define ATTENTION_STEP (2 * VECTOR) /* features that a step of a product sums over */

/* Of a thread: the products of 2 x 16 rows with 64 others, and with 128 features. */
typedef float attention_square[2][8][4];
typedef float attention_sums[2][16][4];
/* Left factors of 2 x 16 rows: as many steps as 128 bytes. */
typedef u32 attention_left[2][4][4];

DEVICE int attention_warp_first(int tiles)
{
    return (int)threadIdx.x / WARP * 16 * tiles;
}

/* The row of a thread's product number i of 16 x 8; its column is attention_t() + i % 2. */
DEVICE int attention_g(int i)
{
    return (int)threadIdx.x % WARP / 4 + i / 2 * 8;
}

DEVICE int attention_t(void)
{
    return (int)threadIdx.x % 4 * 2;
}

/* ---- Shared memory ---- */

/* Asks for `count` rows from `first` on; zeros where there are none, and beyond a head's width. */
DEVICE void attention_fetch(const attention_params *p, T *tile, const attention_operand *x,
                            const attention_place *at, int first, int end, int count, int width)
{
    const T *head = attention_head(p, x, at);
    const int cells = width / VECTOR;
    for (int i = (int)threadIdx.x; i < count * cells; i += ATTENTION_THREADS) {
        int row = i / cells, d = i % cells * VECTOR;
        bool there = first + row < end && d < p->width;
        const T *from = there ? head + (i64)(first + row) * x->row + d * x->step : head;
        T *to = tile + row * (width + VECTOR) + d;
        if (x->vectors) {
            copy_cell(to, from, there);
        } else {
            vector cell;
            for (int e = 0; e < VECTOR; e++)
                cell.e[e] = there && d + e < p->width ? from[e * x->step] : to_t(0);
            *(vector *)to = cell;
        }
    }
}

/* Rounds what the thread fetched to tf32, when it has come. */
DEVICE void attention_round(T *tile, int count, int width)
{
#if !NEAP_BF16_ELEMENTS
    const int cells = width / VECTOR;
    for (int i = (int)threadIdx.x; i < count * cells; i += ATTENTION_THREADS) {
        vector *cell = (vector *)(tile + i / cells * (width + VECTOR) + i % cells * VECTOR);
        vector rounded = *cell;
        UNROLL for (int e = 0; e < VECTOR; e++)
            rounded.e[e] = bits_float(round_tf32(rounded.e[e]));
        *cell = rounded;
    }
#else
    (void)tile, (void)count, (void)width;
#endif
}

typedef struct ALIGNED(2 * sizeof(T)) attention_pair {
    T e[2];
} attention_pair;

/* A warp's sums into its rows of a tile, times a factor for each row: factors[2 m + i / 2]. */
DEVICE void attention_stage(T *tile, attention_sums sums, const float factors[4], int width,
                            int tiles)
{
    UNROLL for (int m = 0; m < tiles; m++)
        UNROLL for (int n = 0; n < width / 8; n++)
            UNROLL for (int i = 0; i < 4; i += 2)
            {
                int row = attention_warp_first(tiles) + 16 * m + attention_g(i);
                attention_pair pair;
                UNROLL for (int e = 0; e < 2; e++)
                    pair.e[e] = to_t(sums[m][n][i + e] * factors[2 * m + i / 2]);
                *(attention_pair *)(tile + row * (width + VECTOR) + 8 * n + attention_t()) = pair;
            }
}

/* From a tile to the block's rows. */
DEVICE void attention_store(const attention_params *p, const attention_operand *x,
                            const attention_place *at, const T *tile, int end, int count, int width)
{
    T *head = attention_head(p, x, at);
    const int cells = width / VECTOR;
    for (int i = (int)threadIdx.x; i < count * cells; i += ATTENTION_THREADS) {
        int row = i / cells, d = i % cells * VECTOR;
        vector cell = *(const vector *)(tile + row * (width + VECTOR) + d);
        T *to = head + (i64)(at->first + row) * x->row + d * x->step;
        if (at->first + row >= end || d >= p->width)
            continue;
        if (x->vectors) {
            *(vector *)to = cell;
        } else {
            for (int e = 0; e < VECTOR; e++)
                if (d + e < p->width)
                    to[e * x->step] = cell.e[e];
        }
    }
}

/* ---- Products ---- */

DEVICE void attention_multiply(float c[4], const u32 a[4], u32 b0, u32 b1)
{
#if NEAP_BF16_ELEMENTS
    multiply_bf16(c, a, b0, b1);
#else
    multiply_tf32(c, a, b0, b1);
#endif
}

/* The left factor of a step: 16 rows, two cells. */
DEVICE void attention_load_left(u32 a[4], const T *rows, int step, int width)
{
    int lane = (int)threadIdx.x % WARP;
    load_matrices(a, rows + lane % 16 * (width + VECTOR) + step * ATTENTION_STEP +
                         lane / 16 * VECTOR);
}

/* The right factors of a step for 16 rows, the columns of the product: two for each 8. */
DEVICE void attention_load_rows(u32 b[4], const T *rows, int step, int width)
{
    int lane = (int)threadIdx.x % WARP;
    load_matrices(b, rows + (lane % 8 + lane / 16 * 8) * (width + VECTOR) + step * ATTENTION_STEP +
                         lane / 8 % 2 * VECTOR);
}

/* The right factors of a step over rows, for 16 columns from `column` on. Those of tf32 are in the
   order that attention_left_of has: its lanes have columns 2 t and 2 t + 1 of c. */
DEVICE void attention_load_columns(u32 b[4], const T *rows, int step, int column, int width)
{
    int lane = (int)threadIdx.x % WARP;
#if NEAP_BF16_ELEMENTS
    load_matrices_transposed(b, rows + (step * 16 + lane % 16) * (width + VECTOR) + column +
                                    lane / 16 * VECTOR);
#else
    const T *from = rows + (step * 8 + lane % 4 * 2) * (width + VECTOR) + column + lane / 4;
    UNROLL for (int i = 0; i < 4; i++)
        b[i] = float_bits(from[i % 2 * (width + VECTOR) + i / 2 * 8]);
#endif
}

/* Sums as the left factor of a step over their columns. */
DEVICE void attention_left_of(u32 a[4], float c[8][4], int step)
{
#if NEAP_BF16_ELEMENTS
    UNROLL for (int i = 0; i < 4; i++)
        a[i] = pack_bf16(c[2 * step + i / 2][i % 2 * 2], c[2 * step + i / 2][i % 2 * 2 + 1]);
#else
    UNROLL for (int i = 0; i < 4; i++)
        a[i] = round_tf32(c[step][i % 2 * 2 + i / 2]);
#endif
}

/* Whether left factors of a head's width stay in registers. */
DEVICE bool attention_is_held(int width)
{
    return width <= 4 * ATTENTION_STEP;
}

DEVICE void attention_hold(attention_left held, const T *left, int width, int tiles)
{
    UNROLL for (int m = 0; m < tiles; m++)
        UNROLL for (int step = 0; step < 4; step++)
            if (step < width / ATTENTION_STEP)
                attention_load_left(held[m][step], left + 16 * m * (width + VECTOR), step, width);
}

/* c = left right^T, of a warp's rows and `rows` others; `left` or, where it is held, `held`. */
DEVICE void attention_product(attention_square c, attention_left held, bool hold, const T *left,
                              const T *right, int width, int tiles, int rows)
{
    UNROLL for (int m = 0; m < tiles; m++)
        UNROLL for (int n = 0; n < rows / 8; n++)
            UNROLL for (int i = 0; i < 4; i++)
                c[m][n][i] = 0;
    UNROLL for (int step = 0; step < width / ATTENTION_STEP; step++)
    {
        u32 a[2][4], b[4];
        UNROLL for (int m = 0; m < tiles; m++)
        {
            if (!hold)
                attention_load_left(a[m], left + 16 * m * (width + VECTOR), step, width);
            UNROLL for (int i = 0; i < 4; i++)
                a[m][i] = hold ? held[m][step % 4][i] : a[m][i];
        }
        UNROLL for (int n = 0; n < rows / 16; n++)
        {
            attention_load_rows(b, right + 16 * n * (width + VECTOR), step, width);
            UNROLL for (int m = 0; m < tiles; m++)
            {
                attention_multiply(c[m][2 * n], a[m], b[0], b[1]);
                attention_multiply(c[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* sums += c right: over `rows` rows of the right factor. */
DEVICE void attention_add_product(attention_sums sums, attention_square c, const T *right,
                                  int width, int tiles, int rows)
{
    UNROLL for (int step = 0; step < rows * (int)sizeof(T) / 32; step++)
    {
        u32 a[2][4], b[4];
        UNROLL for (int m = 0; m < tiles; m++)
            attention_left_of(a[m], c[m], step);
        UNROLL for (int n = 0; n < width / 16; n++)
        {
            attention_load_columns(b, right, step, 16 * n, width);
            UNROLL for (int m = 0; m < tiles; m++)
            {
                attention_multiply(sums[m][2 * n], a[m], b[0], b[1]);
                attention_multiply(sums[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

DEVICE void attention_clear_sums(attention_sums sums, int width, int tiles)
{
    UNROLL for (int m = 0; m < tiles; m++)
        UNROLL for (int n = 0; n < width / 8; n++)
            UNROLL for (int i = 0; i < 4; i++)
                sums[m][n][i] = 0;
}

/* ---- Dropout ---- */

/*
 * Which of a thread's products of 16 rows and `rows` columns are dropped, a bit each. Rows are
 * queries and columns keys, or `by_keys` the other way round. Not unrolled: its numbers of 64 bits
 * would take too many registers.
 */
DEVICE u32 attention_dropped_bits(const attention_params *p, const attention_place *at,
                                  bool by_keys, int row, int column, int rows)
{
    u64 next_query = (u64)p->keys * ATTENTION_RANDOM_STEP, next_key = ATTENTION_RANDOM_STEP;
    u64 next_row = by_keys ? next_key : next_query, next_column = by_keys ? next_query : next_key;
    row += attention_g(0);
    column += attention_t();
    u64 state = attention_random_state(p, at, by_keys ? column : row, by_keys ? row : column);
    u32 bits = 0;
    ATTENTION_ROLLED for (int n = 0; n < rows / 8; n++, state += 8 * next_column)
    {
        bits |= attention_is_dropped(p, state) << (4 * n);
        bits |= attention_is_dropped(p, state + next_column) << (4 * n + 1);
        bits |= attention_is_dropped(p, state + 8 * next_row) << (4 * n + 2);
        bits |= attention_is_dropped(p, state + 8 * next_row + next_column) << (4 * n + 3);
    }
    return bits;
}

DEVICE void attention_drop(float s[8][4], u32 dropped, int rows)
{
    UNROLL for (int n = 0; n < rows / 8; n++)
        UNROLL for (int i = 0; i < 4; i++)
            if (dropped >> (4 * n + i) & 1)
                s[n][i] = 0;
}

/* ---- Forward ---- */

/* Of rows g and g + 8 of each 16: the largest product so far, and the thread's part of the sum of
   exponentials. */
typedef struct attention_softmax_rows {
    float largest[4], sum[4];
} attention_softmax_rows;

DEVICE float attention_quad_max(float x)
{
    x = fmaxf(x, shuffle_xor(x, 1));
    return fmaxf(x, shuffle_xor(x, 2));
}

DEVICE float attention_quad_sum(float x)
{
    x += shuffle_xor(x, 1);
    return x + shuffle_xor(x, 2);
}

DEVICE void attention_mask(const attention_params *p, attention_square s, int query, int key,
                           int tiles, int rows)
{
    UNROLL for (int m = 0; m < tiles; m++)
        UNROLL for (int n = 0; n < rows / 8; n++)
            UNROLL for (int i = 0; i < 4; i++)
                if (!attention_sees(p, query + 16 * m + attention_g(i),
                                    key + 8 * n + attention_t() + i % 2))
                    s[m][n][i] = attention_minus_infinity();
}

/* Products become exponentials; results so far are scaled to the new maximum. */
DEVICE void attention_exponentials(const attention_params *p, attention_square s, attention_sums o,
                                   attention_softmax_rows *r, int width, int tiles, int rows)
{
    UNROLL for (int row = 0; row < 2 * tiles; row++)
    {
        int m = row / 2, first = row % 2 * 2;
        float largest = r->largest[row], sum = 0;
        UNROLL for (int n = 0; n < rows / 8; n++)
            largest = fmaxf(largest, fmaxf(s[m][n][first], s[m][n][first + 1]));
        largest = attention_quad_max(largest);
        float factor = attention_exp2((r->largest[row] - largest) * p->scale_2);
        float least = largest * p->scale_2;
        r->largest[row] = largest;
        UNROLL for (int n = 0; n < rows / 8; n++)
            UNROLL for (int i = first; i < first + 2; i++)
            {
                s[m][n][i] = attention_exp2(s[m][n][i] * p->scale_2 - least);
                sum += s[m][n][i];
            }
        r->sum[row] = r->sum[row] * factor + sum;
        UNROLL for (int n = 0; n < width / 8; n++)
        {
            o[m][n][first] *= factor;
            o[m][n][first + 1] *= factor;
        }
    }
}

DEVICE void attention_finish_rows(const attention_params *p, const attention_place *at, T *tile,
                                  attention_sums o, const attention_softmax_rows *r, int width,
                                  int tiles)
{
    float factors[4];
    UNROLL for (int row = 0; row < 2 * tiles; row++)
    {
        int query = at->first + attention_warp_first(tiles) + 16 * (row / 2) +
                    attention_g(row % 2 * 2);
        float sum = attention_quad_sum(r->sum[row]);
        factors[row] = (p->least ? p->keep : 1.0f) / sum;
        if (attention_t() == 0 && query < p->queries)
            p->lse[attention_lse_index(p, at, query)] = r->largest[row] * p->scale + logf(sum);
    }
    attention_stage(tile, o, factors, width, tiles);
    __syncthreads();
    attention_store(p, &p->o, at, tile, p->queries, 64 * tiles, width);
}

/* Blocks: tiles of 64 x `tiles` queries x heads x examples. */
DEVICE void attention_forward(const attention_params *p, T *shared, int width, int tiles, int rows)
{
    const int pitch = width + VECTOR;
    T *q = shared, *streams = q + 64 * tiles * pitch;
    attention_place at = attention_find(p, p->queries, 64 * tiles, true);
    int keys = attention_keys(p, at.first + 64 * tiles), turn = 0;
    int query = at.first + attention_warp_first(tiles);
    const T *mine = q + attention_warp_first(tiles) * pitch;
    attention_square s;
    attention_sums o;
    attention_left held;
    attention_softmax_rows r;
    UNROLL for (int row = 0; row < 4; row++)
    {
        r.largest[row] = attention_minus_infinity();
        r.sum[row] = 0;
    }
    attention_clear_sums(o, width, tiles);
    attention_fetch(p, q, &p->q, &at, at.first, p->queries, 64 * tiles, width);
    attention_fetch(p, streams, &p->k, &at, 0, p->keys, rows, width);
    attention_fetch(p, streams + rows * pitch, &p->v, &at, 0, p->keys, rows, width);
    for (int first = 0; first < keys; first += rows, turn ^= 1) {
        T *k = streams + turn * 2 * rows * pitch, *next = streams + (turn ^ 1) * 2 * rows * pitch;
        wait_copies();
        if (first == 0)
            attention_round(q, 64 * tiles, width);
        attention_round(k, 2 * rows, width);
        __syncthreads(); /* the next tile takes the place of one that all have passed */
        if (first + rows < keys) {
            attention_fetch(p, next, &p->k, &at, first + rows, p->keys, rows, width);
            attention_fetch(p, next + rows * pitch, &p->v, &at, first + rows, p->keys, rows, width);
        }
        if (first == 0 && attention_is_held(width))
            attention_hold(held, mine, width, tiles);
        if (query >= p->queries || (p->causal && first >= query + 16 * tiles))
            continue; /* none of the warp's queries sees these keys */
        attention_product(s, held, attention_is_held(width), mine, k, width, tiles, rows);
        if (first + rows > p->keys || (p->causal && first + rows > query + 1))
            attention_mask(p, s, query, first, tiles, rows);
        attention_exponentials(p, s, o, &r, width, tiles, rows);
        if (p->least)
            UNROLL for (int m = 0; m < tiles; m++)
                attention_drop(
                    s[m], attention_dropped_bits(p, &at, false, query + 16 * m, first, rows), rows);
        attention_add_product(o, s, k + rows * pitch, width, tiles, rows);
    }
    attention_finish_rows(p, &at, q, o, &r, width, tiles);
}

#endif
