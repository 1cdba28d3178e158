/*
 * The least time of all plans of a tiny graph within a budget: any order, as many recomputations as
 * help, one variant an op for all its runs. No frontiers, no solver: a shortest path.
 *
 * A state is the set of values that are resident, and a mark for each op that has run without
 * leaving anything that matters. That is enough: an op has run if a value of its is resident or if
 * an op that reads one has, so every op has run at the end if the outputs are resident and the
 * marks are set. An edge is a run of an op, and its length the op's ticks. Before a run as little
 * is freed as the run needs: what is resident beyond that is never a hindrance, for it can be freed
 * later. So of the sets of storages that could go only those matter of which none could stay. The
 * storage that a run in place passes on is one that could go.
 *
 * Distances to the end are bounded from below: an op of which nothing is left, neither a value nor
 * a mark nor those of an op that needs it, has to run (again). The bound never falls by more than a
 * run takes, so the first state popped at the end is the best (A*).
 *
 * Variants: first each run may take any. Where the best plan has an op run by several, the op is
 * given each of them in turn, and so on (branch and bound).
 *
 * On the 8-layer unit chain there are some hundred states; every value that fits beside the others
 * doubles them. A state takes about 100 bytes.
 */
#ifndef NEAP_PLANNERS_RESIDENT_SEARCH_H
#define NEAP_PLANNERS_RESIDENT_SEARCH_H

#include "planners/common/planner.h"

typedef enum resident_outcome {
    RESIDENT_SOLVED = 0,
    RESIDENT_NONE,    /* no plan is within the budget and below the cutoff */
    RESIDENT_GAVE_UP, /* more states or work than allowed, or more than 128 values and marks */
    RESIDENT_STOPPED  /* by the caller or the time limit */
} resident_outcome;

typedef struct resident_answer {
    resident_outcome outcome;
    int64_t ticks;       /* RESIDENT_SOLVED: of the best plan; else -1 */
    int64_t bound_ticks; /* no plan within the budget takes fewer; the cutoff or less */
    size_t states;       /* that were met, over all searches */
    uint32_t *sequence;  /* RESIDENT_SOLVED: the ops of a best plan as they run */
    size_t length, capacity;
} resident_answer;

/*
 * Searches within the planner's budget for the best plan that takes fewer ticks than `cutoff_ticks`
 * (INT64_MAX: any), with at most `most_states` states at a time and 100 times as many edges in all.
 * With in_place, ops may run in place. neap_planner_use_sequence, or else
 * neap_planner_use_sequence_in_place, makes the plan of the sequence, with the same ticks.
 */
neap_status neap_resident_search(const planner *p, bool in_place, size_t most_states,
                                 int64_t cutoff_ticks, resident_answer *answer, neap_diag *diag);
void neap_resident_answer_clear(const planner *p, resident_answer *answer);

#endif
