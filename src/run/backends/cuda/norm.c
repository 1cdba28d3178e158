/*
 * Batch and group normalisation: kernels/norm.h.
 *
 * Forward is three launches: sums of blocks, statistics, the result. Backward is sums, gradients
 * of gamma and beta, for groups the coefficients of dx, and dx. How rows are divided among blocks
 * depends on shapes and strides alone.
 */
#include "run/backends/cuda/kernels/norm.h"

#include "run/backends/cuda/operands.h"

#define COLUMN_BLOCKS 528  /* four on each multiprocessor of the largest devices */
#define PLANE_BLOCKS  1056 /* warps take segments: more blocks are more even */
#define LEAST_ROWS    8    /* of a thread, for which another block is worth it */

typedef struct norm_plan {
    const cuda_function *sums[2], *apply[2]; /* with vectors; for any addresses and strides */
    const cuda_function *finish, *group_finish;
    norm_params params;   /* without addresses */
    cuda_dims dims;       /* of sums and apply */
    int64_t coefficients; /* where they begin in the workspace, in floats: a multiple of 16 */
    bool planes;
    bool whole; /* vectors can be read if addresses allow it */
    bool data;  /* backward with dx */
} norm_plan;

/* ---- Layouts ---- */

/* The pixels of an image follow each other, and there are some. */
static bool has_planes(const run_array *array)
{
    row_walk inner = neap_cuda_row_walk(array, 2, array->rank);
    return inner.rank == 1 && inner.count > 1 && inner.stride[0] == 1;
}

static bool has_columns(const run_array *array, const norm_array *a)
{
    return neap_cuda_step(array, 1) == 1 && a->rows.rank == 1;
}

static norm_array norm_array_of(const run_array *array, bool by_image)
{
    return (norm_array){.set = by_image ? array->strides[0] : 0,
                        .channel = neap_cuda_step(array, 1),
                        .rows = neap_cuda_row_walk(array, by_image ? 1 : 0, 1),
                        .plane = by_image ? 0 : array->strides[0]};
}

/* Whether vectors can be read from everywhere if addresses allow it. */
static bool allows_vectors(const norm_plan *plan, const norm_array *a, int64_t vector)
{
    const norm_params *p = &plan->params;
    if (p->sets > 1 && a->set % vector != 0)
        return false;
    if (!plan->planes)
        return a->channel == 1 && a->rows.rank == 1 && neap_cuda_rows_are_whole(&a->rows, vector);
    return (p->channels == 1 || a->channel % vector == 0) &&
           (p->images == 1 || a->plane % vector == 0);
}

static int64_t between(int64_t x, int64_t least, int64_t most)
{
    x = x < most ? x : most;
    return x > least ? x : least;
}

static int64_t quotient_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static void divide_columns(norm_plan *plan, int64_t vector)
{
    norm_params *p = &plan->params;
    while (p->lanes_log2 < 5 && (vector << p->lanes_log2) < p->channels)
        p->lanes_log2++;
    int64_t lines = NORM_THREADS >> p->lanes_log2;
    int64_t tiles = quotient_up(p->channels, vector << p->lanes_log2);
    p->chunks = (i32)between(COLUMN_BLOCKS / (tiles * p->sets), 1,
                             quotient_up(p->rows, lines * LEAST_ROWS));
    plan->dims.blocks = (uint32_t)tiles;
}

static void divide_planes(norm_plan *plan, int64_t vector)
{
    norm_params *p = &plan->params;
    p->segments = (i32)quotient_up(p->plane, NORM_SEGMENT);
    p->vectors = p->plane % vector == 0;
    p->chunks = (i32)between(quotient_up(PLANE_BLOCKS, p->channels * p->sets), 1,
                             quotient_up(p->images * p->segments, NORM_THREADS / 32));
    plan->dims.blocks = (uint32_t)p->channels;
}

/* Sizes and how they are divided, from operands x and, if they are there, dy and out. */
static void plan_layout(norm_plan *plan, const run_spec *spec, const run_array *x,
                        const run_array *dy, const run_array *out)
{
    norm_params *p = &plan->params;
    int64_t groups = neap_run_spec_int(spec, "groups", 0);
    int64_t vector = cuda_vector(neap_cuda_type(spec)), elements = neap_run_array_elements(x);
    bool by_image = groups > 0;
    p->sets = by_image ? x->shape[0] : 1;
    p->channels = x->shape[1];
    p->rows = elements / p->channels / p->sets;
    p->groups = by_image ? groups : p->channels;
    p->width = p->channels / p->groups;
    p->images = by_image ? 1 : x->shape[0];
    p->plane = p->rows / p->images;
    p->x_at = norm_array_of(x, by_image);
    p->dy_at = dy ? norm_array_of(dy, by_image) : p->x_at;
    p->out_at = out ? norm_array_of(out, by_image) : p->x_at;
    bool columns = p->channels >= vector && has_columns(x, &p->x_at) &&
                   (!dy || has_columns(dy, &p->dy_at)) && (!out || has_columns(out, &p->out_at));
    plan->planes =
        !columns && has_planes(x) && (!dy || has_planes(dy)) && (!out || has_planes(out));
    plan->dims = (cuda_dims){.threads = NORM_THREADS};
    if (plan->planes)
        divide_planes(plan, vector);
    else
        divide_columns(plan, vector);
    plan->whole = (plan->planes ? p->vectors : p->channels % vector == 0) &&
                  allows_vectors(plan, &p->x_at, vector) &&
                  allows_vectors(plan, &p->dy_at, vector) &&
                  allows_vectors(plan, &p->out_at, vector);
    plan->coefficients = p->sets * p->chunks * p->channels * (dy ? 2 : 3);
    plan->coefficients = (plan->coefficients + 15) / 16 * 16;
    plan->dims.blocks_y = (uint32_t)p->chunks;
    plan->dims.blocks_z = (uint32_t)between(p->sets, 1, 65535);
}

/* Partials, then coefficients. */
static int64_t workspace_bytes(const norm_plan *plan)
{
    const norm_params *p = &plan->params;
    return (plan->coefficients + NORM_COEFFICIENTS * p->sets * p->channels) *
           (int64_t)sizeof(float);
}

/* ---- Finishing ---- */

/* A block for NORM_FINISH channels, with as many lines as there are parts to add, up to a limit. */
static cuda_dims channel_dims(const norm_params *p)
{
    uint32_t threads = 32;
    while (threads < 1024 && threads < p->chunks * p->sets * NORM_FINISH)
        threads *= 2;
    return (cuda_dims){.blocks = (uint32_t)quotient_up(p->channels, NORM_FINISH),
                       .threads = threads};
}

static cuda_dims group_dims(const norm_params *p)
{
    uint32_t threads = 32;
    while (threads < 256 && threads < p->chunks * p->width)
        threads *= 2;
    return (cuda_dims){.blocks = (uint32_t)(p->sets * p->groups), .threads = threads};
}

static int64_t step_of(const run_array *array, uint32_t dim)
{
    return dim < array->rank ? array->strides[dim] : 0;
}

/* Statistics have a place for each channel, or for each image and group. */
static void plan_statistics(norm_params *p, const run_array *mean, const run_array *invstd)
{
    bool by_image = mean->rank == 2;
    for (uint32_t i = 0; i < 2; i++) {
        p->mean_step[i] = by_image ? mean->strides[i] : i ? step_of(mean, 0) : 0;
        p->invstd_step[i] = by_image ? invstd->strides[i] : i ? step_of(invstd, 0) : 0;
    }
}

/* Kernels by their names for columns, of which those for planes and for any strides follow. */
typedef struct norm_names {
    const char *sums[2][2], *apply[2][2], *finish, *group_finish;
} norm_names;

static neap_status find_all(cuda_backend *backend, const run_spec *spec, norm_plan *plan,
                            const norm_names *names, neap_diag *diag)
{
    neap_dtype type = neap_cuda_type(spec);
    bool groups = neap_run_spec_int(spec, "groups", 0) > 0;
    neap_status status = neap_cuda_find(backend, names->finish, type, &plan->finish, diag);
    for (int any = 0; any < 2 && status == NEAP_OK; any++) {
        const char *sums = names->sums[plan->planes][any], *apply = names->apply[plan->planes][any];
        status = neap_cuda_find(backend, sums, type, &plan->sums[any], diag);
        if (status == NEAP_OK)
            status = neap_cuda_find(backend, apply, type, &plan->apply[any], diag);
    }
    if (status == NEAP_OK && groups)
        status = neap_cuda_find(backend, names->group_finish, type, &plan->group_finish, diag);
    return status;
}

/* ---- Forward ---- */

static int64_t forward_workspace(const cuda_backend *backend, const run_spec *spec)
{
    (void)backend;
    norm_plan plan = {0};
    plan_layout(&plan, spec, &spec->in[0], NULL, &spec->out[0]);
    return workspace_bytes(&plan);
}

static neap_status plan_forward(cuda_backend *backend, const run_spec *spec, void *plan,
                                neap_diag *diag)
{
    static const norm_names names = {.sums = {{"norm_moments_columns", "norm_moments_columns_any"},
                                              {"norm_moments_planes", "norm_moments_planes_any"}},
                                     .apply = {{"norm_apply_columns", "norm_apply_columns_any"},
                                               {"norm_apply_planes", "norm_apply_planes_any"}},
                                     .finish = "norm_statistics",
                                     .group_finish = "group_statistics"};
    norm_plan *made = plan;
    norm_params *p = &made->params;
    plan_layout(made, spec, &spec->in[0], NULL, &spec->out[0]);
    plan_statistics(p, &spec->out[1], &spec->out[2]);
    p->gamma_step = spec->in[1].strides[0];
    p->beta_step = spec->in[2].strides[0];
    p->epsilon = (float)neap_run_spec_real(spec, "epsilon", 1e-5);
    return find_all(backend, spec, made, &names, diag);
}

static neap_status run_forward(cuda_backend *backend, const void *plan, const run_args *args,
                               neap_diag *diag)
{
    const norm_plan *planned = plan;
    norm_params p = planned->params;
    p.x = args->in[0];
    p.gamma = args->in[1];
    p.beta = args->in[2];
    p.out = args->out[0];
    p.mean = args->out[1];
    p.invstd = args->out[2];
    p.partials = args->workspace;
    p.coefficients = p.partials + planned->coefficients;
    bool any = !planned->whole || !cuda_is_aligned(p.x) || !cuda_is_aligned(p.out);
    neap_status status = CUDA_LAUNCH(backend, planned->sums[any], planned->dims, &p, diag);
    if (status == NEAP_OK && planned->group_finish)
        status = CUDA_LAUNCH(backend, planned->group_finish, group_dims(&p), &p, diag);
    else if (status == NEAP_OK)
        status = CUDA_LAUNCH(backend, planned->finish, channel_dims(&p), &p, diag);
    if (status == NEAP_OK)
        status = CUDA_LAUNCH(backend, planned->apply[any], planned->dims, &p, diag);
    return status;
}

/* ---- Backward ---- */

static bool wants_data(const run_spec *spec)
{
    return spec->op->n_outputs == 3;
}

static int64_t backward_workspace(const cuda_backend *backend, const run_spec *spec)
{
    (void)backend;
    norm_plan plan = {0};
    plan_layout(&plan, spec, &spec->in[1], &spec->in[0], wants_data(spec) ? &spec->out[0] : NULL);
    return workspace_bytes(&plan);
}

static neap_status plan_backward(cuda_backend *backend, const run_spec *spec, void *plan,
                                 neap_diag *diag)
{
    static const norm_names names = {
        .sums = {{"norm_products_columns", "norm_products_columns_any"},
                 {"norm_products_planes", "norm_products_planes_any"}},
        .apply = {{"norm_dx_columns", "norm_dx_columns_any"},
                  {"norm_dx_planes", "norm_dx_planes_any"}},
        .finish = "norm_gradients",
        .group_finish = "group_coefficients"};
    norm_plan *made = plan;
    norm_params *p = &made->params;
    bool data = made->data = wants_data(spec);
    plan_layout(made, spec, &spec->in[1], &spec->in[0], data ? &spec->out[0] : NULL);
    plan_statistics(p, &spec->in[data ? 3 : 2], &spec->in[data ? 4 : 3]);
    p->gamma_step = data ? spec->in[2].strides[0] : 0;
    p->dgamma_step = spec->out[data ? 1 : 0].strides[0];
    p->dbeta_step = spec->out[data ? 2 : 1].strides[0];
    p->coefficients_wanted = data && neap_run_spec_int(spec, "groups", 0) == 0;
    return find_all(backend, spec, made, &names, diag);
}

static neap_status run_backward(cuda_backend *backend, const void *plan, const run_args *args,
                                neap_diag *diag)
{
    const norm_plan *planned = plan;
    norm_params p = planned->params;
    int data = planned->data;
    p.dy = args->in[0];
    p.x = args->in[1];
    p.gamma = data ? args->in[2] : NULL;
    p.mean = args->in[2 + data];
    p.invstd = args->in[3 + data];
    p.out = data ? args->out[0] : NULL;
    p.dgamma = args->out[data];
    p.dbeta = args->out[1 + data];
    p.partials = args->workspace;
    p.coefficients = p.partials + planned->coefficients;
    bool any = !planned->whole || !cuda_is_aligned(p.x) || !cuda_is_aligned(p.dy) ||
               !cuda_is_aligned(p.out);
    neap_status status = CUDA_LAUNCH(backend, planned->sums[any], planned->dims, &p, diag);
    if (status == NEAP_OK)
        status = CUDA_LAUNCH(backend, planned->finish, channel_dims(&p), &p, diag);
    if (status == NEAP_OK && data && planned->group_finish)
        status = CUDA_LAUNCH(backend, planned->group_finish, group_dims(&p), &p, diag);
    if (status == NEAP_OK && data)
        status = CUDA_LAUNCH(backend, planned->apply[any], planned->dims, &p, diag);
    return status;
}

/* ---- The ops ---- */

static neap_status check_forward(const run_spec *spec, neap_diag *diag)
{
    return neap_cuda_check_mix(spec, 0, 1u << 1 | 1u << 2, diag);
}

static neap_status check_backward(const run_spec *spec, neap_diag *diag)
{
    return neap_cuda_check_mix(spec, wants_data(spec) ? 3u << 3 : 3u << 2, 0, diag);
}

#define NORM_OPS(type)                                                                             \
    CUDA_OP(type, {.plan_bytes = sizeof(norm_plan),                                                \
                   .plan = plan_forward,                                                           \
                   .run = run_forward,                                                             \
                   .workspace = forward_workspace,                                                 \
                   .check = check_forward})                                                        \
    CUDA_OP(type##_bw, {.plan_bytes = sizeof(norm_plan),                                           \
                        .plan = plan_backward,                                                     \
                        .run = run_backward,                                                       \
                        .workspace = backward_workspace,                                           \
                        .check = check_backward})

NORM_OPS(batch_norm)
NORM_OPS(group_norm)
