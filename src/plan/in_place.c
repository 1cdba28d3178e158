/*
 * Marks runs in place in a finished plan.
 *
 * Two walks over the steps. Backwards, every computation that could be in place learns which step
 * touches the storage of its input next. Forwards, residency (residency.h) says whether the input
 * is alone on its storage; if the next step that touches it is its free, the run is in place.
 *
 * Why the peak cannot rise: the input's storage is live for fewer steps than before, and every
 * other storage for the same ones.
 */
#include "plan/in_place.h"

#include "base/fail.h"
#include "base/memory.h"
#include "plan/plan_internal.h"
#include "plan/residency.h"

static const size_t NEVER = SIZE_MAX;

typedef struct marker {
    const neap_graph *graph;
    neap_plan *plan;
    neap_residency residency;
    size_t *next;    /* by step: the next that touches the storage of the op's in-place input */
    bool *offloaded; /* by value: copied to the host since it came into memory */
    bool *dropped;   /* by step: a free that goes */
    size_t count;
} marker;

static uint32_t storage_of(const marker *m, uint32_t value)
{
    return neap_graph_value(m->graph, value)->storage;
}

/* Whether the op could run in place in some plan, and writes nothing else to its input's storage.
 */
static bool is_candidate(const marker *m, const neap_op *op)
{
    uint32_t from = op->in_place_input, to = op->in_place_output;
    if (from == NEAP_NONE || neap_graph_value(m->graph, from)->producer == NEAP_NONE)
        return false;
    uint32_t storage = storage_of(m, from);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (storage_of(m, op->outputs[i]) == storage)
            return false;
    return storage_of(m, to) == to &&
           neap_graph_value(m->graph, to)->bytes == neap_graph_value(m->graph, storage)->bytes;
}

/* ---- Backwards ---- */

static bool exists(const marker *m, const neap_step *step)
{
    return step->id < (step->kind == NEAP_COMPUTE ? neap_graph_op_count(m->graph)
                                                  : neap_graph_value_count(m->graph));
}

/* `touched` has, by storage, the earliest step seen so far. */
static void find_next(marker *m, size_t *touched)
{
    for (size_t i = m->plan->n_steps; i-- > 0;) {
        const neap_step *step = &m->plan->steps[i];
        m->next[i] = NEVER;
        if (!exists(m, step)) /* the second walk reports it */
            continue;
        if (step->kind != NEAP_COMPUTE) {
            touched[storage_of(m, step->id)] = i;
            continue;
        }
        const neap_op *op = neap_graph_op(m->graph, step->id);
        if (is_candidate(m, op))
            m->next[i] = touched[storage_of(m, op->in_place_input)];
        for (uint32_t k = 0; k < op->n_inputs; k++)
            touched[storage_of(m, op->inputs[k])] = i;
        for (uint32_t k = 0; k < op->n_outputs; k++)
            touched[storage_of(m, op->outputs[k])] = i;
    }
}

/* ---- Forwards ---- */

/* Whether the computation that is step `at`, before which residency stands, can be in place. */
static bool can_pass_on(const marker *m, size_t at)
{
    const neap_step *steps = m->plan->steps;
    size_t next = m->next[at];
    if (next == NEVER || steps[at].in_place || steps[next].kind != NEAP_FREE)
        return false;
    const neap_op *op = neap_graph_op(m->graph, steps[at].id);
    const uint32_t *holders = m->residency.holders;
    uint32_t from = op->in_place_input;
    return steps[next].id == from && holders[storage_of(m, from)] == 1 &&
           holders[op->in_place_output] == 0 && !m->offloaded[from];
}

static neap_status mark(marker *m)
{
    for (size_t i = 0; i < m->plan->n_steps; i++) {
        neap_step *step = &m->plan->steps[i];
        if (m->dropped[i])
            continue;
        if (step->kind == NEAP_COMPUTE && can_pass_on(m, i)) {
            step->in_place = true;
            m->dropped[m->next[i]] = true;
            m->count++;
        }
        NEAP_TRY(neap_residency_step(&m->residency, step, i));
        if (step->kind == NEAP_COMPUTE && step->in_place)
            m->offloaded[neap_graph_op(m->graph, step->id)->in_place_input] = false;
        else if (step->kind != NEAP_COMPUTE) /* a free waits for the copy */
            m->offloaded[step->id] = step->kind == NEAP_OFFLOAD;
    }
    return NEAP_OK;
}

static void remove_dropped(marker *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->plan->n_steps; i++)
        if (!m->dropped[i])
            m->plan->steps[kept++] = m->plan->steps[i];
    m->plan->n_steps = kept;
}

neap_status neap_plan_run_in_place(neap_allocator *allocator, const neap_graph *graph,
                                   neap_plan *plan, size_t *count, neap_diag *diag)
{
    marker m = {.graph = graph, .plan = plan};
    uint32_t n_values = neap_graph_value_count(graph);
    size_t *touched;
    *count = 0;
    allocator = neap_allocator_or_system(allocator);
    neap_status status = neap_residency_init(&m.residency, allocator, graph, plan, "", diag);
    neap_arena *arena = &m.residency.arena;
    if (status == NEAP_OK &&
        (!NEAP_TAKE(arena, plan->n_steps, m.next) || !NEAP_TAKE(arena, plan->n_steps, m.dropped) ||
         !NEAP_TAKE(arena, n_values, m.offloaded) || !NEAP_TAKE(arena, n_values, touched)))
        status = neap_fail_no_memory(diag);
    if (status == NEAP_OK) {
        for (uint32_t v = 0; v < n_values; v++)
            touched[v] = NEVER;
        find_next(&m, touched);
        status = mark(&m);
        remove_dropped(&m);
    }
    neap_residency_clear(&m.residency);
    *count = m.count;
    if (m.count > 0 && status == NEAP_OK)
        status = neap_plan_set_offsets(plan, NULL, 0, -1, diag);
    return status;
}
