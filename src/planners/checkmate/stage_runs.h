/*
 * A schedule in stages as a set of runs, and the bytes that it takes (stage_search.h says how).
 */
#ifndef NEAP_PLANNERS_STAGE_RUNS_H
#define NEAP_PLANNERS_STAGE_RUNS_H

#include "planners/checkmate/stage_profile.h"

#include <neap/graph.h>

/* The stages in which an op runs, ascending; the first is its own. */
typedef struct run_list {
    uint32_t *stages;
    uint32_t n;
    size_t capacity;
} run_list;

/* Lists of storages, one list an op. */
typedef struct storage_lists {
    uint32_t *start; /* n_ops + 1 */
    uint32_t *items;
    size_t n_items, capacity;
} storage_lists;

typedef struct stage_runs {
    neap_allocator *allocator;
    const neap_graph *graph;
    uint32_t n_ops;
    bool *only_views;       /* per op: it makes nothing but views; it has no runs here */
    int64_t *ticks;         /* per op, of its fastest variant */
    int64_t *workspace;     /* per op, of its leanest */
    storage_lists makes;    /* storages that an op makes */
    storage_lists reads;    /* storages of others, not inputs, that it reads or makes views on */
    uint32_t *reader_start; /* per storage (its value's id), n_values + 1: into `readers` */
    uint32_t *readers;      /* ops, ascending */
    size_t n_readers;
    bool *is_output;       /* per storage: resident at the end */
    run_list *runs;        /* per op */
    stage_profile profile; /* without inputs and fixed bytes */
    int64_t total_ticks;
} stage_runs;

/* All first runs and no other. neap_stage_runs_clear is needed after a failure too. */
neap_status neap_stage_runs_init(stage_runs *x, neap_allocator *allocator, const neap_graph *graph,
                                 neap_diag *diag);
void neap_stage_runs_clear(stage_runs *x);

/* Op `at.op` runs in stage `at.stage` too, or no longer. It must not, or must, have done so. */
neap_status neap_stage_runs_insert(stage_runs *x, slot at, neap_diag *diag);
void neap_stage_runs_remove(stage_runs *x, slot at);
bool neap_stage_runs_has(const stage_runs *x, slot at);

/* What touches a storage before and behind a slot; the slot itself is not looked at. */
typedef struct touches {
    bool made_before; /* else nothing does */
    slot before;
    enum { NEXT_NONE = 0, NEXT_MAKES, NEXT_USES } next;
    slot behind; /* {n_ops, 0} for the end, where outputs are used */
} touches;
touches neap_stage_runs_touches(const stage_runs *x, uint32_t storage, slot at);

/* The peak beyond inputs and fixed bytes. */
int64_t neap_stage_runs_peak(const stage_runs *x);

/* The compute sequence, with the runs of ops that only make views where they are needed. */
neap_status neap_stage_runs_sequence(const stage_runs *x, uint32_t **sequence, size_t *length,
                                     size_t *capacity, neap_diag *diag);

#endif
