/*
 * Linear layers as matrix products. Rows are all dimensions but the last.
 *
 *     y[R, K] = x[R, C] w[K, C]^T + b         dx[R, C] = dy[R, K] w[K, C]
 *     dw[K, C] = dy[R, K]^T x[R, C]           db = the sum of dy's rows
 */
#include "base/fail.h"
#include "run/backends/cuda/matmul.h"

static int64_t last_extent(const run_array *array)
{
    return array->shape[array->rank - 1];
}

static int64_t rows_of(const run_array *array)
{
    return neap_run_array_elements(array) / last_extent(array);
}

static int64_t vector_stride(const run_array *array)
{
    return array->shape[0] > 1 ? array->strides[0] : 1;
}

/* One type for all. */
static neap_status check_types(const run_spec *spec, neap_diag *diag)
{
    const neap_op *op = spec->op;
    NEAP_TRY(neap_cuda_check_types(spec, diag));
    for (uint32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        neap_dtype type = i < op->n_inputs ? spec->in[i].dtype : spec->out[i - op->n_inputs].dtype;
        if (type != neap_cuda_type(spec))
            return neap_fail(diag, NEAP_UNSUPPORTED,
                             "op \"%s\" (%s): the cuda backend multiplies matrices of one type, "
                             "not of %s and %s",
                             op->name, op->type, neap_dtype_name(neap_cuda_type(spec)),
                             neap_dtype_name(type));
    }
    return NEAP_OK;
}

static cuda_matmul_form pose_forward(const run_spec *spec)
{
    const run_array *x = &spec->in[0], *w = &spec->in[1], *y = &spec->out[0];
    bool has_bias = spec->op->n_inputs > 2;
    return (cuda_matmul_form){
        .product = {.type = neap_cuda_type(spec),
                    .m = rows_of(x),
                    .n = last_extent(y),
                    .k = last_extent(x),
                    .batches = 1,
                    .a = neap_cuda_matrix(x),
                    .b = neap_cuda_transposed(neap_cuda_matrix(w)),
                    .d = neap_cuda_matrix(y),
                    .bias = has_bias,
                    .bias_stride = has_bias ? vector_stride(&spec->in[2]) : 0}};
}

static cuda_matmul_form pose_bw_data(const run_spec *spec)
{
    const run_array *dy = &spec->in[0], *w = &spec->in[1], *dx = &spec->out[0];
    return (cuda_matmul_form){.product = {.type = neap_cuda_type(spec),
                                          .m = rows_of(dy),
                                          .n = last_extent(dx),
                                          .k = last_extent(dy),
                                          .batches = 1,
                                          .a = neap_cuda_matrix(dy),
                                          .b = neap_cuda_matrix(w),
                                          .d = neap_cuda_matrix(dx)}};
}

static cuda_matmul_form pose_bw_weight(const run_spec *spec)
{
    const run_array *dy = &spec->in[0], *x = &spec->in[1], *dw = &spec->out[0];
    cuda_matmul_form form = {.product = {.type = neap_cuda_type(spec),
                                         .m = last_extent(dy),
                                         .n = last_extent(x),
                                         .k = rows_of(dy),
                                         .batches = 1,
                                         .a = neap_cuda_transposed(neap_cuda_matrix(dy)),
                                         .b = neap_cuda_matrix(x),
                                         .d = neap_cuda_matrix(dw)},
                             .sums = spec->op->n_outputs > 1};
    if (form.sums)
        form.sum_stride = vector_stride(&spec->out[1]);
    return form;
}

static neap_status run_linear(cuda_backend *backend, const void *plan, const run_args *args,
                              neap_diag *diag)
{
    const cuda_matmul *matmul = plan;
    cuda_addresses at = {.a = args->in[0],
                         .b = args->in[1],
                         .bias = matmul->bias ? args->in[2] : NULL,
                         .d = args->out[0]};
    void *sums = matmul->sums ? args->out[1] : NULL;
    return neap_cuda_matmul_run(backend, matmul, &at, sums, args->workspace, diag);
}

static void clear_linear(cuda_backend *backend, void *plan)
{
    neap_cuda_matmul_clear(backend, plan);
}

#define LINEAR_OP(type, pose)                                                                      \
    static neap_status list_##type(cuda_backend *backend, const run_spec *spec,                    \
                                   int64_t *workspaces, uint32_t *count, neap_diag *diag)          \
    {                                                                                              \
        cuda_matmul_form form = pose(spec);                                                        \
        return neap_cuda_matmul_variants(backend, &form, workspaces, count, diag);                 \
    }                                                                                              \
    static neap_status plan_##type(cuda_backend *backend, const run_spec *spec, void *plan,        \
                                   neap_diag *diag)                                                \
    {                                                                                              \
        cuda_matmul_form form = pose(spec);                                                        \
        return neap_cuda_matmul_plan(backend, &form, spec->variant, plan, diag);                   \
    }                                                                                              \
    CUDA_OP(type, {.plan_bytes = sizeof(cuda_matmul),                                              \
                   .plan = plan_##type,                                                            \
                   .run = run_linear,                                                              \
                   .variants = list_##type,                                                        \
                   .clear = clear_linear,                                                          \
                   .check = check_types})

LINEAR_OP(linear, pose_forward)
LINEAR_OP(linear_bw_data, pose_bw_data)
LINEAR_OP(linear_bw_weight, pose_bw_weight)
