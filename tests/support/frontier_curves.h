/* The trade-off curves that tests/oracle/staged.py finds by exhaustive search, for tiny graphs. */
#ifndef NEAP_TESTS_FRONTIER_CURVES_H
#define NEAP_TESTS_FRONTIER_CURVES_H

#include "random_plan.h"

#include <neap/graph.h>

typedef struct frontier_point {
    int64_t peak, ticks; /* the least time within this peak, in the graph's ticks */
} frontier_point;

/* By ascending peak. Below the first nothing fits; between two the time is that of the lower. */
typedef struct frontier_curve {
    size_t count;
    frontier_point *points;
} frontier_curve;

/* The curves of one form ("partitioned", "unpartitioned", "any"), one per graph, in one process. */
frontier_curve *frontier_curves(neap_graph *const *graphs, size_t count, const char *form);
void frontier_curves_free(frontier_curve *curves, size_t count);

/* The least ticks within a budget; -1 where nothing fits. */
int64_t frontier_ticks(const frontier_curve *curve, int64_t budget);

/* ---- Questions about many graphs ---- */

typedef struct frontier_cases {
    const char *form;
    size_t count;
    neap_graph **graphs;
    frontier_curve *curves;
} frontier_cases;

/* Draws graph number i of the cases, of about `size`. */
typedef neap_graph *frontier_recipe(random_source *random, size_t i, uint32_t size);
/* Up to 2 size + 1 ops: of three graphs two of training, one of anything. */
frontier_recipe draw_mixed;

/* NEAP_TEST_SEED and NEAP_TEST_COUNT come before `seed` and `count`; what is drawn is printed. */
frontier_cases frontier_cases_draw(uint64_t seed, size_t count, frontier_recipe *draw,
                                   uint32_t size, const char *form);
void frontier_cases_clear(frontier_cases *c);

/* Something to ask within a budget: `least` ticks are the best of the form, -1: nothing fits. */
typedef void frontier_question(const neap_graph *graph, const char *form, int64_t budget,
                               int64_t least);
/* At each point of a graph's curve and a byte below, but in no budget below `lowest`. Returns how
   often. */
uint64_t frontier_ask(const frontier_cases *c, int64_t lowest, frontier_question *ask);

#endif
