#include "random_frontiers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planners/checkmate/frontier_rows.h"

#include <neap/check.h>

#include <stdlib.h>
#include <string.h>

/* Whether there is any sense in keeping a value. */
static bool is_used(const neap_graph *graph, uint32_t value)
{
    uint32_t n_readers;
    neap_graph_readers(graph, value, &n_readers);
    return n_readers > 0 || neap_graph_is_output(graph, value);
}

/* Row t + 1 of S: what is resident when frontier t has ended, and must be. Returns how many. */
static size_t draw_row(random_source *random, const neap_graph *graph, uint32_t t, uint32_t share,
                       bool *next, uint32_t *wanted)
{
    bool at_end = t + 1 == neap_graph_op_count(graph);
    size_t n = 0;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        uint32_t maker = neap_graph_value(graph, v)->producer;
        bool made = maker != NEAP_NONE && maker <= t;
        next[v] = made && (at_end ? neap_graph_is_output(graph, v)
                                  : is_used(graph, v) && random_below(random, 100) < share);
        if (next[v])
            wanted[n++] = v;
    }
    return n;
}

uint32_t *random_frontiers(random_source *random, const neap_graph *graph, size_t *length)
{
    size_t n_values = neap_graph_value_count(graph);
    bool *before = calloc(n_values + 1, sizeof *before), *next = calloc(n_values + 1, sizeof *next);
    uint32_t *wanted = calloc(n_values + 1, sizeof *wanted), share = random_below(random, 101);
    frontier_rows rows;
    assert_true(before && next && wanted);
    assert_int_equal(neap_frontier_rows_init(&rows, NULL, graph, NULL), NEAP_OK);
    for (uint32_t t = 0; t < neap_graph_op_count(graph); t++) {
        frontier_row row = {.op = t,
                            .is_resident = neap_frontier_residence_of_bools,
                            .context = before,
                            .wanted = wanted,
                            .n_wanted = draw_row(random, graph, t, share, next, wanted)};
        assert_int_equal(neap_frontier_rows_append(&rows, &row, NULL), NEAP_OK);
        memcpy(before, next, n_values * sizeof *before);
    }
    uint32_t *sequence = malloc((rows.length + 1) * sizeof *sequence);
    assert_non_null(sequence);
    memcpy(sequence, rows.sequence, rows.length * sizeof *sequence);
    *length = rows.length;
    neap_frontier_rows_clear(&rows);
    free(before);
    free(next);
    free(wanted);
    return sequence;
}

static bool is_better(const neap_op *op, uint32_t a, uint32_t b)
{
    const neap_variant *x = &op->variants[a], *y = &op->variants[b];
    bool equal = x->ticks == y->ticks && x->workspace == y->workspace;
    return x->ticks <= y->ticks && x->workspace <= y->workspace && (!equal || a < b);
}

uint32_t *random_variants(random_source *random, const neap_graph *graph)
{
    uint32_t n_ops = neap_graph_op_count(graph);
    uint32_t *variants = calloc(n_ops + (size_t)1, sizeof *variants);
    assert_non_null(variants);
    for (uint32_t o = 0; o < n_ops; o++) {
        const neap_op *op = neap_graph_op(graph, o);
        variants[o] = random_below(random, op->n_variants);
        for (uint32_t q = 0; q < op->n_variants; q++)
            if (is_better(op, q, variants[o])) {
                variants[o] = q;
                q = UINT32_MAX; /* from the first again */
            }
    }
    return variants;
}

neap_verdict judge_sequence(const neap_graph *graph, const uint32_t *sequence, size_t length,
                            const uint32_t *variants)
{
    neap_plan *plan;
    neap_verdict verdict;
    neap_diag diag = {0};
    if (neap_plan_from_sequence(NULL, graph, sequence, length, variants, "sequence", -1, &plan,
                                &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(neap_check(NULL, graph, plan, NULL, &verdict, NULL), NEAP_OK);
    if (!verdict.accepted)
        fail_msg("%s", verdict.reason);
    neap_plan_destroy(plan);
    return verdict;
}
