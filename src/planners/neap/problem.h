/*
 * What the method `neap` and its bounds see of a graph: tasks that make and read tensors.
 *
 * A *tensor* is a storage that some op makes; inputs are not among them (base_bytes has them). A
 * *task* is an op that takes time or memory, in the graph's order. Ops that only make views, out of
 * one storage, in no time and without workspace, are no tasks: a reader of the view reads the
 * tensor, and the plan makes the view again wherever it is needed (emit.h).
 *
 * A view that does cost something, or that is made of one that does, is a tensor of 0 bytes that is
 * never made again; the storage it lies on is then never dropped either, and whoever reads the view
 * reads both. A tensor that an op makes together with a view of it is not copied to the host: only
 * the owner of a storage would come back.
 *
 * A task's variants stand from the fastest to the leanest; those that another one beats in time and
 * workspace are left out.
 *
 * Pins are the caller's wishes (neap_pin), by tensor.
 */
#ifndef NEAP_PLANNERS_NEAP_PROBLEM_H
#define NEAP_PLANNERS_NEAP_PROBLEM_H

#include "base/arena.h"

#include <neap/planner.h>

enum {
    TENSOR_NO_RECOMPUTE = 1, /* its task runs once */
    TENSOR_NO_OFFLOAD = 2,   /* it is not copied to the host */
};

typedef struct task_variant {
    int64_t ticks, workspace;
    uint32_t index; /* of the graph's op */
} task_variant;

/* For each of n things a list: items[start[i]] .. items[start[i + 1] - 1], ascending, each once. */
typedef struct id_lists {
    uint32_t *start;
    uint32_t *items;
} id_lists;

typedef struct problem {
    neap_arena arena;
    const neap_graph *graph;
    int64_t base_bytes; /* fixed bytes and inputs */
    uint32_t n_tasks, n_tensors;
    /* by task */
    uint32_t *task_op;       /* ascending */
    id_lists makes;          /* tensors */
    id_lists reads;          /* tensors of other tasks */
    uint32_t *variant_start; /* n_tasks + 1 */
    task_variant *variants;
    int64_t *made_bytes; /* of all it makes */
    int64_t *read_bytes; /* of all it reads */
    int64_t least_ticks; /* of all tasks once */
    /* by tensor */
    uint32_t *tensor_value; /* the value that owns the storage, or the costly view */
    int64_t *bytes;
    uint32_t *producer; /* task */
    id_lists readers;   /* tasks */
    bool *is_output;    /* it is needed at the end */
    uint8_t *pins;
    /* by the graph's ids */
    uint32_t *task_of_op;      /* NEAP_NONE: a free view */
    uint32_t *tensor_of_value; /* of a root or a view; NEAP_NONE: an input's */
} problem;

/* Reads the request's graph and pins. neap_problem_clear is needed after a failure too. */
neap_status neap_problem_init(problem *x, neap_allocator *allocator, const neap_request *request,
                              neap_diag *diag);
void neap_problem_clear(problem *x);

/* Which plans: all of them, or those whose tasks run for the first time in the graph's order. */
typedef enum cut_scope { CUT_ANY_ORDER = 0, CUT_GRAPH_ORDER } cut_scope;

/* The first run of a task, seen from the first run of another: certainly before it, certainly not
   before it, or either. */
typedef enum task_role { ROLE_UNKNOWN = 0, ROLE_PAST, ROLE_FUTURE } task_role;

/* The roles of all tasks seen from one, itself in the future, into role[]. */
void neap_problem_mark_roles(const problem *x, uint32_t task, cut_scope scope, uint8_t *role);

/* Least ticks of a task, and least workspace. */
static inline int64_t task_ticks(const problem *x, uint32_t task)
{
    return x->variants[x->variant_start[task]].ticks;
}

static inline int64_t task_workspace(const problem *x, uint32_t task)
{
    return x->variants[x->variant_start[task + 1] - 1].workspace;
}

/* Whether every op the tensor comes from may run again. */
static inline bool tensor_can_recompute(const problem *x, uint32_t tensor)
{
    return !(x->pins[tensor] & TENSOR_NO_RECOMPUTE);
}

static inline bool tensor_can_offload(const problem *x, uint32_t tensor)
{
    return !(x->pins[tensor] & TENSOR_NO_OFFLOAD) && x->bytes[tensor] > 0;
}

#endif
