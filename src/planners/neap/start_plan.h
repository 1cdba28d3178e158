/* The plan to start from, the request's or a chain method's: checked, and made a schedule. */
#ifndef NEAP_PLANNERS_NEAP_START_H
#define NEAP_PLANNERS_NEAP_START_H

#include "planners/common/planner.h"
#include "planners/neap/search.h"

typedef struct start_plan {
    const neap_plan *given;   /* NULL: none */
    neap_plan *made;          /* that plan, if it is not the request's */
    int64_t ticks, peak;      /* by the judge */
    bool honours_constraints; /* it honours the pins, so it may itself be the result */
    search_plan schedule;     /* without runs that the pins forbid */
} start_plan;

/* NEAP_INVALID with the judge's reason if the plan is rejected. Clear also after a failure. */
neap_status neap_start_plan_read(start_plan *start, neap_allocator *allocator, const problem *x,
                                 const neap_request *request, neap_diag *diag);
/* The plan of least memory of a chain: a search seldom finds one as low. Where the request has no
   plan, and the graph can be seen as a chain. */
neap_status neap_start_plan_make(start_plan *start, neap_allocator *allocator, const problem *x,
                                 const planner *p, neap_diag *diag);
void neap_start_plan_clear(start_plan *start, neap_allocator *allocator, const problem *x);
/* The plan itself, for the request's method and budget, without addresses. */
neap_status neap_start_plan_copy(const start_plan *start, neap_allocator *allocator,
                                 const problem *x, const neap_request *request, neap_plan **plan,
                                 neap_diag *diag);

#endif
