/*
 * Sums, means, extremes and products over sets of axes (kernels/axes.cu). How columns are divided
 * among threads and parts depends on shapes and strides alone.
 */
#include "run/axes.h"
#include "base/fail.h"
#include "run/backends/cuda/images.h"
#include "run/backends/cuda/kernels/axes.h"
#include "run/backends/cuda/walk.h"

#define LONG_COLUMN   1024 /* rows from which on a block shares a column */
#define FEW_COLUMNS   2048 /* fewer do not occupy a device with one thread each */
#define ENOUGH_BLOCKS 1024
#define WARP_ROWS     128 /* rows of a column that a warp shares although it lies crosswise */
#define LEAST_ROWS    32  /* of a thread in one of several parts */
#define MOST_PARTS    512

typedef struct axes_plan {
    const cuda_function *fold, *join;
    axes_params params; /* without addresses */
    int64_t blocks, parts;
} axes_plan;

/* ---- Division ---- */

/* Lanes that share a column of `rows` rows; neighbours in memory may be rows of one column. */
static i32 lanes_of(const run_array *summed, int64_t columns, int64_t rows)
{
    i32 lanes = 0;
    bool neighbours = false;
    for (uint32_t d = 0; d < summed->rank; d++)
        neighbours = neighbours || (summed->shape[d] > 1 && summed->strides[d] == 1);
    if (!neighbours && (columns >= FEW_COLUMNS || rows < WARP_ROWS))
        return 0;
    if (rows >= LONG_COLUMN && neighbours)
        return AXES_THREADS_LOG2;
    while (lanes < 5 && ((int64_t)4 << lanes) < rows)
        lanes++;
    return lanes;
}

static int64_t blocks_of(int64_t columns, i32 lanes_log2)
{
    int64_t in_block = AXES_THREADS >> lanes_log2;
    return (columns + in_block - 1) / in_block;
}

static void divide(axes_plan *plan, const run_array *summed, int64_t columns, int64_t rows)
{
    axes_params *p = &plan->params;
    p->lanes_log2 = lanes_of(summed, columns, rows);
    plan->blocks = blocks_of(columns, p->lanes_log2);
    int64_t parts = ENOUGH_BLOCKS / plan->blocks, most = rows / (LEAST_ROWS << p->lanes_log2);
    parts = parts < most ? parts : most;
    parts = parts < MOST_PARTS ? parts : MOST_PARTS;
    parts = parts > 1 ? parts : 1;
    p->part_rows = (rows + parts - 1) / parts;
    plan->parts = (rows + p->part_rows - 1) / p->part_rows;
}

static void plan_division(axes_plan *plan, const run_spec *spec)
{
    const run_array *x = &spec->in[0], *y = &spec->out[0];
    run_spread spread = neap_run_spread_of(spec, y, x);
    run_array summed = neap_run_spread_summed(&spread, x);
    run_array kept = neap_run_spread_kept(&spread, x);
    neap_cuda_walk_plan(&plan->params.columns, 2, (run_array[]){kept, spread.small});
    neap_cuda_walk_plan(&plan->params.rows, 1, &summed);
    divide(plan, &summed, plan->params.columns.units, plan->params.rows.units);
}

static int64_t workspace(const cuda_backend *backend, const run_spec *spec)
{
    (void)backend;
    axes_plan plan = {0};
    plan_division(&plan, spec);
    return plan.parts > 1 ? plan.parts * plan.params.columns.units * (int64_t)sizeof(float) : 0;
}

/* ---- Forward ---- */

static neap_status plan_fold(cuda_backend *backend, const run_spec *spec, const char *fold,
                             const char *join, axes_plan *plan, neap_diag *diag)
{
    neap_dtype type = neap_cuda_type(spec);
    plan_division(plan, spec);
    plan->params.factor = 1;
    NEAP_TRY(neap_cuda_find(backend, fold, type, &plan->fold, diag));
    return neap_cuda_find(backend, join, type, &plan->join, diag);
}

static neap_status run_fold(cuda_backend *backend, const void *planned, const run_args *args,
                            neap_diag *diag)
{
    const axes_plan *plan = planned;
    axes_params p = plan->params;
    p.x = args->in[0];
    p.y = args->out[0];
    p.partial = plan->parts > 1 ? args->workspace : NULL;
    cuda_dims dims = {.blocks = (uint32_t)plan->blocks,
                      .blocks_y = (uint32_t)plan->parts,
                      .threads = AXES_THREADS};
    NEAP_TRY(CUDA_LAUNCH(backend, plan->fold, dims, &p, diag));
    if (plan->parts == 1)
        return NEAP_OK;
    axes_join_params join = {p.partial, p.y, p.columns, (i32)plan->parts, p.factor};
    cuda_dims join_dims = neap_cuda_dims(backend, p.columns.units, AXES_THREADS, 0);
    return CUDA_LAUNCH(backend, plan->join, join_dims, &join, diag);
}

/* A launch takes 2^31 blocks. */
static neap_status check(const run_spec *spec, neap_diag *diag)
{
    const run_array *small =
        neap_run_array_elements(&spec->in[0]) < neap_run_array_elements(&spec->out[0])
            ? &spec->in[0]
            : &spec->out[0];
    if (neap_run_array_elements(small) > INT32_MAX)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "op \"%s\" (%s): the cuda backend takes less than 2^31 results",
                         spec->op->name, spec->op->type);
    return neap_cuda_check_one_type(spec, diag);
}

#define FOLD_OP(type, kind, ...)                                                                   \
    static neap_status plan_##type(cuda_backend *backend, const run_spec *spec, void *planned,     \
                                   neap_diag *diag)                                                \
    {                                                                                              \
        axes_plan *plan = planned;                                                                 \
        NEAP_TRY(plan_fold(backend, spec, "axes_" kind, "axes_join_" kind, planned, diag));        \
        plan->params.factor = __VA_ARGS__;                                                         \
        return NEAP_OK;                                                                            \
    }                                                                                              \
    CUDA_OP(type, {.plan_bytes = sizeof(axes_plan),                                                \
                   .plan = plan_##type,                                                            \
                   .run = run_fold,                                                                \
                   .workspace = workspace,                                                         \
                   .check = check})

FOLD_OP(sum_to, "sum", 1)
FOLD_OP(sum_axes, "sum", 1)
FOLD_OP(mean_axes, "sum", (float)(1 / (double)plan->params.rows.units))
FOLD_OP(max_axes, "max", 1)
FOLD_OP(min_axes, "min", 1)
FOLD_OP(prod_axes, "prod", 1)

/* ---- Gradients of extremes and products ---- */

typedef struct axes_bw_plan {
    const cuda_function *function;
    axes_bw_params params; /* without addresses */
    int64_t blocks;
    bool reads_y;
} axes_bw_plan;

static neap_status plan_bw(cuda_backend *backend, const run_spec *spec, const char *kernel,
                           axes_bw_plan *plan, neap_diag *diag)
{
    const run_array *x = &spec->in[1], *dx = &spec->out[0];
    plan->reads_y = spec->op->n_inputs > 2;
    run_spread dy = neap_run_spread_of(spec, &spec->in[0], dx);
    run_spread y = plan->reads_y ? neap_run_spread_of(spec, &spec->in[2], dx) : dy;
    run_array summed[] = {neap_run_spread_summed(&dy, x), neap_run_spread_summed(&dy, dx)};
    run_array kept[] = {neap_run_spread_kept(&dy, x), neap_run_spread_kept(&dy, dx), dy.small,
                        y.small};
    neap_cuda_walk_plan(&plan->params.columns, 4, kept);
    neap_cuda_walk_plan(&plan->params.rows, 2, summed);
    int64_t columns = plan->params.columns.units;
    plan->params.lanes_log2 = lanes_of(&summed[0], columns, plan->params.rows.units);
    plan->blocks = blocks_of(columns, plan->params.lanes_log2);
    return neap_cuda_find(backend, kernel, neap_cuda_type(spec), &plan->function, diag);
}

static neap_status plan_max_axes_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                                    neap_diag *diag)
{
    return plan_bw(backend, spec, "axes_max_bw", plan, diag);
}

static neap_status plan_prod_axes_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                                     neap_diag *diag)
{
    return plan_bw(backend, spec, "axes_prod_bw", plan, diag);
}

static neap_status run_bw(cuda_backend *backend, const void *planned, const run_args *args,
                          neap_diag *diag)
{
    const axes_bw_plan *plan = planned;
    axes_bw_params p = plan->params;
    p.dy = args->in[0];
    p.x = args->in[1];
    p.y = plan->reads_y ? args->in[2] : NULL;
    p.dx = args->out[0];
    cuda_dims dims = {.blocks = (uint32_t)plan->blocks, .threads = AXES_THREADS};
    return CUDA_LAUNCH(backend, plan->function, dims, &p, diag);
}

CUDA_OP(max_axes_bw, {.plan_bytes = sizeof(axes_bw_plan),
                      .plan = plan_max_axes_bw,
                      .run = run_bw,
                      .check = check})
CUDA_OP(prod_axes_bw, {.plan_bytes = sizeof(axes_bw_plan),
                       .plan = plan_prod_axes_bw,
                       .run = run_bw,
                       .check = check})
