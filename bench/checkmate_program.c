/*
 * One of Checkmate's programs on a graph: its relaxation, and its optimum by HiGHS alone.
 *
 *     checkmate_program GRAPH BUDGET PROGRAM FORM SECONDS
 *
 * PROGRAM is paper (as printed, paper_model.h) or gaps (frontier_model.h, all memory rows in), FORM
 * partitioned or unpartitioned; neither gets a starting solution. SECONDS limits the integer
 * program; 0 solves only the relaxation. With PROGRAM any, FORM is ignored and resident_search.h
 * searches for the least time of any plan.
 *
 * Prints JSON: columns, rows, relaxation and its seconds, outcome, optimum, best plan found, bound,
 * seconds. Times are in seconds of the graph; null if unknown.
 */
#include "base/clock.h"
#include "planners/checkmate/frontier_model.h"
#include "planners/checkmate/paper_search.h"
#include "planners/common/resident_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const outcomes[] = {"solved", "infeasible", "stopped", "gave up"};

/* What is printed, in ticks; negative where nothing is known. */
typedef struct figures {
    uint64_t columns, rows;
    double relaxation, relaxation_seconds;
    const char *outcome;
    double optimum, bound, seconds;
} figures;

static void check(neap_status status, const neap_diag *diag)
{
    if (status == NEAP_OK)
        return;
    fprintf(stderr, "%s\n", diag->message);
    exit(1);
}

/* ---- gaps ---- */

typedef struct search {
    const planner *p;
    frontier_model model;
    incumbent *best;
    neap_diag *diag;
} search;

static void take(void *context, const double *values)
{
    search *s = context;
    size_t length = neap_frontier_model_length(&s->model, values);
    uint32_t *sequence = calloc(length, sizeof *sequence);
    if (!sequence)
        exit(1);
    neap_frontier_model_sequence(&s->model, values, sequence);
    check(neap_incumbent_offer_trimmed(s->best, s->p, sequence, length, s->diag), s->diag);
    free(sequence);
}

static double ticks_of(const search *s, double objective)
{
    return (double)s->model.certain_ticks + objective / s->model.ticks_scale;
}

static highs_answer solve(search *s, bool integers, double *seconds)
{
    highs_watch watch = {.context = s, .found = take};
    highs_settings settings = {.seconds = neap_planner_seconds_left(s->p), .absolute_gap = 1e-4};
    highs_model *highs;
    highs_answer answer;
    double started = neap_clock_seconds();
    check(neap_highs_model_create(s->p->allocator, &s->model.lp, integers, &watch, &highs, s->diag),
          s->diag);
    check(neap_highs_model_solve(highs, &settings, &answer, s->diag), s->diag);
    *seconds = neap_clock_seconds() - started;
    if (integers && answer.outcome == HIGHS_SOLVED)
        take(s, neap_highs_model_values(highs));
    neap_highs_model_destroy(highs);
    return answer;
}

static figures solve_gaps(const planner *p, frontier_form form, incumbent *best, neap_diag *diag)
{
    search s = {.p = p, .best = best, .diag = diag};
    frontier_options options = {form, p->budget, INT64_MAX};
    figures f = {.outcome = outcomes[HIGHS_STOPPED], .relaxation = -1, .optimum = -1, .bound = -1};
    bool complete;
    check(neap_frontier_model_build(&s.model, p->allocator, p->graph, &options, diag), diag);
    check(neap_frontier_model_add_all_memory(&s.model, SIZE_MAX, &complete, diag), diag);
    f.columns = s.model.lp.n_columns;
    f.rows = s.model.lp.n_rows;
    highs_answer answer = solve(&s, false, &f.relaxation_seconds);
    if (answer.outcome == HIGHS_SOLVED)
        f.relaxation = f.bound = ticks_of(&s, answer.objective);
    if (answer.outcome == HIGHS_SOLVED && p->request->time_limit > 0) {
        answer = solve(&s, true, &f.seconds);
        if (isfinite(answer.bound))
            f.bound = fmax(f.bound, ticks_of(&s, answer.bound));
        if (answer.outcome == HIGHS_SOLVED)
            f.optimum = ticks_of(&s, answer.objective);
    }
    f.outcome = outcomes[answer.outcome];
    neap_frontier_model_clear(&s.model);
    return f;
}

/* ---- The others ---- */

static figures solve_paper(const planner *p, bool partitioned, incumbent *best, neap_diag *diag)
{
    paper_answer a;
    if (p->request->time_limit > 0)
        check(neap_paper_solve(p, partitioned, best, &a, diag), diag);
    else
        check(neap_paper_relax(p, partitioned, &a, diag), diag);
    bool relaxed = a.relaxed == HIGHS_SOLVED;
    return (figures){.columns = a.columns,
                     .rows = a.rows,
                     .relaxation = relaxed ? a.lp_ticks : -1,
                     .relaxation_seconds = a.lp_seconds,
                     .outcome = outcomes[a.outcome],
                     .optimum = (double)a.ticks,
                     .bound = relaxed ? a.bound : -1,
                     .seconds = a.seconds};
}

static figures search_any(const planner *p, incumbent *best, neap_diag *diag)
{
    resident_answer a;
    double started = neap_clock_seconds();
    check(neap_resident_search(p, false, 5000000, INT64_MAX, &a, diag), diag);
    figures f = {.relaxation = -1, .seconds = neap_clock_seconds() - started};
    static const char *const words[] = {"solved", "infeasible", "gave up", "stopped"};
    f.outcome = words[a.outcome];
    f.optimum = (double)a.ticks;
    f.bound = a.outcome == RESIDENT_NONE ? -1 : (double)a.bound_ticks;
    f.columns = a.states;
    if (a.outcome == RESIDENT_SOLVED)
        check(neap_incumbent_offer(best, p, a.sequence, a.length, diag), diag);
    neap_resident_answer_clear(p, &a);
    return f;
}

static void print_time(const char *name, const neap_graph *graph, double ticks)
{
    if (ticks < 0)
        printf("\"%s\": null, ", name);
    else
        printf("\"%s\": %.12g, ", name, ticks / (double)neap_graph_ticks_per_second(graph));
}

static void print(const figures *f, const planner *p, const incumbent *best)
{
    printf("{\"columns\": %llu, \"rows\": %llu, ", (unsigned long long)f->columns,
           (unsigned long long)f->rows);
    print_time("relaxation", p->graph, f->relaxation);
    print_time("optimum", p->graph, f->optimum);
    print_time("bound", p->graph, f->bound);
    print_time("best", p->graph, best->ticks == INT64_MAX ? -1 : (double)best->ticks);
    printf("\"outcome\": \"%s\", \"relaxation_seconds\": %.6f, \"seconds\": %.6f}\n", f->outcome,
           f->relaxation_seconds, f->seconds);
}

int main(int argc, char **argv)
{
    neap_graph *graph;
    neap_diag diag = {0};
    if (argc != 6) {
        fprintf(stderr, "usage: checkmate_program GRAPH BUDGET paper|gaps|any "
                        "partitioned|unpartitioned SECONDS\n");
        return 2;
    }
    check(neap_graph_read_file(NULL, argv[1], &graph, &diag), &diag);
    neap_request request;
    double reported = 0;
    neap_request_init(&request, graph, "checkmate");
    request.budget = strtoll(argv[2], NULL, 10);
    request.time_limit = strtod(argv[5], NULL);
    planner p = {.allocator = neap_allocator_system(),
                 .request = &request,
                 .graph = graph,
                 .budget = request.budget,
                 .reported = &reported,
                 .started = neap_clock_seconds()};
    bool partitioned = strcmp(argv[4], "partitioned") == 0;
    incumbent best;
    neap_incumbent_init(&best, &p);
    figures f = strcmp(argv[3], "any") == 0 ? search_any(&p, &best, &diag)
                : strcmp(argv[3], "paper") == 0
                    ? solve_paper(&p, partitioned, &best, &diag)
                    : solve_gaps(&p, partitioned ? FRONTIER_PARTITIONED : FRONTIER_UNPARTITIONED,
                                 &best, &diag);
    print(&f, &p, &best);
    neap_incumbent_clear(&best, &p);
    neap_graph_destroy(graph);
    return 0;
}
