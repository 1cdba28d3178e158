#include "solve/updates_last.h"

#include "base/fail.h"
#include "base/memory.h"
#include "plan/residency.h"
#include "planners/common/planner.h"

#include <string.h>

/* ---- The bare graph ---- */

static bool an_update_reads(const neap_graph *whole, uint32_t value)
{
    uint32_t count;
    const uint32_t *readers = neap_graph_readers(whole, value, &count);
    for (uint32_t i = 0; i < count; i++)
        if (neap_graph_op(whole, readers[i])->n_updates > 0)
            return true;
    return false;
}

/* Whether an op reads state of the optimizer, or nothing but what updates read, too. */
static bool reads_like_updates(const neap_graph *whole, const neap_op *op)
{
    bool all = op->n_inputs > 0;
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        if (strcmp(neap_graph_value(whole, op->inputs[i])->kind, NEAP_KIND_STATE) == 0)
            return true;
        all = all && an_update_reads(whole, op->inputs[i]);
    }
    return all;
}

/* Whether an op is part of the updates: the norm of all gradients, the sum of micro-batches. */
static bool prepares_updates(const neap_graph *whole, const neap_op *op, const bool *is_late)
{
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        uint32_t count;
        const uint32_t *readers = neap_graph_readers(whole, op->outputs[i], &count);
        for (uint32_t k = 0; k < count; k++)
            if (!is_late[readers[k]])
                return false;
        if (count == 0 || neap_graph_is_output(whole, op->outputs[i]))
            return false;
    }
    return op->n_outputs > 0 && reads_like_updates(whole, op);
}

static uint32_t count_late(const neap_graph *whole, bool *is_late)
{
    const uint32_t *order = neap_graph_ordinary_order(whole);
    uint32_t n_ops = neap_graph_op_count(whole), first = n_ops;
    for (uint32_t i = 0; i < n_ops && first == n_ops; i++)
        if (neap_graph_op(whole, order[i])->n_updates > 0 &&
            !neap_graph_is_side_update(whole, order[i]))
            first = i;
    for (uint32_t i = first; i < n_ops; i++)
        is_late[order[i]] = true;
    while (first > 0 && first < n_ops &&
           prepares_updates(whole, neap_graph_op(whole, order[first - 1]), is_late))
        is_late[order[--first]] = true;
    return n_ops - first;
}

static neap_status add_value(neap_bare_graph *bare, neap_graph_builder *builder, uint32_t id,
                             const uint32_t *new_id, neap_diag *diag)
{
    const neap_value *value = neap_graph_value(bare->whole, id);
    neap_value_desc desc;
    neap_value_describe(value, &desc);
    if (desc.view_of != NEAP_NONE)
        desc.view_of = new_id[desc.view_of];
    if (value->view_of != NEAP_NONE && desc.view_of == NEAP_NONE)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "value \"%s\" lies on what an update makes; only method neap plans that",
                         value->name);
    return neap_graph_builder_add_value(builder, &desc, NULL, diag);
}

/* Whether the op and the next one that stays belong to the same layer. */
static bool is_inside_layer(const neap_graph *whole, uint32_t id)
{
    bool inside = neap_graph_op(whole, id)->inside_layer;
    while (inside && id + 1 < neap_graph_op_count(whole) &&
           neap_graph_is_side_update(whole, id + 1))
        inside = neap_graph_op(whole, ++id)->inside_layer;
    return inside;
}

static neap_status add_op(neap_bare_graph *bare, neap_graph_builder *builder, uint32_t id,
                          const uint32_t *new_id, neap_diag *diag)
{
    const neap_op *op = neap_graph_op(bare->whole, id);
    uint32_t *inputs, *outputs;
    if (!NEAP_TAKE(&bare->arena, op->n_inputs, inputs) ||
        !NEAP_TAKE(&bare->arena, op->n_outputs, outputs))
        return neap_fail_no_memory(diag);
    for (uint32_t i = 0; i < op->n_inputs; i++)
        inputs[i] = new_id[op->inputs[i]];
    for (uint32_t i = 0; i < op->n_outputs; i++)
        outputs[i] = new_id[op->outputs[i]];
    neap_op_desc desc;
    neap_op_describe(op, &desc);
    desc.inputs = inputs;
    desc.outputs = outputs;
    desc.inside_layer = is_inside_layer(bare->whole, id);
    if (op->in_place_input != NEAP_NONE) {
        desc.in_place_input = new_id[op->in_place_input];
        desc.in_place_output = new_id[op->in_place_output];
    }
    return neap_graph_builder_add_op(builder, &desc, NULL, diag);
}

/* What is needed at the end: the outputs, and what the ops that are left out read. */
static neap_status add_outputs(neap_bare_graph *bare, neap_graph_builder *builder,
                               const bool *is_late, const uint32_t *new_id, neap_diag *diag)
{
    const neap_graph *whole = bare->whole;
    for (uint32_t v = 0; v < neap_graph_value_count(whole); v++) {
        uint32_t n_readers;
        const uint32_t *readers = neap_graph_readers(whole, v, &n_readers);
        bool needed = neap_graph_is_output(whole, v);
        for (uint32_t i = 0; i < n_readers && !needed; i++)
            needed = is_late[readers[i]] && neap_graph_value(whole, v)->producer != NEAP_NONE;
        if (needed && new_id[v] != NEAP_NONE)
            NEAP_TRY(neap_graph_builder_add_output(builder, new_id[v], diag));
    }
    return NEAP_OK;
}

static neap_status fill(neap_bare_graph *bare, neap_graph_builder *builder, const bool *is_late,
                        uint32_t *new_id, neap_diag *diag)
{
    const neap_graph *whole = bare->whole;
    uint32_t n_ops = 0, n_values = 0;
    for (uint32_t v = 0; v < neap_graph_value_count(whole); v++) {
        uint32_t producer = neap_graph_value(whole, v)->producer;
        bool stays = producer == NEAP_NONE || !is_late[producer];
        new_id[v] = stays ? n_values : NEAP_NONE;
        if (stays)
            bare->value[n_values++] = v;
    }
    for (uint32_t i = 0; i < n_values; i++)
        NEAP_TRY(add_value(bare, builder, bare->value[i], new_id, diag));
    for (uint32_t o = 0; o < neap_graph_op_count(whole); o++) {
        if (is_late[o] || neap_graph_is_side_update(whole, o)) {
            bare->late_seconds += neap_graph_op(whole, o)->variants[0].seconds;
            continue;
        }
        bare->op[n_ops++] = o;
        NEAP_TRY(add_op(bare, builder, o, new_id, diag));
    }
    neap_graph_builder_set_fixed_bytes(builder, neap_graph_fixed_bytes(whole));
    return add_outputs(bare, builder, is_late, new_id, diag);
}

neap_status neap_bare_graph_init(neap_bare_graph *bare, neap_allocator *allocator,
                                 const neap_graph *whole, neap_diag *diag)
{
    uint32_t n_ops = neap_graph_op_count(whole), n_values = neap_graph_value_count(whole), *new_id;
    neap_graph_builder *builder = NULL;
    bool *is_late;
    *bare = (neap_bare_graph){.whole = whole};
    neap_arena_init(&bare->arena, allocator);
    if (!NEAP_TAKE(&bare->arena, n_ops, is_late))
        return neap_fail_no_memory(diag);
    bare->n_late = count_late(whole, is_late);
    for (uint32_t o = 0; o < n_ops; o++)
        bare->n_side += neap_graph_is_side_update(whole, o);
    if (bare->n_late + bare->n_side == 0)
        return NEAP_OK;
    if (!NEAP_TAKE(&bare->arena, n_ops, bare->op) ||
        !NEAP_TAKE(&bare->arena, n_values, bare->value) ||
        !NEAP_TAKE(&bare->arena, n_values, new_id))
        return neap_fail_no_memory(diag);
    neap_status status =
        neap_graph_builder_create(allocator, neap_graph_name(whole), &builder, diag);
    if (status == NEAP_OK)
        status = fill(bare, builder, is_late, new_id, diag);
    if (status == NEAP_OK)
        status = neap_graph_builder_finish(builder, &bare->graph, diag);
    neap_graph_builder_destroy(builder);
    return status;
}

void neap_bare_graph_clear(neap_bare_graph *bare)
{
    neap_graph_destroy(bare->graph);
    neap_arena_clear(&bare->arena);
}

/* ---- The updates ---- */

/* A plan that grows, and what it leaves in memory. */
typedef struct tail {
    const neap_bare_graph *bare;
    neap_plan *plan;
    neap_residency residency;
    uint32_t *reads; /* by value: by the late ops that are still to run */
    bool *done;      /* by op: side updates that have run */
    int64_t budget;
    neap_diag *diag;
} tail;

static neap_status append(tail *t, neap_step step)
{
    NEAP_TRY(neap_residency_step(&t->residency, &step, neap_plan_step_count(t->plan)));
    return neap_plan_append(t->plan, step, t->diag);
}

/* The side updates that read what an op has just made for the first time. Their state and the
   results are there, and they need no more memory. */
static neap_status append_side(tail *t, uint32_t o)
{
    const neap_graph *whole = t->bare->whole;
    const neap_op *op = neap_graph_op(whole, o);
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        uint32_t count;
        const uint32_t *readers = neap_graph_readers(whole, op->outputs[i], &count);
        for (uint32_t k = 0; k < count; k++) {
            uint32_t side = readers[k];
            if (!neap_graph_is_side_update(whole, side) || t->done[side])
                continue;
            t->done[side] = true;
            int64_t room = t->budget - t->residency.bytes;
            uint32_t variant = neap_planner_choose_variant(neap_graph_op(whole, side), room);
            NEAP_TRY(append(t, (neap_step){.kind = NEAP_COMPUTE, .id = side, .variant = variant}));
        }
    }
    return NEAP_OK;
}

static neap_status free_if_done(tail *t, uint32_t value)
{
    bool done = t->residency.resident[value] && t->reads[value] == 0 &&
                neap_graph_value(t->bare->whole, value)->producer != NEAP_NONE &&
                !neap_graph_is_output(t->bare->whole, value);
    return done ? append(t, (neap_step){.kind = NEAP_FREE, .id = value}) : NEAP_OK;
}

static int64_t made_bytes(const tail *t, const neap_op *op)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        const neap_value *value = neap_graph_value(t->bare->whole, op->outputs[i]);
        bytes += value->bytes; /* 0 for a view */
    }
    return bytes;
}

static neap_status append_late(tail *t, uint32_t o)
{
    const neap_op *op = neap_graph_op(t->bare->whole, o);
    int64_t room = t->budget - t->residency.bytes - made_bytes(t, op);
    neap_step step = {
        .kind = NEAP_COMPUTE, .id = o, .variant = neap_planner_choose_variant(op, room)};
    NEAP_TRY(append(t, step));
    for (uint32_t i = 0; i < op->n_inputs; i++)
        t->reads[op->inputs[i]]--;
    for (uint32_t i = 0; i < op->n_inputs; i++)
        NEAP_TRY(free_if_done(t, op->inputs[i]));
    for (uint32_t i = 0; i < op->n_outputs; i++)
        NEAP_TRY(free_if_done(t, op->outputs[i]));
    return NEAP_OK;
}

static neap_status append_all(tail *t, const neap_plan *plan)
{
    const neap_bare_graph *bare = t->bare;
    uint32_t n_ops = neap_graph_op_count(bare->whole), first = n_ops - bare->n_late;
    const uint32_t *late = neap_graph_ordinary_order(bare->whole) + first;
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        neap_step step = neap_plan_steps(plan)[i];
        step.id = step.kind == NEAP_COMPUTE ? bare->op[step.id] : bare->value[step.id];
        NEAP_TRY(append(t, step));
        if (step.kind == NEAP_COMPUTE && bare->n_side > 0)
            NEAP_TRY(append_side(t, step.id));
    }
    for (uint32_t i = 0; i < bare->n_late; i++) {
        const neap_op *op = neap_graph_op(bare->whole, late[i]);
        for (uint32_t k = 0; k < op->n_inputs; k++)
            t->reads[op->inputs[k]]++;
    }
    for (uint32_t v = 0; v < neap_graph_value_count(bare->whole); v++)
        NEAP_TRY(free_if_done(t, v));
    for (uint32_t i = 0; i < bare->n_late; i++)
        NEAP_TRY(append_late(t, late[i]));
    return NEAP_OK;
}

neap_status neap_bare_graph_append(const neap_bare_graph *bare, neap_allocator *allocator,
                                   int64_t budget, neap_plan **plan, neap_diag *diag)
{
    tail t = {.bare = bare, .budget = budget, .diag = diag};
    neap_status status =
        neap_plan_create(allocator, neap_plan_graph_name(*plan), neap_plan_method(*plan),
                         neap_plan_budget(*plan), &t.plan, diag);
    if (status != NEAP_OK)
        return status;
    status = neap_residency_init(&t.residency, allocator, bare->whole, t.plan, "", diag);
    if (status == NEAP_OK &&
        (!NEAP_TAKE(&t.residency.arena, neap_graph_value_count(bare->whole), t.reads) ||
         !NEAP_TAKE(&t.residency.arena, neap_graph_op_count(bare->whole), t.done)))
        status = neap_fail_no_memory(diag);
    if (status == NEAP_OK)
        status = append_all(&t, *plan);
    neap_residency_clear(&t.residency);
    neap_plan_destroy(status == NEAP_OK ? *plan : t.plan);
    if (status == NEAP_OK)
        *plan = t.plan;
    return status;
}

neap_status neap_bare_graph_late_bytes(const neap_bare_graph *bare, neap_allocator *allocator,
                                       int64_t *bytes, neap_diag *diag)
{
    neap_plan *plan = NULL;
    neap_timeline timeline = {0};
    uint32_t n_ops = neap_graph_op_count(bare->graph);
    NEAP_TRY(neap_plan_from_sequence(allocator, bare->graph, neap_graph_ordinary_order(bare->graph),
                                     n_ops, NULL, "", -1, &plan, diag));
    size_t n_steps = neap_plan_step_count(plan);
    neap_status status = neap_bare_graph_append(bare, allocator, 0, &plan, diag);
    if (status == NEAP_OK)
        status = neap_timeline_build(allocator, bare->whole, plan, NULL, &timeline, diag);
    *bytes = 0;
    for (size_t i = n_steps + bare->n_side; i < timeline.n_steps && status == NEAP_OK; i++)
        if (timeline.steps[i].live_bytes > *bytes)
            *bytes = timeline.steps[i].live_bytes;
    neap_timeline_clear(&timeline);
    neap_plan_destroy(plan);
    return status;
}
