/*
 * exp, tanh, erf and sigmoid in f32 that compilers turn into vector code, within 3 units in the
 * last place of the exact values (tests/unit/test_omp_math.c sweeps the range).
 *
 * No branches and no calls: where a function has two formulas, both are computed and one is taken.
 */
#ifndef NEAP_RUN_OMP_MATH_H
#define NEAP_RUN_OMP_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define OMP_INLINE static inline __attribute__((always_inline))
#else
#define OMP_INLINE static inline
#endif

OMP_INLINE float omp_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

OMP_INLINE uint32_t omp_to_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The sign of b on a, which is not negative. */
OMP_INLINE float omp_with_sign(float a, float b)
{
    return omp_from_bits(omp_to_bits(a) | (omp_to_bits(b) & 0x80000000u));
}

/* 2^n for n from -126 to 127; else anything. */
OMP_INLINE float omp_power_of_two(int32_t n)
{
    return omp_from_bits(((uint32_t)n + 127) << 23);
}

/*
 * e^x = 2^n e^r with n the nearest integer to x / ln 2, so |r| < 0.35, and a polynomial for e^r.
 * Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits. 2^n in two factors reaches
 * the subnormal numbers and infinity. What is not a number stays that in p, whatever n is then.
 */
OMP_INLINE float omp_exp(float x)
{
    const float magic = 12582912.0f;
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float t = x * 1.44269504f + magic, n = t - magic;
    float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    int32_t whole = (int32_t)(omp_to_bits(t) - omp_to_bits(magic)), half = whole >> 1;
    return p * omp_power_of_two(half) * omp_power_of_two(whole - half);
}

OMP_INLINE float omp_sigmoid(float x)
{
    return 1.0f / (1.0f + omp_exp(-x));
}

/* Near 0 a polynomial in x^2 (Cephes), elsewhere by the exponential. */
OMP_INLINE float omp_tanh(float x)
{
    float a = fabsf(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    float near = p * z * x + x;
    float far = omp_with_sign(1.0f - 2.0f / (omp_exp(2.0f * a) + 1.0f), x);
    return a < 0.625f ? near : far;
}

/* Near 0 a polynomial in x^2, elsewhere 1 - e^(a polynomial). */
OMP_INLINE float omp_erf(float x)
{
    float a = fabsf(x), z = x * x;
    float p = -5.96761703e-4f;
    p = p * z + 4.99119423e-3f;
    p = p * z - 2.67681349e-2f;
    p = p * z + 1.12819925e-1f;
    p = p * z - 3.76125336e-1f;
    p = p * z + 1.28379166e-1f;
    float near = p * x + x;
    float q = a < 4.0f ? a : 4.0f, s = q * q;
    float r = (-1.72853470e-5f * q + 3.83197126e-4f) * s + (-3.88396438e-3f * q + 2.42546219e-2f);
    r = r * q - 1.06777877e-1f;
    r = r * q - 6.34846687e-1f;
    r = r * q - 1.28717512e-1f;
    r = r * q - q;
    float far = omp_with_sign(1.0f - omp_exp(r), x);
    return a > 0.927734375f ? far : near;
}

#endif
