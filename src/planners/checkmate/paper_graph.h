/*
 * A graph as Checkmate's printed program sees it: nodes with the bytes of what they make, DEPS and
 * USERS (Jain et al. 2020, section 4.4).
 *
 * The paper's node is an op that makes one value. Our ops make several, or none, and values may
 * share a storage. What takes bytes, and is freed, is the storage: DEPS of an op are the storages
 * that it reads or makes a view on, USERS of a storage are these ops. For a graph of the paper's
 * kind this is the paper's.
 *
 * An op that makes several values is also its own storages' first user. Section 4.8 leaves that out
 * because an op runs only for what it makes; one of several values it may make in vain.
 */
#ifndef NEAP_PLANNERS_PAPER_GRAPH_H
#define NEAP_PLANNERS_PAPER_GRAPH_H

#include "base/arena.h"

#include <neap/graph.h>

typedef struct paper_graph {
    const neap_graph *graph;
    uint32_t n, n_values; /* ops, values */
    bool terminal;        /* outputs are of the last op alone, and everything leads to it */

    /* Per storage, under the number of the value that owns it. */
    int64_t *bytes;  /* M; 0: of no account (inputs, and with `by_batch` what does not grow) */
    uint32_t *on_it; /* values on it */
    bool *stays;     /* one of them is an output of the graph */
    uint32_t *users_start, *users; /* USERS, ascending; of storage s users[users_start[s] ...] */

    /* Per op. */
    uint32_t *deps_start, *deps; /* DEPS, and its own storages where it makes several values */

    int64_t base;  /* the constant of (2): inputs and fixed bytes */
    int64_t fixed; /* with `by_batch`: what does not grow, all of it resident; not in `base` */
    int64_t all;   /* an upper bound of what a plan needs, `fixed` not counted */
    int64_t floor; /* what some op needs whatever the plan, likewise */
} paper_graph;

/*
 * With `by_batch` bytes are those that grow with the batch (batch_sizes.h). The others are taken to
 * be resident throughout, as parameters and their gradients are in the paper.
 */
neap_status neap_paper_graph_init(paper_graph *g, neap_arena *arena, const neap_graph *graph,
                                  bool by_batch, neap_diag *diag);

/* Nothing reads it and nobody wants it: the op that makes it frees it. */
bool neap_paper_graph_is_idle(const paper_graph *g, uint32_t storage);
/* Something reads the value, or it is an output. */
bool neap_paper_graph_is_wanted(const paper_graph *g, uint32_t value);

#endif
