/*
 * The elementwise part of an LSTM cell: gates i f g o; c' = f c + i g; h = o tanh(c').
 *
 * A gradient step reads what its attributes and results say: no dh or no dc' where the loss does
 * not depend on it, c for dgates only, c' with dh only.
 */
#include "run/backends/onednn/omp_kernel.h"
#include "run/backends/onednn/omp_math.h"

/* A matrix of N rows: where row n begins and how far its elements are apart. */
typedef struct matrix {
    int64_t row, step;
} matrix;

static matrix matrix_of(const run_array *array)
{
    return (matrix){array->strides[0], array->strides[1]};
}

/* ---- Forward ---- */

typedef struct lstm {
    int64_t batch, width;
    matrix gates, c, h, c_next, act;
} lstm;

static void plan_lstm(const run_spec *spec, int parts, void *plan)
{
    (void)parts;
    *(lstm *)plan = (lstm){.batch = spec->in[1].shape[0],
                           .width = spec->in[1].shape[1],
                           .gates = matrix_of(&spec->in[0]),
                           .c = matrix_of(&spec->in[1]),
                           .h = matrix_of(&spec->out[0]),
                           .c_next = matrix_of(&spec->out[1]),
                           .act = matrix_of(&spec->out[2])};
}

/* Elements of one row from `begin` to `end`. The dense form, where steps are 1, is vector code. */
#define CELL(gates_step, c_step, h_step, next_step, act_step)                                      \
    {                                                                                              \
        float in = omp_sigmoid(gates[k * (gates_step)]);                                           \
        float forget = omp_sigmoid(gates[(width + k) * (gates_step)]);                             \
        float fresh = omp_tanh(gates[(2 * width + k) * (gates_step)]);                             \
        float out = omp_sigmoid(gates[(3 * width + k) * (gates_step)]);                            \
        float cell = forget * c[k * (c_step)] + in * fresh;                                        \
        act[k * (act_step)] = in;                                                                  \
        act[(width + k) * (act_step)] = forget;                                                    \
        act[(2 * width + k) * (act_step)] = fresh;                                                 \
        act[(3 * width + k) * (act_step)] = out;                                                   \
        c_next[k * (next_step)] = cell;                                                            \
        h[k * (h_step)] = out * omp_tanh(cell);                                                    \
    }

OMP_CLONES static void dense_row(const float *gates, const float *c, float *h, float *c_next,
                                 float *act, int64_t width, omp_range range)
{
#pragma omp simd
    for (int64_t k = range.begin; k < range.end; k++)
        CELL(1, 1, 1, 1, 1)
}

static void lstm_row(const lstm *p, const omp_task *task, int64_t n, omp_range range)
{
    const float *gates = omp_in(task, 0) + n * p->gates.row, *c = omp_in(task, 1) + n * p->c.row;
    float *h = omp_out(task, 0) + n * p->h.row, *c_next = omp_out(task, 1) + n * p->c_next.row;
    float *act = omp_out(task, 2) + n * p->act.row;
    int64_t width = p->width;
    if (p->gates.step == 1 && p->c.step == 1 && p->h.step == 1 && p->c_next.step == 1 &&
        p->act.step == 1)
        dense_row(gates, c, h, c_next, act, width, range);
    else
        for (int64_t k = range.begin; k < range.end; k++)
            CELL(p->gates.step, p->c.step, p->h.step, p->c_next.step, p->act.step)
}

static void lstm_work(const omp_task *task)
{
    const lstm *p = task->plan;
    omp_range share = omp_share(task, p->batch * p->width, 16);
    for (int64_t i = share.begin; i < share.end;) {
        int64_t k = i % p->width, n = p->width - k;
        n = n < share.end - i ? n : share.end - i;
        lstm_row(p, task, i / p->width, (omp_range){k, k + n});
        i += n;
    }
}

/* ---- Backward ---- */

/* An operand that may not be there. */
typedef struct operand {
    bool there;
    uint32_t index;
    matrix at;
} operand;

typedef struct lstm_bw {
    int64_t batch, width;
    operand dh, dc, act, c, c_next; /* inputs */
    operand dgates, dc_prev;        /* results */
} lstm_bw;

static operand next_operand(const run_array *arrays, uint32_t *count)
{
    operand o = {true, *count, matrix_of(&arrays[*count])};
    (*count)++;
    return o;
}

static void plan_lstm_bw(const run_spec *spec, int parts, void *plan)
{
    lstm_bw *p = plan;
    uint32_t in = 0, out = 0;
    (void)parts;
    if (neap_run_spec_int(spec, "has_dh", 0))
        p->dh = next_operand(spec->in, &in);
    if (neap_run_spec_int(spec, "has_dc", 0))
        p->dc = next_operand(spec->in, &in);
    int64_t gates = spec->in[in].shape[1];
    p->batch = spec->in[in].shape[0];
    p->width = gates / 4;
    p->act = next_operand(spec->in, &in);
    if (spec->out[0].shape[1] == gates)
        p->dgates = next_operand(spec->out, &out);
    if (out < spec->op->n_outputs)
        p->dc_prev = next_operand(spec->out, &out);
    if (p->dgates.there)
        p->c = next_operand(spec->in, &in);
    if (p->dh.there)
        p->c_next = next_operand(spec->in, &in);
}

static const float *in_row(const omp_task *task, const operand *o, int64_t n)
{
    return o->there ? omp_in(task, o->index) + n * o->at.row : NULL;
}

static float *out_row(const omp_task *task, const operand *o, int64_t n)
{
    return o->there ? omp_out(task, o->index) + n * o->at.row : NULL;
}

/* The cell's gradient of one row, element by element: into dc_prev, with dgates or without. */
static void lstm_bw_row(const lstm_bw *p, const omp_task *task, int64_t n, omp_range range)
{
    const float *dh = in_row(task, &p->dh, n), *dc_in = in_row(task, &p->dc, n),
                *act = in_row(task, &p->act, n), *c = in_row(task, &p->c, n),
                *c_next = in_row(task, &p->c_next, n);
    float *dgates = out_row(task, &p->dgates, n), *dc_prev = out_row(task, &p->dc_prev, n);
    int64_t width = p->width, a = p->act.at.step, g = p->dgates.at.step;
    for (int64_t k = range.begin; k < range.end; k++) {
        float in = act[k * a], forget = act[(width + k) * a], fresh = act[(2 * width + k) * a],
              out = act[(3 * width + k) * a];
        float dc = dc_in ? dc_in[k * p->dc.at.step] : 0, d_out = 0;
        if (dh) {
            float squashed = omp_tanh(c_next[k * p->c_next.at.step]);
            d_out = dh[k * p->dh.at.step] * squashed;
            dc += dh[k * p->dh.at.step] * out * (1 - squashed * squashed);
        }
        if (dc_prev)
            dc_prev[k * p->dc_prev.at.step] = dc * forget;
        if (!dgates)
            continue;
        dgates[k * g] = dc * fresh * in * (1 - in);
        dgates[(width + k) * g] = dc * c[k * p->c.at.step] * forget * (1 - forget);
        dgates[(2 * width + k) * g] = dc * in * (1 - fresh * fresh);
        dgates[(3 * width + k) * g] = d_out * out * (1 - out);
    }
}

/* All seven operands, all dense: every step but the last of a sequence. */
OMP_CLONES static void dense_bw_row(const float *dh, const float *dc_in, const float *act,
                                    const float *c, const float *c_next, float *dgates,
                                    float *dc_prev, int64_t width, omp_range range)
{
#pragma omp simd
    for (int64_t k = range.begin; k < range.end; k++) {
        float in = act[k], forget = act[width + k], fresh = act[2 * width + k],
              out = act[3 * width + k], squashed = omp_tanh(c_next[k]);
        float dc = dc_in[k] + dh[k] * out * (1 - squashed * squashed);
        dc_prev[k] = dc * forget;
        dgates[k] = dc * fresh * in * (1 - in);
        dgates[width + k] = dc * c[k] * forget * (1 - forget);
        dgates[2 * width + k] = dc * in * (1 - fresh * fresh);
        dgates[3 * width + k] = dh[k] * squashed * out * (1 - out);
    }
}

static bool is_dense(const lstm_bw *p)
{
    const operand *all[] = {&p->dh, &p->dc, &p->act, &p->c, &p->c_next, &p->dgates, &p->dc_prev};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!all[i]->there || all[i]->at.step != 1)
            return false;
    return true;
}

static void lstm_bw_work(const omp_task *task)
{
    const lstm_bw *p = task->plan;
    omp_range share = omp_share(task, p->batch * p->width, 16);
    bool dense = is_dense(p);
    for (int64_t i = share.begin; i < share.end;) {
        int64_t k = i % p->width, row = i / p->width, n = p->width - k;
        n = n < share.end - i ? n : share.end - i;
        if (dense)
            dense_bw_row(in_row(task, &p->dh, row), in_row(task, &p->dc, row),
                         in_row(task, &p->act, row), in_row(task, &p->c, row),
                         in_row(task, &p->c_next, row), out_row(task, &p->dgates, row),
                         out_row(task, &p->dc_prev, row), p->width, (omp_range){k, k + n});
        else
            lstm_bw_row(p, task, row, (omp_range){k, k + n});
        i += n;
    }
}

OMP_OP(lstm_cell, {.plan_bytes = sizeof(lstm), .plan = plan_lstm, .work = lstm_work})
OMP_OP(lstm_cell_bw, {.plan_bytes = sizeof(lstm_bw), .plan = plan_lstm_bw, .work = lstm_bw_work})
