/*
 * Bounds on the time of plans: on random graphs no plan of any method, and no random one, is
 * faster; they grow as the budget shrinks, and where everything fits they are the sum of least
 * times. Single cuts are compared with all subsets of what could be kept.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=3000 test_bounds     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "accepted.h"
#include "planners/neap/cut.h"
#include "random_frontiers.h"
#include "random_training.h"
#include "settings.h"

#include <neap/check.h>
#include <neap/solve.h>

#include <inttypes.h>
#include <stdlib.h>

#define SHARE ONE_IN(4)

/* ---- What is tested ---- */

static void open_problem(problem *x, const neap_graph *graph)
{
    neap_request request;
    neap_request_init(&request, graph, "pareto");
    assert_int_equal(neap_problem_init(x, NULL, &request, NULL), NEAP_OK);
}

static bound_figures bounds_of(const problem *x, int64_t budget, const neap_link *link)
{
    bound *b;
    assert_int_equal(neap_bound_create(NULL, x, budget, link, &b, NULL), NEAP_OK);
    int64_t least = neap_graph_least_ticks(x->graph);
    bound_figures last = *neap_bound_state(b);
    assert_true(last.any_ticks == least && last.order_ticks == least);
    while (!neap_bound_state(b)->done) {
        assert_int_equal(neap_bound_improve(b, NULL, NULL, NULL), NEAP_OK);
        const bound_figures *now = neap_bound_state(b);
        assert_true(now->any_ticks >= last.any_ticks && now->order_ticks >= last.order_ticks);
        assert_true(now->any_ticks <= now->order_ticks);
        last = *now;
    }
    last.fates = NULL;
    neap_bound_destroy(b);
    return last;
}

/* ---- Plans ---- */

/* Whether the tasks run for the first time in the graph's order. */
static bool in_order(const problem *x, const neap_plan *plan)
{
    const neap_step *steps = neap_plan_steps(plan);
    uint32_t next = 0;
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        if (steps[i].kind != NEAP_COMPUTE || x->task_of_op[steps[i].id] == NEAP_NONE)
            continue;
        if (x->task_of_op[steps[i].id] > next)
            return false;
        next += x->task_of_op[steps[i].id] == next;
    }
    return true;
}

static void check_plan(const problem *x, const neap_plan *plan, const neap_verdict *verdict,
                       const bound_figures *bounds, const char *what)
{
    if (bounds->none_fits || verdict->ticks < bounds->any_ticks)
        fail_msg("%s takes %" PRId64 " ticks, but the bound is %" PRId64 "%s", what, verdict->ticks,
                 bounds->any_ticks, bounds->none_fits ? ", none fits" : "");
    if (in_order(x, plan) && (bounds->infeasible || verdict->ticks < bounds->order_ticks))
        fail_msg("%s, in order, takes %" PRId64 " ticks, but the bound is %" PRId64 "%s", what,
                 verdict->ticks, bounds->order_ticks, bounds->infeasible ? ", none fits" : "");
}

static neap_graph *draw(random_source *random, uint64_t i)
{
    return i % 3 == 0 ? random_graph(random, 10)
                      : random_training_graph(random, 1 + (uint32_t)(i % 4), false);
}

static uint64_t first_seed(void)
{
    return setting("NEAP_TEST_SEED", 20241001);
}

/* Random plans, also in other orders than the graph's and with transfers. */
static void check_random_plans(bool transfers)
{
    uint64_t count = setting("NEAP_TEST_COUNT", 3000 / SHARE);
    for (uint64_t i = 0; i < count; i++) {
        random_source random = {first_seed() + i};
        neap_graph *graph = draw(&random, i);
        problem x;
        open_problem(&x, graph);
        const neap_link link = {.out_bandwidth = 1 + random_below(&random, 40),
                                .in_bandwidth = 1 + random_below(&random, 40),
                                .duplex = random_below(&random, 2)};
        const neap_link *used = transfers ? &link : NULL;
        neap_plan *plan = random_plan(&random, graph, random_below(&random, 30), transfers);
        neap_verdict verdict = accepted_plan(graph, plan, used);
        bound_figures bounds = bounds_of(&x, verdict.peak_bytes, used);
        check_plan(&x, plan, &verdict, &bounds, "a random plan");
        neap_plan_destroy(plan);
        neap_problem_clear(&x);
        neap_graph_destroy(graph);
    }
}

static void test_random_plans(void **state)
{
    (void)state;
    check_random_plans(false);
}

static void test_random_transfers(void **state)
{
    (void)state;
    check_random_plans(true);
}

static void check_method(const problem *x, const char *method, int64_t budget,
                         const neap_link *link, const bound_figures *bounds)
{
    neap_request request;
    neap_solution *solution;
    neap_request_init(&request, x->graph, method);
    request.budget = budget;
    request.time_limit = 2;
    request.link = *link;
    assert_int_equal(neap_solve(NULL, &request, &solution, NULL), NEAP_OK);
    const neap_plan *plan = neap_solution_plan(solution);
    if (plan) {
        neap_verdict verdict = accepted_plan(x->graph, plan, link);
        assert_true(verdict.peak_bytes <= budget);
        check_plan(x, plan, &verdict, bounds, method);
    }
    neap_solution_destroy(solution);
}

/* The best single cuts grow as the budget shrinks, up to the rounding of prices. (Programs need
   not: they are made of other moments.) */
static void check_smaller_budget(const problem *x, int64_t budget, int64_t *last)
{
    static const cut_watch watch;
    int64_t best = 0;
    neap_arena arena;
    neap_arena_init(&arena, NULL);
    cut *c = neap_cut_create(&arena, x, budget, NULL);
    assert_non_null(c);
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        cut_answer answer = neap_cut_solve(c, k, CUT_GRAPH_ORDER, 0, INT64_MIN / 2, &watch);
        int64_t ticks = answer.infeasible ? INT64_MAX : answer.ticks;
        best = ticks > best ? ticks : best;
    }
    neap_arena_clear(&arena);
    assert_true(best >= *last - 1 - *last / 1000000000000);
    *last = best;
}

/* The plans of exact methods, from the least budget to what the natural order takes. */
static void test_methods(void **state)
{
    (void)state;
    static const neap_link no_link;
    uint64_t count = setting("NEAP_TEST_COUNT", 150 / SHARE);
    for (uint64_t i = 0; i < count; i++) {
        random_source random = {first_seed() + i};
        neap_graph *graph = draw(&random, i);
        problem x;
        int64_t peak, floor = neap_graph_floor_bytes(graph, NULL);
        bound_figures last = {0};
        int64_t last_cuts = 0;
        open_problem(&x, graph);
        assert_int_equal(neap_natural_peak(NULL, graph, &peak, NULL), NEAP_OK);
        for (int64_t budget = peak; budget >= floor && budget > 0;
             budget -= 1 + (peak - floor) / 6) {
            bound_figures bounds = bounds_of(&x, budget, NULL);
            assert_true(last.infeasible <= bounds.infeasible && last.none_fits <= bounds.none_fits);
            check_smaller_budget(&x, budget, &last_cuts);
            check_method(&x, "pareto", budget, &no_link, &bounds);
            if (NEAP_HAS_HIGHS)
                check_method(&x, "checkmate", budget, &no_link, &bounds);
            last = bounds;
            const neap_link link = {.out_bandwidth = 1 + random_below(&random, 40),
                                    .in_bandwidth = 1 + random_below(&random, 40),
                                    .duplex = random_below(&random, 2)};
            bound_figures moving = bounds_of(&x, budget, &link);
            assert_true(moving.any_ticks <= bounds.any_ticks || bounds.infeasible);
            check_method(&x, "offload", budget, &link, &moving);
            check_method(&x, "pareto", budget, &no_link, &moving);
        }
        bound_figures bounds = bounds_of(&x, INT64_MAX / 2, NULL);
        assert_true(bounds.order_ticks == neap_graph_least_ticks(graph));
        neap_problem_clear(&x);
        neap_graph_destroy(graph);
    }
}

/* ---- Single cuts, by all subsets ---- */

typedef struct subsets {
    const problem *x;
    const bool *can_recompute;
    uint32_t task;
    bool is_past[64], is_future[64]; /* by task */
    bool kept[64], away[64];         /* by tensor */
    const neap_link *link;           /* or NULL */
    bool again[64];                  /* by task */
} subsets;

static bool make_available(subsets *q, uint32_t tensor, int64_t *ticks)
{
    const problem *x = q->x;
    uint32_t p = x->producer[tensor];
    if (q->kept[tensor] || q->away[tensor] || q->again[p])
        return true;
    if (!q->can_recompute[tensor] && q->is_past[p])
        return false;
    q->again[p] = true;
    *ticks += q->is_past[p] ? task_ticks(x, p) : 0; /* else it may be its first run */
    for (uint32_t i = x->reads.start[p]; i < x->reads.start[p + 1]; i++)
        if (!make_available(q, x->reads.items[i], ticks))
            return false;
    return true;
}

/* Ticks on top of all first runs with this variant of the task; -1: it cannot be. */
static int64_t ticks_of_subset(subsets *q)
{
    const problem *x = q->x;
    int64_t ticks = 0;
    for (uint32_t k = 0; k < x->n_tasks; k++)
        q->again[k] = false;
    for (uint32_t s = 0; s < x->n_tensors; s++)
        if (!q->is_future[x->producer[s]] && x->is_output[s] && !make_available(q, s, &ticks))
            return -1;
    for (uint32_t k = 0; k < x->n_tasks; k++)
        for (uint32_t i = x->reads.start[k]; i < x->reads.start[k + 1] && q->is_future[k]; i++)
            if (!q->is_future[x->producer[x->reads.items[i]]] &&
                !make_available(q, x->reads.items[i], &ticks))
                return -1;
    return ticks;
}

static void mark_past(subsets *q, uint32_t task)
{
    const problem *x = q->x;
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        uint32_t p = x->producer[x->reads.items[i]];
        q->is_past[p] = true;
        mark_past(q, p);
    }
}

static void mark_roles(subsets *q, cut_scope scope)
{
    const problem *x = q->x;
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        q->is_past[k] = scope == CUT_GRAPH_ORDER && k < q->task;
        q->is_future[k] = scope == CUT_GRAPH_ORDER ? k >= q->task : k == q->task;
    }
    if (scope == CUT_GRAPH_ORDER)
        return;
    mark_past(q, q->task);
    for (uint32_t k = q->task + 1; k < x->n_tasks; k++)
        for (uint32_t i = x->reads.start[k]; i < x->reads.start[k + 1]; i++)
            q->is_future[k] |= q->is_future[x->producer[x->reads.items[i]]];
}

/* The least time that a choice allows with a variant. */
static int64_t time_of(const subsets *q, int64_t again, const task_variant *variant)
{
    const problem *x = q->x;
    int64_t more = variant->ticks - task_ticks(x, q->task), in = 0, out = 0;
    int64_t before = variant->ticks, after = more;
    for (uint32_t s = 0; s < x->n_tensors; s++)
        if (q->away[s]) {
            in += neap_link_ticks(q->link, x->graph, false, x->bytes[s]);
            out += neap_link_ticks(q->link, x->graph, true, x->bytes[s]);
        }
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        before += q->is_past[k] ? task_ticks(x, k) : 0;
        after += q->is_future[k] ? task_ticks(x, k) : 0;
    }
    const int64_t times[] = {neap_graph_least_ticks(x->graph) + more + again, before + in,
                             out + after + again, out + variant->ticks + in};
    int64_t most = 0;
    for (int i = 0; i < 4; i++)
        most = times[i] > most ? times[i] : most;
    return most;
}

/* Kept, away or dropped: the choice of that number. Returns the bytes kept; -1: nonsense. */
static int64_t choose(subsets *q, uint32_t number)
{
    const problem *x = q->x;
    int64_t bytes = 0;
    uint32_t ways = q->link ? 3 : 2;
    for (uint32_t s = 0; s < x->n_tensors; s++, number /= ways) {
        q->kept[s] = number % ways == 1;
        q->away[s] = number % ways == 2;
        bytes += q->kept[s] ? x->bytes[s] : 0;
        if (number % ways > 0 && q->is_future[x->producer[s]])
            return -1;
    }
    for (uint32_t i = x->reads.start[q->task]; i < x->reads.start[q->task + 1]; i++)
        if (!q->kept[x->reads.items[i]])
            return -1;
    return bytes;
}

/* The least over all choices and variants; -1: none fits. */
static int64_t least_by_subsets(subsets *q, int64_t budget)
{
    const problem *x = q->x;
    int64_t best = -1;
    uint32_t n_choices = 1;
    for (uint32_t s = 0; s < x->n_tensors; s++)
        n_choices *= q->link ? 3 : 2;
    for (uint32_t number = 0; number < n_choices; number++) {
        int64_t bytes = choose(q, number);
        int64_t room = budget - x->base_bytes - x->made_bytes[q->task] - bytes;
        int64_t again = bytes >= 0 && room >= 0 ? ticks_of_subset(q) : -1;
        for (uint32_t v = x->variant_start[q->task]; v < x->variant_start[q->task + 1]; v++) {
            if (again < 0 || x->variants[v].workspace > room)
                continue;
            int64_t time = time_of(q, again, &x->variants[v]);
            best = best < 0 || time < best ? time : best;
        }
    }
    return best;
}

static void check_cuts(const problem *x, int64_t budget, const neap_link *link)
{
    static const cut_watch watch;
    subsets q = {.x = x, .link = link};
    neap_arena arena;
    neap_arena_init(&arena, NULL);
    cut *c = neap_cut_create(&arena, x, budget, link);
    assert_non_null(c);
    q.can_recompute = neap_cut_choices(c)->can_recompute;
    for (uint32_t k = 0; k < x->n_tasks; k++)
        for (int scope = 0; scope < 2; scope++) {
            q.task = k;
            mark_roles(&q, (cut_scope)scope);
            int64_t least = least_by_subsets(&q, budget);
            cut_answer answer = neap_cut_solve(c, k, (cut_scope)scope, 0, INT64_MIN / 2, &watch);
            assert_true(answer.infeasible == (least < 0));
            if (least >= 0 && answer.ticks > least)
                fail_msg("at task %" PRIu32 ": %" PRId64 " ticks, but %" PRId64 " can be had", k,
                         answer.ticks, least);
        }
    neap_arena_clear(&arena);
}

static void test_cuts(void **state)
{
    (void)state;
    uint64_t count = setting("NEAP_TEST_COUNT", 400 / SHARE);
    for (uint64_t i = 0; i < count; i++) {
        random_source random = {first_seed() + i};
        neap_graph *graph =
            i % 2 ? random_graph(&random, 8) : random_training_graph(&random, 3, false);
        problem x;
        int64_t peak, floor = neap_graph_floor_bytes(graph, NULL);
        open_problem(&x, graph);
        assert_int_equal(neap_natural_peak(NULL, graph, &peak, NULL), NEAP_OK);
        for (int part = 0; part < 4 && x.n_tensors <= 11; part++) {
            const neap_link link = {.out_bandwidth = 1 + random_below(&random, 40),
                                    .in_bandwidth = 1 + random_below(&random, 40)};
            int64_t budget = floor - 1 + (peak - floor) * part / 4;
            check_cuts(&x, budget, NULL);
            if (x.n_tensors <= 7)
                check_cuts(&x, budget, &link);
        }
        neap_problem_clear(&x);
        neap_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_plans),
        cmocka_unit_test(test_random_transfers),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
