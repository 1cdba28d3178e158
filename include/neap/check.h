/*
 * neap/check.h - the judge: replays a plan against its graph and says what it costs, or why it is
 * wrong.
 *
 * It is naive on purpose, knows graphs and plans but no planner, and is always on: neap_solve
 * (neap/solve.h) judges every plan before it hands it over. Its rules are docs/memory-model.md.
 * Its figures are the figures: peak, arena, time.
 */
#ifndef NEAP_CHECK_H
#define NEAP_CHECK_H

#include <neap/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NEAP_REASON_CAPACITY 512

typedef struct neap_verdict {
    bool accepted;
    char reason[NEAP_REASON_CAPACITY]; /* why not: one line with step, op or value, and what would
                                          do; else "" */
    size_t step; /* the step at fault; SIZE_MAX where it is none (an output missing at the end) */

    /* All figures below are those up to the fault if the plan is rejected. */
    int64_t peak_bytes;      /* fixed + inputs + live storages + workspace, at its highest */
    size_t peak_step;        /* the first step that reaches it */
    int64_t ticks;           /* makespan: the end of the compute stream and of every transfer */
    double time;             /* the same in seconds */
    int64_t compute_ticks;   /* sum of the times of all computations */
    uint64_t recomputed_ops; /* compute steps beyond each op's first */
    int64_t offloaded_bytes; /* sum over offload steps */
    int64_t host_bytes;      /* most bytes held on the host */
    bool has_arena;          /* the plan has offsets, and they are sound */
    int64_t arena_bytes;     /* the plan's arena, or -1 */
} neap_verdict;

typedef struct neap_check_options {
    int64_t budget; /* bytes that peak (and arena) may not pass; -1 for the plan's own; INT64_MAX
                       for none */
    const neap_link *link; /* NULL: none */
} neap_check_options;

NEAP_API void neap_check_options_init(neap_check_options *options);

/*
 * Judges. NEAP_OK with verdict->accepted false is an ordinary answer; a status other than NEAP_OK
 * means the judge itself could not work (no memory). options may be NULL.
 */
NEAP_API neap_status neap_check(neap_allocator *allocator, const neap_graph *graph,
                                const neap_plan *plan, const neap_check_options *options,
                                neap_verdict *verdict, neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
