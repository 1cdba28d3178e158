/* A report when each allocation fails once, in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_training.h"
#include "torture.h"

#include <neap/layout.h>
#include <neap/report.h>

static neap_status make_page(const void *subject, neap_allocator *allocator, neap_diag *diag)
{
    const neap_report *report = subject;
    char *text;
    size_t length;
    neap_status status = neap_report_html(allocator, report, &text, &length, diag);
    assert_true((status == NEAP_OK) == (text != NULL));
    if (status == NEAP_OK)
        neap_release(allocator, text, length + 1);
    return status;
}

static void reports(void **state)
{
    (void)state;
    random_source random = {20261118};
    neap_graph *graph = random_training_graph(&random, 20, true);
    neap_plan *plan = random_plan(&random, graph, 150, true),
              *other = random_plan(&random, graph, 80, false);
    assert_int_equal(neap_layout_assign(NULL, graph, plan, NULL, NULL), NEAP_OK);
    const neap_link link = {.out_bandwidth = 1e6, .in_bandwidth = 1e6};
    const neap_report_plan plans[] = {{.plan = plan, .status = "feasible", .bound_time = 1},
                                      {.plan = other, .bound_time = -1}};
    const neap_report_point points[] = {{"neap", "feasible", 1000, 0, 1},
                                        {"sqrt", "feasible", 900, 1, -1},
                                        {"sqrt", "infeasible", 800, SIZE_MAX, -1}};
    const neap_report report = {.graph = graph,
                                .link = &link,
                                .n_plans = 2,
                                .plans = plans,
                                .n_points = 3,
                                .points = points};
    assert_true(torture_memory(make_page, &report, 40) > 20);
    neap_plan_destroy(plan);
    neap_plan_destroy(other);
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reports)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
