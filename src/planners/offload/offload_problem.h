/*
 * Problem 1 of Beaumont et al., "Optimal GPU-CPU Offloading Strategies", for a graph: the ops run
 * once each, in the graph's order, and some storages spend the time between forward and backward
 * pass on the host.
 *
 * The paper's x_i are the graph's *parcels*: a storage that ops touch before the turn (the first op
 * of the backward pass) and again behind it. It can be copied out once it is made, leaves behind
 * the last op before the turn that touches it, and must be back when the first op behind the turn
 * does. On a chain of layers parcel i is x_i, and its op `left` is F_i, its op `needed` B_i. A
 * graph without a backward pass turns where it needs most memory.
 *
 * Sizes are kept per op: `need[k]` are the bytes live while op k runs if nothing is away, the
 * paper's m_{F_i} and m_{B_i}. What is away at op k is subtracted, and whatever order the network
 * has, branches and long skips included, the accounts are exact.
 *
 * A storage with several values that the backward pass reads (a tensor and its transposed view)
 * travels as one of them, and the others are made again from it by view ops that take no time.
 */
#ifndef NEAP_OFFLOAD_PROBLEM_H
#define NEAP_OFFLOAD_PROBLEM_H

#include "planners/common/planner.h"

typedef struct parcel {
    uint32_t value; /* what is copied */
    uint32_t storage;
    int64_t bytes;               /* more than 0 */
    int64_t out_ticks, in_ticks; /* of its transfers */
    uint32_t made;               /* the op that makes `value`: the copy may start behind it */
    uint32_t left;               /* the last op before the turn that touches the storage; >= made */
    uint32_t needed;             /* the first behind the turn that does; left < needed */
    uint32_t unit;               /* the unit it belongs to, by number */
    uint32_t n_kept;             /* values on the storage to free when it leaves */
    const uint32_t *kept;        /* the copied one first; the others are read behind the turn */
    uint32_t n_rebuilt;
    const uint32_t *rebuilt; /* view ops to run again before `needed` */
    bool value_read;         /* the copied value itself is read behind the turn */
} parcel;

typedef struct offload_problem {
    const planner *planner;
    const neap_graph *graph;
    neap_link link;
    int64_t budget; /* M_GPU */
    uint32_t n_ops;
    uint32_t turn;      /* the first op behind the turn */
    uint32_t *variants; /* per op: the fastest that fits when all parcels are away */
    int64_t *ticks;     /* per op, by that variant */
    int64_t *need;      /* per op: bytes live while it runs if nothing is away */
    uint32_t n_parcels;
    parcel *parcels;  /* by ascending `left`, then `made`, then storage: the order of the paper */
    uint32_t n_units; /* what methods decide upon: a parcel each, or those of a chain's stage */
    uint32_t *unit_first; /* per unit, and one more: its first parcel; a unit's stand together */
    int64_t *unit_bytes;  /* per unit */
    int64_t *made_bytes, *needed_bytes; /* per op: of the parcels made there, and needed there */
    uint32_t *parcel_of;                /* per value: the parcel of its storage, or NEAP_NONE */
    neap_plan *natural;                 /* every op once, frees where they fall */
    int64_t *before;     /* the same just before it, without its outputs and workspace */
    int64_t *least_need; /* the same by the variant of least workspace */
    int64_t peak;        /* M_peak: the most of need */
    int64_t least_peak;  /* the most of least_need: what bounds may speak of */
    uint32_t peak_op;
    int64_t floor; /* what is needed with all parcels away: no selection fits less */
    uint32_t floor_op;
    int64_t total_ticks;    /* of all ops */
    int64_t total_bytes;    /* of all parcels */
    int64_t transfer_ticks; /* of all their transfers */
    neap_arena arena;       /* of all the arrays */
} offload_problem;

/* Whether methods decide on single storages or on all that a stage of the chain view keeps. */
typedef enum offload_grain { OFFLOAD_STORAGES = 0, OFFLOAD_STAGES } offload_grain;

neap_status neap_offload_problem_build(const planner *p, offload_grain grain,
                                       offload_problem *problem, neap_diag *diag);
void neap_offload_problem_clear(offload_problem *problem);

/* Bytes away at each op, and one more, once the parcels with a flag (NULL: all) have left. */
void neap_offload_sum_away(const offload_problem *problem, const bool *away, int64_t *absent);

/* ---- Lower bounds, in ticks ---- */

/* Proposition 3: LB = max(all computations, twice what must be away over the bandwidth). */
int64_t neap_offload_lower_bound(const offload_problem *problem);

#endif
