/*
 * Ops that move elements: concat, slice_bw, transpose, permute, expand, broadcast, sum_axes_bw,
 * pad, pad2d, pad2d_bw. Each is a list of boxes, which together cover the result: a box is copied
 * from one operand, or set to a value.
 *
 * Views (reshape, slice, split) are here as well; nobody has to run them.
 */
#include "run/axes.h"
#include "run/backends/onednn/omp_walk.h"

#include <string.h>

typedef struct box {
    omp_walk walk;    /* the result, the source */
    int64_t to, from; /* where the box begins, in elements */
    uint32_t source;  /* which operand */
    bool constant;    /* no source, but a value */
    float value;
} box;

typedef struct boxes {
    uint32_t count;
    box items[];
} boxes;

static box *add_box(boxes *list)
{
    return &list->items[list->count++];
}

static void plan_copy(boxes *list, int parts, const run_array *to, int64_t to_begin,
                      const run_array *from, int64_t from_begin, uint32_t source)
{
    box *b = add_box(list);
    neap_omp_walk_plan(&b->walk, 2, (run_array[]){*to, *from}, 64, parts);
    b->to = to_begin;
    b->from = from_begin;
    b->source = source;
}

/* A value from `begin` on, `extent` long on an axis. */
static void plan_value(boxes *list, int parts, const run_array *to, int64_t to_begin, uint32_t axis,
                       int64_t begin, int64_t extent, float value)
{
    if (extent <= 0)
        return;
    box *b = add_box(list);
    run_array part = neap_run_array_cut(to, axis, extent);
    neap_omp_walk_plan(&b->walk, 1, &part, 64, parts);
    b->to = to_begin + begin * to->strides[axis];
    b->constant = true;
    b->value = value;
}

static void plan_zeros(boxes *list, int parts, const run_array *to, int64_t to_begin, uint32_t axis,
                       int64_t begin, int64_t extent)
{
    plan_value(list, parts, to, to_begin, axis, begin, extent, 0);
}

/* ---- Work ---- */

#define TILE_ROWS    16 /* a line of the source's memory */
#define TILE_COLUMNS 8  /* lines that fit in one set of a cache, should they fall on one */

/* Columns of the source are rows of the result: tiles keep both in the nearest cache. */
OMP_CLONES static void copy_tiles(float *y, const float *x, int64_t y_row, int64_t x_column,
                                  int64_t rows, int64_t length)
{
    for (int64_t r = 0; r < rows; r += TILE_ROWS)
        for (int64_t i = 0; i < length; i += TILE_COLUMNS) {
            int64_t r_end = r + TILE_ROWS < rows ? r + TILE_ROWS : rows;
            int64_t i_end = i + TILE_COLUMNS < length ? i + TILE_COLUMNS : length;
            for (int64_t q = r; q < r_end; q++)
                for (int64_t k = i; k < i_end; k++)
                    y[q * y_row + k] = x[q + k * x_column];
        }
}

static void copy_row(float *y, const float *x, int64_t y_step, int64_t x_step, int64_t length)
{
    if (y_step == 1 && x_step == 1)
        memcpy(y, x, (size_t)length * sizeof *y);
    else
        for (int64_t i = 0; i < length; i++)
            y[i * y_step] = x[i * x_step];
}

static void fill_row(float *y, int64_t y_step, int64_t length, float value)
{
    if (y_step == 1 && value == 0)
        memset(y, 0, (size_t)length * sizeof *y);
    else
        for (int64_t i = 0; i < length; i++)
            y[i * y_step] = value;
}

static void box_block(const omp_task *task, const omp_walk *walk, const int64_t *at, int64_t rows,
                      int64_t length)
{
    const box *b = (const box *)walk; /* its first member */
    float *y = omp_out(task, 0) + b->to + at[0];
    int64_t y_step = omp_step(walk, 0), y_row = omp_row_step(walk, 0);
    if (b->constant) {
        for (int64_t r = 0; r < rows; r++)
            fill_row(y + r * y_row, y_step, length, b->value);
        return;
    }
    const float *x = omp_in(task, b->source) + b->from + at[1];
    int64_t x_step = omp_step(walk, 1), x_row = omp_row_step(walk, 1);
    if (y_step == 1 && x_step != 1 && x_row == 1 && rows > 1) {
        copy_tiles(y, x, y_row, x_step, rows, length);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        copy_row(y + r * y_row, x + r * x_row, y_step, x_step, length);
}

static void work(const omp_task *task)
{
    const boxes *list = task->plan;
    for (uint32_t i = 0; i < list->count; i++)
        neap_omp_walk_share(&list->items[i].walk, task, box_block);
}

/* ---- Plans ---- */

static void plan_expand(const run_spec *spec, int parts, void *plan)
{
    run_array repeated = neap_run_array_repeat(&spec->in[0], &spec->out[0]);
    plan_copy(plan, parts, &spec->out[0], 0, &repeated, 0, 0);
}

/* Repeated to the result's shape. */
static void plan_broadcast(const run_spec *spec, int parts, void *plan)
{
    run_spread spread = neap_run_spread_of(spec, &spec->in[0], &spec->out[0]);
    run_array repeated = neap_run_spread_repeat(&spread, &spec->out[0]);
    plan_copy(plan, parts, &spec->out[0], 0, &repeated, 0, 0);
}

static void plan_permute(const run_spec *spec, int parts, void *plan)
{
    run_array turned = neap_run_array_permute(spec, &spec->in[0]);
    plan_copy(plan, parts, &spec->out[0], 0, &turned, 0, 0);
}

static void plan_transpose(const run_spec *spec, int parts, void *plan)
{
    int64_t a = neap_run_spec_int(spec, "axis_a", 0), b = neap_run_spec_int(spec, "axis_b", 0);
    run_array turned = spec->in[0];
    turned.shape[a] = spec->in[0].shape[b];
    turned.shape[b] = spec->in[0].shape[a];
    turned.strides[a] = spec->in[0].strides[b];
    turned.strides[b] = spec->in[0].strides[a];
    plan_copy(plan, parts, &spec->out[0], 0, &turned, 0, 0);
}

static void plan_concat(const run_spec *spec, int parts, void *plan)
{
    uint32_t axis = (uint32_t)neap_run_spec_int(spec, "axis", 0);
    int64_t begin = 0;
    for (uint32_t i = 0; i < spec->op->n_inputs; i++) {
        int64_t extent = spec->in[i].shape[axis];
        run_array part = neap_run_array_cut(&spec->out[0], axis, extent);
        plan_copy(plan, parts, &part, begin * spec->out[0].strides[axis], &spec->in[i], 0, i);
        begin += extent;
    }
}

static void plan_slice_bw(const run_spec *spec, int parts, void *plan)
{
    const run_array *dx = &spec->out[0];
    uint32_t axis = (uint32_t)neap_run_spec_int(spec, "axis", 0);
    int64_t begin = neap_run_spec_int(spec, "begin", 0), extent = spec->in[0].shape[axis];
    run_array part = neap_run_array_cut(dx, axis, extent);
    plan_zeros(plan, parts, dx, 0, axis, 0, begin);
    plan_copy(plan, parts, &part, begin * dx->strides[axis], &spec->in[0], 0, 0);
    plan_zeros(plan, parts, dx, 0, axis, begin + extent, dx->shape[axis] - begin - extent);
}

static void plan_pad2d(const run_spec *spec, int parts, void *plan)
{
    const run_array *x = &spec->in[0], *y = &spec->out[0];
    int64_t top = neap_run_spec_int(spec, "top", 0), left = neap_run_spec_int(spec, "left", 0);
    int64_t below = top + x->shape[2], begin = top * y->strides[2];
    run_array middle = neap_run_array_cut(y, 2, x->shape[2]),
              inner = neap_run_array_cut(&middle, 3, x->shape[3]);
    plan_zeros(plan, parts, y, 0, 2, 0, top);
    plan_zeros(plan, parts, &middle, begin, 3, 0, left);
    plan_copy(plan, parts, &inner, begin + left * y->strides[3], x, 0, 0);
    plan_zeros(plan, parts, &middle, begin, 3, left + x->shape[3],
               y->shape[3] - left - x->shape[3]);
    plan_zeros(plan, parts, y, 0, 2, below, y->shape[2] - below);
}

/* Dimension by dimension: what is before and after, within what is left of those before it. */
static void plan_pad(const run_spec *spec, int parts, void *plan)
{
    float value = (float)neap_run_spec_real(spec, "value", 0);
    run_array to = spec->out[0], from = spec->in[0];
    int64_t to_begin = 0, from_begin = 0;
    for (uint32_t d = 0; d < to.rank; d++) {
        run_padding pad = neap_run_padding_of(spec, d);
        plan_value(plan, parts, &to, to_begin, d, 0, pad.before, value);
        plan_value(plan, parts, &to, to_begin, d, pad.before + pad.kept, pad.after, value);
        to = neap_run_array_cut(&to, d, pad.kept);
        from = neap_run_array_cut(&from, d, pad.kept);
        to_begin += pad.before * to.strides[d];
        from_begin += pad.skipped * from.strides[d];
    }
    plan_copy(plan, parts, &to, to_begin, &from, from_begin, 0);
}

static void plan_pad2d_bw(const run_spec *spec, int parts, void *plan)
{
    const run_array *dy = &spec->in[0], *dx = &spec->out[0];
    int64_t top = neap_run_spec_int(spec, "top", 0), left = neap_run_spec_int(spec, "left", 0);
    run_array rows = neap_run_array_cut(dy, 2, dx->shape[2]),
              inner = neap_run_array_cut(&rows, 3, dx->shape[3]);
    plan_copy(plan, parts, dx, 0, &inner, top * dy->strides[2] + left * dy->strides[3], 0);
}

/* The most boxes of any but concat, which has one an operand. */
static size_t box_bytes(const run_spec *spec)
{
    return (spec->op->n_inputs + 2 * NEAP_MAX_RANK) * sizeof(box);
}

#define SHAPE_OP(type, plan_function)                                                              \
    OMP_OP(type, {.plan_bytes = sizeof(boxes),                                                     \
                  .more_bytes = box_bytes,                                                         \
                  .plan = plan_function,                                                           \
                  .work = work})

SHAPE_OP(concat, plan_concat)
SHAPE_OP(slice_bw, plan_slice_bw)
SHAPE_OP(transpose, plan_transpose)
SHAPE_OP(permute, plan_permute)
SHAPE_OP(expand, plan_expand)
SHAPE_OP(broadcast, plan_broadcast)
SHAPE_OP(sum_axes_bw, plan_broadcast)
SHAPE_OP(pad, plan_pad)
SHAPE_OP(pad2d, plan_pad2d)
SHAPE_OP(pad2d_bw, plan_pad2d_bw)

/* Views: nobody runs them. */
RUN_NO_KERNEL(onednn, reshape)
RUN_NO_KERNEL(onednn, slice)
RUN_NO_KERNEL(onednn, split)
