/*
 * revolve and gruslys, which see a chain as n equal steps: the number of forward steps in their
 * plans against closed forms and against every tree of choices; the number of states they choose
 * against all others.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=5000 test_equal_steps     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_chain.h"
#include "settings.h"

#include <neap/chain.h>
#include <neap/check.h>
#include <neap/solve.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW ONE_IN(8)

/* ---- A chain of equal layers ---- */

static uint32_t add_value(neap_graph_builder *builder, const char *kind, int64_t bytes)
{
    neap_value_desc desc;
    uint32_t id;
    neap_value_desc_init(&desc);
    desc.kind = kind;
    desc.bytes = bytes;
    assert_int_equal(neap_graph_builder_add_value(builder, &desc, &id, NULL), NEAP_OK);
    return id;
}

static void add_op(neap_graph_builder *builder, neap_pass pass, uint32_t n_inputs,
                   const uint32_t *inputs, uint32_t n_outputs, const uint32_t *outputs)
{
    const neap_variant second = {.seconds = 1};
    neap_op_desc desc;
    neap_op_desc_init(&desc);
    desc.pass = pass;
    desc.n_inputs = n_inputs;
    desc.inputs = inputs;
    desc.n_outputs = n_outputs;
    desc.outputs = outputs;
    desc.n_variants = 1;
    desc.variants = &second;
    assert_int_equal(neap_graph_builder_add_op(builder, &desc, NULL, NULL), NEAP_OK);
}

/*
 * `steps` stages of a second each, the last one the loss. What a stage passes on is one byte; its
 * backward op reads that, the stage's input and alpha - 1 bytes more that the forward op makes.
 */
static neap_graph *equal_chain(uint32_t steps, int64_t alpha)
{
    neap_graph_builder *builder;
    neap_graph *graph;
    uint32_t *passed = test_malloc((steps + 1) * sizeof *passed),
             *saved = test_malloc(steps * sizeof *saved);
    assert_int_equal(neap_graph_builder_create(NULL, "equal", &builder, NULL), NEAP_OK);
    passed[0] = add_value(builder, NEAP_KIND_INPUT, 1);
    for (uint32_t i = 0; i < steps; i++) {
        passed[i + 1] = add_value(builder, NEAP_KIND_ACTIVATION, 1);
        if (i + 1 < steps)
            saved[i] = add_value(builder, NEAP_KIND_ACTIVATION, alpha - 1);
        uint32_t outputs[2] = {passed[i + 1], saved[i]};
        add_op(builder, NEAP_FORWARD, 1, &passed[i], i + 1 < steps ? 2 : 1, outputs);
    }
    uint32_t gradient = add_value(builder, NEAP_KIND_GRADIENT, 1);
    add_op(builder, NEAP_BACKWARD, 1, &passed[steps], 1, &gradient);
    for (uint32_t i = steps - 1; i-- > 0;) {
        uint32_t inputs[4] = {gradient, passed[i], passed[i + 1], saved[i]};
        gradient = add_value(builder, NEAP_KIND_GRADIENT, 1);
        add_op(builder, NEAP_BACKWARD, 4, inputs, 1, &gradient);
    }
    assert_int_equal(neap_graph_builder_add_output(builder, gradient, NULL), NEAP_OK);
    assert_int_equal(neap_graph_builder_finish(builder, &graph, NULL), NEAP_OK);
    neap_graph_builder_destroy(builder);
    test_free(passed);
    test_free(saved);
    neap_chain chain;
    assert_int_equal(neap_chain_build(NULL, graph, &chain, NULL), NEAP_OK);
    assert_int_equal(chain.n_stages, steps);
    neap_chain_clear(&chain);
    return graph;
}

/* ---- Solving ---- */

typedef struct answer {
    bool found;
    int64_t peak, ticks, forward; /* forward: ops of the forward pass computed */
    double steps_forward;         /* what the method says */
} answer;

static int64_t count_forward(const neap_graph *graph, const neap_plan *plan)
{
    int64_t count = 0;
    for (size_t s = 0; s < neap_plan_step_count(plan); s++) {
        const neap_step *step = &neap_plan_steps(plan)[s];
        count += step->kind == NEAP_COMPUTE && neap_graph_op(graph, step->id)->pass == NEAP_FORWARD;
    }
    return count;
}

static answer solve(const neap_graph *graph, const char *method, uint32_t n_options,
                    const neap_option_setting *options, int64_t budget)
{
    neap_request request;
    neap_solution *solution;
    neap_diag diag;
    neap_request_init(&request, graph, method);
    request.budget = budget;
    request.n_options = n_options;
    request.options = options;
    if (neap_solve(NULL, &request, &solution, &diag) != NEAP_OK)
        fail_msg("%s: %s", method, diag.message);
    const neap_plan *plan = neap_solution_plan(solution);
    answer a = {.found = plan != NULL};
    for (uint32_t i = 0; i < neap_solution_extra_count(solution); i++)
        if (strcmp(neap_solution_extra_at(solution, i)->name, "steps_forward") == 0)
            a.steps_forward = neap_solution_extra_at(solution, i)->number;
    if (plan) {
        neap_verdict verdict;
        assert_int_equal(neap_check(NULL, graph, plan, NULL, &verdict, NULL), NEAP_OK);
        assert_true(verdict.accepted);
        a.peak = verdict.peak_bytes;
        a.ticks = verdict.ticks;
        a.forward = count_forward(graph, plan);
    }
    neap_solution_destroy(solution);
    return a;
}

static answer solve_revolve(const neap_graph *graph, int64_t states)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, states - 1);
    return solve(graph, "revolve", 1, &(neap_option_setting){"checkpoints", text}, -1);
}

static answer solve_gruslys(const neap_graph *graph, int64_t slots, const char *states)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, slots);
    neap_option_setting options[] = {{"slots", text}, {"states", states}};
    return solve(graph, "gruslys", 2, options, -1);
}

/* ---- Every tree of choices for t equal steps ---- */

enum { MOST_STEPS = 9, MOST_SLOTS = 40 };

typedef struct walk {
    uint32_t choice[MOST_STEPS], options[MOST_STEPS], count, at;
    int64_t alpha, forward;
} walk;

static uint32_t ask(walk *w, uint32_t options)
{
    if (w->at == w->count) {
        w->choice[w->count] = 0;
        w->options[w->count++] = options;
    }
    return w->choice[w->at++];
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/*
 * Runs t steps by the walk's choices: counts forward steps, returns slots, the state it begins with
 * included. What the step at hand works on takes no slot, so that one step behind a checkpoint
 * needs none.
 */
static int64_t run(walk *w, uint32_t t)
{
    if (t == 1) {
        w->forward++;
        return 1;
    }
    uint32_t y = ask(w, w->alpha ? t : t - 1) + (w->alpha ? 0 : 1);
    if (y == 0) { /* the first step kept whole */
        w->forward++;
        return w->alpha + run(w, t - 1);
    }
    w->forward += y;
    int64_t right = run(w, t - y), left = run(w, y);
    return most(t - y == 1 ? 1 : 1 + right, left);
}

static bool next_tree(walk *w)
{
    w->at = 0;
    w->forward = 0;
    while (w->count > 0 && ++w->choice[w->count - 1] == w->options[w->count - 1])
        w->count--;
    return w->count > 0;
}

/* least[m]: the fewest forward steps with m slots; alpha 0: checkpoints only. */
static void search_all(uint32_t t, int64_t alpha, int64_t *least)
{
    walk w = {.alpha = alpha};
    for (int m = 0; m <= MOST_SLOTS; m++)
        least[m] = INT64_MAX;
    do {
        int64_t slots = run(&w, t);
        for (int64_t m = slots; m <= MOST_SLOTS; m++)
            least[m] = w.forward < least[m] ? w.forward : least[m];
    } while (next_tree(&w));
}

static void test_gruslys_equals_exhaustive_search(void **state)
{
    (void)state;
    int64_t least[MOST_SLOTS + 1];
    for (int64_t alpha = 1; alpha <= 4; alpha++)
        for (uint32_t t = 2; t <= MOST_STEPS; t++) {
            neap_graph *graph = equal_chain(t, alpha);
            search_all(t, alpha, least);
            for (int64_t m = 1; m <= MOST_SLOTS; m++) {
                answer a = solve_gruslys(graph, m, "mixed");
                assert_int_equal(a.forward, least[m]);
                assert_int_equal((int64_t)a.steps_forward, least[m]);
            }
            search_all(t, 0, least);
            for (int64_t m = 1; m <= MOST_SLOTS; m++)
                assert_int_equal(solve_gruslys(graph, m, "hidden").forward, least[m]);
            neap_graph_destroy(graph);
        }
}

/* ---- Closed forms ---- */

/* beta(s, r) = C(s + r, s) by Pascal's rule, at most a million. */
static int64_t beta(int64_t s, int64_t r)
{
    if (s < 0 || r < 0)
        return 0;
    int64_t row[64] = {1};
    assert_true(s < 64);
    for (int64_t i = 1; i <= s; i++)
        row[i] = 1;
    for (int64_t k = 1; k <= r; k++)
        for (int64_t i = 1; i <= s; i++)
            row[i] = row[i] + row[i - 1] < 1000000 ? row[i] + row[i - 1] : 1000000;
    return row[s];
}

static int64_t binomial_steps(int64_t n, int64_t s)
{
    int64_t r = 0;
    while (beta(s, r) < n)
        r++;
    return r * n - beta(s + 1, r - 1);
}

static void test_revolve_equals_the_binomial_formula(void **state)
{
    (void)state;
    assert_int_equal(binomial_steps(10, 3), 10 * 2 - 4 - 1); /* beta(3, 2) = 10, beta(4, 1) = 5 */
    for (uint32_t n = 2; n <= 130 / SLOW + 10; n += n < 20 ? 1 : 7) {
        neap_graph *graph = equal_chain(n, 1);
        for (int64_t s = 2; s <= 20; s++) {
            int64_t kept = s < n ? s : n, steps = binomial_steps(n, kept);
            answer a = solve_revolve(graph, s);
            assert_int_equal(a.forward, steps + n);
            assert_int_equal((int64_t)a.steps_forward, steps);
            /* Where gruslys keeps checkpoints only, both count the same. */
            assert_int_equal(solve_gruslys(graph, s, "hidden").forward, steps + n);
            assert_true(solve_gruslys(graph, s, "mixed").forward <= steps + n);
        }
        neap_graph_destroy(graph);
    }
}

/*
 * Gruslys et al.'s abstract: for 1,000 steps 95% of the memory is saved for a third more time. A
 * backward step is counted as two forward ones, an internal state as five hidden ones.
 */
static void test_a_thousand_steps(void **state)
{
    (void)state;
    neap_graph *graph = equal_chain(1000, 5);
    answer a = solve_gruslys(graph, 250, "mixed");
    double ratio = ((double)a.forward + 2 * 1000) / (3 * 1000);
    print_message("1,000 steps in 5%% of the slots: %" PRId64 " forward steps, %.3f of the time\n",
                  a.forward, ratio);
    assert_true(ratio > 1.25 && ratio < 1.36);
    neap_graph_destroy(graph);
}

/* ---- The choice of the number of states ---- */

/* The fastest plan within the budget over all numbers of states that can be asked for. */
static int64_t best_of_all(const neap_graph *graph, bool revolve, int64_t numbers, int64_t budget)
{
    int64_t best = -1;
    for (int64_t states = revolve ? 2 : 1; states <= numbers; states++) {
        answer a = revolve ? solve_revolve(graph, states) : solve_gruslys(graph, states, "mixed");
        if (a.peak <= budget && (best < 0 || a.ticks < best))
            best = a.ticks;
    }
    return best;
}

static void test_the_best_number_of_states_is_chosen(void **state)
{
    (void)state;
    uint64_t seed = setting("NEAP_TEST_SEED", 1), count = setting("NEAP_TEST_COUNT", 160 / SLOW);
    random_source random = {seed};
    uint64_t found = 0;
    print_message("seed %" PRIu64 ", %" PRIu64 " chains\n", seed, count);
    for (uint64_t c = 0; c < count; c++) {
        chain_recipe recipe = random_chain_recipe(&random, 12, c % 2);
        neap_graph *graph = random_chain(&random, &recipe);
        int64_t natural, least = neap_graph_floor_bytes(graph, NULL);
        assert_int_equal(neap_natural_peak(NULL, graph, &natural, NULL), NEAP_OK);
        int64_t budget = least + (natural - least) * random_below(&random, 101) / 100;
        for (int revolve = 0; revolve < 2 && budget > 0; revolve++) {
            answer a = solve(graph, revolve ? "revolve" : "gruslys", 0, NULL, budget);
            int64_t best = best_of_all(graph, revolve, 60, budget);
            if (best >= 0 && (!a.found || a.ticks > best))
                fail_msg("%s: budget %" PRId64 ": %" PRId64
                         " ticks, but there is a plan of %" PRId64,
                         chain_recipe_text(&recipe), budget, a.found ? a.ticks : -1, best);
            found += a.found;
        }
        neap_graph_destroy(graph);
    }
    assert_true(found > count / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gruslys_equals_exhaustive_search),
        cmocka_unit_test(test_revolve_equals_the_binomial_formula),
        cmocka_unit_test(test_a_thousand_steps),
        cmocka_unit_test(test_the_best_number_of_states_is_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
