/*
 * Matrix products for operands of any strides. A block computes a square tile of the result, each
 * thread a part of it in registers; tiles of the operands pass through the block's memory, the next
 * one being read while the current one is used. A result with few tiles is split along k into
 * partial sums that a second kernel adds up. All sums have an order that depends on shapes alone.
 */
#include "gemm.h"
#include "prelude.cuh"

#ifdef __CUDACC__
#define ROLLED _Pragma("unroll 1") /* else a product takes seconds to compile */
#else
#define ROLLED
#endif

/* From an operand's address to index i. Indices of several dimensions are below 2^32. */
DEVICE i64 gemm_offset(const gemm_axis *axis, i64 i)
{
    if (axis->dims == 1)
        return i * axis->strides[0];
    i64 offset = 0;
    u32 rest = (u32)i;
    ROLLED for (int d = axis->dims - 1; d > 0; d--)
    {
        u32 shape = (u32)axis->shape[d], outer = rest / shape;
        offset += (rest - outer * shape) * axis->strides[d];
        rest = outer;
    }
    return offset + rest * axis->strides[0];
}

typedef struct ALIGNED(16) gemm_four {
    float e[4];
} gemm_four;

/* Four neighbours at once, for an address that is a multiple of their size. The device's compiler
   makes four stores of an assignment here. */
DEVICE void gemm_store_four(T *at, float a, float b, float c, float d)
{
#if defined __CUDACC__ && NEAP_BF16_ELEMENTS
    u32 low = to_bf16(a).bits | (u32)to_bf16(b).bits << 16;
    u32 high = to_bf16(c).bits | (u32)to_bf16(d).bits << 16;
    asm volatile("st.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(low), "r"(high) : "memory");
#elif defined __CUDACC__
    asm volatile("st.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(a), "f"(b), "f"(c), "f"(d)
                 : "memory");
#else
    store(at, 0, a);
    store(at, 1, b);
    store(at, 2, c);
    store(at, 3, d);
#endif
}

/* ---- Tiles of the operands ---- */

/* A tile has TILE outer and DEPTH inner indices: each thread reads VECTOR elements of it. */
#define GEMM_DEPTH(tile) (GEMM_THREADS * VECTOR / (tile))
#define GEMM_PITCH(tile) ((tile) + 4)
#define GEMM_SHARED(tile) (2 * GEMM_DEPTH(tile) * GEMM_PITCH(tile))

/* The first of a thread's elements in the tile and the step to the next. */
typedef struct gemm_share {
    int outer, inner, outer_step, inner_step;
} gemm_share;

DEVICE gemm_share gemm_share_of(int mode, int tile)
{
    int depth = GEMM_DEPTH(tile), t = (int)threadIdx.x;
    gemm_share share;
    if (mode == GEMM_INNER_VECTORS) {
        share.outer = t / (depth / VECTOR);
        share.inner = t % (depth / VECTOR) * VECTOR;
        share.outer_step = 0;
        share.inner_step = 1;
    } else if (mode == GEMM_OUTER_VECTORS) {
        share.outer = t % (tile / VECTOR) * VECTOR;
        share.inner = t / (tile / VECTOR);
        share.outer_step = 1;
        share.inner_step = 0;
    } else if (mode == GEMM_INNER) {
        share.outer = t / depth;
        share.inner = t % depth;
        share.outer_step = GEMM_THREADS / depth;
        share.inner_step = 0;
    } else {
        share.outer = t % tile;
        share.inner = t / tile;
        share.outer_step = 0;
        share.inner_step = GEMM_THREADS / tile;
    }
    return share;
}

/* Elements outside of the matrix are 0. Vectors are never half outside. */
DEVICE void gemm_load(const gemm_operand *x, const T *at, const gemm_share *share, i64 outer,
                      i64 outers, i64 inner, i64 inners, vector *read)
{
    i64 o = outer + share->outer, k = inner + share->inner;
    if (x->mode == GEMM_INNER_VECTORS || x->mode == GEMM_OUTER_VECTORS) {
        if (o < outers && k < inners)
            *read = *(const vector *)(at + gemm_offset(&x->outer, o) + gemm_offset(&x->inner, k));
        else
            UNROLL for (int i = 0; i < VECTOR; i++) read->e[i] = to_t(0);
        return;
    }
    /* Only one of the two indices changes from element to element. */
    const gemm_axis *moving = share->outer_step ? &x->outer : &x->inner;
    i64 step = share->outer_step + share->inner_step, first = share->outer_step ? o : k;
    i64 end = share->outer_step ? outers : inners;
    bool inside = share->outer_step ? k < inners : o < outers;
    at += share->outer_step ? gemm_offset(&x->inner, k) : gemm_offset(&x->outer, o);
    UNROLL for (int i = 0; i < VECTOR; i++)
    {
        i64 index = first + i * step;
        read->e[i] = inside && index < end ? at[gemm_offset(moving, index)] : to_t(0);
    }
}

DEVICE void gemm_keep(const gemm_share *share, const vector *read, int pitch, float *tile)
{
    UNROLL for (int i = 0; i < VECTOR; i++)
    {
        int outer = share->outer + i * share->outer_step, inner = share->inner + i * share->inner_step;
        tile[inner * pitch + outer] = from_t(read->e[i]);
    }
}

/* ---- A tile of the result ---- */

/* Index i of a thread's part of the tile: groups of four, 64 apart, so that threads next to each
   other read shared memory next to each other. */
DEVICE int gemm_index(int thread, int i)
{
    return i / 4 * 64 + thread * 4 + i % 4;
}

DEVICE void gemm_multiply(const float *a, const float *b, int tile, float sums[8][8])
{
    int pitch = GEMM_PITCH(tile), per = tile / 16;
    int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
    UNROLL for (int k = 0; k < GEMM_DEPTH(tile); k++)
    {
        gemm_four x[2], y[2];
        UNROLL for (int g = 0; g < per / 4; g++)
        {
            x[g] = *(const gemm_four *)(a + k * pitch + gemm_index(ty, 4 * g));
            y[g] = *(const gemm_four *)(b + k * pitch + gemm_index(tx, 4 * g));
        }
        UNROLL for (int i = 0; i < per; i++)
        UNROLL for (int j = 0; j < per; j++)
            sums[i][j] += x[i / 4].e[i % 4] * y[j / 4].e[j % 4];
    }
}

DEVICE float gemm_bias(const gemm_params *p, i64 n)
{
    return p->bias ? load((const T *)p->bias, n * p->bias_stride) : 0.0f;
}

/* Four neighbours of a row of the result, or of the partial sums. */
DEVICE void gemm_store(const gemm_params *p, i64 m, i64 n, const float *sums)
{
    if (m >= p->m || n >= p->n)
        return;
    if (p->partial) {
        float *to = p->partial + ((i64)blockIdx.y * p->m + m) * p->n + n;
        for (int j = 0; j < 4; j++)
            if (n + j < p->n)
                to[j] = sums[j];
        return;
    }
    T *d = (T *)p->d + blockIdx.z * p->d_batch + gemm_offset(&p->dm, m);
    if (p->vectors) {
        gemm_store_four(d + n, sums[0] + gemm_bias(p, n), sums[1] + gemm_bias(p, n + 1),
                        sums[2] + gemm_bias(p, n + 2), sums[3] + gemm_bias(p, n + 3));
        return;
    }
    UNROLL for (int j = 0; j < 4; j++)
    {
        if (n + j < p->n)
            d[gemm_offset(&p->dn, n + j)] = to_t(sums[j] + gemm_bias(p, n + j));
    }
}

DEVICE void gemm_tile(const gemm_params *p, i64 tile_m, i64 tile_n, int tile, float *shared_a,
                      float *shared_b)
{
    int depth = GEMM_DEPTH(tile), pitch = GEMM_PITCH(tile), per = tile / 16, half = 0;
    i64 m = tile_m * tile, n = tile_n * tile, k = blockIdx.y * p->chunk;
    i64 end = k + p->chunk < p->k ? k + p->chunk : p->k;
    const T *a = (const T *)p->a.at + blockIdx.z * p->a.batch;
    const T *b = (const T *)p->b.at + blockIdx.z * p->b.batch;
    gemm_share of_a = gemm_share_of(p->a.mode, tile), of_b = gemm_share_of(p->b.mode, tile);
    vector read_a, read_b;
    float sums[8][8];
    UNROLL for (int i = 0; i < per; i++)
    UNROLL for (int j = 0; j < per; j++)
        sums[i][j] = 0.0f;
    /* Each round reads the tiles of the next and uses those of the one before. */
    for (bool first = true; first || k - depth < end; k += depth, first = false) {
        if (k < end) {
            gemm_load(&p->a, a, &of_a, m, p->m, k, end, &read_a);
            gemm_load(&p->b, b, &of_b, n, p->n, k, end, &read_b);
        }
        if (!first)
            gemm_multiply(shared_a + half * depth * pitch, shared_b + half * depth * pitch, tile,
                          sums);
        half = 1 - half;
        if (k < end) {
            gemm_keep(&of_a, &read_a, pitch, shared_a + half * depth * pitch);
            gemm_keep(&of_b, &read_b, pitch, shared_b + half * depth * pitch);
        }
        __syncthreads();
    }
    int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
    UNROLL for (int i = 0; i < per; i++)
    UNROLL for (int g = 0; g < per / 4; g++)
        gemm_store(p, m + gemm_index(ty, i), n + gemm_index(tx, 4 * g), sums[i] + 4 * g);
}

DEVICE void gemm_tiles(const gemm_params *p, int tile, float *shared_a, float *shared_b)
{
    for (i64 t = blockIdx.x; t < p->tiles_m * p->tiles_n; t += gridDim.x)
        gemm_tile(p, t / p->tiles_n, t % p->tiles_n, tile, shared_a, shared_b);
}

KERNEL_SYNC(gemm_tiles_64, gemm_params)
{
    SHARED ALIGNED(16) float a[GEMM_SHARED(64)];
    SHARED ALIGNED(16) float b[GEMM_SHARED(64)];
    gemm_tiles(&p, 64, a, b);
}

KERNEL_SYNC(gemm_tiles_128, gemm_params)
{
    SHARED ALIGNED(16) float a[GEMM_SHARED(128)];
    SHARED ALIGNED(16) float b[GEMM_SHARED(128)];
    gemm_tiles(&p, 128, a, b);
}

/* Columns along x, rows along y. */
KERNEL(gemm_finish, gemm_finish_params)
{
    i64 area = p.m * p.n;
    for (i64 m = blockIdx.y; m < p.m; m += gridDim.y)
        for (i64 n = global_thread(); n < p.n; n += global_threads()) {
            const float *at = p.partial + m * p.n + n;
            float sum = 0.0f;
            for (i64 split = 0; split < p.splits; split++)
                sum += at[split * area];
            if (p.bias)
                sum += load((const T *)p.bias, n * p.bias_stride);
            store((T *)p.d, gemm_offset(&p.dm, m) + gemm_offset(&p.dn, n), sum);
        }
}

/* ---- Sums of columns ---- */

#define GEMM_SUM_AHEAD 4 /* rows that a thread reads before it adds them */

/* Part of a row; 0 behind the last. */
DEVICE void gemm_load_row(const gemm_sums_params *p, i64 row, i64 end, i64 column, vector *read)
{
    if (row < end)
        *read = *(const vector *)((const T *)p->x + gemm_offset(&p->row, row) + column);
    else
        UNROLL for (int i = 0; i < VECTOR; i++) read->e[i] = to_t(0);
}

/* The order of a column's sum is the same with vectors and without. */
KERNEL_SYNC(gemm_column_sums, gemm_sums_params)
{
    SHARED float strands[GEMM_SUM_STRANDS][GEMM_SUM_LANES * VECTOR];
    int lane = (int)threadIdx.x % GEMM_SUM_LANES, strand = (int)threadIdx.x / GEMM_SUM_LANES;
    int width = p.vectors ? VECTOR : 1;
    i64 first = (i64)blockIdx.x * GEMM_SUM_LANES * width, column = first + lane * width;
    i64 row = blockIdx.y * p.chunk, end = row + p.chunk < p.rows ? row + p.chunk : p.rows;
    const T *x = (const T *)p.x;
    float sums[VECTOR];
    UNROLL for (int i = 0; i < VECTOR; i++) sums[i] = 0.0f;
    if (column < p.columns && p.vectors) {
        for (i64 r = row + strand; r < end; r += GEMM_SUM_STRANDS * GEMM_SUM_AHEAD) {
            vector read[GEMM_SUM_AHEAD];
            UNROLL for (int u = 0; u < GEMM_SUM_AHEAD; u++)
                gemm_load_row(&p, r + u * GEMM_SUM_STRANDS, end, column, &read[u]);
            UNROLL for (int u = 0; u < GEMM_SUM_AHEAD; u++)
            UNROLL for (int i = 0; i < VECTOR; i++)
                sums[i] += from_t(read[u].e[i]);
        }
    } else if (column < p.columns) {
        i64 offset = gemm_offset(&p.column, column);
        for (i64 r = row + strand; r < end; r += GEMM_SUM_STRANDS)
            sums[0] += load(x, gemm_offset(&p.row, r) + offset);
    }
    UNROLL for (int i = 0; i < VECTOR; i++)
    {
        if (i < width)
            strands[strand][lane * width + i] = sums[i];
    }
    __syncthreads();
    for (int c = (int)threadIdx.x; c < GEMM_SUM_LANES * width; c += GEMM_THREADS) {
        float sum = 0.0f;
        for (int s = 0; s < GEMM_SUM_STRANDS; s++)
            sum += strands[s][c];
        if (first + c < p.columns && p.partial)
            p.partial[blockIdx.y * p.columns + first + c] = sum;
        else if (first + c < p.columns)
            store((T *)p.sums, (first + c) * p.sum_stride, sum);
    }
}
