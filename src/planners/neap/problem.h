/*
 * The graph as the method `neap` and its bounds use it: tasks that make and read tensors.
 *
 * A *tensor* is a storage that some op makes; inputs are not tensors (base_bytes includes them). A
 * *task* is an op that takes time or memory. Ops that only make views of one storage, in no time
 * and without workspace, are not tasks: a reader of the view reads the tensor, and the plan
 * recomputes the view wherever it is needed.
 *
 * Tasks are numbered in the *task order*: the graph's order, in which every update is moved forward
 * to its earliest place (task_order.h). An *update*, a task that overwrites state, runs exactly
 * once, after all runs of the tasks without updates that read this state (`updated_by` and, the
 * other way round, `before`); it may make nothing at all.
 *
 * *State* that travels (neap_problem_let_state_travel) is not part of base_bytes. It has ids as
 * tensors do, from n_tensors to n_tensors + n_states - 1, in `bytes`, `tensor_value` and `pins`; no
 * task makes it, and `reads` does not list it, but `state_reads` does. State is on the device from
 * the start to the end, or is on the host at both, so that its bytes count at neither. While a task
 * reads it, it is on the device; between its uses it may be on the host: as a copy that is there
 * since the start, or that has to be made; and after its update a new copy has to be made. Without
 * a link, or with NEAP_STATE_DEVICE, there are no such states: base_bytes includes all inputs.
 *
 * A view with a cost, or a view of such a view, is a tensor of 0 bytes that is never recomputed.
 * Its storage is never dropped either, and a reader of the view reads both. A tensor that an op
 * makes together with a view of it is not offloaded: a prefetch would restore the owner only.
 *
 * A task may run *in place*: a tensor that it makes takes over the storage of one that it reads,
 * which is gone afterwards. `in_place` names the tensor that is read, if nothing but the schedule
 * stands against it: the task reads and makes nothing else on its storage, has a tensor of as many
 * bytes to put there, and neither has costly views. A run is in place exactly if the tensor is not
 * used again before it is made again, and then takes that many bytes less.
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
    int64_t base_bytes;           /* fixed bytes, and inputs without the state that travels */
    uint32_t n_tasks, n_tensors, n_states;
    int64_t state_bytes; /* of the state that travels */
    bool has_updates;    /* some task is one */
    /* by task */
    uint32_t *task_op;
    id_lists updated_by;  /* tasks: the updates of what it reads; none for an update */
    id_lists state_reads; /* states, also those that it overwrites */
    int64_t *state_read_bytes;
    id_lists makes;          /* tensors */
    id_lists reads;          /* tensors of other tasks */
    uint32_t *variant_start; /* n_tasks + 1 */
    task_variant *variants;
    int64_t *made_bytes; /* of all it makes */
    int64_t *read_bytes; /* of all it reads */
    bool *is_update;     /* it overwrites state */
    id_lists before;     /* tasks all of whose runs come before it, apart from what it reads */
    uint32_t *in_place;  /* the tensor that it may write over; NEAP_NONE: none */
    uint32_t n_in_place; /* tasks with one */
    int64_t least_ticks; /* of all tasks once */
    /* by tensor */
    uint32_t *tensor_value; /* the value that owns the storage, or the costly view */
    int64_t *bytes;
    uint32_t *producer; /* task */
    id_lists readers;   /* tasks */
    bool *is_output;    /* it is needed at the end */
    uint8_t *pins;      /* from the request (neap_pin), and from views as above */
    bool *may_pass_on;  /* some task may write over it; never over state */
    /* by state, counted from 0 */
    uint32_t *state_update; /* task; NEAP_NONE: it does not change */
    /* by the graph's ids */
    uint32_t *task_of_op;      /* NEAP_NONE: a free view */
    uint32_t *tensor_of_value; /* NEAP_NONE: an input or a view of one */
    uint32_t *state_of_value;  /* states and their views: the id; NEAP_NONE: others */
    bool *pinned_input; /* values that the request pins to the device, and that no op makes */
    uint32_t *updater;  /* by storage: the task that overwrites it; NEAP_NONE: none */
} problem;

/* Reads the request's graph and pins. neap_problem_clear is needed after a failure too. */
neap_status neap_problem_init(problem *x, neap_allocator *allocator, const neap_request *request,
                              neap_diag *diag);
/* The same, but tasks are numbered in the graph's order, updates too. */
neap_status neap_problem_init_in_graph_order(problem *x, neap_allocator *allocator,
                                             const neap_request *request, neap_diag *diag);
void neap_problem_clear(problem *x);
/* If the request has a link and permits it: state may be on the host, except state that is pinned,
   is an output, or of which there are views that must stay. */
neap_status neap_problem_let_state_travel(problem *x, const neap_request *request, neap_diag *diag);
/* No task runs in place any more. */
void neap_problem_forget_in_place(problem *x);
/* Leaves out variants that no plan within a budget can use: what they need alone exceeds it. The
   leanest variant of a task stays. */
void neap_problem_forget_variants(problem *x, int64_t budget);

/* Part of init: no state travels. False when out of memory (problem_state.c). */
bool neap_problem_begin_states(problem *x);
/* Sorts items[from .. end - 1] and removes duplicates; returns the new end. */
uint32_t neap_problem_sort_unique(uint32_t *items, uint32_t from, uint32_t end);

/* All plans, or those whose tasks run for the first time in the graph's order, updates excepted. */
typedef enum cut_scope { CUT_ANY_ORDER = 0, CUT_GRAPH_ORDER } cut_scope;

/* The first run of a task relative to that of another: certainly before it, certainly not, or
   unknown. */
typedef enum task_role { ROLE_UNKNOWN = 0, ROLE_PAST, ROLE_FUTURE } task_role;

/* Writes the roles of all tasks relative to one, which is itself in the future. */
void neap_problem_mark_roles(const problem *x, uint32_t task, cut_scope scope, uint8_t *role);

/* Tensors and the state that travels. */
static inline uint32_t problem_n_all(const problem *x)
{
    return x->n_tensors + x->n_states;
}

/* Fixed bytes and all inputs. */
static inline int64_t problem_device_bytes(const problem *x)
{
    return x->base_bytes + x->state_bytes;
}

static inline bool is_state(const problem *x, uint32_t tensor)
{
    return tensor >= x->n_tensors;
}

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
