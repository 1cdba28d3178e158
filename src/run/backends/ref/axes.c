/* Reference kernels over sets of axes. */
#include "run/backends/ref/ref.h"

#include <math.h>
#include <stdio.h>

/* How far the small tensor goes on along each dimension of the large one; 0 where it repeats. */
typedef struct spread {
    const ref_tensor *large;
    int64_t step[NEAP_MAX_RANK];
    int64_t share; /* elements of the large one for each of the small one */
} spread;

static spread spread_of(const ref_call *call, const ref_tensor *small, const ref_tensor *large)
{
    spread s = {.large = large, .share = large->n / small->n};
    int64_t axes = neap_ref_int(call, "axes"), step = 1;
    uint32_t lead = large->rank - small->rank;
    for (uint32_t d = large->rank; d-- > 0;) {
        bool repeats = axes ? axes >> d & 1 : d < lead || small->shape[d - lead] == 1;
        s.step[d] = repeats ? 0 : step;
        step *= repeats ? 1 : large->shape[d];
    }
    return s;
}

/* The element of the small tensor that goes with one of the large. */
static int64_t small_of(const spread *s, int64_t element)
{
    int64_t at = 0;
    for (uint32_t d = s->large->rank; d-- > 0; element /= s->large->shape[d])
        at += element % s->large->shape[d] * s->step[d];
    return at;
}

/* ---- To the large shape ---- */

static void repeat(const ref_call *call, bool mean)
{
    spread s = spread_of(call, &call->in[0], &call->out[0]);
    for (int64_t i = 0; i < call->out[0].n; i++)
        call->out[0].at[i] = call->in[0].at[small_of(&s, i)] / (mean ? (double)s.share : 1);
}

void neap_ref_broadcast(const ref_call *call)
{
    repeat(call, false);
}

void neap_ref_sum_axes_bw(const ref_call *call)
{
    repeat(call, false);
}

void neap_ref_mean_axes_bw(const ref_call *call)
{
    repeat(call, true);
}

/* ---- To the small shape ---- */

static double plus(double a, double b)
{
    return a + b;
}

static double times(double a, double b)
{
    return a * b;
}

static void fold(const ref_call *call, double first, double (*join)(double, double))
{
    const ref_tensor *x = &call->in[0];
    ref_tensor *y = &call->out[0];
    spread s = spread_of(call, y, x);
    for (int64_t i = 0; i < y->n; i++)
        y->at[i] = first;
    for (int64_t i = 0; i < x->n; i++) {
        int64_t k = small_of(&s, i);
        y->at[k] = join(y->at[k], x->at[i]);
    }
}

void neap_ref_sum_to(const ref_call *call)
{
    fold(call, 0, plus);
}

void neap_ref_sum_axes(const ref_call *call)
{
    fold(call, 0, plus);
}

void neap_ref_mean_axes(const ref_call *call)
{
    fold(call, 0, plus);
    for (int64_t i = 0; i < call->out[0].n; i++)
        call->out[0].at[i] /= (double)(call->in[0].n / call->out[0].n);
}

/* What is not a number stays, unlike with fmax. */
static double larger(double a, double b)
{
    return b > a || isnan(b) ? b : a;
}

static double smaller(double a, double b)
{
    return b < a || isnan(b) ? b : a;
}

void neap_ref_max_axes(const ref_call *call)
{
    fold(call, -HUGE_VAL, larger);
}

void neap_ref_min_axes(const ref_call *call)
{
    fold(call, HUGE_VAL, smaller);
}

void neap_ref_prod_axes(const ref_call *call)
{
    fold(call, 1, times);
}

/* ---- Gradients of extremes and products ---- */

/* The row-th of the elements of the large tensor that go with element k of the small one. */
static int64_t large_of(const spread *s, int64_t k, int64_t row)
{
    int64_t at = 0, step = 1;
    for (uint32_t d = s->large->rank; d-- > 0; step *= s->large->shape[d]) {
        int64_t extent = s->large->shape[d], *rest = s->step[d] ? &k : &row;
        at += *rest % extent * step;
        *rest /= extent;
    }
    return at;
}

void neap_ref_max_axes_bw(const ref_call *call)
{
    const ref_tensor *dy = &call->in[0], *x = &call->in[1], *y = &call->in[2];
    spread s = spread_of(call, dy, x);
    for (int64_t k = 0; k < dy->n; k++) {
        int64_t ties = 0;
        for (int64_t r = 0; r < s.share; r++)
            ties += x->at[large_of(&s, k, r)] == y->at[k];
        for (int64_t r = 0; r < s.share; r++) {
            int64_t i = large_of(&s, k, r);
            call->out[0].at[i] = x->at[i] == y->at[k] ? dy->at[k] / (double)ties : 0;
        }
    }
}

/* The product of those before an element, times that of those behind it. */
void neap_ref_prod_axes_bw(const ref_call *call)
{
    const ref_tensor *dy = &call->in[0], *x = &call->in[1];
    spread s = spread_of(call, dy, x);
    for (int64_t k = 0; k < dy->n; k++) {
        double before = dy->at[k], behind = 1;
        for (int64_t r = 0; r < s.share; r++) {
            int64_t i = large_of(&s, k, r);
            call->out[0].at[i] = before;
            before *= x->at[i];
        }
        for (int64_t r = s.share; r-- > 0;) {
            int64_t i = large_of(&s, k, r);
            call->out[0].at[i] *= behind;
            behind *= x->at[i];
        }
    }
}

/* ---- Permutation ---- */

void neap_ref_permute(const ref_call *call)
{
    const ref_tensor *x = &call->in[0], *y = &call->out[0];
    int64_t step[NEAP_MAX_RANK];
    for (uint32_t d = 0; d < x->rank; d++) {
        char name[24];
        snprintf(name, sizeof name, "axis_%u", d);
        step[d] = neap_ref_extent(x, (uint32_t)neap_ref_int(call, name) + 1, x->rank);
    }
    for (int64_t i = 0; i < y->n; i++) {
        int64_t from = 0, rest = i;
        for (uint32_t d = y->rank; d-- > 0; rest /= y->shape[d])
            from += rest % y->shape[d] * step[d];
        y->at[i] = x->at[from];
    }
}
