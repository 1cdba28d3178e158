/* Single-level checkpointing: what Chen et al., Hong et al. and Feng and Huang's methods all end
 * in. */
#ifndef NEAP_PLANNERS_SEGMENTS_H
#define NEAP_PLANNERS_SEGMENTS_H

#include "planners/common/planner.h"

#include <neap/chain.h>

/*
 * Stages are grouped into segments: a new one begins behind each stage s with checkpoint[s]
 * (n_stages entries; that of the last stage does not matter). The
 * forward part runs through; of each segment only what later segments read survives. Going
 * backwards, the first op that reads something dropped has the segment's forward ops run again,
 * those of them that the backward pass needs. The last segment is kept whole.
 */
neap_status neap_planner_use_segments(const planner *p, draft *d, const neap_chain *chain,
                                      const bool *checkpoint, neap_diag *diag);

#endif
