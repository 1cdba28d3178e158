/* Numbers of 16 bits, as their bits: bf16 and f16 to float, and back, rounded to nearest even. */
#ifndef NEAP_BASE_HALF_H
#define NEAP_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t neap_float_bits(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static inline float neap_bits_float(uint32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static inline float neap_from_bf16(uint16_t half)
{
    return neap_bits_float((uint32_t)half << 16);
}

static inline uint16_t neap_to_bf16(float number)
{
    uint32_t bits = neap_float_bits(number);
    if ((bits & 0x7fffffff) > 0x7f800000) /* not a number: stay quiet, lose no mark of it */
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float neap_from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest >= 0x7c00) /* infinite or not a number */
        return neap_bits_float(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest >= 0x400)
        return neap_bits_float(sign | ((rest << 13) + (112u << 23)));
    float small = (float)rest * 0x1p-24f; /* subnormal: exact in a float */
    return neap_bits_float(sign | neap_float_bits(small));
}

static inline uint16_t neap_to_f16(float number)
{
    uint32_t bits = neap_float_bits(number), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (rest >= 0x477ff000) /* rounds to more than the largest, 65504 */
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) { /* subnormal: adding 0.5 rounds to multiples of 2^-24 */
        float sum = neap_bits_float(rest) + 0.5f;
        return (uint16_t)(sign | (neap_float_bits(sum) - 0x3f000000));
    }
    return (uint16_t)(sign | ((rest + 0xfff + (rest >> 13 & 1) - (112u << 23)) >> 13));
}

#endif
