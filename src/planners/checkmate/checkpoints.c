#include "planners/checkmate/checkpoints.h"

#include "base/fail.h"
#include "planners/checkmate/articulation.h"

static const neap_value *value_of(const checkpoints *c, uint32_t value)
{
    return neap_graph_value(c->graph, value);
}

/* ---- Candidates ---- */

/* A storage is read on if an op behind its maker reads any value on it. */
static void find_read_on(checkpoints *c)
{
    for (uint32_t o = 0; o < c->chain.n_forward; o++) {
        const neap_op *op = neap_graph_op(c->graph, o);
        for (uint32_t i = 0; i < op->n_inputs; i++) {
            uint32_t storage = value_of(c, op->inputs[i])->storage;
            if (!c->chain.is_side[storage])
                c->is_read_on[storage] = true;
        }
    }
}

/* The bytes that op o keeps as a checkpoint, and the other bytes it makes; side storages aside. */
static void measure_op(const checkpoints *c, uint32_t o, int64_t *kept, int64_t *other)
{
    const neap_op *op = neap_graph_op(c->graph, o);
    *kept = *other = 0;
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        uint32_t v = op->outputs[i];
        if (!c->chain.is_side[v]) /* a view owns 0 bytes */
            *(c->is_read_on[v] ? kept : other) += value_of(c, v)->bytes;
    }
}

/* Whether an op makes a storage of the set. */
static bool makes_one_of(const checkpoints *c, uint32_t o, const bool *set)
{
    const neap_op *op = neap_graph_op(c->graph, o);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (set[op->outputs[i]])
            return true;
    return false;
}

/* Candidates are the ops that make a storage of the set. */
static void list_candidates(checkpoints *c, const bool *set)
{
    int64_t kept, other;
    for (uint32_t o = 0; o < c->chain.n_forward; o++) {
        measure_op(c, o, &kept, &other);
        if (makes_one_of(c, o, set)) {
            c->n++;
            c->ops[c->n] = o;
            c->d[c->n] = kept;
            c->inner[c->n] += other;
        } else {
            c->inner[c->n + 1] += kept + other;
        }
    }
}

static neap_status find_candidates(checkpoints *c, candidate_rule rule, neap_diag *diag)
{
    bool *is_point;
    find_read_on(c);
    if (rule == EVERY_OP) {
        list_candidates(c, c->is_read_on);
        return NEAP_OK;
    }
    if (!NEAP_TAKE(&c->arena, neap_graph_value_count(c->graph), is_point))
        return neap_fail_no_memory(diag);
    NEAP_TRY(neap_articulation_find(c->arena.allocator, c->graph, &c->chain, is_point, diag));
    list_candidates(c, is_point);
    return NEAP_OK;
}

neap_status neap_checkpoints_build(const planner *p, candidate_rule rule, checkpoints *c,
                                   neap_diag *diag)
{
    *c = (checkpoints){.graph = p->graph};
    neap_arena_init(&c->arena, p->allocator);
    NEAP_TRY(neap_chain_build(p->allocator, p->graph, &c->chain, diag));
    NEAP_TRY(neap_frontier_rows_init(&c->rows, p->allocator, p->graph, diag));
    size_t n_values = neap_graph_value_count(p->graph), n_forward = c->chain.n_forward;
    if (!NEAP_TAKE(&c->arena, n_forward + 1, c->ops) ||
        !NEAP_TAKE(&c->arena, n_forward + 1, c->d) ||
        !NEAP_TAKE(&c->arena, n_forward + 2, c->inner) ||
        !NEAP_TAKE(&c->arena, n_values, c->is_read_on) ||
        !NEAP_TAKE(&c->arena, n_values, c->is_kept) ||
        !NEAP_TAKE(&c->arena, n_values, c->is_resident))
        return neap_fail_no_memory(diag);
    return find_candidates(c, rule, diag);
}

void neap_checkpoints_clear(checkpoints *c)
{
    neap_arena_clear(&c->arena);
    neap_frontier_rows_clear(&c->rows);
    neap_chain_clear(&c->chain);
}

/* ---- The plan ---- */

static void mark_kept(checkpoints *c, uint32_t o)
{
    const neap_op *op = neap_graph_op(c->graph, o);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (c->is_read_on[op->outputs[i]])
            c->is_kept[op->outputs[i]] = true;
}

/* Marks the storages that stay, and returns the first op behind the last checkpoint. */
static uint32_t choose_storages(checkpoints *c, const bool *chosen)
{
    uint32_t end = 0;
    for (uint32_t v = 0; v < neap_graph_value_count(c->graph); v++)
        c->is_kept[v] = c->chain.is_side[v];
    for (uint32_t i = 1; i < c->n; i++)
        if (chosen[i]) {
            mark_kept(c, c->ops[i]);
            end = c->ops[i] + 1;
        }
    return end;
}

/*
 * Whether all of what an op made stays: part of it does, and the rest (a pool's indices, saved
 * statistics) is at most half as large, so that keeping it beats running the op again. As
 * chain/segments.c has it.
 */
static bool stays_done(const checkpoints *c, const neap_op *op)
{
    int64_t kept = 0, rest = 0;
    bool any = false;
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        uint32_t storage = value_of(c, op->outputs[i])->storage;
        any = any || c->is_kept[storage];
        *(c->is_kept[storage] ? &kept : &rest) += value_of(c, storage)->bytes;
    }
    return any && rest <= kept / 2;
}

/* What the ops before `end` made leaves, but for checkpoints. All values on one stay: they cost
 * nothing more. */
static void drop_segments(checkpoints *c, uint32_t end)
{
    for (uint32_t o = 0; o < end; o++) {
        const neap_op *op = neap_graph_op(c->graph, o);
        bool stays = stays_done(c, op);
        for (uint32_t i = 0; i < op->n_outputs; i++)
            c->is_resident[op->outputs[i]] =
                stays || c->is_kept[value_of(c, op->outputs[i])->storage];
    }
}

static neap_status append_row(checkpoints *c, uint32_t op, neap_diag *diag)
{
    const frontier_row row = {
        .op = op, .is_resident = neap_frontier_residence_of_bools, .context = c->is_resident};
    frontier_rows *rows = &c->rows;
    NEAP_TRY(neap_frontier_rows_append(rows, &row, diag));
    for (size_t at = rows->last_row; at < rows->length; at++) {
        const neap_op *done = neap_graph_op(c->graph, rows->sequence[at]);
        for (uint32_t i = 0; i < done->n_outputs; i++)
            c->is_resident[done->outputs[i]] = true;
    }
    return NEAP_OK;
}

neap_status neap_checkpoints_lower(const planner *p, draft *d, checkpoints *c, const bool *chosen,
                                   neap_diag *diag)
{
    uint32_t n_ops = neap_graph_op_count(c->graph), end = choose_storages(c, chosen);
    for (uint32_t v = 0; v < neap_graph_value_count(c->graph); v++)
        c->is_resident[v] = false;
    neap_frontier_rows_restart(&c->rows);
    for (uint32_t o = 0; o < n_ops; o++) {
        if (o == c->chain.n_forward)
            drop_segments(c, end);
        NEAP_TRY(append_row(c, o, diag));
    }
    return neap_planner_use_sequence(p, d, c->rows.sequence, c->rows.length, diag);
}

neap_status neap_checkpoints_report(const planner *p, draft *d, checkpoints *c, const bool *chosen,
                                    neap_diag *diag)
{
    int64_t *list;
    size_t count = 0;
    if (!NEAP_TAKE(&c->arena, c->n, list))
        return neap_fail_no_memory(diag);
    for (uint32_t i = 1; i <= c->n; i++)
        if (chosen[i])
            list[count++] = c->ops[i];
    NEAP_TRY(neap_draft_add_number(p, d, "candidates", c->n, diag));
    return neap_draft_add_list(p, d, "checkpoints", list, count, diag);
}
