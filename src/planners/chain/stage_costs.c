#include "planners/chain/stage_costs.h"

#include "base/fail.h"

#include <string.h>

typedef struct tracer {
    const neap_graph *graph;
    const neap_chain *chain;
    stage_costs *costs;
    uint32_t *last_use; /* per storage: position in the list being run, plus one */
    uint32_t *live;     /* per storage: equal to `run` while it is live */
    uint32_t *keep;     /* per storage: equal to `run` if it outlives the list */
    bool *ignored;      /* per storage: not counted here */
    uint32_t run;
    int64_t bytes, peak;
} tracer;

static int64_t bytes_of(const tracer *t, uint32_t storage)
{
    return neap_graph_value(t->graph, storage)->bytes;
}

static uint32_t storage_of(const tracer *t, uint32_t value)
{
    return neap_graph_value(t->graph, value)->storage;
}

/* ---- Running a list of ops ---- */

static void begin_run(tracer *t)
{
    t->run++;
    t->bytes = t->peak = 0;
}

static void make_live(tracer *t, uint32_t storage)
{
    if (t->ignored[storage] || t->live[storage] == t->run)
        return;
    t->live[storage] = t->run;
    t->bytes += bytes_of(t, storage);
    if (t->bytes > t->peak)
        t->peak = t->bytes;
}

static void make_dead(tracer *t, uint32_t storage)
{
    if (t->live[storage] != t->run || t->keep[storage] == t->run)
        return;
    t->live[storage] = 0;
    t->bytes -= bytes_of(t, storage);
}

static void keep(tracer *t, uint32_t storage)
{
    t->keep[storage] = t->run;
}

static int64_t least_workspace(const neap_op *op)
{
    return op->variants[neap_planner_choose_variant(op, INT64_MIN)].workspace;
}

/* Runs the ops first .. end - 1 that are in `mask` (NULL: all). The caller has marked what is live
 * and what to keep. */
static void run_ops(tracer *t, uint32_t first, uint32_t end, const bool *mask)
{
    for (uint32_t o = first; o < end; o++) {
        const neap_op *op = neap_graph_op(t->graph, o);
        if (mask && !mask[o])
            continue;
        for (uint32_t i = 0; i < op->n_inputs; i++)
            t->last_use[storage_of(t, op->inputs[i])] = o;
        for (uint32_t i = 0; i < op->n_outputs; i++)
            t->last_use[storage_of(t, op->outputs[i])] = o;
    }
    for (uint32_t o = first; o < end; o++) {
        const neap_op *op = neap_graph_op(t->graph, o);
        if (mask && !mask[o])
            continue;
        for (uint32_t i = 0; i < op->n_outputs; i++) {
            make_live(t, storage_of(t, op->outputs[i]));
            if (neap_graph_is_output(t->graph, op->outputs[i]))
                keep(t, storage_of(t, op->outputs[i]));
        }
        if (t->bytes + least_workspace(op) > t->peak)
            t->peak = t->bytes + least_workspace(op);
        for (uint32_t i = 0; i < op->n_inputs; i++)
            if (t->last_use[storage_of(t, op->inputs[i])] == o)
                make_dead(t, storage_of(t, op->inputs[i]));
        for (uint32_t i = 0; i < op->n_outputs; i++)
            if (t->last_use[storage_of(t, op->outputs[i])] == o)
                make_dead(t, storage_of(t, op->outputs[i]));
    }
}

/* ---- One stage ---- */

static bool made_inside(const tracer *t, const neap_stage *stage, uint32_t value)
{
    uint32_t maker = neap_graph_value(t->graph, value)->producer;
    return maker != NEAP_NONE && maker >= stage->first_op && maker < stage->end_op;
}

/* Calls `visit` for each storage of S(i). */
static void for_saved(tracer *t, const neap_stage *stage, void (*visit)(tracer *, uint32_t))
{
    for (uint32_t o = stage->first_backward; o < stage->end_backward; o++) {
        const neap_op *op = neap_graph_op(t->graph, o);
        for (uint32_t i = 0; i < op->n_inputs; i++)
            if (made_inside(t, stage, op->inputs[i]))
                visit(t, storage_of(t, op->inputs[i]));
    }
}

/* Finds the forward ops that S(i) needs, in one backward sweep. The last stage needs all of them.
 * */
static void find_again(tracer *t, const neap_stage *stage, bool last)
{
    bool *again = t->costs->again;
    begin_run(t);
    for_saved(t, stage, keep);
    for (uint32_t o = stage->end_op; o-- > stage->first_op;) {
        const neap_op *op = neap_graph_op(t->graph, o);
        for (uint32_t i = 0; i < op->n_outputs && !again[o]; i++)
            again[o] = t->keep[storage_of(t, op->outputs[i])] == t->run;
        again[o] = again[o] || last;
        for (uint32_t i = 0; again[o] && i < op->n_inputs; i++)
            if (made_inside(t, stage, op->inputs[i]))
                keep(t, storage_of(t, op->inputs[i]));
    }
}

/* Makes the gradients live that the stage reads and earlier backward ops made. */
static void enter_gradients(tracer *t, const neap_stage *stage)
{
    for (uint32_t o = stage->first_backward; o < stage->end_backward; o++) {
        const neap_op *op = neap_graph_op(t->graph, o);
        for (uint32_t k = 0; k < op->n_inputs; k++) {
            uint32_t maker = neap_graph_value(t->graph, op->inputs[k])->producer;
            if (maker != NEAP_NONE && maker >= t->chain->n_forward && maker < stage->first_backward)
                make_live(t, storage_of(t, op->inputs[k]));
        }
    }
}

/* Keeps the gradients that its backward ops make and those of earlier stages read. */
static void keep_leaving_gradients(tracer *t, const neap_stage *stage)
{
    for (uint32_t o = stage->first_backward; o < stage->end_backward; o++) {
        const neap_op *op = neap_graph_op(t->graph, o);
        for (uint32_t k = 0; k < op->n_outputs; k++) {
            uint32_t count;
            const uint32_t *readers = neap_graph_readers(t->graph, op->outputs[k], &count);
            if (count && readers[count - 1] >= stage->end_backward)
                keep(t, storage_of(t, op->outputs[k]));
        }
    }
}

static bool reads_storage(const tracer *t, uint32_t first, uint32_t end, uint32_t storage)
{
    for (uint32_t o = first; o < end; o++) {
        const neap_op *op = neap_graph_op(t->graph, o);
        for (uint32_t i = 0; i < op->n_inputs; i++)
            if (storage_of(t, op->inputs[i]) == storage)
                return true;
    }
    return false;
}

/* Puts A(i-1) in place; it outlives the run if `stays`. */
static void enter_input(tracer *t, uint32_t entering, bool stays)
{
    if (entering == NEAP_NONE)
        return;
    make_live(t, entering);
    if (stays)
        keep(t, entering);
}

enum { FORWARD, SAVE, AGAIN };

/* Runs one of these on a stage; A(i-1) outlives it if `stays`. Returns the peak. */
static int64_t trace_run(tracer *t, const neap_stage *stage, uint32_t entering, bool stays,
                         int kind)
{
    begin_run(t);
    enter_input(t, entering, stays);
    if (kind != AGAIN && stage->cut != NEAP_NONE)
        keep(t, stage->cut);
    if (kind != FORWARD)
        for_saved(t, stage, keep);
    run_ops(t, stage->first_op, stage->end_op, kind == AGAIN ? t->costs->again : NULL);
    return t->peak;
}

/* Makes the graph's outputs of the last stage (the loss) live; its forward ops made them. */
static int64_t enter_loss(tracer *t, const neap_stage *stage)
{
    int64_t before = t->bytes;
    if (stage->cut != NEAP_NONE)
        return 0;
    for (uint32_t o = stage->first_op; o < stage->end_op; o++) {
        const neap_op *op = neap_graph_op(t->graph, o);
        for (uint32_t k = 0; k < op->n_outputs; k++)
            if (neap_graph_is_output(t->graph, op->outputs[k])) {
                make_live(t, storage_of(t, op->outputs[k]));
                keep(t, storage_of(t, op->outputs[k]));
            }
    }
    return t->bytes - before;
}

static void trace_backward(tracer *t, const neap_stage *stage, uint32_t entering, int mode,
                           bool reads_input)
{
    stage_cost *cost = &t->costs->stage[stage - t->chain->stages];
    begin_run(t);
    enter_gradients(t, stage);
    cost->gradient = stage->gradient_bytes > t->bytes ? stage->gradient_bytes : t->bytes;
    int64_t passing = cost->gradient - t->bytes; /* to earlier stages */
    /* The loss comes before S(i), which may contain it. */
    cost->results = stage->result_bytes + enter_loss(t, stage);
    for_saved(t, stage, make_live);
    if (reads_input)
        enter_input(t, entering, mode == HELD);
    keep_leaving_gradients(t, stage);
    run_ops(t, stage->first_backward, stage->end_backward, NULL);
    cost->backward_peak[mode] = t->peak + passing;
}

/* HELD runs also put A(i-1) in place, then subtract it, so that both modes run the same way. */
static void trace_mode(tracer *t, const neap_stage *stage, uint32_t entering, int mode,
                       bool reads_input)
{
    stage_cost *cost = &t->costs->stage[stage - t->chain->stages];
    bool stays = mode == HELD || reads_input;
    int64_t uncounted = mode == HELD ? cost->input : 0;
    cost->forward_peak[mode] = trace_run(t, stage, entering, true, FORWARD) - uncounted;
    cost->save_peak[mode] = trace_run(t, stage, entering, stays, SAVE) - uncounted;
    cost->kept[mode] = t->bytes - uncounted;
    cost->again_peak[mode] = trace_run(t, stage, entering, stays, AGAIN) - uncounted;
    trace_backward(t, stage, entering, mode, reads_input);
    if (reads_input)
        cost->backward_peak[mode] -= uncounted;
}

static void trace_stage(tracer *t, uint32_t i)
{
    const neap_stage *stage = &t->chain->stages[i];
    stage_cost *cost = &t->costs->stage[i];
    uint32_t entering = i ? t->chain->stages[i - 1].cut : NEAP_NONE;
    bool last = stage->cut == NEAP_NONE;
    bool reads_input = entering != NEAP_NONE &&
                       reads_storage(t, stage->first_backward, stage->end_backward, entering);
    cost->input = i ? t->costs->stage[i - 1].output : 0;
    cost->output = stage->output_bytes;
    cost->output_saved =
        !last && reads_storage(t, stage->first_backward, stage->end_backward, stage->cut);
    cost->forward_ticks = stage->forward_ticks;
    cost->backward_ticks = stage->backward_ticks;
    find_again(t, stage, last);
    for (uint32_t o = stage->first_op; o < stage->end_op; o++)
        if (t->costs->again[o])
            cost->again_ticks += neap_graph_op(t->graph, o)->variants[0].ticks;
    cost->drop_peak = trace_run(t, stage, entering, false, FORWARD);
    for (int mode = 0; mode < N_MODES; mode++)
        trace_mode(t, stage, entering, mode, reads_input);
}

/* ---- All stages ---- */

/* Pins side storages, the inputs, and outputs of the graph made before the last stage. */
static void find_ignored(tracer *t)
{
    const neap_chain *chain = t->chain;
    uint32_t last_begin = chain->n_stages ? chain->stages[chain->n_stages - 1].first_op : 0;
    t->costs->pinned_bytes = neap_graph_base_bytes(t->graph) + chain->side_bytes;
    for (uint32_t v = 0; v < neap_graph_value_count(t->graph); v++) {
        uint32_t storage = storage_of(t, v), maker = neap_graph_value(t->graph, v)->producer;
        if (chain->is_side[v])
            t->ignored[storage] = true;
        if (!neap_graph_is_output(t->graph, v) || maker == NEAP_NONE || maker >= last_begin ||
            t->ignored[storage])
            continue;
        t->ignored[storage] = true;
        t->costs->pinned_bytes += bytes_of(t, storage);
    }
}

static void sum_up(stage_costs *costs)
{
    costs->exact = true;
    for (uint32_t i = costs->n; i-- > 0;)
        costs->results_from[i] = costs->results_from[i + 1] + costs->stage[i].results;
    for (uint32_t i = 0; i < costs->n; i++) {
        const neap_stage *s = &costs->chain.stages[i];
        const stage_cost *cost = &costs->stage[i];
        costs->exact = costs->exact && s->end_op - s->first_op <= 1 &&
                       s->end_backward - s->first_backward <= 1;
        costs->forward_until[i + 1] = costs->forward_until[i] + cost->forward_ticks;
        costs->least_until[i + 1] =
            costs->least_until[i] + cost->forward_ticks + cost->backward_ticks;
    }
}

neap_status neap_stage_costs_build(const planner *p, stage_costs *costs, neap_diag *diag)
{
    uint32_t n_values = neap_graph_value_count(p->graph);
    neap_arena *arena = &costs->arena;
    *costs = (stage_costs){0};
    neap_arena_init(arena, p->allocator);
    NEAP_TRY(neap_chain_build(p->allocator, p->graph, &costs->chain, diag));
    costs->n = costs->chain.n_stages;
    tracer t = {.graph = p->graph, .chain = &costs->chain, .costs = costs};
    size_t n = costs->n;
    if (!NEAP_TAKE(arena, n, costs->stage) || !NEAP_TAKE(arena, n + 1, costs->results_from) ||
        !NEAP_TAKE(arena, n + 1, costs->forward_until) ||
        !NEAP_TAKE(arena, n + 1, costs->least_until) ||
        !NEAP_TAKE(arena, costs->chain.n_forward, costs->again) ||
        !NEAP_TAKE(arena, n_values, t.last_use) || !NEAP_TAKE(arena, n_values, t.live) ||
        !NEAP_TAKE(arena, n_values, t.keep) || !NEAP_TAKE(arena, n_values, t.ignored))
        return neap_fail_no_memory(diag);
    find_ignored(&t);
    for (uint32_t i = 0; i < costs->n; i++)
        trace_stage(&t, i);
    sum_up(costs);
    return NEAP_OK;
}

void neap_stage_costs_clear(stage_costs *costs)
{
    neap_arena_clear(&costs->arena);
    neap_chain_clear(&costs->chain);
}
