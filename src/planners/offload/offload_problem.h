/*
 * Problem 1 of Beaumont et al., "Optimal GPU-CPU Offloading Strategies", for a graph: each op runs
 * once, in the graph's order, and some storages spend the time between forward and backward pass on
 * the host.
 *
 * The paper's x_i are the graph's *parcels*: storages that ops touch both before the turn (the
 * first op of the backward pass) and after it. A parcel can be copied out once it is made, leaves
 * after the last op before the turn that touches it, and must be back for the first op after the
 * turn that does. On a chain of layers parcel i is x_i, its op `left` is F_i and its op `needed` is
 * B_i. A graph without a backward pass turns at the op that needs most memory.
 *
 * Memory is counted per op: `need[k]` is the paper's m_{F_i} or m_{B_i}. The bytes that are away at
 * op k are subtracted from it, which is exact for any network, with branches and long skips.
 *
 * If the backward pass reads several values of a storage (a tensor and its transposed view), one of
 * them is copied, and view ops that take no time recompute the others from it.
 */
#ifndef NEAP_OFFLOAD_PROBLEM_H
#define NEAP_OFFLOAD_PROBLEM_H

#include "planners/common/planner.h"

typedef struct parcel {
    uint32_t value; /* what is copied */
    uint32_t storage;
    int64_t bytes;               /* more than 0 */
    int64_t out_ticks, in_ticks; /* of its transfers */
    uint32_t made;               /* the op that makes `value`: the copy may start after it */
    uint32_t left;               /* the last op before the turn that touches the storage; >= made */
    uint32_t needed;             /* the first op after the turn that does; left < needed */
    uint32_t n_kept;             /* values on the storage to free when it leaves */
    const uint32_t *kept;        /* the copied one first; the others are read after the turn */
    uint32_t n_rebuilt;
    const uint32_t *rebuilt; /* view ops to run again before `needed` */
    bool value_read;         /* the copied value itself is read after the turn */
} parcel;

/* What methods decide on: one parcel, or those of a stage of the chain view. */
typedef struct offload_unit {
    uint32_t first;        /* its first parcel; it ends where the next unit begins */
    uint32_t left, needed; /* ops: after the first and before the second, all parcels can be away */
    int64_t bytes, transfer_ticks; /* of its parcels */
} offload_unit;

typedef struct offload_problem {
    const planner *planner;
    const neap_graph *graph;
    neap_link link;
    int64_t budget; /* M_GPU */
    uint32_t n_ops;
    uint32_t turn;       /* the first op after the turn */
    uint32_t *variants;  /* per op: the fastest that fits when all parcels are away */
    int64_t *ticks;      /* per op, by that variant */
    int64_t *need;       /* per op: bytes live while it runs if nothing is away */
    int64_t *before;     /* per op: bytes live just before it, if nothing is away */
    int64_t *least_need; /* per op: `need` with the variant of least workspace */
    double *excess;      /* per op, and one more: scratch of the relaxations */
    uint32_t n_parcels;
    parcel *parcels; /* by ascending `left`, then `made`, then storage: the order of the paper */
    uint32_t n_units;
    offload_unit *units;                /* and one more, which begins after the last parcel */
    int64_t *made_bytes, *needed_bytes; /* per op: of the parcels made there, and needed there */
    uint32_t *parcel_of;                /* per value: the parcel of its storage, or NEAP_NONE */
    neap_plan *natural;                 /* every op once, in the natural order */
    int64_t peak;                       /* M_peak: the most of need */
    uint32_t peak_op;
    int64_t least_peak; /* the most of least_need, for bounds */
    int64_t floor;      /* the peak with all parcels away: no selection fits less */
    uint32_t floor_op;
    int64_t total_ticks;    /* of all ops */
    int64_t total_bytes;    /* of all parcels */
    int64_t transfer_ticks; /* of all their transfers */
    neap_arena arena;       /* of all the arrays */
} offload_problem;

typedef enum offload_grain { OFFLOAD_STORAGES = 0, OFFLOAD_STAGES } offload_grain;

neap_status neap_offload_problem_build(const planner *p, offload_grain grain,
                                       offload_problem *problem, neap_diag *diag);
void neap_offload_problem_clear(offload_problem *problem);

/* Bytes away at each op, and one more, once the flagged parcels (NULL: all) have left. */
void neap_offload_sum_away(const offload_problem *problem, const bool *away, int64_t *absent);

#endif
