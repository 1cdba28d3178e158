/*
 * The forward pass of a chain view as a row of closed sets (division.h), one for each stage.
 *
 * Vertices are storages that other forward ops read; the vertex in front of a stage is the cut that
 * enters it, the one behind it the cut that leaves. An edge leads from each storage that a layer
 * reads to each that it makes. A layer's other outputs are bytes on its edge, if it reads one
 * vertex, or beside the first vertex that it makes. What a layer reads from elsewhere (parameters,
 * data, side and carried storages) is in memory anyway and no edge.
 */
#ifndef NEAP_PLANNERS_ACG_SETS_H
#define NEAP_PLANNERS_ACG_SETS_H

#include "planners/chain/division.h"
#include "planners/chain/least_peak.h"

typedef struct acg_sets {
    uint32_t n_names; /* vertices: 0 .. n the cuts d_i, n + 1 behind the loss, then inside stages */
    int64_t *bytes;   /* per name */
    int64_t *beside;  /* per name: made with it and read by no forward op */
    int64_t *weight;  /* per name: the sum of both */
    uint32_t *storage; /* per name inside a stage */
    division *sets[2]; /* from d_0 to d_n, unless n is 0; and behind d_n */
    uint32_t n_sets;
    division_list list;
    neap_arena arena; /* of all of it */
} acg_sets;

/* Stages are divided inside, or each is one piece. Clear also after a failure. */
neap_status neap_acg_sets_build(const planner *p, const least_peak_view *view, bool divided,
                                acg_sets *sets, neap_diag *diag);
void neap_acg_sets_clear(acg_sets *sets);

#endif
