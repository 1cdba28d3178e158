/* Which sizes of a graph grow with the batch. */
#ifndef NEAP_PLANNERS_BATCH_SIZES_H
#define NEAP_PLANNERS_BATCH_SIZES_H

#include <neap/plan.h>

/*
 * Marks the storages that have the same size at every batch: those with a parameter or state on
 * them, and gradients of parameters: outputs of the graph, or read by an update. `is_fixed` has an
 * entry per value, false at first; that of the value which owns the storage is set.
 */
void neap_batch_mark_fixed(const neap_graph *graph, bool *is_fixed);

#endif
