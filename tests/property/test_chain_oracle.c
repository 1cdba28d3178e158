/*
 * The budgeted chain methods against exhaustive search: on small random chains every tree of the
 * recursion in planners/chain/schedule.h (save, checkpoint k, one stage) is lowered by code of its
 * own, judged, and kept if no other is as small and as fast. pareto, precise with buckets of a byte
 * and rotor with slots of a byte have to find exactly those, at every budget where the answer
 * changes.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=5000 test_chain_oracle     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planners/chain/stage_costs.h"
#include "random_chain.h"
#include "settings.h"

#include <neap/check.h>
#include <neap/solve.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Under a sanitizer there are fewer chains, and shorter ones. */
#define SLOW ONE_IN_OR(2, 12)

enum { MOST_CHOICES = 64 };

static const char *const budgeted[] = {"pareto", "precise", "rotor", "gruslys", "revolve"};
enum { N_BUDGETED = sizeof budgeted / sizeof *budgeted };

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- Fronts ---- */

typedef struct pair {
    int64_t peak, ticks;
} pair;

/* Pairs none of which is both smaller and faster than another, by rising peak. */
typedef struct front {
    pair *pairs;
    size_t count, capacity;
} front;

static void front_add(front *f, int64_t peak, int64_t ticks)
{
    size_t at = 0, end;
    while (at < f->count && f->pairs[at].peak < peak)
        at++;
    if ((at > 0 && f->pairs[at - 1].ticks <= ticks) ||
        (at < f->count && f->pairs[at].peak == peak && f->pairs[at].ticks <= ticks))
        return;
    for (end = at; end < f->count && f->pairs[end].ticks >= ticks; end++)
        continue;
    if (f->count == f->capacity) {
        f->capacity = f->capacity ? 2 * f->capacity : 16;
        f->pairs = realloc(f->pairs, f->capacity * sizeof *f->pairs);
        assert_non_null(f->pairs);
    }
    memmove(&f->pairs[at + 1], &f->pairs[end], (f->count - end) * sizeof *f->pairs);
    f->count += at + 1 - end;
    f->pairs[at] = (pair){peak, ticks};
}

/* The least ticks within a budget; -1 if nothing fits. */
static int64_t front_within(const front *f, int64_t budget)
{
    int64_t ticks = -1;
    for (size_t i = 0; i < f->count && f->pairs[i].peak <= budget; i++)
        ticks = f->pairs[i].ticks;
    return ticks;
}

/* ---- Every tree of choices ---- */

/* The choices of one tree in the order they are asked for, and how many there were to choose from.
 */
typedef struct walk {
    uint32_t choice[MOST_CHOICES], options[MOST_CHOICES];
    uint32_t count, at;
} walk;

static uint32_t ask(walk *w, uint32_t options)
{
    if (w->at == w->count) {
        assert_true(w->count < MOST_CHOICES);
        w->choice[w->count] = 0;
        w->options[w->count++] = options;
    }
    return w->choice[w->at++];
}

static bool next_tree(walk *w)
{
    w->at = 0;
    while (w->count > 0 && ++w->choice[w->count - 1] == w->options[w->count - 1])
        w->count--;
    return w->count > 0;
}

typedef struct oracle {
    const neap_graph *graph;
    const char *what; /* the recipe, for messages */
    bool fine;        /* the view */
    neap_chain chain;
    stage_costs costs; /* the model of stage_costs.h, to compare with */
    bool *again;       /* per forward op, found here */
    bool *rerun;       /* likewise: what a stage runs when it is not the first time */
    bool *ran;         /* per stage */
    bool variants;     /* of some ops there are several */
    bool exact;        /* every layer is one op each way, or the model says that it is exact */
    walk w;
    uint32_t *sequence;
    size_t length, capacity;
    front judged, modelled;
    uint64_t n_trees;
} oracle;

static void emit(oracle *o, uint32_t first, uint32_t end, const bool *mask)
{
    for (uint32_t op = first; op < end; op++) {
        if (mask && !mask[op])
            continue;
        if (o->length == o->capacity) {
            o->capacity = o->capacity ? 2 * o->capacity : 256;
            o->sequence = realloc(o->sequence, o->capacity * sizeof *o->sequence);
            assert_non_null(o->sequence);
        }
        o->sequence[o->length++] = op;
    }
}

/* All forward ops of a stage the first time, later those that it needs. */
static void emit_forward(oracle *o, uint32_t stage)
{
    const neap_stage *s = &o->chain.stages[stage];
    emit(o, s->first_op, s->end_op, o->ran[stage] ? o->rerun : NULL);
    o->ran[stage] = true;
}

static int64_t results_between(const oracle *o, uint32_t i, uint32_t j)
{
    return o->costs.results_from[i] - o->costs.results_from[j + 1];
}

/* Lowers i .. j by the walk's choices. Returns the memory that schedule.h says it needs. */
static int64_t lower(oracle *o, uint32_t i, uint32_t j, int mode)
{
    const neap_stage *stage = o->chain.stages;
    const stage_cost *cost = o->costs.stage;
    int64_t need, gradient = cost[j].gradient;
    if (i == j) {
        emit(o, stage[i].first_op, stage[i].end_op, o->again);
        emit(o, stage[i].first_backward, stage[i].end_backward, NULL);
        return most(gradient + cost[i].again_peak[mode], cost[i].backward_peak[mode]);
    }
    uint32_t choice = ask(&o->w, j - i + 1);
    if (choice == 0) {
        int right = cost[i].output_saved ? HELD : OWNED;
        emit_forward(o, i);
        need =
            cost[i].kept[mode] - (right == OWNED ? cost[i].output : 0) + lower(o, i + 1, j, right);
        emit(o, stage[i].first_backward, stage[i].end_backward, NULL);
        need = most(need,
                    gradient + stage_costs_carried(&o->costs, i + 1, j) + cost[i].save_peak[mode]);
        return most(need, results_between(o, i + 1, j) + cost[i].backward_peak[mode]);
    }
    uint32_t k = i + choice;
    int64_t hold = mode == OWNED ? cost[i].input : 0;
    gradient += stage_costs_carried(&o->costs, i, j);
    need = gradient + cost[i].forward_peak[mode];
    for (uint32_t l = i; l < k; l++) {
        emit_forward(o, l);
        if (l > i)
            need = most(need, gradient + hold + cost[l].drop_peak);
    }
    need = most(need, hold + stage_costs_carried(&o->costs, i, k - 1) + lower(o, k, j, OWNED));
    return most(need, results_between(o, k, j) + lower(o, i, k - 1, mode));
}

/* Whether a value is carried and still there when a stage runs again, because that stage or one
 * before it needs it. */
static bool at_hand(const oracle *o, uint32_t stage, uint32_t value)
{
    uint32_t storage = neap_graph_value(o->graph, value)->storage;
    return o->chain.is_carried[value] && o->chain.needed_by[storage] <= stage;
}

/* Wants what an op of the stage reads of what the stage makes. */
static void want_inputs(const oracle *o, uint32_t s, const neap_op *reader, bool *wanted)
{
    const neap_stage *stage = &o->chain.stages[s];
    for (uint32_t k = 0; k < reader->n_inputs; k++) {
        uint32_t maker = neap_graph_value(o->graph, reader->inputs[k])->producer;
        if (maker != NEAP_NONE && maker >= stage->first_op && maker < stage->end_op &&
            !at_hand(o, s, reader->inputs[k]))
            wanted[reader->inputs[k]] = true;
    }
}

/* Which forward ops of a stage its backward ops need again, and its cut if so asked: those that
 * make, however indirectly, what they read. */
static void find_needed(const oracle *o, uint32_t s, bool for_cut, bool *needed)
{
    const neap_graph *g = o->graph;
    const neap_stage *stage = &o->chain.stages[s];
    bool *wanted = test_calloc(neap_graph_value_count(g) + 1, sizeof *wanted);
    for (uint32_t k = 0; for_cut && k < stage->n_cuts; k++)
        wanted[stage->cuts[k]] = true;
    for (uint32_t op = stage->first_backward; op < stage->end_backward; op++)
        want_inputs(o, s, neap_graph_op(g, op), wanted);
    for (uint32_t op = stage->end_op; op-- > stage->first_op;) {
        const neap_op *maker = neap_graph_op(g, op);
        needed[op] = s + 1 == o->chain.n_stages;
        for (uint32_t k = 0; k < maker->n_outputs; k++)
            needed[op] = needed[op] || wanted[maker->outputs[k]];
        if (needed[op])
            want_inputs(o, s, maker, wanted);
    }
    test_free(wanted);
}

static void find_again(oracle *o)
{
    for (uint32_t s = 0; s < o->chain.n_stages; s++) {
        const neap_stage *stage = &o->chain.stages[s];
        find_needed(o, s, false, o->again);
        if (o->chain.carried_bytes > 0)
            find_needed(o, s, true, o->rerun);
        for (uint32_t op = stage->first_op; op < stage->end_op; op++)
            o->rerun[op] = o->rerun[op] || o->chain.carried_bytes == 0;
    }
}

/* A plan of the tree with these variants (NULL: the first ones), judged. */
static neap_verdict judge_with(const oracle *o, const uint32_t *variants)
{
    neap_plan *plan;
    neap_verdict verdict;
    neap_check_options options;
    neap_check_options_init(&options);
    options.budget = INT64_MAX;
    assert_int_equal(neap_plan_from_sequence(NULL, o->graph, o->sequence, o->length, variants,
                                             "oracle", -1, &plan, NULL),
                     NEAP_OK);
    assert_int_equal(neap_check(NULL, o->graph, plan, &options, &verdict, NULL), NEAP_OK);
    if (!verdict.accepted)
        fail_msg("a tree of the recursion is no plan: %s", verdict.reason);
    neap_plan_destroy(plan);
    return verdict;
}

/* Every choice of one variant for each op. */
static void judge_variants(oracle *o)
{
    uint32_t n_ops = neap_graph_op_count(o->graph), at = 0;
    uint32_t *variants = test_calloc(n_ops, sizeof *variants);
    while (at < n_ops) {
        neap_verdict verdict = judge_with(o, variants);
        front_add(&o->judged, verdict.peak_bytes, verdict.ticks);
        for (at = 0; at < n_ops; at++) { /* the next choice, as a number of mixed digits */
            if (++variants[at] < neap_graph_op(o->graph, at)->n_variants)
                break;
            variants[at] = 0;
        }
    }
    test_free(variants);
}

static void judge_tree(oracle *o, int64_t need)
{
    o->n_trees++;
    if (o->variants) { /* the model knows no single variant */
        judge_variants(o);
        return;
    }
    neap_verdict verdict = judge_with(o, NULL);
    need += o->costs.pinned_bytes;
    if (verdict.peak_bytes > need)
        fail_msg("%s: a tree needs %" PRId64 " bytes by the model, %" PRId64 " by the judge",
                 o->what, need, verdict.peak_bytes);
    front_add(&o->judged, verdict.peak_bytes, verdict.ticks);
    front_add(&o->modelled, need, verdict.ticks);
}

/*
 * Where a stage is one op each way, what the model promises is what can be had: not tree by tree (a
 * checkpoint that nobody reads in the end counts in the model, but not in the plan), but no tree
 * that is worth anything needs less.
 */
static void compare_fronts(const oracle *o)
{
    for (size_t i = 0; i < o->judged.count; i++) {
        pair p = o->judged.pairs[i];
        if (front_within(&o->modelled, p.peak) != p.ticks)
            fail_msg("%s: %" PRId64 " ticks take %" PRId64 " bytes, but not by the model", o->what,
                     p.ticks, p.peak);
    }
}

static void search_all(oracle *o, const neap_graph *graph, const chain_recipe *recipe, bool fine)
{
    const chain_view view = {.fine = fine};
    neap_allocator *allocator = neap_allocator_system();
    planner p = {.allocator = allocator, .graph = graph, .budget = INT64_MAX};
    *o = (oracle){.graph = graph,
                  .what = chain_recipe_text(recipe),
                  .fine = fine,
                  .variants = recipe->variants};
    assert_int_equal(neap_chain_view_build(&p, view, &o->chain, NULL), NEAP_OK);
    assert_int_equal(neap_stage_costs_build(&p, view, NULL, &o->costs, NULL), NEAP_OK);
    o->exact = fine ? o->costs.exact : !recipe->two_ops;
    o->again = test_calloc(o->chain.n_forward, sizeof *o->again);
    o->rerun = test_calloc(o->chain.n_forward, sizeof *o->rerun);
    o->ran = test_calloc(o->chain.n_stages, sizeof *o->ran);
    find_again(o);
    do {
        o->length = 0;
        memset(o->ran, 0, o->chain.n_stages * sizeof *o->ran);
        judge_tree(o, lower(o, 0, o->chain.n_stages - 1, HELD));
    } while (next_tree(&o->w));
    if (o->exact && !o->variants)
        compare_fronts(o);
}

static void clear(oracle *o)
{
    neap_stage_costs_clear(&o->costs);
    neap_chain_clear(&o->chain);
    test_free(o->again);
    test_free(o->rerun);
    test_free(o->ran);
    free(o->sequence);
    free(o->judged.pairs);
    free(o->modelled.pairs);
}

/* ---- The methods ---- */

typedef struct answer {
    bool found;
    neap_outcome outcome;
    int64_t peak, ticks; /* by the judge */
    int64_t least;
} answer;

static const char *const cuts_of[] = {"single", "several", "best"};
enum { SINGLE, SEVERAL, BEST };

static answer solve(const neap_graph *graph, const char *method, int cuts, const char *option,
                    double value, int64_t budget)
{
    char text[32];
    snprintf(text, sizeof text, "%.17g", value);
    neap_option_setting settings[] = {{"cuts", cuts_of[cuts]}, {option, text}};
    neap_request request;
    neap_solution *solution;
    neap_diag diag;
    neap_request_init(&request, graph, method);
    request.budget = budget;
    request.n_options = option ? 2 : 1;
    request.options = settings;
    if (neap_solve(NULL, &request, &solution, &diag) != NEAP_OK)
        fail_msg("%s, budget %" PRId64 ": %s", method, budget, diag.message);
    const neap_figures *figures = neap_solution_figures(solution);
    const neap_plan *plan = neap_solution_plan(solution);
    answer a = {.found = plan != NULL, .outcome = figures->outcome, .least = figures->least_budget};
    if (plan) {
        neap_verdict verdict;
        assert_int_equal(neap_check(NULL, graph, plan, NULL, &verdict, NULL), NEAP_OK);
        if (!verdict.accepted)
            fail_msg("%s, budget %" PRId64 ": %s", method, budget, verdict.reason);
        a.peak = verdict.peak_bytes;
        a.ticks = verdict.ticks;
        assert_true(budget < 0 || a.peak <= budget);
    } else {
        assert_int_equal(a.outcome, NEAP_INFEASIBLE);
        assert_true(budget < figures->floor_bytes ? a.least < 0 : a.least > budget);
    }
    neap_solution_destroy(solution);
    return a;
}

/* A method with everything in units of a byte. */
static answer solve_exactly(const oracle *o, const char *method, int64_t budget)
{
    int cuts = o->fine ? SEVERAL : SINGLE;
    if (strcmp(method, "precise") == 0)
        return solve(o->graph, method, cuts, "bucket", 1, budget);
    if (strcmp(method, "rotor") == 0)
        return solve(o->graph, method, cuts, "slots", (double)budget, budget);
    return solve(o->graph, method, cuts, NULL, 0, budget);
}

static void check_budget(const oracle *o, const char *method, int64_t budget)
{
    if (budget < 1)
        return;
    answer a = solve_exactly(o, method, budget);
    int64_t best = front_within(&o->judged, budget), promised = front_within(&o->modelled, budget);
    int64_t ticks = a.found ? a.ticks : -1;
    if (o->exact ? ticks != best : (best >= 0 && a.found && ticks < best))
        fail_msg("%s: %s, budget %" PRId64 ": %" PRId64 " ticks, but the best tree takes %" PRId64,
                 o->what, method, budget, ticks, best);
    if (promised >= 0 && (!a.found || ticks > promised))
        fail_msg("%s: %s, budget %" PRId64 ": %" PRId64 " ticks, but the model promises %" PRId64,
                 o->what, method, budget, ticks, promised);
    if (a.found || a.least < 0)
        return;
    if (o->exact)
        assert_int_equal(a.least, o->judged.pairs[0].peak);
    answer at_least = solve_exactly(o, method, a.least);
    if (!at_least.found)
        fail_msg("%s: %s says that %" PRId64 " bytes would do, but they do not", o->what, method,
                 a.least);
}

static void check_eps(const oracle *o, int64_t budget)
{
    static const double allowed[] = {0.05, 0.2};
    int64_t best = front_within(&o->judged, budget);
    for (int e = 0; e < 2 && budget > 0; e++) {
        answer a = solve(o->graph, "pareto", o->fine ? SEVERAL : SINGLE, "eps", allowed[e], budget);
        assert_int_equal(a.found, best >= 0);
        if (a.found && (double)a.ticks > (1 + allowed[e]) * (double)best)
            fail_msg("%s: pareto with eps %g, budget %" PRId64 ": %" PRId64 " ticks, best %" PRId64,
                     o->what, allowed[e], budget, a.ticks, best);
    }
}

typedef struct tally {
    uint64_t chains, exact, trees, budgets;
    uint64_t wide, carrying; /* with a cut of several storages; with carried storages */
} tally;

static void check_chain(random_source *random, const chain_recipe *recipe, bool fine, tally *sum)
{
    oracle o;
    neap_graph *graph = random_chain(random, recipe);
    search_all(&o, graph, recipe, fine);
    int64_t largest = o.judged.pairs[o.judged.count - 1].peak;
    for (size_t i = 0; i < o.judged.count; i++)
        for (int less = 0; less < 2; less++) {
            int64_t budget = o.judged.pairs[i].peak - less;
            check_budget(&o, "pareto", budget);
            if (largest <= 4000) {
                check_budget(&o, "precise", budget);
                check_budget(&o, "rotor", budget);
            }
            if (o.exact && !o.variants)
                check_eps(&o, budget);
            sum->budgets++;
        }
    sum->chains++;
    sum->exact += o.exact;
    bool wide = false;
    for (uint32_t i = 0; i < o.chain.n_stages; i++)
        wide = wide || o.chain.stages[i].n_cuts > 1;
    sum->wide += wide;
    sum->carrying += o.chain.carried_bytes > 0;
    sum->trees += o.n_trees;
    clear(&o);
    neap_graph_destroy(graph);
}

static void report(const tally *sum)
{
    print_message("%" PRIu64 " chains, %" PRIu64 " of them one op a layer; %" PRIu64
                  " trees, %" PRIu64 " budgets\n",
                  sum->chains, sum->exact, sum->trees, sum->budgets);
}

static void test_methods_equal_exhaustive_search(void **state)
{
    (void)state;
    uint64_t seed = setting("NEAP_TEST_SEED", 1);
    uint64_t count = setting("NEAP_TEST_COUNT", 1000 / SLOW);
    random_source random = {seed};
    tally sum = {0};
    print_message("seed %" PRIu64 ", %" PRIu64 " chains\n", seed, count);
    for (uint64_t c = 0; c < count; c++) {
        bool two_ops = c % 10 < 3; /* up to two stages a layer */
        uint32_t longest = two_ops ? 4 : c % 40 == 5 ? 8 : c % 8 == 5 ? 6 : 5;
        chain_recipe recipe = random_chain_recipe(&random, longest, two_ops);
        check_chain(&random, &recipe, false, &sum);
    }
    report(&sum);
    assert_true(sum.exact > count / 3);
}

/* Chains that pass on two values, with skips or without, in the fine view. Where a cut is saved as
 * a whole or not at all and nothing is carried, the methods are exact; else what they promise
 * holds. */
static void test_cuts_of_several_storages(void **state)
{
    (void)state;
    uint64_t seed = setting("NEAP_TEST_SEED", 1);
    uint64_t count = setting("NEAP_TEST_COUNT", 400 / SLOW);
    random_source random = {seed + 4000};
    tally sum = {0};
    for (uint64_t c = 0; c < count; c++) {
        chain_recipe recipe = random_chain_recipe(&random, 1, c % 5 == 4);
        recipe.layers = 4 + random_below(&random, c % 5 == 4 ? 1 : c % 5 == 3 ? 4 : 2);
        recipe.sizes = c % 3 ? NUMBERS_TIES : NUMBERS_SMALL;
        recipe.wide = recipe.saves = true;
        recipe.skips = c % 2;
        check_chain(&random, &recipe, true, &sum);
    }
    report(&sum);
    print_message("%" PRIu64 " with a cut of several storages, %" PRIu64 " carry some\n", sum.wide,
                  sum.carrying);
    assert_true(sum.wide > count / 4 && sum.exact > count / 30 && sum.carrying > count / 16);
}

/* Schedules and variants together: the best of all trees with all choices of variants. */
static void test_variants(void **state)
{
    (void)state;
    uint64_t seed = setting("NEAP_TEST_SEED", 1);
    uint64_t count = setting("NEAP_TEST_COUNT", 160 / SLOW);
    random_source random = {seed + 5000};
    tally sum = {0};
    for (uint64_t c = 0; c < count; c++) {
        chain_recipe recipe = random_chain_recipe(&random, c % 4 ? 2 : 3, false);
        recipe.sizes = c % 2 ? NUMBERS_SMALL : NUMBERS_TIES;
        recipe.variants = true;
        check_chain(&random, &recipe, false, &sum);
    }
    report(&sum);
    assert_true(sum.exact == count);
}

/* Ten layers are a million trees. */
static void test_a_longer_chain(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 1) + 1000};
    tally sum = {0};
    chain_recipe recipe = random_chain_recipe(&random, 1, false);
    recipe.layers = SLOW > 2 ? 7 : 10;
    recipe.sizes = recipe.times = NUMBERS_SMALL;
    recipe.mixed_reads = true;
    check_chain(&random, &recipe, false, &sum);
    report(&sum);
}

/* ---- Thousands of chains: what a method predicts is what the judge finds, or neap_solve fails
 * ---- */

static void test_predictions_hold(void **state)
{
    (void)state;
    uint64_t seed = setting("NEAP_TEST_SEED", 1);
    uint64_t count = setting("NEAP_TEST_COUNT", 2000 / SLOW), found = 0, asked = 0;
    random_source random = {seed + 2000};
    for (uint64_t c = 0; c < count; c++) {
        chain_recipe recipe = random_chain_recipe(&random, c % 10 ? 10 : 40, c % 2);
        recipe.wide = c % 3 == 0;
        recipe.skips = c % 6 == 0;
        neap_graph *graph = random_chain(&random, &recipe);
        int64_t natural, floor_bytes = neap_graph_floor_bytes(graph, NULL);
        assert_int_equal(neap_natural_peak(NULL, graph, &natural, NULL), NEAP_OK);
        int64_t budget = floor_bytes + (natural - floor_bytes) * random_below(&random, 101) / 100;
        for (int m = 0; m < N_BUDGETED && budget > 0; m++, asked++)
            found += solve(graph, budgeted[m], BEST, NULL, 0, budget).found;
        for (int m = 0; m < N_BUDGETED; m++)
            assert_true(solve(graph, budgeted[m], BEST, NULL, 0, -1).found);
        neap_graph_destroy(graph);
    }
    print_message("%" PRIu64 " of %" PRIu64 " questions have a plan\n", found, asked);
    assert_true(found > asked / 4 && found < asked);
}

/* ---- The recursion against every schedule there is (tests/oracle/least.py): for information ----
 */

#define LEAST NEAP_SOURCE_DIR "/tests/oracle/least.py"

/* The least time of any plan within the budget, in ticks. */
static int64_t least_ticks(const neap_graph *graph, int64_t budget, const char *path)
{
    char command[1024], line[256] = "";
    snprintf(command, sizeof command, "python3 -B '%s' '%s' %" PRId64, LEAST, path, budget);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    if (!fgets(line, sizeof line, pipe) || pclose(pipe) != 0)
        fail_msg("failed: %s", command);
    const char *time = strstr(line, "\"least_time\": ");
    assert_non_null(time);
    double seconds = strtod(time + strlen("\"least_time\": "), NULL);
    double ticks = seconds * (double)neap_graph_ticks_per_second(graph);
    return (int64_t)(ticks + 0.5);
}

static void test_how_often_the_recursion_is_optimal(void **state)
{
    (void)state;
    need_python();
    random_source random = {setting("NEAP_TEST_SEED", 1) + 3000};
    const char *tmp = getenv("TMPDIR");
    char path[300];
    snprintf(path, sizeof path, "%s/neap-chain-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    int file = mkstemp(path), asked = 0, reached = 0;
    assert_true(file >= 0);
    double most_above = 0;
    for (int c = 0; c < 24 / SLOW; c++) {
        oracle o;
        chain_recipe recipe = random_chain_recipe(&random, 3, false);
        recipe.sizes = NUMBERS_SMALL;
        recipe.times = NUMBERS_SMALL;
        neap_graph *graph = random_chain(&random, &recipe);
        search_all(&o, graph, &recipe, false);
        assert_int_equal(neap_graph_write_file(graph, path, NULL), NEAP_OK);
        for (size_t i = 0; i < o.judged.count; i++, asked++) {
            pair p = o.judged.pairs[i];
            int64_t ticks = least_ticks(graph, p.peak, path);
            assert_true(p.ticks >= ticks);
            reached += p.ticks == ticks;
            double above = (double)p.ticks / (double)ticks - 1;
            most_above = above > most_above ? above : most_above;
        }
        clear(&o);
        neap_graph_destroy(graph);
    }
    remove(path);
    print_message("the recursion reaches the optimum over all schedules in %d of %d budgets; at "
                  "most %.0f%% above\n",
                  reached, asked, 100 * most_above);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_methods_equal_exhaustive_search),
        cmocka_unit_test(test_cuts_of_several_storages),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_a_longer_chain),
        cmocka_unit_test(test_predictions_hold),
        cmocka_unit_test(test_how_often_the_recursion_is_optimal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
