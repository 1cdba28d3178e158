/*
 * neap/solve.h - the one call that plans, judges and lays out.
 *
 *     neap_request request;
 *     neap_request_init(&request, graph, "sqrt");
 *     request.budget = 8LL << 30;
 *     neap_solution *solution;
 *     if (neap_solve(NULL, &request, &solution, &diag) == NEAP_OK && neap_solution_plan(solution))
 *         ...
 *
 * The status says whether the call worked, the outcome what was found. Every plan that comes out
 * has passed the judge (neap/check.h), and what the method predicted equals the judge's figures
 * exactly; if not, the call fails with NEAP_INTERNAL.
 */
#ifndef NEAP_SOLVE_H
#define NEAP_SOLVE_H

#include <neap/planner.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum neap_outcome {
    NEAP_OPTIMAL = 0, /* proven: no plan within the budget and of bound_scope is faster; with the
                         objective NEAP_LEAST_PEAK: none has a lower peak */
    NEAP_FEASIBLE,    /* a plan within the budget */
    NEAP_INFEASIBLE,  /* this method has none; see least_budget */
    NEAP_TIME_LIMIT,  /* stopped by the time limit; the best plan so far, if any */
    NEAP_INTERRUPTED  /* stopped by the caller; likewise */
} neap_outcome;

/* "optimal", "feasible", "infeasible", "time_limit", "interrupted". */
NEAP_API const char *neap_outcome_name(neap_outcome outcome);

typedef struct neap_solution neap_solution;

typedef struct neap_figures {
    neap_outcome outcome;
    int64_t budget_bytes; /* -1: none */
    int64_t peak_bytes;   /* these by the judge; -1 (or negative) where there is no plan */
    int64_t arena_bytes;
    double time;
    double base_time;  /* every op once, variant 0 */
    double overhead;   /* time / base_time - 1 */
    double bound_time; /* proven: no plan in this budget and of bound_scope is faster; the sum of
                          fastest variants at least */
    neap_scope bound_scope; /* which plans the bound is proven for */
    double gap;             /* time / bound_time - 1 */
    double solve_seconds;
    uint64_t recomputed_ops;
    int64_t offloaded_bytes;
    int64_t floor_bytes;  /* proven: no plan needs less (neap_graph_floor_bytes) */
    uint32_t floor_op;    /* the op that touches so much by itself; NEAP_NONE: the outputs do */
    int64_t least_budget; /* when infeasible: the least that this method was found to need; -1:
                             not known, and always so where the budget is below the floor */
    uint32_t blocking_op; /* when infeasible: the op that sets that peak; NEAP_NONE: not known */
} neap_figures;

/*
 * Plans. NEAP_INVALID for an unknown method or option, a value out of bounds, or a budget of 0 or
 * less other than -1. A budget below the graph's floor is infeasible, and the method is not run:
 * the answer takes no longer than a look at the graph. The solution is the caller's to destroy.
 */
NEAP_API neap_status neap_solve(neap_allocator *allocator, const neap_request *request,
                                neap_solution **solution, neap_diag *diag);
NEAP_API void neap_solution_destroy(neap_solution *solution);
NEAP_API const neap_figures *neap_solution_figures(const neap_solution *solution);
/* NULL where there is no plan. It belongs to the solution. */
NEAP_API const neap_plan *neap_solution_plan(const neap_solution *solution);
NEAP_API uint32_t neap_solution_extra_count(const neap_solution *solution);
NEAP_API const neap_extra *neap_solution_extra_at(const neap_solution *solution, uint32_t index);
/* Without a plan: what is short, if it is not the budget alone; "" otherwise. */
NEAP_API const char *neap_solution_shortage(const neap_solution *solution);
/* One line for a person on why there is no plan, or on what else is worth knowing; "" otherwise. */
NEAP_API const char *neap_solution_message(const neap_solution *solution);

/*
 * Bounds that solutions of one graph, link and set of constraints owe to each other. A bound for a
 * budget holds for every smaller one, and for every solution whose plans its scope covers
 * (neap_scope_covers), by whatever method. Raises bounds accordingly; gaps follow, and a plan that
 * meets such a bound is optimal. Entries may be NULL.
 */
NEAP_API void neap_solutions_share_bounds(neap_solution *const *solutions, size_t count);

/* The peak of the natural order, each value freed after its last use, by the judge: what training
   needs without a plan. Budgets in percent refer to it. */
NEAP_API neap_status neap_natural_peak(neap_allocator *allocator, const neap_graph *graph,
                                       int64_t *peak, neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
