/* Updates, running statistics and the norm of gradients. */
#include "run/update.h"
#include "run/backends/ref/ref.h"

#include <string.h>

/* Updates compute in f32 by their definition (docs/ops.md), from doubles that hold f32 exactly. */
static void list_operand(const ref_call *call, uint32_t i, run_array *array, void **in)
{
    *array = (run_array){.dtype = NEAP_F64, .rank = call->in[i].rank};
    memcpy(array->shape, call->in[i].shape, sizeof array->shape);
    neap_run_array_set_plain(array);
    *in = call->in[i].at;
}

static void update(const ref_call *call)
{
    run_array arrays[RUN_UPDATE_OPERANDS];
    void *in[RUN_UPDATE_OPERANDS];
    run_update plan;
    for (uint32_t i = 0; i < call->op->n_inputs; i++)
        list_operand(call, i, &arrays[i], &in[i]);
    neap_run_update_plan(&(run_spec){.op = call->op, .in = arrays}, &plan);
    neap_run_update(&plan, in, 0, plan.elements);
}

void neap_ref_sgd(const ref_call *call)
{
    update(call);
}

void neap_ref_momentum(const ref_call *call)
{
    update(call);
}

void neap_ref_adam(const ref_call *call)
{
    update(call);
}

void neap_ref_adamw(const ref_call *call)
{
    update(call);
}

void neap_ref_clip_norm(const ref_call *call)
{
    double squares = 0;
    for (uint32_t i = 0; i < call->op->n_inputs; i++)
        for (int64_t k = 0; k < call->in[i].n; k++)
            squares += call->in[i].at[k] * call->in[i].at[k];
    call->out[0].at[0] = (double)neap_run_clip_scale(squares, neap_ref_real(call, "norm"));
}

/* Batch by batch, so that there may be any number of them. */
void neap_ref_running_stats(const ref_call *call)
{
    run_array arrays[4];
    void *in[4];
    run_statistics plan;
    list_operand(call, 0, &arrays[0], &in[0]);
    list_operand(call, 1, &arrays[1], &in[1]);
    neap_run_statistics_plan(&(run_spec){.op = call->op, .in = arrays}, &plan);
    for (uint32_t i = 2; i < call->op->n_inputs; i += 2) {
        list_operand(call, i, &arrays[2], &in[2]);
        list_operand(call, i + 1, &arrays[3], &in[3]);
        neap_run_statistics(&plan, 1, arrays, in, 0, plan.channels);
    }
}
