/*
 * The gradient of attention. The probabilities are computed again from q, k and the saved
 * log-sum-exps: P = exp(S - lse), and with dP = do v^T and D = do . o
 *
 *     dS = P (kept dP - D)     dq = dS k / sqrt(D)     dk = dS^T q / sqrt(D)     dv = (kept P)^T do
 *
 * Parts share the heads. Within one, blocks of queries come one after the other, each with all keys
 * that it sees, and add to dk and dv in scratch memory: the order of sums is always the same.
 */
#include "run/backends/onednn/omp_attention.h"
#include "run/backends/onednn/omp_math.h"

typedef struct attention_bw {
    attention_shape shape;
    attention_operand d_o, q, k, v, o; /* v and o are not there where only dv is wanted */
    attention_operand dq, dk, dv;      /* those that are wanted */
    bool scores;                       /* dq or dk */
    uint32_t lse_input;
    int64_t lse[3]; /* strides: N x heads x T */
} attention_bw;

/* A part's scratch, in the order it lies in its workspace. */
typedef struct scratch {
    float *keys, *values;     /* strips x D: k^T and v^T in strips */
    float *key_rows;          /* strips x padded: k; v before, on its way */
    float *d_keys, *d_values; /* strips x padded */
    float *queries, *d_o;     /* block x padded; queries are scaled */
    float *scores, *d_scores; /* block x strips */
    float *d_queries;         /* block x padded */
    int64_t floats;           /* of all */
} scratch;

static scratch layout(const attention_shape *s, float *base)
{
    scratch l = {0};
    int64_t panel = s->strips * s->width, all = s->strips * s->padded, some = s->block * s->padded,
            square = s->block * s->strips;
    int64_t sizes[10] = {panel, panel, all, all, all, some, some, square, square, some};
    float **places[10] = {&l.keys,    &l.values, &l.key_rows, &l.d_keys,   &l.d_values,
                          &l.queries, &l.d_o,    &l.scores,   &l.d_scores, &l.d_queries};
    for (int i = 0; i < 10; i++) {
        *places[i] = base ? base + l.floats : NULL;
        l.floats += attention_round_up(sizes[i], 16);
    }
    return l;
}

/* ---- Rows ---- */

OMP_CLONES static void probability_row(float *x, int64_t n, float lse)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] = omp_exp(x[i] - lse);
}

/* dp becomes dS. */
OMP_CLONES static void score_row(float *restrict dp, const float *restrict p, int64_t n,
                                 float inner)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dp[i] = p[i] * (dp[i] - inner);
}

/* The same with dropout: dp becomes dS, p what v was multiplied with. */
OMP_CLONES static void dropped_row(float *restrict dp, float *restrict p, int64_t n, float inner,
                                   uint64_t seed, uint64_t first, uint32_t least, float keep)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float kept = run_random(seed, first + (uint64_t)i) >> 40 >= least ? keep : 0;
        dp[i] = p[i] * (kept * dp[i] - inner);
        p[i] *= kept;
    }
}

static float inner_product(const float *a, int64_t a_step, const float *b, int64_t b_step,
                           int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i * a_step] * (double)b[i * b_step];
    return (float)sum;
}

/* One query's scores become probabilities, and dP becomes dS. */
static void query_row(const attention_bw *p, const omp_task *task, const scratch *l, int64_t n,
                      int64_t head, int64_t query, int64_t row, int64_t limit)
{
    const attention_shape *s = &p->shape;
    float *x = l->scores + row * s->strips, *dx = l->d_scores + row * s->strips, inner = 0;
    int64_t seen = attention_keys(s, query + 1);
    uint64_t draw = (uint64_t)(((n * s->heads + head) * s->queries + query) * s->keys);
    probability_row(
        x, seen, omp_in(task, p->lse_input)[n * p->lse[0] + head * p->lse[1] + query * p->lse[2]]);
    if (p->scores) {
        attention_rows o = attention_in(task, s, &p->o, n, head);
        inner = inner_product(l->d_o + row * s->padded, 1, o.at + query * o.row, o.step, s->width);
    }
    if (s->least)
        dropped_row(dx, x, seen, inner, task->args->seed, draw, s->least, s->keep);
    else if (p->scores)
        score_row(dx, x, seen, inner);
    for (int64_t i = seen; i < limit; i++)
        x[i] = dx[i] = 0;
}

/* ---- Blocks ---- */

/* One head of one of the batch, and the queries at hand. */
typedef struct place {
    int64_t n, head;
    int64_t first, count, rows; /* queries; their number rounded up */
    int64_t keys;               /* that they see, rounded up */
} place;

/* Probabilities and dS of a block. Padding holds zeros. */
static void block_scores(const attention_bw *p, const omp_task *task, const scratch *l,
                         const place *at)
{
    const attention_shape *s = &p->shape;
    int64_t strip = OMP_GEMM_STRIP * s->width;
    neap_attention_copy_rows(s, l->queries, attention_in(task, s, &p->q, at->n, at->head),
                             at->first, at->count, at->rows, s->scale);
    neap_attention_copy_rows(s, l->d_o, attention_in(task, s, &p->d_o, at->n, at->head), at->first,
                             at->count, at->rows, 1);
    s->gemm((omp_gemm_a){l->queries, s->padded, 1}, (omp_gemm_b){l->keys, OMP_GEMM_STRIP, strip},
            (omp_gemm_c){l->scores, s->strips, false}, at->rows, at->keys, s->width);
    if (p->scores)
        s->gemm((omp_gemm_a){l->d_o, s->padded, 1}, (omp_gemm_b){l->values, OMP_GEMM_STRIP, strip},
                (omp_gemm_c){l->d_scores, s->strips, false}, at->rows, at->keys, s->width);
    for (int64_t i = 0; i < at->rows; i++)
        if (i < at->count)
            query_row(p, task, l, at->n, at->head, at->first + i, i, at->keys);
        else
            for (int64_t k = 0; k < at->keys; k++)
                l->scores[i * s->strips + k] = l->d_scores[i * s->strips + k] = 0;
}

static void block_gradients(const attention_bw *p, const omp_task *task, const scratch *l,
                            const place *at)
{
    const attention_shape *s = &p->shape;
    if (p->dv.there)
        s->gemm((omp_gemm_a){l->scores, 1, s->strips},
                (omp_gemm_b){l->d_o, s->padded, OMP_GEMM_STRIP},
                (omp_gemm_c){l->d_values, s->padded, true}, at->keys, s->padded, at->rows);
    if (p->dk.there)
        s->gemm((omp_gemm_a){l->d_scores, 1, s->strips},
                (omp_gemm_b){l->queries, s->padded, OMP_GEMM_STRIP},
                (omp_gemm_c){l->d_keys, s->padded, true}, at->keys, s->padded, at->rows);
    if (!p->dq.there)
        return;
    s->gemm((omp_gemm_a){l->d_scores, s->strips, 1},
            (omp_gemm_b){l->key_rows, s->padded, OMP_GEMM_STRIP},
            (omp_gemm_c){l->d_queries, s->padded, false}, at->rows, s->padded,
            at->keys < s->keys ? at->keys : s->keys);
    float *dq = omp_out(task, p->dq.index) + attention_begin(s, &p->dq, at->n, at->head);
    neap_attention_write_rows(s, dq + at->first * p->dq.row, p->dq.row, p->dq.step, l->d_queries,
                              at->count, s->scale);
}

static void write_gradient(const attention_bw *p, const omp_task *task, const attention_operand *o,
                           const float *from, int64_t n, int64_t head)
{
    const attention_shape *s = &p->shape;
    if (o->there)
        neap_attention_write_rows(s, omp_out(task, o->index) + attention_begin(s, o, n, head),
                                  o->row, o->step, from, s->keys, 1);
}

static void one_head(const attention_bw *p, const omp_task *task, const scratch *l, int64_t n,
                     int64_t head)
{
    const attention_shape *s = &p->shape;
    if (p->scores) {
        neap_attention_copy_rows(s, l->key_rows, attention_in(task, s, &p->v, n, head), 0, s->keys,
                                 s->keys, 1);
        neap_attention_pack(s, l->values, l->key_rows);
    }
    neap_attention_copy_rows(s, l->key_rows, attention_in(task, s, &p->k, n, head), 0, s->keys,
                             s->keys, 1);
    neap_attention_pack(s, l->keys, l->key_rows);
    for (int64_t i = 0; i < s->strips * s->padded; i++)
        l->d_keys[i] = l->d_values[i] = 0;
    for (int64_t first = 0; first < s->queries; first += s->block) {
        int64_t left = s->queries - first, count = left < s->block ? left : s->block;
        place at = {.n = n,
                    .head = head,
                    .first = first,
                    .count = count,
                    .rows = attention_round_up(count, OMP_GEMM_ROWS),
                    .keys = attention_round_up(attention_keys(s, first + count), OMP_GEMM_COLUMNS)};
        block_scores(p, task, l, &at);
        block_gradients(p, task, l, &at);
    }
    write_gradient(p, task, &p->dk, l->d_keys, n, head);
    write_gradient(p, task, &p->dv, l->d_values, n, head);
}

static void attention_bw_work(const omp_task *task)
{
    const attention_bw *p = task->plan;
    const attention_shape *s = &p->shape;
    scratch l = layout(s, NULL);
    l = layout(s, (float *)task->args->workspace + task->part * l.floats);
    omp_range share = omp_share(task, s->batch * s->heads, 1);
    for (int64_t i = share.begin; i < share.end; i++)
        one_head(p, task, &l, i / s->heads, i % s->heads);
}

/* ---- Plan ---- */

static void plan_packed(const run_spec *spec, attention_bw *p)
{
    attention_operand *in[3] = {&p->q, &p->k, &p->v}, *out[3] = {&p->dq, &p->dk, &p->dv};
    for (int64_t i = 0; i < 3; i++) {
        *in[i] = neap_attention_part(&spec->in[1], 1, i, 3);
        *out[i] = neap_attention_part(&spec->out[0], 0, i, 3);
    }
}

/* Fewer than three results: attributes say which. */
static void plan_apart(const run_spec *spec, attention_bw *p)
{
    static const char *const names[3] = {"wants_dq", "wants_dk", "wants_dv"};
    attention_operand *out[3] = {&p->dq, &p->dk, &p->dv};
    uint32_t count = 0;
    for (int i = 0; i < 3; i++)
        if (spec->op->n_outputs == 3 || neap_run_spec_int(spec, names[i], 0)) {
            *out[i] = neap_attention_part(&spec->out[count], count, 0, 1);
            count++;
        }
    p->q = neap_attention_part(&spec->in[1], 1, 0, 1);
    p->k = neap_attention_part(&spec->in[2], 2, 0, 1);
    if (p->dq.there || p->dk.there)
        p->v = neap_attention_part(&spec->in[3], 3, 0, 1);
}

static void plan_attention_bw(const run_spec *spec, int parts, void *plan)
{
    attention_bw *p = plan;
    uint32_t count = spec->op->n_inputs;
    bool packed = spec->in[1].shape[2] == 3 * spec->in[0].shape[2];
    (void)parts;
    neap_attention_plan_shape(spec, &spec->in[1], packed ? &spec->in[1] : &spec->in[2], packed,
                              &p->shape);
    if (packed)
        plan_packed(spec, p);
    else
        plan_apart(spec, p);
    p->scores = p->dq.there || p->dk.there;
    p->d_o = neap_attention_part(&spec->in[0], 0, 0, 1);
    if (p->scores)
        p->o = neap_attention_part(&spec->in[count - 2], count - 2, 0, 1);
    p->lse_input = count - 1;
    for (int d = 0; d < 3; d++)
        p->lse[d] = spec->in[count - 1].strides[d];
}

static int64_t attention_bw_workspace(const run_spec *spec, int parts)
{
    attention_bw p = {0};
    plan_attention_bw(spec, parts, &p);
    return parts * layout(&p.shape, NULL).floats * (int64_t)sizeof(float);
}

OMP_OP(attention_bw, {.plan_bytes = sizeof(attention_bw),
                      .plan = plan_attention_bw,
                      .workspace = attention_bw_workspace,
                      .work = attention_bw_work})
