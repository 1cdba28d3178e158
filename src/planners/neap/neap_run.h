/*
 * The state of the method `neap` and its parts, each in a file of its own:
 *
 *     neap.c         the search as a whole, and the method
 *     rounds.c       rounds of the streams and the bound, and what happens between them
 *     least_peak.c   the search for the least peak
 *     annealing.c    when a graph is annealed
 *     trials.c       addresses while the search goes on
 *     large_graph.c  the first plan of a large graph
 *     result.c       the plan and its bounds
 */
#ifndef NEAP_PLANNERS_NEAP_NEAP_RUN_H
#define NEAP_PLANNERS_NEAP_NEAP_RUN_H

#include "base/memory.h"
#include "base/team.h"
#include "planners/common/planner.h"
#include "planners/neap/bound.h"
#include "planners/neap/small_graph.h"
#include "planners/neap/start_plan.h"

#include <stdatomic.h>

enum {
    STREAMS = 4, /* at most; an even number */
    MANY = 2000  /* with more tasks the first schedules come from linear work and from a cut */
};

enum { EFFORT, SMALL_GRAPHS }; /* options */

/* A search. */
typedef struct neap_run {
    neap_job job;
    const planner *p;
    neap_allocator *allocator; /* safe for all threads */
    problem x;
    start_plan start;
    small_answer small; /* of a graph whose plans can all be looked at, copies aside */
    int64_t floor;      /* bytes that every plan takes */
    int64_t within;     /* the present budget; in the search for the least peak, a level below it */
    double until;       /* the clock when the search for the least peak must end; 0: no matter */
    uint32_t n_streams;
    search streams[STREAMS];
    const neap_link *link; /* NULL: none */
    bound *bound;
    bool bounding;       /* the bound may still improve */
    bool has_thread;     /* the bound has its own thread */
    int64_t any_ticks;   /* the bound for all plans after the last round */
    int64_t bound_ticks; /* likewise, for plans in the best plan's scope */
    neap_scope scope;
    search_cut cut; /* to start from in the next round, if has_cut */
    bool has_cut;
    int64_t cut_ticks;   /* the bound of that cut */
    bool is_settled;     /* the first rounds are over */
    bool annealed;       /* the best plan came from there */
    bool *seen;          /* by task: scratch */
    uint32_t iterations; /* of a stream in a round */
    uint32_t round, last_improved;
    bool knows_offload; /* the plan of `offload` was placed, or cannot be faster */
    double next_trial;  /* the clock when the best plan is to be placed again */
    int64_t tried;      /* ticks of the plan that was placed last */
    int64_t placed;     /* a budget whose plan could be placed; -1: none */
    int64_t not_placed; /* one whose plan could not */
    atomic_uint next;   /* job of the round */
    neap_status status[STREAMS + 1];
    neap_diag diags[STREAMS + 1];
    search_plan best;
} neap_run;

/* ---- rounds.c ---- */

/* Whether the time is over, or a part of it (run->until); context: the run. */
bool neap_run_stopped(void *context);
void neap_run_take_jobs(neap_job *self, neap_team *team, unsigned member);

/* The bound for another budget. */
neap_status neap_run_begin_bound(neap_run *run, int64_t within, neap_diag *diag);

/* One round of all streams, and of the bound if it has no thread. */
neap_status neap_run_round(neap_run *run, neap_diag *diag);

/* Updates the best plan. Checks one stream in turn: if it lags, it continues from the best plan. */
neap_status neap_run_compare_streams(neap_run *run, neap_diag *diag);
void neap_run_read_bound(neap_run *run);

/* All streams continue from the best plan. */
neap_status neap_run_continue_from_best(neap_run *run, neap_diag *diag);

/* All streams continue within another budget, from the best plan if there is one, with a new
   bound. */
neap_status neap_run_move_budget(neap_run *run, int64_t within, neap_diag *diag);

/* The same, but the bound remains. */
neap_status neap_run_move_streams(neap_run *run, int64_t within, neap_diag *diag);

/* Within the present budget. */
bool neap_run_fits(const neap_run *run, const search_plan *plan);
bool neap_run_is_better(const neap_run *run, const search_plan *a, const search_plan *b);

/* As fast as the caller needs. */
bool neap_run_is_fast_enough(const neap_run *run, const search_plan *plan);

static inline bool neap_run_seeks_peak(const neap_run *run)
{
    return run->p->request->objective == NEAP_LEAST_PEAK;
}

/* ---- least_peak.c ---- */

/* Leaves the streams within the least peak found. */
neap_status neap_run_least_peak(neap_run *run, neap_diag *diag);

/* In a graph of some size the streams approach a number of bytes level by level, until a plan fits
   and can be placed. Then they continue within what can probably be placed. */
bool neap_run_can_approach(const neap_run *run);
neap_status neap_run_approach(neap_run *run, int64_t target, neap_diag *diag);

/* ---- annealing.c ---- */

/* The first rounds of a graph that may be annealed do not last until the time limit. */
void neap_run_limit_first_rounds(neap_run *run);

/* Whether the present round is the last of the first ones. */
bool neap_run_ends_first_rounds(neap_run *run);

/* After the first rounds: a graph with a wide gap is annealed. */
neap_status neap_run_anneal_if_wide(neap_run *run, neap_diag *diag);

/* Anneals from a schedule (NULL: from every task once) for a share of the time limit. What is
   better than the best plan takes its place. */
neap_status neap_run_anneal(neap_run *run, const compute_list *from, double share, neap_diag *diag);

/* ---- trials.c ---- */

/* Whether plans are placed while the search goes on. */
static inline bool neap_run_places(const neap_run *run)
{
    return run->p->trial && run->p->request->time_limit > 0;
}

void neap_run_begin_trials(neap_run *run);

/* Places the best plan in a share of the time that is left; *arena: what its addresses need. */
neap_status neap_run_place_best(neap_run *run, double share, int64_t *arena, neap_diag *diag);

/* With a link: has the plan of `offload` placed, once, if it may be faster than the best. */
neap_status neap_run_place_offload(neap_run *run, neap_diag *diag);

/* Places the best plan if it is time to. */
neap_status neap_run_look_at_addresses(neap_run *run, neap_diag *diag);

/* ---- large_graph.c ---- */

/* Makes the first plan of a large graph, for a stream to start from. */
neap_status neap_run_begin_linearly(neap_run *run, neap_diag *diag);

/* Another one, within the present budget; if it is better than the best plan, all streams continue
   from it. */
neap_status neap_run_plan_linearly_again(neap_run *run, neap_diag *diag);

/* Whether the graph is so large that this plan is the result. */
bool neap_run_ends_after_linear_work(const neap_run *run);

/* Then the rest of the time is for the bound. */
neap_status neap_run_bound_largest(neap_run *run, neap_diag *diag);

/* ---- result.c ---- */

neap_status neap_run_write_draft(neap_run *run, draft *d, neap_diag *diag);

/* For a graph all whose plans are known. */
neap_status neap_run_write_small_draft(neap_run *run, draft *d, neap_diag *diag);

#endif
