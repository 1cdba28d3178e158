/*
 * sequence_search: trimming keeps the order of runs and the budget, and no further run can be
 * removed; repaired sequences have Checkmate's form.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=30000 test_sequence_search     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bare_planner.h"
#include "base/memory.h"
#include "failing_allocator.h"
#include "planners/neap/problem.h"
#include "planners/neap/sequence_search.h"
#include "random_frontiers.h"
#include "random_training.h"
#include "settings.h"
#include "small_graphs.h"

#include <neap/check.h>
#include <neap/solve.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHARE ONE_IN(5)

static neap_graph *draw_graph(random_source *random)
{
    return random_below(random, 3) ? random_training_graph(random, 8, false)
                                   : random_graph(random, 16);
}

/* In frontiers, or in any legal order. The caller frees it. */
static uint32_t *draw_sequence(random_source *random, const neap_graph *graph, size_t *length)
{
    if (random_below(random, 2))
        return random_frontiers(random, graph, length);
    neap_plan *plan = random_plan(random, graph, random_below(random, 60), false);
    size_t n_steps = neap_plan_step_count(plan);
    uint32_t *ops = malloc((n_steps + 1) * sizeof *ops);
    assert_non_null(ops);
    *length = 0;
    for (size_t s = 0; s < n_steps; s++)
        if (neap_plan_steps(plan)[s].kind == NEAP_COMPUTE)
            ops[(*length)++] = neap_plan_steps(plan)[s].id;
    neap_plan_destroy(plan);
    return ops;
}

/* Each op's variant of the least workspace, the fastest of those. The caller frees them. */
static uint32_t *leanest_variants(const neap_graph *graph)
{
    uint32_t n_ops = neap_graph_op_count(graph);
    uint32_t *variants = calloc(n_ops + (size_t)1, sizeof *variants);
    assert_non_null(variants);
    for (uint32_t o = 0; o < n_ops; o++) {
        const neap_op *op = neap_graph_op(graph, o);
        for (uint32_t q = 1; q < op->n_variants; q++) {
            const neap_variant *a = &op->variants[q], *b = &op->variants[variants[o]];
            if (a->workspace < b->workspace ||
                (a->workspace == b->workspace && a->ticks < b->ticks))
                variants[o] = q;
        }
    }
    return variants;
}

static neap_verdict judge(const neap_graph *graph, const uint32_t *ops, size_t length)
{
    uint32_t *variants = leanest_variants(graph);
    neap_verdict verdict = judge_sequence(graph, ops, length, variants);
    free(variants);
    return verdict;
}

/* A compute sequence that the library made. */
typedef struct op_list {
    uint32_t *ops;
    size_t length, capacity;
} op_list;

static void clear_list(neap_allocator *allocator, op_list *list)
{
    NEAP_DELETE(allocator, list->capacity, list->ops);
    *list = (op_list){0};
}

/* What the search sees of the graph. */
static void open_problem(problem *x, const neap_graph *graph)
{
    neap_request request;
    neap_request_init(&request, graph, "bare");
    assert_int_equal(neap_problem_init(x, neap_allocator_system(), &request, NULL), NEAP_OK);
}

/* Free views are made where they are needed; all else stands where it stood. */
static bool is_free_view(const problem *x, uint32_t op)
{
    return x->task_of_op[op] == NEAP_NONE;
}

/* A view that costs time is not made again, nor what it lies on: other plans are not looked at. */
static bool has_costly_views(const problem *x)
{
    for (uint32_t t = 0; t < x->n_tensors; t++)
        if (!tensor_can_recompute(x, t))
            return true;
    return false;
}

/* ---- Trimming ---- */

static neap_status trim(neap_allocator *allocator, const neap_graph *graph, int64_t budget,
                        const uint32_t *ops, size_t length, op_list *trimmed)
{
    bare_planner b;
    sequence_search *search = NULL;
    bare_planner_init(&b, graph, budget);
    b.p.allocator = allocator;
    neap_status status = neap_sequence_search_create(&b.p, budget, NULL, NULL, &search, NULL);
    if (status == NEAP_OK)
        status = neap_sequence_search_load(search, ops, length, NULL);
    if (status == NEAP_OK)
        status = neap_sequence_search_trim(search, NULL);
    if (status == NEAP_OK)
        status = neap_sequence_search_list(search, &trimmed->ops, &trimmed->length,
                                           &trimmed->capacity, NULL);
    neap_sequence_search_destroy(search);
    return status;
}

/* Whether the one is the other with some entries left out, but none that is the first of its op. */
static bool is_part(const problem *x, const op_list *part, const uint32_t *whole, size_t length)
{
    bool *seen = calloc(neap_graph_op_count(x->graph) + (size_t)1, sizeof *seen);
    size_t at = 0;
    bool good = true;
    assert_non_null(seen);
    for (size_t i = 0; i < length; i++) {
        while (at < part->length && is_free_view(x, part->ops[at]))
            at++;
        if (is_free_view(x, whole[i]))
            continue;
        bool taken = at < part->length && part->ops[at] == whole[i];
        good = good && (taken || seen[whole[i]]);
        seen[whole[i]] = true;
        at += taken;
    }
    while (at < part->length && is_free_view(x, part->ops[at]))
        at++;
    free(seen);
    return good && at == part->length;
}

static void check_trimmed(const neap_graph *graph, int64_t budget, const uint32_t *before,
                          size_t length, const op_list *after)
{
    neap_verdict old = judge(graph, before, length);
    neap_verdict new = judge(graph, after->ops, after->length);
    problem x;
    open_problem(&x, graph);
    assert_true(is_part(&x, after, before, length));
    assert_true(new.ticks <= old.ticks);
    assert_true(new.peak_bytes <= (old.peak_bytes > budget ? old.peak_bytes : budget) ||
                has_costly_views(&x));
    if (budget == INT64_MAX)
        assert_int_equal(after->length, neap_graph_op_count(graph));
    neap_problem_clear(&x);
}

/* From one byte too few to what all first runs together need. */
static int64_t draw_budget(random_source *random, const neap_graph *graph, int64_t peak)
{
    int64_t least = neap_graph_floor_bytes(graph, NULL) - 1, natural = peak;
    switch (random_below(random, 4)) {
    case 0:
        return INT64_MAX;
    case 1:
        return peak;
    case 2:
        return peak - 1;
    default:
        assert_int_equal(neap_natural_peak(NULL, graph, &natural, NULL), NEAP_OK);
        natural = natural > least ? natural : least;
        return least + random_below(random, (uint32_t)(natural - least) + 1);
    }
}

static bool has_variants(const neap_graph *graph)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (neap_graph_op(graph, o)->n_variants > 1)
            return true;
    return false;
}

static void test_trim(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240912)};
    uint64_t count = setting("NEAP_TEST_COUNT", 10000 / SHARE), shorter = 0, longer = 0;
    neap_allocator *system = neap_allocator_system();
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = draw_graph(&random);
        size_t length;
        uint32_t *before = draw_sequence(&random, graph, &length);
        int64_t budget = draw_budget(&random, graph, judge(graph, before, length).peak_bytes);
        op_list after = {0}, twice = {0};
        assert_int_equal(trim(system, graph, budget, before, length, &after), NEAP_OK);
        check_trimmed(graph, budget, before, length, &after);
        shorter += after.length < length;
        longer += after.length > neap_graph_op_count(graph);
        assert_int_equal(trim(system, graph, budget, after.ops, after.length, &twice), NEAP_OK);
        /* A faster kernel may have come first and taken a run's room. */
        assert_true(twice.length == after.length ||
                    (has_variants(graph) && twice.length < after.length));
        clear_list(system, &after);
        clear_list(system, &twice);
        free(before);
        neap_graph_destroy(graph);
    }
    print_message("%" PRIu64 " are shorter, %" PRIu64 " still run ops again\n", shorter, longer);
    assert_true(shorter > count / 3 && longer > count / 20);
}

/* ---- By hand ---- */

/* x 10 -> a 100 -> b 50 -> c 100; a and c -> d 10: 260 bytes at c, or 220 if a is recomputed. */
static const char detour_graph[] =
    "{'neap':'graph','version':1,'values':[{'bytes':10},{'bytes':100},{'bytes':50},{'bytes':100},"
    "{'bytes':10}],'ops':[{'inputs':[0],'outputs':[1],'time':1},{'inputs':[1],'outputs':[2],"
    "'time':1},{'inputs':[2],'outputs':[3],'time':1},{'inputs':[1,3],'outputs':[4],'time':1}],"
    "'outputs':[4]}";

static void expect_trim(const neap_graph *graph, int64_t budget, const char *before,
                        const char *after)
{
    uint32_t ops[16];
    char text[17] = "";
    op_list trimmed = {0};
    size_t length = strlen(before);
    for (size_t i = 0; i < length; i++)
        ops[i] = (uint32_t)(before[i] - '0');
    assert_int_equal(trim(neap_allocator_system(), graph, budget, ops, length, &trimmed), NEAP_OK);
    assert_in_range(trimmed.length, 0, 16);
    for (size_t i = 0; i < trimmed.length; i++)
        text[i] = (char)('0' + trimmed.ops[i]);
    assert_string_equal(text, after);
    clear_list(neap_allocator_system(), &trimmed);
}

static void test_by_hand(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(detour_graph);
    expect_trim(graph, 260, "0123", "0123");
    expect_trim(graph, 260, "01203", "0123");
    expect_trim(graph, 259, "01203", "01203");
    expect_trim(graph, 220, "01203", "01203");
    expect_trim(graph, 220, "0101201203", "01203"); /* the first of these runs are for nobody */
    expect_trim(graph, 1, "012013", "012013");      /* too much in any case */
    expect_trim(graph, INT64_MAX, "0101201203", "0123");
    expect_trim(graph, 320, "01230", "0123"); /* nothing reads it after the end */
    neap_graph_destroy(graph);
}

/* ---- Making it fit ---- */

/* First runs in the graph's order, and between two of them each task at most once, in that order.
 */
static bool has_form(const problem *x, const uint32_t *ops, size_t length)
{
    uint32_t frontier = 0, least = 0; /* least: of what may run before the frontier's task */
    for (size_t i = 0; i < length; i++) {
        uint32_t task = x->task_of_op[ops[i]];
        if (task == NEAP_NONE)
            continue;
        if (task > frontier || task < least)
            return false;
        least = task < frontier ? task + 1 : 0;
        frontier += task == frontier;
    }
    return true;
}

/* A search within a budget that is somewhere below the peak of `ops`; from these ops, or not. */
static sequence_search *fit(const planner *p, const uint32_t *ops, size_t length)
{
    sequence_search *search;
    assert_int_equal(neap_sequence_search_create(p, p->budget, NULL, NULL, &search, NULL), NEAP_OK);
    assert_true(neap_sequence_search_ticks(search) == INT64_MAX);
    if (ops)
        assert_int_equal(neap_sequence_search_load(search, ops, length, NULL), NEAP_OK);
    assert_int_equal(neap_sequence_search_fit(search, NULL), NEAP_OK);
    assert_int_equal(neap_sequence_search_improve(search, 20, NULL), NEAP_OK);
    return search;
}

static void test_fit(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240913)};
    uint64_t count = setting("NEAP_TEST_COUNT", 3000 / SHARE), loaded = 0, hard = 0;
    uint64_t fitted = 0;
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = draw_graph(&random);
        size_t length;
        uint32_t *ops = random_frontiers(&random, graph, &length);
        int64_t least = neap_graph_floor_bytes(graph, NULL);
        int64_t peak = judge(graph, ops, length).peak_bytes;
        bare_planner b;
        op_list list = {0};
        bare_planner_init(&b, graph, least + random_below(&random, (uint32_t)(peak - least) + 1));
        problem x;
        open_problem(&x, graph);
        /* Without free views two of the frontiers may be one, in which an op runs twice. */
        bool load = random_below(&random, 2) && has_form(&x, ops, length);
        loaded += load;
        sequence_search *search = fit(&b.p, load ? ops : NULL, length);
        assert_int_equal(
            neap_sequence_search_list(search, &list.ops, &list.length, &list.capacity, NULL),
            NEAP_OK);
        assert_true(has_form(&x, list.ops, list.length));
        hard += b.p.budget < peak;
        fitted += b.p.budget < peak && judge(graph, list.ops, list.length).peak_bytes <= b.p.budget;
        clear_list(neap_allocator_system(), &list);
        neap_sequence_search_destroy(search);
        neap_problem_clear(&x);
        free(ops);
        neap_graph_destroy(graph);
    }
    print_message("%" PRIu64 " of %" PRIu64 " were made to fit\n", fitted, hard);
    assert_true(loaded > count / 8 && hard > count / 4 && fitted > hard / 2);
}

static void test_failing(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(detour_graph);
    bool failed = true;
    for (size_t from = 0; failed; from++) {
        const uint32_t ops[] = {0, 1, 2, 0, 1, 3};
        op_list trimmed = {0};
        failing_allocator memory;
        failing_allocator_init(&memory);
        memory.fail_from = from;
        memory.fail_end = from + 1;
        neap_status status = trim(&memory.base, graph, 260, ops, 6, &trimmed);
        clear_list(&memory.base, &trimmed);
        failed = memory.failed;
        assert_int_equal(status, failed ? NEAP_NO_MEMORY : NEAP_OK);
        assert_null(memory.fault);
        assert_int_equal(memory.live_blocks, 0);
    }
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trim),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
