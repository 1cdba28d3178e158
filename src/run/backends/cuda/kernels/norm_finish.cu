/*
 * The second stage of batch and group normalisation: partial sums to statistics and gradients.
 *
 * Parts have means of their own, m_i of n_i elements, and squares q_i around them. With any k,
 *     n (mean - k) = sum n_i (m_i - k)
 *     squares around the mean = sum (q_i + n_i (m_i - k)^2) - n (mean - k)^2
 * and with k = m_0, the last term is small (Chan, Golub and LeVeque, 1983).
 */
#include "norm.h"
#include "prelude.cuh"

/* A thread of a block that has NORM_FINISH channels; its lines, a power of two of them, share the
   parts. */
typedef struct finish_place {
    int t, line, lines;
    i64 c;
} finish_place;

DEVICE finish_place finish_here(void)
{
    finish_place at;
    at.t = (int)threadIdx.x;
    at.line = at.t / NORM_FINISH;
    at.lines = (int)blockDim.x / NORM_FINISH;
    at.c = (i64)blockIdx.x * NORM_FINISH + at.t % NORM_FINISH;
    return at;
}

/* Sums over the lines of a block: line 0 gets them. */
DEVICE void finish_sum_lines(const finish_place *at, float *sums, float *a, float *b)
{
    sums[at->t] = *a;
    sums[1024 + at->t] = *b;
    for (int half = at->lines / 2; half > 0; half /= 2) {
        __syncthreads();
        if (at->line < half) {
            sums[at->t] += sums[at->t + half * NORM_FINISH];
            sums[1024 + at->t] += sums[1024 + at->t + half * NORM_FINISH];
        }
    }
    *a = sums[at->t];
    *b = sums[1024 + at->t];
}

DEVICE float finish_invstd(float variance, float epsilon)
{
    return 1.0f / sqrtf((variance < 0 ? 0.0f : variance) + epsilon);
}

DEVICE float finish_gamma(const norm_params *p, i64 c)
{
    return load((const T *)p->gamma, c * p->gamma_step);
}

DEVICE void finish_forward(const norm_params *p, i64 set, i64 c, float mean, float invstd)
{
    float *to = p->coefficients + set * NORM_COEFFICIENTS * p->channels + c;
    to[NORM_SCALE * p->channels] = invstd * finish_gamma(p, c);
    to[NORM_OFFSET * p->channels] = load((const T *)p->beta, c * p->beta_step);
    to[NORM_SLOPE * p->channels] = 0;
    to[NORM_CENTER * p->channels] = mean;
}

/*
 * With d = gamma dy, z = (x - mean) invstd, and means over the n elements of a group:
 *     dx = invstd (d - mean(d) - z mean(d z))
 * `sum` is that of d, `product` that of d (x - mean).
 */
DEVICE void finish_backward(const norm_params *p, i64 set, i64 c, float mean, float invstd,
                            float sum, float product)
{
    float *to = p->coefficients + set * NORM_COEFFICIENTS * p->channels + c;
    float share = invstd / (float)(p->rows * p->width);
    to[NORM_SCALE * p->channels] = invstd * finish_gamma(p, c);
    to[NORM_OFFSET * p->channels] = -share * sum;
    to[NORM_SLOPE * p->channels] = -share * invstd * invstd * product;
    to[NORM_CENTER * p->channels] = mean;
}

/* ---- Batch normalisation ---- */

KERNEL_SYNC(norm_statistics, norm_params)
{
    SHARED float sums[2 * 1024];
    finish_place at = finish_here();
    float shift = at.c < p.channels ? p.partials[at.c] : 0.0f, sum = 0, square = 0;
    for (int chunk = at.line; chunk < p.chunks && at.c < p.channels; chunk += at.lines) {
        const float *partial = p.partials + (i64)chunk * 3 * p.channels + at.c;
        float d = partial[0] - shift, count = partial[2 * p.channels];
        sum += count * d;
        square += partial[p.channels] + count * d * d;
    }
    finish_sum_lines(&at, sums, &sum, &square);
    if (at.line == 0 && at.c < p.channels) {
        float off = sum / (float)p.rows, mean = shift + off;
        float invstd = finish_invstd(square / (float)p.rows - off * off, p.epsilon);
        p.mean[at.c * p.mean_step[1]] = mean;
        p.invstd[at.c * p.invstd_step[1]] = invstd;
        finish_forward(&p, 0, at.c, mean, invstd);
    }
}

/* dgamma and dbeta, also of group normalisation, and the coefficients of batch normalisation. */
KERNEL_SYNC(norm_gradients, norm_params)
{
    SHARED float sums[2 * 1024];
    finish_place at = finish_here();
    i64 group = (u32)at.c / (u32)p.width, parts = p.sets * p.chunks;
    float sum = 0, product = 0;
    for (i64 part = at.line; part < parts && at.c < p.channels; part += at.lines) {
        const float *partial = p.partials + part * 2 * p.channels + at.c;
        i64 set = p.sets == 1 ? 0 : part / p.chunks;
        sum += partial[0];
        product += partial[p.channels] *
                   p.invstd[set * p.invstd_step[0] + group * p.invstd_step[1]];
    }
    finish_sum_lines(&at, sums, &sum, &product);
    if (at.line == 0 && at.c < p.channels) {
        store((T *)p.dgamma, at.c * p.dgamma_step, product);
        store((T *)p.dbeta, at.c * p.dbeta_step, sum);
        if (p.coefficients_wanted) {
            float gamma = finish_gamma(&p, at.c), invstd = p.invstd[at.c * p.invstd_step[1]];
            finish_backward(&p, 0, at.c, p.mean[at.c * p.mean_step[1]], invstd, gamma * sum,
                            gamma * product / invstd);
        }
    }
}

/* ---- Group normalisation: a block has a group of a set ---- */

KERNEL_SYNC(group_statistics, norm_params)
{
    SHARED float scratch[WARP];
    i64 set = (i64)blockIdx.x / p.groups, group = (i64)blockIdx.x % p.groups;
    const float *partials = p.partials + set * p.chunks * 3 * p.channels + group * p.width;
    float shift = partials[0], sum = 0, square = 0, all = (float)(p.rows * p.width);
    for (i64 i = threadIdx.x; i < p.chunks * p.width; i += blockDim.x) {
        i64 chunk = (u32)i / (u32)p.width;
        const float *partial = partials + chunk * 3 * p.channels + (i - chunk * p.width);
        float d = partial[0] - shift, count = partial[2 * p.channels];
        sum += count * d;
        square += partial[p.channels] + count * d * d;
    }
    float off = block_sum(sum, scratch) / all, mean = shift + off;
    float invstd =
        finish_invstd(block_sum(square, scratch) / all - off * off, p.epsilon);
    if (threadIdx.x == 0) {
        p.mean[set * p.mean_step[0] + group * p.mean_step[1]] = mean;
        p.invstd[set * p.invstd_step[0] + group * p.invstd_step[1]] = invstd;
    }
    for (i64 i = threadIdx.x; i < p.width; i += blockDim.x)
        finish_forward(&p, set, group * p.width + i, mean, invstd);
}

KERNEL_SYNC(group_coefficients, norm_params)
{
    SHARED float scratch[WARP];
    i64 set = (i64)blockIdx.x / p.groups, group = (i64)blockIdx.x % p.groups;
    const float *partials = p.partials + set * p.chunks * 2 * p.channels + group * p.width;
    float sum = 0, product = 0;
    for (i64 i = threadIdx.x; i < p.chunks * p.width; i += blockDim.x) {
        i64 chunk = (u32)i / (u32)p.width, c = i - chunk * p.width;
        float gamma = finish_gamma(&p, group * p.width + c);
        sum += gamma * partials[chunk * 2 * p.channels + c];
        product += gamma * partials[(chunk * 2 + 1) * p.channels + c];
    }
    sum = block_sum(sum, scratch);
    product = block_sum(product, scratch);
    float mean = p.mean[set * p.mean_step[0] + group * p.mean_step[1]];
    float invstd = p.invstd[set * p.invstd_step[0] + group * p.invstd_step[1]];
    for (i64 i = threadIdx.x; i < p.width; i += blockDim.x)
        finish_backward(&p, set, group * p.width + i, mean, invstd, sum, product);
}
