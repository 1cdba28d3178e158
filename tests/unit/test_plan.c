/*
 * Plans: the list of steps, plan files, and plans made from compute sequences: frees are where they
 * belong, and nothing stays resident longer than necessary. The judge checks all of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_training.h"
#include "run_command.h"
#include "small_graphs.h"

#include <neap/check.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- The list ---- */

static void test_plan(void **state)
{
    (void)state;
    neap_plan *plan;
    size_t count = 77;
    assert_int_equal(neap_plan_create(NULL, "g", "m", 5, &plan, NULL), NEAP_OK);
    assert_string_equal(neap_plan_graph_name(plan), "g");
    assert_string_equal(neap_plan_method(plan), "m");
    assert_int_equal(neap_plan_budget(plan), 5);
    assert_int_equal(neap_plan_step_count(plan), 0);
    assert_null(neap_plan_offsets(plan, &count));
    assert_int_equal(count, 0);
    assert_int_equal(neap_plan_arena_bytes(plan), -1);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(neap_plan_append(plan, (neap_step){i % 4, i, i % 4 ? 0 : i, false}, NULL),
                         NEAP_OK);
    assert_int_equal(neap_plan_step_count(plan), 1000);
    for (uint32_t i = 0; i < 1000; i++) {
        const neap_step *step = &neap_plan_steps(plan)[i];
        assert_true(step->kind == i % 4 && step->id == i && step->variant == (i % 4 ? 0 : i));
    }
    const int64_t offsets[] = {3, 1, 2};
    assert_int_equal(neap_plan_set_offsets(plan, offsets, 3, 99, NULL), NEAP_OK);
    assert_memory_equal(neap_plan_offsets(plan, &count), offsets, sizeof offsets);
    assert_int_equal(count, 3);
    assert_int_equal(neap_plan_arena_bytes(plan), 99);
    assert_int_equal(neap_plan_set_offsets(plan, NULL, 0, 5, NULL), NEAP_OK);
    assert_null(neap_plan_offsets(plan, &count));
    assert_int_equal(neap_plan_arena_bytes(plan), -1);
    neap_plan_destroy(plan);
    neap_plan_destroy(NULL);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(neap_step_kind_name(NEAP_COMPUTE), "compute");
    assert_string_equal(neap_step_kind_name(NEAP_FREE), "free");
    assert_string_equal(neap_step_kind_name(NEAP_OFFLOAD), "offload");
    assert_string_equal(neap_step_kind_name(NEAP_PREFETCH), "prefetch");
    assert_string_equal(neap_step_kind_name((neap_step_kind)9), "unknown");
}

/* ---- Files ---- */

static neap_status read_plan(const char *json, neap_plan **plan, neap_diag *diag)
{
    size_t length = strlen(json);
    char *text = malloc(length + (length == 0));
    assert_non_null(text);
    for (size_t i = 0; i < length; i++)
        text[i] = json[i] == '\'' ? '"' : json[i];
    *plan = (neap_plan *)text;
    neap_status status = neap_plan_read_text(NULL, text, length, "t", plan, diag);
    free(text);
    return status;
}

static void check_round_trip(const neap_plan *plan)
{
    char *first, *second;
    size_t first_length, second_length, n, m;
    neap_plan *again;
    neap_diag diag = {0};
    assert_int_equal(neap_plan_write_text(plan, NULL, &first, &first_length, NULL), NEAP_OK);
    assert_int_equal(first[first_length], '\0');
    if (neap_plan_read_text(NULL, first, first_length, "again", &again, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_string_equal(neap_plan_graph_name(again), neap_plan_graph_name(plan));
    assert_string_equal(neap_plan_method(again), neap_plan_method(plan));
    assert_int_equal(neap_plan_budget(again), neap_plan_budget(plan));
    assert_int_equal(neap_plan_arena_bytes(again), neap_plan_arena_bytes(plan));
    assert_int_equal(neap_plan_step_count(again), neap_plan_step_count(plan));
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        neap_step a = neap_plan_steps(plan)[i], b = neap_plan_steps(again)[i];
        assert_true(a.kind == b.kind && a.id == b.id && a.variant == b.variant);
    }
    const int64_t *offsets = neap_plan_offsets(plan, &n), *others = neap_plan_offsets(again, &m);
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(offsets[i], others[i]);
    assert_int_equal(neap_plan_write_text(again, NULL, &second, &second_length, NULL), NEAP_OK);
    assert_int_equal(first_length, second_length);
    assert_memory_equal(first, second, first_length);
    neap_plan_destroy(again);
    neap_release(NULL, first, first_length + 1);
    neap_release(NULL, second, second_length + 1);
}

static void expect_written(const char *json, const char *expected)
{
    neap_plan *plan;
    neap_diag diag = {0};
    char *text;
    size_t length;
    if (read_plan(json, &plan, &diag) != NEAP_OK)
        fail_msg("%s: %s", json, diag.message);
    assert_int_equal(neap_plan_write_text(plan, NULL, &text, &length, NULL), NEAP_OK);
    for (char *c = text; *c; c++)
        *c = *c == '"' ? '\'' : *c;
    assert_string_equal(text, expected);
    neap_release(NULL, text, length + 1);
    check_round_trip(plan);
    neap_plan_destroy(plan);
}

static void test_written_form(void **state)
{
    (void)state;
    expect_written("{'neap':'plan','version':1,'steps':[]}",
                   "{'neap':'plan','version':1,'graph':'','method':'',\n'steps':[]}\n");
    expect_written(
        "{'steps' : [['compute', 0, 1], ['compute',1,0], ['free',1e0], ['offload',2], "
        "['prefetch',4294967294], ['free',3], ['free',4], ['free',5], ['free',6]],"
        "'budget_bytes':0, 'method':'m', 'graph':'g', 'arena_bytes':9, 'offsets':[0, 5],"
        "'other':{'kept':false},'version':1,'neap':'plan'}",
        "{'neap':'plan','version':1,'graph':'g','method':'m','budget_bytes':0,\n'steps':[\n"
        "['compute',0,1],['compute',1],['free',1],['offload',2],['prefetch',4294967294],"
        "['free',3],['free',4],['free',5],\n['free',6]],\n'arena_bytes':9,\n'offsets':[0,5]}\n");
    expect_written("{'neap':'plan','version':1,'steps':[],'budget_bytes':null,'offsets':null,"
                   "'arena_bytes':null}",
                   "{'neap':'plan','version':1,'graph':'','method':'',\n'steps':[]}\n");
    expect_written("{'neap':'plan','version':1,'steps':[],'offsets':[],'arena_bytes':7,"
                   "'graph':'\\n\\u00e9','method':'\\\\'}",
                   "{'neap':'plan','version':1,'graph':'\\n\xc3\xa9','method':'\\\\',\n"
                   "'steps':[]}\n");
}

static void test_refused(void **state)
{
    (void)state;
#define STEPS(steps) "{'neap':'plan','version':1,'steps':[" steps "]}"
    static const char *const cases[][2] = {
        {"", "t:1:1: the text ends where an object '{' was expected; the file is cut off"},
        {"[]", "t:1:1: expected an object '{'"},
        {"{}", "t:1:3: the file has no \"neap\": \"plan\""},
        {"{'neap':'graph'}", "t:1:9: this is a file of kind \"graph\", not \"plan\""},
        {"{'neap':'plan','version':2}",
         "t:1:26: this is version 2 of the format; only version 1 is known"},
        {"{'neap':'plan','version':1}", "t:1:28: the plan has no \"steps\""},
        {STEPS("") "x", "t:1:39: unexpected text after the end of the object"},
        {STEPS("5"), "t:1:37: expected an array '['"},
        {STEPS("{}"), "t:1:37: expected an array '['"},
        {STEPS("[]"),
         "t:1:39: a step must have the form [\"compute\", op], [\"free\", value], ..."},
        {STEPS("['compute']"),
         "t:1:48: a step must have the form [\"compute\", op], [\"free\", value], ..."},
        {STEPS("['free']"),
         "t:1:45: a step must have the form [\"compute\", op], [\"free\", value], ..."},
        {STEPS("['jump',1]"),
         "t:1:44: a step must be \"compute\", \"free\", \"offload\" or \"prefetch\""},
        {STEPS("['Compute',1]"),
         "t:1:47: a step must be \"compute\", \"free\", \"offload\" or \"prefetch\""},
        {STEPS("['',1]"),
         "t:1:40: a step must be \"compute\", \"free\", \"offload\" or \"prefetch\""},
        {STEPS("[1,'compute']"), "t:1:38: expected a string"},
        {STEPS("['compute','0']"), "t:1:48: expected a number"},
        {STEPS("['compute',-1]"), "t:1:48: expected a number from 0 to 4294967294, not -1"},
        {STEPS("['compute',4294967295]"),
         "t:1:48: expected a number from 0 to 4294967294, not 4294967295"},
        {STEPS("['compute',0.5]"), "t:1:48: expected a whole number"},
        {STEPS("['compute',0,-1]"), "t:1:50: expected a number from 0 to 4294967294, not -1"},
        {STEPS("['compute',0,null]"), "t:1:50: expected a number"},
        {STEPS("['compute',0,1,2]"), "t:1:52: expected a string"},
        {STEPS("['compute',0,1,'now']"),
         "t:1:57: after the variant of a computation only \"in_place\" may follow"},
        {STEPS("['compute',0,1,'in_place',2]"),
         "t:1:63: too many items in a step of kind \"compute\""},
        {STEPS("['free',1,2]"), "t:1:47: too many items in a step of kind \"free\""},
        {STEPS("['offload',1,0]"), "t:1:50: too many items in a step of kind \"offload\""},
        {STEPS("['free',1],"), "t:1:48: remove the comma before ']'"},
        {STEPS("\n['free',1]\n['free',2]"), "t:3:1: expected ',' or ']'"},
        {"{'neap':'plan','steps':[],'steps':[]}", "t:1:35: \"steps\" is given twice"},
        {"{'neap':'plan','budget_bytes':-1}",
         "t:1:33: \"budget_bytes\" may not be negative; leave it out for no budget"},
        {"{'neap':'plan','budget_bytes':'8GiB'}", "t:1:31: expected a number"},
        {"{'neap':'plan','budget_bytes':9223372036854775808}",
         "t:1:31: number too large: at most 9223372036854775807"},
        {"{'neap':'plan','graph':1}", "t:1:24: expected a string"},
        {"{'neap':'plan','offsets':{}}", "t:1:26: expected an array '['"},
        {"{'neap':'plan','offsets':[1.5]}", "t:1:27: expected a whole number"},
        {"{'neap':'plan','version':1,'steps':[],'offsets':[1]}",
         "t:1:53: a plan with \"offsets\" needs \"arena_bytes\""},
        {"{'neap':'plan','version':1,'steps':[],'offsets':[1],'arena_bytes':-2}",
         "t:1:70: a plan with \"offsets\" needs \"arena_bytes\""},
        {"{'neap':'plan','graph':'\\u0000'}", "t:1:31: a string may not contain a NUL"},
    };
#undef STEPS
    int wrong = 0;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        neap_plan *plan;
        neap_diag diag = {0};
        if (read_plan(cases[i][0], &plan, &diag) != NEAP_INVALID)
            fail_msg("accepted: %s", cases[i][0]);
        assert_null(plan);
        assert_int_equal(diag.status, NEAP_INVALID);
        if (strcmp(diag.message, cases[i][1]) != 0) {
            print_error("%s\n  says     %s\n  expected %s\n", cases[i][0], diag.message,
                        cases[i][1]);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static void test_version_is_required(void **state)
{
    (void)state;
    neap_plan *plan;
    neap_diag diag = {0};
    neap_status status = read_plan("{'neap':'plan','steps':[]}", &plan, &diag);
    neap_plan_destroy(plan);
    assert_int_equal(status, NEAP_INVALID);
    assert_non_null(strstr(diag.message, "\"version\""));
}

static void test_random_round_trip(void **state)
{
    (void)state;
    random_source random = {20240610};
    print_message("seed %llu\n", (unsigned long long)random.state);
    for (int i = 0; i < 200; i++) {
        neap_graph *graph = random_graph(&random, 20);
        neap_plan *plan = random_plan(&random, graph, 60, true);
        int64_t offsets[40];
        for (size_t k = 0; k < COUNT_OF(offsets); k++)
            offsets[k] = (int64_t)random_below(&random, 1000) << random_below(&random, 50);
        assert_int_equal(
            neap_plan_set_offsets(plan, offsets, random_below(&random, 40), INT64_MAX, NULL),
            NEAP_OK);
        check_round_trip(plan);
        neap_plan_destroy(plan);
        neap_graph_destroy(graph);
    }
}

static void test_files(void **state)
{
    (void)state;
    char *folder = make_temporary_folder(), *path = join_path(folder, "plan.json");
    char expected[NEAP_DIAG_CAPACITY];
    neap_plan *plan = plan_from(TINY_PLAN), *again;
    neap_diag diag = {0};
    assert_int_equal(neap_plan_write_file(plan, path, &diag), NEAP_OK);
    assert_int_equal(neap_plan_read_file(NULL, path, &again, &diag), NEAP_OK);
    assert_int_equal(neap_plan_step_count(again), 6);
    neap_plan_destroy(again);
    write_text_file(path, "\n{");
    assert_int_equal(neap_plan_read_file(NULL, path, &again, &diag), NEAP_INVALID);
    assert_null(again);
    snprintf(expected, sizeof expected,
             "%s:2:2: the text ends where a string was expected; the file is cut off", path);
    assert_string_equal(diag.message, expected);
    assert_int_equal(neap_plan_write_file(plan, folder, &diag), NEAP_IO);
    assert_int_equal(neap_plan_read_file(NULL, folder, &again, &diag), NEAP_IO);
    assert_null(again);
    neap_plan_destroy(plan);
    free(path);
    remove_temporary_folder(folder);
}

/* ---- From sequences ---- */

static const char LETTERS[] = "cfop";

/* The steps as small_graphs.h writes them. */
static void write_steps(const neap_plan *plan, char *text, size_t capacity)
{
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        neap_step step = neap_plan_steps(plan)[i];
        char variant[16] = "";
        if (step.variant)
            snprintf(variant, sizeof variant, ".%u", step.variant);
        length += (size_t)snprintf(text + length, capacity - length, "%s%c%u%s", i ? " " : "",
                                   LETTERS[step.kind], step.id, variant);
        assert_true(length < capacity);
    }
}

static neap_verdict judge(const neap_graph *graph, const neap_plan *plan)
{
    neap_verdict verdict;
    assert_int_equal(neap_check(NULL, graph, plan, NULL, &verdict, NULL), NEAP_OK);
    return verdict;
}

/* Each digit of `sequence` is an op. peak 0: the judge rejects it. */
static void expect_plan(const char *json, const char *sequence, const char *steps, int64_t peak)
{
    neap_graph *graph = graph_from(json);
    uint32_t ops[64];
    size_t length = strlen(sequence);
    neap_plan *plan;
    neap_diag diag = {0};
    char text[512];
    for (size_t i = 0; i < length; i++)
        ops[i] = (uint32_t)(sequence[i] - '0');
    if (neap_plan_from_sequence(NULL, graph, ops, length, NULL, "m", -1, &plan, &diag) != NEAP_OK)
        fail_msg("%s: %s", sequence, diag.message);
    write_steps(plan, text, sizeof text);
    assert_string_equal(text, steps);
    neap_verdict verdict = judge(graph, plan);
    assert_true(verdict.accepted == (peak > 0));
    if (peak)
        assert_int_equal(verdict.peak_bytes, peak);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

static void test_sequences(void **state)
{
    (void)state;
    expect_plan(abc_graph, "012", "c0 c1 c2 f1 f2", 360);
    expect_plan(abc_graph, "0102", "c0 c1 f1 c0 c2 f1 f2", 360);
    /* An instance that nothing reads leaves at once. */
    expect_plan(abc_graph, "0012", "c0 f1 c0 c1 c2 f1 f2", 360);
    expect_plan(abc_graph, "01012", "c0 c1 f2 f1 c0 c1 c2 f1 f2", 360);
    /* An output's last instance stays, the others do not; what comes behind it leaves. */
    expect_plan(abc_graph, "01220", "c0 c1 c2 f3 c2 f1 f2 c0 f1", 360);
    /* Ops left out, or an empty sequence: a plan, but not a right one. */
    expect_plan(abc_graph, "01", "c0 c1 f2 f1", 0);
    expect_plan(abc_graph, "", "", 0);
    /* A view keeps the storage alive: h leaves, hT does not, and 200 bytes stay. */
    expect_plan(tiny_graph, "0123", "c0 c1 f1 c2 c3 f2", 4600);
    expect_plan(tiny_graph,
                "01201"
                "3",
                "c0 c1 f1 c2 f2 c0 c1 f1 c3 f2", 4600);
}

/* a 10 and b 20 from one op; c 1 of a, d 2 of b; e 3, which nothing reads; the last also reads a
 * twice. */
static const char pairs_graph[] =
    "{'neap':'graph','version':1,'values':[{'bytes':10},{'bytes':20},{'bytes':1},{'bytes':2},"
    "{'bytes':3}],'ops':[{'inputs':[],'outputs':[0,1],'time':1},"
    "{'inputs':[0],'outputs':[2],'time':1},{'inputs':[1],'outputs':[3,4],'time':1},"
    "{'inputs':[0,2,0],'outputs':[],'time':1}],'outputs':[3]}";

static void test_sequences_with_several_outputs(void **state)
{
    (void)state;
    expect_plan(pairs_graph, "0123", "c0 c1 c2 f4 f1 c3 f0 f2", 36);
    expect_plan(pairs_graph, "01302", "c0 f1 c1 c3 f0 f2 c0 f0 c2 f4 f1", 30);
    /* Running again for b makes a again too: the first a leaves before. */
    expect_plan(pairs_graph,
                "010230"
                "13",
                "c0 f1 c1 f0 c0 c2 f4 f1 c3 f0 f2 c0 f1 c1 c3 f0 f2", 36);
}

static void test_sequence_variants(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(tiny_graph);
    const uint32_t sequence[] = {0, 1, 2, 3}, variants[] = {1, 0, 0, 0};
    neap_plan *plan;
    char text[256];
    assert_int_equal(
        neap_plan_from_sequence(NULL, graph, sequence, 4, variants, "mine", 4600, &plan, NULL),
        NEAP_OK);
    write_steps(plan, text, sizeof text);
    assert_string_equal(text, "c0.1 c1 f1 c2 c3 f2");
    assert_string_equal(neap_plan_graph_name(plan), "tiny");
    assert_string_equal(neap_plan_method(plan), "mine");
    assert_int_equal(neap_plan_budget(plan), 4600);
    assert_true(judge(graph, plan).accepted);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

static void refuse_sequence(const neap_graph *graph, const uint32_t *sequence, size_t length,
                            const char *message)
{
    neap_plan *plan = (neap_plan *)&length;
    neap_diag diag = {0};
    assert_int_equal(
        neap_plan_from_sequence(NULL, graph, sequence, length, NULL, "m", -1, &plan, &diag),
        NEAP_INVALID);
    assert_null(plan);
    assert_string_equal(diag.message, message);
}

static void test_sequences_refused(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(abc_graph);
    refuse_sequence(
        graph, (uint32_t[]){1}, 1,
        "position 0 of the sequence, op 1 \"B\": its input 1 \"a\" was not computed before");
    refuse_sequence(
        graph, (uint32_t[]){0, 2}, 2,
        "position 1 of the sequence, op 2 \"C\": its input 2 \"b\" was not computed before");
    refuse_sequence(graph, (uint32_t[]){0, 1, 3}, 3,
                    "position 2 of the sequence is op 3, but there are 3 ops");
    refuse_sequence(graph, (uint32_t[]){NEAP_NONE}, 1,
                    "position 0 of the sequence is op 4294967295, but there are 3 ops");
    neap_graph_destroy(graph);
}

/* ---- Against the definition ---- */

static bool reads(const neap_graph *graph, uint32_t op, uint32_t value)
{
    const neap_op *o = neap_graph_op(graph, op);
    for (uint32_t i = 0; i < o->n_inputs; i++)
        if (o->inputs[i] == value)
            return true;
    return false;
}

/* By looking ahead: does the value leave right behind this position? It is resident there. */
static bool leaves(const neap_graph *graph, const uint32_t *sequence, size_t length, size_t at,
                   uint32_t value)
{
    uint32_t producer = neap_graph_value(graph, value)->producer;
    for (size_t i = at + 1; i < length; i++) {
        if (reads(graph, sequence[i], value))
            return false;
        if (sequence[i] == producer)
            return true;
    }
    return !neap_graph_is_output(graph, value);
}

static void check_against_definition(const neap_graph *graph, const uint32_t *sequence,
                                     size_t length, const neap_plan *plan)
{
    uint32_t n_values = neap_graph_value_count(graph);
    bool *resident = calloc(n_values, sizeof *resident), *freed = calloc(n_values, sizeof *freed);
    const neap_step *step = neap_plan_steps(plan), *end = step + neap_plan_step_count(plan);
    assert_true(resident && freed);
    for (size_t at = 0; at < length; at++) {
        const neap_op *op = neap_graph_op(graph, sequence[at]);
        assert_true(step < end && step->kind == NEAP_COMPUTE && step->id == sequence[at]);
        for (uint32_t i = 0; i < op->n_outputs; i++) {
            assert_false(resident[op->outputs[i]]);
            resident[op->outputs[i]] = true;
        }
        memset(freed, 0, n_values * sizeof *freed);
        for (step++; step < end && step->kind == NEAP_FREE; step++)
            freed[step->id] = true;
        for (uint32_t v = 0; v < n_values; v++) {
            assert_true(freed[v] == (resident[v] && leaves(graph, sequence, length, at, v)));
            resident[v] = resident[v] && !freed[v];
        }
    }
    assert_true(step == end);
    free(resident);
    free(freed);
}

/* The natural order, with ops that ran before put in between. */
static size_t random_sequence(random_source *random, const neap_graph *graph, uint32_t *sequence)
{
    size_t length = 0;
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        sequence[length++] = o;
        for (uint32_t i = random_below(random, 3); i > 0; i--)
            sequence[length++] = random_below(random, o + 1);
    }
    return length;
}

static void test_random_sequences(void **state)
{
    (void)state;
    random_source random = {20240611};
    print_message("seed %llu\n", (unsigned long long)random.state);
    uint32_t sequence[3 * 201];
    for (int i = 0; i < 400; i++) {
        neap_graph *graph =
            i % 2 ? random_training_graph(&random, 15, false) : random_graph(&random, 25);
        size_t length = random_sequence(&random, graph, sequence);
        neap_plan *plan;
        assert_int_equal(
            neap_plan_from_sequence(NULL, graph, sequence, length, NULL, "m", -1, &plan, NULL),
            NEAP_OK);
        neap_verdict verdict = judge(graph, plan);
        if (!verdict.accepted)
            fail_msg("%s", verdict.reason);
        assert_int_equal(verdict.recomputed_ops, length - neap_graph_op_count(graph));
        check_against_definition(graph, sequence, length, plan);
        neap_plan_destroy(plan);
        neap_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_written_form),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_version_is_required),
        cmocka_unit_test(test_random_round_trip),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_sequences_with_several_outputs),
        cmocka_unit_test(test_sequence_variants),
        cmocka_unit_test(test_sequences_refused),
        cmocka_unit_test(test_random_sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
