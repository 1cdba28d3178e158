/*
 * What every kernel is written in: C with a few words of CUDA, so that the same source is compiled
 * for a device by NVRTC and for the processor by the C compiler (emulation/device.h), where tests
 * run it under the sanitizers.
 *
 *     KERNEL(name, params)       defines the kernel `name`; in its body, `p` is a const params
 *     KERNEL_SYNC(name, params)  the same for one with barriers or exchanges between threads
 *     SHARED float s[256];       memory of the block
 *     __syncthreads()            all threads of the block, always
 *     shuffle_xor(x, mask)       all threads of the warp: the x of lane ^ mask
 *     threadIdx, blockIdx, blockDim, gridDim as in CUDA
 *
 * A source is compiled once for each type of element: T is float or bf16. Arithmetic is in float;
 * load and store convert. Blocks have a multiple of 32 threads. Sums must not depend on timing: no
 * atomics on floats.
 */
#ifndef NEAP_CUDA_PRELUDE_CUH
#define NEAP_CUDA_PRELUDE_CUH

#include "types.h"

#define WARP 32

#ifdef __CUDACC__

#define KERNEL(name, params)      extern "C" __global__ void name(const params p)
#define KERNEL_SYNC(name, params) extern "C" __global__ void name(const params p)
#define SHARED                    __shared__
#define DEVICE                    static __device__ __forceinline__
#define RESTRICT                  __restrict__
#define ALIGNED(bytes)            __align__(bytes)
#define UNROLL                    _Pragma("unroll")
/* Names the block's memory whose size the launch gives. */
#define DYNAMIC_SHARED(type, name)                                                                 \
    extern __shared__ float4 dynamic_shared_##name[];                                              \
    type *name = (type *)dynamic_shared_##name

DEVICE float shuffle_xor(float x, int mask)
{
    return __shfl_xor_sync(0xffffffffu, x, mask);
}

DEVICE u32 float_bits(float x)
{
    return __float_as_uint(x);
}

DEVICE float bits_float(u32 bits)
{
    return __uint_as_float(bits);
}

#else
#include "run/backends/cuda/emulation/device.h"
#endif

/* ---- Elements ---- */

typedef struct bf16 {
    u16 bits;
} bf16;

DEVICE float from_bf16(bf16 x)
{
    return bits_float((u32)x.bits << 16);
}

/* To nearest even; what is not a number stays quiet. */
DEVICE bf16 to_bf16(float x)
{
    bf16 result;
#if defined __CUDACC__
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
#else
    u32 bits = float_bits(x);
    result.bits = (u16)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40
                                                         : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
    return result;
}

#if NEAP_BF16_ELEMENTS
typedef bf16 T;
DEVICE float from_t(T x)
{
    return from_bf16(x);
}
DEVICE T to_t(float x)
{
    return to_bf16(x);
}
#else
typedef float T;
DEVICE float from_t(T x)
{
    return x;
}
DEVICE T to_t(float x)
{
    return x;
}
#endif

DEVICE float load(const T *x, i64 i)
{
    return from_t(x[i]);
}

DEVICE void store(T *x, i64 i, float number)
{
    x[i] = to_t(number);
}

/* 16 bytes of elements, one access of memory. The address must be a multiple of 16. */
#define VECTOR (16 / (int)sizeof(T))
typedef struct ALIGNED(16) vector {
    T e[16 / sizeof(T)];
} vector;

/* ---- Threads ---- */

DEVICE i64 global_thread(void)
{
    return (i64)blockIdx.x * blockDim.x + threadIdx.x;
}

DEVICE i64 global_threads(void)
{
    return (i64)gridDim.x * blockDim.x;
}

/* Every thread of the warp gets the result. */
DEVICE float warp_sum(float x)
{
    for (int mask = WARP / 2; mask > 0; mask /= 2)
        x += shuffle_xor(x, mask);
    return x;
}

DEVICE float warp_max(float x)
{
    for (int mask = WARP / 2; mask > 0; mask /= 2)
        x = fmaxf(x, shuffle_xor(x, mask));
    return x;
}

/* Every thread of the block gets the result. `scratch` is shared memory of 32 floats, which may be
   used again at once. */
DEVICE float block_sum(float x, float *scratch)
{
    int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP,
        warps = (int)blockDim.x / WARP;
    x = warp_sum(x);
    __syncthreads();
    if (lane == 0)
        scratch[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? scratch[lane] : 0.0f);
}

DEVICE float block_max(float x, float *scratch)
{
    int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP,
        warps = (int)blockDim.x / WARP;
    x = warp_max(x);
    __syncthreads();
    if (lane == 0)
        scratch[warp] = x;
    __syncthreads();
    return warp_max(scratch[lane < warps ? lane : 0]);
}

/* ---- Random numbers: run_random of run/backend.h ---- */

DEVICE u64 random_bits(u64 seed, u64 index)
{
    u64 z = seed + (index + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

DEVICE u64 seed_of(seed_source source)
{
    return source.step ? random_bits(*source.step, source.op) : source.op;
}

/* The upper 24 bits of a draw: an element is dropped where it is below p * 2^24, rounded up. */
DEVICE u32 random_draw(u64 seed, u64 index)
{
    return (u32)(random_bits(seed, index) >> 40);
}

#endif
