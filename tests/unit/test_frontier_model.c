/*
 * frontier_model: a compute sequence in frontiers is a solution of the program if and only if the
 * budget is at least its judged peak, and its objective is the judged time. Every bound that
 * multipliers prove is at most the time of the best plan in frontiers, found by exhaustive search.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=10000 test_frontier_model     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lp/highs_model.h"
#include "planners/checkmate/frontier_model.h"
#include "planners/checkmate/relaxation.h"
#include "random_frontiers.h"
#include "random_training.h"
#include "settings.h"
#include "small_graphs.h"

#include <neap/check.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE ONE_IN(5)

static void build(frontier_model *m, const neap_graph *graph, frontier_form form, int64_t budget,
                  int64_t cutoff)
{
    const frontier_options options = {form, budget, cutoff};
    assert_int_equal(neap_frontier_model_build(m, neap_allocator_system(), graph, &options, NULL),
                     NEAP_OK);
}

static double *new_numbers(size_t count)
{
    double *numbers = calloc(count + 1, sizeof *numbers);
    assert_non_null(numbers);
    return numbers;
}

static void add_all(frontier_model *m)
{
    bool complete;
    assert_int_equal(neap_frontier_model_add_all_memory(m, SIZE_MAX, &complete, NULL), NEAP_OK);
    assert_true(complete);
}

/* ---- Sequences are solutions ---- */

typedef struct sample {
    neap_graph *graph;
    uint32_t *sequence, *variants;
    size_t length;
    int64_t peak, ticks; /* by the judge */
} sample;

static void judge_sample(sample *s)
{
    neap_verdict verdict = judge_sequence(s->graph, s->sequence, s->length, s->variants);
    s->peak = verdict.peak_bytes;
    s->ticks = verdict.ticks;
}

/* Takes out the runs that a program within the sequence's own peak has ruled out; false if there
 * were none. Without them the sequence is still one, but its peak may be another. */
static bool thin_out(sample *s)
{
    frontier_model m;
    size_t kept = 0, before = s->length;
    build(&m, s->graph, FRONTIER_PARTITIONED, s->peak, INT64_MAX);
    for (size_t i = 0, frontier = 0; i < before; i++) {
        uint32_t op = s->sequence[i];
        if (m.run[frontier * m.n_ops + op] != FRONTIER_ZERO)
            s->sequence[kept++] = op;
        frontier += op == frontier;
    }
    s->length = kept;
    neap_frontier_model_clear(&m);
    judge_sample(s);
    return kept < before;
}

static sample draw_sample(random_source *random, bool training)
{
    sample s = {.graph =
                    training ? random_training_graph(random, 6, false) : random_graph(random, 12)};
    s.sequence = random_frontiers(random, s.graph, &s.length);
    s.variants = random_variants(random, s.graph);
    judge_sample(&s);
    return s;
}

static void sample_clear(sample *s)
{
    free(s->sequence);
    free(s->variants);
    neap_graph_destroy(s->graph);
}

/* Added up column by column: each is a whole number of ticks, the sum of doubles is not. */
static int64_t ticks_of(const frontier_model *m, const double *values)
{
    int64_t ticks = m->certain_ticks;
    double objective = 0;
    for (size_t j = 0; j < m->lp.n_columns; j++) {
        ticks += values[j] > 0 ? llround(m->lp.cost[j] / m->ticks_scale) : 0;
        objective += m->lp.cost[j] * values[j];
    }
    assert_true(fabs(neap_frontier_model_objective(m, ticks) - objective) <=
                1e-14 * (1000 + objective));
    return ticks;
}

/* From the sequence to values and back. */
static void check_same(const frontier_model *m, const sample *s, const double *values)
{
    assert_int_equal(neap_frontier_model_length(m, values), s->length);
    uint32_t *again = malloc((s->length + 1) * sizeof *again);
    assert_non_null(again);
    neap_frontier_model_sequence(m, values, again);
    assert_memory_equal(again, s->sequence, s->length * sizeof *again);
    free(again);
    assert_true(ticks_of(m, values) == s->ticks);
}

/* The three ways to memory rows agree: the sequence fits, or it does not. */
static void check_memory(frontier_model *m, const double *values, bool fits)
{
    size_t added, n_rows = m->lp.n_rows;
    bool covered;
    assert_int_equal(neap_frontier_model_add_cover(m, values, &covered, NULL), NEAP_OK);
    assert_true(covered == !fits);
    assert_true(neap_frontier_model_satisfied(m, values, 1e-9) == fits);
    if (covered) /* as before, for the next way */
        m->lp.n_entries = (size_t)m->lp.row_start[n_rows];
    m->lp.n_rows = n_rows;
    assert_true(neap_frontier_model_satisfied(m, values, 1e-9));
    assert_int_equal(neap_frontier_model_add_memory(m, values, 0, &added, NULL), NEAP_OK);
    assert_true((added == 0) == fits);
    assert_true(neap_frontier_model_satisfied(m, values, 1e-9) == fits);
    add_all(m);
    assert_true(neap_frontier_model_satisfied(m, values, 1e-9) == fits);
    assert_int_equal(neap_frontier_model_add_memory(m, m->lp.upper, 0, &added, NULL), NEAP_OK);
    assert_int_equal(added, 0); /* all that anything could violate is in */
}

/* False where the program has ruled the sequence out. */
static bool check_sample(const sample *s, frontier_form form, int64_t budget)
{
    frontier_model m;
    build(&m, s->graph, form, budget, INT64_MAX);
    frontier_size most = neap_frontier_model_size(s->graph, form);
    double *values = new_numbers(m.lp.n_columns);
    bool known = neap_frontier_model_values(&m, s->sequence, s->length, s->variants, values);
    assert_true(m.n_slots <= most.columns);
    if (known) {
        check_same(&m, s, values);
        check_memory(&m, values, budget >= s->peak);
    }
    free(values);
    neap_frontier_model_clear(&m);
    return known;
}

/* "The MILP's peak equals the judge's." */
static void check_form(uint64_t seed, uint64_t count, frontier_form form)
{
    random_source random = {setting("NEAP_TEST_SEED", seed)};
    count = setting("NEAP_TEST_COUNT", count);
    uint64_t known = 0, again = 0, asked = 0, below = 0;
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        sample s = draw_sample(&random, i % 3 > 0);
        while (form == FRONTIER_PARTITIONED && thin_out(&s))
            ;
        bool is_known = check_sample(&s, form, s.peak);
        known += is_known;
        again += is_known && s.length > neap_graph_op_count(s.graph);
        if (s.peak > neap_graph_base_bytes(s.graph)) {
            asked++;
            below += check_sample(&s, form, s.peak - 1);
        }
        sample_clear(&s);
    }
    print_message("%" PRIu64 " expressed, %" PRIu64 " of them with recomputations; a byte below "
                  "%" PRIu64 " of %" PRIu64 "\n",
                  known, again, below, asked);
    /* What is not known drops a value where there is room for it, and makes it again. */
    assert_true(known >= count - count / 20 && below >= asked - asked / 20 && again > count / 2);
}

static void test_partitioned(void **state)
{
    (void)state;
    check_form(20240901, 6000 / SHARE, FRONTIER_PARTITIONED);
}

static void test_unpartitioned(void **state)
{
    (void)state;
    check_form(20240902, 1500 / SHARE, FRONTIER_UNPARTITIONED);
}

/* x 10 -> a 100 -> b 50 -> c 100; a and c -> d 10: 260 bytes at c, or 220 if a is recomputed. */
static const char detour_graph[] =
    "{'neap':'graph','version':1,'values':[{'bytes':10},{'bytes':100},{'bytes':50},{'bytes':100},"
    "{'bytes':10}],'ops':[{'inputs':[0],'outputs':[1],'time':1},{'inputs':[1],'outputs':[2],"
    "'time':1},{'inputs':[2],'outputs':[3],'time':1},{'inputs':[1,3],'outputs':[4],'time':1}],"
    "'outputs':[4]}";

static void expect_known(const neap_graph *graph, int64_t budget, int64_t cutoff,
                         const char *digits, bool expected)
{
    frontier_model m;
    uint32_t sequence[16];
    size_t length = strlen(digits);
    build(&m, graph, FRONTIER_PARTITIONED, budget, cutoff);
    double *values = new_numbers(m.lp.n_columns);
    for (size_t i = 0; i < length; i++)
        sequence[i] = (uint32_t)(digits[i] - '0');
    if (neap_frontier_model_values(&m, sequence, length, NULL, values) != expected)
        fail_msg("%s within %" PRId64 " bytes", digits, budget);
    free(values);
    neap_frontier_model_clear(&m);
}

/* What the graph, the budget and the cutoff tell beforehand. */
static void test_what_is_ruled_out(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(detour_graph);
    int64_t second = neap_graph_ticks_per_second(graph);
    expect_known(graph, 220, INT64_MAX, "0123", true);
    expect_known(graph, 220, INT64_MAX, "01203", true);
    expect_known(graph, 220, INT64_MAX, "00123", false);  /* all fits until then */
    expect_known(graph, 220, INT64_MAX, "012013", true);  /* to no end, but in its place */
    expect_known(graph, 220, INT64_MAX, "012103", false); /* out of order */
    expect_known(graph, 220, INT64_MAX, "01230", false);  /* after the last frontier */
    expect_known(graph, 220, 5 * second, "0123", true);
    expect_known(graph, 220, 5 * second, "01203", false); /* no time for it */
    expect_known(graph, 220, 5 * second + 1, "01203", true);
    expect_known(graph, 269, INT64_MAX, "01203", true);
    expect_known(graph, 270, INT64_MAX, "01203", false); /* there is room for all values at once */
    expect_known(graph, 270, INT64_MAX, "0123", true);
    neap_graph_destroy(graph);
}

/* ---- Bounds ---- */

enum { MOST_OPS = 5 };

static bool has_variants(const neap_graph *graph)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (neap_graph_op(graph, o)->n_variants > 1)
            return true;
    return false;
}

/* Of a frontier's earlier ops any may run; the bits of `choice`, n (n - 1) / 2, say which. */
static size_t write_frontiers(uint32_t n_ops, uint32_t choice, uint32_t *sequence)
{
    size_t length = 0;
    for (uint32_t t = 0; t < n_ops; t++) {
        for (uint32_t k = 0; k < t; k++, choice >>= 1)
            if (choice & 1)
                sequence[length++] = k;
        sequence[length++] = t;
    }
    return length;
}

/* The least ticks of all plans in frontiers within the budget; -1: none. */
static int64_t best_ticks(const neap_graph *graph, int64_t budget)
{
    uint32_t n = neap_graph_op_count(graph), sequence[MOST_OPS * MOST_OPS];
    int64_t best = -1;
    for (uint32_t choice = 0; choice < UINT32_C(1) << n * (n - 1) / 2; choice++) {
        size_t length = write_frontiers(n, choice, sequence);
        neap_verdict verdict = judge_sequence(graph, sequence, length, NULL);
        if (verdict.peak_bytes <= budget && (best < 0 || verdict.ticks < best))
            best = verdict.ticks;
    }
    return best;
}

/* A budget within which there is something to lose. */
static int64_t draw_budget(random_source *random, const neap_graph *graph)
{
    size_t length;
    uint32_t *sequence = random_frontiers(random, graph, &length);
    int64_t peak = judge_sequence(graph, sequence, length, NULL).peak_bytes;
    free(sequence);
    return peak;
}

/* Multipliers of any sign and size, few or all. */
static void draw_duals(random_source *random, double *duals, size_t count)
{
    double size = pow(10, random_below(random, 7) - 3.0);
    uint32_t share = random_below(random, 101);
    for (size_t r = 0; r < count; r++)
        duals[r] = random_below(random, 100) < share
                       ? size * ((double)random_below(random, 2001) / 1000 - 1)
                       : 0;
}

static void check_bound(const frontier_model *m, const double *duals, int64_t best)
{
    double *reduced = new_numbers(m->lp.n_columns);
    double bound = neap_sparse_model_dual_bound(&m->lp, duals, reduced);
    double objective = neap_frontier_model_objective(m, best);
    if (!(bound <= objective + 1e-9 * fabs(objective)))
        fail_msg("a bound of %.17g, but %.17g can be had", bound, objective);
    free(reduced);
}

/* The relaxation's own multipliers, whose bound is its value, and some near them. */
static void check_relaxation(random_source *random, const frontier_model *m, int64_t best)
{
    static const highs_watch nothing = {0};
    const highs_settings settings = {0};
    highs_model *h;
    highs_answer answer;
    assert_int_equal(
        neap_highs_model_create(neap_allocator_system(), &m->lp, false, &nothing, &h, NULL),
        NEAP_OK);
    assert_int_equal(neap_highs_model_solve(h, &settings, &answer, NULL), NEAP_OK);
    assert_int_equal(answer.outcome, HIGHS_SOLVED);
    double *duals = new_numbers(m->lp.n_rows), *reduced = new_numbers(m->lp.n_columns);
    memcpy(duals, neap_highs_model_duals(h), m->lp.n_rows * sizeof *duals);
    double bound = neap_sparse_model_dual_bound(&m->lp, duals, reduced);
    assert_true(fabs(bound - answer.objective) <= 1e-6 * (1 + fabs(answer.objective)));
    check_bound(m, duals, best);
    for (size_t r = 0; r < m->lp.n_rows; r++)
        duals[r] *= (double)random_below(random, 3000) / 1000;
    check_bound(m, duals, best);
    free(duals);
    free(reduced);
    neap_highs_model_destroy(h);
}

static void check_bounds(random_source *random, const neap_graph *graph, frontier_form form)
{
    int64_t budget = draw_budget(random, graph), best = best_ticks(graph, budget);
    const int64_t cutoffs[] = {INT64_MAX, best + 1, best + best / 2 + 1};
    frontier_model m;
    build(&m, graph, form, budget, cutoffs[random_below(random, 3)]);
    add_all(&m);
    for (int i = 0; i < 20; i++) {
        double *duals = new_numbers(m.lp.n_rows);
        draw_duals(random, duals, m.lp.n_rows);
        check_bound(&m, duals, best);
        free(duals);
    }
    if (NEAP_HAS_HIGHS && m.lp.n_columns > 0)
        check_relaxation(random, &m, best);
    neap_frontier_model_clear(&m);
}

/* Plans in frontiers are plans of the unpartitioned form too. */
static void test_bounds(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240903)};
    uint64_t count = setting("NEAP_TEST_COUNT", 400 / SHARE), done = 0;
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    while (done < count) {
        neap_graph *graph = random_below(&random, 3) ? random_training_graph(&random, 2, false)
                                                     : random_graph(&random, MOST_OPS);
        if (!has_variants(graph)) {
            check_bounds(&random, graph, done % 4 ? FRONTIER_PARTITIONED : FRONTIER_UNPARTITIONED);
            done++;
        }
        neap_graph_destroy(graph);
    }
}

/* ---- Rows without columns ---- */

static void test_empty_rows(void **state)
{
    (void)state;
    sparse_model m;
    neap_sparse_model_init(&m, neap_allocator_system());
    neap_sparse_column(&m, 0, 1, 1, true);
    neap_sparse_row_begin(&m);
    neap_sparse_row_end(&m, -HUGE_VAL, 3); /* says nothing */
    assert_int_equal(m.n_rows, 0);
    neap_sparse_row_begin(&m);
    neap_sparse_row_add(&m, 0, 1);
    neap_sparse_row_add(&m, 0, 2);
    neap_sparse_row_end(&m, 0, 3);
    assert_int_equal(m.n_rows, 1);
    assert_int_equal(m.n_entries, 1);
    assert_true(m.entry_value[0] == 3);
    neap_sparse_row_begin(&m);
    neap_sparse_row_end(&m, -HUGE_VAL, -1); /* no solution satisfies this row */
    assert_int_equal(m.n_rows, 2);
    assert_int_equal(m.row_start[2], 1);
    assert_int_equal(neap_sparse_model_status(&m, NULL), NEAP_OK);
    neap_sparse_model_clear(&m);
}

/* ---- Tick steps ---- */

/* A variant that takes three seconds, beside one of two. */
static int64_t step_with(const char *workspace)
{
    char json[400];
    snprintf(json, sizeof json,
             "{'neap':'graph','version':1,'values':[{'bytes':1},{'bytes':1}],'ops':["
             "{'inputs':[],'outputs':[0],'time':4},{'inputs':[0],'outputs':[1],'time':2,"
             "'workspace':5,'variants':[{'time':2,'workspace':5},{'time':3,'workspace':%s}]}],"
             "'outputs':[1]}",
             workspace);
    neap_graph *graph = graph_from(json);
    int64_t step = neap_graph_tick_step(graph), second = neap_graph_ticks_per_second(graph);
    assert_true(step % second == 0);
    neap_graph_destroy(graph);
    return step / second;
}

/* Times of plans are apart by what the variants that plans need are. */
static void test_tick_steps(void **state)
{
    (void)state;
    assert_int_equal(step_with("4"), 1);
    assert_int_equal(step_with("5"), 2);
    assert_int_equal(step_with("6"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partitioned),       cmocka_unit_test(test_unpartitioned),
        cmocka_unit_test(test_what_is_ruled_out), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_empty_rows),        cmocka_unit_test(test_tick_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
