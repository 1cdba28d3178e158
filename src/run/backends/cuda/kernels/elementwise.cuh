/*
 * What elementwise ops have in common. Each is a function of one to three numbers; the walk is
 * shared.
 *
 * y may lie where a or b does, with the same strides: a thread reads its units before it writes
 * them, and nobody else reads them.
 */
#ifndef NEAP_CUDA_ELEMENTWISE_CUH
#define NEAP_CUDA_ELEMENTWISE_CUH

#include "elementwise.h"
#include "walk.cuh"

/* ---- Elements ---- */

DEVICE float elementwise_load(const void *x, i64 i, u32 wide)
{
    return wide ? ((const float *)x)[i] : load((const T *)x, i);
}

DEVICE void elementwise_store(void *y, i64 i, float number, u32 wide)
{
    if (wide)
        ((float *)y)[i] = number;
    else
        store((T *)y, i, number);
}

/* A vector as it lies in registers: two elements of bf16 in a word, the first in the lower half. */
typedef struct ALIGNED(16) ANY_TYPE elementwise_words {
    u32 word[4];
} elementwise_words;

DEVICE elementwise_words elementwise_read(const void *x, i64 i)
{
    return *(const elementwise_words *)((const T *)x + i);
}

DEVICE void elementwise_write(void *y, i64 i, elementwise_words words)
{
    *(elementwise_words *)((T *)y + i) = words;
}

#if NEAP_BF16_ELEMENTS
DEVICE float elementwise_get(const elementwise_words *x, int e)
{
    return bits_float(e % 2 ? x->word[e / 2] & 0xffff0000u : x->word[e / 2] << 16);
}

DEVICE u32 elementwise_pair(float lower, float upper)
{
#if defined __CUDACC__
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(upper), "f"(lower));
    return pair;
#else
    return to_bf16(lower).bits | (u32)to_bf16(upper).bits << 16;
#endif
}

DEVICE elementwise_words elementwise_round(const float *x)
{
    elementwise_words words;
    UNROLL
    for (int i = 0; i < 4; i++)
        words.word[i] = elementwise_pair(x[2 * i], x[2 * i + 1]);
    return words;
}
#else
DEVICE float elementwise_get(const elementwise_words *x, int e)
{
    return bits_float(x->word[e]);
}

DEVICE elementwise_words elementwise_round(const float *x)
{
    elementwise_words words;
    UNROLL
    for (int i = 0; i < 4; i++)
        words.word[i] = float_bits(x[i]);
    return words;
}
#endif

/* As many bytes as a vector has elements. */
typedef struct ALIGNED(16 / sizeof(T)) ANY_TYPE elementwise_bytes {
    u32 word[4 / sizeof(T)];
} elementwise_bytes;

DEVICE bool elementwise_byte(const elementwise_bytes *x, int e)
{
    return (x->word[e / 4] >> e % 4 * 8 & 0xff) != 0;
}

DEVICE u32 elementwise_unit(int j)
{
    return walk_first() + j * blockDim.x;
}

/* The element after the vectors that this thread sees to, or -1. */
DEVICE i64 elementwise_tail(const elementwise_params *p)
{
    bool mine = blockIdx.x == 0 && (i32)threadIdx.x < p->tail;
    return mine ? p->walk.units * VECTOR + threadIdx.x : -1;
}

/* ---- Kernels of one to three operands ---- */

#define ELEMENTWISE_1(name, function)                                                                    \
    DEVICE void name##_vectors(const elementwise_params *p)                                        \
    {                                                                                              \
        elementwise_words x[WALK_UNROLL];                                                          \
        float y[VECTOR];                                                                           \
        i64 at[WALK_UNROLL][2], tail = elementwise_tail(p);                                        \
        UNROLL                                                                                     \
        for (int j = 0; j < WALK_UNROLL; j++)                                                      \
            if (elementwise_unit(j) < p->walk.units) {                                             \
                walk_find(&p->walk, 2, elementwise_unit(j), at[j]);                                \
                x[j] = elementwise_read(p->a, at[j][1]);                                           \
            }                                                                                      \
        UNROLL                                                                                     \
        for (int j = 0; j < WALK_UNROLL; j++)                                                      \
            if (elementwise_unit(j) < p->walk.units) {                                             \
                UNROLL                                                                             \
                for (int e = 0; e < VECTOR; e++)                                                   \
                    y[e] = function(p, elementwise_get(&x[j], e));                                 \
                elementwise_write(p->y, at[j][0], elementwise_round(y));                           \
            }                                                                                      \
        if (tail >= 0)                                                                             \
            store((T *)p->y, tail, function(p, load((const T *)p->a, tail)));                      \
    }                                                                                              \
    DEVICE void name##_elements(const elementwise_params *p)                                       \
    {                                                                                              \
        float x[WALK_UNROLL];                                                                      \
        i64 at[WALK_UNROLL][2];                                                                    \
        UNROLL                                                                                     \
        for (int j = 0; j < WALK_UNROLL; j++)                                                      \
            if (elementwise_unit(j) < p->walk.units) {                                             \
                walk_find(&p->walk, 2, elementwise_unit(j), at[j]);                                \
                x[j] = elementwise_load(p->a, at[j][1], p->wide & 2);                              \
            }                                                                                      \
        UNROLL                                                                                     \
        for (int j = 0; j < WALK_UNROLL; j++)                                                      \
            if (elementwise_unit(j) < p->walk.units)                                               \
                elementwise_store(p->y, at[j][0], function(p, x[j]), p->wide & 1);                 \
    }                                                                                              \
    KERNEL(name, elementwise_params)                                                               \
    {                                                                                              \
        if (p.vectors)                                                                             \
            name##_vectors(&p);                                                                    \
        else                                                                                       \
            name##_elements(&p);                                                                   \
    }

DEVICE elementwise_words elementwise_second(const elementwise_params *p, i64 i)
{
    float b[VECTOR];
    if (!p->splat)
        return elementwise_read(p->b, i);
    UNROLL
    for (int e = 0; e < VECTOR; e++)
        b[e] = load((const T *)p->b, i);
    return elementwise_round(b);
}

#define ELEMENTWISE_2(name, function)                                                                     \
    DEVICE void name##_vectors(const elementwise_params *p)                                        \
    {                                                                                              \
        elementwise_words a[WALK_UNROLL], b[WALK_UNROLL];                                          \
        float y[VECTOR];                                                                           \
        i64 at[WALK_UNROLL][3], tail = elementwise_tail(p);                                        \
        UNROLL                                                                                     \
        for (int j = 0; j < WALK_UNROLL; j++)                                                      \
            if (elementwise_unit(j) < p->walk.units) {                                             \
                walk_find(&p->walk, 3, elementwise_unit(j), at[j]);                                \
                a[j] = elementwise_read(p->a, at[j][1]);                                           \
                b[j] = elementwise_second(p, at[j][2]);                                            \
            }                                                                                      \
        UNROLL                                                                                     \
        for (int j = 0; j < WALK_UNROLL; j++)                                                      \
            if (elementwise_unit(j) < p->walk.units) {                                             \
                UNROLL                                                                             \
                for (int e = 0; e < VECTOR; e++)                                                   \
                    y[e] = function(p, elementwise_get(&a[j], e), elementwise_get(&b[j], e));      \
                elementwise_write(p->y, at[j][0], elementwise_round(y));                           \
            }                                                                                      \
        if (tail >= 0)                                                                             \
            store((T *)p->y, tail,                                                                 \
                  function(p, load((const T *)p->a, tail),                                         \
                           load((const T *)p->b, p->splat ? 0 : tail)));                           \
    }                                                                                              \
    DEVICE void name##_elements(const elementwise_params *p)                                       \
    {                                                                                              \
        float a[WALK_UNROLL], b[WALK_UNROLL];                                                      \
        i64 at[WALK_UNROLL][3];                                                                    \
        UNROLL                                                                                     \
        for (int j = 0; j < WALK_UNROLL; j++)                                                      \
            if (elementwise_unit(j) < p->walk.units) {                                             \
                walk_find(&p->walk, 3, elementwise_unit(j), at[j]);                                \
                a[j] = elementwise_load(p->a, at[j][1], p->wide & 2);                              \
                b[j] = elementwise_load(p->b, at[j][2], p->wide & 4);                              \
            }                                                                                      \
        UNROLL                                                                                     \
        for (int j = 0; j < WALK_UNROLL; j++)                                                      \
            if (elementwise_unit(j) < p->walk.units)                                               \
                elementwise_store(p->y, at[j][0], function(p, a[j], b[j]), p->wide & 1);           \
    }                                                                                              \
    KERNEL(name, elementwise_params)                                                               \
    {                                                                                              \
        if (p.vectors)                                                                             \
            name##_vectors(&p);                                                                    \
        else                                                                                       \
            name##_elements(&p);                                                                   \
    }

/* Operands of three: a and b like the result, c maybe repeated, but not within a vector. */
#define ELEMENTWISE_3(name, function)                                                              \
    DEVICE void name##_vectors(const elementwise_params *p)                                        \
    {                                                                                              \
        elementwise_words a[WALK_UNROLL], b[WALK_UNROLL], c[WALK_UNROLL];                          \
        float y[VECTOR];                                                                           \
        i64 at[WALK_UNROLL][4], tail = elementwise_tail(p);                                        \
        UNROLL                                                                                     \
        for (int j = 0; j < WALK_UNROLL; j++)                                                      \
            if (elementwise_unit(j) < p->walk.units) {                                             \
                walk_find(&p->walk, 4, elementwise_unit(j), at[j]);                                \
                a[j] = elementwise_read(p->a, at[j][1]);                                           \
                b[j] = elementwise_read(p->b, at[j][2]);                                           \
                c[j] = elementwise_read(p->c, at[j][3]);                                           \
            }                                                                                      \
        UNROLL                                                                                     \
        for (int j = 0; j < WALK_UNROLL; j++)                                                      \
            if (elementwise_unit(j) < p->walk.units) {                                             \
                UNROLL                                                                             \
                for (int e = 0; e < VECTOR; e++)                                                   \
                    y[e] = function(p, elementwise_get(&a[j], e), elementwise_get(&b[j], e),       \
                                    elementwise_get(&c[j], e));                                    \
                elementwise_write(p->y, at[j][0], elementwise_round(y));                           \
            }                                                                                      \
        if (tail >= 0)                                                                             \
            store((T *)p->y, tail,                                                                 \
                  function(p, load((const T *)p->a, tail), load((const T *)p->b, tail),            \
                           load((const T *)p->c, tail)));                                          \
    }                                                                                              \
    DEVICE void name##_elements(const elementwise_params *p)                                       \
    {                                                                                              \
        float a[WALK_UNROLL], b[WALK_UNROLL], c[WALK_UNROLL];                                      \
        i64 at[WALK_UNROLL][4];                                                                    \
        UNROLL                                                                                     \
        for (int j = 0; j < WALK_UNROLL; j++)                                                      \
            if (elementwise_unit(j) < p->walk.units) {                                             \
                walk_find(&p->walk, 4, elementwise_unit(j), at[j]);                                \
                a[j] = elementwise_load(p->a, at[j][1], p->wide & 2);                              \
                b[j] = elementwise_load(p->b, at[j][2], p->wide & 4);                              \
                c[j] = elementwise_load(p->c, at[j][3], p->wide & 8);                              \
            }                                                                                      \
        UNROLL                                                                                     \
        for (int j = 0; j < WALK_UNROLL; j++)                                                      \
            if (elementwise_unit(j) < p->walk.units)                                               \
                elementwise_store(p->y, at[j][0], function(p, a[j], b[j], c[j]), p->wide & 1);     \
    }                                                                                              \
    KERNEL(name, elementwise_params)                                                               \
    {                                                                                              \
        if (p.vectors)                                                                             \
            name##_vectors(&p);                                                                    \
        else                                                                                       \
            name##_elements(&p);                                                                   \
    }

/* ---- Functions ---- */

/* f32 has exact functions; for bf16 the device's approximations are exact enough. */
#if defined __CUDACC__ && NEAP_BF16_ELEMENTS
DEVICE float elementwise_exp(float x)
{
    return __expf(x);
}
DEVICE float elementwise_quotient(float a, float b)
{
    return __fdividef(a, b);
}
DEVICE float elementwise_tanh(float x)
{
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
DEVICE float elementwise_exp(float x)
{
    return expf(x);
}
DEVICE float elementwise_quotient(float a, float b)
{
    return a / b;
}
DEVICE float elementwise_tanh(float x)
{
    return tanhf(x);
}
#endif

#define FUNCTION_1(name) DEVICE float name(const elementwise_params *p, float x)
#define FUNCTION_2(name, a, b) DEVICE float name(const elementwise_params *p, float a, float b)
#define FUNCTION_3(name, a, b, c)                                                                  \
    DEVICE float name(const elementwise_params *p, float a, float b, float c)

#endif
