/*
 * Single-level checkpointing on any graph: which storages may be checkpoints, and the plan for a
 * choice of them.
 *
 * Jain et al., "Checkmate" (2020), section 6.1 and Appendix B, carry Chen et al.'s heuristics over
 * from chains by a list of candidates in execution order:
 *
 *     articulation points   storages that alone join their past to their future (B.1)
 *     linear                every storage that a later forward op reads, as if each were all that
 *                           its successors need (B.2)
 *
 * A candidate is an op: as a checkpoint it leaves behind what it makes and later forward ops read.
 * Side storages (neap/chain.h) are always kept and are no candidates.
 */
#ifndef NEAP_PLANNERS_CHECKPOINTS_H
#define NEAP_PLANNERS_CHECKPOINTS_H

#include "planners/checkmate/frontier_rows.h"
#include "planners/common/planner.h"

#include <neap/chain.h>

typedef enum candidate_rule { ARTICULATION_POINTS = 0, EVERY_OP } candidate_rule;

/* Candidates are counted from 1, as layers are in planners/chain/least_peak.h. */
typedef struct checkpoints {
    neap_chain chain;
    uint32_t n;
    uint32_t *ops;  /* n + 1: [i] makes candidate i; ascending; [0] unused */
    int64_t *d;     /* n + 1: what candidate i keeps, in bytes; [0] unused */
    int64_t *inner; /* n + 2: other storages made behind candidate i - 1 and up to i; [n + 1] those
                       made behind candidate n; side storages left out */
    /* Its own. */
    const neap_graph *graph;
    neap_arena arena;
    bool *is_read_on;  /* per storage: a later forward op reads it, and it is no side storage */
    bool *is_kept;     /* per storage: lies on a checkpoint */
    bool *is_resident; /* per value */
    frontier_rows rows;
} checkpoints;

/* Fine to clear after a failure. */
neap_status neap_checkpoints_build(const planner *p, candidate_rule rule, checkpoints *c,
                                   neap_diag *diag);
void neap_checkpoints_clear(checkpoints *c);

/*
 * The plan with these checkpoints, chosen[1 .. n], into the draft.
 *
 * The forward pass computes each op once, in order, and keeps a value while forward ops read it.
 * When it is over, checkpoints stay, and everything made behind the last of them: dropping that
 * would only have it computed again at once. So candidate n, at which the pass turns, begins no
 * segment. The backward pass computes again what an op needs and is not there, from what is (see
 * frontier_rows.h), and keeps it from then on; so no op runs more than twice. A value leaves after
 * its last use in all that.
 */
neap_status neap_checkpoints_lower(const planner *p, draft *d, checkpoints *c, const bool *chosen,
                                   neap_diag *diag);

/* Tells `candidates`, their number, and `checkpoints`, the chosen ones' op ids. */
neap_status neap_checkpoints_report(const planner *p, draft *d, checkpoints *c, const bool *chosen,
                                    neap_diag *diag);

#endif
