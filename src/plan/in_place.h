/*
 * Runs in place for a plan that has none.
 *
 * A run in place costs nothing: the op's output takes over the storage of an input that is not
 * needed any more. So wherever a finished plan frees that input after the op, with nothing in
 * between that touches it, the run can be in place and the free goes. A planner that knows nothing
 * of runs in place gets their memory this way.
 */
#ifndef NEAP_PLAN_IN_PLACE_H
#define NEAP_PLAN_IN_PLACE_H

#include <neap/plan.h>

/*
 * Marks every computation of the plan that can be in place, and removes the frees of the inputs
 * that they write over. The plan stays legal, takes the same time, and its peak is not higher. An
 * input that was copied to the host since it came into memory stays as it is: its copy may still be
 * under way, and writing over it would have to wait. If anything changes, the plan's addresses go.
 *
 * *count is the number of computations marked. NEAP_INVALID for a plan that cannot be run. O(steps,
 * inputs and outputs).
 */
neap_status neap_plan_run_in_place(neap_allocator *allocator, const neap_graph *graph,
                                   neap_plan *plan, size_t *count, neap_diag *diag);

#endif
