/* A planner without neap_solve, for tests of the building blocks of methods. */
#ifndef NEAP_TESTS_BARE_PLANNER_H
#define NEAP_TESTS_BARE_PLANNER_H

#include "planners/common/planner.h"

typedef struct bare_planner {
    neap_request request;
    double reported;
    planner p; /* without options */
} bare_planner;

/* *b must not be moved afterwards. INT64_MAX: no budget. */
void bare_planner_init(bare_planner *b, const neap_graph *graph, int64_t budget);

#endif
