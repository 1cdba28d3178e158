/* Reference kernels of shape ops, embeddings, attention, LSTM cells and losses. */
#include "run/backends/ref/ref.h"

#include <math.h>
#include <string.h>

/* ---- Shape ---- */

/*
 * Copies `length` slices along an axis between a part and the whole that holds it from `begin` on.
 * Seen from the axis a tensor is outer x extent x inner.
 */
static void copy_part(const ref_tensor *part, const ref_tensor *whole, int64_t axis, int64_t begin,
                      bool into_whole)
{
    int64_t outer = neap_ref_extent(part, 0, (uint32_t)axis), extent = part->shape[axis];
    int64_t inner = neap_ref_extent(part, (uint32_t)axis + 1, part->rank),
            total = whole->shape[axis];
    for (int64_t o = 0; o < outer; o++) {
        double *small = part->at + o * extent * inner;
        double *big = whole->at + (o * total + begin) * inner;
        memcpy(into_whole ? big : small, into_whole ? small : big,
               (size_t)(extent * inner) * sizeof *big);
    }
}

void neap_ref_concat(const ref_call *call)
{
    int64_t axis = neap_ref_int(call, "axis"), begin = 0;
    for (uint32_t i = 0; i < call->op->n_inputs; i++) {
        copy_part(&call->in[i], &call->out[0], axis, begin, true);
        begin += call->in[i].shape[axis];
    }
}

void neap_ref_split(const ref_call *call)
{
    int64_t axis = neap_ref_int(call, "axis"), begin = 0;
    for (uint32_t i = 0; i < call->op->n_outputs; i++) {
        copy_part(&call->out[i], &call->in[0], axis, begin, false);
        begin += call->out[i].shape[axis];
    }
}

void neap_ref_slice(const ref_call *call)
{
    copy_part(&call->out[0], &call->in[0], neap_ref_int(call, "axis"), neap_ref_int(call, "begin"),
              false);
}

void neap_ref_slice_bw(const ref_call *call)
{
    copy_part(&call->in[0], &call->out[0], neap_ref_int(call, "axis"), neap_ref_int(call, "begin"),
              true);
}

void neap_ref_reshape(const ref_call *call)
{
    memcpy(call->out[0].at, call->in[0].at, (size_t)call->in[0].n * sizeof(double));
}

void neap_ref_transpose(const ref_call *call)
{
    const ref_tensor *x = &call->in[0], *y = &call->out[0];
    int64_t a = neap_ref_int(call, "axis_a"), b = neap_ref_int(call, "axis_b"), at[NEAP_MAX_RANK];
    for (int64_t i = 0; i < x->n; i++) {
        int64_t rest = i, target = 0;
        for (uint32_t d = x->rank; d-- > 0; rest /= x->shape[d])
            at[d] = rest % x->shape[d];
        int64_t moved = at[a];
        at[a] = at[b];
        at[b] = moved;
        for (uint32_t d = 0; d < y->rank; d++)
            target = target * y->shape[d] + at[d];
        y->at[target] = x->at[i];
    }
}

void neap_ref_expand(const ref_call *call)
{
    for (int64_t first = 0; first < call->out[0].n; first += call->in[0].n)
        memcpy(call->out[0].at + first, call->in[0].at, (size_t)call->in[0].n * sizeof(double));
}

void neap_ref_reduce(const ref_call *call)
{
    for (int64_t first = 0; first < call->in[0].n; first += call->out[0].n)
        for (int64_t i = 0; i < call->out[0].n; i++)
            call->out[0].at[i] += call->in[0].at[first + i];
}

/* ---- Embedding ---- */

void neap_ref_embedding(const ref_call *call)
{
    int64_t features = call->in[1].shape[1];
    for (int64_t i = 0; i < call->out[0].n; i++)
        call->out[0].at[i] =
            call->in[1].at[(int64_t)call->in[0].at[i / features] * features + i % features];
}

void neap_ref_embedding_bw(const ref_call *call)
{
    int64_t features = call->out[0].shape[1];
    for (int64_t i = 0; i < call->in[0].n; i++)
        call->out[0].at[(int64_t)call->in[1].at[i / features] * features + i % features] +=
            call->in[0].at[i];
}

/* ---- Attention (Dao et al., FlashAttention: P is computed again from the log-sum-exp) ---- */

/* Rows of one of q, k, v, o: element (n, t, h, d) is base[(n*T + t)*stride + h*D + d]. */
typedef struct rows {
    double *base;
    int64_t length, stride; /* T; elements from one row to the next */
} rows;

typedef struct attention {
    rows q, k, v;
    int64_t batch, heads, width; /* width: features of one head, D */
    bool causal;
    double dropout;
    const ref_call *call;
} attention;

static rows rows_of(const ref_tensor *x, int64_t part, int64_t parts)
{
    return (rows){x->at + part * x->shape[2] / parts, x->shape[1], x->shape[2]};
}

/* q, k and v are the tensors from `first` on: three, or one that packs them. */
static attention attention_of(const ref_call *call, const ref_tensor *first, bool packed)
{
    int64_t heads = neap_ref_int(call, "heads"), parts = packed ? 3 : 1;
    return (attention){.q = rows_of(first, 0, parts),
                       .k = rows_of(packed ? first : first + 1, packed ? 1 : 0, parts),
                       .v = rows_of(packed ? first : first + 2, packed ? 2 : 0, parts),
                       .batch = first->shape[0],
                       .heads = heads,
                       .width = first->shape[2] / parts / heads,
                       .causal = neap_ref_int(call, "causal"),
                       .dropout = neap_ref_real(call, "dropout"),
                       .call = call};
}

static double *row(const attention *a, const rows *x, int64_t n, int64_t h, int64_t t)
{
    return x->base + (n * x->length + t) * x->stride + h * a->width;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add_scaled(double *y, double factor, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

/* The score of query i and key j; minus infinity above the diagonal of a causal one. */
static double score(const attention *a, int64_t n, int64_t h, int64_t i, int64_t j)
{
    if (a->causal && j > i)
        return -HUGE_VAL;
    return dot(row(a, &a->q, n, h, i), row(a, &a->k, n, h, j), a->width) / sqrt((double)a->width);
}

/* What dropout multiplies a probability with. */
static double kept(const attention *a, int64_t n, int64_t h, int64_t i, int64_t j)
{
    if (a->dropout == 0)
        return 1;
    int64_t index = ((n * a->heads + h) * a->q.length + i) * a->k.length + j;
    double draw = (double)run_random_real(a->call->seed, (uint64_t)index);
    return draw < a->dropout ? 0 : 1 / (1 - a->dropout);
}

/* log sum exp of a query's scores. */
static double row_lse(const attention *a, int64_t n, int64_t h, int64_t i)
{
    double largest = -HUGE_VAL, sum = 0;
    for (int64_t j = 0; j < a->k.length; j++)
        largest = fmax(largest, score(a, n, h, i, j));
    for (int64_t j = 0; j < a->k.length; j++)
        sum += exp(score(a, n, h, i, j) - largest);
    return largest + log(sum);
}

void neap_ref_attention(const ref_call *call)
{
    attention a = attention_of(call, call->in, call->op->n_inputs == 1);
    rows o = rows_of(&call->out[0], 0, 1);
    for (int64_t n = 0; n < a.batch; n++)
        for (int64_t h = 0; h < a.heads; h++)
            for (int64_t i = 0; i < a.q.length; i++) {
                double lse = row_lse(&a, n, h, i);
                for (int64_t j = 0; j < a.k.length; j++)
                    add_scaled(row(&a, &o, n, h, i),
                               exp(score(&a, n, h, i, j) - lse) * kept(&a, n, h, i, j),
                               row(&a, &a.v, n, h, j), a.width);
                call->out[1].at[(n * a.heads + h) * a.q.length + i] = lse;
            }
}

/* The gradients; base is NULL for one that is not wanted. */
typedef struct attention_gradients {
    rows q, k, v;
} attention_gradients;

static attention_gradients gradients_of(const ref_call *call, bool packed)
{
    attention_gradients g = {0};
    if (packed) {
        g = (attention_gradients){rows_of(&call->out[0], 0, 3), rows_of(&call->out[0], 1, 3),
                                  rows_of(&call->out[0], 2, 3)};
        return g;
    }
    bool all = call->op->n_outputs == 3; /* fewer say which */
    uint32_t count = 0;
    if (all || neap_ref_int(call, "wants_dq"))
        g.q = rows_of(&call->out[count++], 0, 1);
    if (all || neap_ref_int(call, "wants_dk"))
        g.k = rows_of(&call->out[count++], 0, 1);
    if (all || neap_ref_int(call, "wants_dv"))
        g.v = rows_of(&call->out[count++], 0, 1);
    return g;
}

static void add_gradient(const attention *a, const rows *gradient, int64_t n, int64_t h, int64_t t,
                         double factor, const double *x)
{
    if (gradient->base)
        add_scaled(row(a, gradient, n, h, t), factor, x, a->width);
}

/* One query's share: P = exp(S - lse), dS = P (kept dP - D) with D = do . o. */
static void attention_bw_row(const attention *a, const attention_gradients *g, const rows *o,
                             const rows *d_o, const double *lse, const int64_t at[3])
{
    int64_t n = at[0], h = at[1], i = at[2];
    const double *gradient = row(a, d_o, n, h, i);
    bool scores = g->q.base || g->k.base;
    double inner = scores ? dot(gradient, row(a, o, n, h, i), a->width) : 0;
    for (int64_t j = 0; j < a->k.length; j++) {
        double p = exp(score(a, n, h, i, j) - lse[(n * a->heads + h) * a->q.length + i]);
        double mask = kept(a, n, h, i, j);
        add_gradient(a, &g->v, n, h, j, p * mask, gradient);
        if (!scores)
            continue;
        double dp = dot(gradient, row(a, &a->v, n, h, j), a->width);
        double ds = p * (mask * dp - inner) / sqrt((double)a->width);
        add_gradient(a, &g->q, n, h, i, ds, row(a, &a->k, n, h, j));
        add_gradient(a, &g->k, n, h, j, ds, row(a, &a->q, n, h, i));
    }
}

/* (do, qkv, o, lse), (do, q, k, v, o, lse), or (do, q, k, lse) where only dv is wanted. */
void neap_ref_attention_bw(const ref_call *call)
{
    uint32_t count = call->op->n_inputs;
    bool packed = call->in[1].shape[2] == 3 * call->in[0].shape[2];
    attention_gradients g = gradients_of(call, packed);
    attention a = attention_of(call, call->in + 1, packed);
    rows d_o = rows_of(&call->in[0], 0, 1), o = rows_of(&call->in[count - 2], 0, 1);
    for (int64_t n = 0; n < a.batch; n++)
        for (int64_t h = 0; h < a.heads; h++)
            for (int64_t i = 0; i < a.q.length; i++)
                attention_bw_row(&a, &g, &o, &d_o, call->in[count - 1].at, (int64_t[]){n, h, i});
}

/* ---- LSTM: gates i f g o; c' = f c + i g; h = o tanh(c') ---- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

void neap_ref_lstm_cell(const ref_call *call)
{
    int64_t width = call->in[1].shape[1];
    for (int64_t k = 0; k < call->in[1].n; k++) {
        const double *gates = call->in[0].at + k / width * 4 * width + k % width;
        double *act = call->out[2].at + (gates - call->in[0].at);
        for (int64_t gate = 0; gate < 4; gate++)
            act[gate * width] =
                gate == 2 ? tanh(gates[gate * width]) : sigmoid(gates[gate * width]);
        call->out[1].at[k] = act[width] * call->in[1].at[k] + act[0] * act[2 * width];
        call->out[0].at[k] = act[3 * width] * tanh(call->out[1].at[k]);
    }
}

/* What a step back reads; NULL for what it does not: c only for dgates, c' only with dh. */
typedef struct lstm_bw {
    const double *dh, *dc, *act, *c, *c_next;
    double *dgates, *dc_prev;
} lstm_bw;

static lstm_bw lstm_operands(const ref_call *call)
{
    const ref_tensor *in = call->in;
    lstm_bw l = {0};
    if (neap_ref_int(call, "has_dh"))
        l.dh = in++->at;
    if (neap_ref_int(call, "has_dc"))
        l.dc = in++->at;
    int64_t gates = in->shape[1];
    l.act = in++->at;
    ref_tensor *out = call->out;
    if (out->shape[1] == gates)
        l.dgates = out++->at;
    if (out < call->out + call->op->n_outputs)
        l.dc_prev = out++->at;
    if (l.dgates)
        l.c = in++->at;
    if (l.dh)
        l.c_next = in++->at;
    return l;
}

void neap_ref_lstm_cell_bw(const ref_call *call)
{
    lstm_bw l = lstm_operands(call);
    const ref_tensor *act = &call->in[(l.dh != NULL) + (l.dc != NULL)];
    int64_t width = act->shape[1] / 4;
    for (int64_t k = 0; k < act->n / 4; k++) {
        int64_t first = k / width * 4 * width + k % width;
        double i = l.act[first], f = l.act[first + width], g = l.act[first + 2 * width],
               o = l.act[first + 3 * width], squashed = l.dh ? tanh(l.c_next[k]) : 0;
        double d_out = l.dh ? l.dh[k] * squashed : 0;
        double dc = (l.dc ? l.dc[k] : 0) + (l.dh ? l.dh[k] * o * (1 - squashed * squashed) : 0);
        if (l.dc_prev)
            l.dc_prev[k] = dc * f;
        if (!l.dgates)
            continue;
        l.dgates[first] = dc * g * i * (1 - i);
        l.dgates[first + width] = dc * l.c[k] * f * (1 - f);
        l.dgates[first + 2 * width] = dc * i * (1 - g * g);
        l.dgates[first + 3 * width] = d_out * o * (1 - o);
    }
}

/* ---- Losses: logits are rows x K x inner, seen as N x K x (all the rest) ---- */

/* The first logit of a row and the distance to the next. Rows count as the labels do. */
static const double *logits_of(const ref_tensor *logits, int64_t r, int64_t *step)
{
    *step = neap_ref_extent(logits, 2, logits->rank);
    return logits->at + r / *step * logits->shape[1] * *step + r % *step;
}

static double log_sum_exp(const ref_tensor *logits, int64_t r)
{
    int64_t step;
    const double *first = logits_of(logits, r, &step);
    double largest = -HUGE_VAL, sum = 0;
    for (int64_t k = 0; k < logits->shape[1]; k++)
        largest = fmax(largest, first[k * step]);
    for (int64_t k = 0; k < logits->shape[1]; k++)
        sum += exp(first[k * step] - largest);
    return largest + log(sum);
}

void neap_ref_xent(const ref_call *call)
{
    const ref_tensor *labels = &call->in[1];
    for (int64_t r = 0; r < labels->n; r++) {
        int64_t step;
        const double *first = logits_of(&call->in[0], r, &step);
        double lse = call->out[1].at[r] = log_sum_exp(&call->in[0], r);
        call->out[0].at[0] += (lse - first[(int64_t)labels->at[r] * step]) / (double)labels->n;
    }
}

void neap_ref_xent_bw(const ref_call *call)
{
    const ref_tensor *logits = &call->in[1], *labels = &call->in[2], *lse = &call->in[3];
    for (int64_t r = 0; r < labels->n; r++) {
        int64_t step;
        const double *first = logits_of(logits, r, &step);
        for (int64_t k = 0; k < logits->shape[1]; k++) {
            double p = exp(first[k * step] - lse->at[r]);
            call->out[0].at[first - logits->at + k * step] =
                call->in[0].at[0] * (p - (k == (int64_t)labels->at[r])) / (double)labels->n;
        }
    }
}

void neap_ref_log_softmax(const ref_call *call)
{
    const ref_tensor *x = &call->in[0];
    for (int64_t r = 0; r < x->n / x->shape[1]; r++) {
        int64_t step;
        const double *first = logits_of(x, r, &step);
        double lse = log_sum_exp(x, r);
        for (int64_t k = 0; k < x->shape[1]; k++)
            call->out[0].at[first - x->at + k * step] = first[k * step] - lse;
    }
}

void neap_ref_log_softmax_bw(const ref_call *call)
{
    const ref_tensor *dy = &call->in[0], *y = &call->in[1];
    for (int64_t r = 0; r < y->n / y->shape[1]; r++) {
        int64_t step;
        double sum = 0;
        const double *first = logits_of(dy, r, &step);
        for (int64_t k = 0; k < y->shape[1]; k++)
            sum += first[k * step];
        for (int64_t k = 0; k < y->shape[1]; k++) {
            int64_t i = first - dy->at + k * step;
            call->out[0].at[i] = dy->at[i] - exp(y->at[i]) * sum;
        }
    }
}

void neap_ref_nll(const ref_call *call)
{
    const ref_tensor *labels = &call->in[1];
    for (int64_t r = 0; r < labels->n; r++) {
        int64_t step;
        const double *first = logits_of(&call->in[0], r, &step);
        call->out[0].at[0] -= first[(int64_t)labels->at[r] * step] / (double)labels->n;
    }
}

void neap_ref_nll_bw(const ref_call *call)
{
    const ref_tensor *labels = &call->in[1];
    for (int64_t r = 0; r < labels->n; r++) {
        int64_t step, offset = logits_of(&call->out[0], r, &step) - call->out[0].at;
        call->out[0].at[offset + (int64_t)labels->at[r] * step] =
            -call->in[0].at[0] / (double)labels->n;
    }
}
