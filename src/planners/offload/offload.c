/*
 * offload: the best of all offloading methods, improved.
 *
 * Problem 1 is strongly NP-hard (Beaumont et al. 2020, Theorem 1), but a schedule is simulated in
 * linear time. So the selections of the paper's methods are starting points, and a local search
 * over selections and orders (offload_improve.c) continues from the best. It stops when the lower
 * bound is reached.
 */
#include "base/fail.h"
#include "planners/offload/offload_method.h"

#include <string.h>

static const char NAME[] = "offload";

enum { CANDIDATES };

static const neap_option options[] = {
    [CANDIDATES] = NEAP_INTEGER_OPTION("candidates", 0, 1e12, 0,
                                       "schedules that the local search looks at; 0 chooses by the "
                                       "graph's size, for half a second or less"),
};

/* The fastest schedules to start from, by ascending time. */
enum { MOST_STARTS = 3 };

typedef struct start_list {
    offload_start best[MOST_STARTS + 1];
    uint32_t n;
} start_list;

static void add_start(start_list *list, const offload_choice *choice, const offload_result *result)
{
    uint32_t at = list->n;
    for (uint32_t i = 0; i < list->n; i++)
        if (list->best[i].ticks == result->ticks)
            return; /* probably the same */
    if (!result->fits)
        return;
    for (; at > 0 && list->best[at - 1].ticks > result->ticks; at--)
        list->best[at] = list->best[at - 1];
    list->best[at] = (offload_start){*choice, result->ticks};
    list->n += list->n < MOST_STARTS;
}

/* The schedule of another method's plan, read from its steps. */
static neap_status offer_plan(offload_search *s, const neap_plan *plan, start_list *list,
                              neap_diag *diag)
{
    const offload_problem *problem = &s->problem;
    neap_arena *arena = &s->problem.arena;
    uint32_t n = problem->n_parcels, n_out = 0, n_in = 0, op = 0;
    uint32_t *out, *in, *fetch_at;
    if (!NEAP_TAKE(arena, n, out) || !NEAP_TAKE(arena, n, in) || !NEAP_TAKE(arena, n, fetch_at))
        return neap_fail_no_memory(diag);
    const neap_step *steps = neap_plan_steps(plan);
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        uint32_t x = steps[i].kind == NEAP_COMPUTE ? 0 : problem->parcel_of[steps[i].id];
        if (steps[i].kind == NEAP_COMPUTE && steps[i].id >= op) {
            op = steps[i].id + 1;
        } else if (steps[i].kind == NEAP_OFFLOAD) {
            out[n_out++] = x;
        } else if (steps[i].kind == NEAP_PREFETCH) {
            fetch_at[x] = op;
            in[n_in++] = x;
        }
    }
    offload_choice choice = {.n = n_out, .out = out, .in = in};
    offload_result result = neap_offload_simulate(s->simulator, &choice);
    neap_offload_search_offer(s, &choice, result);
    add_start(list, &choice, &result);
    choice.fetch_at = fetch_at;
    neap_offload_search_offer(s, &choice, neap_offload_simulate(s->simulator, &choice));
    return NEAP_OK;
}

/* The plans of all methods that are part of this one, which go to `ways` if that is not NULL. The
   last in the list are the quickest. */
static neap_status try_methods(offload_search *s, start_list *list, offload_way *ways,
                               uint32_t *n_ways, neap_diag *diag)
{
    const planner *p = s->problem.planner;
    neap_status status = NEAP_OK;
    for (uint32_t m = neap_methods_count(); m-- > 0 && status == NEAP_OK;) {
        const neap_method *method = neap_methods_at(m);
        bool is_part = method->part_of && strcmp(method->part_of, NAME) == 0;
        draft found = {0};
        if (s->result.fits && s->result.ticks <= s->bound)
            break;
        if (!is_part || neap_planner_stopped(p))
            continue;
        neap_arena_init(&found.arena, p->allocator);
        status = neap_planner_run_method(p, method->name, &found, diag);
        if (status == NEAP_OK && found.plan)
            status = offer_plan(s, found.plan, list, diag);
        if (ways && found.plan && found.predicted_peak <= p->budget)
            ways[(*n_ways)++] = (offload_way){
                .method = method->name, .found = found, .ticks = found.predicted_ticks, .plans = 1};
        else
            neap_planner_clear_draft(p, &found);
    }
    return status;
}

static uint64_t default_candidates(const offload_problem *problem)
{
    uint64_t by_size = 800 + 5500000 / (problem->n_ops + 1);
    uint64_t by_parcels = 10000 + 2500 * (uint64_t)problem->n_parcels;
    return by_size < by_parcels ? by_size : by_parcels;
}

/* The best of all methods, improved. */
static neap_status search(const planner *p, offload_way *ways, uint32_t *n_ways, draft *d,
                          neap_diag *diag)
{
    offload_search s;
    neap_status status = NEAP_OK;
    NEAP_TRY(neap_offload_search_begin(p, OFFLOAD_STORAGES, &s, diag));
    if (neap_offload_search_needed(&s)) {
        uint64_t candidates = p->options[CANDIDATES] > 0 ? (uint64_t)p->options[CANDIDATES]
                                                         : default_candidates(&s.problem);
        start_list list = {0};
        if (neap_offload_cover(&s, s.problem.budget))
            neap_offload_search_try(&s);
        status = try_methods(&s, &list, ways, n_ways, diag);
        if (status == NEAP_OK)
            status = neap_offload_improve(&s, list.best, list.n, candidates, diag);
    }
    if (status == NEAP_OK)
        status = neap_offload_search_finish(&s, d, diag);
    if (status == NEAP_OK)
        status = neap_draft_add_number(p, d, "candidates", (double)s.n_tried, diag);
    neap_offload_search_end(&s);
    return status;
}

static neap_status plan_offload(const planner *p, draft *d, neap_diag *diag)
{
    return neap_offload_settle(p, search, d, diag);
}

const neap_method neap_method_offload = {
    .name = NAME,
    .summary = "the best of the offloading methods, improved by local search on the schedule",
    .source = "neap, after Beaumont, Eyraud-Dubois and Shilova 2020",
    NEAP_METHOD_OPTIONS(options),
    .needs_link = true,
    .places_plans = true,
    .plan = plan_offload,
};
