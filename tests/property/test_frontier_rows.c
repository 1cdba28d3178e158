/*
 * frontier_rows: each row is the smallest possible set of ops, found by trying all sets;
 * consecutive rows form a legal plan; a row examines no more than it must; failures change nothing.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=10000 test_frontier_rows     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_allocator.h"
#include "planners/checkmate/frontier_rows.h"
#include "random_training.h"
#include "settings.h"
#include "small_graphs.h"

#include <neap/check.h>
#include <neap/models.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- One row, against all sets of ops ---- */

enum { MOST_OPS = 12, MOST_VALUES = 128 };

typedef struct question {
    const neap_graph *graph;
    uint32_t op;
    bool before[MOST_VALUES];
    uint32_t wanted[2 * MOST_VALUES];
    size_t n_wanted;
} question;

static uint32_t maker_of(const question *q, uint32_t value)
{
    return neap_graph_value(q->graph, value)->producer;
}

/* Whether there is a value when the ops of a set (bit by bit) run. */
static bool is_there(const question *q, uint32_t set, uint32_t value)
{
    uint32_t maker = maker_of(q, value);
    return maker == NEAP_NONE || q->before[value] || (set >> maker & 1);
}

static bool is_enough(const question *q, uint32_t set)
{
    if (!(set >> q->op & 1))
        return false;
    for (size_t i = 0; i < q->n_wanted; i++)
        if (!is_there(q, set, q->wanted[i]))
            return false;
    for (uint32_t o = 0; o <= q->op; o++) {
        const neap_op *op = neap_graph_op(q->graph, o);
        for (uint32_t i = 0; (set >> o & 1) && i < op->n_inputs; i++)
            if (!is_there(q, set, op->inputs[i]))
                return false;
    }
    return true;
}

static uint32_t size_of(uint32_t set)
{
    uint32_t size = 0;
    for (; set; set >>= 1)
        size += set & 1;
    return size;
}

static uint32_t least_size(const question *q)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t set = 0; set < UINT32_C(2) << q->op; set++)
        if (size_of(set) < least && is_enough(q, set))
            least = size_of(set);
    return least;
}

/* Any op; of what it and the ops before it make, anything may be there or wanted, some of it twice.
 */
static question random_question(random_source *random, const neap_graph *graph)
{
    question q = {.graph = graph, .op = random_below(random, neap_graph_op_count(graph))};
    uint32_t there = random_below(random, 101), wanted = random_below(random, 60);
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        uint32_t maker = maker_of(&q, v);
        if (maker != NEAP_NONE)
            q.before[v] = maker < q.op && random_below(random, 100) < there;
        for (int i = 0; i < 2; i++)
            if ((maker == NEAP_NONE || maker <= q.op) && random_below(random, 100) < wanted)
                q.wanted[q.n_wanted++] = v;
    }
    return q;
}

static frontier_row row_of(const question *q)
{
    return (frontier_row){.op = q->op,
                          .is_resident = neap_frontier_residence_of_bools,
                          .context = q->before,
                          .wanted = q->wanted,
                          .n_wanted = q->n_wanted};
}

static void check_row(const question *q, const frontier_rows *rows)
{
    uint32_t set = 0;
    for (size_t at = rows->last_row; at < rows->length; at++) {
        assert_true(at == rows->last_row || rows->sequence[at - 1] < rows->sequence[at]);
        set |= UINT32_C(1) << rows->sequence[at];
    }
    assert_int_equal(rows->sequence[rows->length - 1], q->op);
    assert_true(is_enough(q, set));
    assert_int_equal(rows->length - rows->last_row, least_size(q));
}

static void test_least_rows(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240701)};
    uint64_t count = setting("NEAP_TEST_COUNT", 400);
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = i % 2 ? random_graph(&random, MOST_OPS)
                                  : random_training_graph(&random, MOST_OPS / 2 - 1, false);
        assert_true(neap_graph_op_count(graph) <= MOST_OPS);
        assert_true(neap_graph_value_count(graph) <= MOST_VALUES);
        frontier_rows rows;
        assert_int_equal(neap_frontier_rows_init(&rows, NULL, graph, NULL), NEAP_OK);
        for (int k = 0; k < 10; k++) { /* one after the other: marks of old rows do not matter */
            question q = random_question(&random, graph);
            frontier_row row = row_of(&q);
            assert_int_equal(neap_frontier_rows_append(&rows, &row, NULL), NEAP_OK);
            check_row(&q, &rows);
            if (k == 5)
                neap_frontier_rows_restart(&rows);
        }
        neap_frontier_rows_clear(&rows);
        neap_frontier_rows_clear(&rows);
        neap_graph_destroy(graph);
    }
}

/* ---- All rows ---- */

/* What the next frontier finds: some of what there could be. */
static void draw_next(random_source *random, question *q, bool *next)
{
    uint32_t share = random_below(random, 101);
    q->n_wanted = 0;
    for (uint32_t v = 0; v < neap_graph_value_count(q->graph); v++) {
        uint32_t maker = maker_of(q, v);
        next[v] = maker != NEAP_NONE && maker <= q->op && random_below(random, 100) < share;
        if (next[v])
            q->wanted[q->n_wanted++] = v;
    }
}

/* Whatever S says, R makes a plan of it that the judge accepts. */
static void test_rows_make_a_plan(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240702)};
    uint64_t count = setting("NEAP_TEST_COUNT", 2000);
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = i % 2 ? random_graph(&random, 2 * MOST_OPS)
                                  : random_training_graph(&random, MOST_OPS, false);
        frontier_rows rows;
        question q = {.graph = graph};
        bool next[MOST_VALUES];
        neap_plan *plan;
        neap_verdict verdict;
        neap_diag diag;
        assert_true(neap_graph_value_count(graph) <= MOST_VALUES);
        assert_int_equal(neap_frontier_rows_init(&rows, NULL, graph, NULL), NEAP_OK);
        for (q.op = 0; q.op < neap_graph_op_count(graph); q.op++) {
            draw_next(&random, &q, next);
            frontier_row row = row_of(&q);
            assert_int_equal(neap_frontier_rows_append(&rows, &row, NULL), NEAP_OK);
            memcpy(q.before, next, sizeof q.before);
        }
        if (neap_plan_from_sequence(NULL, graph, rows.sequence, rows.length, NULL, "rows", -1,
                                    &plan, &diag) != NEAP_OK)
            fail_msg("%s", diag.message);
        assert_int_equal(neap_check(NULL, graph, plan, NULL, &verdict, NULL), NEAP_OK);
        if (!verdict.accepted)
            fail_msg("%s", verdict.reason);
        neap_plan_destroy(plan);
        neap_frontier_rows_clear(&rows);
        neap_graph_destroy(graph);
    }
}

/* ---- What a row costs ---- */

typedef struct counter {
    const bool *before;
    uint64_t *asked;
} counter;

static bool count_and_tell(const void *context, uint32_t value)
{
    const counter *c = context;
    ++*c->asked;
    return c->before[value];
}

/* Residence is asked once a read of the ops that run and once a wanted value, however many ops and
 * rows there are. */
static void test_rows_look_at_little(void **state)
{
    (void)state;
    neap_model_setting layers = {"layers", 100000};
    neap_model_options options;
    neap_graph *graph;
    neap_model_options_init(&options);
    options.n_settings = 1;
    options.settings = &layers;
    assert_int_equal(neap_model_build(NULL, neap_models_find("chain"), &options, &graph, NULL),
                     NEAP_OK);
    uint32_t n_ops = neap_graph_op_count(graph), n_values = neap_graph_value_count(graph);
    bool *before = calloc(n_values, sizeof *before);
    frontier_rows rows;
    assert_non_null(before);
    assert_int_equal(neap_frontier_rows_init(&rows, NULL, graph, NULL), NEAP_OK);
    uint64_t asked = 0, reads = 0;
    const counter c = {before, &asked};
    for (uint32_t o = 0; o < n_ops; o++) {
        const neap_op *op = neap_graph_op(graph, o);
        frontier_row row = {.op = o, .is_resident = count_and_tell, .context = &c};
        assert_int_equal(neap_frontier_rows_append(&rows, &row, NULL), NEAP_OK);
        assert_int_equal(rows.length, o + 1);
        reads += op->n_inputs;
        for (uint32_t i = 0; i < op->n_outputs; i++)
            before[op->outputs[i]] = true;
    }
    assert_true(asked <= reads);
    free(before);
    neap_frontier_rows_clear(&rows);
    neap_graph_destroy(graph);
}

/* ---- By hand ---- */

/* a makes b and its mask; c reads b, d the mask and c. */
static const char masked_graph[] =
    "{'neap':'graph','version':1,'values':[{'bytes':1},{'bytes':1},{'bytes':1},{'bytes':0,"
    "'view_of':1},{'bytes':1},{'bytes':1}],'ops':[{'inputs':[0],'outputs':[1,2],'time':1},"
    "{'inputs':[1],'outputs':[3],'time':1},{'inputs':[3],'outputs':[4],'time':1},"
    "{'inputs':[2,4],'outputs':[5],'time':1}],'outputs':[5]}";

static void expect_row(const char *resident, const char *wanted, uint32_t op, const char *expected)
{
    neap_graph *graph = graph_from(masked_graph);
    question q = {.graph = graph, .op = op};
    char text[32] = "";
    frontier_rows rows;
    for (; *resident; resident++)
        q.before[*resident - '0'] = true;
    for (; *wanted; wanted++)
        q.wanted[q.n_wanted++] = (uint32_t)(*wanted - '0');
    frontier_row row = row_of(&q);
    assert_int_equal(neap_frontier_rows_init(&rows, NULL, graph, NULL), NEAP_OK);
    assert_int_equal(neap_frontier_rows_append(&rows, &row, NULL), NEAP_OK);
    for (size_t at = 0; at < rows.length; at++)
        text[at] = (char)('0' + rows.sequence[at]);
    assert_string_equal(text, expected);
    neap_frontier_rows_clear(&rows);
    neap_graph_destroy(graph);
}

static void test_by_hand(void **state)
{
    (void)state;
    expect_row("", "", 0, "0"); /* the input is always there */
    expect_row("", "", 3, "0123");
    expect_row("24", "", 3, "3");
    expect_row("2", "", 3, "0123"); /* residence is of values: the mask is there, b is not */
    expect_row("12", "", 3, "123"); /* and so is the storage of 3, but 3 is not */
    expect_row("23", "", 3, "23");
    expect_row("4", "", 3, "03"); /* the mask alone: its op, not what reads b */
    expect_row("24", "3", 3, "013");
    expect_row("24", "55", 3, "3");
    expect_row("1", "2", 1, "01"); /* made again though b is there */
}

static void test_wrong_and_failing(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(masked_graph);
    question q = {.graph = graph, .op = 1, .wanted = {5}, .n_wanted = 1};
    frontier_row row = row_of(&q);
    failing_allocator memory;
    frontier_rows rows;
    neap_diag diag = {0};
    failing_allocator_init(&memory);
    assert_int_equal(neap_frontier_rows_init(&rows, &memory.base, graph, NULL), NEAP_OK);
    assert_int_equal(neap_frontier_rows_append(&rows, &row, &diag), NEAP_INVALID);
    assert_string_equal(diag.message, "value 5 \"v5\" is wanted behind op 1, but made by op 3");
    assert_int_equal(rows.length, 0);
    row.n_wanted = 0;
    for (int i = 0; i < 4; i++) /* 8 entries: the next row does not fit */
        assert_int_equal(neap_frontier_rows_append(&rows, &row, &diag), NEAP_OK);
    assert_int_equal(rows.length, 8);
    memory.fail_from = 0;
    assert_int_equal(neap_frontier_rows_append(&rows, &row, &diag), NEAP_NO_MEMORY);
    assert_int_equal(rows.length, 8);
    assert_int_equal(rows.last_row, 6);
    memory.fail_from = SIZE_MAX;
    assert_int_equal(neap_frontier_rows_append(&rows, &row, &diag), NEAP_OK);
    assert_int_equal(rows.length, 10);
    assert_int_equal(rows.last_row, 8);
    neap_frontier_rows_clear(&rows);
    memory.fail_from = 0;
    assert_int_equal(neap_frontier_rows_init(&rows, &memory.base, graph, NULL), NEAP_NO_MEMORY);
    neap_frontier_rows_clear(&rows);
    assert_null(memory.fault);
    assert_int_equal(memory.live_blocks, 0);
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least_rows),          cmocka_unit_test(test_rows_make_a_plan),
        cmocka_unit_test(test_rows_look_at_little), cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_wrong_and_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
