/*
 * What attention and its gradient share: where q, k and v lie, and how a head's rows get into
 * scratch memory in the form that products want.
 *
 * Rows are those of one head: T of them, `width` features each (D). In scratch they are padded with
 * zeros to `padded` features, and their number to a multiple of OMP_GEMM_STRIP.
 */
#ifndef NEAP_RUN_OMP_ATTENTION_H
#define NEAP_RUN_OMP_ATTENTION_H

#include "run/backends/onednn/omp_gemm.h"
#include "run/backends/onednn/omp_kernel.h"

/* One of q, k, v, o and their gradients: N x T x C, or a third of an N x T x 3C. */
typedef struct attention_operand {
    bool there;
    uint32_t index;           /* of the op's inputs or outputs */
    int64_t begin;            /* elements to skip: where k and v begin in a packed one */
    int64_t batch, row, step; /* strides */
} attention_operand;

typedef struct attention_shape {
    int64_t batch, heads, queries, keys;
    int64_t width, padded; /* D, and that rounded up */
    int64_t block;         /* queries at a time: a multiple of OMP_GEMM_ROWS */
    int64_t strips;        /* keys, rounded up to whole strips */
    bool causal;
    float scale;    /* 1 / sqrt(D) */
    uint32_t least; /* of 2^24 draws, those below are dropped */
    float keep;     /* 1 / (1 - p) */
    omp_gemm *gemm;
} attention_shape;

/* The rows of one head as a matrix in memory. */
typedef struct attention_rows {
    const float *at;
    int64_t row, step;
} attention_rows;

/* `part` of `parts` that the operand's last dimension packs. */
attention_operand neap_attention_part(const run_array *array, uint32_t index, int64_t part,
                                      int64_t parts);
/* q, k and v are the inputs from `first` on, or packed in that one. */
void neap_attention_plan_shape(const run_spec *spec, const run_array *q, const run_array *k,
                               bool packed, attention_shape *s);

/* Element 0 of row 0 of a head, in an array at `base`. */
static inline int64_t attention_begin(const attention_shape *s, const attention_operand *o,
                                      int64_t n, int64_t head)
{
    return n * o->batch + o->begin + head * s->width * o->step;
}

static inline attention_rows attention_in(const omp_task *task, const attention_shape *s,
                                          const attention_operand *o, int64_t n, int64_t head)
{
    return (attention_rows){omp_in(task, o->index) + attention_begin(s, o, n, head), o->row,
                            o->step};
}

/* How many keys the queries before `end` see at most. */
static inline int64_t attention_keys(const attention_shape *s, int64_t end)
{
    return s->causal && end < s->keys ? end : s->keys;
}

static inline int64_t attention_round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- Into scratch ---- */

/* Rows from `first` on, times a factor: `count` of them, and zeros up to `total`. */
void neap_attention_copy_rows(const attention_shape *s, float *to, attention_rows from,
                              int64_t first, int64_t count, int64_t total, float factor);
/* All keys' rows, from scratch, as strips of their transpose: strips x D x OMP_GEMM_STRIP. */
void neap_attention_pack(const attention_shape *s, float *to, const float *rows);
/* From scratch: `count` rows times a factor. */
void neap_attention_write_rows(const attention_shape *s, float *to, int64_t row, int64_t step,
                               const float *from, int64_t count, float factor);

#endif
