/*
 * The methods that move activations to the host, against exhaustive search and linear programs
 * (support/offload_oracle.h) on small random chains: half duplex, with two bandwidths, duplex, and
 * with latency; at the natural peak, at the least budget, and between.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=5000 test_offload     # another seed, more cases
 *     NEAP_OFFLOAD_KEEP=/tmp/kept test_offload                  keeps the cases where `offload` is
 *                                                               slower than the best plan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "offload_oracle.h"
#include "random_offload_chain.h"
#include "settings.h"

#include <neap/check.h>
#include <neap/solve.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Under a sanitizer there are fewer chains. */
#define SLOW ONE_IN(10)

enum { MOST_BUDGETS = 5, MOST_NODES = 40000 };

/* On each kind of link `offload` is to have the best plan at this many of a hundred budgets, and
 * never to be slower by more than this part. */
#define LEAST_BEST  99.0
#define MOST_SLOWER 0.02

static bool is_known(const char *method)
{
    return neap_methods_find(method) != NULL;
}

/* ---- Questions: a chain, a link and a budget ---- */

typedef struct question {
    neap_graph *graph;
    link_kind kind;
    offload_problem problem;
    int64_t budgets[MOST_BUDGETS];
    uint32_t n_budgets;
} question;

/* The least budget, the natural peak, and some between, the smaller first. */
static void choose_budgets(question *q)
{
    int64_t least = offload_floor(&q->problem), peak = offload_natural_peak(&q->problem);
    for (int64_t b = 0; b < MOST_BUDGETS; b++) {
        int64_t budget = least + (peak - least) * b / (MOST_BUDGETS - 1);
        if (budget > 0 && (q->n_budgets == 0 || budget > q->budgets[q->n_budgets - 1]))
            q->budgets[q->n_budgets++] = budget;
    }
}

static question question_of(const offload_chain *chain, const neap_link *link, link_kind kind)
{
    question q = {.graph = offload_chain_graph(chain), .kind = kind};
    q.problem = offload_problem_of(q.graph, link);
    choose_budgets(&q);
    return q;
}

static void question_clear(question *q)
{
    neap_graph_destroy(q->graph);
}

/* Usually one where the budget matters: a short chain often has an op that needs all there is. */
static question draw_question(random_source *random, uint32_t layers, link_kind kind)
{
    for (int turn = 0;; turn++) {
        offload_chain chain = random_offload_chain(random, layers);
        neap_link link = random_link(random, kind);
        question q = question_of(&chain, &link, kind);
        if (turn == 3 || q.n_budgets > 1)
            return q;
        question_clear(&q);
    }
}

static void write_question(FILE *file, const question *q, int64_t budget)
{
    const neap_link *link = &q->problem.link;
    char *text;
    size_t length;
    neap_allocator *allocator = neap_allocator_system();
    assert_int_equal(neap_graph_write_text(q->graph, allocator, &text, &length, NULL), NEAP_OK);
    fprintf(file, "%s\n", text);
    neap_release(allocator, text, length + 1);
    fprintf(file, "budget %" PRId64 ", bandwidth %g out, %g in, latency %g, %s duplex\n", budget,
            link->out_bandwidth, link->in_bandwidth, link->latency, link->duplex ? "full" : "half");
}

#define fail_question(q, budget, ...)                                                              \
    do {                                                                                           \
        write_question(stderr, q, budget);                                                         \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)

static double seconds_of(const question *q, int64_t ticks)
{
    return neap_graph_seconds(q->graph, ticks);
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * (1 + fabs(b));
}

/* ---- The oracles themselves ---- */

static offload_answer search_for(const question *q, int64_t budget, offload_rules rules,
                                 neap_plan **plan)
{
    offload_search_options options = {.rules = rules, .most_nodes = MOST_NODES};
    return offload_search(&q->problem, budget, &options, plan);
}

static void check_plan_of_search(const question *q, int64_t budget)
{
    neap_plan *plan;
    neap_verdict verdict;
    neap_check_options options;
    offload_answer answer = search_for(q, budget, OFFLOAD_PLAN, &plan);
    assert_true(answer.found);
    neap_check_options_init(&options);
    options.budget = budget;
    options.link = &q->problem.link;
    assert_int_equal(neap_check(NULL, q->graph, plan, &options, &verdict, NULL), NEAP_OK);
    if (!verdict.accepted || verdict.ticks != answer.ticks)
        fail_question(q, budget, "the search's plan takes %" PRId64 " ticks, not %" PRId64 "; %s",
                      verdict.ticks, answer.ticks, verdict.reason);
    neap_plan_destroy(plan);
}

/* The rules on which lists suffice leave out none that is better than all that are left. */
static void test_few_lists_are_enough(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 1)};
    uint64_t cases = 0, count = setting("NEAP_TEST_COUNT", 400 / SLOW);
    for (uint64_t c = 0; c < count; c++) {
        uint32_t layers = 1 + random_below(&random, c % 8 ? 4 : 5);
        question q = draw_question(&random, layers, (link_kind)(c % N_LINK_KINDS));
        for (uint32_t b = 0; b < q.n_budgets; b++, cases++) {
            int64_t budget = q.budgets[b];
            check_plan_of_search(&q, budget);
            for (int rules = OFFLOAD_PLAN; rules <= OFFLOAD_CONTINUOUS; rules++) {
                offload_search_options all = {.rules = (offload_rules)rules, .every_list = true};
                offload_answer few = search_for(&q, budget, (offload_rules)rules, NULL);
                offload_answer every = offload_search(&q.problem, budget, &all, NULL);
                assert_true(few.found && every.found);
                if (few.ticks != every.ticks)
                    fail_question(&q, budget, "rules %d: %" PRId64 " ticks, but %" PRId64, rules,
                                  few.ticks, every.ticks);
            }
        }
        question_clear(&q);
    }
    print_message("%" PRIu64 " chains, %" PRIu64 " budgets\n", count, cases);
}

/* Each question allows what the one after it allows, and more. */
static void test_each_relaxation_is_one(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 1) + 1000};
    uint64_t cases = 0, early = 0, overlaps = 0, count = setting("NEAP_TEST_COUNT", 400 / SLOW);
    double most = 0;
    for (uint64_t c = 0; c < count; c++) {
        uint32_t layers = 1 + random_below(&random, 6);
        question q = draw_question(&random, layers, c % 4 ? LINK_HALF : LINK_UNEVEN);
        for (uint32_t b = 0; b < q.n_budgets; b++, cases++) {
            int64_t budget = q.budgets[b];
            offload_answer listed = search_for(&q, budget, OFFLOAD_PLAN, NULL);
            offload_answer timed = search_for(&q, budget, OFFLOAD_CONTINUOUS, NULL);
            double plan = listed.found ? seconds_of(&q, listed.ticks) : HUGE_VAL;
            double problem = timed.found ? seconds_of(&q, timed.ticks) : plan;
            double ordered = offload_ordered_time(&q.problem, budget, false);
            double overlap = offload_ordered_time(&q.problem, budget, true);
            double interrupted = offload_interrupted_time(&q.problem, budget);
            double fractional = offload_fractional_time(&q.problem, budget);
            double base = seconds_of(&q, neap_graph_base_ticks(q.graph));
            if (problem > plan || interrupted > problem + 1e-6 || interrupted > ordered + 1e-6 ||
                fractional > interrupted + 1e-6 || overlap > ordered ||
                fractional > overlap + 1e-6 || base > fractional + 1e-6)
                fail_question(&q, budget, "plan %g, problem 1 %g, ordered %g, %g, fractional %g",
                              plan, problem, ordered, interrupted, fractional);
            early += interrupted < ordered - 1e-6;
            overlaps += overlap < ordered - 1e-6;
            most = fmax(most, ordered / interrupted - 1);
        }
        question_clear(&q);
    }
    print_message("%" PRIu64 " budgets; ordered schedules are slower at %" PRIu64
                  " of them, by up to %.1f%%; an overlap helps at %" PRIu64 "\n",
                  cases, early, 100 * most, overlaps);
}

/* The paper's figure 3, with V times as slow a link and ops: 2 V exactly if some sizes sum to V. */
static void check_partition(const int64_t *sizes, uint32_t n, double time)
{
    offload_chain c = {.layers = n + 4, .source = GRADIENT_NONE};
    neap_link link = {.out_bandwidth = 1, .in_bandwidth = 1};
    int64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        c.x[i + 1] = sizes[i];
        sum += sizes[i];
    }
    c.x[n + 3] = sum / 2;
    c.forward_time[n + 2] = c.backward_time[n + 2] = sum / 2;
    question q = question_of(&c, &link, LINK_HALF);
    assert_int_equal(offload_natural_peak(&q.problem), sum + sum / 2);
    assert_true(is_near(offload_fractional_time(&q.problem, sum), (double)sum));
    assert_true(is_near(offload_interrupted_time(&q.problem, sum), time));
    assert_true(is_near(offload_ordered_time(&q.problem, sum, false), time));
    for (int rules = OFFLOAD_PLAN; rules <= OFFLOAD_CONTINUOUS; rules++) {
        offload_answer answer = search_for(&q, sum, (offload_rules)rules, NULL);
        assert_true(answer.found);
        assert_true(is_near(seconds_of(&q, answer.ticks), time));
    }
    question_clear(&q);
}

static void test_partition(void **state)
{
    (void)state;
    check_partition((const int64_t[]){3, 1, 2, 2}, 4, 8);
    check_partition((const int64_t[]){3, 5, 2}, 3, 10);
    check_partition((const int64_t[]){5, 1, 1, 1}, 4, 10); /* 5 bytes leave instead of 4 */
    check_partition((const int64_t[]){4, 4, 2, 4}, 4, 16); /* 8 instead of 7 */
}

/*
 * A value of 4 bytes and one of 3, and a loss for which 3 bytes have to leave. Within Problem 1 the
 * smaller leaves first, the loss begins at 3 s, and while it runs the other leaves and the first
 * comes back. A plan reserves nothing while an op runs: better that the larger leaves, until 4 s.
 */
static void test_plan_and_problem(void **state)
{
    (void)state;
    offload_chain c = {.layers = 3,
                       .x = {0, 4, 3, 0},
                       .y = {0, 0, 0, 3},
                       .forward_time = {0, 0, 0, 0, 10},
                       .backward_time = {0, 0, 0, 10}};
    neap_link link = {.out_bandwidth = 1, .in_bandwidth = 1};
    question q = question_of(&c, &link, LINK_HALF);
    offload_answer plan = search_for(&q, 7, OFFLOAD_PLAN, NULL);
    offload_answer problem = search_for(&q, 7, OFFLOAD_CONTINUOUS, NULL);
    assert_true(is_near(seconds_of(&q, plan.ticks), 28));
    assert_true(is_near(seconds_of(&q, problem.ticks), 27));
    question_clear(&q);
}

/* Two chains on which the paper's ordered schedules are not what they are said to be. */
static void test_ordered_schedules(void **state)
{
    (void)state;
    /* x1 and x2 leave. Between 1 s and 23 s the link never rests if the last 4 bytes of x1 leave
       only when all of x2 is back: they go and return while B3 runs, which needs 6 bytes away. In
       order, 6 bytes wait for the end of B3. */
    offload_chain c = {.layers = 4,
                       .source = GRADIENT_GIVEN,
                       .fixed_bytes = 1,
                       .x = {6, 10, 12, 4, 12},
                       .y = {2, 1, 0, 3, 2},
                       .forward_time = {0, 1, 1, 1, 1},
                       .backward_time = {0, 0, 4, 4, 0}};
    neap_link link = {.out_bandwidth = 2, .in_bandwidth = 2};
    question q = question_of(&c, &link, LINK_HALF);
    assert_true(is_near(offload_interrupted_time(&q.problem, 32), 27));
    assert_true(is_near(offload_ordered_time(&q.problem, 32, false), 29));
    question_clear(&q);

    /* x1 and x2 leave. x2 is on the host at 4 s, but F3 reads it until 16/3 s. */
    offload_chain d = {.layers = 4,
                       .source = GRADIENT_GIVEN,
                       .x = {2, 6, 6, 9, 3},
                       .y = {1, 1, 1, 1, 2},
                       .forward_time = {0, 0, 0, 4, 0},
                       .backward_time = {0, 4, 0, 6, 0}};
    link.out_bandwidth = link.in_bandwidth = 3;
    q = question_of(&d, &link, LINK_HALF);
    assert_true(is_near(offload_ordered_time(&q.problem, 21, false), 58.0 / 3));
    assert_true(is_near(offload_ordered_time(&q.problem, 21, true), 18));
    question_clear(&q);
}

/* ---- The methods' own figures ---- */

typedef struct method_answer {
    bool found;
    neap_outcome outcome;
    int64_t ticks;
    double bound;
    int64_t least_budget;
    double figure; /* the extra asked for; not a number if there is none */
    char *plan;    /* as text, to be freed; NULL if there is none */
    size_t plan_length;
} method_answer;

typedef struct how {
    const char *extra; /* NULL: none */
    int threads;
    uint32_t n_options;
    neap_option_setting options[2];
} how;

static double extra_of(const neap_solution *solution, const char *name)
{
    for (uint32_t i = 0; name && i < neap_solution_extra_count(solution); i++) {
        const neap_extra *extra = neap_solution_extra_at(solution, i);
        if (strcmp(extra->name, name) == 0 && !extra->is_list)
            return extra->number;
    }
    return nan("");
}

static method_answer ask(const question *q, const char *method, int64_t budget, const how *way)
{
    neap_request request;
    neap_solution *solution;
    neap_diag diag;
    method_answer a = {0};
    neap_request_init(&request, q->graph, method);
    request.budget = budget;
    request.link = q->problem.link;
    request.threads = way->threads;
    request.n_options = way->n_options;
    request.options = way->options;
    if (neap_solve(NULL, &request, &solution, &diag) != NEAP_OK)
        fail_question(q, budget, "%s: %s", method, diag.message);
    const neap_figures *figures = neap_solution_figures(solution);
    const neap_plan *plan = neap_solution_plan(solution);
    a.found = plan != NULL;
    a.outcome = figures->outcome;
    a.bound = figures->bound_time;
    a.least_budget = figures->least_budget;
    a.figure = extra_of(solution, way->extra);
    if (plan) {
        double ticks = figures->time * (double)neap_graph_ticks_per_second(q->graph);
        neap_verdict verdict;
        neap_check_options options;
        neap_check_options_init(&options);
        options.budget = budget;
        options.link = &q->problem.link;
        assert_int_equal(neap_check(NULL, q->graph, plan, &options, &verdict, NULL), NEAP_OK);
        if (!verdict.accepted)
            fail_question(q, budget, "%s: %s", method, verdict.reason);
        a.ticks = verdict.ticks;
        assert_true(fabs(ticks - (double)a.ticks) < 1);
        assert_int_equal(
            neap_plan_write_text(plan, neap_allocator_system(), &a.plan, &a.plan_length, NULL),
            NEAP_OK);
    }
    neap_solution_destroy(solution);
    return a;
}

static void answer_clear(method_answer *a)
{
    if (a->plan)
        neap_release(neap_allocator_system(), a->plan, a->plan_length + 1);
}

static void check_figure(const question *q, int64_t budget, const char *method, const how *way,
                         double expected)
{
    method_answer a = ask(q, method, budget, way);
    if (!(is_near(a.figure, expected)))
        fail_question(q, budget, "%s: %s is %.9g, but should be %.9g", method, way->extra, a.figure,
                      expected);
    answer_clear(&a);
}

static void test_relaxations_of_the_methods(void **state)
{
    (void)state;
    const how greedy = {.extra = "fractional_time", .threads = 1};
    const how dp = {.extra = "fractional_communications_time",
                    .threads = 1,
                    .n_options = 2,
                    .options = {{"slots", "0"}, {"states", "0"}}};
    random_source random = {setting("NEAP_TEST_SEED", 1) + 2000};
    uint64_t cases = 0, count = setting("NEAP_TEST_COUNT", 1000 / SLOW);
    for (uint64_t c = 0; c < count; c++) {
        question q =
            draw_question(&random, 1 + random_below(&random, 8), c % 4 ? LINK_HALF : LINK_UNEVEN);
        for (uint32_t b = 0; b < q.n_budgets; b++, cases++) {
            int64_t budget = q.budgets[b];
            if (is_known("offload-greedy"))
                check_figure(&q, budget, "offload-greedy", &greedy,
                             offload_fractional_time(&q.problem, budget));
            if (is_known("offload-dp"))
                check_figure(&q, budget, "offload-dp", &dp,
                             offload_ordered_time(&q.problem, budget, true));
        }
        question_clear(&q);
    }
    print_message("%" PRIu64 " chains, %" PRIu64 " budgets\n", count, cases);
}

/* ---- The methods against the best plan ---- */

static const char *const methods[] = {"offload-greedy", "offload-dp", "vdnn", "autoswap", "tflms"};
enum { N_METHODS = sizeof methods / sizeof *methods };

typedef struct tally {
    uint64_t asked, skipped;     /* skipped: the search gave up */
    uint64_t idle;               /* not even the best plan is as fast as without a budget */
    uint64_t apart;              /* the best plan is slower than the best schedule of Problem 1 */
    uint64_t best, near_problem; /* `offload` has the best plan; as fast as Problem 1's best */
    double worst;                /* how much slower, at most */
    uint64_t proven;
    uint64_t asked_of[N_METHODS], found[N_METHODS], best_of[N_METHODS];
} tally;

static void write_plan(FILE *file, const neap_plan *plan)
{
    char *text;
    size_t length;
    neap_allocator *allocator = neap_allocator_system();
    assert_int_equal(neap_plan_write_text(plan, allocator, &text, &length, NULL), NEAP_OK);
    fprintf(file, "%s\n", text);
    neap_release(allocator, text, length + 1);
}

static void keep_question(const question *q, int64_t budget, const method_answer *ours)
{
    static uint32_t number = 0;
    const char *folder = getenv("NEAP_OFFLOAD_KEEP");
    char path[512];
    neap_plan *plan;
    if (!folder)
        return;
    snprintf(path, sizeof path, "%s/case-%u.txt", folder, number++);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    offload_answer best = search_for(q, budget, OFFLOAD_PLAN, &plan);
    write_question(file, q, budget);
    fprintf(file, "offload, %g s: %s\nbest, %g s: ", seconds_of(q, ours->ticks), ours->plan,
            seconds_of(q, best.ticks));
    write_plan(file, plan);
    neap_plan_destroy(plan);
    fclose(file);
}

/* What holds for every method. */
static void check_answer(const question *q, int64_t budget, const char *method,
                         const method_answer *a, int64_t best, int64_t problem)
{
    if (a->found && a->ticks < best)
        fail_question(q, budget, "%s takes %g s, but the best plan %g s", method,
                      seconds_of(q, a->ticks), seconds_of(q, best));
    if (a->bound > seconds_of(q, problem) + 1e-6 && a->outcome != NEAP_OPTIMAL)
        fail_question(q, budget, "%s: a bound of %g s, but Problem 1 can be done in %g s", method,
                      a->bound, seconds_of(q, problem));
    if (a->bound > seconds_of(q, best) + 1e-6)
        fail_question(q, budget, "%s: a bound of %g s, but there is a plan of %g s", method,
                      a->bound, seconds_of(q, best));
    if (a->outcome == NEAP_OPTIMAL && a->ticks != best)
        fail_question(q, budget, "%s: %g s are not optimal, %g s are", method,
                      seconds_of(q, a->ticks), seconds_of(q, best));
}

static void compare_methods(const question *q, int64_t budget, bool autoswap, tally *sum)
{
    const how plainly = {.threads = 1};
    offload_answer best = search_for(q, budget, OFFLOAD_PLAN, NULL);
    offload_answer problem = search_for(q, budget, OFFLOAD_CONTINUOUS, NULL);
    if (best.gave_up || problem.gave_up) {
        sum->skipped++;
        return;
    }
    assert_true(best.found && problem.found);
    method_answer ours = {0};
    if (is_known("offload")) {
        ours = ask(q, "offload", budget, &plainly);
        if (!ours.found)
            fail_question(q, budget, "offload finds no plan");
        check_answer(q, budget, "offload", &ours, best.ticks, problem.ticks);
        double above = seconds_of(q, ours.ticks) / fmax(seconds_of(q, best.ticks), 1e-9) - 1;
        sum->best += ours.ticks == best.ticks;
        sum->near_problem += ours.ticks == problem.ticks;
        sum->worst = fmax(sum->worst, above);
        sum->proven += ours.outcome == NEAP_OPTIMAL;
        if (ours.ticks > best.ticks)
            keep_question(q, budget, &ours);
    }
    sum->asked++;
    sum->idle += best.ticks > neap_graph_base_ticks(q->graph);
    sum->apart += problem.ticks < best.ticks;
    for (int m = 0; m < N_METHODS; m++) {
        if (!is_known(methods[m]) || (strcmp(methods[m], "autoswap") == 0 && !autoswap))
            continue;
        method_answer a = ask(q, methods[m], budget, &plainly);
        sum->asked_of[m]++;
        check_answer(q, budget, methods[m], &a, best.ticks, problem.ticks);
        if (a.found && ours.found && a.ticks < ours.ticks)
            fail_question(q, budget, "offload takes %g s, %s %g s", seconds_of(q, ours.ticks),
                          methods[m], seconds_of(q, a.ticks));
        sum->found[m] += a.found;
        sum->best_of[m] += a.found && a.ticks == best.ticks;
        answer_clear(&a);
    }
    answer_clear(&ours);
}

/* Below what the op that needs most takes there is no plan, and `offload` knows that. */
static void check_below_least(const question *q)
{
    const how plainly = {.threads = 1};
    int64_t least = offload_floor(&q->problem);
    if (least < 2 || !is_known("offload"))
        return;
    method_answer a = ask(q, "offload", least - 1, &plainly);
    int64_t found = least > neap_graph_floor_bytes(q->graph, NULL) ? least : -1;
    if (a.found || a.outcome != NEAP_INFEASIBLE || a.least_budget != found)
        fail_question(q, least - 1, "outcome %s, least budget %" PRId64 ", but it is %" PRId64,
                      neap_outcome_name(a.outcome), a.least_budget, found);
    answer_clear(&a);
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

static void report(const tally *sum, const char *kind)
{
    print_message("%-14s %5" PRIu64 " budgets (%" PRIu64 " left out), %.0f%% with idle time; best "
                  "plan slower than Problem 1 at %.2f%%\n",
                  kind, sum->asked, sum->skipped, percent(sum->idle, sum->asked),
                  percent(sum->apart, sum->asked));
    if (is_known("offload"))
        print_message("  %-14s best at %6.2f%%, at most %.2f%% slower; as fast as Problem 1 at "
                      "%.2f%%; proven at %.1f%%\n",
                      "offload", percent(sum->best, sum->asked), 100 * sum->worst,
                      percent(sum->near_problem, sum->asked), percent(sum->proven, sum->asked));
    for (int m = 0; m < N_METHODS; m++)
        if (is_known(methods[m]))
            print_message("  %-14s best at %6.2f%%, a plan at %.1f%%\n", methods[m],
                          percent(sum->best_of[m], sum->asked_of[m]),
                          percent(sum->found[m], sum->asked_of[m]));
}

static void test_methods_against_the_best_plan(void **state)
{
    (void)state;
    uint64_t seed = setting("NEAP_TEST_SEED", 1);
    uint64_t count = setting("NEAP_TEST_COUNT", 160 / SLOW);
    random_source random = {seed + 3000};
    tally sums[N_LINK_KINDS] = {0};
    print_message("seed %" PRIu64 ", %" PRIu64 " chains\n", seed, count);
    for (uint64_t c = 0; c < count; c++) {
        bool autoswap = c / N_LINK_KINDS % 5 == 0; /* it takes longest */
        link_kind kind = (link_kind)(c % N_LINK_KINDS);
        uint32_t longest = c % 16 < 8 ? 5 : c % 16 < 12 ? 6 : 8;
        question q = draw_question(&random, 2 + random_below(&random, longest - 1), kind);
        for (uint32_t b = 0; b < q.n_budgets; b++)
            compare_methods(&q, q.budgets[b], autoswap, &sums[kind]);
        check_below_least(&q);
        question_clear(&q);
    }
    bool good = true;
    for (int kind = 0; kind < N_LINK_KINDS; kind++) {
        const tally *sum = &sums[kind];
        report(sum, link_kind_name((link_kind)kind));
        good = good && percent(sum->best, sum->asked) >= LEAST_BEST && sum->worst <= MOST_SLOWER;
    }
    assert_true(good || !is_known("offload"));
}

/* ---- The same question, the same plan ---- */

static void test_same_plan(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 1) + 4000};
    for (int c = 0; c < 20 / SLOW; c++) {
        question q =
            draw_question(&random, 2 + random_below(&random, 6), (link_kind)(c % N_LINK_KINDS));
        int64_t budget = q.budgets[random_below(&random, q.n_budgets)];
        for (int m = 0; m <= N_METHODS; m++) {
            const char *method = m < N_METHODS ? methods[m] : "offload";
            if (!is_known(method))
                continue;
            method_answer first = ask(&q, method, budget, &(how){.threads = 1});
            for (int threads = 1; threads <= 2; threads++) {
                method_answer again = ask(&q, method, budget, &(how){.threads = threads});
                if (again.outcome != first.outcome || again.plan_length != first.plan_length ||
                    (first.plan && memcmp(again.plan, first.plan, first.plan_length) != 0))
                    fail_question(&q, budget, "%s: another plan with %d threads", method, threads);
                answer_clear(&again);
            }
            answer_clear(&first);
        }
        question_clear(&q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_lists_are_enough),
        cmocka_unit_test(test_each_relaxation_is_one),
        cmocka_unit_test(test_partition),
        cmocka_unit_test(test_plan_and_problem),
        cmocka_unit_test(test_ordered_schedules),
        cmocka_unit_test(test_relaxations_of_the_methods),
        cmocka_unit_test(test_methods_against_the_best_plan),
        cmocka_unit_test(test_same_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
