/* Reference kernels of elementwise ops, linear layers and normalisation. */
#include "run/backends/ref/ref.h"

#include <math.h>

#define PI 3.14159265358979323846

/* ---- Elementwise ---- */

/* A kernel: UNARY(type, what x becomes), BINARY(type, its two operands, what they become). */
#define UNARY(type, expression)                                                                    \
    void neap_ref_##type(const ref_call *call)                                                     \
    {                                                                                              \
        for (int64_t i = 0; i < call->out[0].n; i++) {                                             \
            double x = call->in[0].at[i];                                                          \
            call->out[0].at[i] = expression;                                                       \
        }                                                                                          \
    }

#define BINARY(type, a, b, expression)                                                             \
    void neap_ref_##type(const ref_call *call)                                                     \
    {                                                                                              \
        for (int64_t i = 0; i < call->out[0].n; i++) {                                             \
            double a = call->in[0].at[i], b = call->in[1].at[i];                                   \
            call->out[0].at[i] = expression;                                                       \
        }                                                                                          \
    }

UNARY(relu, x < 0 ? 0 : x) /* not a number stays so */
BINARY(relu_bw, dy, y, y > 0 ? dy : 0)
UNARY(relu6, x<0 ? 0 : x> 6 ? 6 : x)
BINARY(relu6_bw, dy, y, y > 0 && y < 6 ? dy : 0)
UNARY(sigmoid, 1 / (1 + exp(-x)))
BINARY(sigmoid_bw, dy, y, (dy * y * (1 - y)))
UNARY(tanh, tanh(x))
BINARY(tanh_bw, dy, y, (dy * (1 - y * y)))

/* A last operand that repeats: REPEATED(type, its two operands, ...), REPEATED_3 of three. */
#define REPEATED(type, a, b, expression)                                                           \
    void neap_ref_##type(const ref_call *call)                                                     \
    {                                                                                              \
        for (int64_t i = 0; i < call->out[0].n; i++) {                                             \
            double a = call->in[0].at[i], b = call->in[1].at[i % call->in[1].n];                   \
            call->out[0].at[i] = expression;                                                       \
        }                                                                                          \
    }

#define REPEATED_3(type, a, b, c, expression)                                                      \
    void neap_ref_##type(const ref_call *call)                                                     \
    {                                                                                              \
        for (int64_t i = 0; i < call->out[0].n; i++) {                                             \
            double a = call->in[0].at[i], b = call->in[1].at[i];                                   \
            double c = call->in[2].at[i % call->in[2].n];                                          \
            call->out[0].at[i] = expression;                                                       \
        }                                                                                          \
    }

REPEATED(add, a, b, a + b)
REPEATED(sub, a, b, a - b)
REPEATED(mul, a, b, (a * b))
REPEATED(div, a, b, a / b)
REPEATED_3(div_bw, dy, y, b, (-dy * y / b))
REPEATED(max, a, b, (a < b ? b : a))
REPEATED(min, a, b, (a > b ? b : a))
REPEATED(prelu, x, w, (x < 0 ? w * x : x))
REPEATED_3(prelu_bw_data, dy, x, w, (x < 0 ? w * dy : dy))
UNARY(cast, x)
BINARY(prelu_bw_weight, dy, x, (x < 0 ? dy * x : 0))

/* The share of dy that goes to a where `sign` times a is larger than `sign` times b. */
static void larger_bw(const ref_call *call, double sign)
{
    const ref_tensor *a = &call->in[1], *b = &call->in[2];
    if (neap_ref_int(call, "of_b"))
        sign = -sign;
    for (int64_t i = 0; i < call->out[0].n; i++) {
        double difference = sign * (a->at[i] - b->at[i % b->n]);
        double share = difference > 0 ? 1 : difference == 0 ? 0.5 : 0;
        call->out[0].at[i] = share * call->in[0].at[i];
    }
}

void neap_ref_max_bw(const ref_call *call)
{
    larger_bw(call, 1);
}

void neap_ref_min_bw(const ref_call *call)
{
    larger_bw(call, -1);
}

void neap_ref_scale(const ref_call *call)
{
    double factor = neap_ref_real(call, "factor"), offset = neap_ref_real(call, "offset");
    for (int64_t i = 0; i < call->out[0].n; i++)
        call->out[0].at[i] = factor * call->in[0].at[i] + offset;
}

void neap_ref_pow(const ref_call *call)
{
    double power = neap_ref_real(call, "power");
    for (int64_t i = 0; i < call->out[0].n; i++)
        call->out[0].at[i] = pow(call->in[0].at[i], power);
}

void neap_ref_pow_bw(const ref_call *call)
{
    double power = neap_ref_real(call, "power");
    for (int64_t i = 0; i < call->out[0].n; i++)
        call->out[0].at[i] = call->in[0].at[i] * power * pow(call->in[1].at[i], power - 1);
}

/* x Phi(x), or Hendrycks and Gimpel's 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
void neap_ref_gelu(const ref_call *call)
{
    bool tanh_form = neap_ref_int(call, "tanh");
    for (int64_t i = 0; i < call->out[0].n; i++) {
        double x = call->in[0].at[i];
        double share =
            tanh_form ? tanh(sqrt(2 / PI) * (x + 0.044715 * x * x * x)) : erf(x / sqrt(2));
        call->out[0].at[i] = 0.5 * x * (1 + share);
    }
}

static double gelu_slope(double x)
{
    return 0.5 * (1 + erf(x / sqrt(2))) + x * exp(-x * x / 2) / sqrt(2 * PI);
}

static double gelu_tanh_slope(double x)
{
    double t = tanh(sqrt(2 / PI) * (x + 0.044715 * x * x * x));
    double inner = sqrt(2 / PI) * (1 + 3 * 0.044715 * x * x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
}

void neap_ref_gelu_bw(const ref_call *call)
{
    bool tanh_form = neap_ref_int(call, "tanh");
    for (int64_t i = 0; i < call->out[0].n; i++) {
        double x = call->in[1].at[i];
        call->out[0].at[i] = call->in[0].at[i] * (tanh_form ? gelu_tanh_slope(x) : gelu_slope(x));
    }
}

void neap_ref_dropout(const ref_call *call)
{
    double p = neap_ref_real(call, "p");
    for (int64_t i = 0; i < call->in[0].n; i++) {
        bool kept = !((double)run_random_real(call->seed, (uint64_t)i) < p);
        call->out[0].at[i] = kept ? call->in[0].at[i] / (1 - p) : 0;
        call->out[1].at[i] = kept;
    }
}

void neap_ref_dropout_bw(const ref_call *call)
{
    double p = neap_ref_real(call, "p");
    for (int64_t i = 0; i < call->out[0].n; i++)
        call->out[0].at[i] = call->in[1].at[i] != 0 ? call->in[0].at[i] / (1 - p) : 0;
}

/* ---- Linear: y = x w^T + b over the last dimension ---- */

static int64_t last(const ref_tensor *x)
{
    return x->shape[x->rank - 1];
}

void neap_ref_linear(const ref_call *call)
{
    const ref_tensor *w = &call->in[1];
    int64_t inputs = w->shape[1], features = w->shape[0];
    for (int64_t r = 0; r < call->in[0].n / inputs; r++)
        for (int64_t k = 0; k < features; k++) {
            const double *x = call->in[0].at + r * inputs, *row = w->at + k * inputs;
            double sum = call->op->n_inputs > 2 ? call->in[2].at[k] : 0;
            for (int64_t c = 0; c < inputs; c++)
                sum += x[c] * row[c];
            call->out[0].at[r * features + k] = sum;
        }
}

void neap_ref_linear_bw_data(const ref_call *call)
{
    const ref_tensor *dy = &call->in[0], *w = &call->in[1];
    int64_t inputs = w->shape[1], features = w->shape[0];
    for (int64_t r = 0; r < dy->n / features; r++)
        for (int64_t k = 0; k < features; k++) {
            double *dx = call->out[0].at + r * inputs, d = dy->at[r * features + k];
            for (int64_t c = 0; c < inputs; c++)
                dx[c] += d * w->at[k * inputs + c];
        }
}

void neap_ref_linear_bw_weight(const ref_call *call)
{
    const ref_tensor *dy = &call->in[0];
    int64_t inputs = last(&call->in[1]), features = last(dy);
    for (int64_t r = 0; r < dy->n / features; r++)
        for (int64_t k = 0; k < features; k++) {
            const double *x = call->in[1].at + r * inputs;
            double *dw = call->out[0].at + k * inputs, d = dy->at[r * features + k];
            for (int64_t c = 0; c < inputs; c++)
                dw[c] += d * x[c];
            if (call->op->n_outputs > 1)
                call->out[1].at[k] += d;
        }
}

/* ---- Normalisation ---- */

/* An element belongs to a group, which has statistics, and a channel, which has gamma and beta. */
typedef struct groups {
    int64_t inner, channels;
    int64_t count; /* of an image or a row; 0: the group is the channel */
} groups;

static groups groups_of_channels(const ref_tensor *x, int64_t count)
{
    return (groups){neap_ref_extent(x, 2, x->rank), x->shape[1], count};
}

static groups groups_of_rows(const ref_tensor *x)
{
    return (groups){1, last(x), 1};
}

static int64_t channel_of(const groups *g, int64_t i)
{
    return i / g->inner % g->channels;
}

static int64_t group_of(const groups *g, int64_t i)
{
    return g->count ? i / (g->inner * g->channels / g->count) : channel_of(g, i);
}

static void normalise(const ref_call *call, groups g)
{
    const ref_tensor *x = &call->in[0], *gamma = &call->in[1], *beta = &call->in[2];
    ref_tensor *y = &call->out[0], *mean = &call->out[1], *invstd = &call->out[2];
    double share = (double)mean->n / (double)x->n, epsilon = neap_ref_real(call, "epsilon");
    for (int64_t i = 0; i < x->n; i++)
        mean->at[group_of(&g, i)] += share * x->at[i];
    for (int64_t i = 0; i < x->n; i++) {
        double away = x->at[i] - mean->at[group_of(&g, i)];
        invstd->at[group_of(&g, i)] += share * away * away;
    }
    for (int64_t i = 0; i < invstd->n; i++)
        invstd->at[i] = 1 / sqrt(invstd->at[i] + epsilon);
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
    int64_t members; /* of a group */
} norm_bw;

static double normalised(const norm_bw *n, int64_t i)
{
    int64_t group = group_of(&n->g, i);
    return (n->x->at[i] - n->mean->at[group]) * n->invstd->at[group];
}

/* Element k of a group. */
static int64_t member(const norm_bw *n, int64_t group, int64_t k)
{
    if (n->g.count)
        return group * n->members + k;
    return (k / n->g.inner * n->g.channels + group) * n->g.inner + k % n->g.inner;
}

/* With d = dy * gamma and z = x normalised: dx = invstd * (d - mean(d) - z * mean(d z)). */
static void norm_bw_data(const norm_bw *n, ref_tensor *dx)
{
    for (int64_t group = 0; group < n->mean->n; group++) {
        double sum = 0, sum_z = 0, members = (double)n->members;
        for (int64_t k = 0; k < n->members; k++) {
            int64_t i = member(n, group, k);
            double d = n->dy->at[i] * n->gamma->at[channel_of(&n->g, i)];
            sum += d;
            sum_z += d * normalised(n, i);
        }
        for (int64_t k = 0; k < n->members; k++) {
            int64_t i = member(n, group, k);
            double d = n->dy->at[i] * n->gamma->at[channel_of(&n->g, i)];
            dx->at[i] =
                n->invstd->at[group] * (d - sum / members - normalised(n, i) * sum_z / members);
        }
    }
}

static void norm_backward(const ref_call *call, groups g)
{
    bool data = call->op->n_outputs == 3;
    const ref_tensor *rest = call->in + (data ? 3 : 2);
    norm_bw n = {.dy = &call->in[0],
                 .x = &call->in[1],
                 .gamma = data ? &call->in[2] : NULL,
                 .mean = rest,
                 .invstd = rest + 1,
                 .g = g,
                 .members = call->in[1].n / rest->n};
    ref_tensor *dgamma = call->out + (data ? 1 : 0), *dbeta = dgamma + 1;
    if (data)
        norm_bw_data(&n, &call->out[0]);
    for (int64_t i = 0; i < n.dy->n; i++) {
        dgamma->at[channel_of(&n.g, i)] += n.dy->at[i] * normalised(&n, i);
        dbeta->at[channel_of(&n.g, i)] += n.dy->at[i];
    }
}

void neap_ref_batch_norm(const ref_call *call)
{
    normalise(call, groups_of_channels(&call->in[0], 0));
}

void neap_ref_batch_norm_bw(const ref_call *call)
{
    norm_backward(call, groups_of_channels(&call->in[1], 0));
}

void neap_ref_layer_norm(const ref_call *call)
{
    normalise(call, groups_of_rows(&call->in[0]));
}

void neap_ref_layer_norm_bw(const ref_call *call)
{
    norm_backward(call, groups_of_rows(&call->in[1]));
}

void neap_ref_group_norm(const ref_call *call)
{
    normalise(call, groups_of_channels(&call->in[0], neap_ref_int(call, "groups")));
}

void neap_ref_group_norm_bw(const ref_call *call)
{
    norm_backward(call, groups_of_channels(&call->in[1], neap_ref_int(call, "groups")));
}
