/*
 * What offloading methods find in live bytes, before addresses.
 *
 *     offload_live GRAPH LINK BUDGET... -- METHOD...
 *
 * LINK is in bytes a second, both ways, one transfer at a time; budgets are in bytes. neap plan
 * plans again, within less, if the addresses of a plan exceed the budget. This program does not: it
 * prints, for each budget, the optimum of the fractional relaxation (Beaumont et al., section 4)
 * and the time of each method's first plan, all in seconds; "-" where there is none.
 */
#include "base/clock.h"
#include "planners/common/planner.h"
#include "solve/solution_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(neap_status status, const neap_diag *diag)
{
    if (status == NEAP_OK)
        return;
    fprintf(stderr, "%s\n", diag->message);
    exit(1);
}

/* The judged time of the method's plan, negative if there is none; *fractional if it reports it. */
static double time_of(const neap_graph *graph, double link, int64_t budget, const char *method,
                      double *fractional)
{
    neap_request request;
    neap_diag diag;
    neap_verdict verdict;
    draft d;
    double seconds = -1, reported = 0;
    neap_request_init(&request, graph, method);
    request.budget = budget;
    request.link = (neap_link){.out_bandwidth = link, .in_bandwidth = link};
    request.threads = 1;
    planner p = {.allocator = neap_allocator_system(),
                 .request = &request,
                 .graph = graph,
                 .budget = budget,
                 .started = neap_clock_seconds(),
                 .reported = &reported};
    neap_draft_init(&d, p.allocator);
    check(neap_planner_run_method(&p, method, &d, &diag), &diag);
    if (d.plan) {
        check(neap_judge_draft(&p, &d, &verdict, &diag), &diag);
        seconds = verdict.peak_bytes <= budget ? verdict.time : -1;
    }
    for (uint32_t i = 0; i < d.n_extras; i++)
        if (strcmp(d.extras[i].name, "fractional_time") == 0)
            *fractional = d.extras[i].number;
    neap_planner_clear_draft(&p, &d);
    return seconds;
}

static void print_seconds(double seconds)
{
    if (seconds < 0)
        printf(" -");
    else
        printf(" %.12g", seconds);
}

int main(int argc, char **argv)
{
    neap_diag diag;
    neap_graph *graph;
    int end = 3;
    while (end < argc && strcmp(argv[end], "--") != 0)
        end++;
    if (end >= argc) {
        fprintf(stderr, "usage: offload_live GRAPH LINK BUDGET... -- METHOD...\n");
        return 2;
    }
    check(neap_graph_read_file(NULL, argv[1], &graph, &diag), &diag);
    for (int b = 3; b < end; b++) {
        int64_t budget = strtoll(argv[b], NULL, 10);
        double fractional = -1, link = strtod(argv[2], NULL);
        time_of(graph, link, budget, "offload-greedy", &fractional);
        printf("%" PRId64, budget);
        print_seconds(fractional);
        for (int m = end + 1; m < argc; m++)
            print_seconds(time_of(graph, link, budget, argv[m], &fractional));
        printf("\n");
        fflush(stdout);
    }
    neap_graph_destroy(graph);
    return 0;
}
