#include "planners/neap/cut_choices.h"

/* Views with a cost pin their storage and their task, but for this method only. */
static void find_tensors(cut_choices *c, const problem *x, const neap_link *link,
                         bool *pinned_by_views, const bool *has_own_view)
{
    for (uint32_t s = 0; s < x->n_tensors; s++) {
        uint32_t root = neap_graph_value(x->graph, x->tensor_value[s])->storage;
        if (root == x->tensor_value[s])
            continue;
        pinned_by_views[x->producer[s]] = true;
        if (x->tensor_of_value[root] != NEAP_NONE)
            pinned_by_views[x->producer[x->tensor_of_value[root]]] = true;
    }
    for (uint32_t s = 0; s < x->n_tensors; s++) {
        bool by_views = pinned_by_views[x->producer[s]];
        bool may_leave = c->has_link && (tensor_can_offload(x, s) || by_views || has_own_view[s]);
        c->can_recompute[s] =
            (tensor_can_recompute(x, s) || by_views) && !x->is_update[x->producer[s]];
        c->in[s] = may_leave ? neap_copy_ticks(x, link, false, x->bytes[s]) : -1;
        c->out[s] = may_leave ? neap_copy_ticks(x, link, true, x->bytes[s]) : -1;
    }
}

/* Tensors that are made together with a view of them: this method does not offload them. */
static void find_own_views(const problem *x, bool *has_own_view)
{
    for (uint32_t v = 0; v < neap_graph_value_count(x->graph); v++) {
        const neap_value *value = neap_graph_value(x->graph, v);
        uint32_t s = x->tensor_of_value[value->storage];
        if (value->storage != v && s != NEAP_NONE && value->producer != NEAP_NONE &&
            neap_graph_value(x->graph, value->storage)->producer == value->producer)
            has_own_view[s] = true;
    }
}

/* The storage that an op may write over, whatever the plan: also that of a costly view. */
static uint32_t storage_to_write_over(const neap_graph *graph, const neap_op *op)
{
    if (op->in_place_input == NEAP_NONE)
        return NEAP_NONE;
    const neap_value *from = neap_graph_value(graph, op->in_place_input);
    const neap_value *to = neap_graph_value(graph, op->in_place_output);
    if (from->producer == NEAP_NONE || to->storage != op->in_place_output ||
        neap_graph_value(graph, from->storage)->bytes != to->bytes)
        return NEAP_NONE;
    for (uint32_t i = 0; i < op->n_inputs; i++)
        if (op->inputs[i] != op->in_place_input &&
            neap_graph_value(graph, op->inputs[i])->storage == from->storage)
            return NEAP_NONE;
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (neap_graph_value(graph, op->outputs[i])->storage == from->storage)
            return NEAP_NONE;
    return from->storage;
}

bool neap_cut_choices_init(cut_choices *c, neap_arena *arena, const problem *x,
                           const neap_link *link)
{
    size_t tensors = x->n_tensors, tasks = x->n_tasks;
    bool *pinned_by_views; /* by task */
    bool *has_own_view;    /* by tensor */
    *c = (cut_choices){.has_link = link && link->in_bandwidth > 0 && link->out_bandwidth > 0};
    c->duplex = c->has_link && link->duplex;
    if (!NEAP_TAKE(arena, tensors, c->can_recompute) || !NEAP_TAKE(arena, tensors, c->in) ||
        !NEAP_TAKE(arena, tensors, c->out) || !NEAP_TAKE(arena, tasks, c->over) ||
        !NEAP_TAKE(arena, tasks, pinned_by_views) || !NEAP_TAKE(arena, tensors, has_own_view) ||
        !neap_moving_state_init(&c->moving, arena, x, link))
        return false;
    c->fixed_bytes = neap_graph_base_bytes(x->graph) - c->moving.all_bytes;
    find_own_views(x, has_own_view);
    find_tensors(c, x, link, pinned_by_views, has_own_view);
    for (uint32_t k = 0; k < x->n_tasks; k++)
        c->over[k] = storage_to_write_over(x->graph, neap_graph_op(x->graph, x->task_op[k]));
    return true;
}

/* ---- Inequalities ---- */

const time_row *neap_cut_time_rows(const cut_choices *c, int *n)
{
    static const time_row rows_of_tensors[] = {{COMPUTING, COMPUTING},
                                               {COMPUTING, COPYING_IN},
                                               {COPYING_OUT, COMPUTING},
                                               {COPYING_OUT, COPYING_IN}};
    static const time_row rows_of_state[] = {
        {COMPUTING, COMPUTING}, {COMPUTING, COPYING}, {COPYING, COMPUTING}, {COPYING, COPYING}};
    static const time_row rows_of_duplex_state[] = {
        {COMPUTING, COMPUTING},   {COMPUTING, COPYING_IN},   {COMPUTING, COPYING_OUT},
        {COPYING_IN, COMPUTING},  {COPYING_IN, COPYING_IN},  {COPYING_IN, COPYING_OUT},
        {COPYING_OUT, COMPUTING}, {COPYING_OUT, COPYING_IN}, {COPYING_OUT, COPYING_OUT}};
    *n = c->moving.n > 0 && c->duplex ? 9 : 4;
    return c->moving.n == 0 ? rows_of_tensors : c->duplex ? rows_of_duplex_state : rows_of_state;
}
