/*
 * The method `neap` compared with the optimum of least_time.h on thousands of tiny graphs: how
 * often its plan is optimal, whether its proofs hold, and whether it recognizes that there is no
 * plan.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=20000 test_neap     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "least_time.h"
#include "random_small_graph.h"
#include "settings.h"
#include "show_graph.h"

#include <inttypes.h>
#include <math.h>
#include <neap/check.h>
#include <neap/solve.h>
#include <string.h>
#include <time.h>

#define SHARE ONE_IN(10)

#define METHOD "neap"

enum { COUNT = 60 / SHARE, MOST_BUDGETS = 4, MOST_STATES = 60000, PERCENT_NEEDED = 99 };

/* ---- Families of graphs and links ---- */

typedef struct family {
    unsigned flags; /* beside SMALL_TRAINING, which every other graph has unless they are odd */
    uint32_t most_ops;
    uint32_t part; /* one in `part` of COUNT, where the optimum takes long to find */
    bool link, duplex, latency;
    bool exhaustive; /* as small graphs are planned by default; else by the search alone */
} family;

/* One of two bandwidths each way, the latency of a fourth of a second or none. */
static neap_link draw_link(random_source *random, const family *f)
{
    static const double bandwidths[] = {1, 3};
    neap_link link = {.duplex = f->duplex, .latency = f->latency ? 0.25 : 0};
    if (!f->link)
        return link = (neap_link){0};
    link.out_bandwidth = bandwidths[random_below(random, 2)];
    link.in_bandwidth = bandwidths[random_below(random, 2)];
    return link;
}

/* ---- A case, and what is to be known of it ---- */

typedef struct task {
    const neap_graph *graph;
    int64_t budget;
    neap_link link;
    bool exhaustive;
} task;

typedef struct tally {
    uint64_t cases, unknown; /* unknown: the optimum took too long to find */
    uint64_t feasible, optimal, missed;
    uint64_t infeasible;                    /* where there is none; `neap` then has none either */
    uint64_t bounds_tight;                  /* of the feasible: the bound is the optimum */
    uint64_t bounds_ordered, ordered_tight; /* bounds of plans in the graph's order alone */
    uint64_t
        above_mixed; /* bounds that hold for one variant an op, and not if variants may change */
    double worst;    /* the largest ratio of its time to the optimum */
    clock_t ticks;   /* of the processor, in `neap` */
} tally;

static least_time_answer optimum(const task *t, bool fixed_order, bool mixed_variants)
{
    least_time_options options = {.link = t->link,
                                  .fixed_order = fixed_order,
                                  .mixed_variants = mixed_variants,
                                  .state_moves = t->link.in_bandwidth > 0,
                                  .most_states = MOST_STATES};
    return least_time_search(t->graph, t->budget, &options);
}

static int64_t bound_ticks(const task *t, const neap_figures *f)
{
    return (int64_t)llround(f->bound_time * (double)neap_graph_ticks_per_second(t->graph));
}

static bool has_variants(const neap_graph *graph)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (neap_graph_op(graph, o)->n_variants > 1)
            return true;
    return false;
}

/* ---- What is checked ---- */

/* The plan by the judge; its ticks. */
static int64_t check_plan(const task *t, const neap_solution *solution)
{
    const neap_figures *f = neap_solution_figures(solution);
    neap_check_options options;
    neap_verdict verdict;
    neap_check_options_init(&options);
    options.budget = t->budget;
    options.link = &t->link;
    assert_int_equal(
        neap_check(NULL, t->graph, neap_solution_plan(solution), &options, &verdict, NULL),
        NEAP_OK);
    NEED(t->graph, verdict.accepted, "within %" PRId64 ": %s", t->budget, verdict.reason);
    NEED(t->graph, verdict.peak_bytes == f->peak_bytes && verdict.time == f->time,
         "within %" PRId64 ": the figures are not the judge's", t->budget);
    return verdict.ticks;
}

/* A plan may change variants from run to run, and then be faster than the optimum of those that do
   not; never than that of all. */
static void check_not_too_fast(const task *t, int64_t ticks, int64_t least)
{
    if (ticks >= least)
        return;
    least_time_answer mixed = optimum(t, false, true);
    NEED(t->graph, mixed.gave_up || ticks >= mixed.ticks,
         "within %" PRId64 ": %" PRId64 " ticks, but %" PRId64 " is the least", t->budget, ticks,
         mixed.ticks);
}

/* The bound is below every plan in its scope. */
static void check_ordered_bound(const task *t, int64_t bound, tally *all)
{
    least_time_answer ordered = optimum(t, true, false);
    all->bounds_ordered++;
    if (ordered.gave_up || !ordered.found)
        return;
    NEED(t->graph, bound <= ordered.ticks,
         "within %" PRId64 ": a bound of %" PRId64 " on plans in order, but %" PRId64 " can be had",
         t->budget, bound, ordered.ticks);
    all->ordered_tight += bound == ordered.ticks;
}

static void check_any_bound(const task *t, int64_t bound, int64_t least, tally *all)
{
    NEED(t->graph, bound <= least,
         "within %" PRId64 ": a bound of %" PRId64 ", but %" PRId64 " can be had", t->budget, bound,
         least);
    all->bounds_tight += bound == least;
    if (!has_variants(t->graph))
        return;
    least_time_answer mixed = optimum(t, false, true);
    all->above_mixed += mixed.found && bound > mixed.ticks;
}

static void check_bound(const task *t, const neap_figures *f, int64_t least, tally *all)
{
    int64_t bound = bound_ticks(t, f);
    if (f->bound_scope == NEAP_SCOPE_ORDER)
        check_ordered_bound(t, bound, all);
    else if (f->bound_scope == NEAP_SCOPE_ANY)
        check_any_bound(t, bound, least, all);
    else
        fail_msg("a bound on plans of the scope \"%s\"", neap_scope_name(f->bound_scope));
}

static void check_solution(const task *t, const neap_solution *solution, tally *all)
{
    const neap_figures *f = neap_solution_figures(solution);
    bool has_plan = neap_solution_plan(solution) != NULL;
    int64_t ticks = has_plan ? check_plan(t, solution) : -1;
    NEED(t->graph, has_plan == (f->outcome == NEAP_OPTIMAL || f->outcome == NEAP_FEASIBLE),
         "within %" PRId64 ": outcome %s", t->budget, neap_outcome_name(f->outcome));
    least_time_answer best = optimum(t, false, false);
    all->cases++;
    all->unknown += best.gave_up;
    if (best.gave_up)
        return;
    NEED(t->graph, best.found || !has_plan, "within %" PRId64 ": there is no plan", t->budget);
    all->infeasible += !best.found;
    if (!best.found)
        return;
    all->feasible++;
    all->missed += !has_plan;
    if (!has_plan)
        return;
    check_not_too_fast(t, ticks, best.ticks);
    check_bound(t, f, best.ticks, all);
    bool optimal = ticks <= best.ticks;
    NEED(t->graph, optimal || f->outcome != NEAP_OPTIMAL || f->bound_scope != NEAP_SCOPE_ANY,
         "within %" PRId64 ": %" PRId64 " ticks are said to be optimal, but %" PRId64 " can be had",
         t->budget, ticks, best.ticks);
    all->optimal += optimal;
    if (best.ticks > 0 && (double)ticks / (double)best.ticks > all->worst)
        all->worst = (double)ticks / (double)best.ticks;
}

static void check_task(const task *t, tally *all)
{
    static const neap_option_setting by_search = {"small-graphs", "search"};
    neap_request request;
    neap_solution *solution;
    neap_diag diag = {0};
    neap_request_init(&request, t->graph, METHOD);
    request.budget = t->budget;
    request.link = t->link;
    request.options = &by_search;
    request.n_options = !t->exhaustive;
    clock_t before = clock();
    neap_status status = neap_solve(NULL, &request, &solution, &diag);
    all->ticks += clock() - before;
    NEED(t->graph, status == NEAP_OK, "within %" PRId64 ": %s", t->budget, diag.message);
    check_solution(t, solution, all);
    neap_solution_destroy(solution);
}

/* ---- A family ---- */

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 100.0;
}

static void report(const tally *all)
{
    uint64_t any = all->feasible - all->missed - all->bounds_ordered;
    print_message("%" PRIu64 " cases (%" PRIu64 " left out: the optimum takes too long)\n",
                  all->cases, all->unknown);
    print_message("optimal %.2f%% of %" PRIu64 ", at worst %.3f times the optimum; %" PRIu64
                  " without a plan where there is one, %" PRIu64 " where there is none\n",
                  percent(all->optimal, all->feasible), all->feasible, all->worst, all->missed,
                  all->infeasible);
    print_message("bounds: of all plans tight %.2f%% of %" PRIu64 "; of those in order %.2f%% of "
                  "%" PRIu64 "; %" PRIu64 " not for plans that change variants\n",
                  percent(all->bounds_tight, any), any,
                  percent(all->ordered_tight, all->bounds_ordered), all->bounds_ordered,
                  all->above_mixed);
    print_message("%.3f ms a plan\n",
                  1e3 * (double)all->ticks / CLOCKS_PER_SEC / (double)(all->cases + !all->cases));
}

static void check_family(const family *f, uint64_t seed)
{
    random_source random = {setting("NEAP_TEST_SEED", seed)};
    uint64_t count = (setting("NEAP_TEST_COUNT", COUNT) + f->part - 1) / f->part;
    tally all = {0};
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        int64_t budgets[MOST_BUDGETS];
        bool training = (i % 2 && !(f->flags & SMALL_ODD)) || (f->flags & SMALL_UPDATES);
        unsigned flags = f->flags | (training ? SMALL_TRAINING : 0);
        neap_graph *graph = random_small_graph(&random, f->most_ops, flags);
        task t = {.graph = graph, .link = draw_link(&random, f), .exhaustive = f->exhaustive};
        size_t n = small_graph_budgets(graph, budgets, MOST_BUDGETS);
        for (size_t b = 0; b < n; b++) {
            t.budget = budgets[b];
            check_task(&t, &all);
        }
        neap_graph_destroy(graph);
    }
    report(&all);
    assert_true(!f->exhaustive || all.optimal == all.feasible);
    /* Of few cases one may be missed. */
    assert_true(100 * (all.optimal + 1) >= PERCENT_NEEDED * all.feasible);
    assert_true(100 * all.missed <= (100 - PERCENT_NEEDED) * all.cases);
    assert_true(10 * all.unknown <= all.cases); /* or there is not much to say */
}

static void test_computing(void **state)
{
    (void)state;
    check_family(&(family){.most_ops = 7, .part = 1}, 20250311);
}

static void test_variants(void **state)
{
    (void)state;
    check_family(&(family){.flags = SMALL_VARIANTS, .most_ops = 6, .part = 2}, 20250312);
}

/* All state stays on the device. */
static void test_updates(void **state)
{
    (void)state;
    check_family(&(family){.flags = SMALL_UPDATES, .most_ops = 7, .part = 1}, 20261120);
    check_family(&(family){.flags = SMALL_UPDATES | SMALL_VARIANTS, .most_ops = 7, .part = 2},
                 20261121);
    check_family(&(family){.flags = SMALL_UPDATES, .most_ops = 7, .part = 1, .exhaustive = true},
                 20261122);
    check_family(&(family){.flags = SMALL_UPDATES | SMALL_SIDE, .most_ops = 7, .part = 2},
                 20261125);
}

/* State moves between device and host. */
static void test_state(void **state)
{
    (void)state;
    check_family(&(family){.flags = SMALL_UPDATES, .most_ops = 5, .part = 2, .link = true},
                 20261123);
    check_family(
        &(family){.flags = SMALL_UPDATES, .most_ops = 5, .part = 2, .link = true, .duplex = true},
        20261124);
    check_family(&(family){.flags = SMALL_UPDATES | SMALL_VARIANTS,
                           .most_ops = 4,
                           .part = 4,
                           .link = true,
                           .latency = true,
                           .duplex = true,
                           .exhaustive = true},
                 20261125);
}

/* Whatever the format allows. Nothing small is missed. */
static void test_odd_graphs(void **state)
{
    (void)state;
    check_family(&(family){.flags = SMALL_ODD, .most_ops = 6, .part = 1, .exhaustive = true},
                 20261116);
    check_family(
        &(family){
            .flags = SMALL_ODD | SMALL_VARIANTS, .most_ops = 5, .part = 2, .exhaustive = true},
        20261117);
    check_family(&(family){.most_ops = 7, .part = 1, .exhaustive = true}, 20261118);
}

static void test_link(void **state)
{
    (void)state;
    check_family(&(family){.most_ops = 6, .part = 5, .link = true}, 20250313);
}

static void test_duplex_link(void **state)
{
    (void)state;
    check_family(&(family){.most_ops = 6, .part = 5, .link = true, .duplex = true}, 20250314);
}

static void test_link_with_latency(void **state)
{
    (void)state;
    check_family(&(family){.most_ops = 5, .part = 4, .link = true, .latency = true}, 20250315);
    check_family(&(family){.most_ops = 5, .part = 4, .link = true, .duplex = true, .latency = true},
                 20250316);
}

static void test_link_and_variants(void **state)
{
    (void)state;
    check_family(
        &(family){.flags = SMALL_VARIANTS, .most_ops = 4, .part = 5, .link = true, .duplex = true},
        20250317);
}

/* Ops that may write over an input. */
static void test_in_place(void **state)
{
    (void)state;
    check_family(&(family){.flags = SMALL_IN_PLACE, .most_ops = 7, .part = 1}, 20261119);
    check_family(&(family){.flags = SMALL_IN_PLACE | SMALL_VARIANTS, .most_ops = 6, .part = 2},
                 20261120);
    check_family(&(family){.flags = SMALL_IN_PLACE | SMALL_ODD | SMALL_VARIANTS,
                           .most_ops = 5,
                           .part = 1,
                           .exhaustive = true},
                 20261121);
    check_family(&(family){.flags = SMALL_IN_PLACE, .most_ops = 7, .part = 1, .exhaustive = true},
                 20261122);
}

/* What is written over may be on the host. */
static void test_in_place_and_link(void **state)
{
    (void)state;
    check_family(&(family){.flags = SMALL_IN_PLACE, .most_ops = 6, .part = 5, .link = true},
                 20261123);
    check_family(
        &(family){.flags = SMALL_IN_PLACE, .most_ops = 6, .part = 5, .link = true, .duplex = true},
        20261124);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_computing),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_odd_graphs),
        cmocka_unit_test(test_link),
        cmocka_unit_test(test_duplex_link),
        cmocka_unit_test(test_link_with_latency),
        cmocka_unit_test(test_link_and_variants),
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_in_place_and_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
