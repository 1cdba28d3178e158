/*
 * neap/check.h - the judge: replays a plan on its graph and reports its costs, or why it is wrong.
 *
 * The judge is deliberately naive, and it depends on graphs and plans but not on any planner. It is
 * always on: neap_solve (neap/solve.h) judges every plan before it returns it. Its rules are in
 * docs/memory-model.md. Its figures for peak, arena and time are the ones that neap reports.
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
    char reason[NEAP_REASON_CAPACITY]; /* if rejected: one line with the step, the op or value, and
                                          what would be valid; else "" */
    size_t
        step; /* the step at fault; SIZE_MAX if no single step is (an output missing at the end) */

    /* If the plan is rejected, the figures below cover the steps up to the fault. */
    int64_t peak_bytes;      /* fixed + inputs + live storages + workspace, at its highest */
    size_t peak_step;        /* the first step that reaches it */
    int64_t ticks;           /* makespan: the end of the compute stream and of every transfer */
    double time;             /* the same in seconds */
    int64_t compute_ticks;   /* sum of the times of all computations */
    uint64_t recomputed_ops; /* compute steps beyond the first of each op */
    int64_t offloaded_bytes; /* sum over offload steps */
    int64_t host_bytes;      /* most bytes held on the host */
    bool has_arena;          /* the plan has offsets, and they are valid */
    int64_t arena_bytes;     /* the plan's arena, or -1 */
} neap_verdict;

typedef struct neap_check_options {
    int64_t budget;        /* limit in bytes on the peak and the arena; -1: the plan's own budget;
                       INT64_MAX: none */
    const neap_link *link; /* NULL: none */
} neap_check_options;

NEAP_API void neap_check_options_init(neap_check_options *options);

/*
 * Judges a plan. A rejected plan is a normal result: NEAP_OK with verdict->accepted false. Any
 * other status means that the judge itself failed (out of memory). options may be NULL.
 */
NEAP_API neap_status neap_check(neap_allocator *allocator, const neap_graph *graph,
                                const neap_plan *plan, const neap_check_options *options,
                                neap_verdict *verdict, neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
