/*
 * Maximum flow and minimum cut: push-relabel, highest label first, with global
 * relabeling (Goldberg and Tarjan 1988; Cherkassky and Goldberg 1997).
 *
 * Only the first phase runs: a preflow whose excess at the sink is the value of a minimum cut. If
 * the caller stops it early, the excess at the sink is a lower bound on that value.
 *
 * Capacities are integers; those of the arcs from the source sum to less than 2^63. A network may
 * be solved repeatedly with different capacities.
 */
#ifndef NEAP_PLANNERS_NEAP_MAX_FLOW_H
#define NEAP_PLANNERS_NEAP_MAX_FLOW_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum { FLOW_SOURCE = 0, FLOW_SINK = 1, FLOW_FIRST_FREE = 2 };

/* Arcs come in pairs: e and e ^ 1 have opposite directions. */
typedef struct max_flow {
    uint32_t n_nodes, n_arcs;
    int64_t *capacity; /* by arc; the caller sets those of even arcs before each solve */
    uint32_t *to;
    /* Private. By arc: */
    int64_t *residual;
    uint32_t *next;
    /* By node: */
    uint32_t *first, *current, *label, *next_active, *queue;
    int64_t *excess;
    uint32_t *active; /* by label: the first active node */
    uint32_t *count;  /* by label: number of nodes */
    uint32_t highest;
    uint64_t work;       /* since the last global relabeling */
    uint64_t total_work; /* of all solves */
} max_flow;

/* Takes room for this many nodes (source and sink included) and pairs of arcs from the arena; false
   when out of memory. */
bool neap_max_flow_init(max_flow *f, neap_arena *arena, size_t nodes, size_t pairs);
/* Removes all arcs and all nodes except source and sink. Call it before adding the first arc. */
void neap_max_flow_reset(max_flow *f);

uint32_t neap_max_flow_add_node(max_flow *f);
/* Returns the number of the arc, which is even. */
uint32_t neap_max_flow_add_arc(max_flow *f, uint32_t from, uint32_t to, int64_t capacity);

/* The value of a minimum cut, or of the preflow so far if `stop` returned true (*stopped). */
int64_t neap_max_flow_solve(max_flow *f, bool (*stop)(void *context), void *context, bool *stopped);
/* After a solve that was not stopped: whether the node is on the source's side of the minimum cut
   with the most nodes there. */
bool neap_max_flow_before_cut(const max_flow *f, uint32_t node);

#endif
