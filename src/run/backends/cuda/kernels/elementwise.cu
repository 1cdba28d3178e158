/* Elementwise ops; those of one number that are a line of graph/unary.def are in unary.cu. */
#include "elementwise.cuh"

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

FUNCTION_2(sub_of, a, b)
{
    (void)p;
    return a - b;
}

FUNCTION_2(div_of, a, b)
{
    (void)p;
    return a / b;
}

FUNCTION_3(div_bw_of, dy, y, b)
{
    (void)p;
    return -dy * y / b;
}

FUNCTION_2(max_of, a, b)
{
    (void)p;
    return a < b ? b : a;
}

FUNCTION_2(min_of, a, b)
{
    (void)p;
    return a > b ? b : a;
}

/* p->p is 1 for the larger of the two, -1 for the smaller; the other way round for b. */
FUNCTION_3(chosen_bw_of, dy, a, b)
{
    float difference = p->p * (a - b);
    return difference > 0 ? dy : a == b ? 0.5f * dy : 0;
}

FUNCTION_1(same_of)
{
    (void)p;
    return x;
}

/* c is the gradient of the loss, a single number in f32; p->p is 2 over the number of elements. */
FUNCTION_2(mse_bw_of, x, target)
{
    return *(const float *)p->c * p->p * (x - target);
}

FUNCTION_2(prelu_of, x, w)
{
    (void)p;
    return x < 0 ? w * x : x;
}

FUNCTION_3(prelu_bw_data_of, dy, x, w)
{
    (void)p;
    return x < 0 ? w * dy : dy;
}

FUNCTION_2(prelu_bw_weight_of, dy, x)
{
    (void)p;
    return x < 0 ? dy * x : 0;
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

ELEMENTWISE_1(relu_forward, relu_of)
ELEMENTWISE_2(relu_backward, relu_bw_of)
ELEMENTWISE_1(relu6_forward, relu6_of)
ELEMENTWISE_2(relu6_backward, relu6_bw_of)
ELEMENTWISE_1(sigmoid_forward, sigmoid_of)
ELEMENTWISE_2(sigmoid_backward, sigmoid_bw_of)
ELEMENTWISE_1(tanh_forward, tanh_of)
ELEMENTWISE_2(tanh_backward, tanh_bw_of)
ELEMENTWISE_1(gelu_forward, gelu_of)
ELEMENTWISE_2(gelu_backward, gelu_bw_of)
ELEMENTWISE_1(gelu_tanh_forward, gelu_tanh_of)
ELEMENTWISE_2(gelu_tanh_backward, gelu_tanh_bw_of)
ELEMENTWISE_2(add_elements, add_of)
ELEMENTWISE_2(mul_elements, mul_of)
ELEMENTWISE_2(sub_elements, sub_of)
ELEMENTWISE_2(div_elements, div_of)
ELEMENTWISE_3(div_backward, div_bw_of)
ELEMENTWISE_2(max_elements, max_of)
ELEMENTWISE_2(min_elements, min_of)
ELEMENTWISE_3(chosen_backward, chosen_bw_of)
ELEMENTWISE_1(cast_elements, same_of)
ELEMENTWISE_2(mse_backward, mse_bw_of)
ELEMENTWISE_2(prelu_forward, prelu_of)
ELEMENTWISE_3(prelu_backward_data, prelu_bw_data_of)
ELEMENTWISE_2(prelu_backward_weight, prelu_bw_weight_of)
ELEMENTWISE_1(scale_elements, scale_of)
ELEMENTWISE_1(power_forward, power_of)
ELEMENTWISE_2(power_backward, power_bw_of)

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

/* Chosen where the mask is 1 or, for the other of two choices, where it is 0. */
DEVICE bool mask_chooses(const elementwise_params *p, bool mask)
{
    return mask != (p->other != 0);
}

DEVICE void dropout_bw_element(const elementwise_params *p, const i64 *at)
{
    bool kept = mask_chooses(p, ((const u8 *)p->b)[at[2]] != 0);
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
                dx[e] = mask_chooses(p, elementwise_byte(&mask[j], e))
                            ? elementwise_get(&dy[j], e) * p->q
                            : 0;
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

/* ---- Where: c is the condition, of bytes ---- */

DEVICE void where_element(const elementwise_params *p, const i64 *at)
{
    bool first = ((const u8 *)p->c)[at[3]] != 0;
    float a = elementwise_load(p->a, at[1], p->wide & 2);
    float b = elementwise_load(p->b, at[2], p->wide & 4);
    elementwise_store(p->y, at[0], first ? a : b, p->wide & 1);
}

DEVICE void where_vectors(const elementwise_params *p)
{
    elementwise_words a[WALK_UNROLL], b[WALK_UNROLL];
    elementwise_bytes mask[WALK_UNROLL];
    float y[VECTOR];
    i64 at[WALK_UNROLL][4], tail = elementwise_tail(p);
    UNROLL
    for (int j = 0; j < WALK_UNROLL; j++)
        if (elementwise_unit(j) < p->walk.units) {
            walk_find(&p->walk, 4, elementwise_unit(j), at[j]);
            a[j] = elementwise_read(p->a, at[j][1]);
            b[j] = elementwise_read(p->b, at[j][2]);
            mask[j] = *(const elementwise_bytes *)((const u8 *)p->c + at[j][3]);
        }
    UNROLL
    for (int j = 0; j < WALK_UNROLL; j++)
        if (elementwise_unit(j) < p->walk.units) {
            UNROLL
            for (int e = 0; e < VECTOR; e++)
                y[e] = elementwise_byte(&mask[j], e) ? elementwise_get(&a[j], e)
                                                     : elementwise_get(&b[j], e);
            elementwise_write(p->y, at[j][0], elementwise_round(y));
        }
    if (tail >= 0) {
        i64 last[4] = {tail, tail, tail, tail};
        where_element(p, last);
    }
}

KERNEL(where_select, elementwise_params)
{
    if (p.vectors) {
        where_vectors(&p);
        return;
    }
    for (int j = 0; j < WALK_UNROLL; j++)
        if (elementwise_unit(j) < p.walk.units) {
            i64 at[4];
            walk_find(&p.walk, 4, elementwise_unit(j), at);
            where_element(&p, at);
        }
}
