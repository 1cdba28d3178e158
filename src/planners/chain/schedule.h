/*
 * A recursive checkpointing schedule of a chain, and its lowering to a plan.
 *
 * A schedule is a list of runs of stages. All budgeted chain methods share this recursion for the
 * subchain of stages i .. j, where A(i-1) and the gradient D(j) are live (Herrmann et al. 2019, eq.
 * 1 to 3; Butt 2019, eq. 3.1, is the case without `save`):
 *
 *     one stage:   again(i), backward(i)
 *     save:        save(i), then i+1 .. j, then backward(i)
 *     checkpoint:  forward(i .. k-1) keeping A(k-1), then k .. j, then free A(k-1), then i .. k-1
 *
 * Memory beyond what the caller holds (outer checkpoints, results of stages after j, and A(i-1)
 * itself in mode HELD). r is the mode of the part after a save: HELD if the backward of i reads
 * A(i) too, else OWNED. h is |A(i-1)| in mode OWNED, else 0:
 *
 *     one stage:   max(|D(i)| + again_peak(i),
 *                      backward_peak(i))
 *     save:        max(|D(j)| + |E(i+1 .. j)| + save_peak(i),
 *                      kept(i) + need_r(i+1, j) [- |A(i)| if r is OWNED],
 *                      results(i+1 .. j) + backward_peak(i))
 *     checkpoint:  max(|D(j)| + |E(i .. j)| + forward_peak(i),
 *                      |D(j)| + |E(i .. j)| + h + drop_peak(i+1 .. k-1),
 *                      h + |E(i .. k-1)| + need_OWNED(k, j),
 *                      results(k .. j) + need(i, k-1))
 */
#ifndef NEAP_PLANNERS_SCHEDULE_H
#define NEAP_PLANNERS_SCHEDULE_H

#include "planners/chain/stage_costs.h"

typedef enum run_kind { RUN_FORWARD = 0, RUN_AGAIN, RUN_BACKWARD } run_kind;

typedef struct stage_run {
    run_kind kind;
    uint32_t stage;
} stage_run;

typedef struct schedule {
    neap_allocator *allocator;
    stage_run *runs;
    size_t n_runs, capacity;
} schedule;

/* What to do with a subchain. k = i: save, or the one stage (i = j). k > i: checkpoint A(k-1). */
typedef struct subchain {
    uint32_t i, j;
    int mode;       /* HELD or OWNED: A(i-1) */
    int64_t memory; /* in the method's own unit */
} subchain;

/*
 * Called for each subchain of more than one stage. Returns k and the memory of the two parts:
 * `right` is k .. j (i+1 .. j after a save), `left` is i .. k-1.
 */
typedef struct run_chooser run_chooser;
struct run_chooser {
    uint32_t (*choose)(run_chooser *self, subchain whole, int64_t *right_memory,
                       int64_t *left_memory);
};

/* Unrolls the choices for stages 0 .. n-1. */
neap_status neap_schedule_build(const planner *p, const stage_costs *costs, run_chooser *chooser,
                                int64_t memory, schedule *schedule, neap_diag *diag);
void neap_schedule_clear(schedule *schedule);
/* The time of all its runs, without what only the first run of a stage adds (stage_costs.h). */
int64_t neap_schedule_ticks(const stage_costs *costs, const schedule *schedule);

/* Makes the draft's plan from a schedule. */
neap_status neap_planner_use_schedule(const planner *p, draft *d, const stage_costs *costs,
                                      const schedule *s, neap_diag *diag);

/* The schedule of least memory, and its bytes, pinned ones included (least_memory.c). */
neap_status neap_least_memory_schedule(const planner *p, const stage_costs *costs, schedule *s,
                                       int64_t *bytes, neap_diag *diag);

/* ---- Methods that plan a chain to a budget (chain_budget.c) ---- */

/*
 * Finds a schedule for `memory` bytes beyond the pinned ones; sets *found, and leaves the schedule
 * empty if there is none. `memory` is never far above what saving all stages takes.
 */
typedef neap_status (*schedule_finder)(const planner *p, draft *d, const stage_costs *costs,
                                       int64_t memory, schedule *schedule, bool *found,
                                       neap_diag *diag);

/* A whole method, on the views that `cuts` asks for, the fine one with at most so many stages
 * (chain_views.h): the costs, a schedule, the plan; the schedule of least memory if none fits. */
neap_status neap_planner_use_finder(const planner *p, draft *d, int cuts, uint32_t most_stages,
                                    schedule_finder find, neap_diag *diag);

#endif
