/*
 * Random graphs small enough for least_time.h, from a seed. Bytes and times are small integers, so
 * that ties are common and every difference matters.
 */
#ifndef NEAP_TESTS_RANDOM_SMALL_GRAPH_H
#define NEAP_TESTS_RANDOM_SMALL_GRAPH_H

#include "random_plan.h"

enum {
    SMALL_TRAINING =
        1, /* layers forward, gradients back, which read what was saved; else any ops */
    SMALL_VARIANTS = 2, /* two or three ways to run most ops: the slower, the less workspace */
    SMALL_ODD = 4,      /* without SMALL_TRAINING: ops that make views, with a cost, among others */
    SMALL_IN_PLACE = 8, /* many ops may write an output over an input of the same size */
    SMALL_UPDATES = 16, /* with SMALL_TRAINING: parameters and moments are state, ops update them */
    SMALL_SIDE = 32,    /* with SMALL_UPDATES: state that an op of the forward pass updates, too */
    SMALL_EMPTY = 64    /* half of what ops make takes no memory */
};

/*
 * Of 2 to most_ops ops (2 to 7), updates included, which make up to 12 values. With several
 * outputs, ops of several outputs or now and then none, inputs, workspace, ops that take no time,
 * and free views (an op of one input and one output on its storage, without time or workspace).
 * Mostly the natural peak is above the floor, so that there is something to plan.
 */
neap_graph *random_small_graph(random_source *random, uint32_t most_ops, unsigned flags);

/*
 * Budgets worth a try, ascending, at most `capacity` (2 or more) of them: of the sums of bytes that
 * can be live at all, with and without a workspace, those from the floor (of state that travels, if
 * there is any) to the natural peak, both included; some of them, evenly, where there are too many.
 * Returns how many.
 */
size_t small_graph_budgets(const neap_graph *graph, int64_t *budgets, size_t capacity);

#endif
