/* Bilinear resizing of images. */
#include "run/backends/cuda/kernels/resize.h"
#include "base/fail.h"
#include "run/backends/cuda/images.h"

typedef struct resize_plan {
    const cuda_function *scalar, *vector;
    resize_params params;
    image_walk walk, vector_walk;
    int width; /* channels of a vector */
    bool forward;
} resize_plan;

static image_divisor divisor_if_small(int64_t divisor)
{
    return neap_cuda_image_divisor(divisor > 0 && divisor <= INT32_MAX ? divisor : 1);
}

static resize_side side_of(int64_t inputs, int64_t outputs, bool align_corners)
{
    resize_side s = {.inputs = (i32)inputs, .outputs = (i32)outputs};
    if (align_corners) {
        s.scale = outputs > 1 ? inputs - 1 : 0;
        s.divisor = outputs > 1 ? outputs - 1 : 1;
    } else {
        s.scale = 2 * inputs;
        s.offset = inputs - outputs;
        s.divisor = 2 * outputs;
    }
    s.by_divisor = divisor_if_small(s.divisor);
    s.by_scale = divisor_if_small(s.scale);
    s.share = 1 / (float)s.divisor;
    return s;
}

static neap_status plan_resize(cuda_backend *backend, const run_spec *spec, const run_array *x,
                               const run_array *y, const char *const names[2], resize_plan *plan,
                               neap_diag *diag)
{
    bool align_corners = neap_run_spec_int(spec, "align_corners", 0) != 0;
    plan->forward = y == &spec->out[0];
    plan->width = neap_cuda_image_vector(x, y);
    plan->walk = neap_cuda_image_walk(&spec->out[0], 1);
    plan->vector_walk = neap_cuda_image_walk(&spec->out[0], plan->width);
    plan->params = (resize_params){
        .x_strides = neap_cuda_image_strides(x),
        .y_strides = neap_cuda_image_strides(y),
        .h = side_of(x->shape[2], y->shape[2], align_corners),
        .w = side_of(x->shape[3], y->shape[3], align_corners),
    };
    NEAP_TRY(neap_cuda_find(backend, names[0], neap_cuda_type(spec), &plan->scalar, diag));
    return neap_cuda_find(backend, names[1], neap_cuda_type(spec), &plan->vector, diag);
}

static neap_status plan_forward(cuda_backend *backend, const run_spec *spec, void *plan,
                                neap_diag *diag)
{
    static const char *const names[2] = {"resize_forward", "resize_forward_vector"};
    return plan_resize(backend, spec, &spec->in[0], &spec->out[0], names, plan, diag);
}

static neap_status plan_backward(cuda_backend *backend, const run_spec *spec, void *plan,
                                 neap_diag *diag)
{
    static const char *const names[2] = {"resize_backward", "resize_backward_vector"};
    return plan_resize(backend, spec, &spec->out[0], &spec->in[0], names, plan, diag);
}

static neap_status run_resize(cuda_backend *backend, const void *plan, const run_args *args,
                              neap_diag *diag)
{
    const resize_plan *planned = plan;
    resize_params params = planned->params;
    params.x = planned->forward ? args->in[0] : args->out[0];
    params.y = planned->forward ? args->out[0] : args->in[0];
    bool vectors = planned->width > 1 && cuda_is_aligned(params.x) && cuda_is_aligned(params.y);
    params.walk = vectors ? planned->vector_walk : planned->walk;
    return CUDA_LAUNCH(backend, vectors ? planned->vector : planned->scalar,
                       neap_cuda_image_dims(backend, params.walk.items), &params, diag);
}

CUDA_OP(upsample, {.plan_bytes = sizeof(resize_plan),
                   .plan = plan_forward,
                   .run = run_resize,
                   .check = neap_cuda_check_images})
CUDA_OP(upsample_bw, {.plan_bytes = sizeof(resize_plan),
                      .plan = plan_backward,
                      .run = run_resize,
                      .check = neap_cuda_check_images})
