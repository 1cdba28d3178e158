/*
 * Convolutions and transposed convolutions, in all directions, on oneDNN's convolution.
 *
 * Images lie channels-last and are used as they are. Weights are row-major (K x C x kh x kw) in the
 * graph and copied into the implementation's own layout at every run; they are small beside the
 * images.
 *
 * A transposed convolution from x to y is the gradient of a convolution from y to x: forward is
 * that one's backward, with the same weights [C, K, kh, kw].
 *
 * Variants are the library's direct implementations of the processor's best instruction set, and
 * Winograd's algorithm for 3 x 3 kernels, which takes 2.25 times fewer multiplications on images
 * blocked by channels: copies of them, in the workspace. A few images are done at a time, so that
 * the copies are small and are read from the cache.
 */
#include "base/fail.h"
#include "run/backends/onednn/dnnl_call.h"

#include <string.h>

#define MOST_CHOICES 4

typedef struct conv_side {
    dnnl_problem_kind kind;
    bool transposed;
    bool src_is_result, weights_is_result, dst_is_result;
    uint32_t src, weights, dst; /* index among operands or results */
} conv_side;

/* ---- Layouts ---- */

static dnnl_layout channels_last(const run_array *array)
{
    run_array like = *array;
    neap_run_array_set_channels_last(&like);
    dnnl_layout layout = {.rank = 4};
    memcpy(layout.shape, like.shape, 4 * sizeof *like.shape);
    memcpy(layout.strides, like.strides, 4 * sizeof *like.strides);
    return layout;
}

/* As it lies; strides of extents of 1 mean nothing and are made to look channels-last. */
static dnnl_layout image(const run_array *array)
{
    dnnl_layout layout = channels_last(array);
    if (!neap_run_array_is_channels_last(array))
        for (int d = 0; d < 4; d++)
            if (array->shape[d] > 1)
                layout.strides[d] = array->strides[d];
    return layout;
}

/* [K, C / groups, kh, kw], or with the groups apart, as it lies. */
static dnnl_layout weights(const run_array *array, int64_t groups)
{
    dnnl_layout layout = {.rank = groups > 1 ? 5 : 4};
    int first = groups > 1;
    layout.shape[0] = groups;
    for (int d = 0; d < 4; d++) {
        layout.shape[d + first] = array->shape[d];
        layout.strides[d + first] = array->strides[d];
    }
    layout.shape[first] /= groups;
    if (first)
        layout.strides[0] = layout.shape[first] * array->strides[0];
    return layout;
}

static const run_array *array_of(const run_spec *spec, bool is_result, uint32_t index)
{
    return is_result ? &spec->out[index] : &spec->in[index];
}

/* ---- The problem ---- */

static void set_window(const run_spec *spec, const run_array *src, const run_array *weight,
                       const run_array *dst, dnnl_problem *problem)
{
    static const char *const stride[2] = {"stride_h", "stride_w"}, *const pad[2] = {"pad_h",
                                                                                    "pad_w"};
    for (int d = 0; d < 2; d++) {
        int64_t step = neap_run_spec_int(spec, stride[d], 1),
                begin = neap_run_spec_int(spec, pad[d], 0);
        int64_t dilation = neap_run_spec_int(spec, "dilation", 1);
        int64_t span = dilation * (weight->shape[d + 2] - 1) + 1;
        int64_t end = begin;
        if ((src->shape[d + 2] + begin + end - span) / step + 1 != dst->shape[d + 2])
            end = (dst->shape[d + 2] - 1) * step + span - src->shape[d + 2] - begin;
        problem->strides[d] = step;
        problem->dilations[d] = dilation;
        problem->pads_begin[d] = begin;
        problem->pads_end[d] = end;
    }
}

static void set_bias(const run_spec *spec, const conv_side *side, dnnl_choice *choice)
{
    bool forward =
        strcmp(spec->op->type, "conv2d") == 0 || strcmp(spec->op->type, "conv_transpose2d") == 0;
    bool has =
        forward ? spec->op->n_inputs > 2 : side->weights_is_result && spec->op->n_outputs > 1;
    if (!has)
        return;
    if (side->transposed) {
        choice->bias_work = forward ? DNNL_BIAS_ADD : DNNL_BIAS_SUM;
        choice->bias_rows = neap_omp_rows_of(forward ? &spec->out[0] : &spec->in[0], 1);
        return;
    }
    dnnl_layout vector = {.rank = 1, .strides = {1}};
    vector.shape[0] = array_of(spec, side->dst_is_result, side->dst)->shape[1];
    choice->problem.operands[DNNL_OPERAND_BIAS] = vector;
    choice->sources[DNNL_OPERAND_BIAS] =
        (dnnl_source){.is_result = !forward, .index = forward ? 2 : 1, .ours = vector};
}

/* The direct choice number 0. */
static void pose(const run_spec *spec, const conv_side *side, dnnl_choice *choice)
{
    const run_array *src = array_of(spec, side->src_is_result, side->src),
                    *weight = array_of(spec, side->weights_is_result, side->weights),
                    *dst = array_of(spec, side->dst_is_result, side->dst);
    *choice = (dnnl_choice){.problem = {.kind = side->kind, .name = neap_onednn_op_name(spec)},
                            .parts = 1};
    dnnl_layout matrix = weights(weight, neap_run_spec_int(spec, "groups", 1));
    choice->sources[DNNL_OPERAND_SRC] =
        (dnnl_source){.is_result = side->src_is_result, .index = side->src, .ours = image(src)};
    choice->sources[DNNL_OPERAND_WEIGHTS] =
        (dnnl_source){.is_result = side->weights_is_result, .index = side->weights, .ours = matrix};
    choice->sources[DNNL_OPERAND_DST] =
        (dnnl_source){.is_result = side->dst_is_result, .index = side->dst, .ours = image(dst)};
    matrix.free = true;
    choice->problem.operands[DNNL_OPERAND_SRC] = channels_last(src);
    choice->problem.operands[DNNL_OPERAND_WEIGHTS] = matrix;
    choice->problem.operands[DNNL_OPERAND_DST] = channels_last(dst);
    choice->problem.relu = side->kind == DNNL_CONV && neap_run_spec_int(spec, "relu", 0);
    set_window(spec, src, weight, dst, &choice->problem);
    set_bias(spec, side, choice);
}

/* ---- Choices ---- */

static bool is_plain_3x3(const dnnl_problem *problem)
{
    const dnnl_layout *weight = &problem->operands[DNNL_OPERAND_WEIGHTS];
    if (weight->rank != 4 || weight->shape[0] % 16 || weight->shape[1] % 16)
        return false;
    for (int d = 0; d < 2; d++)
        if (weight->shape[d + 2] != 3 || problem->strides[d] != 1 || problem->dilations[d] != 1)
            return false;
    return true;
}

/* Small images have too few tiles for what the transformed weights take. */
static bool is_winograd_fast(const dnnl_problem *problem)
{
    const dnnl_layout *dst = &problem->operands[DNNL_OPERAND_DST];
    return dst->shape[2] * dst->shape[3] >= 14 * 14;
}

#define COPIED_BYTES (32 << 20)

/* Cuts the batch into parts whose copies take about COPIED_BYTES. */
static void cut(dnnl_choice *choice)
{
    dnnl_layout *src = &choice->problem.operands[DNNL_OPERAND_SRC],
                *dst = &choice->problem.operands[DNNL_OPERAND_DST];
    int64_t image = 0, images = src->shape[0];
    for (int i = 0; i < 2; i++) {
        const dnnl_layout *layout = i ? dst : src;
        image += layout->shape[1] * layout->shape[2] * layout->shape[3] * (int64_t)sizeof(float);
    }
    int64_t parts = 1;
    while (parts < images && (images % parts || images / parts * image > COPIED_BYTES))
        parts++;
    choice->parts = parts;
    src->shape[0] = dst->shape[0] = images / parts;
}

static neap_status add_winograd(neap_backend *backend, const dnnl_choice *direct,
                                dnnl_choice *choices, uint32_t *count, neap_diag *diag)
{
    dnnl_choice choice = *direct;
    choice.problem.winograd = true;
    choice.implementation = 0;
    choice.problem.operands[DNNL_OPERAND_SRC].free = true;
    choice.problem.operands[DNNL_OPERAND_DST].free = true;
    cut(&choice);
    dnnl_api_primitive *primitive;
    neap_status status =
        neap_dnnl_api_describe(onednn_api(backend), &choice.problem, 0, &primitive, diag);
    if (status == NEAP_OK && primitive && strstr(neap_dnnl_api_implementation(primitive), "wino"))
        choices[(*count)++] = choice;
    if (status == NEAP_OK)
        neap_dnnl_api_destroy(primitive);
    return status;
}

/* The instruction set at the end of an implementation's name. */
static const char *isa_of(const char *name)
{
    const char *colon = strrchr(name, ':');
    return colon ? colon + 1 : name;
}

static bool is_general(const char *name)
{
    return strstr(name, "gemm:") || strstr(name, "ref") || strstr(name, "simple");
}

/*
 * The kernel of oneDNN 2.6 and 3.2 for weight gradients of 1 x 1 kernels with strides, run by
 * several threads, writes up to kilobytes past the end of the scratch it asks for: over other
 * values of the arena.
 */
static bool overruns(const dnnl_problem *problem, const char *name)
{
    return problem->kind == DNNL_CONV_BW_WEIGHTS &&
           (problem->strides[0] > 1 || problem->strides[1] > 1) && strstr(name, "1x1");
}

/* The library's first, and one more of its kind: past that they are slower and need no less. */
static neap_status add_direct(neap_backend *backend, const dnnl_choice *direct,
                              dnnl_choice *choices, uint32_t *count, neap_diag *diag)
{
    char isa[32] = "";
    uint32_t added = 0;
    for (int i = 0; added < 2; i++) {
        dnnl_api_primitive *primitive;
        neap_status status =
            neap_dnnl_api_describe(onednn_api(backend), &direct->problem, i, &primitive, diag);
        if (status != NEAP_OK)
            return status;
        if (!primitive)
            break;
        const char *name = neap_dnnl_api_implementation(primitive);
        if (overruns(&direct->problem, name)) {
            neap_dnnl_api_destroy(primitive);
            continue;
        }
        if (added == 0)
            strncat(isa, isa_of(name), sizeof isa - 1);
        if (added == 0 || (!is_general(name) && strcmp(isa_of(name), isa) == 0)) {
            choices[*count] = *direct;
            choices[(*count)++].implementation = i;
            added++;
        }
        neap_dnnl_api_destroy(primitive);
    }
    return NEAP_OK;
}

static neap_status list_choices(neap_backend *backend, const run_spec *spec, const conv_side *side,
                                dnnl_choice *choices, uint32_t *count, neap_diag *diag)
{
    dnnl_choice direct;
    pose(spec, side, &direct);
    neap_status status = NEAP_OK;
    bool winograd = is_plain_3x3(&direct.problem), first = is_winograd_fast(&direct.problem);
    *count = 0;
    if (winograd && first)
        status = add_winograd(backend, &direct, choices, count, diag);
    if (status == NEAP_OK)
        status = add_direct(backend, &direct, choices, count, diag);
    if (status == NEAP_OK && winograd && !first)
        status = add_winograd(backend, &direct, choices, count, diag);
    if (status == NEAP_OK && *count == 0)
        status = neap_fail(diag, NEAP_UNSUPPORTED, "oneDNN has no kernel for op \"%s\"",
                           neap_onednn_op_name(spec));
    return status;
}

static neap_status variants(neap_backend *backend, const run_spec *spec, const conv_side *side,
                            int64_t *workspaces, uint32_t *count, neap_diag *diag)
{
    dnnl_choice choices[MOST_CHOICES];
    neap_status status = list_choices(backend, spec, side, choices, count, diag);
    for (uint32_t i = 0; i < *count && status == NEAP_OK; i++)
        status = neap_dnnl_call_workspace(backend, &choices[i], &workspaces[i], diag);
    return status;
}

static neap_status prepare(neap_backend *backend, const run_spec *spec, const conv_side *side,
                           run_kernel **kernel, neap_diag *diag)
{
    dnnl_choice choices[MOST_CHOICES];
    uint32_t count;
    neap_status status = list_choices(backend, spec, side, choices, &count, diag);
    if (status == NEAP_OK && spec->variant >= count)
        status = neap_fail(diag, NEAP_INVALID, "op \"%s\" has %u variants, there is no number %u",
                           neap_onednn_op_name(spec), count, spec->variant);
    if (status == NEAP_OK)
        status = neap_dnnl_call_prepare(backend, &choices[spec->variant], kernel, diag);
    return status;
}

/* ---- The ops ---- */

#define CONV_OP(type, ...)                                                                         \
    static const conv_side type##_side = {__VA_ARGS__};                                            \
    static neap_status type##_variants(neap_backend *backend, const run_spec *spec,                \
                                       int64_t *workspaces, uint32_t *count, neap_diag *diag)      \
    {                                                                                              \
        return variants(backend, spec, &type##_side, workspaces, count, diag);                     \
    }                                                                                              \
    static neap_status type##_prepare(neap_backend *backend, const run_spec *spec,                 \
                                      run_kernel **kernel, neap_diag *diag)                        \
    {                                                                                              \
        return prepare(backend, spec, &type##_side, kernel, diag);                                 \
    }                                                                                              \
    const run_op neap_onednn_op_##type = {.variants = type##_variants, .prepare = type##_prepare};

CONV_OP(conv2d, .kind = DNNL_CONV, .src = 0, .weights = 1, .dst_is_result = true)
CONV_OP(conv2d_bw_data, .kind = DNNL_CONV_BW_DATA, .dst = 0, .weights = 1, .src_is_result = true)
CONV_OP(conv2d_bw_weight, .kind = DNNL_CONV_BW_WEIGHTS, .dst = 0, .src = 1,
        .weights_is_result = true)
CONV_OP(conv_transpose2d, .kind = DNNL_CONV_BW_DATA, .transposed = true, .dst = 0, .weights = 1,
        .src_is_result = true)
CONV_OP(conv_transpose2d_bw_data, .kind = DNNL_CONV, .transposed = true, .src = 0, .weights = 1,
        .dst_is_result = true)
CONV_OP(conv_transpose2d_bw_weight, .kind = DNNL_CONV_BW_WEIGHTS, .transposed = true, .src = 0,
        .dst = 1, .weights_is_result = true)
