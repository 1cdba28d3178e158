/*
 * The memory and time of the operations on a stage, found by simulating its ops.
 *
 * Stages are 0 .. n-1. A(i) is what leaves stage i (its cut: a storage, or several), S(i) what its
 * backward ops read of what it makes, D(i) the gradients that enter its backward ops, E(i) the
 * carried storages (neap/chain.h) that stage i needs and no earlier one. Bytes exclude what is live
 * throughout (`pinned_bytes`): inputs, fixed memory, side storages.
 *
 *     forward   its forward ops, keeping A(i)
 *     save      its forward ops, keeping A(i) and S(i)
 *     again     those of its forward ops that S(i) needs, keeping S(i); for the last stage, all
 *     backward  its backward ops, from S(i) and D(i), keeping D(i-1) and the results
 *
 * The first time, `forward` and `save` run all forward ops; later, where storages are carried, only
 * those that A(i) and S(i) need. A stage runs for the first time in every schedule, so times leave
 * out what only the first run adds.
 *
 * The treatment of A(i-1) depends on the mode. HELD: it is needed later; it stays and is not
 * counted here. OWNED: it is counted, and freed after its last use in `save`, `again` or, if the
 * backward ops read it, in `backward`. E(i) is counted in `save` and `again` likewise, and stays
 * where a later stage needs it, too; a subchain counts the E of those of its stages that are not
 * done.
 */
#ifndef NEAP_PLANNERS_STAGE_COSTS_H
#define NEAP_PLANNERS_STAGE_COSTS_H

#include "planners/chain/chain_views.h"

enum { HELD = 0, OWNED = 1, N_MODES = 2 };

typedef struct stage_cost {
    int64_t forward_ticks, again_ticks, backward_ticks;
    int64_t input;     /* |A(i-1)|; 0 for the first stage */
    int64_t output;    /* |A(i)| */
    bool output_saved; /* A(i), or a part of it, is in S(i); then all of it stays with S(i) */
    int64_t gradient;  /* |D(i)| */
    int64_t results;   /* outputs of the graph that it makes */
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
    int64_t *results_from;  /* n + 1: results of stages i and later */
    int64_t *forward_until; /* n + 1: forward time of the stages before i */
    int64_t *least_until;   /* n + 1: forward and backward time of the stages before i */
    int64_t first_ticks;    /* of what only the first run of a stage adds, all stages together */
    int64_t pinned_bytes;   /* live throughout */
    bool exact;             /* the peaks are those of the plans: every stage is one op each way,
                               nothing is carried, and A(i) is in S(i) as a whole or not at all */
    bool carries;           /* some storages are carried */
    int64_t *carried_until; /* n + 1: of E(0) .. E(i-1) */
    bool *again;            /* per forward op: part of `again` */
    bool *rerun;            /* per forward op: part of `forward` and `save` after the first time */
    neap_arena arena;       /* of the arrays */
} stage_costs;

/* Which variants count: the time of one and the workspace of another (variant_search.h). */
typedef struct variant_range {
    uint32_t fast, lean;
} variant_range;

/* All variants of each op: the time of the fastest, the workspace of the leanest. */
void neap_variant_ranges_init(const neap_graph *graph, variant_range *ranges);

/* A chain view of the planner's graph and the costs of its stages, with the variants in `ranges`
 * (per op; NULL: all). Clear also after a failure. */
neap_status neap_stage_costs_build(const planner *p, chain_view view, const variant_range *ranges,
                                   stage_costs *costs, neap_diag *diag);
void neap_stage_costs_clear(stage_costs *costs);

/* Bytes with which everything can be saved: more never helps. */
int64_t neap_stage_costs_enough(const stage_costs *costs);

/* ---- Terms of the recursion in schedule.h ---- */

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Results of the stages i .. j. */
static inline int64_t stage_costs_results(const stage_costs *costs, uint32_t i, uint32_t j)
{
    return costs->results_from[i] - costs->results_from[j + 1];
}

/* E(i) .. E(j). */
static inline int64_t stage_costs_carried(const stage_costs *costs, uint32_t i, uint32_t j)
{
    return costs->carried_until[j + 1] - costs->carried_until[i];
}

/* A(i-1) while a later checkpoint is in use. */
static inline int64_t stage_costs_held_input(const stage_costs *costs, int mode, uint32_t i)
{
    return mode == OWNED ? costs->stage[i].input : 0;
}

/* Extends the peak of forward(i .. k-2) to forward(i .. k-1). */
static inline int64_t stage_costs_extend_peak(const stage_costs *costs, int mode, uint32_t i,
                                              uint32_t k, int64_t peak)
{
    if (k <= i + 1)
        return costs->stage[i].forward_peak[mode];
    return larger(peak, stage_costs_held_input(costs, mode, i) + costs->stage[k - 1].drop_peak);
}

/* Time of stages i .. j without recomputation, the last one entered by `again`. */
static inline int64_t stage_costs_least_ticks(const stage_costs *costs, uint32_t i, uint32_t j)
{
    return costs->least_until[j] - costs->least_until[i] + costs->stage[j].again_ticks +
           costs->stage[j].backward_ticks;
}

/* Forward time repeated by any schedule that runs i .. j as a subchain: unless it ends in the last
 * stage, its stages have run forward before. */
static inline int64_t stage_costs_repeated(const stage_costs *costs, uint32_t i, uint32_t j)
{
    if (j + 1 == costs->n)
        return 0;
    return costs->forward_until[j] - costs->forward_until[i] + costs->stage[j].again_ticks;
}

/* The place of subchain i .. j in a table by mode, then i, then j = i .. n-1. */
static inline size_t stage_costs_place(const stage_costs *costs, int mode, uint32_t i, uint32_t j)
{
    size_t n = costs->n;
    return (size_t)mode * (n * (n + 1) / 2) + (size_t)i * n - (size_t)i * (i - 1) / 2 + (j - i);
}

/* One choice for a subchain i .. j: save stage i (k = i), or checkpoint A(k-1). */
typedef struct chain_split {
    uint32_t right; /* the right part is right .. j; the left part is i .. k-1, none for a save */
    int right_mode;
    int64_t peak;                  /* of the runs outside the two parts */
    int64_t right_held, left_held; /* bytes held while each part runs */
    int64_t ticks;                 /* outside the two parts */
} chain_split;

/* `forward_peak` is the peak of forward(i .. k-1). */
static inline chain_split stage_costs_split(const stage_costs *costs, int mode, uint32_t i,
                                            uint32_t j, uint32_t k, int64_t forward_peak)
{
    const stage_cost *first = &costs->stage[i];
    int64_t gradient = costs->stage[j].gradient;
    if (k > i)
        return (chain_split){.right = k,
                             .right_mode = OWNED,
                             .peak = gradient + stage_costs_carried(costs, i, j) + forward_peak,
                             .right_held = stage_costs_held_input(costs, mode, i) +
                                           stage_costs_carried(costs, i, k - 1),
                             .left_held = stage_costs_results(costs, k, j),
                             .ticks = costs->forward_until[k] - costs->forward_until[i]};
    return (chain_split){
        .right = i + 1,
        .right_mode = first->output_saved ? HELD : OWNED,
        .peak = larger(gradient + stage_costs_carried(costs, i + 1, j) + first->save_peak[mode],
                       stage_costs_results(costs, i + 1, j) + first->backward_peak[mode]),
        .right_held = first->kept[mode] - (first->output_saved ? 0 : first->output),
        .ticks = first->forward_ticks + first->backward_ticks};
}

#endif
