/* Attention: shapes, and a head's rows on their way into scratch memory and back. */
#include "run/backends/onednn/omp_attention.h"

#include <math.h>
#include <string.h>

/* Queries at a time: with 256 keys, their scores still are in the nearest cache. */
#define BLOCK 32

attention_operand neap_attention_part(const run_array *array, uint32_t index, int64_t part,
                                      int64_t parts)
{
    return (attention_operand){.there = true,
                               .index = index,
                               .begin = part * (array->shape[2] / parts) * array->strides[2],
                               .batch = array->strides[0],
                               .row = array->strides[1],
                               .step = array->strides[2]};
}

void neap_attention_plan_shape(const run_spec *spec, const run_array *q, const run_array *k,
                               bool packed, attention_shape *s)
{
    double dropout = neap_run_spec_real(spec, "dropout", 0);
    s->batch = q->shape[0];
    s->heads = neap_run_spec_int(spec, "heads", 1);
    s->queries = q->shape[1];
    s->keys = k->shape[1];
    s->width = q->shape[2] / (packed ? 3 : 1) / s->heads;
    s->padded = attention_round_up(s->width, OMP_GEMM_COLUMNS);
    s->strips = attention_round_up(s->keys, OMP_GEMM_STRIP);
    int64_t all = attention_round_up(s->queries, OMP_GEMM_ROWS);
    s->block = all < BLOCK ? all : BLOCK;
    s->causal = neap_run_spec_int(spec, "causal", 0);
    s->scale = (float)(1 / sqrt((double)s->width));
    s->least = (uint32_t)ceil(dropout * 0x1p24);
    s->keep = (float)(1 / (1 - dropout));
    s->gemm = neap_omp_gemm_choose();
}

/* y = factor * x */
OMP_CLONES static void copy_row(float *restrict y, int64_t y_step, const float *restrict x,
                                int64_t x_step, int64_t n, float factor)
{
    if (y_step == 1 && x_step == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = factor * x[i];
    } else {
        for (int64_t i = 0; i < n; i++)
            y[i * y_step] = factor * x[i * x_step];
    }
}

void neap_attention_copy_rows(const attention_shape *s, float *to, attention_rows from,
                              int64_t first, int64_t count, int64_t total, float factor)
{
    for (int64_t t = 0; t < total; t++) {
        float *row = to + t * s->padded;
        int64_t n = t < count ? s->width : 0;
        if (t < count)
            copy_row(row, 1, from.at + (first + t) * from.row, from.step, n, factor);
        for (int64_t d = n; d < s->padded; d++)
            row[d] = 0;
    }
}

/* One strip: the transpose of up to OMP_GEMM_STRIP rows. */
OMP_CLONES static void pack_strip(float *restrict to, const float *restrict rows, int64_t row,
                                  int64_t count, int64_t width)
{
    for (int64_t d = 0; d < width; d++)
        for (int64_t t = 0; t < OMP_GEMM_STRIP; t++)
            to[d * OMP_GEMM_STRIP + t] = t < count ? rows[t * row + d] : 0;
}

void neap_attention_pack(const attention_shape *s, float *to, const float *rows)
{
    for (int64_t t = 0; t < s->strips; t += OMP_GEMM_STRIP) {
        int64_t left = s->keys - t;
        pack_strip(to + t * s->width, rows + t * s->padded, s->padded,
                   left < OMP_GEMM_STRIP ? left : OMP_GEMM_STRIP, s->width);
    }
}

void neap_attention_write_rows(const attention_shape *s, float *to, int64_t row, int64_t step,
                               const float *from, int64_t count, float factor)
{
    for (int64_t t = 0; t < count; t++)
        copy_row(to + t * row, step, from + t * s->padded, 1, s->width, factor);
}
