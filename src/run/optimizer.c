/*
 * neap/optimizer.h: the updates. The order of the operations is that of PyTorch's single-tensor
 * code (torch/optim/sgd.py, adam.py, and the kernels of lerp, addcmul and addcdiv they call).
 * PyTorch fuses some multiply-adds on some machines; we never do, so that results do not depend on
 * the machine. The kernels of all backends call these functions (update.h).
 */
#include <neap/optimizer.h>

#include <math.h>
#include <stddef.h>

/* ---- SGD ---- */

/* One loop per case: a condition inside would prevent vectorization. */
static void sgd_plain(float *restrict w, const float *restrict g, int64_t n, float rate)
{
    for (int64_t i = 0; i < n; i++)
        w[i] -= rate * g[i];
}

static void sgd_decay(float *restrict w, const float *restrict g, int64_t n, float rate,
                      float decay)
{
    for (int64_t i = 0; i < n; i++)
        w[i] -= rate * (g[i] + decay * w[i]);
}

static void sgd_momentum(float *restrict w, const float *restrict g, float *restrict b, int64_t n,
                         float rate, float momentum)
{
    for (int64_t i = 0; i < n; i++) {
        b[i] = momentum * b[i] + g[i];
        w[i] -= rate * b[i];
    }
}

static void sgd_momentum_decay(float *restrict w, const float *restrict g, float *restrict b,
                               int64_t n, float rate, float momentum, float decay)
{
    for (int64_t i = 0; i < n; i++) {
        b[i] = momentum * b[i] + (g[i] + decay * w[i]);
        w[i] -= rate * b[i];
    }
}

void neap_sgd_update(float *w, const float *g, float *momentum, int64_t n, const neap_sgd *options)
{
    float rate = (float)options->learning_rate, decay = (float)options->weight_decay;
    if (options->momentum == 0 && options->weight_decay == 0)
        sgd_plain(w, g, n, rate);
    else if (options->momentum == 0)
        sgd_decay(w, g, n, rate, decay);
    else if (options->weight_decay == 0)
        sgd_momentum(w, g, momentum, n, rate, (float)options->momentum);
    else
        sgd_momentum_decay(w, g, momentum, n, rate, (float)options->momentum, decay);
}

/* ---- Adam ---- */

/* Factors that are the same for all elements of a step. */
typedef struct adam_factors {
    float keep;           /* factor of the weight if decay is decoupled; else 1 */
    float decay;          /* added to the gradient; else 0 */
    float weight1, rest1; /* 1 - beta1 and beta1 */
    float beta2, weight2; /* weight2: 1 - beta2 */
    float step_size;      /* learning rate / (1 - beta1^t) */
    float correction2;    /* sqrt(1 - beta2^t) */
    float epsilon;
} adam_factors;

/* base^n. The last bit of pow depends on the library; kernels for GPUs multiply the same way. */
static double power(double base, int64_t n)
{
    double product = 1;
    for (; n > 0; n /= 2) {
        product = n % 2 ? product * base : product;
        base *= base;
    }
    return product;
}

static adam_factors factors_of(int64_t step, const neap_adam *o)
{
    int64_t t = step < 1 ? 1 : step;
    return (adam_factors){
        .keep = o->decoupled ? (float)(1 - o->learning_rate * o->weight_decay) : 1,
        .decay = o->decoupled ? 0 : (float)o->weight_decay,
        .weight1 = (float)(1 - o->beta1),
        .rest1 = (float)o->beta1,
        .beta2 = (float)o->beta2,
        .weight2 = (float)(1 - o->beta2),
        .step_size = (float)(o->learning_rate / (1 - power(o->beta1, t))),
        .correction2 = (float)sqrt(1 - power(o->beta2, t)),
        .epsilon = (float)o->epsilon,
    };
}

/*
 * `near_end` is PyTorch's lerp for a weight of a half and more, which is exact at 1. All three
 * flags are constants where this is called, so each loop is one case.
 */
static inline void adam_loop(float *restrict w, const float *restrict g, float *restrict m,
                             float *restrict v, int64_t n, const adam_factors *f, bool near_end,
                             bool keeps, bool decays)
{
    for (int64_t i = 0; i < n; i++) {
        float weight = keeps ? w[i] * f->keep : w[i];
        float gradient = decays ? g[i] + f->decay * weight : g[i];
        float change = gradient - m[i];
        float mean = near_end ? gradient - change * f->rest1 : m[i] + f->weight1 * change;
        float square = f->beta2 * v[i] + f->weight2 * gradient * gradient;
        m[i] = mean;
        v[i] = square;
        w[i] = weight - f->step_size * mean / (sqrtf(square) / f->correction2 + f->epsilon);
    }
}

void neap_adam_update(float *w, const float *g, float *m, float *v, int64_t n, int64_t step,
                      const neap_adam *options)
{
    adam_factors f = factors_of(step, options);
    bool decays = options->weight_decay != 0;
    if (1 - options->beta1 >= 0.5)
        adam_loop(w, g, m, v, n, &f, true, true, true); /* rare: keep is 1 or decay 0 */
    else if (!decays)
        adam_loop(w, g, m, v, n, &f, false, false, false);
    else if (options->decoupled)
        adam_loop(w, g, m, v, n, &f, false, true, false);
    else
        adam_loop(w, g, m, v, n, &f, false, false, true);
}
