/*
 * How good the bounds of src/planners/neap are, and how fast.
 *
 *     bound_table SECONDS GRAPH BUDGET... [-l GIGABYTES_PER_SECOND]
 *
 * A budget is in bytes, or a percentage of the natural peak (70%). For each budget, prints a line
 * whenever a bound improves: seconds so far, and by how many percent every plan (`any`), and every
 * plan in the natural order (`order`), must exceed the sum of the ops' least times.
 */
#include "base/clock.h"
#include "planners/neap/bound.h"

#include <neap/solve.h>

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

static int64_t budget_of(const neap_graph *graph, const char *text)
{
    neap_diag diag;
    char *end;
    double number = strtod(text, &end);
    int64_t peak;
    if (*end != '%')
        return (int64_t)(number);
    check(neap_natural_peak(NULL, graph, &peak, &diag), &diag);
    return (int64_t)(number / 100 * (double)peak);
}

static bool is_over(void *context)
{
    return neap_clock_seconds() > *(double *)context;
}

static void print_line(const bound_figures *f, int64_t least, double seconds)
{
    printf("  %6.2f s  any %7.4f%%  order %7.4f%%  at %d%s%s\n", seconds,
           100 * ((double)f->any_ticks / (double)least - 1),
           100 * ((double)f->order_ticks / (double)least - 1), (int)f->position,
           f->infeasible ? " infeasible" : "", f->done ? " done" : "");
    fflush(stdout);
}

static void measure(const neap_graph *graph, const problem *x, const char *budget_text,
                    const neap_link *link, double seconds)
{
    neap_diag diag;
    bound *b;
    int64_t budget = budget_of(graph, budget_text), least = neap_graph_least_ticks(graph);
    double begin = neap_clock_seconds(), end = begin + seconds;
    printf("%s (%" PRId64 " bytes)\n", budget_text, budget);
    check(neap_bound_create(NULL, x, budget, link, &b, &diag), &diag);
    bound_figures last = *neap_bound_state(b);
    while (!neap_bound_state(b)->done && neap_clock_seconds() < end) {
        check(neap_bound_improve(b, is_over, &end, &diag), &diag);
        const bound_figures *f = neap_bound_state(b);
        if (f->any_ticks != last.any_ticks || f->order_ticks != last.order_ticks)
            print_line(f, least, neap_clock_seconds() - begin);
        last = *f;
    }
    print_line(&last, least, neap_clock_seconds() - begin);
    neap_bound_destroy(b);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: bound_table SECONDS GRAPH BUDGET... [-l GIGABYTES_PER_SECOND]\n");
        return 2;
    }
    neap_diag diag;
    neap_graph *graph;
    neap_link link = {0};
    problem x;
    neap_request request;
    if (argc > 5 && strcmp(argv[argc - 2], "-l") == 0) {
        link.in_bandwidth = link.out_bandwidth = 1e9 * atof(argv[argc - 1]);
        link.duplex = true;
        argc -= 2;
    }
    check(neap_graph_read_file(NULL, argv[2], &graph, &diag), &diag);
    neap_request_init(&request, graph, "neap");
    request.link = link;
    check(neap_problem_init(&x, NULL, &request, &diag), &diag);
    check(neap_problem_let_state_travel(&x, &request, &diag), &diag);
    printf("%s: %u tasks, %u tensors\n", argv[2], x.n_tasks, x.n_tensors);
    for (int i = 3; i < argc; i++)
        measure(graph, &x, argv[i], &link, atof(argv[1]));
    neap_problem_clear(&x);
    neap_graph_destroy(graph);
    return 0;
}
