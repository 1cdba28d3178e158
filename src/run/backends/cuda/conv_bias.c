/* Biases: their gradients, and adding them (and a ReLU) to what a library computed. */
#include "base/fail.h"
#include "run/backends/cuda/conv.h"

/* ---- Gradients ---- */

/* Vectors of channels that a block sums side by side. */
static int64_t lanes_of(const run_array *image)
{
    int64_t vectors = image->shape[1] * neap_dtype_bytes(image->dtype) / 16, lanes = 1;
    while (lanes < vectors && lanes < 32)
        lanes *= 2;
    return lanes;
}

static int64_t channel_blocks(const run_array *image)
{
    return conv_divide_up(image->shape[1] * neap_dtype_bytes(image->dtype) / 16, lanes_of(image));
}

static int64_t part_pixels(const run_array *image, bool vectors)
{
    int64_t pixels = conv_pixels(image);
    int64_t parts = vectors ? neap_conv_parts(pixels, channel_blocks(image), CONV_MANY_BLOCKS,
                                              8 * CONV_THREADS / lanes_of(image))
                            : neap_conv_parts(pixels, image->shape[1], CONV_MANY_BLOCKS, 2048);
    return conv_divide_up(pixels, parts);
}

static int64_t parts_of(const run_array *image, bool vectors)
{
    return conv_divide_up(conv_pixels(image), part_pixels(image, vectors));
}

int64_t neap_conv_bias_workspace(const conv_problem *problem)
{
    const run_array *image = &problem->biased;
    if (!problem->bias || problem->target != CONV_W)
        return 0;
    int64_t parts = parts_of(image, false);
    if (neap_conv_has_vectors(image, true) && parts_of(image, true) > parts)
        parts = parts_of(image, true);
    return parts * image->shape[1] * (int64_t)sizeof(float);
}

static conv_bias_params params_for(const run_array *image, bool vectors)
{
    conv_bias_params p = {.pixels = conv_pixels(image),
                          .part_pixels = part_pixels(image, vectors),
                          .channels = (i32)image->shape[1],
                          .h = (i32)image->shape[2],
                          .w = (i32)image->shape[3],
                          .lanes = (i32)lanes_of(image)};
    neap_conv_strides(image, p.strides);
    if (vectors)
        p.strides[3] = image->shape[1];
    return p;
}

neap_status neap_conv_bias_plan(cuda_backend *backend, const conv_problem *problem,
                                conv_bias_plan *plan, neap_diag *diag)
{
    const run_array *image = &problem->biased;
    int64_t channels = image->shape[1];
    plan->any_params = params_for(image, false);
    plan->any_dims = (cuda_dims){.blocks = (uint32_t)channels,
                                 .blocks_y = (uint32_t)parts_of(image, false),
                                 .threads = CONV_THREADS};
    plan->sum_params = (conv_sum_params){.count = channels,
                                         .strides = {1},
                                         .n_parts = (i32)plan->any_dims.blocks_y,
                                         .kernel_h = 1,
                                         .kernel_w = 1,
                                         .channels = 1};
    plan->sum_dims = (cuda_dims){.blocks = (uint32_t)conv_divide_up(channels, CONV_SUM_ELEMENTS),
                                 .threads = CONV_SUM_ELEMENTS * CONV_SUM_LANES};
    NEAP_TRY(neap_cuda_find(backend, "conv_sum_parts", problem->type, &plan->sum, diag));
    NEAP_TRY(neap_cuda_find(backend, "conv_bias_any", problem->type, &plan->any, diag));
    if (!neap_conv_has_vectors(image, true))
        return NEAP_OK;
    plan->vector_params = params_for(image, true);
    plan->vector_parts = (i32)parts_of(image, true);
    plan->vector_dims = (cuda_dims){.blocks = (uint32_t)channel_blocks(image),
                                    .blocks_y = (uint32_t)plan->vector_parts,
                                    .threads = CONV_THREADS};
    return neap_cuda_find(backend, "conv_bias_vectors", problem->type, &plan->vectors, diag);
}

neap_status neap_conv_bias_run(cuda_backend *backend, const conv_bias_plan *plan,
                               const run_args *args, neap_diag *diag)
{
    bool vectors = plan->vectors && cuda_is_aligned(args->in[0]);
    conv_bias_params params = vectors ? plan->vector_params : plan->any_params;
    conv_sum_params sum = plan->sum_params;
    params.dy = args->in[0];
    params.parts = args->workspace;
    sum.parts = args->workspace;
    sum.out = args->out[1];
    if (vectors)
        sum.n_parts = plan->vector_parts;
    NEAP_TRY(CUDA_LAUNCH(backend, vectors ? plan->vectors : plan->any,
                         vectors ? plan->vector_dims : plan->any_dims, &params, diag));
    return CUDA_LAUNCH(backend, plan->sum, plan->sum_dims, &sum, diag);
}

/* ---- Adding ---- */

neap_status neap_conv_finish_plan(cuda_backend *backend, const conv_problem *problem,
                                  conv_finish_plan *plan, neap_diag *diag)
{
    const run_array *image = &problem->biased;
    int64_t elements = neap_run_array_elements(image);
    int64_t vector = 16 / neap_dtype_bytes(image->dtype);
    plan->params = (conv_finish_params){.elements = elements,
                                        .channels = (i32)image->shape[1],
                                        .h = (i32)image->shape[2],
                                        .w = (i32)image->shape[3],
                                        .relu = problem->relu};
    plan->bias = problem->bias;
    neap_conv_strides(image, plan->params.strides);
    plan->any_dims = neap_cuda_dims(backend, elements, 256, 8);
    plan->vector_dims = neap_cuda_dims(backend, elements / vector, 256, 8);
    NEAP_TRY(neap_cuda_find(backend, "conv_finish_any", problem->type, &plan->any, diag));
    if (!neap_conv_has_vectors(image, true))
        return NEAP_OK;
    return neap_cuda_find(backend, "conv_finish_vectors", problem->type, &plan->vectors, diag);
}

neap_status neap_conv_finish_run(cuda_backend *backend, const conv_finish_plan *plan,
                                 const run_args *args, neap_diag *diag)
{
    conv_finish_params params = plan->params;
    params.out = args->out[0];
    params.bias = plan->bias ? args->in[2] : NULL;
    bool vectors = plan->vectors && cuda_is_aligned(params.out) &&
                   (!params.bias || cuda_is_aligned(params.bias));
    return CUDA_LAUNCH(backend, vectors ? plan->vectors : plan->any,
                       vectors ? plan->vector_dims : plan->any_dims, &params, diag);
}
