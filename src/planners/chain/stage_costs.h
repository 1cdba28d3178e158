/*
 * The memory and time of the things one can do with a stage, found by running its ops on paper.
 *
 * Stages are 0 .. n-1; A(i) is what leaves stage i (its cut), S(i) what its backward ops read of
 * what it makes, D(i) the gradients that enter its backward ops. Bytes leave out what is there
 * throughout (`pinned_bytes`): inputs, fixed memory, side storages.
 *
 *     forward   all its forward ops, keeping A(i)
 *     save      all its forward ops, keeping A(i) and S(i)
 *     again     those of its forward ops that S(i) needs, keeping S(i); for the last stage, all
 *     backward  its backward ops, from S(i) and D(i), keeping D(i-1) and the results
 *
 * What becomes of A(i-1) depends on who holds it. HELD: somebody else needs it later; it stays, and
 * is not counted here. OWNED: it is counted, and freed after its last use in `save`, `again` or, if
 * the backward ops read it, in `backward`.
 */
#ifndef NEAP_PLANNERS_STAGE_COSTS_H
#define NEAP_PLANNERS_STAGE_COSTS_H

#include "planners/common/planner.h"

#include <neap/chain.h>

enum { HELD = 0, OWNED = 1, N_MODES = 2 };

typedef struct stage_cost {
    int64_t forward_ticks, again_ticks, backward_ticks;
    int64_t input;     /* |A(i-1)|; 0 for the first stage */
    int64_t output;    /* |A(i)| */
    bool output_saved; /* A(i) is part of S(i) */
    int64_t gradient;  /* |D(i)| */
    int64_t results;   /* outputs of the graph it leaves behind */
    int64_t drop_peak; /* forward, A(i-1) counted and freed after its last use */
    /* By mode. */
    int64_t forward_peak[N_MODES]; /* A(i-1) stays */
    int64_t save_peak[N_MODES];
    int64_t kept[N_MODES]; /* after `save` */
    int64_t again_peak[N_MODES];
    int64_t backward_peak[N_MODES]; /* with S(i) and D(i) */
} stage_cost;

typedef struct stage_costs {
    neap_chain chain; /* of the graph; empty for groups of stages */
    uint32_t n;
    stage_cost *stage;
    int64_t *results_from;  /* n + 1: sum of the results of stages i and later */
    int64_t *forward_until; /* n + 1: sum of the forward times of stages before i */
    int64_t pinned_bytes;   /* taken throughout */
    bool exact;             /* every stage is one op each way: the peaks are those of the plans */
    bool *again;            /* per forward op: part of `again` */
    neap_arena arena;       /* of the arrays */
} stage_costs;

/* The chain view of the planner's graph, and what its stages cost. Clear also after a failure. */
neap_status neap_stage_costs_build(const planner *p, stage_costs *costs, neap_diag *diag);
void neap_stage_costs_clear(stage_costs *costs);

/* ---- Terms of the recursion in schedule.h ---- */

/* Results of the stages i .. j. */
static inline int64_t stage_costs_results(const stage_costs *costs, uint32_t i, uint32_t j)
{
    return costs->results_from[i] - costs->results_from[j + 1];
}

/* A(i-1) while a checkpoint behind it is in use. */
static inline int64_t stage_costs_held_input(const stage_costs *costs, int mode, uint32_t i)
{
    return mode == OWNED ? costs->stage[i].input : 0;
}

/* Grows the peak of forward(i .. k-2) to that of forward(i .. k-1). */
static inline int64_t stage_costs_extend_peak(const stage_costs *costs, int mode, uint32_t i,
                                              uint32_t k, int64_t peak)
{
    if (k == i + 1)
        return costs->stage[i].forward_peak[mode];
    int64_t here = stage_costs_held_input(costs, mode, i) + costs->stage[k - 1].drop_peak;
    return here > peak ? here : peak;
}

#endif
