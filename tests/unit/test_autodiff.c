/*
 * The joint graph: for every op type, the backward ops that it emits, what each reads and writes,
 * attributes, marks and counts, compared with op_cases.c. test_gradients.c checks that these
 * gradients are correct.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "op_cases.h"
#include "op_text.h"
#include "run_command.h"

#include "graph/network_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The table ---- */

static const neap_op *op_named(const neap_graph *graph, const char *name)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (strcmp(neap_graph_op(graph, o)->name, name) == 0)
            return neap_graph_op(graph, o);
    fail_msg("%s has no op \"%s\"", neap_graph_name(graph), name);
    return NULL;
}

static bool is_probe(const neap_op *op)
{
    return strncmp(op->name, "flat", 4) == 0 || strncmp(op->name, "probe", 5) == 0;
}

static char *text_of(const neap_graph *graph)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (!is_probe(neap_graph_op(graph, o)))
            op_text(out, graph, neap_graph_op(graph, o), op_named(graph, "op"));
    assert_int_equal(fclose(out), 0);
    return text;
}

static void test_backward_ops_are_those_of_the_table(void **state)
{
    (void)state;
    bool failed = false;
    for (size_t i = 0; i < op_case_count(); i++) {
        const op_case *c = op_case_at(i);
        neap_graph *graph = op_case_graph(c);
        char *text = text_of(graph);
        if (strcmp(text, c->ops) != 0) {
            print_error("%s is\n%s", c->name, text);
            print_error("not\n%s", c->ops);
            failed = true;
        }
        free(text);
        neap_graph_destroy(graph);
    }
    assert_false(failed);
}

/* The ops behind the backward pass, and running statistics before. */
static char *text_of_updates(const neap_graph *graph)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    bool behind = false;
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        const neap_op *op = neap_graph_op(graph, o);
        bool running = strcmp(op->type, "running_stats") == 0;
        behind = behind || (op->n_updates > 0 && !running) || strstr(op->name, "accumulate") ||
                 strcmp(op->type, "clip_norm") == 0;
        if ((behind || running) && !is_probe(op))
            op_text(out, graph, op, op);
    }
    assert_int_equal(fclose(out), 0);
    return text;
}

static void test_updates_are_those_of_the_table(void **state)
{
    (void)state;
    bool failed = false;
    for (size_t i = 0; i < n_update_cases; i++) {
        neap_graph *graph = update_case_graph(&update_cases[i]);
        char *text = text_of_updates(graph);
        if (strcmp(text, update_cases[i].base.ops) != 0) {
            print_error("%s is\n%s", update_cases[i].base.name, text);
            print_error("not\n%s", update_cases[i].base.ops);
            failed = true;
        }
        free(text);
        neap_graph_destroy(graph);
    }
    assert_false(failed);
}

/* Whether some case has an op of the type in the given pass. */
static bool table_has(const char *type, neap_pass pass)
{
    bool found = false;
    size_t n_op_cases = op_case_count();
    for (size_t i = 0; i < n_op_cases + n_update_cases && !found; i++) {
        neap_graph *graph = i < n_op_cases ? op_case_graph(op_case_at(i))
                                           : update_case_graph(&update_cases[i - n_op_cases]);
        for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
            const neap_op *op = neap_graph_op(graph, o);
            found = found || (!is_probe(op) && op->pass == pass && strcmp(op->type, type) == 0);
        }
        neap_graph_destroy(graph);
    }
    return found;
}

static void test_every_type_is_in_the_table(void **state)
{
    (void)state;
    size_t count = 1;
    for (size_t i = 0; i < count; i++) {
        const op_def *def = neap_op_def_at(i, &count);
        bool forward = table_has(def->type, NEAP_FORWARD);
        if (!forward && (def->backward || !table_has(def->type, NEAP_BACKWARD)))
            fail_msg("no case of tests/support/op_cases.h has the op type \"%s\"", def->type);
    }
}

/* ---- What holds for all graphs ---- */

static void check_names(const neap_graph *graph)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        for (uint32_t p = 0; p < o; p++)
            assert_string_not_equal(neap_graph_op(graph, o)->name, neap_graph_op(graph, p)->name);
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        for (uint32_t w = 0; w < v; w++)
            assert_string_not_equal(neap_graph_value(graph, v)->name,
                                    neap_graph_value(graph, w)->name);
}

static void check_results(const neap_graph *graph, const neap_op *op)
{
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        const neap_value *value = neap_graph_value(graph, op->outputs[i]);
        assert_string_equal(value->kind,
                            op->pass == NEAP_FORWARD ? NEAP_KIND_ACTIVATION : NEAP_KIND_GRADIENT);
        int64_t bytes = neap_dtype_bytes(value->dtype);
        for (uint32_t d = 0; d < value->rank; d++)
            bytes *= value->shape[d];
        assert_int_equal(value->bytes, value->view_of == NEAP_NONE ? bytes : 0);
    }
}

/* Forward ops first; counts on every op; names that tell them apart; every gradient is used. */
static void test_graphs_are_in_order(void **state)
{
    (void)state;
    size_t n_op_cases = op_case_count(), n_cases = n_op_cases + n_network_cases;
    for (size_t i = 0; i < n_cases + n_update_cases; i++) {
        const op_case *c = i < n_op_cases ? op_case_at(i) : &network_cases[i - n_op_cases];
        neap_graph *graph =
            i < n_cases ? op_case_graph(c) : update_case_graph(&update_cases[i - n_cases]);
        neap_pass pass = NEAP_FORWARD;
        for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
            const neap_op *op = neap_graph_op(graph, o);
            neap_op_count work = neap_op_count_work(graph, o);
            assert_true(op->pass >= pass);
            pass = op->pass;
            assert_true(work.known);
            assert_int_equal(op->flops, work.flops);
            assert_int_equal(op->bytes_moved, work.bytes_moved);
            check_results(graph, op);
        }
        assert_int_equal(pass, NEAP_BACKWARD);
        for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
            uint32_t n_readers;
            neap_graph_readers(graph, v, &n_readers);
            if (strcmp(neap_graph_value(graph, v)->kind, NEAP_KIND_GRADIENT) == 0 && n_readers == 0)
                assert_true(neap_graph_is_output(graph, v));
        }
        check_names(graph);
        neap_graph_destroy(graph);
    }
}

/* ---- docs/ops.md ---- */

/* The row of a type, from its first "|" to the end of the line; NULL if there is none. */
static const char *row_of(const char *document, const char *type)
{
    char beginning[64];
    snprintf(beginning, sizeof beginning, "\n| `%s` |", type);
    const char *row = strstr(document, beginning);
    return row ? row + 1 : NULL;
}

static bool row_has(const char *row, const char *words)
{
    const char *found = strstr(row, words);
    return found && found < row + strcspn(row, "\n");
}

/* The last cell of a row. */
static void check_marks(const char *row, const op_def *def)
{
    char cell[128];
    const char *end = row + strcspn(row, "\n");
    const char *from = end - 1;
    while (from > row && from[-1] != '|')
        from--;
    assert_true((size_t)(end - from) < sizeof cell);
    memcpy(cell, from, (size_t)(end - from));
    cell[end - from] = '\0';
    if ((strstr(cell, "view") != NULL) != def->view ||
        (strstr(cell, "random") != NULL) != def->random ||
        (strstr(cell, "in place") != NULL) != (def->in_place != 0))
        fail_msg("docs/ops.md: \"%s\" has the marks \"%s\"", def->type, cell);
}

static void test_the_document_has_a_row_for_every_type(void **state)
{
    (void)state;
    char *document = read_text_file(NEAP_SOURCE_DIR "/docs/ops.md");
    assert_non_null(document);
    size_t count = 1, n_rows = 0;
    for (size_t i = 0; i < count; i++) {
        const op_def *def = neap_op_def_at(i, &count);
        const char *row = row_of(document, def->type);
        if (!row)
            fail_msg("docs/ops.md has no row for \"%s\"", def->type);
        if (row_of(row, def->type))
            fail_msg("docs/ops.md has two rows for \"%s\"", def->type);
        check_marks(row, def);
    }
    for (const char *at = document; (at = strstr(at, "\n| `")) != NULL; at++)
        n_rows++;
    assert_int_equal(n_rows, count);
    free(document);
}

/* The row of a forward type names the backward ops that its cases emit. */
static void test_the_document_names_the_backward_ops(void **state)
{
    (void)state;
    char *document = read_text_file(NEAP_SOURCE_DIR "/docs/ops.md");
    assert_non_null(document);
    for (size_t i = 0; i < op_case_count(); i++) {
        neap_graph *graph = op_case_graph(op_case_at(i));
        const char *type = op_named(graph, "op")->type;
        for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
            const neap_op *op = neap_graph_op(graph, o);
            char words[64];
            snprintf(words, sizeof words, "`%s`", op->type);
            if (op->pass == NEAP_BACKWARD && strncmp(op->name, "op.", 3) == 0 &&
                !strstr(op->name, "log_softmax") && !row_has(row_of(document, type), words))
                fail_msg("docs/ops.md: \"%s\" does not name %s", type, words);
        }
        neap_graph_destroy(graph);
    }
    free(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backward_ops_are_those_of_the_table),
        cmocka_unit_test(test_updates_are_those_of_the_table),
        cmocka_unit_test(test_every_type_is_in_the_table),
        cmocka_unit_test(test_graphs_are_in_order),
        cmocka_unit_test(test_the_document_has_a_row_for_every_type),
        cmocka_unit_test(test_the_document_names_the_backward_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
