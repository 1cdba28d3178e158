/*
 * The storage instances of a plan: what needs an address, and for how long.
 *
 * An instance is a storage from the step that makes it live up to the step that ends it, or the
 * workspace of one computation. They are numbered in order of allocation (docs/memory-model.md):
 * the inputs' storages in id order; then, step by step, the storages that a computation's outputs
 * make live, in their order, and its workspace if it has one; or the storage that a prefetch makes
 * live.
 */
#ifndef NEAP_LAYOUT_INSTANCES_H
#define NEAP_LAYOUT_INSTANCES_H

#include <neap/plan.h>

typedef struct neap_instance {
    int64_t size;
    size_t begin, end; /* live during the steps begin .. end - 1 */
} neap_instance;

typedef struct neap_instances {
    neap_instance *items;
    int64_t *owners; /* the value whose storage it is, or -1 - op for a workspace. A storage that
                        ops write over in place keeps its first owner */
    size_t count, capacity, owner_capacity;
    size_t n_inputs; /* the first so many are inputs, live from the start */
    size_t n_steps;
    neap_allocator *allocator;
} neap_instances;

/* NEAP_INVALID names the first step that cannot be run. Clear it in any case. */
neap_status neap_instances_collect(neap_allocator *allocator, const neap_graph *graph,
                                   const neap_plan *plan, neap_instances *instances,
                                   neap_diag *diag);
void neap_instances_clear(neap_instances *instances);

#endif
