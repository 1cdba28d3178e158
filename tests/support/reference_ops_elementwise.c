/* Reference kernels of elementwise ops, linear layers and normalisation. */
#include "reference_ops.h"

#include <math.h>

#define PI 3.14159265358979323846

/* ---- Elementwise ---- */

typedef double unary(const ref_call *call, double x);

static void map(const ref_call *call, unary *f)
{
    ref_operands(call, 1, 1);
    for (int64_t i = 0; i < call->out[0].n; i++)
        call->out[0].at[i] = f(call, call->in[0].at[i]);
}

typedef double binary(const ref_call *call, double a, double b);

static void map2(const ref_call *call, binary *f)
{
    ref_operands(call, 2, 1);
    for (int64_t i = 0; i < call->out[0].n; i++) /* the second operand may repeat */
        call->out[0].at[i] = f(call, call->in[0].at[i], call->in[1].at[i % call->in[1].n]);
}

/* A kernel: UNARY(type, what x becomes), BINARY(type, its two operands, what they become). */
#define UNARY(type, expression)                                                                    \
    static double type##_element(const ref_call *call, double x)                                   \
    {                                                                                              \
        (void)call;                                                                                \
        return expression;                                                                         \
    }                                                                                              \
    void ref_##type(const ref_call *call)                                                          \
    {                                                                                              \
        map(call, type##_element);                                                                 \
    }

#define BINARY(type, a, b, expression)                                                             \
    static double type##_element(const ref_call *call, double a, double b)                         \
    {                                                                                              \
        (void)call;                                                                                \
        return expression;                                                                         \
    }                                                                                              \
    void ref_##type(const ref_call *call)                                                          \
    {                                                                                              \
        map2(call, type##_element);                                                                \
    }

UNARY(relu, fmax(x, 0))
BINARY(relu_bw, dy, y, y > 0 ? dy : 0)
UNARY(relu6, fmin(fmax(x, 0), 6))
BINARY(relu6_bw, dy, y, y > 0 && y < 6 ? dy : 0)
UNARY(sigmoid, 1 / (1 + exp(-x)))
BINARY(sigmoid_bw, dy, y, (dy * y * (1 - y)))
UNARY(tanh, tanh(x))
BINARY(tanh_bw, dy, y, (dy * (1 - y * y)))
UNARY(scale, ref_real(call, "factor") * x + ref_real(call, "offset"))
UNARY(pow, pow(x, ref_real(call, "power")))
BINARY(pow_bw, dy, x, (dy * ref_real(call, "power") * pow(x, ref_real(call, "power") - 1)))
BINARY(add, a, b, a + b)
BINARY(mul, a, b, (a * b))
BINARY(dropout_bw, dy, mask, (dy * mask / (1 - ref_real(call, "p"))))

/* x Phi(x), or Hendrycks and Gimpel's 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
static double gelu_element(const ref_call *call, double x)
{
    if (ref_int(call, "tanh"))
        return 0.5 * x * (1 + tanh(sqrt(2 / PI) * (x + 0.044715 * x * x * x)));
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}

static double gelu_bw_element(const ref_call *call, double dy, double x)
{
    if (!ref_int(call, "tanh"))
        return dy * (0.5 * (1 + erf(x / sqrt(2))) + x * exp(-x * x / 2) / sqrt(2 * PI));
    double t = tanh(sqrt(2 / PI) * (x + 0.044715 * x * x * x));
    double slope = sqrt(2 / PI) * (1 + 3 * 0.044715 * x * x);
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope);
}

void ref_gelu(const ref_call *call)
{
    map(call, gelu_element);
}

void ref_gelu_bw(const ref_call *call)
{
    map2(call, gelu_bw_element);
}

void ref_dropout(const ref_call *call)
{
    ref_operands(call, 1, 2);
    double p = ref_real(call, "p");
    for (int64_t i = 0; i < call->in[0].n; i++) {
        double kept = ref_random(call, i) >= p;
        call->out[0].at[i] = call->in[0].at[i] * kept / (1 - p);
        call->out[1].at[i] = kept;
    }
}

/* ---- Linear: y = x w^T + b over the last dimension ---- */

static int64_t last(const ref_tensor *x)
{
    return x->shape[x->rank - 1];
}

void ref_linear(const ref_call *call)
{
    bool bias = ref_int(call, "bias");
    ref_operands(call, bias ? 3 : 2, 1);
    const ref_tensor *x = &call->in[0], *w = &call->in[1];
    int64_t inputs = last(x), features = w->shape[0];
    for (int64_t i = 0; i < call->out[0].n; i++) {
        double sum = bias ? call->in[2].at[i % features] : 0;
        for (int64_t c = 0; c < inputs; c++)
            sum += x->at[i / features * inputs + c] * w->at[i % features * inputs + c];
        call->out[0].at[i] = sum;
    }
}

void ref_linear_bw_data(const ref_call *call)
{
    ref_operands(call, 2, 1);
    const ref_tensor *dy = &call->in[0], *w = &call->in[1];
    int64_t inputs = w->shape[1], features = w->shape[0];
    for (int64_t i = 0; i < call->out[0].n; i++)
        for (int64_t k = 0; k < features; k++)
            call->out[0].at[i] +=
                dy->at[i / inputs * features + k] * w->at[k * inputs + i % inputs];
}

void ref_linear_bw_weight(const ref_call *call)
{
    ref_operands(call, 2, ref_int(call, "bias") ? 2 : 1);
    const ref_tensor *dy = &call->in[0], *x = &call->in[1];
    int64_t inputs = last(x), features = last(dy);
    for (int64_t i = 0; i < dy->n; i++) {
        for (int64_t c = 0; c < inputs; c++)
            call->out[0].at[i % features * inputs + c] +=
                dy->at[i] * x->at[i / features * inputs + c];
        if (call->op->n_outputs > 1)
            call->out[1].at[i % features] += dy->at[i];
    }
}

/* ---- Normalisation ---- */

/* An element belongs to a group, which has statistics, and a channel, which has gamma and beta. */
typedef struct groups {
    int64_t inner, channels;
    bool by_channel; /* batch norm: the group is the channel; layer norm: the row */
} groups;

static groups groups_of(const ref_tensor *x, bool by_channel)
{
    return by_channel ? (groups){ref_extent(x, 2, x->rank), x->shape[1], true}
                      : (groups){1, last(x), false};
}

static int64_t channel_of(const groups *g, int64_t i)
{
    return i / g->inner % g->channels;
}

static int64_t group_of(const groups *g, int64_t i)
{
    return g->by_channel ? channel_of(g, i) : i / g->channels;
}

static void normalise(const ref_call *call, bool by_channel)
{
    ref_operands(call, 3, 3);
    const ref_tensor *x = &call->in[0], *gamma = &call->in[1], *beta = &call->in[2];
    ref_tensor *y = &call->out[0], *mean = &call->out[1], *invstd = &call->out[2];
    groups g = groups_of(x, by_channel);
    double share = (double)mean->n / (double)x->n;
    for (int64_t i = 0; i < x->n; i++)
        mean->at[group_of(&g, i)] += share * x->at[i];
    for (int64_t i = 0; i < x->n; i++)
        invstd->at[group_of(&g, i)] += share * pow(x->at[i] - mean->at[group_of(&g, i)], 2);
    for (int64_t i = 0; i < invstd->n; i++)
        invstd->at[i] = 1 / sqrt(invstd->at[i] + ref_real(call, "epsilon"));
    for (int64_t i = 0; i < x->n; i++) {
        int64_t group = group_of(&g, i), channel = channel_of(&g, i);
        y->at[i] = (x->at[i] - mean->at[group]) * invstd->at[group] * gamma->at[channel] +
                   beta->at[channel];
    }
}

/* What both gradients are made of. Without dx, gamma is not read. */
typedef struct norm_bw {
    const ref_tensor *dy, *x, *gamma, *mean, *invstd;
    groups g;
} norm_bw;

static double normalised(const norm_bw *n, int64_t i)
{
    int64_t group = group_of(&n->g, i);
    return (n->x->at[i] - n->mean->at[group]) * n->invstd->at[group];
}

/* With d = dy * gamma and z = x normalised: dx = invstd * (d - mean(d) - z * mean(d z)). */
static void norm_bw_data(const norm_bw *n, ref_tensor *dx)
{
    for (int64_t i = 0; i < dx->n; i++) {
        double d = 0, dz = 0, members = 0, own = n->dy->at[i] * n->gamma->at[channel_of(&n->g, i)];
        for (int64_t k = 0; k < dx->n; k++)
            if (group_of(&n->g, k) == group_of(&n->g, i)) {
                double other = n->dy->at[k] * n->gamma->at[channel_of(&n->g, k)];
                d += other;
                dz += other * normalised(n, k);
                members++;
            }
        dx->at[i] = n->invstd->at[group_of(&n->g, i)] *
                    (own - d / members - normalised(n, i) * dz / members);
    }
}

static void norm_backward(const ref_call *call, bool by_channel)
{
    bool data = call->op->n_outputs == 3;
    ref_operands(call, data ? 5 : 4, data ? 3 : 2);
    const ref_tensor *rest = call->in + (data ? 3 : 2);
    norm_bw n = {&call->in[0], &call->in[1], data ? &call->in[2] : NULL,
                 rest,         rest + 1,     groups_of(&call->in[1], by_channel)};
    ref_tensor *dgamma = call->out + (data ? 1 : 0), *dbeta = dgamma + 1;
    if (data)
        norm_bw_data(&n, &call->out[0]);
    for (int64_t i = 0; i < n.dy->n; i++) {
        dgamma->at[channel_of(&n.g, i)] += n.dy->at[i] * normalised(&n, i);
        dbeta->at[channel_of(&n.g, i)] += n.dy->at[i];
    }
}

void ref_batch_norm(const ref_call *call)
{
    normalise(call, true);
}

void ref_batch_norm_bw(const ref_call *call)
{
    norm_backward(call, true);
}

void ref_layer_norm(const ref_call *call)
{
    normalise(call, false);
}

void ref_layer_norm_bw(const ref_call *call)
{
    norm_backward(call, false);
}
