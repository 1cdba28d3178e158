/*
 * The words of kernels/prelude.cuh on the processor: threads of a block run one after the other, in
 * an order that changes from launch to launch, each until it ends or reaches a barrier. A block's
 * memory is a static variable, and blocks follow each other. Included by prelude.cuh alone.
 */
#ifndef NEAP_CUDA_EMULATION_DEVICE_H
#define NEAP_CUDA_EMULATION_DEVICE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct emulated_dims {
    unsigned x, y, z;
} emulated_dims;

extern _Thread_local emulated_dims neap_emulated_thread, neap_emulated_block, neap_emulated_dims,
    neap_emulated_grid;
extern _Thread_local unsigned char *neap_emulated_shared;

#define threadIdx neap_emulated_thread
#define blockIdx  neap_emulated_block
#define blockDim  neap_emulated_dims
#define gridDim   neap_emulated_grid

void neap_emulated_barrier(void);
/* Gives `bytes` (at most 64) of each lane of the warp to all: 32 times `bytes`. */
void neap_emulated_exchange(const void *mine, size_t bytes, void *all);

#define KERNEL(name, params)      EMULATED_KERNEL(name, params, false)
#define KERNEL_SYNC(name, params) EMULATED_KERNEL(name, params, true)
#define EMULATED_KERNEL(name, params, sync)                                                        \
    static void name(const params p);                                                              \
    static void name##_enter(const void *parameters)                                               \
    {                                                                                              \
        name(*(const params *)parameters);                                                         \
    }                                                                                              \
    enum { name##_sync = sync, name##_bytes = (int)sizeof(params) };                               \
    static void name(const params p)

#define SHARED         static _Thread_local
#define DEVICE         static inline
#define RESTRICT       restrict
#define ALIGNED(bytes) __attribute__((aligned(bytes)))
#define UNROLL
#define __syncthreads              neap_emulated_barrier
#define DYNAMIC_SHARED(type, name) type *name = (type *)(void *)neap_emulated_shared

static inline float shuffle_xor(float x, int mask)
{
    float all[32];
    neap_emulated_exchange(&x, sizeof x, all);
    return all[(neap_emulated_thread.x % 32) ^ (unsigned)mask];
}

static inline unsigned float_bits(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float bits_float(unsigned bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
