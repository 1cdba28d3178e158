/* Which sizes of a graph grow with the batch. */
#ifndef NEAP_PLANNERS_BATCH_SIZES_H
#define NEAP_PLANNERS_BATCH_SIZES_H

#include <neap/plan.h>

/*
 * Marks the storages that have the same size at every batch: those with a parameter or state on
 * them; gradients of parameters, which are outputs of the graph or read by an update; and what is
 * computed from such gradients alone. `is_fixed` has an entry per value, false at first; that of
 * the value which owns the storage is set.
 */
void neap_batch_mark_fixed(const neap_graph *graph, bool *is_fixed);
/* Whether an op takes the same time at every batch: an update, or an op that reads only such
   gradients and other fixed storages. */
bool neap_batch_is_op_fixed(const neap_graph *graph, const bool *is_fixed, uint32_t op);

#endif
