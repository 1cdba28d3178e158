/*
 * neap/curve.h - the trade-off between memory and time: one method at many budgets.
 *
 *     const int64_t budgets[] = {4LL << 30, 6LL << 30, 8LL << 30};
 *     neap_solution *solutions[3];
 *     neap_request request;
 *     neap_request_init(&request, graph, "rotor");
 *     if (neap_curve_solve(NULL, &request, budgets, 3, solutions, &diag) == NEAP_OK)
 *         ... neap_solution_figures(solutions[0]) ..., then destroy each solution
 *
 * The curve is monotone by construction, whatever the method:
 *
 * - A plan for one budget fits every larger budget. If the method finds a slower plan for the
 * larger
 *   budget, or none, the solution gets the plan of the smaller budget: judged again, with the
 *   figures of the larger budget and a message that says so. A plan whose addresses exceed its
 *   budget replaces only a missing plan or another plan without addresses, unless its addresses fit
 *   the larger budget.
 * - No plan for a budget is faster than the bound of a larger one, so bounds are shared
 *   (neap_solutions_share_bounds).
 *
 * Methods that take constraints (neap_method_takes_constraints) reuse work: budgets are solved from
 * the smallest to the largest, and each solve starts from the previous plan, or from the request's
 * own start if that one is faster and fits.
 */
#ifndef NEAP_CURVE_H
#define NEAP_CURVE_H

#include <neap/solve.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Solves the request for each of n budgets (bytes; -1: none). They may be in any order and may
 * repeat. solutions[i] belongs to budgets[i]; the caller destroys it. The request's own budget is
 * ignored. Its time limit covers the whole curve: each budget gets an equal share of the remaining
 * time. Progress reports name the budget as the part. After a cancellation, budgets that were not
 * reached get the plan of a smaller budget, if there is one.
 *
 * NEAP_INVALID for an objective other than time; otherwise the status of neap_solve. On failure all
 * solutions are NULL.
 */
NEAP_API neap_status neap_curve_solve(neap_allocator *allocator, const neap_request *request,
                                      const int64_t *budgets, size_t n, neap_solution **solutions,
                                      neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
