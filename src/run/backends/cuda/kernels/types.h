/*
 * Integers by their width, for parameters of kernels: the headers of parameters are read by the
 * host's compiler and by the device's, which has no <stdint.h>.
 */
#ifndef NEAP_CUDA_TYPES_H
#define NEAP_CUDA_TYPES_H

typedef long long i64;
typedef unsigned long long u64;
typedef int i32;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

#define MOST_DIMS 6 /* NEAP_MAX_RANK */

/* Where an op gets its random numbers from: see seed_of in prelude.cuh. */
typedef struct seed_source {
    const u64 *step; /* the seed of the step, in device memory; NULL: `op` is the op's seed */
    u64 op;
} seed_source;

#endif
