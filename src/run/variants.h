/* The variants that a backend has for each op of a graph. */
#ifndef NEAP_RUN_VARIANTS_H
#define NEAP_RUN_VARIANTS_H

#include "run/specs.h"

typedef struct run_variants {
    uint32_t *counts; /* by op */
    size_t *begins;   /* by op: index of its first item; ops with the same signature share items */
    neap_variant *items; /* workspaces from the backend; times are 0 until they are set */
    size_t n_items, item_capacity;
    bool *unable; /* by op: marked in place, but kernels cannot do it */
    uint32_t n_ops;
    neap_allocator *allocator;
} run_variants;

/*
 * Queries the backend for every distinct op; a view gets one variant without time or workspace.
 * Clear `variants` after a failure too, and after `progress`, which may be NULL, was cancelled:
 * then they are good for nothing else.
 */
neap_status neap_run_variants_init(run_specs *specs, neap_backend *backend, neap_progress *progress,
                                   run_variants *variants, neap_diag *diag);
void neap_run_variants_clear(run_variants *variants);
/*
 * Drops variants that are dominated (as fast and as small is another) or whose time is infinite,
 * and puts the fastest first: one run of every op is then what it takes without a plan. Variants
 * have the backend's numbers in `kernel`. NEAP_UNSUPPORTED names an op that is left without.
 */
neap_status neap_run_variants_prune(run_variants *variants, const run_specs *specs,
                                    neap_diag *diag);
/*
 * Assigns the variants to the graph, and removes in_place marks that kernels cannot do. With
 * keep_times, all variants of an op get the time of its old variant 0.
 */
neap_status neap_run_variants_apply(const run_variants *variants, bool keep_times,
                                    neap_graph *graph, neap_diag *diag);

#endif
