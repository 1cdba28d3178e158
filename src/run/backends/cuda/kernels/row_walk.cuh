/* Rows of arrays and 16 bytes of a row at a time. */
#ifndef NEAP_CUDA_ROW_WALK_CUH
#define NEAP_CUDA_ROW_WALK_CUH

#include "prelude.cuh"
#include "row_walk.h"

/* Kernels for blocks of `threads` threads, of which a multiprocessor should hold `blocks`. */
#ifdef __CUDACC__
#define KERNEL_OF(threads, blocks, name, params)                                                   \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const params p)
#define KERNEL_SYNC_OF(threads, blocks, name, params) KERNEL_OF(threads, blocks, name, params)
#else
#define KERNEL_OF(threads, blocks, name, params)      KERNEL(name, params)
#define KERNEL_SYNC_OF(threads, blocks, name, params) KERNEL_SYNC(name, params)
#endif

/* 16 bytes of floats, whatever the type of elements. */
typedef struct ALIGNED(16) four_floats {
    float e[4];
} four_floats;

/* From the array's address to the first element of a row. */
DEVICE i64 row_at(const row_walk *rows, i64 row)
{
    if (rows->rank == 1)
        return row * rows->stride[0];
    i64 at = 0;
    UNROLL
    for (int d = 0; d < MOST_DIMS; d++)
        if (d < rows->rank) {
            i64 extent = rows->extent[d], rest;
            if ((u64)(row | extent) >> 32)
                rest = row / extent;
            else
                rest = (i64)((u32)row / (u32)extent);
            at += (row - rest * extent) * rows->stride[d];
            row = rest;
        }
    return at;
}

/* A vector of a row whose elements are neighbours in memory, from a multiple of 16. */
DEVICE void row_get_whole(const T *x, float *e)
{
    vector v = *(const vector *)x;
    UNROLL
    for (int i = 0; i < VECTOR; i++)
        e[i] = from_t(v.e[i]);
}

#ifdef __CUDACC__
#if NEAP_BF16_ELEMENTS
DEVICE u32 row_pack(float low, float high)
{
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}
#endif

/* In assembly: the device's compiler splits stores of structs into their elements. */
DEVICE void row_put_whole(T *y, const float *e)
{
    u32 v[4];
    UNROLL
    for (int i = 0; i < 4; i++)
#if NEAP_BF16_ELEMENTS
        v[i] = row_pack(e[2 * i], e[2 * i + 1]);
#else
        v[i] = float_bits(e[i]);
#endif
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(__cvta_generic_to_global(y)), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
                 : "memory");
}
#else
DEVICE void row_put_whole(T *y, const float *e)
{
    vector v;
    for (int i = 0; i < VECTOR; i++)
        v.e[i] = to_t(e[i]);
    *(vector *)y = v;
}
#endif

/* The same for any row: elements c, c + 1, ..., as far as there are that many; otherwise 0. */
DEVICE void row_get(const T *row, i64 c, i64 channels, i64 step, float *e)
{
    UNROLL
    for (int i = 0; i < VECTOR; i++)
        e[i] = c + i < channels ? load(row, (c + i) * step) : 0.0f;
}

DEVICE void row_put(T *row, i64 c, i64 channels, i64 step, const float *e)
{
    UNROLL
    for (int i = 0; i < VECTOR; i++)
        if (c + i < channels)
            store(row, (c + i) * step, e[i]);
}

#endif
