/*
 * The linear relaxation of Checkmate's problem, solved with memory rows as they are needed, and the
 * bound that it proves.
 */
#ifndef NEAP_PLANNERS_RELAXATION_H
#define NEAP_PLANNERS_RELAXATION_H

#include "lp/highs_model.h"
#include "planners/checkmate/frontier_model.h"
#include "planners/common/planner.h"

typedef struct relaxation {
    frontier_model model;
    highs_model *highs;
    highs_watch watch;
    const planner *p;
    int64_t best_ticks; /* shown as progress; -1: none */
    highs_outcome outcome;
    double objective;    /* of the relaxation, if solved; in the model's units */
    int64_t bound_ticks; /* proven by the duals; the least ticks of the graph at least */
    double *values;      /* of the columns, if solved; n_columns */
    double *reduced;     /* reduced costs that go with the bound */
    double bound;        /* the same bound in the model's units */
} relaxation;

/* The option of methods that solve it: what neap_relaxation_refuse_big gets. */
#define RELAXATION_MOST_COLUMNS                                                                    \
    {                                                                                              \
        .name = "most-columns", .meaning = "refuse a graph whose program would have more columns", \
        .type = NEAP_OPTION_INTEGER, .least = 1, .most = 1e9, .default_value = 3e6                 \
    }

/* NEAP_UNSUPPORTED, with the size and what to use instead, for a graph whose program would have
   more columns. Nothing is built. */
neap_status neap_relaxation_refuse_big(const planner *p, frontier_form form, double most_columns,
                                       neap_diag *diag);

/*
 * Builds and solves it. neap_relaxation_clear is needed after a failure too. `best_ticks` is shown
 * as progress; INT64_MAX: none.
 */
neap_status neap_relaxation_solve(relaxation *x, const planner *p, const frontier_options *options,
                                  int64_t best_ticks, neap_diag *diag);
void neap_relaxation_clear(relaxation *x);

/* A bound in the model's units as ticks: rounded up to what a sum of the ops' times can be. */
int64_t neap_relaxation_bound_ticks(const frontier_model *m, double bound);
/* The greatest common divisor of the ticks of all variants worth having: the times of no two plans
   of those are nearer than this. */
int64_t neap_graph_tick_step(const neap_graph *graph);

#endif
