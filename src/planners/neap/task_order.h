/*
 * The order in which tasks are numbered, and what updates demand of it.
 *
 * An op with updates runs once, after every run of an op without updates that reads what it
 * overwrites. The graphs of networks have all updates at the end. To run an update as early as
 * possible never takes more memory, unless a reader is to be recomputed after it: so tasks are
 * numbered in the graph's order, with each update moved forward to just behind what it needs and
 * the readers that it must follow.
 */
#ifndef NEAP_PLANNERS_NEAP_TASK_ORDER_H
#define NEAP_PLANNERS_NEAP_TASK_ORDER_H

#include "base/arena.h"

#include <neap/graph.h>

/* By value: the op that overwrites its storage, for values that own one; else NEAP_NONE. False when
   out of memory. */
bool neap_find_updaters(const neap_graph *graph, neap_arena *arena, uint32_t **updaters);

/* Writes all ops into order[] as above. False when out of memory. */
bool neap_task_order(const neap_graph *graph, const uint32_t *updaters, neap_allocator *allocator,
                     uint32_t *order);

#endif
