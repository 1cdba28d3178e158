/*
 * Chain methods and ops with several variants: the variant of each op together with the schedule.
 *
 * A plan runs an op with one variant wherever it runs (so that a recomputation repeats its bits),
 * and the tables of a chain method know only one time and one workspace of an op. With the time of
 * the fastest variant and the workspace of the leanest, a table's optimum is a bound: no choice of
 * variants is faster within the memory. The plan that its schedule gives takes the fastest variants
 * that fit. Where those are slower than the bound, the search branches on an op: it has either a
 * variant faster than the one that fits, with at least that workspace, or this one or a slower one.
 * Best bound first; a branch whose bound is no better than the best plan is done. So the answer is
 * optimal over schedules and variants together, as far as the table is, when no branch is left.
 */
#ifndef NEAP_PLANNERS_VARIANT_SEARCH_H
#define NEAP_PLANNERS_VARIANT_SEARCH_H

#include "planners/chain/schedule.h"

/* Whether some op has several variants. */
bool neap_has_variants(const neap_graph *graph);

/*
 * Improves the draft's plan, if it has one, for a budget of `memory` bytes beyond the pinned ones.
 * Short chains are searched to the end; the longer the chain, the fewer branches are looked at.
 */
neap_status neap_variant_search(const planner *p, draft *d, chain_view view, uint32_t n_stages,
                                schedule_finder find, int64_t memory, neap_diag *diag);

#endif
