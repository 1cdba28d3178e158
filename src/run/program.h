/*
 * A plan prepared to run: every step with its kernel and its addresses.
 *
 * All addresses are known before the first step, because the plan places every instance of a
 * storage. A step therefore costs only its kernel, and errors in a plan are found here.
 *
 * A plan for a split graph (neap/split.h) moves and frees pieces; its kernels are those of the
 * whole graph and get whole values.
 */
#ifndef NEAP_RUN_PROGRAM_H
#define NEAP_RUN_PROGRAM_H

#include "base/arena.h"
#include "run/specs.h"
#include "run/windows.h"

#include <neap/plan.h>

typedef struct run_action {
    neap_step_kind kind;
    uint32_t id;              /* the op or value */
    const run_kernel *kernel; /* compute: NULL for a view */
    bool in_place;            /* compute: writes over the op's in_place_input */
    void **in, **out;         /* compute: addresses of the operands */
    void *workspace;
    uint64_t salt;       /* compute, random ops: mixed with the seed of the step */
    unsigned char *data; /* others: the storage; NULL for a free that leaves it live */
    int64_t bytes;       /* of the workspace or the storage */
    int64_t host;        /* transfers: offset in the host arena */
} run_action;

/* State that lies elsewhere at the end of a step than at the start of one. It goes straight there
   if nothing else that has to move is in the way by then. */
typedef struct run_move {
    unsigned char *from, *to;
    int64_t bytes;
    int64_t host; /* offset in the host arena, of what waits there for the other moves; or -1 */
} run_move;

typedef struct run_program {
    run_action *actions;
    size_t count;
    unsigned char **finals; /* by value of the whole graph: address of the first element at the
                               end, if resident then and not in pieces */
    int64_t *homes;         /* by value of the whole graph: offset of the first element in the host
                               arena, of state that is there between steps; otherwise -1 */
    run_move *moves;        /* before the first action, in this order */
    size_t n_moves;
    int64_t host_bytes;
    size_t n_transfers;
    neap_arena memory; /* owns all of the above */
    run_windows windows;
} run_program;

/* Finds the kernel for a variant of an op. */
typedef struct run_kernels run_kernels;
struct run_kernels {
    neap_status (*find)(run_kernels *self, uint32_t op, uint32_t variant, const run_kernel **kernel,
                        neap_diag *diag);
};

/*
 * `plan` is for `graph`, whose whole graph `specs` has, with offsets for the arena, which is a file
 * if the graph is split. NEAP_INVALID names the first step that cannot be run. Clear `program`
 * after a failure too, and before the arena is destroyed.
 */
neap_status neap_run_program_init(const run_specs *specs, const neap_graph *graph,
                                  const neap_plan *plan, run_kernels *kernels,
                                  const run_block *arena, run_program *program, neap_diag *diag);
void neap_run_program_clear(run_program *program);

#endif
