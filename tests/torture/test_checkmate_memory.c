/*
 * checkmate when each allocation fails once, in turn, and then that one and all later ones fail:
 * NEAP_NO_MEMORY and no leak, also while HiGHS runs and calls back. The graphs are chosen so that
 * the program has to be solved: neither the first plans nor the relaxation are proven optimal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planners/checkmate/frontier_model.h"
#include "random_frontiers.h"
#include "random_training.h"
#include "settings.h"
#include "torture.h"

#include <neap/solve.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct subject {
    const neap_graph *graph;
    int64_t budget;
    const char *form;
} subject;

/* ---- The method ---- */

static neap_status solve(const void *subject_of, neap_allocator *allocator, neap_diag *diag)
{
    const subject *s = subject_of;
    const neap_option_setting options[] = {{"form", s->form}, {"rounds", "1"}};
    neap_request request;
    neap_solution *solution = (neap_solution *)&request;
    neap_request_init(&request, s->graph, "checkmate");
    request.budget = s->budget;
    request.n_options = 2;
    request.options = options;
    neap_status status = neap_solve(allocator, &request, &solution, diag);
    assert_true((solution != NULL) == (status == NEAP_OK));
    neap_solution_destroy(solution);
    return status;
}

/* Whether the relaxation is solved, but its value is not that of the best plan. */
static bool needs_program(const subject *s)
{
    const neap_option_setting option = {"rounds", "1"};
    neap_request request;
    neap_solution *solution;
    bool needs = false;
    neap_request_init(&request, s->graph, "checkmate");
    request.budget = s->budget;
    request.n_options = 1;
    request.options = &option;
    assert_int_equal(neap_solve(NULL, &request, &solution, NULL), NEAP_OK);
    for (uint32_t i = 0; i < neap_solution_extra_count(solution); i++) {
        const neap_extra *extra = neap_solution_extra_at(solution, i);
        if (strcmp(extra->name, "lp_time") == 0)
            needs = extra->number < 0.95 * neap_solution_figures(solution)->time;
    }
    neap_solution_destroy(solution);
    return needs;
}

/* The next such graph, and a budget for it. */
static neap_graph *draw_subject(random_source *random, subject *s)
{
    for (;;) {
        neap_graph *graph = random_training_graph(random, 4, false);
        int64_t least = neap_graph_floor_bytes(graph, NULL), peak;
        assert_int_equal(neap_natural_peak(NULL, graph, &peak, NULL), NEAP_OK);
        s->graph = graph;
        for (s->budget = peak - 1; s->budget > least && s->budget > 0;
             s->budget -= 1 + (peak - least) / 5)
            if (needs_program(s))
                return graph;
        neap_graph_destroy(graph);
    }
}

static void test_method(void **state)
{
    (void)state;
    need_highs();
    random_source random = {20240941};
    for (int i = 0; i < 4 / ONE_IN(2); i++) {
        subject s = {.form = "partitioned"};
        neap_graph *graph = draw_subject(&random, &s);
        size_t count = torture_memory(solve, &s, 20);
        s.form = "unpartitioned";
        print_message("%" PRIu32 " ops: %zu allocations, %zu unpartitioned\n",
                      neap_graph_op_count(graph), count, torture_memory(solve, &s, 20));
        s.form = "partitioned"; /* and a plan for too little */
        s.budget =
            neap_graph_floor_bytes(graph, NULL) > 1 ? neap_graph_floor_bytes(graph, NULL) - 1 : 1;
        torture_memory(solve, &s, 20);
        neap_graph_destroy(graph);
    }
}

/* ---- Its program ---- */

/* All of it: built, a sequence set in, every kind of row added. */
static neap_status write_program(const void *subject_of, neap_allocator *allocator, neap_diag *diag)
{
    const subject *s = subject_of;
    uint32_t n_ops = neap_graph_op_count(s->graph), *natural = calloc(n_ops, sizeof *natural);
    frontier_form form =
        strcmp(s->form, "partitioned") == 0 ? FRONTIER_PARTITIONED : FRONTIER_UNPARTITIONED;
    const frontier_options options = {form, s->budget, INT64_MAX};
    frontier_model m;
    double *values = NULL;
    size_t added;
    bool flag;
    assert_non_null(natural);
    for (uint32_t o = 0; o < n_ops; o++)
        natural[o] = o;
    neap_status status = neap_frontier_model_build(&m, allocator, s->graph, &options, diag);
    if (status == NEAP_OK) {
        values = calloc(m.lp.n_columns + 1, sizeof *values);
        assert_non_null(values);
        assert_true(neap_frontier_model_values(&m, natural, n_ops, NULL, values));
        status = neap_frontier_model_add_memory(&m, values, 0, &added, diag);
    }
    if (status == NEAP_OK)
        status = neap_frontier_model_add_cover(&m, values, &flag, diag);
    if (status == NEAP_OK)
        status = neap_frontier_model_add_cutoff(&m, 1000, diag);
    if (status == NEAP_OK)
        status = neap_frontier_model_add_all_memory(&m, SIZE_MAX, &flag, diag);
    neap_frontier_model_clear(&m);
    free(values);
    free(natural);
    return status;
}

static void test_program(void **state)
{
    (void)state;
    random_source random = {20240942};
    for (int i = 0; i < 40 / ONE_IN(2); i++) {
        subject s = {.form = i % 2 ? "partitioned" : "unpartitioned"};
        neap_graph *graph =
            i % 4 < 2 ? random_graph(&random, 8) : random_training_graph(&random, 4, false);
        size_t length;
        uint32_t *sequence = random_frontiers(&random, graph, &length);
        s.graph = graph;
        s.budget = judge_sequence(graph, sequence, length, NULL).peak_bytes;
        free(sequence);
        print_message("%" PRIu32 " ops: %zu allocations\n", neap_graph_op_count(graph),
                      torture_memory(write_program, &s, 20));
        neap_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_method),
        cmocka_unit_test(test_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
