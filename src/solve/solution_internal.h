/* What stands behind neap_solution. */
#ifndef NEAP_PLANNERS_SOLUTION_INTERNAL_H
#define NEAP_PLANNERS_SOLUTION_INTERNAL_H

#include "planners/common/planner.h"

struct neap_solution {
    neap_allocator *allocator;
    neap_figures figures;
    draft draft;
    char message[768];
};

#endif
