/*
 * Graphs that are small enough to look at every plan without copies (common/resident_search.h). The
 * search of `neap` is for large graphs: it keeps a storage with a costly view to the end
 * (problem.h), and it may miss a plan that only an odd order has. Here nothing is missed.
 */
#ifndef NEAP_PLANNERS_NEAP_SMALL_GRAPH_H
#define NEAP_PLANNERS_NEAP_SMALL_GRAPH_H

#include "planners/common/planner.h"

typedef struct small_answer {
    bool complete;   /* all plans without copies are known; otherwise the rest means nothing */
    bool fits;       /* one is within the budget; the objective least peak has no budget */
    neap_plan *plan; /* the fastest one, or the one with the least peak */
    int64_t ticks, peak;
} small_answer;

/* Takes milliseconds where the graph turns out to be large. */
neap_status neap_small_graph_plan(const planner *p, small_answer *answer, neap_diag *diag);
void neap_small_answer_clear(small_answer *answer);

#endif
