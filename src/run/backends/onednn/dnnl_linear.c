/*
 * Linear layers, on oneDNN's matrix product. Rows are all dimensions but the last.
 *
 *     y[M, F] = x[M, C] w[F, C]^T + b         dx[M, C] = dy[M, F] w[F, C]
 *     dw[F, C] = dy[M, F]^T x[M, C]           db = the sum of dy's rows
 *
 * The matrices are used as they lie: transposing is a matter of strides.
 */
#include "run/backends/onednn/dnnl_call.h"

typedef struct matrix {
    bool is_result;
    uint32_t index;
    bool transposed;
} matrix;

static dnnl_layout ours(const run_array *array, bool transposed)
{
    omp_rows rows = neap_omp_rows_of(array, array->rank - 1);
    dnnl_layout layout = {
        .rank = 2,
        .shape = {rows.count, rows.channels},
        .strides = {rows.count > 1 ? rows.stride : rows.channels, rows.channel_stride}};
    if (transposed) {
        dnnl_layout turned = layout;
        for (int d = 0; d < 2; d++) {
            turned.shape[d] = layout.shape[1 - d];
            turned.strides[d] = layout.strides[1 - d];
        }
        return turned;
    }
    return layout;
}

/* The same shape without gaps. */
static dnnl_layout dense(const dnnl_layout *layout, bool transposed)
{
    dnnl_layout packed = *layout;
    packed.strides[transposed] = layout->shape[!transposed];
    packed.strides[!transposed] = 1;
    return packed;
}

static void set_operand(const run_spec *spec, dnnl_operand operand, matrix of, dnnl_choice *choice)
{
    const run_array *array = of.is_result ? &spec->out[of.index] : &spec->in[of.index];
    dnnl_layout layout = ours(array, of.transposed);
    choice->sources[operand] = (dnnl_source){.is_result = of.is_result,
                                             .index = of.index,
                                             .ours = layout,
                                             .rows = neap_omp_rows_of(array, array->rank - 1)};
    choice->sources[operand].uneven = !choice->sources[operand].rows.even;
    choice->problem.operands[operand] = dense(&layout, of.transposed);
}

static void pose(const run_spec *spec, matrix src, matrix weights, matrix dst, dnnl_choice *choice)
{
    *choice = (dnnl_choice){.problem = {.kind = DNNL_MATMUL, .name = neap_onednn_op_name(spec)},
                            .parts = 1};
    set_operand(spec, DNNL_OPERAND_SRC, src, choice);
    set_operand(spec, DNNL_OPERAND_WEIGHTS, weights, choice);
    set_operand(spec, DNNL_OPERAND_DST, dst, choice);
}

static void pose_forward(const run_spec *spec, dnnl_choice *choice)
{
    pose(spec, (matrix){false, 0, false}, (matrix){false, 1, true}, (matrix){true, 0, false},
         choice);
    if (spec->op->n_inputs > 2) {
        dnnl_layout vector = {.rank = 2, .shape = {1, spec->in[1].shape[0]}};
        vector.strides[0] = vector.shape[1];
        vector.strides[1] = 1;
        choice->problem.operands[DNNL_OPERAND_BIAS] = vector;
        choice->sources[DNNL_OPERAND_BIAS] = (dnnl_source){.index = 2, .ours = vector};
    }
}

static void pose_bw_data(const run_spec *spec, dnnl_choice *choice)
{
    pose(spec, (matrix){false, 0, false}, (matrix){false, 1, false}, (matrix){true, 0, false},
         choice);
}

static void pose_bw_weight(const run_spec *spec, dnnl_choice *choice)
{
    pose(spec, (matrix){false, 0, true}, (matrix){false, 1, false}, (matrix){true, 0, false},
         choice);
    if (spec->op->n_outputs > 1) {
        choice->bias_work = DNNL_BIAS_SUM;
        choice->bias_rows = neap_omp_rows_of(&spec->in[0], spec->in[0].rank - 1);
    }
}

#define LINEAR_OP(type, pose_type)                                                                 \
    static neap_status type##_variants(neap_backend *backend, const run_spec *spec,                \
                                       int64_t *workspaces, uint32_t *count, neap_diag *diag)      \
    {                                                                                              \
        dnnl_choice choice;                                                                        \
        pose_type(spec, &choice);                                                                  \
        *count = 1;                                                                                \
        return neap_dnnl_call_workspace(backend, &choice, workspaces, diag);                       \
    }                                                                                              \
    static neap_status type##_prepare(neap_backend *backend, const run_spec *spec,                 \
                                      run_kernel **kernel, neap_diag *diag)                        \
    {                                                                                              \
        dnnl_choice choice;                                                                        \
        pose_type(spec, &choice);                                                                  \
        return neap_dnnl_call_prepare(backend, &choice, kernel, diag);                             \
    }                                                                                              \
    const run_op neap_onednn_op_##type = {.variants = type##_variants, .prepare = type##_prepare};

LINEAR_OP(linear, pose_forward)
LINEAR_OP(linear_bw_data, pose_bw_data)
LINEAR_OP(linear_bw_weight, pose_bw_weight)
