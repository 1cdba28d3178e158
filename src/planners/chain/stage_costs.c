#include "planners/chain/stage_costs.h"

#include "base/checked.h"
#include "base/fail.h"

#include <string.h>

typedef struct tracer {
    const neap_graph *graph;
    const neap_chain *chain;
    const variant_range *ranges; /* per op */
    stage_costs *costs;
    uint32_t *last_use;    /* per storage: position in the list being run, plus one */
    uint32_t *live;        /* per storage: equal to `run` while it is live */
    uint32_t *keep;        /* per storage: equal to `run` if it outlives the list */
    bool *ignored;         /* per storage: not counted here */
    uint32_t *read;        /* per storage: stage + 1 if the backward ops of the stage read it */
    uint32_t *last_reader; /* per storage: the last op that reads it */
    uint32_t stage;        /* being traced */
    bool *shared;          /* per storage that is carried: several stages need it */
    bool counts_own;       /* E(i) counts */
    uint32_t *carried, *carried_from; /* lists: those needed from stage i on, carried_from[i] ... */
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

/* A carried storage that this stage or an earlier one needs: in memory whenever this one runs. */
static bool is_at_hand(const tracer *t, uint32_t storage)
{
    return t->chain->is_carried[storage] && t->chain->needed_by[storage] <= t->stage;
}

/*
 * Whether a storage counts in the runs of the stage. A carried one counts in those of the stage
 * that needs it first, E(i), except in `forward`; in others where a stage makes it again although
 * it is needed no more.
 */
static bool is_counted(const tracer *t, uint32_t storage)
{
    if (t->ignored[storage])
        return false;
    if (!t->chain->is_carried[storage])
        return true;
    if (is_at_hand(t, storage))
        return t->counts_own && t->chain->needed_by[storage] == t->stage;
    return t->costs->rerun[neap_graph_value(t->graph, storage)->producer];
}

static void make_live(tracer *t, uint32_t storage)
{
    if (t->live[storage] == t->run || !is_counted(t, storage))
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

static int64_t least_workspace(const tracer *t, uint32_t o)
{
    return neap_graph_op(t->graph, o)->variants[t->ranges[o].lean].workspace;
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
        if (t->bytes + least_workspace(t, o) > t->peak)
            t->peak = t->bytes + least_workspace(t, o);
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

/* Whether a list of wanted storages needs an op. A storage at hand needs no op but its views. */
static bool is_wanted(const tracer *t, const neap_op *op)
{
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        uint32_t storage = storage_of(t, op->outputs[i]);
        if (t->keep[storage] == t->run && (op->outputs[i] != storage || !is_at_hand(t, storage)))
            return true;
    }
    return false;
}

/* Finds the forward ops that S(i) needs, with A(i) if so asked, in one backward sweep. */
static void find_needed(tracer *t, const neap_stage *stage, bool for_cut, bool *needed)
{
    begin_run(t);
    for_saved(t, stage, keep);
    for (uint32_t k = 0; for_cut && k < stage->n_cuts; k++)
        keep(t, stage->cuts[k]);
    for (uint32_t o = stage->end_op; o-- > stage->first_op;) {
        const neap_op *op = neap_graph_op(t->graph, o);
        needed[o] = is_wanted(t, op);
        for (uint32_t i = 0; needed[o] && i < op->n_inputs; i++)
            if (made_inside(t, stage, op->inputs[i]))
                keep(t, storage_of(t, op->inputs[i]));
    }
}

/* The last stage runs only once, all of it. The others run whole again where nothing is carried. */
static void find_again(tracer *t, const neap_stage *stage, bool last)
{
    find_needed(t, stage, false, t->costs->again);
    if (t->costs->carries)
        find_needed(t, stage, true, t->costs->rerun);
    for (uint32_t o = stage->first_op; o < stage->end_op; o++) {
        t->costs->again[o] = t->costs->again[o] || last;
        t->costs->rerun[o] = t->costs->rerun[o] || last || !t->costs->carries;
    }
}

/* Makes the gradients live that the stage reads and earlier backward ops made. */
static void enter_gradients(tracer *t, const neap_stage *stage)
{
    for (uint32_t o = stage->first_backward; o < stage->end_backward; o++) {
        const neap_op *op = neap_graph_op(t->graph, o);
        for (uint32_t k = 0; k < op->n_inputs; k++) {
            uint32_t maker = neap_graph_value(t->graph, op->inputs[k])->producer;
            uint32_t storage = storage_of(t, op->inputs[k]);
            if (maker == NEAP_NONE || maker < t->chain->n_forward || maker >= stage->first_backward)
                continue;
            make_live(t, storage);
            if (t->last_reader[storage] >= stage->end_backward)
                keep(t, storage); /* earlier stages read it too */
        }
    }
}

/* Keeps the gradients that its backward ops make and those of earlier stages read. */
static void keep_leaving_gradients(tracer *t, const neap_stage *stage)
{
    for (uint32_t o = stage->first_backward; o < stage->end_backward; o++) {
        const neap_op *op = neap_graph_op(t->graph, o);
        for (uint32_t k = 0; k < op->n_outputs; k++) {
            if (t->last_reader[storage_of(t, op->outputs[k])] >= stage->end_backward)
                keep(t, storage_of(t, op->outputs[k]));
        }
    }
}

static void note_backward_reads(tracer *t, const neap_stage *stage)
{
    for (uint32_t o = stage->first_backward; o < stage->end_backward; o++) {
        const neap_op *op = neap_graph_op(t->graph, o);
        for (uint32_t i = 0; i < op->n_inputs; i++)
            t->read[storage_of(t, op->inputs[i])] = t->stage + 1;
    }
}

static bool backward_reads(const tracer *t, uint32_t storage)
{
    return t->read[storage] == t->stage + 1;
}

/* Which storages of A(i-1) outlive a run. */
typedef enum stay { STAY_ALL, STAY_READ, STAY_NONE } stay;

/* Puts A(i-1) in place. */
static void enter_input(tracer *t, stay stays)
{
    const neap_stage *before = t->stage ? &t->chain->stages[t->stage - 1] : NULL;
    for (uint32_t k = 0; before && k < before->n_cuts; k++) {
        uint32_t storage = before->cuts[k];
        make_live(t, storage);
        if (stays == STAY_ALL || (stays == STAY_READ && backward_reads(t, storage)))
            keep(t, storage);
    }
}

/* Puts E(i) in place for a forward run; what later stages need outlives it if they are to come. */
static void enter_carried(tracer *t, bool keep_shared)
{
    for (uint32_t k = t->carried_from[t->stage]; k < t->carried_from[t->stage + 1]; k++) {
        uint32_t storage = t->carried[k];
        make_live(t, storage);
        if (backward_reads(t, storage) || (keep_shared && t->shared[storage]))
            keep(t, storage);
    }
}

/* Puts those of E(i) in place that the backward ops read. */
static void enter_read_carried(tracer *t)
{
    for (uint32_t k = t->carried_from[t->stage]; k < t->carried_from[t->stage + 1]; k++)
        if (backward_reads(t, t->carried[k]))
            make_live(t, t->carried[k]);
}

enum { FORWARD, SAVE, AGAIN };

/* Runs one of these on a stage. Returns the peak. */
static int64_t trace_run(tracer *t, const neap_stage *stage, stay stays, int kind)
{
    begin_run(t);
    t->counts_own = kind != FORWARD;
    enter_input(t, stays);
    if (kind != FORWARD)
        enter_carried(t, kind == SAVE);
    for (uint32_t k = 0; kind != AGAIN && k < stage->n_cuts; k++)
        keep(t, stage->cuts[k]);
    if (kind != FORWARD)
        for_saved(t, stage, keep);
    run_ops(t, stage->first_op, stage->end_op, kind == AGAIN ? t->costs->again : NULL);
    t->counts_own = false;
    return t->peak;
}

/* Makes the graph's outputs of the last stage (the loss) live; its forward ops made them. */
static int64_t enter_loss(tracer *t, const neap_stage *stage)
{
    int64_t before = t->bytes;
    if (t->stage + 1 < t->chain->n_stages)
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

/* Puts the storages of A(i-1) in place that the backward ops read; returns their bytes. */
static int64_t enter_read_input(tracer *t, int mode)
{
    const neap_stage *before = t->stage ? &t->chain->stages[t->stage - 1] : NULL;
    int64_t bytes = t->bytes;
    for (uint32_t k = 0; before && k < before->n_cuts; k++)
        if (backward_reads(t, before->cuts[k])) {
            make_live(t, before->cuts[k]);
            if (mode == HELD)
                keep(t, before->cuts[k]);
        }
    return t->bytes - bytes;
}

static void trace_backward(tracer *t, const neap_stage *stage, int mode)
{
    stage_cost *cost = &t->costs->stage[t->stage];
    begin_run(t);
    t->counts_own = true;
    enter_gradients(t, stage);
    cost->gradient = stage->gradient_bytes > t->bytes ? stage->gradient_bytes : t->bytes;
    int64_t passing = cost->gradient - t->bytes; /* to earlier stages */
    /* The loss comes before S(i), which may contain it. */
    cost->results = stage->result_bytes + enter_loss(t, stage);
    for_saved(t, stage, make_live);
    enter_read_carried(t);
    int64_t read = enter_read_input(t, mode);
    keep_leaving_gradients(t, stage);
    run_ops(t, stage->first_backward, stage->end_backward, NULL);
    cost->backward_peak[mode] = t->peak + passing - (mode == HELD ? read : 0);
    t->counts_own = false;
}

/* HELD runs also put A(i-1) in place, then subtract it, so that both modes run the same way. */
static void trace_mode(tracer *t, const neap_stage *stage, int mode)
{
    stage_cost *cost = &t->costs->stage[t->stage];
    stay stays = mode == HELD ? STAY_ALL : STAY_READ;
    int64_t uncounted = mode == HELD ? cost->input : 0;
    cost->forward_peak[mode] = trace_run(t, stage, STAY_ALL, FORWARD) - uncounted;
    cost->save_peak[mode] = trace_run(t, stage, stays, SAVE) - uncounted;
    cost->kept[mode] = t->bytes - uncounted;
    cost->again_peak[mode] = trace_run(t, stage, stays, AGAIN) - uncounted;
    trace_backward(t, stage, mode);
}

/* How many of the storages that leave the stage its backward ops read. */
static uint32_t count_saved_cuts(const tracer *t, const neap_stage *stage)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < stage->n_cuts; k++)
        count += backward_reads(t, stage->cuts[k]);
    return count;
}

/* Of the ops first .. end - 1 that are in `mask` (NULL: all). */
static int64_t ticks_of(const tracer *t, uint32_t first, uint32_t end, const bool *mask)
{
    int64_t ticks = 0;
    for (uint32_t o = first; o < end; o++)
        if (!mask || mask[o])
            ticks += neap_graph_op(t->graph, o)->variants[t->ranges[o].fast].ticks;
    return ticks;
}

static void trace_stage(tracer *t, uint32_t i)
{
    const neap_stage *stage = &t->chain->stages[i];
    stage_cost *cost = &t->costs->stage[i];
    t->stage = i;
    note_backward_reads(t, stage);
    uint32_t saved = count_saved_cuts(t, stage);
    cost->input = i ? t->costs->stage[i - 1].output : 0;
    cost->output = stage->output_bytes;
    cost->output_saved = saved > 0;
    find_again(t, stage, i + 1 == t->chain->n_stages);
    cost->forward_ticks = ticks_of(t, stage->first_op, stage->end_op, t->costs->rerun);
    cost->again_ticks = ticks_of(t, stage->first_op, stage->end_op, t->costs->again);
    cost->backward_ticks = ticks_of(t, stage->first_backward, stage->end_backward, NULL);
    t->costs->first_ticks +=
        ticks_of(t, stage->first_op, stage->end_op, NULL) - cost->forward_ticks;
    cost->drop_peak = trace_run(t, stage, STAY_NONE, FORWARD);
    for (int mode = 0; mode < N_MODES; mode++)
        trace_mode(t, stage, mode);
    t->costs->carried_until[i + 1] = t->costs->carried_until[i];
    for (uint32_t k = t->carried_from[i]; k < t->carried_from[i + 1]; k++)
        t->costs->carried_until[i + 1] += bytes_of(t, t->carried[k]);
    t->costs->exact = t->costs->exact && stage->end_op - stage->first_op <= 1 &&
                      stage->end_backward - stage->first_backward <= 1 &&
                      (saved == 0 || saved == stage->n_cuts);
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

static void find_last_readers(tracer *t)
{
    for (uint32_t o = 0; o < neap_graph_op_count(t->graph); o++) {
        const neap_op *op = neap_graph_op(t->graph, o);
        for (uint32_t i = 0; i < op->n_inputs; i++)
            t->last_reader[storage_of(t, op->inputs[i])] = o;
    }
}

/* Lists the carried storages by the stage that needs them. */
static void list_carried(tracer *t)
{
    const neap_chain *chain = t->chain;
    uint32_t n_values = neap_graph_value_count(t->graph);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t v = 0; v < n_values; v++) {
            if (!chain->is_carried[v] || t->ignored[v] || storage_of(t, v) != v)
                continue;
            t->costs->carries = true;
            if (pass == 0)
                t->carried_from[chain->needed_by[v] + 1]++;
            else
                t->carried[t->carried_from[chain->needed_by[v]]++] = v;
        }
        for (uint32_t i = 0; pass == 0 && i < chain->n_stages; i++)
            t->carried_from[i + 1] += t->carried_from[i];
    }
    for (uint32_t i = chain->n_stages; i-- > 0;) /* the second pass moved them on by one */
        t->carried_from[i + 1] = t->carried_from[i];
    t->carried_from[0] = 0;
}

static void note_needs(tracer *t, uint32_t first, uint32_t end, uint32_t stage)
{
    for (uint32_t o = first; o < end; o++) {
        const neap_op *op = neap_graph_op(t->graph, o);
        for (uint32_t i = 0; i < op->n_inputs; i++) {
            uint32_t storage = storage_of(t, op->inputs[i]);
            t->shared[storage] = t->shared[storage] || stage > t->chain->needed_by[storage];
        }
    }
}

static void find_shared(tracer *t)
{
    for (uint32_t i = 0; i < t->chain->n_stages && t->costs->carries; i++) {
        const neap_stage *stage = &t->chain->stages[i];
        note_needs(t, stage->first_op, stage->end_op, i);
        note_needs(t, stage->first_backward, stage->end_backward, i);
    }
}

static void sum_up(stage_costs *costs)
{
    for (uint32_t i = costs->n; i-- > 0;)
        costs->results_from[i] = costs->results_from[i + 1] + costs->stage[i].results;
    for (uint32_t i = 0; i < costs->n; i++) {
        const stage_cost *cost = &costs->stage[i];
        costs->forward_until[i + 1] = costs->forward_until[i] + cost->forward_ticks;
        costs->least_until[i + 1] =
            costs->least_until[i] + cost->forward_ticks + cost->backward_ticks;
    }
}

void neap_variant_ranges_init(const neap_graph *graph, variant_range *ranges)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        const neap_op *op = neap_graph_op(graph, o);
        ranges[o].fast = neap_planner_choose_variant(op, INT64_MAX);
        ranges[o].lean = neap_planner_choose_variant(op, INT64_MIN);
    }
}

neap_status neap_stage_costs_build(const planner *p, chain_view view, const variant_range *ranges,
                                   stage_costs *costs, neap_diag *diag)
{
    variant_range *all;
    uint32_t n_values = neap_graph_value_count(p->graph);
    neap_arena *arena = &costs->arena;
    *costs = (stage_costs){0};
    neap_arena_init(arena, p->allocator);
    NEAP_TRY(neap_chain_view_build(p, view, &costs->chain, diag));
    costs->n = costs->chain.n_stages;
    tracer t = {.graph = p->graph, .chain = &costs->chain, .costs = costs};
    size_t n = costs->n;
    if (!NEAP_TAKE(arena, n, costs->stage) || !NEAP_TAKE(arena, n + 1, costs->results_from) ||
        !NEAP_TAKE(arena, n + 1, costs->forward_until) ||
        !NEAP_TAKE(arena, n + 1, costs->least_until) ||
        !NEAP_TAKE(arena, costs->chain.n_forward, costs->again) ||
        !NEAP_TAKE(arena, costs->chain.n_forward, costs->rerun) ||
        !NEAP_TAKE(arena, n_values, t.last_use) || !NEAP_TAKE(arena, n_values, t.live) ||
        !NEAP_TAKE(arena, n_values, t.keep) || !NEAP_TAKE(arena, n_values, t.ignored) ||
        !NEAP_TAKE(arena, n + 1, costs->carried_until) || !NEAP_TAKE(arena, n_values, t.shared) ||
        !NEAP_TAKE(arena, n_values, t.last_reader) || !NEAP_TAKE(arena, n_values, t.read) ||
        !NEAP_TAKE(arena, n_values, t.carried) || !NEAP_TAKE(arena, n + 2, t.carried_from) ||
        !NEAP_TAKE(arena, neap_graph_op_count(p->graph), all))
        return neap_fail_no_memory(diag);
    t.ranges = ranges ? ranges : all;
    if (!ranges)
        neap_variant_ranges_init(p->graph, all);
    find_ignored(&t);
    find_last_readers(&t);
    list_carried(&t);
    find_shared(&t);
    costs->exact = !costs->carries;
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

static int64_t add_up(int64_t a, int64_t b)
{
    int64_t sum;
    return neap_add_i64(a, b, &sum) ? sum : INT64_MAX;
}

int64_t neap_stage_costs_enough(const stage_costs *costs)
{
    int64_t kept = add_up(costs->results_from[0], costs->carried_until[costs->n]), peak = 0;
    for (uint32_t i = 0; i < costs->n; i++) {
        const stage_cost *c = &costs->stage[i];
        const int64_t parts[] = {c->forward_peak[OWNED],  c->save_peak[OWNED], c->again_peak[OWNED],
                                 c->backward_peak[OWNED], c->gradient,         c->drop_peak};
        int64_t here = 0;
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            here = add_up(here, parts[k]);
        peak = larger(peak, here);
        kept = add_up(kept, c->kept[OWNED]);
    }
    return add_up(kept, peak);
}
