/*
 * paper_model: the program as printed has the oracle's optimum for every budget, and its relaxation
 * is not above it, also on graphs with more than the paper has; the largest batch by eq. 10 is the
 * oracle's; the integrality gaps of Appendix A.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=3000 test_paper_model     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bare_planner.h"
#include "failing_allocator.h"
#include "frontier_curves.h"
#include "planners/checkmate/paper_batch.h"
#include "planners/common/batch_sizes.h"
#include "random_plan.h"
#include "settings.h"
#include "show_graph.h"
#include "small_graphs.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define SHARE ONE_IN(6)

#define COUNT_OF(array) ((uint32_t)(sizeof(array) / sizeof *(array)))

/* ---- Random graphs of the paper's kind ---- */

static uint32_t add_value(neap_graph_builder *builder, random_source *random, const char *kind)
{
    static const int64_t sizes[] = {0, 1, 1, 2, 3, 5, 8, 13, 40};
    neap_value_desc desc;
    uint32_t id;
    neap_value_desc_init(&desc);
    desc.kind = kind;
    desc.bytes = sizes[random_below(random, COUNT_OF(sizes))];
    assert_int_equal(neap_graph_builder_add_value(builder, &desc, &id, NULL), NEAP_OK);
    return id;
}

/* An op reads the one before it most times, and any others; the same value perhaps twice. */
static void add_op(neap_graph_builder *builder, random_source *random, uint32_t input,
                   const uint32_t *made, uint32_t n_made, uint32_t output)
{
    static const double times[] = {0, 1, 1, 1, 2, 3, 0.5};
    const neap_variant variant = {.seconds = times[random_below(random, COUNT_OF(times))]};
    uint32_t inputs[8], count = 0;
    neap_op_desc desc;
    neap_op_desc_init(&desc);
    if (n_made == 0 || random_below(random, 4) == 0)
        inputs[count++] = input;
    if (n_made > 0 && random_below(random, 4) > 0)
        inputs[count++] = made[n_made - 1];
    for (uint32_t extra = random_below(random, 3); n_made > 0 && extra > 0; extra--)
        inputs[count++] = made[random_below(random, n_made)];
    desc.n_inputs = count;
    desc.inputs = inputs;
    desc.n_outputs = 1;
    desc.outputs = &output;
    desc.n_variants = 1;
    desc.variants = &variant;
    assert_int_equal(neap_graph_builder_add_op(builder, &desc, NULL, NULL), NEAP_OK);
}

static neap_graph *draw_paper_graph(random_source *random, size_t i, uint32_t most_ops)
{
    (void)i;
    neap_graph_builder *builder;
    neap_graph *graph;
    neap_diag diag = {0};
    uint32_t n = 1 + random_below(random, most_ops), made[8];
    assert_true(most_ops <= COUNT_OF(made));
    assert_int_equal(neap_graph_builder_create(NULL, "paper", &builder, NULL), NEAP_OK);
    uint32_t input = add_value(builder, random, NEAP_KIND_INPUT);
    uint32_t outputs = random_below(random, 3); /* 0: the last alone, as in the paper */
    for (uint32_t k = 0; k < n; k++) {
        uint32_t output = add_value(builder, random, NEAP_KIND_ACTIVATION);
        add_op(builder, random, input, made, k, output);
        made[k] = output;
        if (k + 1 == n ? outputs < 2 : outputs > 0 && random_below(random, 3) == 0)
            assert_int_equal(neap_graph_builder_add_output(builder, output, NULL), NEAP_OK);
    }
    if (random_below(random, 3) == 0)
        neap_graph_builder_set_fixed_bytes(builder, random_below(random, 30));
    if (neap_graph_builder_finish(builder, &graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_graph_builder_destroy(builder);
    return graph;
}

/* ---- Against the oracle ---- */

/* What is wrong with the answer, or NULL. */
static const char *fault_of(const paper_answer *a, const incumbent *best, int64_t expected)
{
    if (expected < 0)
        return a->outcome == HIGHS_INFEASIBLE && best->ticks == INT64_MAX ? NULL : "nothing fits";
    if (a->relaxed != HIGHS_SOLVED || a->outcome != HIGHS_SOLVED)
        return "not solved";
    double slack = 1e-6 * (1 + (double)expected);
    if (a->ticks != expected || best->ticks != expected || a->bound_ticks != expected)
        return "another optimum";
    if (a->lp_ticks > (double)expected + slack)
        return "the relaxation is above the optimum";
    if (a->lp_bound > a->lp_ticks + slack || a->lp_bound < a->lp_ticks - 1e-3 * (double)expected)
        return "the proven bound is not the relaxation's value";
    return NULL;
}

static void check_budget(const neap_graph *graph, const char *form, int64_t budget,
                         int64_t expected)
{
    bool partitioned = strcmp(form, "partitioned") == 0;
    bare_planner b;
    incumbent best;
    paper_answer answer;
    neap_diag diag = {0};
    bare_planner_init(&b, graph, budget);
    neap_incumbent_init(&best, &b.p);
    if (neap_paper_solve(&b.p, partitioned, &best, &answer, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    const char *fault = fault_of(&answer, &best, expected);
    NEED(graph, !fault,
         "%s within %" PRId64 ": %s: %" PRId64 " ticks (outcome %d), relaxation %.17g, "
         "bound %.17g, plan %" PRId64 ", expected %" PRId64,
         form, budget, fault, answer.ticks, answer.outcome, answer.lp_ticks, answer.lp_bound,
         best.ticks, expected);
    neap_incumbent_clear(&best, &b.p);
}

static void check_form(uint64_t seed, size_t count, frontier_recipe *draw, uint32_t size,
                       const char *form)
{
    need_highs();
    need_python();
    frontier_cases c = frontier_cases_draw(seed, count, draw, size, form);
    frontier_ask(&c, 1, check_budget);
    for (size_t i = 0; i < c.count; i += 10)
        check_budget(c.graphs[i], form, INT64_MAX, c.curves[i].points[c.curves[i].count - 1].ticks);
    frontier_cases_clear(&c);
}

static void test_partitioned(void **state)
{
    (void)state;
    check_form(20240811, 350 / SHARE, draw_paper_graph, 6, "partitioned");
}

static void test_unpartitioned(void **state)
{
    (void)state;
    check_form(20240812, 200 / SHARE, draw_paper_graph, 4, "unpartitioned");
}

/* Several outputs and none, views, workspaces, variants. */
static void test_mixed(void **state)
{
    (void)state;
    check_form(20240813, 80 / SHARE, draw_mixed, 3, "partitioned");
}

static void test_mixed_unpartitioned(void **state)
{
    (void)state;
    check_form(20240814, 24 / SHARE, draw_mixed, 1, "unpartitioned");
}

/* ---- The largest batch ---- */

/* Where all sizes grow with the batch but the fixed bytes, the curve has the least peak that (10)
   allows: that of its first point that is fast enough. */
static void check_batch(const neap_graph *graph, const frontier_curve *curve)
{
    int64_t fixed = neap_graph_fixed_bytes(graph), limit = neap_graph_base_ticks(graph);
    bare_planner b;
    paper_batch answer;
    draft d = {0};
    neap_diag diag = {0};
    size_t i = 0;
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (neap_graph_op(graph, o)->pass == NEAP_FORWARD)
            limit += neap_graph_op(graph, o)->variants[0].ticks;
    while (i < curve->count && curve->points[i].ticks > limit)
        i++;
    assert_true(i < curve->count);
    int64_t least = curve->points[i].peak - fixed, budget = fixed + 1000;
    bare_planner_init(&b, graph, budget);
    if (neap_paper_batch_solve(&b.p, true, &answer, &d, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    int64_t most = least > 0 ? 1000 / least : INT64_MAX;
    NEED(graph, answer.outcome == HIGHS_SOLVED && answer.batch == most,
         "the largest batch is %" PRId64 " (bound %" PRId64 ", outcome %d), not %" PRId64
         ": %" PRId64 " bytes, not %" PRId64,
         answer.batch, answer.batch_bound, answer.outcome, most, answer.bytes, least);
    NEED(graph,
         answer.batch_bound >= most && answer.bytes >= least &&
             d.predicted_peak == answer.bytes + fixed && d.predicted_ticks <= limit,
         "a peak of %" PRId64 " bytes in %" PRId64 " ticks", d.predicted_peak, d.predicted_ticks);
    neap_planner_clear_draft(&b.p, &d);
}

static bool all_grows(const neap_graph *graph)
{
    bool is_fixed[64] = {false}, grows = true;
    assert_true(neap_graph_value_count(graph) <= COUNT_OF(is_fixed));
    neap_batch_mark_fixed(graph, is_fixed);
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        grows = grows && !is_fixed[v];
    return grows;
}

static void check_batches(uint64_t seed, size_t count, frontier_recipe *draw, uint32_t size)
{
    need_highs();
    need_python();
    uint64_t asked = 0;
    frontier_cases c = frontier_cases_draw(seed, count, draw, size, "partitioned");
    for (size_t i = 0; i < c.count; i++)
        if (all_grows(c.graphs[i])) {
            check_batch(c.graphs[i], &c.curves[i]);
            asked++;
        }
    assert_true(4 * asked >= c.count);
    frontier_cases_clear(&c);
}

static void test_batches(void **state)
{
    (void)state;
    check_batches(20240815, 80 / SHARE, draw_paper_graph, 6);
    check_batches(20240816, 30 / SHARE, draw_mixed, 3);
}

/* Parameters and their gradients do not grow, and take their place throughout: (2). */
static void test_fixed_sizes(void **state)
{
    (void)state;
    need_highs();
    neap_graph *graph = graph_from(
        "{'neap':'graph','version':1,'fixed_bytes':5,'values':[{'bytes':2,'kind':'input'},"
        "{'bytes':7,'kind':'parameter'},{'bytes':3},{'bytes':3,'kind':'gradient'},"
        "{'bytes':7,'kind':'gradient'}],'ops':[{'inputs':[0,1],'outputs':[2],'time':1},"
        "{'pass':'backward','inputs':[2],'outputs':[3],'time':1},"
        "{'pass':'backward','inputs':[0,3],'outputs':[4],'time':1}],'outputs':[4]}");
    bare_planner b;
    paper_batch answer;
    draft d = {0};
    bare_planner_init(&b, graph, 5 + 7 + 7 + 8 * 12 + 7); /* 8 images of 2 + 3 + 3 */
    assert_int_equal(neap_paper_batch_solve(&b.p, true, &answer, &d, NULL), NEAP_OK);
    assert_int_equal(answer.bytes, 8);
    assert_int_equal(answer.batch, 12);
    assert_int_equal(answer.batch_bound, 12);
    neap_planner_clear_draft(&b.p, &d);
    neap_graph_destroy(graph);
}

/* ---- Appendix A ---- */

static double relaxed_seconds(const planner *p, bool partitioned)
{
    paper_answer answer;
    assert_int_equal(neap_paper_relax(p, partitioned, &answer, NULL), NEAP_OK);
    assert_int_equal(answer.relaxed, HIGHS_SOLVED);
    assert_true(answer.columns <= neap_paper_model_columns(p->graph, partitioned));
    assert_true(fabs(answer.lp_ticks - answer.lp_bound) <= 1e-9 * answer.lp_ticks);
    return answer.lp_ticks / (double)neap_graph_ticks_per_second(p->graph);
}

/* 8 layers, budget 4: 26 is best, 1.18 and 21.56 times what the relaxations say. */
static void test_appendix_a(void **state)
{
    (void)state;
    need_highs();
    neap_graph *graph = unit_chain(8);
    bare_planner b;
    incumbent best;
    paper_answer answer;
    bare_planner_init(&b, graph, 4);
    neap_incumbent_init(&best, &b.p);
    double partitioned = relaxed_seconds(&b.p, true), unpartitioned = relaxed_seconds(&b.p, false);
    assert_true(fabs(partitioned - 22) < 1e-6);
    assert_true(fabs(26 / unpartitioned - 21.557) < 1e-3);
    assert_int_equal(neap_paper_solve(&b.p, true, &best, &answer, NULL), NEAP_OK);
    assert_int_equal(answer.outcome, HIGHS_SOLVED);
    assert_true(answer.ticks == 26 * neap_graph_ticks_per_second(graph));
    assert_true(best.ticks == answer.ticks && best.draft.predicted_peak == 4);
    neap_incumbent_clear(&best, &b.p);
    neap_graph_destroy(graph);
}

/* Out of time: what is known by then is said, and nothing else. */
static void test_time_limit(void **state)
{
    (void)state;
    need_highs();
    neap_graph *graph = unit_chain(12);
    bare_planner b;
    incumbent best;
    paper_answer answer;
    bare_planner_init(&b, graph, 4);
    neap_incumbent_init(&best, &b.p);
    b.request.time_limit = 0.5;
    assert_int_equal(neap_paper_solve(&b.p, false, &best, &answer, NULL), NEAP_OK);
    assert_int_equal(answer.outcome, HIGHS_STOPPED);
    assert_true(answer.ticks == -1);
    assert_true(answer.bound_ticks >= neap_graph_least_ticks(graph));
    assert_true(answer.bound >= answer.lp_bound);
    assert_true(best.ticks >= answer.bound_ticks);
    neap_incumbent_clear(&best, &b.p);
    neap_graph_destroy(graph);
}

/* A program that the time left would not do to build is not begun, and the answer says so. */
static void test_too_large(void **state)
{
    (void)state;
    need_highs();
    neap_graph *graph = unit_chain(200);
    bare_planner b;
    incumbent best;
    paper_answer answer;
    draft d = {0};
    bare_planner_init(&b, graph, 20);
    neap_incumbent_init(&best, &b.p);
    b.request.time_limit = 0.2;
    assert_int_equal(neap_paper_solve(&b.p, true, &best, &answer, NULL), NEAP_OK);
    assert_true(answer.too_large && answer.outcome == HIGHS_STOPPED && answer.columns == 0);
    neap_arena_init(&d.arena, b.p.allocator);
    assert_int_equal(neap_paper_explain_size(&b.p, true, &d, NULL), NEAP_OK);
    assert_non_null(strstr(d.reason, "too large for it and was not begun"));
    neap_arena_clear(&d.arena);
    neap_incumbent_clear(&best, &b.p);
    neap_graph_destroy(graph);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    const paper_options options = {.budget = 4};
    neap_graph *graph = unit_chain(3);
    failing_allocator memory;
    paper_model model;
    failing_allocator_init(&memory);
    assert_int_equal(neap_paper_model_build(&model, &memory.base, graph, &options, NULL), NEAP_OK);
    neap_paper_model_clear(&model);
    size_t calls = memory.calls;
    for (size_t i = 0; i < calls; i++) {
        failing_allocator_init(&memory);
        memory.fail_from = i;
        memory.fail_end = i + 1;
        assert_int_equal(neap_paper_model_build(&model, &memory.base, graph, &options, NULL),
                         NEAP_NO_MEMORY);
        neap_paper_model_clear(&model);
        neap_paper_model_clear(&model);
        assert_int_equal(memory.live_blocks, 0);
        assert_null(memory.fault);
    }
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partitioned), cmocka_unit_test(test_unpartitioned),
        cmocka_unit_test(test_appendix_a),  cmocka_unit_test(test_time_limit),
        cmocka_unit_test(test_mixed),       cmocka_unit_test(test_mixed_unpartitioned),
        cmocka_unit_test(test_batches),     cmocka_unit_test(test_fixed_sizes),
        cmocka_unit_test(test_too_large),   cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
