/*
 * The memory and time of the things one can do with a stage, found by running its ops on paper.
 *
 * Stages are 0 .. n-1; A(i) is what leaves stage i (its cut), S(i) what its backward ops read of what it makes inside,
 * D(i) the gradients that enter its backward ops. Bytes leave out what is there throughout: inputs, fixed memory,
 * side storages (together `pinned_bytes`), and the stage's own entering cut A(i-1).
 *
 *     forward   all its forward ops, keeping A(i)
 *     save      all its forward ops, keeping A(i) and S(i)
 *     again     those of its forward ops that S(i) needs, keeping S(i); for the last stage, all
 *     backward  its backward ops, from S(i) and D(i), keeping D(i-1) and the results
 *
 * Peaks are exact when a stage is one op each way, and otherwise an upper bound: a plan frees A(i-1) as soon as
 * it can, which may be inside the backward ops.
 */
#ifndef NEAP_PLANNERS_STAGE_COSTS_H
#define NEAP_PLANNERS_STAGE_COSTS_H

#include "planners/planner_internal.h"

#include <neap/chain.h>

typedef struct stage_cost {
    int64_t forward_ticks, again_ticks, backward_ticks;
    int64_t output;       /* |A(i)| */
    int64_t kept;         /* |A(i) and S(i)| together */
    int64_t gradient;     /* |D(i)| */
    int64_t results;      /* outputs of the graph it leaves behind */
    int64_t forward_peak; /* A(i-1) stays, and is not counted */
    int64_t drop_peak;    /* forward, A(i-1) counted, and freed after its last use */
    int64_t save_peak;    /* A(i-1) stays, not counted; likewise below */
    int64_t again_peak;
    int64_t backward_peak; /* with S(i) and D(i) */
} stage_cost;

typedef struct stage_costs {
    uint32_t n;
    stage_cost *stage;
    int64_t *results_from;  /* n + 1: sum of the results of stages i and later */
    int64_t *forward_until; /* n + 1: sum of the forward times of stages before i */
    int64_t pinned_bytes;   /* taken throughout */
    bool *again;            /* per forward op: part of `again` */
    uint32_t n_forward;
    neap_allocator *allocator;
} stage_costs;

neap_status stage_costs_build(const planner *p, const neap_chain *chain, stage_costs *costs,
                              neap_diag *diag);
void stage_costs_clear(stage_costs *costs);

/* Every stage's forward and backward time once: what a subchain i .. j takes at least. */
int64_t stage_costs_least_ticks(const stage_costs *costs, uint32_t i, uint32_t j);

#endif
