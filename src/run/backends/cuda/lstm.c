/*
 * LSTM cells. A gradient step reads what its attributes and results say: no dh or no dc' where the
 * loss does not depend on it, c for dgates only, c' with dh only.
 */
#include "run/backends/cuda/kernels/lstm.h"
#include "base/fail.h"
#include "run/backends/cuda/images.h"

#include <stddef.h>

/* Where an operand goes: to the lstm_rows at `to` in the parameters. */
typedef struct lstm_operand {
    uint32_t index;
    bool is_result;
    size_t to;
} lstm_operand;

enum { MOST_OPERANDS = 7 };

typedef struct lstm_plan {
    const cuda_function *scalar, *vector;
    union {
        lstm_params forward;
        lstm_bw_params backward;
    } params;
    int64_t batch, width;
    lstm_operand operands[MOST_OPERANDS];
    uint32_t count;
    int64_t vector_width; /* elements of a vector; 1: strides do not allow them */
} lstm_plan;

static lstm_rows *rows_at(void *params, size_t offset)
{
    return (lstm_rows *)((unsigned char *)params + offset);
}

/* ---- Planning ---- */

static void add_operand(lstm_plan *plan, const run_array *array, uint32_t index, bool is_result,
                        size_t to)
{
    int64_t step = array->shape[1] > 1 ? array->strides[1] : 1,
            row = array->shape[0] > 1 ? array->strides[0] : 0;
    *rows_at(&plan->params, to) = (lstm_rows){.row = row, .step = step};
    plan->operands[plan->count++] = (lstm_operand){index, is_result, to};
    if (step != 1 || row % plan->vector_width != 0)
        plan->vector_width = 1;
}

static void set_size(lstm_plan *plan, const run_spec *spec, int64_t batch, int64_t width)
{
    int64_t vector = 16 / neap_dtype_bytes(neap_cuda_type(spec));
    plan->batch = batch;
    plan->width = width;
    plan->vector_width = width % vector == 0 ? vector : 1;
}

static neap_status plan_forward(cuda_backend *backend, const run_spec *spec, void *plan,
                                neap_diag *diag)
{
    lstm_plan *made = plan;
    set_size(made, spec, spec->in[1].shape[0], spec->in[1].shape[1]);
    made->params.forward.batch = made->batch;
    made->params.forward.width = made->width;
    add_operand(made, &spec->in[0], 0, false, offsetof(lstm_params, gates));
    add_operand(made, &spec->in[1], 1, false, offsetof(lstm_params, c));
    add_operand(made, &spec->out[0], 0, true, offsetof(lstm_params, h));
    add_operand(made, &spec->out[1], 1, true, offsetof(lstm_params, cell));
    add_operand(made, &spec->out[2], 2, true, offsetof(lstm_params, act));
    NEAP_TRY(neap_cuda_find(backend, "lstm_forward", neap_cuda_type(spec), &made->scalar, diag));
    return neap_cuda_find(backend, "lstm_forward_vector", neap_cuda_type(spec), &made->vector,
                          diag);
}

static void plan_bw_operands(const run_spec *spec, lstm_plan *made)
{
    bool has_dh = neap_run_spec_int(spec, "has_dh", 0) != 0,
         has_dcell = neap_run_spec_int(spec, "has_dc", 0) != 0;
    uint32_t in = 0, out = 0, act = (uint32_t)has_dh + has_dcell;
    int64_t gates = spec->in[act].shape[1];
    bool has_dgates = spec->out[0].shape[1] == gates;
    set_size(made, spec, spec->in[act].shape[0], gates / 4);
    made->params.backward.batch = made->batch;
    made->params.backward.width = made->width;
    if (has_dh)
        add_operand(made, &spec->in[in], in, false, offsetof(lstm_bw_params, dh)), in++;
    if (has_dcell)
        add_operand(made, &spec->in[in], in, false, offsetof(lstm_bw_params, dcell)), in++;
    add_operand(made, &spec->in[in], in, false, offsetof(lstm_bw_params, act)), in++;
    if (has_dgates) {
        add_operand(made, &spec->in[in], in, false, offsetof(lstm_bw_params, c)), in++;
        add_operand(made, &spec->out[out], out, true, offsetof(lstm_bw_params, dgates)), out++;
    }
    if (has_dh)
        add_operand(made, &spec->in[in], in, false, offsetof(lstm_bw_params, cell));
    if (out < spec->op->n_outputs)
        add_operand(made, &spec->out[out], out, true, offsetof(lstm_bw_params, dc));
}

static neap_status plan_backward(cuda_backend *backend, const run_spec *spec, void *plan,
                                 neap_diag *diag)
{
    lstm_plan *made = plan;
    plan_bw_operands(spec, made);
    NEAP_TRY(neap_cuda_find(backend, "lstm_backward", neap_cuda_type(spec), &made->scalar, diag));
    return neap_cuda_find(backend, "lstm_backward_vector", neap_cuda_type(spec), &made->vector,
                          diag);
}

/* ---- Running ---- */

/* Sets the addresses; returns the function for them, and for how many threads in a row. */
static const cuda_function *set_addresses(const lstm_plan *plan, const run_args *args, void *params,
                                          cuda_dims *dims)
{
    bool aligned = plan->vector_width > 1;
    for (uint32_t i = 0; i < plan->count; i++) {
        const lstm_operand *o = &plan->operands[i];
        void *at = o->is_result ? args->out[o->index] : args->in[o->index];
        rows_at(params, o->to)->at = at;
        aligned = aligned && cuda_is_aligned(at);
    }
    int64_t items = plan->width / (aligned ? plan->vector_width : 1);
    uint32_t threads = items >= 128 ? 128 : (uint32_t)(items + 31) / 32 * 32;
    *dims = (cuda_dims){.blocks = (uint32_t)((items + threads - 1) / threads),
                        .blocks_y = plan->batch < 65535 ? (uint32_t)plan->batch : 65535,
                        .threads = threads};
    return aligned ? plan->vector : plan->scalar;
}

static neap_status run_forward(cuda_backend *backend, const void *plan, const run_args *args,
                               neap_diag *diag)
{
    const lstm_plan *planned = plan;
    lstm_params params = planned->params.forward;
    cuda_dims dims;
    const cuda_function *function = set_addresses(planned, args, &params, &dims);
    return CUDA_LAUNCH(backend, function, dims, &params, diag);
}

static neap_status run_backward(cuda_backend *backend, const void *plan, const run_args *args,
                                neap_diag *diag)
{
    const lstm_plan *planned = plan;
    lstm_bw_params params = planned->params.backward;
    cuda_dims dims;
    const cuda_function *function = set_addresses(planned, args, &params, &dims);
    return CUDA_LAUNCH(backend, function, dims, &params, diag);
}

CUDA_OP(lstm_cell, {.plan_bytes = sizeof(lstm_plan),
                    .plan = plan_forward,
                    .run = run_forward,
                    .check = neap_cuda_check_one_type})
CUDA_OP(lstm_cell_bw, {.plan_bytes = sizeof(lstm_plan),
                       .plan = plan_backward,
                       .run = run_backward,
                       .check = neap_cuda_check_one_type})
