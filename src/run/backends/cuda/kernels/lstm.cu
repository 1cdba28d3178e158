/*
 * The elementwise part of an LSTM cell: gates i f g o; c' = f c + i g; h = o tanh(c').
 *
 * Results may lie over operands of the same place: each thread reads all that it needs before it
 * writes. Blocks in y are rows, threads go along them.
 */
#include "lstm.h"
#include "prelude.cuh"

DEVICE float lstm_sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* `width` elements from column k of part `part` of row n on, 1 or VECTOR; a constant. */
DEVICE i64 lstm_offset(const lstm_rows *rows, i64 n, i64 column)
{
    return n * rows->row + column * rows->step;
}

DEVICE void lstm_load(float *to, const lstm_rows *rows, i64 n, i64 column, int width)
{
    const T *from = (const T *)rows->at + lstm_offset(rows, n, column);
    if (width == 1) {
        to[0] = from_t(*from);
        return;
    }
    vector v = *(const vector *)from;
    UNROLL for (int k = 0; k < VECTOR; k++) to[k] = from_t(v.e[k]);
}

DEVICE void lstm_store(const lstm_rows *rows, i64 n, i64 column, const float *from, int width)
{
    T *to = (T *)rows->at + lstm_offset(rows, n, column);
    vector v;
    if (width == 1) {
        *to = to_t(from[0]);
        return;
    }
    UNROLL for (int k = 0; k < VECTOR; k++) v.e[k] = to_t(from[k]);
    *(vector *)to = v;
}

DEVICE void lstm_forward_at(const lstm_params *p, i64 n, i64 column, int width)
{
    float in[VECTOR], forget[VECTOR], fresh[VECTOR], out[VECTOR], c[VECTOR];
    lstm_load(in, &p->gates, n, column, width);
    lstm_load(forget, &p->gates, n, p->width + column, width);
    lstm_load(fresh, &p->gates, n, 2 * p->width + column, width);
    lstm_load(out, &p->gates, n, 3 * p->width + column, width);
    lstm_load(c, &p->c, n, column, width);
    UNROLL for (int k = 0; k < width; k++)
    {
        in[k] = lstm_sigmoid(in[k]);
        forget[k] = lstm_sigmoid(forget[k]);
        fresh[k] = tanhf(fresh[k]);
        out[k] = lstm_sigmoid(out[k]);
        c[k] = forget[k] * c[k] + in[k] * fresh[k];
    }
    lstm_store(&p->act, n, column, in, width);
    lstm_store(&p->act, n, p->width + column, forget, width);
    lstm_store(&p->act, n, 2 * p->width + column, fresh, width);
    lstm_store(&p->act, n, 3 * p->width + column, out, width);
    lstm_store(&p->cell, n, column, c, width);
    UNROLL for (int k = 0; k < width; k++) out[k] *= tanhf(c[k]);
    lstm_store(&p->h, n, column, out, width);
}

/* The gradient of the cell, and in d_out that of the output gate before it is activated. */
DEVICE void lstm_cell_gradient(const lstm_bw_params *p, i64 n, i64 column, const float *out,
                               float *dcell, float *d_out, int width)
{
    float dh[VECTOR], cell[VECTOR];
    UNROLL for (int k = 0; k < width; k++) dcell[k] = d_out[k] = 0.0f;
    if (p->dcell.at)
        lstm_load(dcell, &p->dcell, n, column, width);
    if (!p->dh.at)
        return;
    lstm_load(dh, &p->dh, n, column, width);
    lstm_load(cell, &p->cell, n, column, width);
    UNROLL for (int k = 0; k < width; k++)
    {
        float squashed = tanhf(cell[k]);
        d_out[k] = dh[k] * squashed * out[k] * (1.0f - out[k]);
        dcell[k] += dh[k] * out[k] * (1.0f - squashed * squashed);
    }
}

DEVICE void lstm_backward_at(const lstm_bw_params *p, i64 n, i64 column, int width)
{
    float in[VECTOR], forget[VECTOR], fresh[VECTOR], out[VECTOR], c[VECTOR], dcell[VECTOR],
        d_out[VECTOR], dc[VECTOR];
    lstm_load(forget, &p->act, n, p->width + column, width);
    lstm_load(out, &p->act, n, 3 * p->width + column, width);
    if (p->dgates.at) {
        lstm_load(in, &p->act, n, column, width);
        lstm_load(fresh, &p->act, n, 2 * p->width + column, width);
        lstm_load(c, &p->c, n, column, width);
    }
    lstm_cell_gradient(p, n, column, out, dcell, d_out, width);
    UNROLL for (int k = 0; k < width; k++) dc[k] = dcell[k] * forget[k];
    if (p->dc.at)
        lstm_store(&p->dc, n, column, dc, width);
    if (!p->dgates.at)
        return;
    UNROLL for (int k = 0; k < width; k++)
    {
        float d_in = dcell[k] * fresh[k] * in[k] * (1.0f - in[k]);
        forget[k] = dcell[k] * c[k] * forget[k] * (1.0f - forget[k]);
        fresh[k] = dcell[k] * in[k] * (1.0f - fresh[k] * fresh[k]);
        in[k] = d_in;
    }
    lstm_store(&p->dgates, n, column, in, width);
    lstm_store(&p->dgates, n, p->width + column, forget, width);
    lstm_store(&p->dgates, n, 2 * p->width + column, fresh, width);
    lstm_store(&p->dgates, n, 3 * p->width + column, d_out, width);
}

/* Every element once, `wide` of a row at a time. */
#define LSTM_KERNEL(name, params, wide, at)                                                        \
    KERNEL(name, params)                                                                           \
    {                                                                                              \
        for (i64 n = blockIdx.y; n < p.batch; n += gridDim.y)                                      \
            for (i64 k = global_thread() * (wide); k < p.width; k += global_threads() * (wide))    \
                at(&p, n, k, wide);                                                                \
    }

LSTM_KERNEL(lstm_forward, lstm_params, 1, lstm_forward_at)
LSTM_KERNEL(lstm_forward_vector, lstm_params, VECTOR, lstm_forward_at)
LSTM_KERNEL(lstm_backward, lstm_bw_params, 1, lstm_backward_at)
LSTM_KERNEL(lstm_backward_vector, lstm_bw_params, VECTOR, lstm_backward_at)
