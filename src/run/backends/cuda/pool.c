/*
 * Pooling and max-unpooling of images. Threads take a vector of channels where images are
 * channels-last, else one element.
 */
#include "run/backends/cuda/kernels/pool.h"
#include "base/fail.h"
#include "run/backends/cuda/images.h"

#include <stdio.h>

typedef struct pool_plan {
    const cuda_function *scalar, *vector;
    pool_params params;
    image_walk walk, vector_walk;
    int width;            /* channels of a vector; 1: there is no kernel with vectors */
    bool indices_in_rows; /* u8 indices in vectors, if their address allows it */
    bool needs_packed;    /* vectors are for such indices only */
    bool forward;         /* the result is the pooled image */
    bool checks;          /* the kernel checks indices */
    char name[64];
} pool_plan;

/* ---- Planning ---- */

static pool_side side_of(const run_spec *spec, const run_array *image, const run_array *pooled,
                         uint32_t d)
{
    int64_t stride = neap_run_spec_int(spec, d == 2 ? "stride_h" : "stride_w", 1);
    return (pool_side){
        .image = (i32)image->shape[d],
        .pooled = (i32)pooled->shape[d],
        .kernel = (i32)neap_run_spec_int(spec, d == 2 ? "kernel_h" : "kernel_w", 1),
        .stride = (i32)stride,
        .pad = (i32)neap_run_spec_int(spec, d == 2 ? "pad_h" : "pad_w", 0),
        .by_stride = neap_cuda_image_divisor(stride),
        .by_image = neap_cuda_image_divisor(image->shape[d]),
        .by_pooled = neap_cuda_image_divisor(pooled->shape[d]),
    };
}

/* That hold one position. */
static i32 most_windows(const pool_side *side)
{
    return (side->kernel + side->stride - 1) / side->stride;
}

static void plan_indices(const run_array *indices, pool_plan *plan)
{
    image_strides s = neap_cuda_image_strides(indices);
    plan->params.indices = s;
    plan->params.index_type = indices->dtype == NEAP_U8    ? POOL_U8
                              : indices->dtype == NEAP_I32 ? POOL_I32
                                                           : POOL_I64;
    plan->indices_in_rows = indices->dtype == NEAP_U8 && s.c == 1 && s.n % plan->width == 0 &&
                            s.h % plan->width == 0 && s.w % plan->width == 0;
}

/* What all have in common. `kernel` is the name of the kernel of single elements; with `vectors`
   there is another. */
static neap_status plan_pool(cuda_backend *backend, const run_spec *spec, const run_array *image,
                             const run_array *pooled, const run_array *indices, const char *kernel,
                             bool vectors, pool_plan *plan, neap_diag *diag)
{
    const run_array *result = &spec->out[0];
    char name[64];
    plan->width = vectors ? neap_cuda_image_vector(image, pooled) : 1;
    plan->forward = result == pooled;
    plan->walk = neap_cuda_image_walk(result, 1);
    plan->vector_walk = neap_cuda_image_walk(result, plan->width);
    plan->params = (pool_params){
        .image = neap_cuda_image_strides(image),
        .pooled = neap_cuda_image_strides(pooled),
        .h = side_of(spec, image, pooled, 2),
        .w = side_of(spec, image, pooled, 3),
        .count_padding = neap_run_spec_int(spec, "count_include_pad", 0) != 0,
        .adaptive = neap_run_spec_int(spec, "kernel_h", 0) == 0,
        .channels = (i32)image->shape[1],
        .trouble = backend->platform->trouble,
    };
    plan->params.most_windows = most_windows(&plan->params.h);
    if (most_windows(&plan->params.w) > plan->params.most_windows)
        plan->params.most_windows = most_windows(&plan->params.w);
    snprintf(plan->name, sizeof plan->name, "%s", spec->op->name);
    if (indices)
        plan_indices(indices, plan);
    NEAP_TRY(neap_cuda_find(backend, kernel, neap_cuda_type(spec), &plan->scalar, diag));
    if (!vectors)
        return NEAP_OK;
    snprintf(name, sizeof name, "%s_vector", kernel);
    return neap_cuda_find(backend, name, neap_cuda_type(spec), &plan->vector, diag);
}

static neap_status plan_max_pool(cuda_backend *backend, const run_spec *spec, void *plan,
                                 neap_diag *diag)
{
    return plan_pool(backend, spec, &spec->in[0], &spec->out[0], &spec->out[1], "max_pool", true,
                     plan, diag);
}

static neap_status plan_max_pool_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                                    neap_diag *diag)
{
    pool_plan *made = plan;
    NEAP_TRY(plan_pool(backend, spec, &spec->out[0], &spec->in[0], &spec->in[1], "max_scatter",
                       true, plan, diag));
    made->needs_packed = true;
    if (made->params.most_windows > 2)
        made->width = 1;
    return NEAP_OK;
}

/* Indices in windows make it the gradient of max pooling. */
static neap_status plan_max_unpool(cuda_backend *backend, const run_spec *spec, void *plan,
                                   neap_diag *diag)
{
    pool_plan *made = plan;
    if (spec->in[1].dtype != NEAP_I64)
        return plan_max_pool_bw(backend, spec, plan, diag);
    NEAP_TRY(plan_pool(backend, spec, &spec->out[0], &spec->in[0], &spec->in[1],
                       "max_unpool_planes", false, plan, diag));
    made->walk.items = spec->out[0].shape[0] * spec->out[0].shape[1];
    made->checks = true;
    return NEAP_OK;
}

static neap_status plan_max_unpool_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                                      neap_diag *diag)
{
    pool_plan *made = plan;
    NEAP_TRY(plan_pool(backend, spec, &spec->in[0], &spec->out[0], &spec->in[1], "max_unpool_bw",
                       true, plan, diag));
    made->checks = true;
    made->needs_packed = true;
    if (made->params.h.kernel != 2 || made->params.w.kernel != 2)
        made->width = 1;
    return NEAP_OK;
}

static neap_status plan_mean_pool(cuda_backend *backend, const run_spec *spec, void *plan,
                                  neap_diag *diag)
{
    return plan_pool(backend, spec, &spec->in[0], &spec->out[0], NULL, "mean_pool", true, plan,
                     diag);
}

static neap_status plan_mean_pool_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                                     neap_diag *diag)
{
    return plan_pool(backend, spec, &spec->out[0], &spec->in[0], NULL, "mean_pool_bw", true, plan,
                     diag);
}

/* ---- Running ---- */

static neap_status launch(cuda_backend *backend, const pool_plan *plan, void *image, void *pooled,
                          void *indices, neap_diag *diag)
{
    pool_params params = plan->params;
    params.packed = plan->indices_in_rows && (uintptr_t)indices % (uintptr_t)plan->width == 0;
    bool vectors = plan->width > 1 && cuda_is_aligned(image) && cuda_is_aligned(pooled) &&
                   (params.packed || !plan->needs_packed);
    params.walk = vectors ? plan->vector_walk : plan->walk;
    params.image_at = image;
    params.pooled_at = pooled;
    params.indices_at = indices;
    NEAP_TRY(CUDA_LAUNCH(backend, vectors ? plan->vector : plan->scalar,
                         neap_cuda_image_dims(backend, params.walk.items), &params, diag));
    return plan->checks ? neap_cuda_check_indices(backend, plan->name, diag) : NEAP_OK;
}

/* Pooling, and its gradient without indices. */
static neap_status run_pool(cuda_backend *backend, const void *plan, const run_args *args,
                            neap_diag *diag)
{
    const pool_plan *planned = plan;
    void *in = args->in[0], *out = args->out[0];
    return planned->forward ? launch(backend, planned, in, out, NULL, diag)
                            : launch(backend, planned, out, in, NULL, diag);
}

static neap_status run_max_pool(cuda_backend *backend, const void *plan, const run_args *args,
                                neap_diag *diag)
{
    return launch(backend, plan, args->in[0], args->out[0], args->out[1], diag);
}

/* Where the indices are read. */
static neap_status run_indexed(cuda_backend *backend, const void *plan, const run_args *args,
                               neap_diag *diag)
{
    const pool_plan *planned = plan;
    void *in = args->in[0], *out = args->out[0];
    return planned->forward ? launch(backend, planned, in, out, args->in[1], diag)
                            : launch(backend, planned, out, in, args->in[1], diag);
}

#define POOL_OP(type, plan_function, run_function)                                                 \
    CUDA_OP(type, {.plan_bytes = sizeof(pool_plan),                                                \
                   .plan = plan_function,                                                          \
                   .run = run_function,                                                            \
                   .check = neap_cuda_check_images})

POOL_OP(max_pool2d, plan_max_pool, run_max_pool)
POOL_OP(max_pool2d_bw, plan_max_pool_bw, run_indexed)
POOL_OP(max_unpool2d, plan_max_unpool, run_indexed)
POOL_OP(max_unpool2d_bw, plan_max_unpool_bw, run_indexed)
POOL_OP(avg_pool2d, plan_mean_pool, run_pool)
POOL_OP(avg_pool2d_bw, plan_mean_pool_bw, run_pool)
POOL_OP(adaptive_avg_pool2d, plan_mean_pool, run_pool)
POOL_OP(adaptive_avg_pool2d_bw, plan_mean_pool_bw, run_pool)
