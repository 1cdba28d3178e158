/* Updates and the norm of gradients. */
#include "run/update.h"
#include "run/backends/ref/ref.h"

#include <string.h>

/* Updates compute in f32 by their definition (docs/ops.md), from doubles that hold f32 exactly. */
static void update(const ref_call *call)
{
    run_array arrays[RUN_UPDATE_OPERANDS];
    void *in[RUN_UPDATE_OPERANDS];
    run_update plan;
    for (uint32_t i = 0; i < call->op->n_inputs; i++) {
        arrays[i] = (run_array){.dtype = NEAP_F64, .rank = call->in[i].rank};
        memcpy(arrays[i].shape, call->in[i].shape, sizeof arrays[i].shape);
        neap_run_array_set_plain(&arrays[i]);
        in[i] = call->in[i].at;
    }
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
