/*
 * Elementwise ops. Each is a function of one or two numbers; the walk is shared.
 *
 * y may lie where a or b does, with the same strides: a thread reads its units before it writes
 * them, and nobody else reads them.
 */
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

/* ---- Kernels of one and two operands ---- */

#define UNARY(name, function)                                                                      \
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

#define BINARY(name, function)                                                                     \
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

/* ---- What the ops compute ---- */

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

FUNCTION_1(relu_of)
{
    (void)p;
    return x < 0 ? 0 : x; /* what is not a number stays so */
}

FUNCTION_2(relu_bw_of, dy, y)
{
    (void)p;
    return y > 0 ? dy : 0;
}

FUNCTION_1(relu6_of)
{
    (void)p;
    return x < 0 ? 0 : x > 6 ? 6 : x;
}

FUNCTION_2(relu6_bw_of, dy, y)
{
    (void)p;
    return y > 0 && y < 6 ? dy : 0;
}

FUNCTION_1(sigmoid_of)
{
    (void)p;
    return elementwise_quotient(1, 1 + elementwise_exp(-x));
}

FUNCTION_2(sigmoid_bw_of, dy, y)
{
    (void)p;
    return dy * y * (1 - y);
}

FUNCTION_1(tanh_of)
{
    (void)p;
    return elementwise_tanh(x);
}

FUNCTION_2(tanh_bw_of, dy, y)
{
    (void)p;
    return dy * (1 - y * y);
}

FUNCTION_2(add_of, a, b)
{
    (void)p;
    return a + b;
}

FUNCTION_2(mul_of, a, b)
{
    (void)p;
    return a * b;
}

FUNCTION_1(scale_of)
{
    return p->p * x + p->q;
}

#define ROOT_HALF        0.70710678118654752f
#define ROOT_2_OVER_PI   0.79788456080286536f
#define INVERSE_ROOT_2PI 0.39894228040143268f
#define CUBIC            0.044715f

FUNCTION_1(gelu_of)
{
    (void)p;
    return 0.5f * x * (1 + erff(x * ROOT_HALF));
}

FUNCTION_2(gelu_bw_of, dy, x)
{
    (void)p;
    float density = INVERSE_ROOT_2PI * elementwise_exp(-0.5f * x * x);
    return dy * (0.5f * (1 + erff(x * ROOT_HALF)) + x * density);
}

/* (1 + tanh u) / 2 = 1 / (1 + exp(-2 u)). */
DEVICE float gelu_share(float x)
{
    float u = ROOT_2_OVER_PI * (x + CUBIC * x * x * x);
    return elementwise_quotient(1, 1 + elementwise_exp(-2 * u));
}

FUNCTION_1(gelu_tanh_of)
{
    (void)p;
    return x * gelu_share(x);
}

FUNCTION_2(gelu_tanh_bw_of, dy, x)
{
    (void)p;
    float share = gelu_share(x), inner = ROOT_2_OVER_PI * (1 + 3 * CUBIC * x * x);
    float bend = share * (1 - share); /* 0 where x is large, and `inner` may be infinite */
    return dy * (share + (bend > 0 ? 2 * x * bend * inner : 0));
}

/* Long, and rare: one copy of its code is enough. */
#if defined __CUDACC__
static __device__ __noinline__ float elementwise_any_power(float x, float exponent)
#else
static float elementwise_any_power(float x, float exponent)
#endif
{
    return powf(x, exponent);
}

DEVICE float elementwise_power(const elementwise_params *p, float x)
{
    switch (p->exponent) {
    case POWER_0:
        return 1;
    case POWER_1:
        return x;
    case POWER_2:
        return x * x;
    case POWER_3:
        return x * x * x;
    case POWER_HALF:
        return sqrtf(x);
    default:
        return elementwise_any_power(x, p->q);
    }
}

FUNCTION_1(power_of)
{
    return elementwise_power(p, x);
}

FUNCTION_2(power_bw_of, dy, x)
{
    return dy * p->p * elementwise_power(p, x);
}

UNARY(relu_forward, relu_of)
BINARY(relu_backward, relu_bw_of)
UNARY(relu6_forward, relu6_of)
BINARY(relu6_backward, relu6_bw_of)
UNARY(sigmoid_forward, sigmoid_of)
BINARY(sigmoid_backward, sigmoid_bw_of)
UNARY(tanh_forward, tanh_of)
BINARY(tanh_backward, tanh_bw_of)
UNARY(gelu_forward, gelu_of)
BINARY(gelu_backward, gelu_bw_of)
UNARY(gelu_tanh_forward, gelu_tanh_of)
BINARY(gelu_tanh_backward, gelu_tanh_bw_of)
BINARY(add_elements, add_of)
BINARY(mul_elements, mul_of)
UNARY(scale_elements, scale_of)
UNARY(power_forward, power_of)
BINARY(power_backward, power_bw_of)

/* ---- Dropout: draws are numbered in row-major order, whatever the order in memory ---- */

DEVICE void dropout_element(const elementwise_params *p, u64 seed, const i64 *at)
{
    bool kept = random_draw(seed, p->first + (u64)at[3]) >= p->least;
    float x = elementwise_load(p->a, at[1], p->wide & 2);
    p->mask[at[2]] = kept;
    elementwise_store(p->y, at[0], kept ? x * p->q : 0, p->wide & 1);
}

DEVICE void dropout_vector(const elementwise_params *p, u64 seed, elementwise_words x,
                           const i64 *at)
{
    elementwise_bytes mask = {{0}};
    float y[VECTOR];
    u64 number = p->first + (u64)at[3];
    UNROLL
    for (int e = 0; e < VECTOR; e++, number += p->step) {
        u32 kept = random_draw(seed, number) >= p->least;
        mask.word[e / 4] |= kept << e % 4 * 8;
        y[e] = kept ? elementwise_get(&x, e) * p->q : 0;
    }
    elementwise_write(p->y, at[0], elementwise_round(y));
    *(elementwise_bytes *)(p->mask + at[2]) = mask;
}

DEVICE void dropout_vectors(const elementwise_params *p, u64 seed)
{
    elementwise_words x[WALK_UNROLL];
    i64 at[WALK_UNROLL][4], tail = elementwise_tail(p);
    UNROLL
    for (int j = 0; j < WALK_UNROLL; j++)
        if (elementwise_unit(j) < p->walk.units) {
            walk_find(&p->walk, 4, elementwise_unit(j), at[j]);
            x[j] = elementwise_read(p->a, at[j][1]);
        }
    UNROLL
    for (int j = 0; j < WALK_UNROLL; j++)
        if (elementwise_unit(j) < p->walk.units)
            dropout_vector(p, seed, x[j], at[j]);
    if (tail >= 0) {
        i64 last[4] = {tail, tail, tail, tail * (i64)p->step};
        dropout_element(p, seed, last);
    }
}

KERNEL(dropout_forward, elementwise_params)
{
    u64 seed = seed_of(p.seed);
    if (p.vectors) {
        dropout_vectors(&p, seed);
        return;
    }
    for (int j = 0; j < WALK_UNROLL; j++)
        if (elementwise_unit(j) < p.walk.units) {
            i64 at[4];
            walk_find(&p.walk, 4, elementwise_unit(j), at);
            dropout_element(&p, seed, at);
        }
}

DEVICE void dropout_bw_element(const elementwise_params *p, const i64 *at)
{
    bool kept = ((const u8 *)p->b)[at[2]] != 0;
    float dy = elementwise_load(p->a, at[1], p->wide & 2);
    elementwise_store(p->y, at[0], kept ? dy * p->q : 0, p->wide & 1);
}

DEVICE void dropout_bw_vectors(const elementwise_params *p)
{
    elementwise_words dy[WALK_UNROLL];
    float dx[VECTOR];
    elementwise_bytes mask[WALK_UNROLL];
    i64 at[WALK_UNROLL][3], tail = elementwise_tail(p);
    UNROLL
    for (int j = 0; j < WALK_UNROLL; j++)
        if (elementwise_unit(j) < p->walk.units) {
            walk_find(&p->walk, 3, elementwise_unit(j), at[j]);
            dy[j] = elementwise_read(p->a, at[j][1]);
            mask[j] = *(const elementwise_bytes *)((const u8 *)p->b + at[j][2]);
        }
    UNROLL
    for (int j = 0; j < WALK_UNROLL; j++)
        if (elementwise_unit(j) < p->walk.units) {
            UNROLL
            for (int e = 0; e < VECTOR; e++)
                dx[e] = elementwise_byte(&mask[j], e) ? elementwise_get(&dy[j], e) * p->q : 0;
            elementwise_write(p->y, at[j][0], elementwise_round(dx));
        }
    if (tail >= 0) {
        i64 last[3] = {tail, tail, tail};
        dropout_bw_element(p, last);
    }
}

KERNEL(dropout_backward, elementwise_params)
{
    if (p.vectors) {
        dropout_bw_vectors(&p);
        return;
    }
    for (int j = 0; j < WALK_UNROLL; j++)
        if (elementwise_unit(j) < p.walk.units) {
            i64 at[3];
            walk_find(&p.walk, 3, elementwise_unit(j), at);
            dropout_bw_element(&p, at);
        }
}

#undef UNARY
#undef BINARY
#undef FUNCTION_1
#undef FUNCTION_2
