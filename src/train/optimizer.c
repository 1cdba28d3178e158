/* neap/optimizer.h: options and learning rates; run/optimizer.c has the updates. */
#include "base/fail.h"

#include <neap/optimizer.h>

#include <math.h>

static const double pi = 3.14159265358979323846;

/* ---- Options ---- */

static neap_status check_range(const char *name, double value, double below, neap_diag *diag)
{
    if (value >= 0 && value < below && isfinite(value))
        return NEAP_OK;
    if (isinf(below))
        return neap_fail(diag, NEAP_INVALID, "%s is %g; it must be a number of 0 or more", name,
                         value);
    return neap_fail(diag, NEAP_INVALID, "%s is %g; it must be a number from 0 to below %g", name,
                     value, below);
}

void neap_sgd_init(neap_sgd *options)
{
    *options = (neap_sgd){.learning_rate = 0.01};
}

neap_status neap_sgd_check(const neap_sgd *options, neap_diag *diag)
{
    neap_status status = check_range("learning rate", options->learning_rate, HUGE_VAL, diag);
    if (status == NEAP_OK)
        status = check_range("momentum", options->momentum, HUGE_VAL, diag);
    if (status == NEAP_OK)
        status = check_range("weight decay", options->weight_decay, HUGE_VAL, diag);
    return status;
}

void neap_adam_init(neap_adam *options)
{
    *options = (neap_adam){.learning_rate = 0.001, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
}

neap_status neap_adam_check(const neap_adam *options, neap_diag *diag)
{
    neap_status status = check_range("learning rate", options->learning_rate, HUGE_VAL, diag);
    if (status == NEAP_OK)
        status = check_range("beta1", options->beta1, 1, diag);
    if (status == NEAP_OK)
        status = check_range("beta2", options->beta2, 1, diag);
    if (status == NEAP_OK)
        status = check_range("epsilon", options->epsilon, HUGE_VAL, diag);
    if (status == NEAP_OK)
        status = check_range("weight decay", options->weight_decay, HUGE_VAL, diag);
    return status;
}

/* ---- Learning rates ---- */

void neap_lr_init(neap_lr *schedule)
{
    *schedule = (neap_lr){.kind = NEAP_LR_CONSTANT, .peak = 0.01};
}

neap_status neap_lr_check(const neap_lr *schedule, neap_diag *diag)
{
    neap_status status = check_range("learning rate", schedule->peak, HUGE_VAL, diag);
    if (status == NEAP_OK)
        status = check_range("last learning rate", schedule->last, HUGE_VAL, diag);
    if (status != NEAP_OK)
        return status;
    if (schedule->kind != NEAP_LR_CONSTANT && schedule->kind != NEAP_LR_COSINE)
        return neap_fail(diag, NEAP_INVALID, "there is no learning-rate schedule number %d",
                         (int)schedule->kind);
    if (schedule->kind == NEAP_LR_COSINE && schedule->last > schedule->peak)
        return neap_fail(diag, NEAP_INVALID,
                         "the last learning rate, %g, is above the first, %g; a cosine falls",
                         schedule->last, schedule->peak);
    if (schedule->warmup < 0 || schedule->steps < 0)
        return neap_fail(diag, NEAP_INVALID, "the steps of a schedule cannot be negative");
    return NEAP_OK;
}

double neap_lr_at(const neap_lr *schedule, int64_t step)
{
    if (step < schedule->warmup)
        return schedule->peak * ((double)step + 1) / (double)schedule->warmup;
    if (schedule->kind == NEAP_LR_CONSTANT)
        return schedule->peak;
    if (step >= schedule->steps)
        return schedule->last;
    double part = (double)(step - schedule->warmup) / (double)(schedule->steps - schedule->warmup);
    return schedule->last + (schedule->peak - schedule->last) * 0.5 * (1 + cos(pi * part));
}
