/*
 * neap/curve.h - what less memory costs in time: one method at many budgets.
 *
 *     const int64_t budgets[] = {4LL << 30, 6LL << 30, 8LL << 30};
 *     neap_solution *solutions[3];
 *     neap_request request;
 *     neap_request_init(&request, graph, "rotor");
 *     if (neap_curve_solve(NULL, &request, budgets, 3, solutions, &diag) == NEAP_OK)
 *         ... neap_solution_figures(solutions[0]) ..., each to be destroyed
 *
 * The curve is monotone by construction, whatever the method:
 *
 * - A plan for a budget fits every larger one. Where a larger budget's own plan is slower, or there
 *   is none, the smaller one's is taken over: judged again, with the figures of the larger budget,
 *   and a message that says so. A plan whose addresses exceed its budget is taken over only in
 *   place of none, or of another such, unless its addresses fit the larger one.
 * - No plan for a budget is faster than the bound of a larger one, so bounds are shared
 *   (neap_solutions_share_bounds).
 *
 * Methods that take constraints (neap_method_takes_constraints) share work: budgets are solved from
 * the smallest to the largest, each beginning with the plan of the one before, or with the
 * request's own start where that is faster and fits.
 */
#ifndef NEAP_CURVE_H
#define NEAP_CURVE_H

#include <neap/solve.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Solves the request for each of n budgets (bytes; -1: none), in any order, with repetitions if you
 * like; solutions[i] is that of budgets[i], the caller's to destroy. The request's own budget is
 * ignored. Its time limit is that of the whole curve: each budget gets an equal share of what is
 * left. Its progress hears of each solve, with the budget as the phase. If it is cancelled, budgets
 * that were not reached have what is known: the plan of a smaller one, if any.
 *
 * NEAP_INVALID for an objective other than time, and whatever neap_solve returns. On failure all
 * solutions are NULL.
 */
NEAP_API neap_status neap_curve_solve(neap_allocator *allocator, const neap_request *request,
                                      const int64_t *budgets, size_t n, neap_solution **solutions,
                                      neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
