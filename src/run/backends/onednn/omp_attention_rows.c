/* Attention: shapes, and a head's rows on their way into scratch memory and back. */
#include "run/backends/onednn/omp_attention.h"

#include <math.h>
#include <string.h>

attention_operand attention_part(const run_array *array, uint32_t index, int64_t part,
                                 int64_t parts)
{
    return (attention_operand){.there = true,
                               .index = index,
                               .begin = part * (array->shape[2] / parts) * array->strides[2],
                               .batch = array->strides[0],
                               .row = array->strides[1],
                               .step = array->strides[2]};
}

void attention_plan_shape(const run_spec *spec, const run_array *q, const run_array *k, bool packed,
                          attention_shape *s)
{
    double dropout = run_spec_real(spec, "dropout", 0);
    s->batch = q->shape[0];
    s->heads = run_spec_int(spec, "heads", 1);
    s->queries = q->shape[1];
    s->keys = k->shape[1];
    s->width = q->shape[2] / (packed ? 3 : 1) / s->heads;
    s->padded = attention_round_up(s->width, OMP_GEMM_COLUMNS);
    s->strips = attention_round_up(s->keys, OMP_GEMM_STRIP);
    int64_t block = s->keys <= 512 ? 64 : 32, all = attention_round_up(s->queries, OMP_GEMM_ROWS);
    s->block = block < all ? block : all;
    s->causal = run_spec_int(spec, "causal", 0);
    s->scale = (float)(1 / sqrt((double)s->width));
    s->least = (uint32_t)ceil(dropout * 0x1p24);
    s->keep = (float)(1 / (1 - dropout));
    s->gemm = omp_gemm_choose();
}

void attention_copy_rows(const attention_shape *s, float *to, attention_rows from, int64_t first,
                         int64_t count, int64_t total, float factor)
{
    for (int64_t t = 0; t < total; t++) {
        float *row = to + t * s->padded;
        const float *x = from.at + (first + t) * from.row;
        int64_t n = t < count ? s->width : 0;
        if (from.step == 1)
            for (int64_t d = 0; d < n; d++)
                row[d] = factor * x[d];
        else
            for (int64_t d = 0; d < n; d++)
                row[d] = factor * x[d * from.step];
        for (int64_t d = n; d < s->padded; d++)
            row[d] = 0;
    }
}

void attention_pack(const attention_shape *s, float *to, attention_rows from)
{
    for (int64_t t = 0; t < s->strips; t++) {
        float *column = to + t / OMP_GEMM_STRIP * OMP_GEMM_STRIP * s->width + t % OMP_GEMM_STRIP;
        const float *x = from.at + t * from.row;
        for (int64_t d = 0; d < s->width; d++)
            column[d * OMP_GEMM_STRIP] = t < s->keys ? x[d * from.step] : 0;
    }
}

omp_gemm_b attention_right_side(const attention_shape *s, float *scratch, attention_rows from,
                                int64_t count)
{
    if (from.step == 1 && s->width == s->padded)
        return (omp_gemm_b){from.at, from.row, OMP_GEMM_STRIP};
    attention_copy_rows(s, scratch, from, 0, count, count, 1);
    return (omp_gemm_b){scratch, s->padded, OMP_GEMM_STRIP};
}

void attention_write_rows(const attention_shape *s, float *to, int64_t row, int64_t step,
                          const float *from, int64_t count, float factor)
{
    for (int64_t t = 0; t < count; t++) {
        float *y = to + t * row;
        const float *x = from + t * s->padded;
        if (step == 1)
            for (int64_t d = 0; d < s->width; d++)
                y[d] = factor * x[d];
        else
            for (int64_t d = 0; d < s->width; d++)
                y[d * step] = factor * x[d];
    }
}
