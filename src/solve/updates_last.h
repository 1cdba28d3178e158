/*
 * Graphs with updates for methods that know none.
 *
 * The papers' setting: a step ends with the gradients in memory, and the optimizer follows. So such
 * a method plans the graph without its updates, with all that they read as outputs, and the updates
 * are appended to its plan in the order of the ordinary step. A side update (neap/graph.h) is no
 * part of that: it follows the first run of the op whose results it reads.
 */
#ifndef NEAP_SOLVE_UPDATES_LAST_H
#define NEAP_SOLVE_UPDATES_LAST_H

#include "base/arena.h"

#include <neap/plan.h>

/* A graph without its updates, without the ops that need their results, and without those right
   before that only updates need: the norm of all gradients, the sums of micro-batches. */
typedef struct neap_bare_graph {
    const neap_graph *whole;
    neap_graph *graph;   /* NULL if the whole graph has no updates */
    uint32_t *op;        /* the whole graph's id, by op; */
    uint32_t *value;     /* by value */
    uint32_t n_late;     /* the last so many ops of the ordinary order are left out, */
    uint32_t n_side;     /* and so many side updates */
    double late_seconds; /* of one run of each of these */
    neap_arena arena;
} neap_bare_graph;

/* Clear it in any case. */
neap_status neap_bare_graph_init(neap_bare_graph *bare, neap_allocator *allocator,
                                 const neap_graph *whole, neap_diag *diag);
void neap_bare_graph_clear(neap_bare_graph *bare);

/* The plan for the whole graph: that for the bare one with side updates, then the updates, each by
   the fastest variant that fits the budget. *plan is replaced. */
neap_status neap_bare_graph_append(const neap_bare_graph *bare, neap_allocator *allocator,
                                   int64_t budget, neap_plan **plan, neap_diag *diag);

/* The bytes that the updates need after any plan for the bare graph. */
neap_status neap_bare_graph_late_bytes(const neap_bare_graph *bare, neap_allocator *allocator,
                                       int64_t *bytes, neap_diag *diag);

#endif
