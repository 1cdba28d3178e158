/*
 * Losses of long rows: a block for each. Rows need not begin at multiples of 16 bytes: the elements
 * before the first vector and behind the last go to single threads.
 */
#include "loss.cuh"

#define LOSS_VECTORS 4 /* that are loaded before the first is used */

/* A row as head elements, vectors and tail elements. */
typedef struct loss_row {
    int head, vectors, tail; /* tail: where it begins */
} loss_row;

/* By the place in the array, not the address: sums do not depend on where an array is. */
DEVICE loss_row loss_split(const loss_params *p, i64 offset)
{
    loss_row r;
    r.head = (int)((VECTOR - offset % VECTOR) % VECTOR);
    if (r.head > p->classes)
        r.head = p->classes;
    r.vectors = (p->classes - r.head) / VECTOR;
    r.tail = r.head + r.vectors * VECTOR;
    return r;
}

/* Vectors k, k + step, ... of a row, `otherwise` behind its end. */
DEVICE void loss_get(const T *x, const loss_row *r, int k, i64 x_step, int whole, float otherwise,
                     float *e)
{
    if (whole && k < r->vectors)
        row_get_whole(x + r->head + k * VECTOR, e);
    else
        UNROLL
        for (int i = 0; i < VECTOR; i++)
            e[i] = !whole && k < r->vectors ? load(x, (r->head + k * VECTOR + i) * x_step)
                                            : otherwise;
}

/* The element of the head or tail that is a thread's, or -1. */
DEVICE int loss_single(const loss_params *p, const loss_row *r)
{
    int t = (int)threadIdx.x;
    if (t < r->head)
        return t;
    t += r->tail - r->head;
    return t < p->classes ? t : -1;
}

/* Of the elements of a thread: the largest and the sum of exp. */
DEVICE void loss_scan(const loss_params *p, const T *x, i64 offset, int whole, float *max,
                      float *sum)
{
    loss_row r = loss_split(p, offset);
    int single = loss_single(p, &r), step = (int)blockDim.x;
    *max = LOSS_LOWEST;
    *sum = 0;
    for (int k = (int)threadIdx.x; k < r.vectors; k += LOSS_VECTORS * step) {
        float e[LOSS_VECTORS][VECTOR];
        UNROLL
        for (int u = 0; u < LOSS_VECTORS; u++)
            loss_get(x, &r, k + u * step, p->x_step, whole, LOSS_NOTHING, e[u]);
        loss_add(max, sum, &e[0][0], LOSS_VECTORS * VECTOR);
    }
    if (single >= 0) {
        float e = load(x, single * p->x_step);
        loss_add(max, sum, &e, 1);
    }
}

/* log of the sum of exp of a row. */
DEVICE float loss_row_lse(const loss_params *p, const T *x, i64 offset, float *scratch)
{
    float max, sum;
    if (p->whole)
        loss_scan(p, x, offset, 1, &max, &sum);
    else
        loss_scan(p, x, offset, 0, &max, &sum);
    float largest = block_max(max, scratch);
    return largest + logf(block_sum(sum * loss_exp(max - largest), scratch));
}

KERNEL_SYNC_OF(1024, 1, xent_long, loss_params)
{
    SHARED float scratch[WARP];
    float losses = 0;
    for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        i64 offset = row_at(&p.x_rows, row);
        const T *x = (const T *)p.x + offset;
        float lse = loss_row_lse(&p, x, offset, scratch);
        if (threadIdx.x == 0) {
            int label = loss_label(&p, row);
            p.lse[row_at(&p.lse_rows, row)] = lse;
            losses += label < 0 ? 0.0f : lse - load(x, label * p.x_step);
        }
    }
    if (threadIdx.x == 0)
        p.partials[blockIdx.x] = losses;
}

/* ---- Results of a row ---- */

/* What becomes of an element: factor exp(x - lse), less factor at the label. */
typedef struct loss_slope {
    float lse, factor;
    int label;
} loss_slope;

DEVICE float loss_slope_at(const loss_slope *s, float x, int k)
{
    float e = s->factor * loss_exp(x - s->lse);
    return k == s->label ? e - s->factor : e;
}

/* out may be x; both begin alike within 16 bytes. */
DEVICE void xent_bw_vectors(const loss_params *p, const T *x, T *out, i64 offset,
                            const loss_slope *s)
{
    loss_row r = loss_split(p, offset);
    int single = loss_single(p, &r), step = (int)blockDim.x;
    for (int k = (int)threadIdx.x; k < r.vectors; k += LOSS_VECTORS * step) {
        float e[LOSS_VECTORS][VECTOR];
        UNROLL
        for (int u = 0; u < LOSS_VECTORS; u++)
            loss_get(x, &r, k + u * step, 1, 1, 0.0f, e[u]);
        UNROLL
        for (int u = 0; u < LOSS_VECTORS; u++) {
            int c = r.head + (k + u * step) * VECTOR;
            UNROLL
            for (int i = 0; i < VECTOR; i++)
                e[u][i] = loss_slope_at(s, e[u][i], c + i);
            if (k + u * step < r.vectors)
                row_put_whole(out + c, e[u]);
        }
    }
    if (single >= 0)
        store(out, single, loss_slope_at(s, load(x, single), single));
}

KERNEL_OF(1024, 1, xent_bw_long, loss_params)
{
    float factor = p.loss[0] * p.share;
    for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        i64 from = row_at(&p.x_rows, row), to = row_at(&p.out_rows, row);
        const T *x = (const T *)p.x + from;
        T *out = (T *)p.out + to;
        loss_slope s;
        s.lse = p.lse[row_at(&p.lse_rows, row)];
        s.factor = factor;
        s.label = loss_label(&p, row);
        if (p.whole && (from - to) % VECTOR == 0)
            xent_bw_vectors(&p, x, out, from, &s);
        else
            for (int k = (int)threadIdx.x; k < p.classes; k += (int)blockDim.x)
                store(out, k * p.out_step, loss_slope_at(&s, load(x, k * p.x_step), k));
    }
}

/* out = x - lse; out may be x. */
DEVICE void log_softmax_vectors(const loss_params *p, const T *x, T *out, i64 offset, float lse)
{
    loss_row r = loss_split(p, offset);
    int single = loss_single(p, &r), step = (int)blockDim.x;
    for (int k = (int)threadIdx.x; k < r.vectors; k += LOSS_VECTORS * step) {
        float e[LOSS_VECTORS][VECTOR];
        UNROLL
        for (int u = 0; u < LOSS_VECTORS; u++)
            loss_get(x, &r, k + u * step, 1, 1, 0.0f, e[u]);
        UNROLL
        for (int u = 0; u < LOSS_VECTORS; u++) {
            UNROLL
            for (int i = 0; i < VECTOR; i++)
                e[u][i] -= lse;
            if (k + u * step < r.vectors)
                row_put_whole(out + r.head + (k + u * step) * VECTOR, e[u]);
        }
    }
    if (single >= 0)
        store(out, single, load(x, single) - lse);
}

KERNEL_SYNC_OF(1024, 1, log_softmax_long, loss_params)
{
    SHARED float scratch[WARP];
    for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        i64 from = row_at(&p.x_rows, row), to = row_at(&p.out_rows, row);
        const T *x = (const T *)p.x + from;
        T *out = (T *)p.out + to;
        float lse = loss_row_lse(&p, x, from, scratch);
        if (p.whole && (from - to) % VECTOR == 0)
            log_softmax_vectors(&p, x, out, from, lse);
        else
            for (int k = (int)threadIdx.x; k < p.classes; k += (int)blockDim.x)
                store(out, k * p.out_step, load(x, k * p.x_step) - lse);
    }
}

DEVICE float loss_row_sum(const loss_params *p, const T *dy, i64 offset, int whole)
{
    loss_row r = loss_split(p, offset);
    int single = loss_single(p, &r), step = (int)blockDim.x;
    float sum = 0;
    for (int k = (int)threadIdx.x; k < r.vectors; k += LOSS_VECTORS * step) {
        float e[LOSS_VECTORS][VECTOR];
        UNROLL
        for (int u = 0; u < LOSS_VECTORS; u++)
            loss_get(dy, &r, k + u * step, p->dy_step, whole, 0.0f, e[u]);
        UNROLL
        for (int u = 0; u < LOSS_VECTORS; u++)
            UNROLL
            for (int i = 0; i < VECTOR; i++)
                sum += e[u][i];
    }
    return single < 0 ? sum : sum + load(dy, single * p->dy_step);
}

/* out = dy - exp(x) sum; out may be dy or x. */
DEVICE void log_softmax_bw_vectors(const loss_params *p, const T *dy, const T *x, T *out,
                                   i64 offset, float sum)
{
    loss_row r = loss_split(p, offset);
    int single = loss_single(p, &r), step = (int)blockDim.x;
    for (int k = (int)threadIdx.x; k < r.vectors; k += 2 * step) {
        float d[2][VECTOR], e[2][VECTOR];
        UNROLL
        for (int u = 0; u < 2; u++) {
            loss_get(dy, &r, k + u * step, 1, 1, 0.0f, d[u]);
            loss_get(x, &r, k + u * step, 1, 1, 0.0f, e[u]);
        }
        UNROLL
        for (int u = 0; u < 2; u++) {
            UNROLL
            for (int i = 0; i < VECTOR; i++)
                d[u][i] -= loss_exp(e[u][i]) * sum;
            if (k + u * step < r.vectors)
                row_put_whole(out + r.head + (k + u * step) * VECTOR, d[u]);
        }
    }
    if (single >= 0)
        store(out, single, load(dy, single) - loss_exp(load(x, single)) * sum);
}

KERNEL_SYNC_OF(1024, 1, log_softmax_bw_long, loss_params)
{
    SHARED float scratch[WARP];
    for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        i64 from = row_at(&p.dy_rows, row), from_x = row_at(&p.x_rows, row),
            to = row_at(&p.out_rows, row);
        const T *dy = (const T *)p.dy + from, *x = (const T *)p.x + from_x;
        T *out = (T *)p.out + to;
        float sum =
            block_sum(p.whole ? loss_row_sum(&p, dy, from, 1) : loss_row_sum(&p, dy, from, 0),
                      scratch);
        if (p.whole && (from - to) % VECTOR == 0 && (from - from_x) % VECTOR == 0)
            log_softmax_bw_vectors(&p, dy, x, out, from, sum);
        else
            for (int k = (int)threadIdx.x; k < p.classes; k += (int)blockDim.x)
                store(out, k * p.out_step,
                      load(dy, k * p.dy_step) - loss_exp(load(x, k * p.x_step)) * sum);
    }
}

KERNEL_OF(1024, 1, nll_bw_long, loss_params)
{
    float gradient = -p.loss[0] * p.share;
    for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        i64 offset = row_at(&p.out_rows, row);
        int label = loss_label(&p, row);
        T *out = (T *)p.out + offset;
        loss_row r = loss_split(&p, offset);
        int single = loss_single(&p, &r);
        if (!p.whole) {
            for (int k = (int)threadIdx.x; k < p.classes; k += (int)blockDim.x)
                store(out, k * p.out_step, k == label ? gradient : 0.0f);
            continue;
        }
        for (int k = (int)threadIdx.x; k < r.vectors; k += (int)blockDim.x) {
            float e[VECTOR];
            UNROLL
            for (int i = 0; i < VECTOR; i++)
                e[i] = r.head + k * VECTOR + i == label ? gradient : 0.0f;
            row_put_whole(out + r.head + k * VECTOR, e);
        }
        if (single >= 0)
            store(out, single, single == label ? gradient : 0.0f);
    }
}
