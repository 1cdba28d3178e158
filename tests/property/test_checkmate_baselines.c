/*
 * ap-sqrt, ap-greedy, linear-sqrt and linear-greedy: on chains they are sqrt and greedy, to the
 * byte and the tick; on any graph nothing is computed more than twice.
 *
 * "All proposed generalizations exactly reproduce the original heuristics on linear networks" (Jain
 * et al. 2020, section 6.1). Here the original heuristics choose among the cuts of the chain view,
 * and the two may differ
 *
 *   - in the candidates: the chain view has no cut where the backward pass cannot be cut to match;
 *   - in side storages, which the graph methods always keep;
 *   - in views: of a storage that stays, the graph methods have all values, the chain methods those
 *     that a later segment reads;
 *   - in the moment: the chain methods recompute a whole segment when an op reads something that
 *     it makes; the graph methods recompute what an op needs just before it. With one op per layer
 *     that makes one value, these are the same; else the same ops run again, at other moments.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=10000 test_checkmate_baselines   # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planners/chain/least_peak.h"
#include "planners/checkmate/checkpoints.h"
#include "random_chain.h"
#include "random_training.h"
#include "settings.h"
#include "small_graphs.h"

#include <neap/models.h>
#include <neap/solve.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHARE ONE_IN(8)

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static neap_graph *build(const char *name, uint32_t n_settings, const neap_model_setting *settings)
{
    neap_model_options options;
    neap_graph *graph;
    neap_diag diag;
    neap_model_options_init(&options);
    options.n_settings = n_settings;
    options.settings = settings;
    if (neap_model_build(NULL, neap_models_find(name), &options, &graph, &diag) != NEAP_OK)
        fail_msg("%s: %s", name, diag.message);
    return graph;
}

static int64_t natural_peak(const neap_graph *graph)
{
    int64_t peak;
    assert_int_equal(neap_natural_peak(NULL, graph, &peak, NULL), NEAP_OK);
    return peak;
}

static neap_solution *solve_with(const neap_graph *graph, const char *method, int64_t budget,
                                 const char *option, const char *value)
{
    const neap_option_setting one = {option, value};
    neap_request request;
    neap_solution *solution;
    neap_diag diag;
    neap_request_init(&request, graph, method);
    request.budget = budget;
    request.n_options = option ? 1 : 0;
    request.options = &one;
    if (neap_solve(NULL, &request, &solution, &diag) != NEAP_OK)
        fail_msg("%s within %" PRId64 ": %s", method, budget, diag.message);
    return solution;
}

static neap_solution *solve(const neap_graph *graph, const char *method, int64_t budget)
{
    return solve_with(graph, method, budget, NULL, NULL);
}

static const neap_extra *extra_of(const neap_solution *solution, const char *name)
{
    for (uint32_t i = 0; i < neap_solution_extra_count(solution); i++)
        if (strcmp(neap_solution_extra_at(solution, i)->name, name) == 0)
            return neap_solution_extra_at(solution, i);
    fail_msg("nothing is said of %s", name);
    return NULL;
}

/* ---- As the chain methods ---- */

/* Whether there is a side storage: the chain methods keep it only where a later segment reads it.
 */
static bool carries_along(const checkpoints *c)
{
    for (uint32_t v = 0; v < neap_graph_value_count(c->graph); v++)
        if (c->chain.is_side[v] &&
            neap_graph_value(c->graph, neap_graph_value(c->graph, v)->storage)->producer !=
                NEAP_NONE)
            return true;
    return false;
}

static bool same_candidates(const checkpoints *c, const least_peak_view *view)
{
    if (c->n != view->n || carries_along(c))
        return false;
    for (uint32_t i = 1; i <= c->n; i++) {
        const neap_value *cut = neap_graph_value(c->graph, view->chain.stages[i - 1].cuts[0]);
        if (c->ops[i] != cut->producer || c->d[i] != view->d[i] || c->inner[i] != view->inner[i])
            return false;
    }
    return c->inner[c->n + 1] == view->inner[c->n + 1];
}

/* Whether the candidates are the cuts of the chain view, and what lies between them its stages. */
static bool is_chain(const neap_graph *graph, candidate_rule rule)
{
    const planner p = {.allocator = neap_allocator_system(), .graph = graph};
    checkpoints c;
    least_peak_view view;
    assert_int_equal(neap_checkpoints_build(&p, rule, &c, NULL), NEAP_OK);
    assert_int_equal(neap_planner_view_build(&p, (chain_view){0}, &view, NULL), NEAP_OK);
    bool same = same_candidates(&c, &view);
    neap_planner_view_clear(&view);
    neap_checkpoints_clear(&c);
    return same;
}

static void check_equal(const neap_graph *graph, const char *method, const char *original,
                        int64_t budget, const char *what)
{
    neap_solution *ours = solve(graph, method, budget);
    neap_solution *theirs = solve_with(graph, original, budget, "cuts", "single");
    const neap_figures *a = neap_solution_figures(ours), *b = neap_solution_figures(theirs);
    if (a->outcome != b->outcome || a->peak_bytes != b->peak_bytes || a->time != b->time ||
        a->least_budget != b->least_budget || a->recomputed_ops != b->recomputed_ops)
        fail_msg("%s: %s within %" PRId64 " has peak %" PRId64 ", time %g, least budget %" PRId64
                 "; %s has %" PRId64 ", %g, %" PRId64,
                 what, method, budget, a->peak_bytes, a->time, a->least_budget, original,
                 b->peak_bytes, b->time, b->least_budget);
    neap_solution_destroy(ours);
    neap_solution_destroy(theirs);
}

/* The methods of one rule against those of the chain. */
static void check_rule(const neap_graph *graph, const char *sqrt_method, const char *greedy_method,
                       const char *what)
{
    int64_t peak = natural_peak(graph);
    const int64_t budgets[] = {-1, peak - peak / 10, peak / 2 + 1, 1};
    for (size_t i = 0; i < COUNT_OF(budgets); i++) {
        check_equal(graph, sqrt_method, "sqrt", budgets[i], what);
        check_equal(graph, greedy_method, "greedy", budgets[i], what);
    }
}

/* The same ops are computed again, though not at the same moment. */
static void check_time(const neap_graph *graph, const char *sqrt_method, const char *what)
{
    neap_solution *ours = solve(graph, sqrt_method, -1), *theirs = solve(graph, "sqrt", -1);
    const neap_figures *a = neap_solution_figures(ours), *b = neap_solution_figures(theirs);
    if (a->time != b->time || a->recomputed_ops != b->recomputed_ops)
        fail_msg("%s: %s takes %g, sqrt %g", what, sqrt_method, a->time, b->time);
    neap_solution_destroy(ours);
    neap_solution_destroy(theirs);
}

typedef struct rule_case {
    candidate_rule rule;
    const char *sqrt_method, *greedy_method;
} rule_case;

static const rule_case rules[] = {{ARTICULATION_POINTS, "ap-sqrt", "ap-greedy"},
                                  {EVERY_OP, "linear-sqrt", "linear-greedy"}};

static void test_random_chains(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240705)};
    uint64_t count = setting("NEAP_TEST_COUNT", 400 / SHARE), checked = 0;
    print_message("seed %" PRIu64 ", %" PRIu64 " chains\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        chain_recipe recipe = random_chain_recipe(&random, 40, i % 2);
        neap_graph *graph = random_chain(&random, &recipe);
        for (size_t k = 0; k < COUNT_OF(rules); k++) {
            if (!is_chain(graph, rules[k].rule))
                continue;
            checked++;
            if (recipe.two_ops || recipe.saves)
                check_time(graph, rules[k].sqrt_method, chain_recipe_text(&recipe));
            else
                check_rule(graph, rules[k].sqrt_method, rules[k].greedy_method,
                           chain_recipe_text(&recipe));
        }
        neap_graph_destroy(graph);
    }
    print_message("%" PRIu64 " of %" PRIu64 " compared\n", checked, 2 * count);
    assert_true(checked > count / 4);
}

typedef struct model_case {
    const char *name;
    neap_model_setting settings[2];
    bool is_chain[2]; /* by either rule */
} model_case;

static void test_chain_models(void **state)
{
    (void)state;
    static const model_case models[] = {
        {"chain", {{"layers", 30}, {"reads_input", 1}}, {false, false}},
        {"chain", {{"layers", 57}, {"reads_input", 0}}, {true, true}},
        {"hong-vgg19", {{"batch", 2}, {"batch", 2}}, {true, true}},
        {"hong-alexnet", {{"batch", 2}, {"batch", 2}}, {true, true}},
        {"vgg16", {{"batch", 8}, {"batch", 8}}, {true, true}},
        {"mobilenet_v1", {{"batch", 4}, {"batch", 4}}, {true, true}},
        {"resnet50", {{"batch", 2}, {"batch", 2}}, {true, false}},
        {"mobilenet_v2", {{"batch", 2}, {"batch", 2}}, {true, false}},
        {"unet", {{"batch", 1}, {"batch", 1}}, {true, false}},
    };
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        const model_case *m = &models[i];
        neap_graph *graph = build(m->name, 2, m->settings);
        for (size_t k = 0; k < COUNT_OF(rules); k++) {
            assert_int_equal(is_chain(graph, rules[k].rule), m->is_chain[k]);
            if (m->is_chain[k])
                check_rule(graph, rules[k].sqrt_method, rules[k].greedy_method, m->name);
        }
        neap_graph_destroy(graph);
    }
}

/* ---- What holds on any graph ---- */

static const char *const methods[] = {"ap-sqrt", "ap-greedy", "linear-sqrt", "linear-greedy"};

static uint32_t forward_count(const neap_graph *graph)
{
    uint32_t n = 0;
    while (n < neap_graph_op_count(graph) && neap_graph_op(graph, n)->pass == NEAP_FORWARD)
        n++;
    return n;
}

/* The forward pass runs through, then each backward op once, forward ops once more at most. */
static void check_shape(const neap_graph *graph, const neap_plan *plan, const char *method)
{
    uint32_t n_ops = neap_graph_op_count(graph), n_forward = forward_count(graph), n = 0;
    uint32_t *runs = calloc(n_ops + (size_t)1, sizeof *runs), next = 0;
    assert_non_null(runs);
    for (size_t s = 0; s < neap_plan_step_count(plan); s++) {
        const neap_step *step = &neap_plan_steps(plan)[s];
        if (step->kind != NEAP_COMPUTE)
            continue;
        if (n < n_forward)
            assert_int_equal(step->id, n);
        else if (step->id >= n_forward)
            assert_int_equal(step->id, n_forward + next++);
        n++;
        if (++runs[step->id] > 2)
            fail_msg("%s runs op %" PRIu32 " three times", method, step->id);
    }
    free(runs);
}

static void test_at_most_twice(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240706)};
    uint64_t count = setting("NEAP_TEST_COUNT", 500 / SHARE), recomputed = 0;
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph =
            i % 3 ? random_training_graph(&random, 40, false) : random_graph(&random, 40);
        for (size_t m = 0; m < COUNT_OF(methods); m++) {
            neap_solution *solution = solve(graph, methods[m], -1);
            check_shape(graph, neap_solution_plan(solution), methods[m]);
            recomputed += neap_solution_figures(solution)->recomputed_ops;
            neap_solution_destroy(solution);
        }
        neap_graph_destroy(graph);
    }
    assert_true(recomputed > count);
}

/* With every candidate a checkpoint nothing that the forward pass reads on is computed again, and
 * with none nothing at all. */
static void test_extreme_lengths(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240707)};
    for (int i = 0; i < 100; i++) {
        chain_recipe recipe = random_chain_recipe(&random, 20, i % 2);
        recipe.saves = false;
        neap_graph *graph = random_chain(&random, &recipe);
        static const char *const lengths[] = {"1", "1000"};
        for (size_t m = 0; m < COUNT_OF(methods); m += 2)
            for (int k = m == 0; k < 2; k++) { /* what is inside a stage is no articulation point */
                neap_solution *solution = solve_with(graph, methods[m], -1, "length", lengths[k]);
                assert_int_equal(neap_solution_figures(solution)->recomputed_ops, 0);
                assert_int_equal(neap_solution_figures(solution)->peak_bytes, natural_peak(graph));
                neap_solution_destroy(solution);
            }
        neap_graph_destroy(graph);
    }
}

/* A view of a checkpoint stays with it, and so does the value it is a view of: with all candidates
 * kept nothing is left to compute, whichever of the two is read later. */
static void test_views_stay(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(
        "{'neap':'graph','version':1,'values':[{'bytes':9},{'bytes':9},{'bytes':0,'view_of':1},"
        "{'bytes':9},{'bytes':9},{'bytes':1},{'bytes':9},{'bytes':9},{'bytes':9},{'bytes':9}],"
        "'ops':[{'inputs':[0],'outputs':[1],'time':1},{'inputs':[1],'outputs':[2],'time':1},"
        "{'inputs':[2],'outputs':[3],'time':1},{'inputs':[3],'outputs':[4],'time':1},"
        "{'inputs':[4],'outputs':[5],'time':1},"
        "{'pass':'backward','inputs':[5,4],'outputs':[6],'time':1},"
        "{'pass':'backward','inputs':[6,3],'outputs':[7],'time':1},"
        "{'pass':'backward','inputs':[7,2],'outputs':[8],'time':1},"
        "{'pass':'backward','inputs':[8,1],'outputs':[9],'time':1}],'outputs':[9]}");
    for (size_t m = 0; m < COUNT_OF(methods); m += 2) {
        neap_solution *solution = solve_with(graph, methods[m], -1, "length", "1");
        assert_true(extra_of(solution, "candidates")->number == 3);
        assert_int_equal(neap_solution_figures(solution)->recomputed_ops, 0);
        neap_solution_destroy(solution);
    }
    neap_graph_destroy(graph);
}

static int64_t least_budget(const neap_graph *graph, const char *method)
{
    neap_solution *solution = solve(graph, method, neap_graph_floor_bytes(graph, NULL));
    int64_t least = neap_solution_figures(solution)->least_budget;
    neap_solution_destroy(solution);
    return least;
}

/* "Some networks have few articulation points, including U-Net" (section 6.1): there linearizing
 * helps. */
static void test_long_skips(void **state)
{
    (void)state;
    neap_graph *graph = build("unet", 1, &(neap_model_setting){"batch", 1});
    assert_true(least_budget(graph, "linear-greedy") < least_budget(graph, "ap-greedy"));
    assert_true(least_budget(graph, "linear-sqrt") < least_budget(graph, "ap-sqrt"));
    assert_true(least_budget(graph, "ap-sqrt") < natural_peak(graph));
    neap_graph_destroy(graph);
}

/* ---- What they tell ---- */

/* Nine layers: the ops 2, 5 and 8 make candidates 3, 6 and 9. */
static void test_reports(void **state)
{
    (void)state;
    static const int64_t expected[] = {2, 5, 8};
    neap_graph *graph = build("chain", 1, &(neap_model_setting){"layers", 9});
    for (size_t m = 0; m < COUNT_OF(methods); m++) {
        neap_solution *solution = solve(graph, methods[m], -1);
        assert_true(extra_of(solution, "candidates")->number == 9);
        const neap_extra *list = extra_of(solution, "checkpoints");
        assert_true(list->is_list);
        if (m % 2) {
            assert_true(extra_of(solution, "objective")->number > 0);
        } else {
            assert_int_equal(list->n_items, COUNT_OF(expected));
            assert_memory_equal(list->items, expected, sizeof expected);
        }
        neap_solution_destroy(solution);
    }
    neap_graph_destroy(graph);
}

/* ---- Stopping ---- */

typedef struct stopper {
    neap_progress base;
    int patience; /* questions answered with no */
    int reports;
} stopper;

static bool is_cancelled(neap_progress *self)
{
    stopper *s = (stopper *)self;
    return s->patience-- <= 0;
}

static void count_report(neap_progress *self, const neap_progress_event *event)
{
    stopper *s = (stopper *)self;
    assert_true(event->fraction <= 1);
    s->reports += event->fraction >= 0; /* a phase that cannot tell says a negative number */
}

/* Stopped early, a sweep does not claim that nothing fits; on the chain `greedy` is one too. */
static void test_stopped(void **state)
{
    (void)state;
    static const char *const sweeps[] = {"greedy", "ap-greedy", "linear-greedy"};
    random_source random = {setting("NEAP_TEST_SEED", 20240708)};
    chain_recipe recipe = {.layers = 60,
                           .sizes = NUMBERS_SMALL,
                           .times = NUMBERS_SMALL,
                           .reads_input = true,
                           .scale = 1};
    neap_graph *graph = random_chain(&random, &recipe);
    int64_t peak = natural_peak(graph);
    for (size_t m = 0; m < COUNT_OF(sweeps); m++)
        for (int64_t budget = least_budget(graph, sweeps[m]); budget <= peak; budget += 9) {
            int reports = 0;
            for (int patience = 0; patience < 80; patience += 7) {
                stopper s = {{count_report, is_cancelled}, patience, 0};
                neap_request request;
                neap_solution *solution;
                neap_request_init(&request, graph, sweeps[m]);
                request.budget = budget;
                request.progress = &s.base;
                assert_int_equal(neap_solve(NULL, &request, &solution, NULL), NEAP_OK);
                const neap_figures *f = neap_solution_figures(solution);
                assert_true(f->outcome != NEAP_INFEASIBLE);
                if (patience == 0)
                    assert_int_equal(f->outcome, NEAP_INTERRUPTED);
                assert_true(neap_solution_plan(solution) || f->outcome == NEAP_INTERRUPTED);
                reports += s.reports;
                neap_solution_destroy(solution);
            }
            assert_true(reports > 0);
        }
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_chains), cmocka_unit_test(test_chain_models),
        cmocka_unit_test(test_at_most_twice), cmocka_unit_test(test_extreme_lengths),
        cmocka_unit_test(test_views_stay),    cmocka_unit_test(test_long_skips),
        cmocka_unit_test(test_reports),       cmocka_unit_test(test_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
