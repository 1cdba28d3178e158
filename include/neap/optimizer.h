/*
 * neap/optimizer.h - weight updates (SGD and Adam) and learning rate schedules.
 *
 * The formulas are those of torch.optim.SGD, torch.optim.Adam and torch.optim.AdamW, in float, with
 * each product and sum rounded separately. An update works on flat arrays, element by element: the
 * result is the same to the bit whether a tensor is updated whole, in pieces, or by several
 * threads. The arrays of one call must not overlap.
 *
 *     neap_adam adam;
 *     neap_adam_init(&adam);
 *     adam.learning_rate = neap_lr_at(&schedule, step);
 *     neap_adam_update(w, g, m, v, n, step + 1, &adam);
 */
#ifndef NEAP_OPTIMIZER_H
#define NEAP_OPTIMIZER_H

#include <neap/status.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- SGD ---- */

typedef struct neap_sgd {
    double learning_rate; /* 0 or more; default 0.01 */
    double momentum;      /* 0 or more, 0: none; default 0 */
    double weight_decay;  /* 0 or more, added to the gradient as weight_decay * w; default 0 */
} neap_sgd;

NEAP_API void neap_sgd_init(neap_sgd *options);
/* NEAP_INVALID, with the option's name, if one is out of its range. */
NEAP_API neap_status neap_sgd_check(const neap_sgd *options, neap_diag *diag);

/*
 * For each of the n elements:
 *
 *     d  = g + weight_decay * w            (d = g without weight decay)
 *     b  = momentum * b + d;  d = b        (only with momentum)
 *     w  = w - learning_rate * d
 *
 * `momentum` is b: all zeros before the first step, then kept between steps. It may be NULL only if
 * options->momentum is 0.
 */
NEAP_API void neap_sgd_update(float *w, const float *g, float *momentum, int64_t n,
                              const neap_sgd *options);

/* ---- Adam ---- */

typedef struct neap_adam {
    double learning_rate; /* 0 or more; default 0.001 */
    double beta1, beta2;  /* 0 to below 1; default 0.9 and 0.999 */
    double epsilon;       /* 0 or more; default 1e-8 */
    double weight_decay;  /* 0 or more; default 0 */
    bool decoupled;       /* weight decay as in AdamW; default false: as in Adam */
} neap_adam;

NEAP_API void neap_adam_init(neap_adam *options);
/* NEAP_INVALID, with the option's name, if one is out of its range. */
NEAP_API neap_status neap_adam_check(const neap_adam *options, neap_diag *diag);

/*
 * For each of the n elements, at step t = 1, 2, ... :
 *
 *     w  = w * (1 - learning_rate * weight_decay)      (only decoupled)
 *     g  = g + weight_decay * w                        (only not decoupled)
 *     m  = m + (1 - beta1) * (g - m)
 *     v  = beta2 * v + (1 - beta2) * g * g
 *     w  = w - learning_rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
 *
 * m and v are all zeros before the first step, then kept between steps. Factors that are the same
 * for all elements are computed in double and rounded once. A step below 1 counts as 1.
 */
NEAP_API void neap_adam_update(float *w, const float *g, float *m, float *v, int64_t n,
                               int64_t step, const neap_adam *options);

/* ---- Learning rates ---- */

typedef enum neap_lr_kind {
    NEAP_LR_CONSTANT = 0, /* always the peak */
    NEAP_LR_COSINE = 1    /* half a cosine from the peak down to `last` at step `steps` */
} neap_lr_kind;

typedef struct neap_lr {
    neap_lr_kind kind; /* default constant */
    double peak;       /* 0 or more; default 0.01 */
    double last;       /* 0 to the peak; cosine only; default 0 */
    int64_t warmup;    /* initial steps of linear growth to the peak; default 0 */
    int64_t steps;     /* the step at which the cosine ends; default 0: right after the warm-up */
} neap_lr;

NEAP_API void neap_lr_init(neap_lr *schedule);
/* NEAP_INVALID, with the option's name, if one is out of its range. */
NEAP_API neap_status neap_lr_check(const neap_lr *schedule, neap_diag *diag);

/*
 * The learning rate of a step, counted from 0. During the warm-up it is peak * (step + 1) / warmup,
 * so that no step has a rate of 0; after it, the schedule of `kind`. The cosine stays at `last`
 * from `steps` on.
 */
NEAP_API double neap_lr_at(const neap_lr *schedule, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
