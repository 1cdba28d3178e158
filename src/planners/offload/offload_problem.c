/* Parcels, units and memory of Problem 1, from the graph and its natural order. */
#include "planners/offload/offload_problem.h"

#include "base/fail.h"

#include <neap/chain.h>

#include <stdlib.h>
#include <string.h>

/* ---- The natural order ---- */

/* Sets `before`, and `need` without the op's workspace, which depends on the variant. */
static neap_status trace_natural(offload_problem *problem, neap_diag *diag)
{
    const planner *p = problem->planner;
    uint32_t *sequence = NULL;
    neap_timeline timeline = {0};
    if (!NEAP_TAKE(&problem->arena, problem->n_ops, sequence))
        return neap_fail_no_memory(diag);
    for (uint32_t k = 0; k < problem->n_ops; k++)
        sequence[k] = k;
    NEAP_TRY(neap_plan_from_sequence(p->allocator, p->graph, sequence, problem->n_ops, NULL,
                                     p->request->method, p->request->budget, &problem->natural,
                                     diag));
    NEAP_TRY(neap_timeline_build(p->allocator, p->graph, problem->natural, NULL, &timeline, diag));
    int64_t live = neap_graph_base_bytes(p->graph);
    for (size_t s = 0; s < timeline.n_steps; s++) {
        const neap_step *step = &neap_plan_steps(problem->natural)[s];
        if (step->kind == NEAP_COMPUTE)
            problem->before[step->id] = live;
        live = timeline.steps[s].after_bytes;
        if (step->kind == NEAP_COMPUTE)
            problem->need[step->id] = timeline.steps[s].live_bytes -
                                      neap_graph_op(p->graph, step->id)->variants[0].workspace;
    }
    neap_timeline_clear(&timeline);
    return NEAP_OK;
}

static uint32_t find_turn(const offload_problem *problem)
{
    uint32_t most = 0;
    for (uint32_t k = 0; k < problem->n_ops; k++) {
        if (neap_graph_op(problem->graph, k)->pass == NEAP_BACKWARD)
            return k;
        if (problem->need[k] > problem->need[most])
            most = k;
    }
    return most;
}

/* ---- Parcels ---- */

typedef struct span {
    uint32_t left, needed; /* as in parcel; NEAP_NONE: no such op */
} span;

static void touch(const offload_problem *problem, span *spans, uint32_t value, uint32_t op)
{
    span *s = &spans[neap_graph_value(problem->graph, value)->storage];
    if (op < problem->turn)
        s->left = op; /* ops come in order */
    else if (s->needed == NEAP_NONE)
        s->needed = op;
}

/* Whether an op after the turn reads the value. */
static bool is_read_later(const offload_problem *problem, uint32_t value)
{
    uint32_t count;
    const uint32_t *readers = neap_graph_readers(problem->graph, value, &count);
    return count > 0 && readers[count - 1] >= problem->turn;
}

typedef struct storage_values {
    const uint32_t *values; /* on one storage, made before the turn, in the order they are made */
    uint32_t count;
} storage_values;

static bool contains(const uint32_t *ids, uint32_t count, uint32_t id)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* A view op that takes no time and reads nothing but `have` and inputs of the graph. */
static bool is_free_view(const offload_problem *problem, uint32_t id, const uint32_t *have,
                         uint32_t n_have, uint32_t storage)
{
    const neap_op *op = neap_graph_op(problem->graph, id);
    const neap_variant *v = &op->variants[problem->variants[id]];
    bool is_free = v->ticks == 0 && v->workspace == 0 && !op->random;
    for (uint32_t i = 0; i < op->n_inputs && is_free; i++)
        is_free = contains(have, n_have, op->inputs[i]) ||
                  neap_graph_value(problem->graph, op->inputs[i])->producer == NEAP_NONE;
    for (uint32_t i = 0; i < op->n_outputs && is_free; i++)
        is_free = neap_graph_value(problem->graph, op->outputs[i])->storage == storage;
    return is_free;
}

/*
 * Whether all values that are read after the turn can be recomputed from `carried` alone. Sets
 * `ops` to the ops that have to run again. `have` and `ops` have room for the storage's values.
 */
static bool can_carry(const offload_problem *problem, const storage_values *on, uint32_t carried,
                      uint32_t *have, uint32_t *ops, uint32_t *n_ops)
{
    uint32_t n_have = 1, storage = neap_graph_value(problem->graph, carried)->storage;
    have[0] = carried;
    *n_ops = 0;
    for (uint32_t i = 0; i < on->count; i++) {
        uint32_t value = on->values[i];
        uint32_t producer = neap_graph_value(problem->graph, value)->producer;
        if (value == carried || contains(have, n_have, value) ||
            !is_free_view(problem, producer, have, n_have, storage))
            continue;
        const neap_op *op = neap_graph_op(problem->graph, producer);
        if (contains(op->outputs, op->n_outputs, carried))
            continue;
        ops[(*n_ops)++] = producer;
        for (uint32_t o = 0; o < op->n_outputs; o++)
            have[n_have++] = op->outputs[o];
    }
    for (uint32_t i = 0; i < on->count; i++)
        if (is_read_later(problem, on->values[i]) && !contains(have, n_have, on->values[i]))
            return false;
    return true;
}

/* Drops ops whose outputs are not read after the turn or by an op that remains. */
static uint32_t drop_unused(const offload_problem *problem, uint32_t *ops, uint32_t n_ops)
{
    for (uint32_t i = n_ops; i-- > 0;) {
        const neap_op *op = neap_graph_op(problem->graph, ops[i]);
        bool used = false;
        for (uint32_t o = 0; o < op->n_outputs && !used; o++) {
            used = is_read_later(problem, op->outputs[o]);
            for (uint32_t later = i + 1; later < n_ops && !used; later++) {
                const neap_op *reader = neap_graph_op(problem->graph, ops[later]);
                used = contains(reader->inputs, reader->n_inputs, op->outputs[o]);
            }
        }
        if (!used)
            memmove(&ops[i], &ops[i + 1], (--n_ops - i) * sizeof *ops);
    }
    return n_ops;
}

/* Makes a parcel of the storage, if it can travel as one value. */
static neap_status add_parcel(offload_problem *problem, uint32_t storage, const span *s,
                              const storage_values *on, neap_diag *diag)
{
    uint32_t *have, *ops, n_ops = 0, carried = NEAP_NONE, n_read = 0;
    for (uint32_t i = 0; i < on->count; i++)
        if (is_read_later(problem, on->values[i])) {
            carried = on->values[i];
            n_read++;
        }
    if (n_read == 0)
        return NEAP_OK;
    if (!NEAP_TAKE(&problem->arena, on->count, have) || !NEAP_TAKE(&problem->arena, on->count, ops))
        return neap_fail_no_memory(diag);
    if (n_read > 1)
        carried = NEAP_NONE;
    for (uint32_t i = 0; i < on->count && carried == NEAP_NONE; i++)
        if (can_carry(problem, on, on->values[i], have, ops, &n_ops))
            carried = on->values[i];
    if (carried == NEAP_NONE)
        return NEAP_OK;
    parcel *x = &problem->parcels[problem->n_parcels];
    *x = (parcel){.value = carried,
                  .storage = storage,
                  .bytes = neap_graph_value(problem->graph, storage)->bytes,
                  .made = neap_graph_value(problem->graph, carried)->producer,
                  .left = s->left,
                  .needed = s->needed,
                  .kept = have,
                  .n_rebuilt = drop_unused(problem, ops, n_ops),
                  .rebuilt = ops,
                  .value_read = is_read_later(problem, carried)};
    x->out_ticks = neap_link_ticks(&problem->link, problem->graph, true, x->bytes);
    x->in_ticks = neap_link_ticks(&problem->link, problem->graph, false, x->bytes);
    int64_t most = INT64_MAX / 4 - problem->total_ticks - problem->transfer_ticks;
    if (x->out_ticks > most / 2 || x->in_ticks > most / 2)
        return NEAP_OK; /* the link is too slow to be of use: the sum of times would overflow */
    problem->transfer_ticks += x->out_ticks + x->in_ticks;
    problem->n_parcels++;
    have[x->n_kept++] = carried;
    for (uint32_t i = 0; i < on->count; i++)
        if (on->values[i] != carried && is_read_later(problem, on->values[i]))
            have[x->n_kept++] = on->values[i];
    return NEAP_OK;
}

static int compare_parcels(const void *a, const void *b)
{
    const parcel *x = a, *y = b;
    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    if (x->made != y->made)
        return x->made < y->made ? -1 : 1;
    return x->storage < y->storage ? -1 : x->storage > y->storage;
}

/* Sorts the parcels and fills in what is known per value and per op. */
static void index_parcels(offload_problem *problem)
{
    uint32_t n_values = neap_graph_value_count(problem->graph);
    if (problem->n_parcels > 0)
        qsort(problem->parcels, problem->n_parcels, sizeof *problem->parcels, compare_parcels);
    for (uint32_t v = 0; v < n_values; v++)
        problem->parcel_of[v] = NEAP_NONE;
    for (uint32_t i = 0; i < problem->n_parcels; i++) {
        const parcel *x = &problem->parcels[i];
        problem->parcel_of[x->storage] = i;
        problem->total_bytes += x->bytes;
        problem->made_bytes[x->made] += x->bytes;
        problem->needed_bytes[x->needed] += x->bytes;
    }
    for (uint32_t v = 0; v < n_values; v++)
        problem->parcel_of[v] = problem->parcel_of[neap_graph_value(problem->graph, v)->storage];
}

static neap_status find_parcels(offload_problem *problem, neap_diag *diag)
{
    const neap_graph *graph = problem->graph;
    uint32_t n_values = neap_graph_value_count(graph), *first, *values;
    span *spans;
    bool *stays;
    neap_arena *arena = &problem->arena;
    if (!NEAP_TAKE(arena, n_values, spans) || !NEAP_TAKE(arena, (size_t)n_values + 1, first) ||
        !NEAP_TAKE(arena, n_values, values) || !NEAP_TAKE(arena, n_values, stays) ||
        !NEAP_TAKE(arena, n_values, problem->parcels) ||
        !NEAP_TAKE(arena, n_values, problem->parcel_of))
        return neap_fail_no_memory(diag);
    for (uint32_t v = 0; v < n_values; v++) {
        spans[v] = (span){NEAP_NONE, NEAP_NONE};
        if (neap_graph_is_output(graph, v))
            stays[neap_graph_value(graph, v)->storage] = true;
    }
    for (uint32_t k = 0; k < problem->n_ops; k++) {
        const neap_op *op = neap_graph_op(graph, k);
        for (uint32_t i = 0; i < op->n_inputs; i++)
            touch(problem, spans, op->inputs[i], k);
        for (uint32_t i = 0; i < op->n_outputs; i++) {
            touch(problem, spans, op->outputs[i], k);
            first[neap_graph_value(graph, op->outputs[i])->storage] += k < problem->turn;
        }
    }
    for (uint32_t v = 0; v < n_values; v++)
        first[v + 1] += first[v];
    for (uint32_t k = problem->turn; k-- > 0;) { /* first[s] comes down to where s begins */
        const neap_op *op = neap_graph_op(graph, k);
        for (uint32_t i = op->n_outputs; i-- > 0;)
            values[--first[neap_graph_value(graph, op->outputs[i])->storage]] = op->outputs[i];
    }
    for (uint32_t s = 0; s < n_values; s++) {
        const neap_value *value = neap_graph_value(graph, s);
        storage_values on = {&values[first[s]], first[s + 1] - first[s]};
        bool travels = value->storage == s && value->producer != NEAP_NONE && value->bytes > 0 &&
                       value->producer < problem->turn && !stays[s] && spans[s].needed != NEAP_NONE;
        if (travels)
            NEAP_TRY(add_parcel(problem, s, &spans[s], &on, diag));
    }
    index_parcels(problem);
    return NEAP_OK;
}

/* ---- Memory ---- */

void neap_offload_sum_away(const offload_problem *problem, const bool *away, int64_t *absent)
{
    int64_t sum = 0;
    memset(absent, 0, ((size_t)problem->n_ops + 1) * sizeof *absent);
    for (uint32_t i = 0; i < problem->n_parcels; i++)
        if (!away || away[i]) {
            absent[problem->parcels[i].left + 1] += problem->parcels[i].bytes;
            absent[problem->parcels[i].needed] -= problem->parcels[i].bytes;
        }
    for (uint32_t k = 0; k <= problem->n_ops; k++)
        absent[k] = sum += absent[k];
}

static neap_status set_memory(offload_problem *problem, neap_diag *diag)
{
    int64_t *absent;
    if (!NEAP_TAKE(&problem->arena, (size_t)problem->n_ops + 1, absent))
        return neap_fail_no_memory(diag);
    neap_offload_sum_away(problem, NULL, absent);
    problem->total_ticks = 0;
    for (uint32_t k = 0; k < problem->n_ops; k++) {
        const neap_op *op = neap_graph_op(problem->graph, k);
        problem->variants[k] =
            neap_planner_choose_variant(op, problem->budget - (problem->need[k] - absent[k]));
        const neap_variant *v = &op->variants[problem->variants[k]];
        problem->ticks[k] = v->ticks;
        problem->total_ticks += v->ticks;
        problem->least_need[k] =
            problem->need[k] + op->variants[neap_planner_choose_variant(op, INT64_MIN)].workspace;
        if (problem->least_need[k] > problem->least_peak)
            problem->least_peak = problem->least_need[k];
        problem->need[k] += v->workspace;
        if (problem->need[k] > problem->peak) {
            problem->peak = problem->need[k];
            problem->peak_op = k;
        }
        if (problem->need[k] - absent[k] > problem->floor) {
            problem->floor = problem->need[k] - absent[k];
            problem->floor_op = k;
        }
    }
    return NEAP_OK;
}

/* ---- Units ---- */

static neap_status make_units(offload_problem *problem, offload_grain grain, neap_diag *diag)
{
    neap_chain chain = {0};
    uint32_t n = problem->n_parcels, stage = 0, last = NEAP_NONE;
    if (!NEAP_TAKE(&problem->arena, (size_t)n + 1, problem->units))
        return neap_fail_no_memory(diag);
    if (grain == OFFLOAD_STAGES)
        NEAP_TRY(
            neap_chain_build_fine(problem->planner->allocator, problem->graph, 0, &chain, diag));
    for (uint32_t i = 0; i < n; i++) {
        const parcel *x = &problem->parcels[i];
        while (stage + 1 < chain.n_stages && x->left >= chain.stages[stage].end_op)
            stage++;
        if (grain == OFFLOAD_STORAGES || stage != last)
            problem->units[problem->n_units++] = (offload_unit){.first = i, .needed = x->needed};
        last = stage;
        offload_unit *unit = &problem->units[problem->n_units - 1];
        unit->left = x->left; /* parcels are sorted by it */
        unit->needed = x->needed < unit->needed ? x->needed : unit->needed;
        unit->bytes += x->bytes;
        unit->transfer_ticks += x->out_ticks + x->in_ticks;
    }
    problem->units[problem->n_units].first = n;
    neap_chain_clear(&chain);
    return NEAP_OK;
}

static neap_status build(offload_problem *problem, offload_grain grain, neap_diag *diag)
{
    size_t n = problem->n_ops;
    neap_arena *arena = &problem->arena;
    if (!NEAP_TAKE(arena, n, problem->need) || !NEAP_TAKE(arena, n, problem->before) ||
        !NEAP_TAKE(arena, n, problem->least_need) || !NEAP_TAKE(arena, n, problem->made_bytes) ||
        !NEAP_TAKE(arena, n, problem->needed_bytes) || !NEAP_TAKE(arena, n, problem->ticks) ||
        !NEAP_TAKE(arena, n, problem->variants) || !NEAP_TAKE(arena, n + 1, problem->excess))
        return neap_fail_no_memory(diag);
    NEAP_TRY(trace_natural(problem, diag));
    problem->turn = find_turn(problem);
    for (uint32_t k = 0; k < problem->n_ops; k++)
        problem->variants[k] =
            neap_planner_choose_variant(neap_graph_op(problem->graph, k), INT64_MAX);
    NEAP_TRY(find_parcels(problem, diag));
    NEAP_TRY(set_memory(problem, diag));
    return make_units(problem, grain, diag);
}

neap_status neap_offload_problem_build(const planner *p, offload_grain grain,
                                       offload_problem *problem, neap_diag *diag)
{
    *problem = (offload_problem){.planner = p,
                                 .graph = p->graph,
                                 .link = p->request->link,
                                 .budget = p->budget,
                                 .n_ops = neap_graph_op_count(p->graph),
                                 .total_ticks = neap_graph_base_ticks(p->graph)};
    neap_arena_init(&problem->arena, p->allocator);
    neap_status status = build(problem, grain, diag);
    if (status != NEAP_OK)
        neap_offload_problem_clear(problem);
    return status;
}

void neap_offload_problem_clear(offload_problem *problem)
{
    neap_plan_destroy(problem->natural);
    problem->natural = NULL;
    neap_arena_clear(&problem->arena);
}
