/*
 * Steps of optimizers, to the bit as run/optimizer.c computes them: the same operations in the same
 * order, which the compiler must not fuse (--fmad=false).
 */
#include "update.h"
#include "prelude.cuh"

/* ---- Elements of any type: base/half.h ---- */

DEVICE float update_from_f16(u16 half)
{
    u32 sign = (u32)(half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest >= 0x7c00) /* infinite or not a number */
        return bits_float(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest >= 0x400)
        return bits_float(sign | ((rest << 13) + (112u << 23)));
    float small = (float)rest * 5.9604644775390625e-8f; /* 2^-24 */
    return bits_float(sign | float_bits(small));
}

DEVICE u16 update_to_f16(float number)
{
    u32 bits = float_bits(number), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (u16)(sign | 0x7e00);
    if (rest >= 0x477ff000) /* rounds to more than the largest, 65504 */
        return (u16)(sign | 0x7c00);
    if (rest < 0x38800000) { /* subnormal: adding 0.5 rounds to multiples of 2^-24 */
        float sum = bits_float(rest) + 0.5f;
        return (u16)(sign | (float_bits(sum) - 0x3f000000));
    }
    return (u16)(sign | ((rest + 0xfff + (rest >> 13 & 1) - (112u << 23)) >> 13));
}

DEVICE double update_read(const update_operand *o, i64 at)
{
    switch (o->type) {
    case UPDATE_F64:
        return ((const double *)o->at)[at];
    case UPDATE_BF16:
        return from_bf16(((const bf16 *)o->at)[at]);
    case UPDATE_F16:
        return update_from_f16(((const u16 *)o->at)[at]);
    default:
        return ((const float *)o->at)[at];
    }
}

DEVICE void update_write(const update_operand *o, i64 at, float number)
{
    switch (o->type) {
    case UPDATE_F64:
        ((double *)o->at)[at] = number;
        break;
    case UPDATE_BF16:
        ((bf16 *)o->at)[at] = to_bf16(number);
        break;
    case UPDATE_F16:
        ((u16 *)o->at)[at] = update_to_f16(number);
        break;
    default:
        ((float *)o->at)[at] = number;
    }
}

/* Where element i of the row-major order lies. */
DEVICE i64 update_offset(const i64 *shape, i32 rank, const i64 *strides, i64 i)
{
    i64 at = 0;
    UNROLL for (int d = MOST_DIMS - 1; d >= 0; d--)
        if (d < rank) {
            i64 rest = i / shape[d];
            at += (i - rest * shape[d]) * strides[d];
            i = rest;
        }
    return at;
}

/* ---- What is the same for all elements ---- */

typedef struct update_factors {
    i32 complete;
    float scale, rate, momentum, decay;
    float keep, weight1, rest1, beta2, weight2, step_size, correction2, epsilon; /* of Adam */
} update_factors;

/* base^n */
DEVICE double update_power(double base, i64 n)
{
    double product = 1;
    for (; n > 0; n /= 2) {
        product = n % 2 ? product * base : product;
        base *= base;
    }
    return product;
}

/* By two threads, since powers take long; then all wait. */
DEVICE void update_set_factors(const update_params *p, update_factors *f)
{
    double rate = update_read(&p->step, 0);
    i64 t = (i64)update_read(&p->step, p->step.strides[0]);
    t = t < 1 ? 1 : t;
    if (threadIdx.x == 0) {
        f->complete = !p->sum.at || update_read(&p->step, 2 * p->step.strides[0]) > 0;
        f->scale = p->scale.at ? (float)update_read(&p->scale, 0) : 1.0f;
        f->rate = (float)rate;
        f->momentum = (float)p->momentum;
        f->decay = p->decoupled ? 0.0f : (float)p->weight_decay;
        f->keep = p->decoupled ? (float)(1 - rate * p->weight_decay) : 1.0f;
        f->weight1 = (float)(1 - p->beta1);
        f->rest1 = (float)p->beta1;
        f->beta2 = (float)p->beta2;
        f->weight2 = (float)(1 - p->beta2);
        f->epsilon = (float)p->epsilon;
        f->step_size = p->adam ? (float)(rate / (1 - update_power(p->beta1, t))) : 0.0f;
    }
    if (threadIdx.x == WARP)
        f->correction2 = p->adam ? (float)sqrt(1 - update_power(p->beta2, t)) : 0.0f;
    __syncthreads();
}

/* ---- One element ---- */

DEVICE void update_sgd(const update_params *p, const update_factors *f, float *w, float g, float *b)
{
    float d = p->weight_decay != 0 ? g + f->decay * *w : g;
    if (p->momentum != 0) {
        *b = f->momentum * *b + d;
        d = *b;
    }
    *w -= f->rate * d;
}

DEVICE void update_adam(const update_params *p, const update_factors *f, float *w, float g,
                        float *m, float *v)
{
    float weight = p->keeps ? *w * f->keep : *w;
    float gradient = p->decays ? g + f->decay * weight : g;
    float change = gradient - *m;
    float mean = p->near_end ? gradient - change * f->rest1 : *m + f->weight1 * change;
    float square = f->beta2 * *v + f->weight2 * gradient * gradient;
    *m = mean;
    *v = square;
    *w = weight - f->step_size * mean / (sqrtf(square) / f->correction2 + f->epsilon);
}

DEVICE void update_number(const update_params *p, const update_factors *f, float *w, float g,
                          float *m, float *v)
{
    if (p->scale.at)
        g *= f->scale;
    if (p->adam)
        update_adam(p, f, w, g, m, v);
    else
        update_sgd(p, f, w, g, m);
}

#define UPDATE_AT(operand) update_offset(p->shape, p->rank, p->operand.strides, i)

/* Of any strides. */
DEVICE void update_element(const update_params *p, const update_factors *f, i64 i)
{
    float g = (float)update_read(&p->g, UPDATE_AT(g)), m = 0, v = 0;
    if (!f->complete) {
        update_write(&p->sum, UPDATE_AT(sum), g);
        return;
    }
    float w = p->master.at ? (float)update_read(&p->master, UPDATE_AT(master))
                           : (float)update_read(&p->w, UPDATE_AT(w));
    if (p->m.at)
        m = (float)update_read(&p->m, UPDATE_AT(m));
    if (p->v.at)
        v = (float)update_read(&p->v, UPDATE_AT(v));
    update_number(p, f, &w, g, &m, &v);
    update_write(&p->w, UPDATE_AT(w), w);
    if (p->master.at)
        update_write(&p->master, UPDATE_AT(master), w);
    if (p->m.at)
        update_write(&p->m, UPDATE_AT(m), m);
    if (p->v.at)
        update_write(&p->v, UPDATE_AT(v), v);
    if (p->sum.at)
        update_write(&p->sum, UPDATE_AT(sum), 0.0f);
}

KERNEL_SYNC(update_strided, update_params)
{
    SHARED update_factors f;
    update_set_factors(&p, &f);
    for (i64 i = global_thread(); i < p.elements; i += global_threads())
        update_element(&p, &f, i);
}

/* ---- Vectors ---- */

typedef struct ALIGNED(16) update_floats {
    float e[UPDATE_WIDTH];
} update_floats;

typedef struct ALIGNED(8) update_halves {
    bf16 e[UPDATE_WIDTH];
} update_halves;

DEVICE update_floats update_load(const update_operand *o, i64 i)
{
    if (o->type == UPDATE_F32)
        return ((const update_floats *)o->at)[i];
    update_floats numbers;
    update_halves halves = ((const update_halves *)o->at)[i];
    UNROLL for (int k = 0; k < UPDATE_WIDTH; k++) numbers.e[k] = from_bf16(halves.e[k]);
    return numbers;
}

DEVICE void update_store(const update_operand *o, i64 i, update_floats numbers)
{
    if (o->type == UPDATE_F32) {
        ((update_floats *)o->at)[i] = numbers;
        return;
    }
    update_halves halves;
    UNROLL for (int k = 0; k < UPDATE_WIDTH; k++) halves.e[k] = to_bf16(numbers.e[k]);
    ((update_halves *)o->at)[i] = halves;
}

/* Loads of f32 come first: those of bf16 are waited for at once. */
DEVICE void update_vector(const update_params *p, const update_factors *f, i64 i)
{
    const update_operand *weights = p->master.at ? &p->master : &p->w;
    update_floats w, g, m = {{0}}, v = {{0}}, zero = {{0}};
    if (!f->complete) {
        update_store(&p->sum, i, update_load(&p->g, i));
        return;
    }
    if (p->m.at)
        m = update_load(&p->m, i);
    if (p->v.at)
        v = update_load(&p->v, i);
    w = update_load(weights, i);
    g = update_load(&p->g, i);
    UNROLL for (int k = 0; k < UPDATE_WIDTH; k++)
        update_number(p, f, &w.e[k], g.e[k], &m.e[k], &v.e[k]);
    if (p->m.at)
        update_store(&p->m, i, m);
    if (p->v.at)
        update_store(&p->v, i, v);
    if (p->master.at)
        update_store(&p->master, i, w);
    update_store(&p->w, i, w);
    if (p->sum.at)
        update_store(&p->sum, i, zero);
}

/* All operands are f32 or bf16, without gaps, and aligned to vectors. */
KERNEL_SYNC(update_plain, update_params)
{
    SHARED update_factors shared;
    update_set_factors(&p, &shared);
    update_factors f = shared;
    i64 vectors = p.elements / UPDATE_WIDTH, rest = p.elements % UPDATE_WIDTH;
    for (i64 i = global_thread(); i < vectors; i += global_threads())
        update_vector(&p, &f, i);
    if (global_thread() < rest)
        update_element(&p, &f, p.elements - rest + global_thread());
}

/* ---- Running statistics: run/update.c ---- */

DEVICE void statistics_advance(const update_operand *o, i64 channel, double momentum, double batch)
{
    double kept = momentum * update_read(o, channel * o->strides[0]);
    double added = (1 - momentum) * batch;
    update_write(o, channel * o->strides[0], (float)(kept + added));
}

KERNEL(update_statistics, statistics_params)
{
    for (i64 c = global_thread(); c < p.channels; c += global_threads()) {
        double invstd = update_read(&p.invstd, c * p.invstd.strides[0]);
        double variance = 1 / (invstd * invstd) - p.epsilon;
        statistics_advance(&p.mean, c, p.momentum,
                           update_read(&p.batch_mean, c * p.batch_mean.strides[0]));
        statistics_advance(&p.variance, c, p.momentum, variance < 0 ? 0 : variance);
    }
}

/* ---- The norm of gradients ---- */

/* The sum over the block, in the same order always. Thread 0 has the result. */
DEVICE double clip_block_sum(double sum, double *scratch)
{
    scratch[threadIdx.x] = sum;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            scratch[threadIdx.x] += scratch[threadIdx.x + half];
    }
    return scratch[0];
}

DEVICE double clip_squares_of(const update_operand *o, i64 begin, i64 end)
{
    double sum = 0;
    i64 vectors = 0;
    if (o->type <= UPDATE_BF16 && (u64)o->at % 16 == 0) {
        vectors = (end - begin) / UPDATE_WIDTH;
        for (i64 i = threadIdx.x; i < vectors; i += blockDim.x) {
            update_floats g = update_load(o, begin / UPDATE_WIDTH + i);
            UNROLL for (int k = 0; k < UPDATE_WIDTH; k++)
                sum += (double)g.e[k] * (double)g.e[k];
        }
    }
    for (i64 i = begin + vectors * UPDATE_WIDTH + threadIdx.x; i < end; i += blockDim.x) {
        double g = (float)update_read(o, i);
        sum += g * g;
    }
    return sum;
}

KERNEL_SYNC(clip_squares, clip_params)
{
    SHARED double scratch[CLIP_THREADS];
    i32 which = 0;
    while (which + 1 < p.count && (i32)blockIdx.x >= p.first[which + 1])
        which++;
    update_operand gradient;
    gradient.at = (void *)(u64)p.at[which];
    gradient.type = p.type[which];
    i64 begin = ((i64)blockIdx.x - p.first[which]) * CLIP_BLOCK, end = begin + CLIP_BLOCK;
    end = end < p.elements[which] ? end : p.elements[which];
    double sum = clip_block_sum(clip_squares_of(&gradient, begin, end), scratch);
    if (threadIdx.x == 0)
        p.sums[blockIdx.x] = sum;
}

KERNEL_SYNC(clip_squares_strided, clip_strided_params)
{
    SHARED double scratch[CLIP_THREADS];
    i64 begin = (i64)blockIdx.x * CLIP_BLOCK, end = begin + CLIP_BLOCK;
    double sum = 0;
    end = end < p.elements ? end : p.elements;
    for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
        double g = (float)update_read(&p.gradient, update_offset(p.shape, p.rank,
                                                                 p.gradient.strides, i));
        sum += g * g;
    }
    sum = clip_block_sum(sum, scratch);
    if (threadIdx.x == 0)
        p.sums[blockIdx.x] = sum;
}

/* neap_run_clip_scale of the sum of all sums. */
KERNEL_SYNC(clip_scale, clip_scale_params)
{
    SHARED double scratch[CLIP_THREADS];
    double sum = 0;
    for (i64 i = threadIdx.x; i < p.count; i += blockDim.x)
        sum += p.sums[i];
    sum = clip_block_sum(sum, scratch);
    if (threadIdx.x == 0) {
        double scale = p.norm / (sqrt(sum) + 1e-6);
        *p.scale = (float)(scale > 1 ? 1 : scale); /* NaN stays NaN */
    }
}
