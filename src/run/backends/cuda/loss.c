/*
 * Cross-entropy, whole and in two halves: kernels/loss.h. How rows are divided among blocks depends
 * on shapes and strides alone.
 */
#include "run/backends/cuda/kernels/loss.h"

#include "base/fail.h"
#include "run/backends/cuda/operands.h"

#include <stdio.h>

#define LONG_CLASSES 512 /* a row from which on has a block */
#define LONG_BLOCKS  8192
#define SHORT_BLOCKS 2112
#define FEW_ROWS     2048 /* fewer do not occupy a device with one thread each */

typedef struct loss_plan {
    const cuda_function *rows, *mean; /* mean: of ops that have a loss */
    loss_params params;               /* without addresses */
    cuda_dims dims;
    bool is_long;
    char name[80]; /* of the op, or its beginning */
} loss_plan;

/* ---- Layouts ---- */

/* Operands of an op: numbers of inputs and outputs, or NONE. */
enum { NONE = -1 };
typedef struct loss_op {
    const char *long_rows, *short_rows; /* long_rows NULL: a thread for each row */
    int x, dy, labels, dloss, lse_in;   /* inputs */
    int out, loss, lse_out;             /* outputs */
    uint32_t f32_inputs, f32_outputs;
    bool passes; /* a row is read more than once: the cache should hold the rows of all blocks */
} loss_op;

static const run_array *classes_of(const loss_op *op, const run_spec *spec)
{
    return op->x != NONE ? &spec->in[op->x] : &spec->out[op->out];
}

static uint32_t long_threads(int64_t classes, bool passes)
{
    return classes <= 2048 ? 128 : classes <= 8192 ? 256 : passes && classes > 16384 ? 1024 : 512;
}

static void divide_rows(loss_plan *plan, const loss_op *op, bool neighbours)
{
    loss_params *p = &plan->params;
    plan->is_long = op->long_rows && neighbours && p->classes >= LONG_CLASSES;
    if (plan->is_long) {
        plan->dims.threads = long_threads(p->classes, op->passes);
        plan->dims.blocks = (uint32_t)(p->rows < LONG_BLOCKS ? p->rows : LONG_BLOCKS);
        return;
    }
    if (neighbours && op->long_rows)
        while (p->lanes_log2 < 5 && (4 << p->lanes_log2) < p->classes)
            p->lanes_log2++;
    else if (op->long_rows && p->rows < FEW_ROWS && p->classes >= 128)
        p->lanes_log2 = 5;
    int64_t in_block = LOSS_THREADS >> p->lanes_log2, blocks = (p->rows + in_block - 1) / in_block;
    plan->dims.threads = LOSS_THREADS;
    plan->dims.blocks = (uint32_t)(blocks < SHORT_BLOCKS ? blocks : SHORT_BLOCKS);
}

static void plan_rows(loss_plan *plan, const loss_op *op, const run_spec *spec)
{
    loss_params *p = &plan->params;
    const run_array *classes = classes_of(op, spec);
    p->classes = (i32)classes->shape[1];
    p->rows = neap_run_array_elements(classes) / p->classes;
    p->share = 1.0f / (float)p->rows;
    p->x_step = p->dy_step = p->out_step = 1;
    if (op->x != NONE) {
        p->x_rows = neap_cuda_row_walk(&spec->in[op->x], 0, 1);
        p->x_step = neap_cuda_step(&spec->in[op->x], 1);
    }
    if (op->dy != NONE) {
        p->dy_rows = neap_cuda_row_walk(&spec->in[op->dy], 0, 1);
        p->dy_step = neap_cuda_step(&spec->in[op->dy], 1);
    }
    if (op->out != NONE) {
        p->out_rows = neap_cuda_row_walk(&spec->out[op->out], 0, 1);
        p->out_step = neap_cuda_step(&spec->out[op->out], 1);
    }
    p->whole = p->x_step == 1 && p->dy_step == 1 && p->out_step == 1;
    divide_rows(plan, op, p->whole);
    p->parts = (i32)plan->dims.blocks;
}

static row_walk places_of(const run_array *array)
{
    return neap_cuda_row_walk(array, 0, array->rank);
}

/* ---- The common shape of the ops ---- */

static neap_status plan_loss(cuda_backend *backend, const run_spec *spec, const loss_op *op,
                             loss_plan *plan, neap_diag *diag)
{
    loss_params *p = &plan->params;
    neap_dtype type = neap_cuda_type(spec);
    plan_rows(plan, op, spec);
    snprintf(plan->name, sizeof plan->name, "%s", spec->op->name);
    if (op->labels != NONE) {
        p->label_rows = places_of(&spec->in[op->labels]);
        p->wide_labels = spec->in[op->labels].dtype == NEAP_I64;
    }
    if (op->lse_in != NONE)
        p->lse_rows = places_of(&spec->in[op->lse_in]);
    if (op->lse_out != NONE)
        p->lse_rows = places_of(&spec->out[op->lse_out]);
    p->trouble = backend->platform->trouble;
    neap_status status = neap_cuda_find(backend, plan->is_long ? op->long_rows : op->short_rows,
                                        type, &plan->rows, diag);
    if (status == NEAP_OK && op->loss != NONE)
        status = neap_cuda_find(backend, "loss_mean", type, &plan->mean, diag);
    return status;
}

static cuda_dims mean_dims(const loss_params *p)
{
    uint32_t threads = 32;
    while (threads < 1024 && threads < (uint32_t)p->parts)
        threads *= 2;
    return (cuda_dims){.blocks = 1, .threads = threads};
}

static neap_status run_loss(cuda_backend *backend, const loss_plan *plan, const loss_op *op,
                            const run_args *args, neap_diag *diag)
{
    loss_params p = plan->params;
    p.x = op->x != NONE ? args->in[op->x] : NULL;
    p.dy = op->dy != NONE ? args->in[op->dy] : NULL;
    p.out = op->out != NONE ? args->out[op->out] : NULL;
    p.labels = op->labels != NONE ? args->in[op->labels] : NULL;
    p.lse = op->lse_in != NONE    ? args->in[op->lse_in]
            : op->lse_out != NONE ? args->out[op->lse_out]
                                  : NULL;
    p.loss = op->dloss != NONE  ? args->in[op->dloss]
             : op->loss != NONE ? args->out[op->loss]
                                : NULL;
    p.partials = args->workspace;
    p.whole = p.whole && cuda_is_aligned(p.x) && cuda_is_aligned(p.dy) && cuda_is_aligned(p.out);
    neap_status status = CUDA_LAUNCH(backend, plan->rows, plan->dims, &p, diag);
    if (status == NEAP_OK && plan->mean)
        status = CUDA_LAUNCH(backend, plan->mean, mean_dims(&p), &p, diag);
    if (status == NEAP_OK && op->labels != NONE)
        status = neap_cuda_check_indices(backend, plan->name, diag);
    return status;
}

/* A float for each block. */
static int64_t loss_workspace(const run_spec *spec, const loss_op *op)
{
    loss_plan plan = {0};
    plan_rows(&plan, op, spec);
    return plan.params.parts * (int64_t)sizeof(float);
}

static neap_status check_loss(const run_spec *spec, const loss_op *op, neap_diag *diag)
{
    if (classes_of(op, spec)->shape[1] > INT32_MAX / 2)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "op \"%s\" (%s): the cuda backend takes at most %d classes",
                         spec->op->name, spec->op->type, INT32_MAX / 2);
    return neap_cuda_check_mix(spec, op->f32_inputs, op->f32_outputs, diag);
}

/* ---- The ops ---- */

#define LOSS_OP(type, needs, ...)                                                                  \
    static const loss_op loss_##type = __VA_ARGS__;                                                \
    static neap_status plan_##type(cuda_backend *backend, const run_spec *spec, void *plan,        \
                                   neap_diag *diag)                                                \
    {                                                                                              \
        return plan_loss(backend, spec, &loss_##type, plan, diag);                                 \
    }                                                                                              \
    static neap_status run_##type(cuda_backend *backend, const void *plan, const run_args *args,   \
                                  neap_diag *diag)                                                 \
    {                                                                                              \
        return run_loss(backend, plan, &loss_##type, args, diag);                                  \
    }                                                                                              \
    static int64_t workspace_##type(const cuda_backend *backend, const run_spec *spec)             \
    {                                                                                              \
        (void)backend;                                                                             \
        return (needs) ? loss_workspace(spec, &loss_##type) : 0;                                   \
    }                                                                                              \
    static neap_status check_types_##type(const run_spec *spec, neap_diag *diag)                   \
    {                                                                                              \
        return check_loss(spec, &loss_##type, diag);                                               \
    }                                                                                              \
    CUDA_OP(type, {.plan_bytes = sizeof(loss_plan),                                                \
                   .plan = plan_##type,                                                            \
                   .run = run_##type,                                                              \
                   .workspace = workspace_##type,                                                  \
                   .check = check_types_##type})

LOSS_OP(xent, true,
        {.long_rows = "xent_long",
         .short_rows = "xent_short",
         .x = 0,
         .dy = NONE,
         .labels = 1,
         .dloss = NONE,
         .lse_in = NONE,
         .out = NONE,
         .loss = 0,
         .lse_out = 1,
         .f32_outputs = 3})
LOSS_OP(xent_bw, false,
        {.long_rows = "xent_bw_long",
         .short_rows = "xent_bw_short",
         .x = 1,
         .dy = NONE,
         .labels = 2,
         .dloss = 0,
         .lse_in = 3,
         .out = 0,
         .loss = NONE,
         .lse_out = NONE,
         .f32_inputs = 1u << 0 | 1u << 3})
LOSS_OP(log_softmax, false,
        {.long_rows = "log_softmax_long",
         .short_rows = "log_softmax_short",
         .x = 0,
         .dy = NONE,
         .labels = NONE,
         .dloss = NONE,
         .lse_in = NONE,
         .out = 0,
         .loss = NONE,
         .lse_out = NONE,
         .passes = true})
LOSS_OP(log_softmax_bw, false,
        {.long_rows = "log_softmax_bw_long",
         .short_rows = "log_softmax_bw_short",
         .x = 1,
         .dy = 0,
         .labels = NONE,
         .dloss = NONE,
         .lse_in = NONE,
         .out = 0,
         .loss = NONE,
         .lse_out = NONE,
         .passes = true})
LOSS_OP(nll_bw, false,
        {.long_rows = "nll_bw_long",
         .short_rows = "nll_bw_short",
         .x = NONE,
         .dy = NONE,
         .labels = 1,
         .dloss = 0,
         .lse_in = NONE,
         .out = 0,
         .loss = NONE,
         .lse_out = NONE,
         .f32_inputs = 1})
/* One element of a row is read: a thread for each row. */
LOSS_OP(nll, true,
        {.short_rows = "nll_rows",
         .x = 0,
         .dy = NONE,
         .labels = 1,
         .dloss = NONE,
         .lse_in = NONE,
         .out = NONE,
         .loss = 0,
         .lse_out = NONE,
         .f32_outputs = 1})
