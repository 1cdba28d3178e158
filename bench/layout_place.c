/*
 * Assigns new addresses to a plan and prints what they cost.
 *
 *     layout_place GRAPH PLAN
 *
 * Removes the addresses of the plan, finds new ones and judges them. Prints instances, live peak,
 * arena and CPU seconds.
 */
#include <neap/neap.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void check(neap_status status, const neap_diag *diag)
{
    if (status == NEAP_OK)
        return;
    fprintf(stderr, "%s\n", diag->message);
    exit(1);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "takes GRAPH PLAN\n");
        return 1;
    }
    neap_graph *graph;
    neap_plan *plan;
    neap_diag diag = {0};
    check(neap_graph_read_file(NULL, argv[1], &graph, &diag), &diag);
    check(neap_plan_read_file(NULL, argv[2], &plan, &diag), &diag);
    clock_t start = clock();
    check(neap_layout_assign(NULL, graph, plan, NULL, &diag), &diag);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    const neap_link link = {.out_bandwidth = 1e9, .in_bandwidth = 1e9};
    neap_check_options options;
    neap_verdict verdict;
    neap_check_options_init(&options);
    options.link = &link;
    options.budget = INT64_MAX;
    check(neap_check(NULL, graph, plan, &options, &verdict, &diag), &diag);
    if (!verdict.accepted) {
        fprintf(stderr, "%s\n", verdict.reason);
        return 1;
    }
    size_t count;
    neap_plan_offsets(plan, &count);
    printf("%zu %" PRId64 " %" PRId64 " %.3f\n", count, verdict.peak_bytes, verdict.arena_bytes,
           seconds);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
    return 0;
}
