/*
 * Attention: o = softmax(q k^T / sqrt(D)) v for each head, and the log-sum-exps of the scores.
 *
 * A block of queries at a time, with all keys they see: their scores are in scratch memory only
 * (Dao et al., FlashAttention; rows of scores are short enough here to be whole, so nothing has to
 * be rescaled). Parts share the blocks of all heads.
 */
#include "run/backends/onednn/omp_attention.h"
#include "run/backends/onednn/omp_math.h"

typedef struct attention {
    attention_shape shape;
    attention_operand q, k, v, o;
    int64_t lse[3]; /* strides: N x heads x T */
} attention;

/* A part's scratch, in the order it lies in its workspace. */
typedef struct scratch {
    float *keys;    /* strips x D: k^T in strips */
    float *values;  /* strips x padded */
    float *queries; /* block x padded, scaled */
    float *scores;  /* block x strips */
    float *results; /* block x padded */
    float *shares;  /* block: what a row of results is to be multiplied with */
    int64_t floats; /* of all */
} scratch;

static scratch layout(const attention_shape *s, float *base)
{
    scratch l = {0};
    int64_t sizes[6] = {s->strips * s->width, s->strips * s->padded, s->block * s->padded,
                        s->block * s->strips, s->block * s->padded,  s->block};
    float **places[6] = {&l.keys, &l.values, &l.queries, &l.scores, &l.results, &l.shares};
    for (int i = 0; i < 6; i++) {
        *places[i] = base ? base + l.floats : NULL;
        l.floats += attention_round_up(sizes[i], 16);
    }
    return l;
}

/* ---- Rows of scores ---- */

#define LANES 16

OMP_CLONES static float row_max(const float *x, int64_t n)
{
    float max = x[0], lane[LANES];
    int64_t i = 0;
    for (int k = 0; k < LANES; k++)
        lane[k] = max;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
    for (int k = 0; k < LANES; k++)
        max = lane[k] > max ? lane[k] : max;
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

/* Exponentials in place; returns their sum. */
OMP_CLONES static double exp_row(float *x, int64_t n, float max)
{
    double sum = 0;
    for (int64_t first = 0; first < n; first += 512) {
        int64_t end = first + 512 < n ? first + 512 : n;
        float part = 0;
#pragma omp simd reduction(+ : part)
        for (int64_t i = first; i < end; i++) {
            x[i] = omp_exp(x[i] - max);
            part += x[i];
        }
        sum += (double)part;
    }
    return sum;
}

OMP_CLONES static void drop_row(float *x, int64_t n, uint64_t seed, uint64_t first, uint32_t least)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] = run_random(seed, first + (uint64_t)i) >> 40 >= least ? x[i] : 0;
}

/* A query's scores become probabilities times their sum, which goes into its share and lse. */
static void softmax_row(const attention *p, const omp_task *task, const scratch *l, int64_t n,
                        int64_t head, int64_t query, int64_t row, int64_t limit)
{
    const attention_shape *s = &p->shape;
    float *x = l->scores + row * s->strips;
    int64_t seen = attention_keys(s, query + 1);
    float max = row_max(x, seen);
    double sum = exp_row(x, seen, max);
    if (s->least)
        drop_row(x, seen, task->args->seed,
                 (uint64_t)(((n * s->heads + head) * s->queries + query) * s->keys), s->least);
    for (int64_t i = seen; i < limit; i++)
        x[i] = 0;
    l->shares[row] = (float)((s->least ? (double)s->keep : 1) / sum);
    omp_out(task, 1)[n * p->lse[0] + head * p->lse[1] + query * p->lse[2]] =
        (float)((double)max + log(sum));
}

/* ---- Blocks ---- */

static void attend_block(const attention *p, const omp_task *task, const scratch *l, omp_gemm_b v,
                         int64_t n, int64_t head, int64_t first)
{
    const attention_shape *s = &p->shape;
    int64_t left = s->queries - first, count = left < s->block ? left : s->block;
    int64_t rows = attention_round_up(count, OMP_GEMM_ROWS);
    int64_t limit = attention_keys(s, first + count);
    neap_attention_copy_rows(s, l->queries, attention_in(task, s, &p->q, n, head), first, count,
                             rows, s->scale);
    s->gemm((omp_gemm_a){l->queries, s->padded, 1},
            (omp_gemm_b){l->keys, OMP_GEMM_STRIP, OMP_GEMM_STRIP * s->width},
            (omp_gemm_c){l->scores, s->strips, false}, rows,
            attention_round_up(limit, OMP_GEMM_COLUMNS), s->width);
    for (int64_t i = 0; i < count; i++)
        softmax_row(p, task, l, n, head, first + i, i, limit);
    s->gemm((omp_gemm_a){l->scores, s->strips, 1}, v, (omp_gemm_c){l->results, s->padded, false},
            rows, s->padded, limit);
    float *o = omp_out(task, 0) + attention_begin(s, &p->o, n, head) + first * p->o.row;
    for (int64_t i = 0; i < count; i++)
        neap_attention_write_rows(s, o + i * p->o.row, p->o.row, p->o.step,
                                  l->results + i * s->padded, 1, l->shares[i]);
}

static void attention_work(const omp_task *task)
{
    const attention *p = task->plan;
    const attention_shape *s = &p->shape;
    int64_t blocks = (s->queries + s->block - 1) / s->block, packed = -1;
    scratch l = layout(s, NULL);
    l = layout(s, (float *)task->args->workspace + task->part * l.floats);
    omp_gemm_b v = {l.values, s->padded, OMP_GEMM_STRIP};
    omp_range share = omp_share(task, s->batch * s->heads * blocks, 1);
    for (int64_t i = share.begin; i < share.end; i++) {
        int64_t n = i / blocks / s->heads, head = i / blocks % s->heads;
        if (i / blocks != packed) { /* a new head */
            packed = i / blocks;
            neap_attention_copy_rows(s, l.values, attention_in(task, s, &p->k, n, head), 0, s->keys,
                                     s->keys, 1);
            neap_attention_pack(s, l.keys, l.values);
            neap_attention_copy_rows(s, l.values, attention_in(task, s, &p->v, n, head), 0, s->keys,
                                     s->keys, 1);
        }
        attend_block(p, task, &l, v, n, head, i % blocks * s->block);
    }
}

/* ---- Plan ---- */

static void plan_attention(const run_spec *spec, int parts, void *plan)
{
    attention *p = plan;
    bool packed = spec->op->n_inputs == 1;
    const run_array *q = &spec->in[0];
    (void)parts;
    neap_attention_plan_shape(spec, q, packed ? q : &spec->in[1], packed, &p->shape);
    for (uint32_t i = 0; i < 3; i++) {
        attention_operand *operands[3] = {&p->q, &p->k, &p->v};
        *operands[i] =
            packed ? neap_attention_part(q, 0, i, 3) : neap_attention_part(&spec->in[i], i, 0, 1);
    }
    p->o = neap_attention_part(&spec->out[0], 0, 0, 1);
    for (int d = 0; d < 3; d++)
        p->lse[d] = spec->out[1].strides[d];
}

static int64_t attention_workspace(const run_spec *spec, int parts)
{
    attention p = {0};
    plan_attention(spec, parts, &p);
    return parts * layout(&p.shape, NULL).floats * (int64_t)sizeof(float);
}

OMP_OP(attention, {.plan_bytes = sizeof(attention),
                   .plan = plan_attention,
                   .workspace = attention_workspace,
                   .work = attention_work})
