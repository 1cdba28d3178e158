/*
 * Maximum flow, and the minimum cut behind it: push-relabel, highest label first, with global
 * relabeling (Goldberg and Tarjan 1988; Cherkassky and Goldberg 1997).
 *
 * Only the first phase runs: a preflow whose excess at the sink is the value of a minimum cut. What
 * has reached the sink when a caller stops early is still no more than that value.
 *
 * Capacities are whole numbers; the sum of those that leave the source is below 2^63. The network
 * is built once and may be solved again with other capacities.
 */
#ifndef NEAP_PLANNERS_NEAP_MAX_FLOW_H
#define NEAP_PLANNERS_NEAP_MAX_FLOW_H

#include "base/columns.h"

#include <stdbool.h>
#include <stdint.h>

enum { FLOW_SOURCE = 0, FLOW_SINK = 1, FLOW_FIRST_FREE = 2 };

/* Arcs come in pairs: e and e ^ 1 go opposite ways. */
typedef struct max_flow {
    neap_allocator *allocator;
    uint32_t n_nodes, n_arcs;
    int64_t *capacity; /* by arc; of the even ones, set by the caller before each solve */
    uint32_t *to;
    /* Its own. By arc: */
    int64_t *residual;
    uint32_t *next;
    /* By node: */
    uint32_t *first, *current, *label, *next_active, *queue;
    int64_t *excess;
    uint32_t *active; /* by label: the first active node, */
    uint32_t *count;  /* and how many nodes there are */
    neap_columns by_arc, by_node;
    uint32_t highest;
    uint64_t work;       /* since the last global relabeling */
    uint64_t total_work; /* of all solves */
} max_flow;

void neap_max_flow_init(max_flow *f, neap_allocator *allocator);
void neap_max_flow_clear(max_flow *f);
/* Takes all arcs and nodes away but source and sink. Needed before the first arc too. */
neap_status neap_max_flow_reset(max_flow *f, neap_diag *diag);

neap_status neap_max_flow_add_node(max_flow *f, uint32_t *node, neap_diag *diag);
/* Sets *arc (even) unless it is NULL. */
neap_status neap_max_flow_add_arc(max_flow *f, uint32_t from, uint32_t to, int64_t capacity,
                                  uint32_t *arc, neap_diag *diag);

/* The value of a minimum cut, or of a preflow where `stop` said so (*stopped). */
int64_t neap_max_flow_solve(max_flow *f, bool (*stop)(void *context), void *context, bool *stopped);
/* After a solve that was not stopped: which side of the cut with the most nodes before it. */
bool neap_max_flow_before_cut(const max_flow *f, uint32_t node);

#endif
