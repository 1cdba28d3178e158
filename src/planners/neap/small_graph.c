#include "planners/neap/small_graph.h"

#include "base/fail.h"
#include "planners/common/resident_search.h"

enum { MOST_STATES = 10000 }; /* some ten milliseconds */

/* The fastest plan within a budget. A plan that is found replaces the answer's. */
static neap_status search_within(const planner *p, int64_t budget, small_answer *answer,
                                 resident_outcome *outcome, neap_diag *diag)
{
    planner within = *p;
    resident_answer found;
    draft d = {0};
    within.budget = budget;
    neap_status status = neap_resident_search(&within, true, MOST_STATES, INT64_MAX, &found, diag);
    *outcome = found.outcome;
    if (status == NEAP_OK && found.outcome == RESIDENT_SOLVED)
        status =
            neap_planner_use_sequence_in_place(&within, &d, found.sequence, found.length, diag);
    if (status == NEAP_OK && d.plan) {
        neap_plan_destroy(answer->plan);
        answer->plan = d.plan;
        answer->ticks = d.predicted_ticks;
        answer->peak = d.predicted_peak;
    } else {
        neap_plan_destroy(d.plan);
    }
    neap_resident_answer_clear(&within, &found);
    return status;
}

/* The least peak above `low`, by bisection: no plan fits into `low` bytes. */
static neap_status bisect_peak(const planner *p, int64_t low, small_answer *answer, neap_diag *diag)
{
    resident_outcome outcome = RESIDENT_GAVE_UP;
    NEAP_TRY(search_within(p, INT64_MAX, answer, &outcome, diag));
    answer->complete = outcome == RESIDENT_SOLVED;
    while (answer->complete && low < answer->peak - 1) {
        int64_t middle = low + (answer->peak - low) / 2;
        NEAP_TRY(search_within(p, middle, answer, &outcome, diag));
        if (outcome == RESIDENT_NONE)
            low = middle;
        answer->complete = outcome == RESIDENT_SOLVED || outcome == RESIDENT_NONE;
    }
    return NEAP_OK;
}

neap_status neap_small_graph_plan(const planner *p, small_answer *answer, neap_diag *diag)
{
    int64_t below_floor = neap_graph_floor_bytes(p->graph, NULL) - 1;
    *answer = (small_answer){0};
    if (p->request->objective != NEAP_LEAST_PEAK && p->budget > below_floor) {
        resident_outcome outcome = RESIDENT_GAVE_UP;
        NEAP_TRY(search_within(p, p->budget, answer, &outcome, diag));
        answer->complete = answer->fits = outcome == RESIDENT_SOLVED;
        if (outcome != RESIDENT_NONE)
            return NEAP_OK;
        below_floor = p->budget;
    }
    NEAP_TRY(bisect_peak(p, below_floor, answer, diag));
    answer->fits = answer->complete && answer->peak <= p->budget;
    return NEAP_OK;
}

void neap_small_answer_clear(small_answer *answer)
{
    neap_plan_destroy(answer->plan);
    *answer = (small_answer){0};
}
