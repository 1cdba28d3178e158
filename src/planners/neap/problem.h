/*
 * The graph as the method `neap` and its bounds use it: tasks that make and read tensors.
 *
 * A *tensor* is a storage that some op makes; inputs are not tensors (base_bytes includes them). A
 * *task* is an op that takes time or memory, in the graph's order. Ops that only make views of one
 * storage, in no time and without workspace, are not tasks: a reader of the view reads the tensor,
 * and the plan recomputes the view wherever it is needed.
 *
 * A view with a cost, or a view of such a view, is a tensor of 0 bytes that is never recomputed.
 * Its storage is never dropped either, and a reader of the view reads both. A tensor that an op
 * makes together with a view of it is not offloaded: a prefetch would restore the owner only.
 *
 * A task may run *in place*: a tensor that it makes takes over the storage of one that it reads,
 * which is gone afterwards. `in_place` names the tensor that is read, if nothing but the schedule
 * stands against it: it is not a costly view, the task reads and makes nothing else on its storage,
 * and has a tensor of as many bytes to put there. A run is in place exactly if the tensor is not
 * used again before it is made again, and then takes that many bytes less.
 *
 * A task may *update* state: it runs once, and every run of a task that reads this state, other
 * updates excepted, comes before it. `before` lists those tasks.
 *
 * The variants of a task are sorted from the fastest to the one with the least workspace; variants
 * that another one beats in both are left out.
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

/* One list per index: items[start[i]] .. items[start[i + 1] - 1], ascending, without duplicates. */
typedef struct id_lists {
    uint32_t *start;
    uint32_t *items;
} id_lists;

typedef struct problem {
    neap_arena arena;
    const neap_graph *graph;
    neap_state_place state_place; /* of the request */
    int64_t base_bytes;           /* fixed bytes and inputs */
    uint32_t n_tasks, n_tensors;
    /* by task */
    uint32_t *task_op;       /* ascending */
    id_lists makes;          /* tensors */
    id_lists reads;          /* tensors of other tasks */
    uint32_t *variant_start; /* n_tasks + 1 */
    task_variant *variants;
    int64_t *made_bytes; /* of all it makes */
    int64_t *read_bytes; /* of all it reads */
    bool *is_update;     /* it overwrites state */
    id_lists before;     /* tasks all of whose runs come before it, apart from what it reads */
    uint32_t *in_place;  /* the tensor that it may write over; NEAP_NONE: none */
    int64_t least_ticks; /* of all tasks once */
    /* by tensor */
    uint32_t *tensor_value; /* the value that owns the storage, or the costly view */
    int64_t *bytes;
    uint32_t *producer; /* task */
    id_lists readers;   /* tasks */
    bool *is_output;    /* it is needed at the end */
    uint8_t *pins;      /* from the request (neap_pin), and from views as above */
    bool *may_pass_on;  /* some task may write over it */
    /* by the graph's ids */
    uint32_t *task_of_op;      /* NEAP_NONE: a free view */
    uint32_t *tensor_of_value; /* NEAP_NONE: an input or a view of one */
    uint32_t *updater;         /* by storage: the task that overwrites it; NEAP_NONE: none */
} problem;

/* Reads the request's graph and pins. neap_problem_clear is needed after a failure too. */
neap_status neap_problem_init(problem *x, neap_allocator *allocator, const neap_request *request,
                              neap_diag *diag);
void neap_problem_clear(problem *x);
/* No task runs in place any more. */
void neap_problem_forget_in_place(problem *x);

/* All plans, or those whose tasks, updates excepted, run for the first time in the graph's order. */
typedef enum cut_scope { CUT_ANY_ORDER = 0, CUT_GRAPH_ORDER } cut_scope;

/* The first run of a task relative to that of another: certainly before it, certainly not, or
   unknown. */
typedef enum task_role { ROLE_UNKNOWN = 0, ROLE_PAST, ROLE_FUTURE } task_role;

/* Writes the roles of all tasks relative to one, which is itself in the future. */
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

/* Bytes that a run in place takes less. */
static inline int64_t task_in_place_bytes(const problem *x, uint32_t task)
{
    return x->in_place[task] == NEAP_NONE ? 0 : x->bytes[x->in_place[task]];
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
