/* The trade-off curves that tests/oracle/staged.py finds by trying everything, for tiny graphs. */
#ifndef NEAP_TESTS_STAGED_CURVES_H
#define NEAP_TESTS_STAGED_CURVES_H

#include "random_plan.h"

#include <neap/graph.h>

typedef struct staged_point {
    int64_t peak, ticks; /* the least time within this peak, in the graph's ticks */
} staged_point;

/* By ascending peak. Below the first nothing fits; between two the time is that of the lower. */
typedef struct staged_curve {
    size_t count;
    staged_point *points;
} staged_curve;

/* The curves of one form ("partitioned", "unpartitioned", "any"), one a graph, in one process. */
staged_curve *staged_curves(neap_graph *const *graphs, size_t count, const char *form);
void staged_curves_free(staged_curve *curves, size_t count);

/* The least ticks within a budget; -1 where nothing fits. */
int64_t staged_ticks(const staged_curve *curve, int64_t budget);

/* ---- Questions about many graphs ---- */

typedef struct staged_cases {
    const char *form;
    size_t count;
    neap_graph **graphs;
    staged_curve *curves;
} staged_cases;

/* Draws graph number i of the cases, of about `size`. */
typedef neap_graph *staged_recipe(random_source *random, size_t i, uint32_t size);
/* Up to 2 size + 1 ops: of three graphs two of training, one of anything. */
staged_recipe draw_mixed;

/* NEAP_TEST_SEED and NEAP_TEST_COUNT come before `seed` and `count`; what is drawn is printed. */
staged_cases staged_cases_draw(uint64_t seed, size_t count, staged_recipe *draw, uint32_t size,
                               const char *form);
void staged_cases_clear(staged_cases *c);

/* Something to ask within a budget: `least` ticks are the best of the form, -1: nothing fits. */
typedef void staged_question(const neap_graph *graph, const char *form, int64_t budget,
                             int64_t least);
/* At each point of a graph's curve and a byte below, but in no budget below `lowest`. Returns how
   often. */
uint64_t staged_ask(const staged_cases *c, int64_t lowest, staged_question *ask);

#endif
