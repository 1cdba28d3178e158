/*
 * From a compute list and its transfers to a plan of steps, and back.
 *
 * Frees follow from the list: a tensor's values are freed after its last touch before it is made
 * again (or at once if there is none), the graph's outputs stay. A run whose tensor to write over
 * (problem.h) would be freed after it is in place instead; one that is written over while it is on
 * the host, too. Views that are not tasks are made
 * where they are first needed for each instance of the tensor, each at least once. That takes no
 * time and no bytes, so memory and time are those of the list.
 */
#ifndef NEAP_PLANNERS_NEAP_PLAN_CONVERSION_H
#define NEAP_PLANNERS_NEAP_PLAN_CONVERSION_H

#include "planners/neap/transfers.h"

/* A plan with the request's method and budget. Transfers that stay are skipped. */
neap_status neap_schedule_to_plan(neap_allocator *allocator, const problem *x,
                                  const neap_request *request, const compute_list *list,
                                  neap_plan **plan, neap_diag *diag);

/*
 * The inverse, for a plan of the same graph that the judge accepts: its computations and transfers,
 * sorted by `after`, into a list that is zeroed or owns its arrays; clear it also after a failure.
 * Copies that nothing reads, and those of tensors that may not be copied (problem.h), are left out:
 * such a tensor counts as resident. A variant that the problem leaves out counts as the fastest
 * with no more workspace; if runs of a task differ in variant, the leanest counts.
 */
neap_status neap_plan_to_schedule(neap_allocator *allocator, const problem *x,
                                  const neap_plan *plan, compute_list *list, neap_diag *diag);

#endif
