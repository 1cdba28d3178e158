/* Reference kernels of gather, where, pad, and the mean of squared differences. */
#include "run/backends/ref/ref.h"

#include <stdio.h>

/* ---- Gather: x as [outer, V, inner], y as [outer, indices, inner] ---- */

static void for_gathered(const ref_call *call, const ref_tensor *x, const ref_tensor *y,
                         const ref_tensor *indices, bool add)
{
    uint32_t axis = (uint32_t)neap_ref_int(call, "axis");
    int64_t outer = neap_ref_extent(x, 0, axis), inner = neap_ref_extent(x, axis + 1, x->rank);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < indices->n; i++)
            for (int64_t k = 0; k < inner; k++) {
                double *from = &x->at[(o * x->shape[axis] + (int64_t)indices->at[i]) * inner + k];
                double *to = &y->at[(o * indices->n + i) * inner + k];
                if (add)
                    *from += *to;
                else
                    *to = *from;
            }
}

void neap_ref_gather(const ref_call *call)
{
    for_gathered(call, &call->in[0], &call->out[0], &call->in[1], false);
}

void neap_ref_gather_bw(const ref_call *call)
{
    for_gathered(call, &call->out[0], &call->in[0], &call->in[1], true);
}

/* ---- Where ---- */

void neap_ref_where(const ref_call *call)
{
    const ref_tensor *condition = &call->in[2];
    for (int64_t i = 0; i < call->out[0].n; i++)
        call->out[0].at[i] =
            condition->at[i % condition->n] != 0 ? call->in[0].at[i] : call->in[1].at[i];
}

void neap_ref_where_bw(const ref_call *call)
{
    const ref_tensor *condition = &call->in[1];
    bool of_b = neap_ref_int(call, "of_b") != 0;
    for (int64_t i = 0; i < call->out[0].n; i++)
        call->out[0].at[i] = (condition->at[i % condition->n] != 0) != of_b ? call->in[0].at[i] : 0;
}

/* ---- Pad ---- */

void neap_ref_pad(const ref_call *call)
{
    const ref_tensor *x = &call->in[0], *y = &call->out[0];
    int64_t before[NEAP_MAX_RANK];
    for (uint32_t d = 0; d < x->rank; d++) {
        char name[24];
        snprintf(name, sizeof name, "before_%u", d);
        before[d] = neap_ref_int(call, name);
    }
    for (int64_t i = 0; i < y->n; i++) {
        int64_t from = 0, rest = i, step = 1;
        bool inside = true;
        for (uint32_t d = x->rank; d-- > 0; step *= x->shape[d], rest /= y->shape[d]) {
            int64_t at = rest % y->shape[d] - before[d];
            inside = inside && at >= 0 && at < x->shape[d];
            from += at * step;
        }
        y->at[i] = inside ? x->at[from] : neap_ref_real(call, "value");
    }
}

/* ---- Mean of squared differences ---- */

void neap_ref_mse(const ref_call *call)
{
    const ref_tensor *x = &call->in[0], *target = &call->in[1];
    double sum = 0;
    for (int64_t i = 0; i < x->n; i++)
        sum += (x->at[i] - target->at[i]) * (x->at[i] - target->at[i]);
    call->out[0].at[0] = sum / (double)x->n;
}

void neap_ref_mse_bw(const ref_call *call)
{
    const ref_tensor *x = &call->in[1], *target = &call->in[2];
    for (int64_t i = 0; i < x->n; i++)
        call->out[0].at[i] = call->in[0].at[0] * 2 / (double)x->n * (x->at[i] - target->at[i]);
}
