/* The variants that a backend has for each op of a graph. */
#ifndef NEAP_RUN_VARIANTS_H
#define NEAP_RUN_VARIANTS_H

#include "run/specs.h"

typedef struct run_variants {
    uint32_t *counts;    /* by op */
    size_t *begins;      /* by op: its first in `items`; ops that are alike share them */
    neap_variant *items; /* workspaces as the backend says; times 0 until somebody sets them */
    size_t n_items, item_capacity;
    uint32_t n_ops;
    neap_allocator *allocator;
} run_variants;

/* Asks about every distinct op; views get one variant that takes nothing. Clear it in any case. */
neap_status neap_run_variants_init(run_specs *specs, neap_backend *backend, run_variants *variants,
                                   neap_diag *diag);
void neap_run_variants_clear(run_variants *variants);
/* Gives them to the graph; with keep_times, all of an op with the time of its old variant 0. */
neap_status neap_run_variants_apply(const run_variants *variants, bool keep_times,
                                    neap_graph *graph, neap_diag *diag);

#endif
