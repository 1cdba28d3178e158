/* Random numbers for searches: the same from the same seed on every machine (SplitMix64, Steele,
   Lea and Flood 2014). */
#ifndef NEAP_BASE_RANDOM_H
#define NEAP_BASE_RANDOM_H

#include <stdint.h>

/* 64 random bits; *state is the seed at first. */
static inline uint64_t neap_random_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* From 0 to just below 1. */
static inline double neap_random_real(uint64_t *state)
{
    return (double)(neap_random_bits(state) >> 11) * 0x1p-53;
}

/* From 0 to n - 1. */
static inline uint32_t neap_random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((neap_random_bits(state) >> 32) * n >> 32);
}

#endif
