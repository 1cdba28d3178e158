/*
 * Batches of matrix products, on oneDNN's. A transposed matrix is used as it lies, with its strides
 * exchanged; one with gaps is copied first.
 */
#include "run/backends/onednn/dnnl_call.h"
#include "run/batches.h"

/* The matrices of an array as they enter the product. */
static dnnl_layout ours(const run_array *array, const run_batches *batches, int operand,
                        bool transposed)
{
    uint32_t rank = batches->rank;
    dnnl_layout layout = {.rank = (int)rank + 2};
    for (uint32_t d = 0; d < rank; d++) {
        layout.shape[d] = batches->extent[d];
        layout.strides[d] = batches->stride[d][operand];
    }
    for (uint32_t d = 0; d < 2; d++) {
        uint32_t from = array->rank - 2 + (transposed ? 1 - d : d);
        layout.shape[rank + d] = array->shape[from];
        layout.strides[rank + d] = array->strides[from];
    }
    return layout;
}

/* The same shape without gaps, with the columns next to each other where it is transposed. */
static dnnl_layout dense(const dnnl_layout *layout, bool transposed)
{
    dnnl_layout packed = *layout;
    int row = layout->rank - 2, column = layout->rank - 1;
    packed.strides[transposed ? row : column] = 1;
    packed.strides[transposed ? column : row] = layout->shape[transposed ? row : column];
    int64_t size = layout->shape[row] * layout->shape[column];
    for (int d = row; d-- > 0; size *= layout->shape[d])
        packed.strides[d] = size;
    return packed;
}

static void set_operand(dnnl_choice *choice, dnnl_operand operand, bool is_result, uint32_t index,
                        dnnl_layout layout, bool transposed)
{
    dnnl_layout packed = dense(&layout, transposed);
    for (int d = 0; d < layout.rank; d++) /* steps that nobody takes */
        if (layout.shape[d] == 1)
            layout.strides[d] = packed.strides[d];
    choice->problem.operands[operand] = packed;
    choice->sources[operand] =
        (dnnl_source){.is_result = is_result, .index = index, .ours = layout};
}

static void pose(const run_spec *spec, dnnl_choice *choice)
{
    const run_array *a = &spec->in[0], *b = &spec->in[1], *y = &spec->out[0];
    bool turn_a = neap_run_spec_int(spec, "transpose_a", 0) != 0;
    bool turn_b = neap_run_spec_int(spec, "transpose_b", 0) != 0;
    run_batches batches = neap_run_batches_of(a, b, y);
    *choice = (dnnl_choice){.problem = {.kind = DNNL_MATMUL, .name = neap_onednn_op_name(spec)},
                            .parts = 1};
    set_operand(choice, DNNL_OPERAND_SRC, false, 0, ours(a, &batches, RUN_BATCH_A, turn_a), turn_a);
    set_operand(choice, DNNL_OPERAND_WEIGHTS, false, 1, ours(b, &batches, RUN_BATCH_B, turn_b),
                turn_b);
    set_operand(choice, DNNL_OPERAND_DST, true, 0, ours(y, &batches, RUN_BATCH_Y, false), false);
}

static neap_status matmul_variants(neap_backend *backend, const run_spec *spec, int64_t *workspaces,
                                   uint32_t *count, neap_diag *diag)
{
    dnnl_choice choice;
    pose(spec, &choice);
    *count = 1;
    return neap_dnnl_call_workspace(backend, &choice, workspaces, diag);
}

static neap_status matmul_prepare(neap_backend *backend, const run_spec *spec, run_kernel **kernel,
                                  neap_diag *diag)
{
    dnnl_choice choice;
    pose(spec, &choice);
    return neap_dnnl_call_prepare(backend, &choice, kernel, diag);
}

const run_op neap_onednn_op_matmul = {.variants = matmul_variants, .prepare = matmul_prepare};
