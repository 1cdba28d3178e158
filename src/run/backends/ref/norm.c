/* Reference kernels of RMS normalisation and of batch normalisation by given statistics. */
#include "run/backends/ref/ref.h"

#include <math.h>

/* ---- RMS: rows of the last dimension ---- */

void neap_ref_rms_norm(const ref_call *call)
{
    const ref_tensor *x = &call->in[0], *gamma = &call->in[1];
    int64_t n = gamma->n;
    for (int64_t r = 0; r < x->n / n; r++) {
        double squares = 0;
        for (int64_t c = 0; c < n; c++)
            squares += x->at[r * n + c] * x->at[r * n + c];
        double invrms = 1 / sqrt(squares / (double)n + neap_ref_real(call, "epsilon"));
        call->out[1].at[r] = invrms;
        for (int64_t c = 0; c < n; c++)
            call->out[0].at[r * n + c] = x->at[r * n + c] * invrms * gamma->at[c];
    }
}

/* With d = dy gamma and z = x invrms: dx = invrms (d - z mean(d z)), dgamma = the sum of dy z. */
void neap_ref_rms_norm_bw(const ref_call *call)
{
    bool data = call->op->n_outputs == 2;
    const ref_tensor *dy = &call->in[0], *x = &call->in[1], *gamma = &call->in[2];
    const double *invrms = call->in[data ? 3 : 2].at;
    ref_tensor *dgamma = &call->out[data];
    int64_t n = dgamma->n;
    for (int64_t r = 0; r < x->n / n; r++) {
        double product = 0;
        for (int64_t c = 0; c < n; c++) {
            double z = x->at[r * n + c] * invrms[r], d = dy->at[r * n + c];
            dgamma->at[c] += d * z;
            product += data ? d * gamma->at[c] * z / (double)n : 0;
        }
        for (int64_t c = 0; data && c < n; c++) {
            double z = x->at[r * n + c] * invrms[r], d = dy->at[r * n + c] * gamma->at[c];
            call->out[0].at[r * n + c] = invrms[r] * (d - z * product);
        }
    }
}

/* ---- Frozen batch normalisation ---- */

static int64_t channel_of(const ref_tensor *x, int64_t i)
{
    return i / neap_ref_extent(x, 2, x->rank) % x->shape[1];
}

static double invstd_of(const ref_call *call, const ref_tensor *variance, int64_t channel)
{
    return 1 / sqrt(variance->at[channel] + neap_ref_real(call, "epsilon"));
}

void neap_ref_batch_norm_frozen(const ref_call *call)
{
    const ref_tensor *x = &call->in[0];
    for (int64_t i = 0; i < x->n; i++) {
        int64_t c = channel_of(x, i);
        double z = (x->at[i] - call->in[3].at[c]) * invstd_of(call, &call->in[4], c);
        call->out[0].at[i] = z * call->in[1].at[c] + call->in[2].at[c];
    }
}

void neap_ref_batch_norm_frozen_bw_data(const ref_call *call)
{
    const ref_tensor *dy = &call->in[0];
    for (int64_t i = 0; i < dy->n; i++) {
        int64_t c = channel_of(dy, i);
        call->out[0].at[i] = dy->at[i] * call->in[1].at[c] * invstd_of(call, &call->in[2], c);
    }
}

void neap_ref_batch_norm_frozen_bw_weight(const ref_call *call)
{
    const ref_tensor *dy = &call->in[0], *x = &call->in[1];
    for (int64_t i = 0; i < dy->n; i++) {
        int64_t c = channel_of(dy, i);
        call->out[0].at[c] +=
            dy->at[i] * (x->at[i] - call->in[2].at[c]) * invstd_of(call, &call->in[3], c);
    }
}
