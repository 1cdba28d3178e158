/* Types and rows of operands. */
#include "run/backends/cuda/operands.h"

#include "base/fail.h"
#include "graph/network_internal.h"

row_walk neap_cuda_row_walk(const run_array *array, uint32_t first, uint32_t axis)
{
    row_walk rows = {.count = 1, .rank = 0};
    for (uint32_t d = array->rank; d-- > first;) {
        int64_t extent = array->shape[d], stride = array->strides[d];
        int last = rows.rank - 1;
        if (d == axis || extent == 1)
            continue;
        rows.count *= extent;
        if (last >= 0 && stride == rows.stride[last] * rows.extent[last]) {
            rows.extent[last] *= extent;
            continue;
        }
        rows.extent[rows.rank] = extent;
        rows.stride[rows.rank++] = stride;
    }
    if (rows.rank == 0) {
        rows.extent[0] = 1;
        rows.rank = 1;
    }
    return rows;
}

bool neap_cuda_rows_are_whole(const row_walk *rows, int64_t count)
{
    for (int d = 0; d < rows->rank; d++)
        if (rows->stride[d] % count != 0)
            return false;
    return true;
}

int64_t neap_cuda_step(const run_array *array, uint32_t dim)
{
    return array->shape[dim] == 1 ? 1 : array->strides[dim];
}

static bool is_float(neap_dtype type)
{
    return type == NEAP_F32 || type == NEAP_BF16 || type == NEAP_F16 || type == NEAP_F64;
}

neap_status neap_cuda_check_mix(const run_spec *spec, uint32_t f32_inputs, uint32_t f32_outputs,
                                neap_diag *diag)
{
    const neap_op *op = spec->op;
    neap_dtype type = neap_cuda_type(spec);
    for (uint32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        bool in = i < op->n_inputs;
        uint32_t k = in ? i : i - op->n_inputs;
        neap_dtype has = in ? spec->in[k].dtype : spec->out[k].dtype;
        neap_dtype needs = (in ? f32_inputs : f32_outputs) >> k & 1 ? NEAP_F32 : type;
        if (is_float(has) && has != needs)
            return neap_fail(diag, NEAP_UNSUPPORTED,
                             "op \"%s\" (%s): %s %u is of type %s, and the cuda backend's kernel "
                             "takes %s; backend ref may do",
                             op->name, op->type, in ? "input" : "output", k, neap_dtype_name(has),
                             neap_dtype_name(needs));
    }
    return NEAP_OK;
}
