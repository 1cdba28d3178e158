/*
 * neap/solve.h - plans a graph, judges the plan and assigns addresses, in one call.
 *
 *     neap_request request;
 *     neap_request_init(&request, graph, "sqrt");
 *     request.budget = 8LL << 30;
 *     neap_solution *solution;
 *     if (neap_solve(NULL, &request, &solution, &diag) == NEAP_OK && neap_solution_plan(solution))
 *         ...
 *
 * The status says whether the call worked; the outcome says what was found. Every plan returned has
 * been accepted by the judge (neap/check.h), and the predictions of the method equal the figures of
 * the judge exactly; otherwise the call fails with NEAP_INTERNAL.
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
    NEAP_INFEASIBLE,  /* this method has no plan; see least_budget */
    NEAP_TIME_LIMIT,  /* stopped by the time limit, with the best plan so far, if any */
    NEAP_INTERRUPTED  /* cancelled by the caller; likewise */
} neap_outcome;

/* "optimal", "feasible", "infeasible", "time_limit", "interrupted". */
NEAP_API const char *neap_outcome_name(neap_outcome outcome);

typedef struct neap_solution neap_solution;

typedef struct neap_figures {
    neap_outcome outcome;
    int64_t budget_bytes; /* -1: none */
    int64_t peak_bytes;   /* the judge's figures; negative if there is no plan */
    int64_t arena_bytes;
    double time;
    double base_time;       /* one run of every op with variant 0 */
    double overhead;        /* time / base_time - 1 */
    double bound_time;      /* proven: no plan within this budget and of bound_scope is faster. At
                          least the sum of the fastest variants */
    neap_scope bound_scope; /* the plans for which the bound is proven */
    double gap;             /* time / bound_time - 1 */
    double solve_seconds;
    uint64_t recomputed_ops;
    int64_t offloaded_bytes;
    int64_t floor_bytes;  /* proven: no plan with addresses needs less memory, of any method: the
                             graph's floor with state on the device, or with state that travels if
                             there is a link and the request permits it; with its alignment */
    uint32_t floor_op;    /* the op that needs this much; NEAP_NONE: the outputs do */
    int64_t least_budget; /* if infeasible: found, a budget for which this method has a plan with
                             addresses; -1: not known, as always for a budget below the floor */
    uint32_t blocking_op; /* if infeasible: the op at that peak; NEAP_NONE: not known */
} neap_figures;

/*
 * Plans a graph. NEAP_INVALID for an unknown method or option, a value out of bounds, or a budget
 * of 0 or less other than -1. A budget below the graph's floor is infeasible; the method is then
 * not run, and the call returns quickly. The caller destroys the solution.
 */
NEAP_API neap_status neap_solve(neap_allocator *allocator, const neap_request *request,
                                neap_solution **solution, neap_diag *diag);
NEAP_API void neap_solution_destroy(neap_solution *solution);
NEAP_API const neap_figures *neap_solution_figures(const neap_solution *solution);
/* NULL if there is no plan. The solution owns it. */
NEAP_API const neap_plan *neap_solution_plan(const neap_solution *solution);
NEAP_API uint32_t neap_solution_extra_count(const neap_solution *solution);
NEAP_API const neap_extra *neap_solution_extra_at(const neap_solution *solution, uint32_t index);
/* If there is no plan for a reason other than the budget alone: that reason; else "". */
NEAP_API const char *neap_solution_shortage(const neap_solution *solution);
/* One line on why there is no plan, or another remark for the user; else "". */
NEAP_API const char *neap_solution_message(const neap_solution *solution);

/*
 * Raises the bounds of solutions by each other's bounds. All solutions must have the same graph,
 * link and constraints. A bound for a budget holds for every smaller budget, and for the solutions
 * of any method whose plans its scope covers (neap_scope_covers). Gaps are updated, and a plan that
 * meets its new bound becomes optimal. Entries may be NULL.
 */
NEAP_API void neap_solutions_share_bounds(neap_solution *const *solutions, size_t count);

/* The natural peak: the memory of training without a plan (the ordinary step). Every op runs once,
   in the natural order but with updates last, out of place, with all state on the device, and each
   value is freed after its last use. Budgets in percent refer to it. */
NEAP_API neap_status neap_natural_peak(neap_allocator *allocator, const neap_graph *graph,
                                       int64_t *peak, neap_diag *diag);

/* The plan of the ordinary step, without addresses. The caller destroys it. */
NEAP_API neap_status neap_natural_plan(neap_allocator *allocator, const neap_graph *graph,
                                       neap_plan **plan, neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
