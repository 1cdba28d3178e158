/*
 * Whole training steps, planned by the method `neap` and compared with the optimum of least_time.h
 * on thousands of tiny graphs: gradients that updates consume, state that moves, runs in place. How
 * often the plan is optimal, whether bounds hold, and whether the judge in Python
 * (tests/oracle/judge_lines.py) agrees with ours. Prints a table (bench/whole_step_oracle).
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=3000 test_whole_step     # another seed, more cases
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHARE  ONE_IN(8)
#define ORACLE NEAP_SOURCE_DIR "/tests/oracle"

enum { COUNT = 80 / SHARE, MOST_BUDGETS = 4, MOST_STATES = 40000, PERCENT_NEEDED = 99 };

/* ---- Families of graphs and links ---- */

typedef struct family {
    const char *name;
    unsigned flags; /* beside SMALL_TRAINING and SMALL_UPDATES */
    uint32_t most_ops;
    uint32_t part; /* one in `part` of COUNT, where the optimum takes long to find */
    bool link, duplex;
    bool search; /* and not the exhaustive search of small graphs */
    neap_state_place place;
} family;

static const family families[] = {
    {.name = "updates", .most_ops = 7, .part = 1},
    {.name = "updates, by search", .most_ops = 7, .part = 1, .search = true},
    {.name = "updates in place", .flags = SMALL_IN_PLACE, .most_ops = 7, .part = 1},
    {.name = "updates in place, by search",
     .flags = SMALL_IN_PLACE,
     .most_ops = 7,
     .part = 1,
     .search = true},
    {.name = "variants", .flags = SMALL_IN_PLACE | SMALL_VARIANTS, .most_ops = 6, .part = 2},
    {.name = "link, state stays",
     .flags = SMALL_IN_PLACE,
     .most_ops = 5,
     .part = 4,
     .link = true,
     .place = NEAP_STATE_DEVICE},
    {.name = "state moves", .most_ops = 5, .part = 2, .link = true},
    {.name = "state moves, duplex", .most_ops = 5, .part = 2, .link = true, .duplex = true},
    {.name = "state moves, by search", .most_ops = 5, .part = 2, .link = true, .search = true},
    {.name = "state moves, in place",
     .flags = SMALL_IN_PLACE,
     .most_ops = 5,
     .part = 2,
     .link = true,
     .duplex = true},
    {.name = "state on the host",
     .flags = SMALL_IN_PLACE,
     .most_ops = 5,
     .part = 4,
     .link = true,
     .duplex = true,
     .place = NEAP_STATE_HOST},
};

enum { N_FAMILIES = sizeof families / sizeof *families };

static neap_link draw_link(random_source *random, const family *f)
{
    static const double bandwidths[] = {1, 2, 4};
    neap_link link = {0};
    if (!f->link)
        return link;
    link.out_bandwidth = bandwidths[random_below(random, 3)];
    link.in_bandwidth = bandwidths[random_below(random, 3)];
    link.latency = random_below(random, 4) == 0 ? 0.25 : 0;
    link.duplex = f->duplex;
    return link;
}

/* ---- A case ---- */

typedef struct scene {
    const neap_graph *graph;
    int64_t budget;
    neap_link link;
    const family *family;
} scene;

typedef struct tally {
    uint64_t cases, unknown; /* unknown: the optimum took too long to find */
    uint64_t feasible, met, slower, missed;
    uint64_t faster;          /* than the optimum: one of the two is wrong */
    uint64_t above;           /* bounds that exceed it: likewise */
    uint64_t tight;           /* bounds equal to the optimum */
    uint64_t planned, judged; /* judged: by the judge in Python, and as ours does */
    double worst;             /* the largest ratio of a plan's time to the optimum */
    FILE *lines;              /* for that judge; NULL without Python */
} tally;

static least_time_answer optimum(const scene *s, bool fixed_order, bool mixed_variants)
{
    least_time_options options = {.link = s->link,
                                  .fixed_order = fixed_order,
                                  .mixed_variants = mixed_variants,
                                  .state_moves = s->family->place != NEAP_STATE_DEVICE,
                                  .state_on_host = s->family->place == NEAP_STATE_HOST,
                                  .most_states = MOST_STATES};
    return least_time_search(s->graph, s->budget, &options);
}

/* ---- The judges ---- */

static void write_line(FILE *file, const scene *s, const neap_plan *plan, const neap_verdict *v)
{
    char *graph_text, *plan_text;
    size_t graph_length, plan_length;
    assert_int_equal(neap_graph_write_text(s->graph, NULL, &graph_text, &graph_length, NULL),
                     NEAP_OK);
    assert_int_equal(neap_plan_write_text(plan, NULL, &plan_text, &plan_length, NULL), NEAP_OK);
    for (char *c = graph_text; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    for (char *c = plan_text; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    fprintf(file,
            "{\"out\": \"%g\", \"in\": \"%g\", \"latency\": \"%g\", \"duplex\": %s, \"budget\": "
            "%" PRId64 ", \"peak\": %" PRId64 ", \"time\": %.17g, \"graph\": %s, \"plan\": %s}\n",
            s->link.out_bandwidth, s->link.in_bandwidth, s->link.latency,
            s->link.duplex ? "true" : "false", s->budget, v->peak_bytes, v->time, graph_text,
            plan_text);
    neap_release(NULL, graph_text, graph_length + 1);
    neap_release(NULL, plan_text, plan_length + 1);
}

/* The plan by our judge, which must agree with the figures. */
static neap_verdict judge(const scene *s, const neap_solution *solution)
{
    const neap_figures *f = neap_solution_figures(solution);
    neap_check_options options;
    neap_verdict verdict;
    neap_check_options_init(&options);
    options.budget = s->budget;
    options.link = &s->link;
    assert_int_equal(
        neap_check(NULL, s->graph, neap_solution_plan(solution), &options, &verdict, NULL),
        NEAP_OK);
    NEED(s->graph, verdict.accepted, "%s, within %" PRId64 ": %s", s->family->name, s->budget,
         verdict.reason);
    NEED(s->graph, verdict.peak_bytes == f->peak_bytes && verdict.time == f->time,
         "%s, within %" PRId64 ": the figures are not the judge's", s->family->name, s->budget);
    return verdict;
}

/* ---- What is checked ---- */

static void check_bound(const scene *s, const neap_figures *f, int64_t least, tally *all)
{
    int64_t bound = (int64_t)llround(f->bound_time * (double)neap_graph_ticks_per_second(s->graph));
    bool in_order = f->bound_scope == NEAP_SCOPE_ORDER;
    if (in_order) {
        least_time_answer ordered = optimum(s, true, false);
        least = ordered.found ? ordered.ticks : INT64_MAX;
    }
    if (bound > least) {
        show_graph(s->graph);
        print_error("%s, within %" PRId64 ": a bound of %" PRId64 "%s, but %" PRId64
                    " can be had\n",
                    s->family->name, s->budget, bound, in_order ? " on plans in order" : "", least);
    }
    all->above += bound > least;
    all->tight += bound == least;
}

static void check_time(const scene *s, int64_t ticks, int64_t least, tally *all)
{
    all->met += ticks <= least;
    all->slower += ticks > least;
    if (ticks > least && (double)ticks / (double)least > all->worst)
        all->worst = (double)ticks / (double)least;
    if (ticks >= least)
        return;
    least_time_answer mixed = optimum(s, false, true); /* variants may change from run to run */
    if (mixed.gave_up || ticks >= mixed.ticks)
        return;
    show_graph(s->graph);
    print_error("%s, within %" PRId64 ": %" PRId64 " ticks, but %" PRId64 " is the least\n",
                s->family->name, s->budget, ticks, mixed.ticks);
    all->faster++;
}

static void check_solution(const scene *s, const neap_solution *solution, tally *all)
{
    const neap_figures *f = neap_solution_figures(solution);
    const neap_plan *plan = neap_solution_plan(solution);
    neap_verdict verdict = {0};
    if (plan) {
        verdict = judge(s, solution);
        all->planned++;
        if (all->lines)
            write_line(all->lines, s, plan, &verdict);
    }
    least_time_answer best = optimum(s, false, false);
    all->cases++;
    all->unknown += best.gave_up;
    if (best.gave_up)
        return;
    NEED(s->graph, best.found || !plan, "%s, within %" PRId64 ": there is no plan", s->family->name,
         s->budget);
    all->feasible += best.found;
    all->missed += best.found && !plan;
    if (!plan)
        return;
    check_time(s, verdict.ticks, best.ticks, all);
    check_bound(s, f, best.ticks, all);
    NEED(s->graph,
         verdict.ticks <= best.ticks || f->outcome != NEAP_OPTIMAL ||
             f->bound_scope != NEAP_SCOPE_ANY,
         "%s, within %" PRId64 ": %" PRId64 " ticks are said to be optimal, but %" PRId64
         " can be had",
         s->family->name, s->budget, verdict.ticks, best.ticks);
}

static void check_scene(const scene *s, tally *all)
{
    static const neap_option_setting by_search = {"small-graphs", "search"};
    neap_request request;
    neap_solution *solution;
    neap_diag diag = {0};
    neap_request_init(&request, s->graph, "neap");
    request.budget = s->budget;
    request.link = s->link;
    request.state = s->family->place;
    request.options = &by_search;
    request.n_options = s->family->search;
    neap_status status = neap_solve(NULL, &request, &solution, &diag);
    NEED(s->graph, status == NEAP_OK, "%s, within %" PRId64 ": %s", s->family->name, s->budget,
         diag.message);
    check_solution(s, solution, all);
    neap_solution_destroy(solution);
}

/* ---- The judge in Python ---- */

static void judge_lines(const char *path, tally *all)
{
    char command[1024], answer[64] = "";
    snprintf(command, sizeof command, "python3 -B '%s/judge_lines.py' '%s'", ORACLE, path);
    FILE *oracle = popen(command, "r");
    assert_non_null(oracle);
    assert_non_null(fgets(answer, sizeof answer, oracle));
    assert_int_equal(pclose(oracle), 0);
    all->judged = strtoull(answer, NULL, 10);
}

/* ---- A family ---- */

static void check_graphs(const family *f, uint64_t seed, uint64_t count, tally *all)
{
    random_source random = {seed};
    for (uint64_t i = 0; i < count; i++) {
        int64_t budgets[MOST_BUDGETS];
        unsigned flags = f->flags | SMALL_UPDATES | (i % 8 < 7 ? SMALL_TRAINING : 0);
        neap_graph *graph = random_small_graph(&random, f->most_ops, flags);
        scene s = {.graph = graph, .link = draw_link(&random, f), .family = f};
        size_t n = small_graph_budgets(graph, budgets, MOST_BUDGETS);
        for (size_t b = 0; b < n; b++) {
            s.budget = budgets[b];
            check_scene(&s, all);
        }
        neap_graph_destroy(graph);
    }
}

static tally check_family(const family *f, uint64_t seed, bool python)
{
    uint64_t count = (setting("NEAP_TEST_COUNT", COUNT) + f->part - 1) / f->part;
    const char *tmp = getenv("TMPDIR");
    char path[256];
    tally all = {.worst = 1};
    snprintf(path, sizeof path, "%s/neap-whole-step-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    int file = mkstemp(path);
    assert_true(file >= 0);
    FILE *lines = fdopen(file, "w");
    assert_non_null(lines);
    all.lines = python ? lines : NULL;
    check_graphs(f, seed, count, &all);
    assert_int_equal(fclose(lines), 0);
    if (python)
        judge_lines(path, &all);
    remove(path);
    return all;
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 100.0;
}

static void test_whole_steps(void **state)
{
    (void)state;
    uint64_t seed = setting("NEAP_TEST_SEED", 20261301);
    bool python = system("python3 -c ''") == 0;
    print_message("seed %" PRIu64
                  "\n| family | cases | optimum known, a plan exists | met | slower "
                  "| at worst | none found | faster | bound above | bound tight | judged in Python "
                  "|\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
                  seed);
    for (uint32_t i = 0; i < N_FAMILIES; i++) {
        tally all = check_family(&families[i], seed + i, python);
        print_message("| %s | %" PRIu64 " | %" PRIu64 " | %.2f%% | %" PRIu64 " | %.3f | %" PRIu64
                      " | %" PRIu64 " | %" PRIu64 " | %.1f%% | %" PRIu64 " |\n",
                      families[i].name, all.cases, all.feasible, percent(all.met, all.feasible),
                      all.slower, all.worst, all.missed, all.faster, all.above,
                      percent(all.tight, all.met + all.slower), all.judged);
        assert_true(all.faster == 0 && all.above == 0);
        assert_true(!python || all.judged == all.planned);
        /* Of few cases one may be missed. */
        assert_true(100 * (all.met + 1) >= PERCENT_NEEDED * all.feasible);
        assert_true(4 * all.unknown <= all.cases); /* or there is not much to say */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
