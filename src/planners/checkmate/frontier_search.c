#include "planners/checkmate/frontier_search.h"

#include "base/clock.h"
#include "base/fail.h"

/* Iterations of the search in a round. */
#define ITERATIONS 16u

/* Iterations per op without a better plan that end the search: it restarts after about ten, so a
   restart has to pay off. Small graphs are done sooner. */
#define PATIENCE_PER_OP 20u

/* Rounds after which a budget counts as too small if nothing fits it: they are slow ones. */
#define MOST_FUTILE 10u

typedef struct attempt {
    const planner *p;
    double share; /* of the time limit */
    sequence_search *search;
} attempt;

static bool is_over(void *context)
{
    const attempt *x = context;
    double limit = x->p->request->time_limit;
    return neap_planner_stopped(x->p) ||
           (limit > 0 && neap_clock_seconds() - x->p->started > x->share * limit);
}

static neap_status begin(attempt *x, int64_t budget, neap_diag *diag)
{
    return neap_sequence_search_create(x->p, budget, is_over, x, &x->search, diag);
}

static neap_status fit_and_offer(attempt *x, incumbent *best, neap_diag *diag)
{
    neap_status status = neap_sequence_search_fit(x->search, diag);
    return status == NEAP_OK ? neap_incumbent_offer_searched(best, x->p, x->search, diag) : status;
}

neap_status neap_frontier_search_improve(const planner *p, incumbent *best, uint32_t rounds,
                                         neap_diag *diag)
{
    attempt x = {.p = p, .share = 1.0 / 3};
    uint32_t patience = PATIENCE_PER_OP * neap_graph_op_count(p->graph) / ITERATIONS + 4;
    int64_t target = p->request->target_time > 0 ? neap_planner_target_ticks(p) : -1;
    NEAP_TRY(begin(&x, p->budget, diag));
    neap_status status = fit_and_offer(&x, best, diag);
    for (uint32_t r = 0, futile = 0; r < rounds && status == NEAP_OK; r++) {
        int64_t before = neap_sequence_search_ticks(x.search);
        if (best->ticks <= target || is_over(&x) ||
            futile == (before == INT64_MAX ? MOST_FUTILE : patience))
            break;
        status = neap_sequence_search_improve(x.search, ITERATIONS, diag);
        futile++;
        if (status == NEAP_OK && neap_sequence_search_ticks(x.search) < before) {
            futile = 0;
            status = neap_incumbent_offer_searched(best, p, x.search, diag);
        }
        neap_planner_report_search(p, best->ticks == INT64_MAX ? -1 : best->ticks, -1);
    }
    neap_sequence_search_destroy(x.search);
    return status;
}

neap_status neap_frontier_search_tighten(const planner *p, incumbent *best, neap_diag *diag)
{
    attempt x = {.p = p, .share = 1};
    NEAP_TRY(begin(&x, neap_graph_floor_bytes(p->graph, NULL), diag));
    neap_status status = fit_and_offer(&x, best, diag);
    neap_sequence_search_destroy(x.search);
    return status;
}

neap_status neap_frontier_search_repair(const planner *p, incumbent *best, const uint32_t *sequence,
                                        size_t length, neap_diag *diag)
{
    attempt x = {.p = p, .share = 1};
    NEAP_TRY(begin(&x, p->budget, diag));
    neap_status status = neap_sequence_search_load(x.search, sequence, length, diag);
    if (status == NEAP_OK)
        status = fit_and_offer(&x, best, diag);
    neap_sequence_search_destroy(x.search);
    return status;
}
