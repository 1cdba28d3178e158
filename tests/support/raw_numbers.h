/* Numbers in f32 or bf16 in plain memory, for stand-ins and checks that compute with them. */
#ifndef NEAP_TESTS_RAW_NUMBERS_H
#define NEAP_TESTS_RAW_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline float raw_number(const void *at, bool is_bf16, int64_t i)
{
    if (!is_bf16)
        return ((const float *)at)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)at)[i] << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Rounded to the nearest, or to even. */
static inline void set_raw_number(void *at, bool is_bf16, int64_t i, float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    if (!is_bf16)
        ((float *)at)[i] = number;
    else
        ((uint16_t *)at)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
