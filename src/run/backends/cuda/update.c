/* Steps of optimizers, running statistics, and the norm of gradients. */
#include "run/update.h"

#include "base/fail.h"
#include "base/memory.h"
#include "run/backends/cuda/cuda.h"
#include "run/backends/cuda/kernels/update.h"

#include <string.h>

static i32 type_of(neap_dtype dtype)
{
    switch (dtype) {
    case NEAP_BF16:
        return UPDATE_BF16;
    case NEAP_F16:
        return UPDATE_F16;
    case NEAP_F64:
        return UPDATE_F64;
    default:
        return UPDATE_F32;
    }
}

static update_operand operand_of(const run_array *array)
{
    update_operand o = {.type = type_of(array->dtype)};
    for (uint32_t d = 0; d < array->rank; d++)
        o.strides[d] = array->shape[d] > 1 ? array->strides[d] : 0;
    return o;
}

/* Kernels read and write elements of all types. */
static neap_status take_all(const run_spec *spec, neap_diag *diag)
{
    (void)spec;
    (void)diag;
    return NEAP_OK;
}

/* ---- Updates ---- */

enum { AT_WEIGHT, AT_GRADIENT, AT_STEP };

/* Every block computes powers first: no more blocks than a multiprocessor surely runs at once. */
enum { THREADS = 256, BLOCKS_AT_ONCE = 4 };

typedef struct update_plan {
    const cuda_function *plain, *strided;
    update_params params;
    uint32_t m, v, scale, master, sum; /* operands; 0: it has none */
    bool is_plain;                     /* all operands are, and of types that have vectors */
} update_plan;

static bool fits_plain(const run_array *array)
{
    return (array->dtype == NEAP_F32 || array->dtype == NEAP_BF16) &&
           neap_run_array_is_plain(array);
}

/* The case of neap_adam_update. */
static void plan_adam(const run_update *u, update_params *params)
{
    bool decays = u->adam.weight_decay != 0;
    params->adam = 1;
    params->beta1 = u->adam.beta1;
    params->beta2 = u->adam.beta2;
    params->epsilon = u->adam.epsilon;
    params->decoupled = u->adam.decoupled;
    params->near_end = 1 - u->adam.beta1 >= 0.5;
    params->keeps = params->near_end || (decays && u->adam.decoupled);
    params->decays = params->near_end || (decays && !u->adam.decoupled);
}

static neap_status plan_update(cuda_backend *backend, const run_spec *spec, void *plan,
                               neap_diag *diag)
{
    update_plan *made = plan;
    update_params *params = &made->params;
    const run_array *w = &spec->in[AT_WEIGHT];
    run_update u;
    neap_run_update_plan(spec, &u);
    made->m = u.moments[0];
    made->v = u.moments[1];
    made->scale = u.scale;
    made->master = u.master;
    made->sum = u.sum;
    params->elements = u.elements;
    params->rank = (i32)w->rank;
    for (uint32_t d = 0; d < w->rank; d++)
        params->shape[d] = w->shape[d];
    params->w = operand_of(w);
    params->g = operand_of(&spec->in[AT_GRADIENT]);
    params->step = operand_of(&spec->in[AT_STEP]);
    params->m = operand_of(&spec->in[made->m]);
    params->v = operand_of(&spec->in[made->v]);
    params->scale = operand_of(&spec->in[made->scale]);
    params->master = operand_of(&spec->in[made->master]);
    params->sum = operand_of(&spec->in[made->sum]);
    params->momentum = u.sgd.momentum;
    params->weight_decay = u.sgd.weight_decay;
    if (made->v)
        plan_adam(&u, params);
    made->is_plain = true;
    for (uint32_t i = 0; i < spec->op->n_inputs; i++)
        if (i != AT_STEP && (i != made->scale || i == 0))
            made->is_plain = made->is_plain && fits_plain(&spec->in[i]);
    NEAP_TRY(neap_cuda_find(backend, "update_plain", NEAP_F32, &made->plain, diag));
    return neap_cuda_find(backend, "update_strided", NEAP_F32, &made->strided, diag);
}

static void *operand_at(const run_args *args, uint32_t operand)
{
    return operand ? args->in[operand] : NULL;
}

static bool all_aligned(const update_params *params)
{
    const update_operand *all[] = {&params->w, &params->g,      &params->m,
                                   &params->v, &params->master, &params->sum};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!cuda_is_aligned(all[i]->at))
            return false;
    return true;
}

static neap_status run_update_op(cuda_backend *backend, const void *plan, const run_args *args,
                                 neap_diag *diag)
{
    const update_plan *planned = plan;
    update_params params = planned->params;
    params.w.at = args->in[AT_WEIGHT];
    params.g.at = args->in[AT_GRADIENT];
    params.step.at = args->in[AT_STEP];
    params.m.at = operand_at(args, planned->m);
    params.v.at = operand_at(args, planned->v);
    params.scale.at = operand_at(args, planned->scale);
    params.master.at = operand_at(args, planned->master);
    params.sum.at = operand_at(args, planned->sum);
    bool plain = planned->is_plain && all_aligned(&params);
    int64_t items = plain ? params.elements / UPDATE_WIDTH : params.elements;
    cuda_dims dims = neap_cuda_dims(backend, items, THREADS, 0);
    uint32_t most = (uint32_t)backend->platform->multiprocessors * BLOCKS_AT_ONCE;
    dims.blocks = dims.blocks < most ? dims.blocks : most;
    return CUDA_LAUNCH(backend, plain ? planned->plain : planned->strided, dims, &params, diag);
}

#define UPDATE_OP(type)                                                                            \
    CUDA_OP(type, {.plan_bytes = sizeof(update_plan),                                              \
                   .plan = plan_update,                                                            \
                   .run = run_update_op,                                                           \
                   .check = take_all})

UPDATE_OP(sgd)
UPDATE_OP(momentum)
UPDATE_OP(adam)
UPDATE_OP(adamw)

/* ---- Running statistics ---- */

typedef struct statistics_plan {
    const cuda_function *function;
    neap_allocator *allocator;
    statistics_params params; /* without a batch */
    uint32_t count;
    update_operand *operands; /* all inputs */
} statistics_plan;

static neap_status plan_statistics(cuda_backend *backend, const run_spec *spec, void *plan,
                                   neap_diag *diag)
{
    statistics_plan *made = plan;
    run_statistics s;
    neap_run_statistics_plan(spec, &s);
    made->allocator = backend->base.allocator;
    made->params =
        (statistics_params){.channels = s.channels, .momentum = s.momentum, .epsilon = s.epsilon};
    NEAP_TRY(NEAP_NEW(made->allocator, spec->op->n_inputs, &made->operands, diag));
    made->count = spec->op->n_inputs;
    for (uint32_t i = 0; i < made->count; i++)
        made->operands[i] = operand_of(&spec->in[i]);
    return neap_cuda_find(backend, "update_statistics", NEAP_F32, &made->function, diag);
}

static void clear_statistics(cuda_backend *backend, void *plan)
{
    statistics_plan *made = plan;
    (void)backend;
    NEAP_DELETE(made->allocator, made->count, made->operands);
}

static update_operand placed(const statistics_plan *plan, const run_args *args, uint32_t i)
{
    update_operand operand = plan->operands[i];
    operand.at = args->in[i];
    return operand;
}

/* A launch for each batch. */
static neap_status run_statistics_op(cuda_backend *backend, const void *plan, const run_args *args,
                                     neap_diag *diag)
{
    const statistics_plan *planned = plan;
    statistics_params params = planned->params;
    params.mean = placed(planned, args, 0);
    params.variance = placed(planned, args, 1);
    for (uint32_t i = 2; i < planned->count; i += 2) {
        params.batch_mean = placed(planned, args, i);
        params.invstd = placed(planned, args, i + 1);
        NEAP_TRY(CUDA_LAUNCH(backend, planned->function,
                             neap_cuda_dims(backend, params.channels, THREADS, 0), &params, diag));
    }
    return NEAP_OK;
}

CUDA_OP(running_stats, {.plan_bytes = sizeof(statistics_plan),
                        .plan = plan_statistics,
                        .run = run_statistics_op,
                        .clear = clear_statistics,
                        .check = take_all})

/* ---- The norm of gradients ---- */

typedef struct clip_gradient {
    run_array array;
    int64_t elements;
    bool is_plain;
} clip_gradient;

typedef struct clip_plan {
    const cuda_function *squares, *strided, *scale;
    neap_allocator *allocator;
    double norm;
    uint32_t count;
    clip_gradient *gradients;
} clip_plan;

static int64_t blocks_of(const run_array *array)
{
    return (neap_run_array_elements(array) + CLIP_BLOCK - 1) / CLIP_BLOCK;
}

static neap_status check_clip(const run_spec *spec, neap_diag *diag)
{
    if (spec->out[0].dtype != NEAP_F32)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "op \"%s\" (clip_norm): the cuda backend computes the scale in f32",
                         spec->op->name);
    return NEAP_OK;
}

static int64_t clip_workspace(const cuda_backend *backend, const run_spec *spec)
{
    int64_t blocks = 0;
    (void)backend;
    for (uint32_t i = 0; i < spec->op->n_inputs; i++)
        blocks += blocks_of(&spec->in[i]);
    return blocks * (int64_t)sizeof(double);
}

static neap_status plan_clip(cuda_backend *backend, const run_spec *spec, void *plan,
                             neap_diag *diag)
{
    clip_plan *made = plan;
    made->allocator = backend->base.allocator;
    made->norm = neap_run_spec_real(spec, "norm", 0);
    made->count = spec->op->n_inputs;
    NEAP_TRY(NEAP_NEW(made->allocator, made->count, &made->gradients, diag));
    for (uint32_t i = 0; i < made->count; i++)
        made->gradients[i] = (clip_gradient){.array = spec->in[i],
                                             .elements = neap_run_array_elements(&spec->in[i]),
                                             .is_plain = neap_run_array_is_dense(&spec->in[i])};
    NEAP_TRY(neap_cuda_find(backend, "clip_squares", NEAP_F32, &made->squares, diag));
    NEAP_TRY(neap_cuda_find(backend, "clip_squares_strided", NEAP_F32, &made->strided, diag));
    return neap_cuda_find(backend, "clip_scale", NEAP_F32, &made->scale, diag);
}

static void clear_clip(cuda_backend *backend, void *plan)
{
    clip_plan *made = plan;
    (void)backend;
    NEAP_DELETE(made->allocator, made->count, made->gradients);
}

static cuda_dims clip_dims(int64_t blocks)
{
    return (cuda_dims){.blocks = (uint32_t)blocks, .threads = CLIP_THREADS};
}

static neap_status sum_strided(cuda_backend *backend, const clip_plan *plan,
                               const clip_gradient *gradient, void *at, double *sums,
                               neap_diag *diag)
{
    clip_strided_params params = {.gradient = operand_of(&gradient->array),
                                  .elements = gradient->elements,
                                  .rank = (i32)gradient->array.rank,
                                  .sums = sums};
    for (uint32_t d = 0; d < gradient->array.rank; d++)
        params.shape[d] = gradient->array.shape[d];
    params.gradient.at = at;
    return CUDA_LAUNCH(backend, plan->strided, clip_dims(blocks_of(&gradient->array)), &params,
                       diag);
}

/* As many gradients without gaps as one launch takes, from *next on. */
static neap_status sum_plain(cuda_backend *backend, const clip_plan *plan, const run_args *args,
                             uint32_t *next, double *sums, int64_t *blocks, neap_diag *diag)
{
    clip_params params = {.sums = sums};
    int64_t sum = 0;
    for (; *next < plan->count && params.count < CLIP_BATCH; (*next)++) {
        const clip_gradient *g = &plan->gradients[*next];
        if (!g->is_plain || sum + blocks_of(&g->array) > INT32_MAX)
            break;
        params.at[params.count] = args->in[*next];
        params.elements[params.count] = g->elements;
        params.type[params.count] = type_of(g->array.dtype);
        sum += blocks_of(&g->array);
        params.first[++params.count] = (i32)sum;
    }
    *blocks = sum;
    return CUDA_LAUNCH(backend, plan->squares, clip_dims(sum), &params, diag);
}

static neap_status run_clip(cuda_backend *backend, const void *plan, const run_args *args,
                            neap_diag *diag)
{
    const clip_plan *planned = plan;
    double *sums = args->workspace;
    int64_t done = 0, blocks;
    for (uint32_t i = 0; i < planned->count; done += blocks) {
        const clip_gradient *gradient = &planned->gradients[i];
        if (gradient->is_plain) {
            NEAP_TRY(sum_plain(backend, planned, args, &i, sums + done, &blocks, diag));
            continue;
        }
        blocks = blocks_of(&gradient->array);
        NEAP_TRY(sum_strided(backend, planned, gradient, args->in[i++], sums + done, diag));
    }
    clip_scale_params params = {
        .sums = sums, .count = done, .scale = args->out[0], .norm = planned->norm};
    return CUDA_LAUNCH(backend, planned->scale, clip_dims(1), &params, diag);
}

CUDA_OP(clip_norm, {.plan_bytes = sizeof(clip_plan),
                    .plan = plan_clip,
                    .run = run_clip,
                    .workspace = clip_workspace,
                    .clear = clear_clip,
                    .check = check_clip})
