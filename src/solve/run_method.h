/*
 * Runs a method, and finishes its plan: updates, and runs in place.
 *
 * Method neap plans both itself; of what it leaves out of place, this marks what can be in place.
 * All other methods are those of papers, which know neither. They plan the graph without updates
 * (updates_last.h), and runs in place are marked in their plans (plan/in_place.h). That takes less
 * memory than they were told to use, so they may use more: they plan again within more bytes than
 * the budget, as long as the finished plan keeps to it.
 */
#ifndef NEAP_SOLVE_RUN_METHOD_H
#define NEAP_SOLVE_RUN_METHOD_H

#include "planners/common/planner.h"

/*
 * Plans within p->budget; with `once`, without a second run within more bytes. The draft's plan has
 * been judged, the method's prediction equals the judge's figures, and after that the prediction is
 * the finished plan's. Bounds of the method remain only if they hold for plans that run in place
 * and update early.
 */
neap_status neap_run_method(const planner *p, const neap_method *method, bool once, draft *d,
                            neap_diag *diag);

#endif
