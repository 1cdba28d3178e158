/*
 * Gather: elements by their positions along an axis. In its gradient parts share the dimensions
 * that are not the axis; each adds in the order of the indices.
 */
#include "base/fail.h"
#include "run/backends/onednn/omp_walk.h"
#include "run/gathering.h"

#include <string.h>

typedef struct gather {
    omp_walk walk;    /* forward: y, x, indices; backward: dx and dy without axis and indices */
    omp_walk indices; /* alone, in row-major order; backward: and the rows of dy */
    int64_t step;     /* of x or dx along the axis */
    int64_t entries;
    neap_dtype type; /* of the indices */
} gather;

/* Steps of the indices in row-major order, whatever their strides. */
static omp_walk walk_in_order(const run_array *indices, const run_array *rows, uint32_t axis)
{
    omp_walk w = {.operands = 2, .rank = indices->rank, .total = 1};
    for (uint32_t d = 0; d < indices->rank; d++) {
        w.extent[d] = indices->shape[d];
        w.stride[d][0] = indices->strides[d];
        w.stride[d][1] = rows->strides[axis + d];
        w.total *= indices->shape[d];
    }
    return w;
}

static int64_t place_of(const omp_walk *w, uint32_t operand, int64_t i)
{
    int64_t at = 0;
    for (uint32_t d = w->rank; d-- > 0; i /= w->extent[d])
        at += i % w->extent[d] * w->stride[d][operand];
    return at;
}

static void plan_common(const run_spec *spec, const run_array *x, const run_array *y, gather *p)
{
    uint32_t axis = (uint32_t)neap_run_spec_int(spec, "axis", 0);
    p->indices = walk_in_order(&spec->in[1], y, axis);
    p->step = x->strides[axis];
    p->entries = x->shape[axis];
    p->type = spec->in[1].dtype;
}

static void plan_gather(const run_spec *spec, int parts, void *plan)
{
    gather *p = plan;
    uint32_t axis = (uint32_t)neap_run_spec_int(spec, "axis", 0);
    run_array x = neap_run_gathered_rest(&spec->in[0], &spec->in[1], axis);
    run_array indices = neap_run_gathered_indices(&spec->in[1], &spec->out[0], axis);
    plan_common(spec, &spec->in[0], &spec->out[0], p);
    neap_omp_walk_plan(&p->walk, 3, (run_array[]){spec->out[0], x, indices}, 16, parts);
}

static void plan_gather_bw(const run_spec *spec, int parts, void *plan)
{
    gather *p = plan;
    const run_array *dy = &spec->in[0], *dx = &spec->out[0];
    uint32_t axis = (uint32_t)neap_run_spec_int(spec, "axis", 0);
    run_array rest = neap_run_gathered_source(dy, &spec->in[1], dx, axis), others = *dx;
    rest.shape[axis] = others.shape[axis] = 1;
    plan_common(spec, dx, dy, p);
    neap_omp_walk_plan(&p->walk, 2, (run_array[]){others, rest}, 16, parts);
}

/* Indices are used as addresses. */
static neap_status check_indices(const void *plan, const run_args *args, neap_diag *diag)
{
    const gather *p = plan;
    for (int64_t i = 0; i < p->indices.total; i++) {
        int64_t index = omp_integer(args->in[1], p->type, place_of(&p->indices, 0, i));
        if (index < 0 || index >= p->entries)
            return neap_fail(diag, NEAP_INVALID, "position %lld on an axis that has 0 to %lld",
                             (long long)index, (long long)p->entries - 1);
    }
    return NEAP_OK;
}

/* ---- Forward ---- */

static void gather_block(const omp_task *task, const omp_walk *walk, const int64_t *at,
                         int64_t rows, int64_t length)
{
    const gather *p = task->plan;
    int64_t y_step = omp_step(walk, 0), x_step = omp_step(walk, 1), i_step = omp_step(walk, 2);
    for (int64_t r = 0; r < rows; r++) {
        float *y = omp_out(task, 0) + at[0] + r * omp_row_step(walk, 0);
        const float *x = omp_in(task, 0) + at[1] + r * omp_row_step(walk, 1);
        int64_t first = at[2] + r * omp_row_step(walk, 2);
        if (i_step == 0) { /* a row from one position */
            x += omp_integer(task->args->in[1], p->type, first) * p->step;
            if (x_step == 1 && y_step == 1)
                memcpy(y, x, (size_t)length * sizeof *y);
            else
                for (int64_t i = 0; i < length; i++)
                    y[i * y_step] = x[i * x_step];
            continue;
        }
        for (int64_t i = 0; i < length; i++)
            y[i * y_step] =
                x[i * x_step +
                  omp_integer(task->args->in[1], p->type, first + i * i_step) * p->step];
    }
}

static void gather_work(const omp_task *task)
{
    const gather *p = task->plan;
    neap_omp_walk_share(&p->walk, task, gather_block);
}

/* ---- Backward ---- */

static void add_row(float *dx, int64_t dx_step, const float *dy, int64_t dy_step, int64_t length)
{
    for (int64_t i = 0; i < length; i++)
        dx[i * dx_step] += dy[i * dy_step];
}

static void gather_bw_block(const omp_task *task, const omp_walk *walk, const int64_t *at,
                            int64_t rows, int64_t length)
{
    const gather *p = task->plan;
    int64_t dx_step = omp_step(walk, 0), dy_step = omp_step(walk, 1);
    for (int64_t r = 0; r < rows; r++) {
        float *dx = omp_out(task, 0) + at[0] + r * omp_row_step(walk, 0);
        const float *dy = omp_in(task, 0) + at[1] + r * omp_row_step(walk, 1);
        for (int64_t v = 0; v < p->entries; v++)
            for (int64_t i = 0; i < length; i++)
                dx[v * p->step + i * dx_step] = 0;
        for (int64_t k = 0; k < p->indices.total; k++) {
            int64_t v = omp_integer(task->args->in[1], p->type, place_of(&p->indices, 0, k));
            add_row(dx + v * p->step, dx_step, dy + place_of(&p->indices, 1, k), dy_step, length);
        }
    }
}

static void gather_bw_work(const omp_task *task)
{
    const gather *p = task->plan;
    neap_omp_walk_share(&p->walk, task, gather_bw_block);
}

OMP_OP(gather, {.plan_bytes = sizeof(gather),
                .plan = plan_gather,
                .check = check_indices,
                .work = gather_work})
OMP_OP(gather_bw, {.plan_bytes = sizeof(gather),
                   .plan = plan_gather_bw,
                   .check = check_indices,
                   .work = gather_bw_work})
