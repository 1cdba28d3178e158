/*
 * Values in pieces (neap/split.h): the split graph computes what the whole one does, the least time
 * of its plans lies between that of whole values and that of the fractional relaxation
 * (support/offload_oracle.h), and plans for it run with the same results, to the bit.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=5000 test_split     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "accepted.h"
#include "offload_oracle.h"
#include "random_offload_chain.h"
#include "settings.h"
#include "small_networks.h"
#include "small_training.h"
#include "torture.h"
#include "usable_backends.h"

#include <neap/check.h>
#include <neap/cost.h>
#include <neap/layout.h>
#include <neap/solve.h>
#include <neap/split.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Under a sanitizer there are fewer cases. */
#define SLOW ONE_IN(10)

static neap_graph *split_copy(const neap_graph *graph, int64_t bytes)
{
    char *text;
    size_t length;
    neap_graph *copy;
    neap_diag diag;
    assert_int_equal(neap_graph_write_text(graph, NULL, &text, &length, &diag), NEAP_OK);
    assert_int_equal(neap_graph_read_text(NULL, text, length, "graph", &copy, &diag), NEAP_OK);
    neap_release(NULL, text, length + 1);
    if (neap_graph_split(&copy, bytes, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    return copy;
}

/* ---- One small graph, in detail ---- */

static const char small[] =
    "{\"neap\":\"graph\",\"version\":1,\"name\":\"small\",\"fixed_bytes\":7,\"values\":["
    "{\"name\":\"x\",\"bytes\":100,\"kind\":\"input\"},"
    "{\"name\":\"h\",\"bytes\":250,\"kind\":\"activation\",\"mark\":1},"
    "{\"name\":\"hT\",\"bytes\":0,\"kind\":\"activation\",\"view_of\":1},"
    "{\"name\":\"a\",\"bytes\":100,\"kind\":\"activation\"},"
    "{\"name\":\"g\",\"bytes\":900,\"kind\":\"gradient\"}],\"ops\":["
    "{\"name\":\"fc\",\"type\":\"linear\",\"pass\":\"forward\",\"inputs\":[0],\"outputs\":[1],"
    "\"time\":1,\"workspace\":3},"
    "{\"name\":\"T\",\"type\":\"view\",\"pass\":\"forward\",\"inputs\":[1,0],\"outputs\":[2],"
    "\"time\":0,\"workspace\":0},"
    "{\"name\":\"relu\",\"type\":\"relu\",\"pass\":\"forward\",\"inputs\":[2],\"outputs\":[3],"
    "\"time\":2,\"workspace\":0,\"in_place\":[2,3]},"
    "{\"name\":\"bw\",\"type\":\"bw\",\"pass\":\"backward\",\"inputs\":[3,1],\"outputs\":[4],"
    "\"time\":4,\"workspace\":0}],\"outputs\":[4]}";

static neap_graph *read_small(void)
{
    neap_graph *graph;
    neap_diag diag;
    if (neap_graph_read_text(NULL, small, strlen(small), "small", &graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    return graph;
}

static void check_value(const neap_graph *graph, uint32_t id, const char *name, int64_t bytes,
                        uint32_t view_of, uint32_t whole)
{
    const neap_value *v = neap_graph_value(graph, id);
    assert_string_equal(v->name, name);
    assert_int_equal(v->bytes, bytes);
    assert_int_equal(v->view_of, view_of);
    assert_int_equal(neap_graph_whole_value(graph, id), whole);
}

static void check_op(const neap_graph *graph, uint32_t id, const char *name, uint32_t whole,
                     uint32_t n_inputs, const uint32_t *inputs, uint32_t n_outputs,
                     const uint32_t *outputs)
{
    const neap_op *op = neap_graph_op(graph, id);
    assert_string_equal(op->name, name);
    assert_int_equal(neap_graph_whole_op(graph, id), whole);
    assert_int_equal(op->n_inputs, n_inputs);
    assert_memory_equal(op->inputs, inputs, n_inputs * sizeof *inputs);
    assert_int_equal(op->n_outputs, n_outputs);
    assert_memory_equal(op->outputs, outputs, n_outputs * sizeof *outputs);
}

/* Inputs and outputs stay whole, however large; a view and its op are in pieces. */
static void test_small(void **state)
{
    (void)state;
    neap_graph *graph = read_small(), *whole = graph;
    neap_diag diag;
    assert_int_equal(neap_graph_split(&graph, 100, &diag), NEAP_OK);
    assert_ptr_equal(neap_graph_whole(graph), whole);
    assert_string_equal(neap_graph_name(graph), "small, split 100");
    assert_int_equal(neap_graph_fixed_bytes(graph), 7);
    assert_int_equal(neap_graph_value_count(graph), 9);
    check_value(graph, 0, "x", 100, NEAP_NONE, 0);
    check_value(graph, 1, "h[0]", 100, NEAP_NONE, 1);
    check_value(graph, 3, "h[2]", 50, NEAP_NONE, 1);
    check_value(graph, 4, "hT[0]", 0, 1, 2);
    check_value(graph, 6, "hT[2]", 0, 3, 2);
    check_value(graph, 7, "a", 100, NEAP_NONE, 3);
    check_value(graph, 8, "g", 900, NEAP_NONE, 4);
    assert_string_equal(neap_graph_value(graph, 2)->extra,
                        "\"piece_of\":\"h\",\"piece_begin\":100,\"mark\":1");
    assert_int_equal(neap_graph_op_count(graph), 6);
    check_op(graph, 0, "fc", 0, 1, (uint32_t[]){0}, 3, (uint32_t[]){1, 2, 3});
    check_op(graph, 2, "T[1]", 1, 2, (uint32_t[]){2, 0}, 1, (uint32_t[]){5});
    check_op(graph, 4, "relu", 2, 3, (uint32_t[]){4, 5, 6}, 1, (uint32_t[]){7});
    check_op(graph, 5, "bw", 3, 4, (uint32_t[]){7, 1, 2, 3}, 1, (uint32_t[]){8});
    assert_int_equal(neap_graph_op(graph, 4)->in_place_input, NEAP_NONE);
    uint32_t count;
    assert_int_equal(neap_graph_pieces(graph, 2, &count), 4);
    assert_int_equal(count, 3);
    neap_graph_join(&graph);
    assert_ptr_equal(graph, whole);
    neap_graph_join(&graph);
    assert_ptr_equal(graph, whole);
    neap_graph_destroy(graph);
}

static void test_nothing_to_split(void **state)
{
    (void)state;
    neap_graph *graph = read_small(), *before = graph;
    neap_diag diag;
    assert_int_equal(neap_graph_split(&graph, 250, &diag), NEAP_OK);
    assert_ptr_equal(graph, before);
    assert_ptr_equal(neap_graph_whole(graph), graph);
    assert_int_equal(neap_graph_whole_op(graph, 3), 3);
    neap_graph_destroy(graph);
}

static void test_errors(void **state)
{
    (void)state;
    neap_graph *graph = read_small();
    neap_diag diag;
    assert_int_equal(neap_graph_split(&graph, 0, &diag), NEAP_INVALID);
    assert_int_equal(neap_graph_split(&graph, 200, &diag), NEAP_OK);
    assert_int_equal(neap_graph_split(&graph, 100, &diag), NEAP_INVALID);
    assert_non_null(strstr(diag.message, "split already"));
    neap_graph_destroy(graph);
    neap_graph_builder *builder;
    neap_value_desc value;
    neap_op_desc op;
    neap_value_desc_init(&value);
    value.bytes = INT64_C(1) << 40;
    neap_op_desc_init(&op);
    op.n_outputs = 1;
    op.outputs = (uint32_t[]){0};
    assert_int_equal(neap_graph_builder_create(NULL, "large", &builder, &diag), NEAP_OK);
    assert_int_equal(neap_graph_builder_add_value(builder, &value, NULL, &diag), NEAP_OK);
    assert_int_equal(neap_graph_builder_add_op(builder, &op, NULL, &diag), NEAP_OK);
    assert_int_equal(neap_graph_builder_finish(builder, &graph, &diag), NEAP_OK);
    neap_graph_builder_destroy(builder);
    assert_int_equal(neap_graph_split(&graph, 1 << 19, &diag), NEAP_INVALID);
    assert_non_null(strstr(diag.message, "too small for \"large\""));
    assert_ptr_equal(neap_graph_whole(graph), graph);
    neap_graph_destroy(graph);
}

/* ---- Plans of the whole graph are plans of the split one ---- */

/* Each step for all pieces. */
static neap_plan *lift(const neap_graph *split, const neap_plan *plan)
{
    neap_plan *lifted;
    assert_int_equal(neap_plan_create(NULL, "lifted", "any", -1, &lifted, NULL), NEAP_OK);
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        neap_step step = neap_plan_steps(plan)[i];
        uint32_t n =
            step.kind == NEAP_COMPUTE ? neap_graph_op_count(split) : neap_graph_value_count(split);
        uint32_t whole = step.id;
        for (step.id = 0; step.id < n; step.id++)
            if (whole == (step.kind == NEAP_COMPUTE ? neap_graph_whole_op(split, step.id)
                                                    : neap_graph_whole_value(split, step.id)))
                assert_int_equal(neap_plan_append(lifted, step, NULL), NEAP_OK);
    }
    return lifted;
}

static void check_lifted(random_source *random, const neap_graph *graph, bool transfers)
{
    const neap_link link = {.out_bandwidth = 10, .in_bandwidth = 10};
    neap_graph *split = split_copy(graph, 1 + random_below(random, 40));
    neap_plan *plan = random_plan(random, graph, 3 * (size_t)neap_graph_op_count(graph), transfers);
    neap_plan *lifted = lift(split, plan);
    neap_verdict a = accepted_plan(graph, plan, &link), b = accepted_plan(split, lifted, &link);
    assert_int_equal(a.peak_bytes, b.peak_bytes);
    assert_int_equal(a.offloaded_bytes, b.offloaded_bytes);
    assert_int_equal(a.host_bytes, b.host_bytes);
    if (!transfers)
        assert_int_equal(a.ticks, b.ticks);
    assert_int_equal(neap_graph_floor_bytes(graph, NULL), neap_graph_floor_bytes(split, NULL));
    assert_int_equal(neap_graph_base_bytes(graph), neap_graph_base_bytes(split));
    assert_int_equal(neap_graph_base_ticks(graph), neap_graph_base_ticks(split));
    neap_plan_destroy(lifted);
    neap_plan_destroy(plan);
    neap_graph_destroy(split);
}

static void test_plans_can_be_lifted(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 1)};
    uint64_t count = setting("NEAP_TEST_COUNT", 300 / SLOW);
    print_message("seed %" PRIu64 "\n", random.state);
    for (uint64_t c = 0; c < count; c++) {
        neap_graph *graph = random_graph(&random, 12);
        check_lifted(&random, graph, c % 2 == 0);
        neap_graph_destroy(graph);
    }
}

/* ---- The least time, by exhaustive search ---- */

enum { MOST_NODES = 5000 };

static uint32_t count_movable(const neap_graph *graph)
{
    uint32_t count = 0;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        const neap_value *value = neap_graph_value(graph, v);
        count += value->producer != NEAP_NONE && strcmp(value->kind, NEAP_KIND_ACTIVATION) == 0;
    }
    return count;
}

/* Seconds of the best plan in the budget; NAN where the search is too long. */
static double least_seconds(const neap_graph *graph, const neap_link *link, int64_t budget)
{
    if (count_movable(graph) > MOST_MOVABLE)
        return (double)NAN;
    offload_problem problem = offload_problem_of(graph, link);
    offload_search_options options = {.rules = OFFLOAD_PLAN, .most_nodes = MOST_NODES};
    offload_answer answer = offload_search(&problem, budget, &options, NULL);
    if (answer.gave_up)
        return (double)NAN;
    assert_true(answer.found);
    return neap_graph_seconds(graph, answer.ticks);
}

/* Seconds of the plan of `offload`, judged. */
static double offload_seconds(const neap_graph *graph, const neap_link *link, int64_t budget)
{
    neap_request request;
    neap_solution *solution;
    neap_diag diag;
    neap_request_init(&request, graph, "offload");
    request.budget = budget;
    request.link = *link;
    request.threads = 1;
    if (neap_solve(NULL, &request, &solution, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_non_null(neap_solution_plan(solution));
    neap_verdict verdict = accepted_plan(graph, neap_solution_plan(solution), link);
    assert_true(verdict.peak_bytes <= budget);
    neap_solution_destroy(solution);
    return neap_graph_seconds(graph, verdict.ticks);
}

typedef struct tally {
    uint32_t asked, best; /* budgets; where `offload` has the best plan for pieces */
    uint32_t faster;      /* pieces are faster than whole values */
    uint32_t at_bound;    /* and as fast as the relaxation */
    double whole, pieces; /* mean time above the relaxation */
} tally;

/* Pieces never take longer than whole values, and smaller pieces never longer than those that they
   are parts of; the fractional relaxation is never slower. */
static void compare(const neap_graph *graph, const neap_graph *halves, const neap_graph *quarters,
                    const neap_link *link, int64_t budget, tally *sum)
{
    offload_problem problem = offload_problem_of(graph, link);
    double bound = offload_fractional_time(&problem, budget);
    double whole = least_seconds(graph, link, budget), two = least_seconds(halves, link, budget);
    double four = least_seconds(quarters, link, budget);
    if (isnan(whole) || isnan(two))
        return;
    if (bound > two + 1e-6 || two > whole + 1e-9 || four > two + 1e-9 || bound > four + 1e-6)
        fail_msg("budget %" PRId64 ": whole %g s, halves %g s, quarters %g s, relaxation %g s",
                 budget, whole, two, four, bound);
    double best = isnan(four) ? two : four;
    double ours = offload_seconds(isnan(four) ? halves : quarters, link, budget);
    if (ours < best - 1e-9)
        fail_msg("budget %" PRId64 ": offload takes %g s, the best plan %g s", budget, ours, best);
    sum->asked++;
    sum->best += ours < best + 1e-9;
    sum->faster += best < whole - 1e-9;
    sum->at_bound += best < bound + 1e-6;
    sum->whole += bound > 0 ? whole / bound - 1 : 0;
    sum->pieces += bound > 0 ? best / bound - 1 : 0;
}

/* The largest activation in two and in four; sizes are multiples of 4, so that pieces nest. */
static void compare_chain(random_source *random, tally *sum)
{
    offload_chain chain = random_offload_chain(random, 2 + random_below(random, 3));
    neap_link link = random_link(random, LINK_HALF);
    int64_t largest = 4;
    for (uint32_t i = 0; i <= chain.layers; i++) {
        chain.x[i] *= 4;
        chain.y[i] *= 4;
        largest = i > 0 && chain.x[i] > largest ? chain.x[i] : largest;
    }
    neap_graph *graph = offload_chain_graph(&chain);
    neap_graph *halves = split_copy(graph, largest / 2), *quarters = split_copy(graph, largest / 4);
    offload_problem problem = offload_problem_of(graph, &link);
    int64_t least = offload_floor(&problem), peak = offload_natural_peak(&problem);
    for (int i = 0; i < 3 && least + (peak - least) * i / 3 > 0; i++)
        compare(graph, halves, quarters, &link, least + (peak - least) * i / 3, sum);
    neap_graph_destroy(quarters);
    neap_graph_destroy(halves);
    neap_graph_destroy(graph);
}

static void test_least_time(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 1) + 1000};
    tally sum = {0};
    uint64_t count = setting("NEAP_TEST_COUNT", 12 / ONE_IN(4));
    for (uint64_t c = 0; c < count; c++)
        compare_chain(&random, &sum);
    print_message("%u budgets: pieces are faster at %u, as fast as the relaxation at %u; above it "
                  "by %.2f%% on average, whole values by %.2f%%; offload has the best plan at %u\n",
                  sum.asked, sum.faster, sum.at_bound, 100 * sum.pieces / sum.asked,
                  100 * sum.whole / sum.asked, sum.best);
    assert_true(sum.asked > 0 && (sum.faster > 0 || count < 12)); /* with few chains, by chance */
    assert_true(sum.best * 100 >= sum.asked * 95);
}

/* ---- Running ---- */

static void place(const neap_graph *graph, neap_plan *plan)
{
    neap_layout_options options;
    neap_diag diag;
    neap_layout_options_init(&options);
    options.alignment = neap_run_alignment(graph);
    options.target = INT64_MAX;
    if (neap_layout_assign(NULL, graph, plan, &options, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
}

static neap_plan *natural_plan(const neap_graph *graph)
{
    uint32_t n_ops = neap_graph_op_count(graph), *order = calloc(n_ops, sizeof *order);
    neap_plan *plan;
    assert_non_null(order);
    for (uint32_t i = 0; i < n_ops; i++)
        order[i] = i;
    assert_int_equal(
        neap_plan_from_sequence(NULL, graph, order, n_ops, NULL, "natural", -1, &plan, NULL),
        NEAP_OK);
    free(order);
    return plan;
}

static training_record run(const neap_graph *graph, const neap_plan *plan, neap_backend *backend,
                           bool duplex)
{
    training_record record;
    neap_run_options options;
    neap_diag diag;
    neap_run_options_init(&options);
    options.poison = true;
    options.duplex = duplex;
    if (small_training_run(graph, plan, backend, &options, 2, &record, &diag) != NEAP_OK)
        fail_msg("%s: %s", neap_graph_name(graph), diag.message);
    return record;
}

/* Random plans by variant 0: pieces leave and come back one by one, to other places. */
static void check_runs(const char *network, const char *backend_name, random_source *random)
{
    neap_backend *backend = opened_backend(backend_name, 1);
    neap_graph *graph = small_network_build(small_networks_find(network), NEAP_OPTIMIZER_NONE);
    neap_diag diag;
    assert_int_equal(neap_backend_fit(backend, graph, &diag), NEAP_OK);
    neap_plan *natural = natural_plan(graph);
    training_record expected = run(graph, natural, backend, false);
    uint32_t ops = neap_graph_op_count(graph);
    assert_true(isfinite(expected.loss));
    neap_plan_destroy(natural);
    assert_int_equal(neap_graph_split(&graph, 4096, &diag), NEAP_OK);
    if (neap_graph_whole(graph) == graph)
        fail_msg("%s has no value of more than a page", network);
    for (int i = 0; i < 3; i++) {
        neap_plan *plan = random_plan(random, graph, 3 * (size_t)ops, i > 0), *first;
        assert_int_equal(neap_plan_create(NULL, "", "first variants", -1, &first, NULL), NEAP_OK);
        for (size_t k = 0; k < neap_plan_step_count(plan); k++) {
            neap_step step = neap_plan_steps(plan)[k];
            step.variant = 0;
            assert_int_equal(neap_plan_append(first, step, NULL), NEAP_OK);
        }
        place(graph, first);
        training_record record = run(graph, first, backend, i == 2);
        uint32_t at = training_record_compare(&expected, &record);
        if (at != UINT32_MAX) {
            char what[200];
            training_record_name(neap_graph_whole(graph), &record, at, what, sizeof what);
            fail_msg("%s on %s, plan %d: %s differs", network, backend_name, i, what);
        }
        assert_true(i == 0 || record.transferred > 0);
        training_record_clear(&record);
        neap_plan_destroy(first);
        neap_plan_destroy(plan);
    }
    training_record_clear(&expected);
    neap_graph_destroy(graph);
    neap_backend_close(backend);
}

static void test_runs(void **state)
{
    (void)state;
    static const char *const networks[] = {"unet", "gpt2"};
    random_source random = {setting("NEAP_TEST_SEED", 1) + 2000};
    for (uint32_t b = 0; b < neap_backends_count(); b++)
        for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
            if (backend_computes(neap_backends_name(b)) && (b + i) % ONE_IN(2) == 0)
                check_runs(networks[i], neap_backends_name(b), &random);
}

/* Pieces that do not fill memory pages cannot be shown as one array. */
static void test_odd_pieces(void **state)
{
    (void)state;
    neap_backend *backend = opened_backend("ref", 1);
    neap_graph *graph = small_network_build(small_networks_find("unet"), NEAP_OPTIMIZER_NONE);
    random_source random = {3};
    neap_runner *runner;
    neap_diag diag;
    assert_int_equal(neap_backend_fit(backend, graph, &diag), NEAP_OK);
    assert_int_equal(neap_graph_split(&graph, 4096 + 64, &diag), NEAP_OK);
    neap_plan *plan = random_plan(&random, graph, neap_graph_op_count(graph), true);
    assert_int_equal(neap_runner_create(NULL, graph, plan, backend, NULL, &runner, &diag),
                     NEAP_INVALID);
    assert_non_null(strstr(diag.message, "multiples of a memory page"));
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
    neap_backend_close(backend);
}

/* ---- Memory that runs out ---- */

static neap_status split_small(const void *subject, neap_allocator *allocator, neap_diag *diag)
{
    neap_graph *graph = NULL, *before;
    neap_status status =
        neap_graph_read_text(allocator, subject, strlen(subject), "small", &graph, diag);
    if (status != NEAP_OK)
        return status;
    before = graph;
    status = neap_graph_split(&graph, 100, diag);
    assert_true((graph == before) == (status != NEAP_OK));
    neap_graph_destroy(graph);
    return status;
}

typedef struct run_subject {
    const neap_graph *graph;
    const neap_plan *plan;
    neap_backend *backend;
} run_subject;

static neap_status create_runner(const void *subject, neap_allocator *allocator, neap_diag *diag)
{
    const run_subject *s = subject;
    neap_runner *runner = NULL;
    neap_status status =
        neap_runner_create(allocator, s->graph, s->plan, s->backend, NULL, &runner, diag);
    neap_runner_destroy(runner);
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    random_source random = {4};
    neap_diag diag;
    assert_true(torture_memory(split_small, small, 1) > 10);
    run_subject s = {.backend = opened_backend("null", 1)};
    neap_graph *graph = small_network_build(small_networks_find("unet"), NEAP_OPTIMIZER_NONE);
    assert_int_equal(neap_backend_fit(s.backend, graph, &diag), NEAP_OK);
    assert_int_equal(neap_graph_split(&graph, 4096, &diag), NEAP_OK);
    neap_plan *plan = random_plan(&random, graph, neap_graph_op_count(graph), true);
    place(graph, plan);
    s.graph = graph;
    s.plan = plan;
    assert_true(torture_memory(create_runner, &s, 23) > 10);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
    neap_backend_close(s.backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),      cmocka_unit_test(test_nothing_to_split),
        cmocka_unit_test(test_errors),     cmocka_unit_test(test_plans_can_be_lifted),
        cmocka_unit_test(test_least_time), cmocka_unit_test(test_runs),
        cmocka_unit_test(test_odd_pieces), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
