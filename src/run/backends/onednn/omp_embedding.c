/*
 * Embedding: rows of a table by number. Its gradient adds rows up where numbers repeat; parts share
 * the columns, and each adds in the order of the numbers, so the bits are always the same.
 */
#include "base/fail.h"
#include "run/backends/onednn/omp_walk.h"

#include <string.h>

typedef struct embedding {
    omp_walk walk;   /* numbers; rows of y or dy */
    run_array table; /* w or dw */
    int64_t step;    /* within rows of y or dy */
    uint32_t ids;    /* which input the numbers are */
    neap_dtype type; /* of the numbers */
} embedding;

static void plan_rows(const run_spec *spec, int parts, uint32_t ids, const run_array *rows,
                      const run_array *table, embedding *p)
{
    uint32_t last = rows->rank - 1;
    neap_omp_walk_plan(&p->walk, 2,
                       (run_array[]){spec->in[ids], neap_run_array_without(rows, last)}, 1, parts);
    p->table = *table;
    p->step = rows->strides[last];
    p->ids = ids;
    p->type = spec->in[ids].dtype;
}

static void plan_embedding(const run_spec *spec, int parts, void *plan)
{
    plan_rows(spec, parts, 0, &spec->out[0], &spec->in[1], plan);
}

static void plan_embedding_bw(const run_spec *spec, int parts, void *plan)
{
    plan_rows(spec, parts, 1, &spec->in[0], &spec->out[0], plan);
}

/* Numbers are used as addresses. */
static void check_block(const omp_task *task, const omp_walk *walk, const int64_t *at, int64_t rows,
                        int64_t length)
{
    const embedding *p = task->plan;
    int64_t *wrong = task->args->workspace;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++) {
            int64_t id = omp_integer(task->args->in[p->ids], p->type,
                                     at[0] + r * omp_row_step(walk, 0) + i * omp_step(walk, 0));
            if (id < 0 || id >= p->table.shape[0])
                *wrong = id;
        }
}

static neap_status check_ids(const void *plan, const run_args *args, neap_diag *diag)
{
    const embedding *p = plan;
    int64_t wrong = 0;
    run_args only_ids = {.in = args->in, .workspace = &wrong};
    omp_task all = {.plan = plan, .args = &only_ids, .parts = 1};
    neap_omp_walk_share(&p->walk, &all, check_block);
    if (wrong == 0)
        return NEAP_OK;
    return neap_fail(diag, NEAP_INVALID, "row %lld of an embedding that has rows 0 to %lld",
                     (long long)wrong, (long long)p->table.shape[0] - 1);
}

/* ---- Forward ---- */

static void copy_block(const omp_task *task, const omp_walk *walk, const int64_t *at, int64_t rows,
                       int64_t length)
{
    const embedding *p = task->plan;
    int64_t features = p->table.shape[1], step = p->table.strides[1];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++) {
            int64_t id = omp_integer(task->args->in[0], p->type,
                                     at[0] + r * omp_row_step(walk, 0) + i * omp_step(walk, 0));
            float *y = omp_out(task, 0) + at[1] + r * omp_row_step(walk, 1) + i * omp_step(walk, 1);
            const float *w = omp_in(task, 1) + id * p->table.strides[0];
            if (p->step == 1 && step == 1)
                memcpy(y, w, (size_t)features * sizeof *y);
            else
                for (int64_t k = 0; k < features; k++)
                    y[k * p->step] = w[k * step];
        }
}

static void embedding_work(const omp_task *task)
{
    const embedding *p = task->plan;
    neap_omp_walk_share(&p->walk, task, copy_block);
}

/* ---- Backward ---- */

OMP_CLONES static void add_gradient_row(float *restrict sum, int64_t sum_step,
                                        const float *restrict x, int64_t x_step, int64_t n)
{
    if (sum_step == 1 && x_step == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += x[i];
    } else {
        for (int64_t i = 0; i < n; i++)
            sum[i * sum_step] += x[i * x_step];
    }
}

/* Every number, in some columns. */
static void add_block(const omp_task *task, const omp_walk *walk, const int64_t *at, int64_t rows,
                      int64_t length)
{
    const embedding *p = task->plan;
    const omp_range *columns = task->local;
    int64_t step = p->table.strides[1];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++) {
            int64_t id = omp_integer(task->args->in[1], p->type,
                                     at[0] + r * omp_row_step(walk, 0) + i * omp_step(walk, 0));
            add_gradient_row(omp_out(task, 0) + id * p->table.strides[0] + columns->begin * step,
                             step,
                             omp_in(task, 0) + at[1] + r * omp_row_step(walk, 1) +
                                 i * omp_step(walk, 1) + columns->begin * p->step,
                             p->step, columns->end - columns->begin);
        }
}

static void embedding_bw_work(const omp_task *task)
{
    const embedding *p = task->plan;
    omp_range columns = omp_share(task, p->table.shape[1], 16);
    int64_t step = p->table.strides[1], n = columns.end - columns.begin;
    for (int64_t r = 0; r < p->table.shape[0]; r++) {
        float *row = omp_out(task, 0) + r * p->table.strides[0] + columns.begin * step;
        if (step == 1)
            memset(row, 0, (size_t)n * sizeof *row);
        for (int64_t i = 0; step != 1 && i < n; i++)
            row[i * step] = 0;
    }
    omp_task all = {.plan = p, .args = task->args, .parts = 1, .local = &columns};
    neap_omp_walk_share(&p->walk, &all, add_block);
}

OMP_OP(embedding, {.plan_bytes = sizeof(embedding),
                   .plan = plan_embedding,
                   .check = check_ids,
                   .work = embedding_work})
OMP_OP(embedding_bw, {.plan_bytes = sizeof(embedding),
                      .plan = plan_embedding_bw,
                      .check = check_ids,
                      .work = embedding_bw_work})
