/*
 * Embedding: rows of a table by number.
 *
 * Its gradient adds up the rows of dy whose ids are equal. The ids are sorted, stably, so that a
 * row's terms follow each other in the order of their positions. Chunks of the sorted ids are
 * summed up side by side; a run of equal ids that spans several chunks has a partial sum in each,
 * which are then added in order.
 */
#include "embedding.h"
#include "image.cuh"

/* ---- Ids ---- */

DEVICE i64 embedding_offset(const embedding_ids *ids, const i64 *strides, i64 position)
{
    i64 at = 0;
    if (ids->rank == 1)
        return position * strides[0];
    UNROLL for (int d = MOST_DIMS - 1; d >= 0; d--)
        if (d < ids->rank) {
            i64 rest = position / ids->shape[d];
            at += (position - rest * ids->shape[d]) * strides[d];
            position = rest;
        }
    return at;
}

DEVICE i64 embedding_id(const embedding_ids *ids, i64 position)
{
    i64 at = embedding_offset(ids, ids->strides, position);
    return ids->is_i64 ? ((const i64 *)ids->at)[at] : ((const i32 *)ids->at)[at];
}

/* ---- Forward ---- */

DEVICE void embedding_copy(const embedding_params *p, i64 item, int width)
{
    i64 position = p->wide ? item / (i64)p->by_groups.divisor
                           : (i64)image_quotient((u32)item, p->by_groups);
    i64 column = (item - position * (i64)p->by_groups.divisor) * width;
    i64 id = embedding_id(&p->ids, position);
    float numbers[VECTOR];
    if (id >= 0 && id < p->entries) {
        image_load(numbers, (const T *)p->table + id * p->table_row + column * p->table_step,
                   width);
    } else {
        *p->trouble = 1;
        UNROLL for (int k = 0; k < width; k++) numbers[k] = 0.0f;
    }
    image_store((T *)p->rows + embedding_offset(&p->ids, p->ids.row_strides, position) +
                    column * p->row_step,
                numbers, width);
}

KERNEL(embedding_forward, embedding_params)
{
    for (i64 i = global_thread(); i < p.items; i += global_threads())
        embedding_copy(&p, i, 1);
}

KERNEL(embedding_forward_vector, embedding_params)
{
    for (i64 i = global_thread(); i < p.items; i += global_threads())
        embedding_copy(&p, i, VECTOR);
}

/* ---- Zeros ---- */

DEVICE void embedding_clear(const embedding_params *p, i64 item, int width)
{
    float zeros[VECTOR];
    i64 row =
        p->wide ? item / (i64)p->by_groups.divisor : (i64)image_quotient((u32)item, p->by_groups);
    i64 column = (item - row * (i64)p->by_groups.divisor) * width;
    UNROLL for (int k = 0; k < width; k++) zeros[k] = 0.0f;
    image_store((T *)p->table + row * p->table_row + column * p->table_step, zeros, width);
}

KERNEL(embedding_zero, embedding_params)
{
    for (i64 i = global_thread(); i < p.items; i += global_threads())
        embedding_clear(&p, i, 1);
}

KERNEL(embedding_zero_vector, embedding_params)
{
    for (i64 i = global_thread(); i < p.items; i += global_threads())
        embedding_clear(&p, i, VECTOR);
}

/* ---- Sorting ---- */

#ifdef __CUDACC__
/* The lanes of the warp with the same number. */
DEVICE u32 embedding_match(u32 number)
{
    return __match_any_sync(0xffffffffu, number);
}

DEVICE u32 embedding_ones(u32 bits)
{
    return (u32)__popc(bits);
}

DEVICE void embedding_warp_barrier(void)
{
    __syncwarp();
}
#else
DEVICE u32 embedding_match(u32 number)
{
    u32 all[WARP], mask = 0;
    neap_emulated_exchange(&number, sizeof number, all);
    for (u32 lane = 0; lane < WARP; lane++)
        mask |= (u32)(all[lane] == number) << lane;
    return mask;
}

DEVICE u32 embedding_ones(u32 bits)
{
    return (u32)__builtin_popcount(bits);
}

DEVICE void embedding_warp_barrier(void)
{
    u8 nothing = 0, all[WARP];
    neap_emulated_exchange(&nothing, sizeof nothing, all);
}
#endif

#define EMBEDDING_NO_DIGIT 0xffffffffu

typedef struct embedding_entry {
    u32 key, position, digit;
} embedding_entry;

/* What this thread has in a round: a warp's rounds follow each other. */
DEVICE embedding_entry embedding_entry_of(const embedding_sort_params *p, int round)
{
    embedding_entry e;
    u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    i64 i = (i64)blockIdx.x * EMBEDDING_TILE +
            (warp * EMBEDDING_ROUNDS + (u32)round) * WARP + lane;
    e.key = e.position = 0;
    e.digit = EMBEDDING_NO_DIGIT;
    if (i >= p->ids.count)
        return e;
    if (p->keys) {
        e.key = p->keys[i];
        e.position = p->positions[i];
    } else {
        i64 id = embedding_id(&p->ids, i);
        bool valid = id >= 0 && id < p->entries;
        if (!valid)
            *p->trouble = 1;
        e.key = (u32)(valid ? id : p->entries);
        e.position = (u32)i;
    }
    e.digit = e.key >> p->shift & (EMBEDDING_THREADS - 1);
    return e;
}

/* Counts the entry in its warp's counters; returns what stood there and, for lanes of the same
   digit, the lanes before. */
DEVICE u32 embedding_rank(u32 *counters, u32 digit)
{
    u32 lane = threadIdx.x % WARP, same = embedding_match(digit), before = 0;
    u32 lower = embedding_ones(same & ((1u << lane) - 1));
    if (digit != EMBEDDING_NO_DIGIT)
        before = counters[digit];
    embedding_warp_barrier();
    if (digit != EMBEDDING_NO_DIGIT && lower == 0)
        counters[digit] = before + embedding_ones(same);
    embedding_warp_barrier();
    return before + lower;
}

#define EMBEDDING_WARPS (EMBEDDING_THREADS / WARP)

/* How often each warp has each digit. */
DEVICE void embedding_count_digits(const embedding_sort_params *p,
                                   u32 counters[EMBEDDING_WARPS][EMBEDDING_THREADS])
{
    for (int w = 0; w < EMBEDDING_WARPS; w++)
        counters[w][threadIdx.x] = 0;
    __syncthreads();
    for (int round = 0; round < EMBEDDING_ROUNDS; round++)
        embedding_rank(counters[threadIdx.x / WARP], embedding_entry_of(p, round).digit);
    __syncthreads();
}

KERNEL_SYNC(embedding_count, embedding_sort_params)
{
    SHARED u32 counters[EMBEDDING_WARPS][EMBEDDING_THREADS];
    u32 sum = 0;
    embedding_count_digits(&p, counters);
    for (int w = 0; w < EMBEDDING_WARPS; w++)
        sum += counters[w][threadIdx.x];
    p.counts[(i64)blockIdx.x * EMBEDDING_THREADS + threadIdx.x] = sum;
}

/* The sum of the `number` of all threads before this one. */
DEVICE u32 embedding_sum_before(u32 number, u32 *scratch)
{
    u32 sum = number;
    for (u32 step = 1; step < EMBEDDING_THREADS; step *= 2) {
        scratch[threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.x >= step)
            sum += scratch[threadIdx.x - step];
        __syncthreads();
    }
    return sum - number;
}

/* A thread stands for a digit where counters are concerned, else for an entry in each round. */
KERNEL_SYNC(embedding_scatter, embedding_sort_params)
{
    SHARED u32 counters[EMBEDDING_WARPS][EMBEDDING_THREADS];
    SHARED u32 scratch[EMBEDDING_THREADS];
    u32 earlier = 0, all = 0;
    for (i32 tile = 0; tile < p.tiles; tile++) {
        u32 count = p.counts[(i64)tile * EMBEDDING_THREADS + threadIdx.x];
        earlier += tile < (i32)blockIdx.x ? count : 0;
        all += count;
    }
    u32 at = embedding_sum_before(all, scratch) + earlier;
    embedding_count_digits(&p, counters);
    for (int w = 0; w < EMBEDDING_WARPS; w++) {
        u32 count = counters[w][threadIdx.x];
        counters[w][threadIdx.x] = at;
        at += count;
    }
    __syncthreads();
    for (int round = 0; round < EMBEDDING_ROUNDS; round++) {
        embedding_entry e = embedding_entry_of(&p, round);
        u32 to = embedding_rank(counters[threadIdx.x / WARP], e.digit);
        if (e.digit != EMBEDDING_NO_DIGIT) {
            p.sorted_keys[to] = e.key;
            p.sorted_positions[to] = e.position;
        }
    }
}

/* ---- Sums ---- */

DEVICE void embedding_store_row(const embedding_sum_params *p, u32 key, i64 column,
                                const float *sum, int width)
{
    T *to = (T *)p->dw + key * p->dw_row + column * p->dw_step;
#ifdef __CUDACC__
    if (width > 1) { /* the compiler splits up the access if it can */
        vector v;
        UNROLL for (int k = 0; k < VECTOR; k++) v.e[k] = to_t(sum[k]);
        uint4 words = *(const uint4 *)&v;
        asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};"
                     :
                     : "l"(to), "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w)
                     : "memory");
        return;
    }
#endif
    image_store(to, sum, width);
}

/* Where a run begins before the chunk, else where it goes on behind it, its sum is a part. */
DEVICE void embedding_end_run(const embedding_sum_params *p, i64 chunk, u32 key, i64 column,
                              const float *sum, bool head, bool tail, int width)
{
    if (key >= p->entries)
        return;
    if (!head && !tail) {
        embedding_store_row(p, key, column, sum, width);
        return;
    }
    float *parts = head ? p->heads : p->tails;
    UNROLL for (int k = 0; k < width; k++) parts[chunk * p->partial_row + column + k] = sum[k];
}

#define EMBEDDING_AHEAD 4 /* rows that are loaded at once */

DEVICE void embedding_sum_chunk(const embedding_sum_params *p, i64 chunk, i64 column, int width)
{
    i64 begin = chunk * EMBEDDING_CHUNK, end = begin + EMBEDDING_CHUNK;
    end = end < p->ids.count ? end : p->ids.count;
    u32 key = p->keys[begin], keys[EMBEDDING_AHEAD];
    bool head = begin > 0 && p->keys[begin - 1] == key;
    float sum[VECTOR], numbers[EMBEDDING_AHEAD][VECTOR];
    UNROLL for (int k = 0; k < width; k++) sum[k] = 0.0f;
    for (i64 i = begin; i < end; i += EMBEDDING_AHEAD) {
        UNROLL for (int j = 0; j < EMBEDDING_AHEAD; j++)
        {
            i64 at = i + j < end ? i + j : end - 1; /* the last again: not added */
            keys[j] = p->keys[at];
            image_load(numbers[j],
                       (const T *)p->dy +
                           embedding_offset(&p->ids, p->ids.row_strides, p->positions[at]) +
                           column * p->dy_step,
                       width);
        }
        UNROLL for (int j = 0; j < EMBEDDING_AHEAD; j++)
        {
            if (keys[j] != key) {
                embedding_end_run(p, chunk, key, column, sum, head, false, width);
                key = keys[j];
                head = false;
                UNROLL for (int k = 0; k < width; k++) sum[k] = 0.0f;
            }
            UNROLL for (int k = 0; k < width; k++) sum[k] += i + j < end ? numbers[j][k] : 0.0f;
        }
    }
    bool tail = end < p->ids.count && p->keys[end] == key;
    embedding_end_run(p, chunk, key, column, sum, head, tail, width);
}

/* The end of the run of a key that reaches position `from` of the sorted ids. */
DEVICE i64 embedding_run_end(const embedding_sum_params *p, u32 key, i64 from)
{
    i64 low = from, high = p->ids.count;
    while (low < high) {
        i64 middle = (low + high) / 2;
        if (p->keys[middle] == key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds the parts of the run that begins in the chunk and goes on behind it, if there is one. */
DEVICE void embedding_join_chunk(const embedding_sum_params *p, i64 chunk, i64 column, int width)
{
    i64 begin = chunk * EMBEDDING_CHUNK, end = begin + EMBEDDING_CHUNK;
    if (end >= p->ids.count)
        return;
    u32 key = p->keys[end];
    if (p->keys[end - 1] != key || key >= p->entries)
        return;
    if (begin > 0 && p->keys[begin - 1] == key)
        return;
    i64 last = (embedding_run_end(p, key, end) - 1) / EMBEDDING_CHUNK;
    float sum[VECTOR];
    const float *part = p->tails + chunk * p->partial_row + column;
    UNROLL for (int k = 0; k < width; k++) sum[k] = part[k];
    for (i64 c = chunk + 1; c <= last; c++) {
        part = p->heads + c * p->partial_row + column;
        UNROLL for (int k = 0; k < width; k++) sum[k] += part[k];
    }
    embedding_store_row(p, key, column, sum, width);
}

/* Blocks in x are chunks, threads and blocks in y columns. */
#define EMBEDDING_KERNEL(name, function, width)                                                    \
    KERNEL(name, embedding_sum_params)                                                             \
    {                                                                                              \
        i64 step = (i64)gridDim.y * blockDim.x * (width);                                          \
        for (i64 column = ((i64)blockIdx.y * blockDim.x + threadIdx.x) * (width);                  \
             column < p.features; column += step)                                                  \
            function(&p, blockIdx.x, column, width);                                               \
    }

EMBEDDING_KERNEL(embedding_sum, embedding_sum_chunk, 1)
EMBEDDING_KERNEL(embedding_sum_vector, embedding_sum_chunk, VECTOR)
EMBEDDING_KERNEL(embedding_join, embedding_join_chunk, 1)
EMBEDDING_KERNEL(embedding_join_vector, embedding_join_chunk, VECTOR)
