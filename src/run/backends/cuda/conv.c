/* Convolutions and transposed convolutions, in all directions. */
#include "run/backends/cuda/conv.h"

#include "base/fail.h"
#include "run/backends/cuda/cudnn_conv.h"

/* ---- Problems ---- */

static conv_window window_of(const run_spec *spec, const run_array *w)
{
    return (conv_window){.kernel_h = (i32)w->shape[2],
                         .kernel_w = (i32)w->shape[3],
                         .stride_h = (i32)neap_run_spec_int(spec, "stride_h", 1),
                         .stride_w = (i32)neap_run_spec_int(spec, "stride_w", 1),
                         .pad_h = (i32)neap_run_spec_int(spec, "pad_h", 0),
                         .pad_w = (i32)neap_run_spec_int(spec, "pad_w", 0),
                         .dilation = (i32)neap_run_spec_int(spec, "dilation", 1)};
}

static const run_array *array_at(const run_spec *spec, conv_operand at)
{
    return at.is_result ? &spec->out[at.index] : &spec->in[at.index];
}

/* Operands of the op: results are computed from (image, w); gradients of the image from (dy, w),
   of w from (dy, image). */
conv_problem neap_conv_problem(const run_spec *spec, conv_target target, bool transposed)
{
    conv_operand result = {true, 0}, first = {false, 0}, second = {false, 1};
    conv_problem p = {.target = target,
                      .groups = neap_run_spec_int(spec, "groups", 1),
                      .type = neap_cuda_type(spec),
                      .relu = neap_run_spec_int(spec, "relu", 0) != 0 && target == CONV_Y};
    bool forward = target == (transposed ? CONV_X : CONV_Y);
    p.y_at = target == CONV_Y ? result : first;
    p.x_at = target == CONV_X ? result : target == CONV_Y ? first : second;
    if (target == CONV_W && transposed) { /* dy is the gradient of what the op computes: x */
        p.y_at = second;
        p.x_at = first;
    }
    p.w_at = target == CONV_W ? result : second;
    p.y = *array_at(spec, p.y_at);
    p.x = *array_at(spec, p.x_at);
    p.w = *array_at(spec, p.w_at);
    p.window = window_of(spec, &p.w);
    p.relu = p.relu && forward;
    p.bias = forward ? spec->op->n_inputs > 2 : target == CONV_W && spec->op->n_outputs > 1;
    p.biased = forward ? spec->out[0] : spec->in[0];
    return p;
}

/* Kernels count pixels of one image and taps of one result in 32 bits. */
static neap_status check_conv(const run_spec *spec, neap_diag *diag)
{
    const neap_op *op = spec->op;
    static const char *const numbers[] = {"stride_h", "stride_w", "pad_h", "pad_w", "dilation"};
    NEAP_TRY(neap_cuda_check_types(spec, diag));
    bool large = false;
    for (uint32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        const run_array *a = i < op->n_inputs ? &spec->in[i] : &spec->out[i - op->n_inputs];
        if (a->dtype != spec->in[0].dtype)
            return neap_fail(diag, NEAP_UNSUPPORTED,
                             "op \"%s\" (%s): the cuda backend takes operands of one type",
                             op->name, op->type);
        for (uint32_t d = 0; d < a->rank; d++)
            large |= a->shape[d] > INT32_MAX / 4 && (d > 0 || a->rank == 1);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        large |= neap_run_spec_int(spec, numbers[i], 1) > INT32_MAX / 4;
    return large ? neap_fail(diag, NEAP_UNSUPPORTED, "op \"%s\" (%s): an extent is too large",
                             op->name, op->type)
                 : NEAP_OK;
}

/* ---- Variants ---- */

typedef struct conv_plan {
    cudnn_conv_run *library; /* NULL: a kernel of our own */
    bool finishes;           /* bias and ReLU follow the library */
    conv_finish_plan finish;
    conv_kernel_plan kernel; /* beside the library, for addresses that it does not take */
    bool sums_bias;
    conv_bias_plan bias;
} conv_plan;

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Some engines write over the gaps of a result that is a view. There is no library in the
   emulation. */
static bool has_library(const cuda_backend *backend, const run_spec *spec)
{
    return backend->libraries && backend->libraries->cudnn &&
           neap_run_array_is_dense(&spec->out[0]);
}

/* Algorithms of the library: *list may be NULL. */
static neap_status list_library(cuda_backend *backend, const run_spec *spec,
                                const conv_problem *problem, cudnn_conv_list **list,
                                uint32_t *count, neap_diag *diag)
{
    *list = NULL;
    *count = 0;
    if (!has_library(backend, spec))
        return NEAP_OK;
    NEAP_TRY(neap_cudnn_conv_list(backend, spec, problem, list, diag));
    *count = (uint32_t)(*list)->count;
    if (*count > RUN_MOST_VARIANTS - CONV_MOST_KERNELS)
        *count = RUN_MOST_VARIANTS - CONV_MOST_KERNELS;
    return NEAP_OK;
}

static neap_status variants_of(cuda_backend *backend, const run_spec *spec,
                               const conv_problem *problem, int64_t *workspaces, uint32_t *count,
                               neap_diag *diag)
{
    conv_kernel kernels[CONV_MOST_KERNELS];
    cudnn_conv_list *list;
    uint32_t n_items, n_kernels = neap_conv_kernels(problem, kernels);
    int64_t bias = neap_conv_bias_workspace(problem);
    NEAP_TRY(list_library(backend, spec, problem, &list, &n_items, diag));
    *count = 0;
    for (uint32_t i = 0; i < n_items; i++)
        workspaces[(*count)++] = larger(neap_cudnn_conv_workspace(&list->items[i]), bias);
    for (uint32_t i = 0; i < n_kernels; i++)
        workspaces[(*count)++] = larger(neap_conv_kernel_workspace(problem, kernels[i]), bias);
    return NEAP_OK;
}

/* The engine of the library, or the kind of our own kernel. */
static neap_status algorithm_of(cuda_backend *backend, const run_spec *spec,
                                const conv_problem *problem, uint32_t *number, neap_diag *diag)
{
    conv_kernel kernels[CONV_MOST_KERNELS];
    cudnn_conv_list *list;
    uint32_t n_items, n_kernels = neap_conv_kernels(problem, kernels), variant = spec->variant;
    NEAP_TRY(list_library(backend, spec, problem, &list, &n_items, diag));
    if (variant < n_items)
        *number = CONV_MOST_KERNELS + 1 + (uint32_t)list->items[variant].engine.index;
    else if (variant < n_items + n_kernels)
        *number = 1 + (uint32_t)kernels[variant - n_items];
    return NEAP_OK;
}

static neap_status plan_library(cuda_backend *backend, const conv_problem *problem,
                                cudnn_conv_list *list, uint32_t k, conv_plan *plan, neap_diag *diag)
{
    conv_problem bare = *problem;
    bare.bare = true;
    NEAP_TRY(neap_conv_kernel_plan(backend, &bare, neap_conv_plain_kernel(problem), &plan->kernel,
                                   diag));
    plan->finishes =
        !list->items[k].fused && problem->target != CONV_W && (problem->bias || problem->relu);
    if (plan->finishes)
        NEAP_TRY(neap_conv_finish_plan(backend, problem, &plan->finish, diag));
    return neap_cudnn_conv_prepare(list, k, &plan->library, diag);
}

static neap_status plan_of(cuda_backend *backend, const run_spec *spec, const conv_problem *problem,
                           conv_plan *plan, neap_diag *diag)
{
    conv_kernel kernels[CONV_MOST_KERNELS];
    cudnn_conv_list *list;
    uint32_t n_items, n_kernels = neap_conv_kernels(problem, kernels), variant = spec->variant;
    NEAP_TRY(list_library(backend, spec, problem, &list, &n_items, diag));
    if (variant >= n_items + n_kernels)
        return neap_fail(diag, NEAP_INVALID, "op \"%s\": there is no variant %u", spec->op->name,
                         variant);
    if (variant < n_items)
        NEAP_TRY(plan_library(backend, problem, list, variant, plan, diag));
    else
        NEAP_TRY(neap_conv_kernel_plan(backend, problem, kernels[variant - n_items], &plan->kernel,
                                       diag));
    plan->sums_bias = problem->bias && problem->target == CONV_W;
    return plan->sums_bias ? neap_conv_bias_plan(backend, problem, &plan->bias, diag) : NEAP_OK;
}

static void clear_plan(cuda_backend *backend, void *plan)
{
    (void)backend;
    neap_cudnn_conv_delete(((conv_plan *)plan)->library);
}

static neap_status run_conv(cuda_backend *backend, const void *plan, const run_args *args,
                            neap_diag *diag)
{
    const conv_plan *planned = plan;
    if (planned->library && neap_cudnn_conv_takes(planned->library, args)) {
        NEAP_TRY(neap_cudnn_conv_run(planned->library, args, diag));
        if (planned->finishes)
            NEAP_TRY(neap_conv_finish_run(backend, &planned->finish, args, diag));
    } else {
        NEAP_TRY(neap_conv_kernel_run(backend, &planned->kernel, args, diag));
    }
    return planned->sums_bias ? neap_conv_bias_run(backend, &planned->bias, args, diag) : NEAP_OK;
}

/* ---- Ops ---- */

#define CONV_OP(type, target, transposed)                                                          \
    static neap_status variants_of_##type(cuda_backend *backend, const run_spec *spec,             \
                                          int64_t *workspaces, uint32_t *count, neap_diag *diag)   \
    {                                                                                              \
        conv_problem problem = neap_conv_problem(spec, target, transposed);                        \
        return variants_of(backend, spec, &problem, workspaces, count, diag);                      \
    }                                                                                              \
    static neap_status algorithm_of_##type(cuda_backend *backend, const run_spec *spec,            \
                                           uint32_t *number, neap_diag *diag)                      \
    {                                                                                              \
        conv_problem problem = neap_conv_problem(spec, target, transposed);                        \
        return algorithm_of(backend, spec, &problem, number, diag);                                \
    }                                                                                              \
    static neap_status announce_of_##type(cuda_backend *backend, const run_spec *spec,             \
                                          neap_diag *diag)                                         \
    {                                                                                              \
        conv_problem problem = neap_conv_problem(spec, target, transposed);                        \
        return has_library(backend, spec)                                                          \
                   ? neap_cudnn_conv_announce(backend, spec, &problem, diag)                       \
                   : NEAP_OK;                                                                      \
    }                                                                                              \
    static neap_status plan_of_##type(cuda_backend *backend, const run_spec *spec, void *plan,     \
                                      neap_diag *diag)                                             \
    {                                                                                              \
        conv_problem problem = neap_conv_problem(spec, target, transposed);                        \
        return plan_of(backend, spec, &problem, plan, diag);                                       \
    }                                                                                              \
    CUDA_OP(type, {.plan_bytes = sizeof(conv_plan),                                                \
                   .plan = plan_of_##type,                                                         \
                   .run = run_conv,                                                                \
                   .clear = clear_plan,                                                            \
                   .variants = variants_of_##type,                                                 \
                   .algorithm = algorithm_of_##type,                                               \
                   .announce = announce_of_##type,                                                 \
                   .check = check_conv})

CONV_OP(conv2d, CONV_Y, false)
CONV_OP(conv2d_bw_data, CONV_X, false)
CONV_OP(conv2d_bw_weight, CONV_W, false)
CONV_OP(conv_transpose2d, CONV_X, true)
CONV_OP(conv_transpose2d_bw_data, CONV_Y, true)
CONV_OP(conv_transpose2d_bw_weight, CONV_W, true)
