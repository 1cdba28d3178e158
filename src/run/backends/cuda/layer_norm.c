/*
 * Layer and RMS normalisation: kernels/layer_norm.h. Backward, blocks leave the sums of their rows
 * for gamma and beta in the workspace; their number depends on shapes alone.
 */
#include "run/backends/cuda/kernels/layer_norm.h"

#include "run/backends/cuda/operands.h"

#define TEAM_THREADS    256 /* about that many in a block */
#define BACKWARD_BLOCKS 528 /* four on each multiprocessor of the largest devices */
#define LONG_BLOCKS     1056

typedef struct layer_plan {
    const cuda_function *rows[2]; /* with vectors; for any addresses and strides */
    const cuda_function *gradients;
    layer_norm_params params; /* without addresses */
    cuda_dims dims;
    bool whole, data; /* data: backward with dx */
    bool rms;         /* no mean, no beta */
} layer_plan;

/* ---- Layouts ---- */

static int64_t quotient_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The size of teams and blocks, at most `most` of them; team 0: rows are long. */
static void divide_rows(layer_plan *plan, int64_t most)
{
    layer_norm_params *p = &plan->params;
    int64_t team = quotient_up(p->channels, LAYER_ELEMENTS * 32) * 32;
    int64_t teams = team < TEAM_THREADS ? TEAM_THREADS / team : 1;
    bool is_long = team > LAYER_THREADS;
    if (is_long) {
        team = TEAM_THREADS;
        teams = 1;
    }
    p->team = is_long ? 0 : (i32)team;
    plan->dims = (cuda_dims){.blocks = (uint32_t)least(quotient_up(p->rows, teams), most),
                             .threads = (uint32_t)(team * teams)};
}

static row_walk rows_of(const run_array *array)
{
    return neap_cuda_row_walk(array, 0, array->rank - 1);
}

static row_walk places_of(const run_array *array)
{
    return neap_cuda_row_walk(array, 0, array->rank);
}

static int64_t step_of(const run_array *array)
{
    return neap_cuda_step(array, array->rank - 1);
}

static void plan_sizes(layer_plan *plan, const run_array *x)
{
    layer_norm_params *p = &plan->params;
    p->channels = x->shape[x->rank - 1];
    p->rows = neap_run_array_elements(x) / p->channels;
    p->x_rows = rows_of(x);
    p->x_step = step_of(x);
}

static bool is_whole(const row_walk *rows, int64_t step, int64_t vector)
{
    return step == 1 && rows->rank == 1 && neap_cuda_rows_are_whole(rows, vector);
}

/* ---- Forward ---- */

static neap_status plan_forward(cuda_backend *backend, const run_spec *spec, layer_plan *made,
                                neap_diag *diag)
{
    layer_norm_params *p = &made->params;
    neap_dtype type = neap_cuda_type(spec);
    int64_t vector = cuda_vector(type);
    plan_sizes(made, &spec->in[0]);
    p->out_rows = rows_of(&spec->out[0]);
    p->out_step = step_of(&spec->out[0]);
    p->mean_rows = places_of(&spec->out[1]);
    p->invstd_rows = places_of(&spec->out[made->rms ? 1 : 2]);
    p->gamma_step = step_of(&spec->in[1]);
    p->beta_step = made->rms ? 1 : step_of(&spec->in[2]);
    p->epsilon = (float)neap_run_spec_real(spec, "epsilon", 1e-5);
    divide_rows(made, INT32_MAX);
    made->whole = p->channels % vector == 0 && is_whole(&p->x_rows, p->x_step, vector) &&
                  is_whole(&p->out_rows, p->out_step, vector) && p->mean_rows.rank == 1 &&
                  p->invstd_rows.rank == 1 && p->gamma_step == 1 && p->beta_step == 1;
    if (!p->team)
        made->dims.blocks = (uint32_t)least(p->rows, LONG_BLOCKS);
    neap_status status = neap_cuda_find(backend, p->team ? "layer_norm_rows" : "layer_norm_long",
                                        type, &made->rows[0], diag);
    if (status == NEAP_OK)
        status = neap_cuda_find(backend, p->team ? "layer_norm_rows_any" : "layer_norm_long", type,
                                &made->rows[1], diag);
    return status;
}

static neap_status run_forward(cuda_backend *backend, const void *plan, const run_args *args,
                               neap_diag *diag)
{
    const layer_plan *planned = plan;
    layer_norm_params p = planned->params;
    p.x = args->in[0];
    p.gamma = args->in[1];
    p.beta = planned->rms ? NULL : args->in[2];
    p.out = args->out[0];
    p.mean = planned->rms ? NULL : args->out[1];
    p.invstd = args->out[planned->rms ? 1 : 2];
    bool any = !planned->whole || !cuda_is_aligned(p.x) || !cuda_is_aligned(p.out) ||
               !cuda_is_aligned(p.gamma) || !cuda_is_aligned(p.beta);
    return CUDA_LAUNCH(backend, planned->rows[any], planned->dims, &p, diag);
}

/* ---- Backward ---- */

static bool wants_data(const run_spec *spec, bool rms)
{
    return spec->op->n_outputs == (rms ? 2 : 3);
}

static void divide_backward(layer_plan *plan, const run_spec *spec)
{
    layer_norm_params *p = &plan->params;
    plan_sizes(plan, &spec->in[1]);
    divide_rows(plan, BACKWARD_BLOCKS);
    p->parts = (i32)plan->dims.blocks;
    if (p->team)
        plan->dims.dynamic_shared = (uint32_t)p->channels * 2 * (uint32_t)sizeof(float);
}

static int64_t backward_workspace(const cuda_backend *backend, const run_spec *spec)
{
    (void)backend;
    layer_plan plan = {0};
    divide_backward(&plan, spec);
    return 2 * plan.params.parts * plan.params.channels * (int64_t)sizeof(float);
}

static neap_status find_backward(cuda_backend *backend, layer_plan *plan, neap_dtype type,
                                 neap_diag *diag)
{
    bool team = plan->params.team != 0;
    neap_status status = neap_cuda_find(backend, team ? "layer_norm_bw_rows" : "layer_norm_bw_long",
                                        type, &plan->rows[0], diag);
    if (status == NEAP_OK)
        status = neap_cuda_find(backend, team ? "layer_norm_bw_rows_any" : "layer_norm_bw_long",
                                type, &plan->rows[1], diag);
    if (status == NEAP_OK)
        status = neap_cuda_find(backend, "layer_norm_gradients", type, &plan->gradients, diag);
    return status;
}

static neap_status plan_backward(cuda_backend *backend, const run_spec *spec, layer_plan *made,
                                 neap_diag *diag)
{
    layer_norm_params *p = &made->params;
    neap_dtype type = neap_cuda_type(spec);
    int64_t vector = cuda_vector(type);
    bool data = made->data = wants_data(spec, made->rms);
    divide_backward(made, spec);
    p->dy_rows = rows_of(&spec->in[0]);
    p->dy_step = step_of(&spec->in[0]);
    p->mean_rows = places_of(&spec->in[data ? 3 : 2]);
    p->invstd_rows = places_of(&spec->in[(data ? 4 : 3) - made->rms]);
    p->out_rows = rows_of(data ? &spec->out[0] : &spec->in[1]);
    p->out_step = step_of(data ? &spec->out[0] : &spec->in[1]);
    p->gamma_step = data ? step_of(&spec->in[2]) : 1;
    p->dgamma_step = step_of(&spec->out[data ? 1 : 0]);
    p->dbeta_step = made->rms ? 1 : step_of(&spec->out[data ? 2 : 1]);
    made->whole = p->channels % vector == 0 && is_whole(&p->x_rows, p->x_step, vector) &&
                  is_whole(&p->dy_rows, p->dy_step, vector) &&
                  is_whole(&p->out_rows, p->out_step, vector) && p->mean_rows.rank == 1 &&
                  p->invstd_rows.rank == 1 && p->gamma_step == 1;
    return find_backward(backend, made, type, diag);
}

/* A block for 32 channels, with at least as many warps as there are parts to add. */
static cuda_dims gradient_dims(const layer_norm_params *p, bool rms)
{
    uint32_t warps = 1;
    while (warps < 32 && warps < (uint32_t)p->parts)
        warps *= 2;
    return (cuda_dims){.blocks = (uint32_t)quotient_up(p->channels, 32),
                       .blocks_y = rms ? 1 : 2,
                       .threads = 32 * warps};
}

static neap_status run_backward(cuda_backend *backend, const void *plan, const run_args *args,
                                neap_diag *diag)
{
    const layer_plan *planned = plan;
    layer_norm_params p = planned->params;
    int data = planned->data;
    p.dy = args->in[0];
    p.x = args->in[1];
    p.gamma = data ? args->in[2] : NULL;
    p.mean = planned->rms ? NULL : args->in[2 + data];
    p.invstd = args->in[3 + data - planned->rms];
    p.out = data ? args->out[0] : NULL;
    p.dgamma = args->out[data];
    p.dbeta = planned->rms ? NULL : args->out[1 + data];
    p.partials = args->workspace;
    bool any = !planned->whole || !cuda_is_aligned(p.x) || !cuda_is_aligned(p.dy) ||
               !cuda_is_aligned(p.out) || !cuda_is_aligned(p.gamma);
    neap_status status = CUDA_LAUNCH(backend, planned->rows[any], planned->dims, &p, diag);
    if (status == NEAP_OK)
        status =
            CUDA_LAUNCH(backend, planned->gradients, gradient_dims(&p, planned->rms), &p, diag);
    return status;
}

/* ---- The ops ---- */

static neap_status check_forward(const run_spec *spec, neap_diag *diag)
{
    return neap_cuda_check_mix(spec, 0, 1u << 1 | 1u << 2, diag);
}

static neap_status check_backward(const run_spec *spec, neap_diag *diag)
{
    return neap_cuda_check_mix(spec, wants_data(spec, false) ? 3u << 3 : 3u << 2, 0, diag);
}

static neap_status check_rms_types(const run_spec *spec, neap_diag *diag)
{
    return neap_cuda_check_mix(spec, 0, 1u << 1, diag);
}

static neap_status check_rms_bw_types(const run_spec *spec, neap_diag *diag)
{
    return neap_cuda_check_mix(spec, wants_data(spec, true) ? 1u << 3 : 1u << 2, 0, diag);
}

#define PLANS(type, direction, is_rms)                                                             \
    static neap_status plan_##type(cuda_backend *backend, const run_spec *spec, void *plan,        \
                                   neap_diag *diag)                                                \
    {                                                                                              \
        ((layer_plan *)plan)->rms = is_rms;                                                        \
        return plan_##direction(backend, spec, plan, diag);                                        \
    }

PLANS(layer_norm, forward, false)
PLANS(layer_norm_bw, backward, false)
PLANS(rms_norm, forward, true)
PLANS(rms_norm_bw, backward, true)

CUDA_OP(layer_norm, {.plan_bytes = sizeof(layer_plan),
                     .plan = plan_layer_norm,
                     .run = run_forward,
                     .check = check_forward})
CUDA_OP(layer_norm_bw, {.plan_bytes = sizeof(layer_plan),
                        .plan = plan_layer_norm_bw,
                        .run = run_backward,
                        .workspace = backward_workspace,
                        .check = check_backward})
CUDA_OP(rms_norm, {.plan_bytes = sizeof(layer_plan),
                   .plan = plan_rms_norm,
                   .run = run_forward,
                   .check = check_rms_types})
CUDA_OP(rms_norm_bw, {.plan_bytes = sizeof(layer_plan),
                      .plan = plan_rms_norm_bw,
                      .run = run_backward,
                      .workspace = backward_workspace,
                      .check = check_rms_bw_types})
