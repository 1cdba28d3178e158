/*
 * Chain methods on both chain views (neap/chain.h): the one with cuts of a single storage and the
 * fine one. A finer chain has more choices, but carries some storages throughout, so neither is
 * always better: a method plans on both where they differ, and the better plan is its answer.
 */
#ifndef NEAP_PLANNERS_CHAIN_VIEWS_H
#define NEAP_PLANNERS_CHAIN_VIEWS_H

#include "planners/common/planner.h"

#include <neap/chain.h>

/* The option `cuts` of a chain method, and its choices. */
enum { CUTS_BEST = 0, CUTS_SINGLE, CUTS_SEVERAL };
#define NEAP_CUTS_OPTION                                                                           \
    NEAP_CHOICE_OPTION("cuts", "best|single|several",                                              \
                       "where the network is cut into stages: at single tensors, also at sets of " \
                       "several, or both ways and the better plan")

/* The most stages of the fine view, about: of methods with a table of slots for all pairs of
 * stages, and with a front for each. */
#define CHAIN_MOST_SLOTTED 512
#define CHAIN_MOST_FRONTS  160

typedef struct chain_view {
    bool fine;
    uint32_t most_stages; /* of the fine view; 0: any number */
} chain_view;

neap_status neap_chain_view_build(const planner *p, chain_view view, neap_chain *chain,
                                  neap_diag *diag);

/* A method on one view. `context` is the method's own. */
typedef neap_status (*view_planner)(const planner *p, draft *d, chain_view view, void *context,
                                    neap_diag *diag);

/*
 * Runs a method on the views that `cuts` asks for, and keeps the better draft: one within the
 * budget, then the faster one; of two beyond it, or without a budget, the one with the lower peak.
 */
neap_status neap_planner_use_views(const planner *p, draft *d, int cuts, uint32_t most_stages,
                                   view_planner plan, void *context, neap_diag *diag);

#endif
