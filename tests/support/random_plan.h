/* Random graphs and legal random plans for them, from a seed. */
#ifndef NEAP_TESTS_RANDOM_PLAN_H
#define NEAP_TESTS_RANDOM_PLAN_H

#include <neap/plan.h>

typedef struct random_source {
    uint64_t state; /* the seed at first */
} random_source;

/* A number below `limit`, which is above 0. */
uint32_t random_below(random_source *random, uint32_t limit);

/* 1 to most_ops ops, with views, variants, workspaces, empty values, late inputs and fixed bytes.
 */
neap_graph *random_graph(random_source *random, uint32_t most_ops);

/*
 * About n_steps random legal steps, then what is missing: every op computed, every output resident.
 * Without `transfers`, computations and frees only. With them, about half of the state is on the
 * host at the start.
 */
neap_plan *random_plan(random_source *random, const neap_graph *graph, size_t n_steps,
                       bool transfers);

/* The same steps, each op by one variant throughout: results depend on that. */
neap_plan *with_variants(const neap_plan *plan, const neap_graph *graph, uint32_t choice);

#endif
