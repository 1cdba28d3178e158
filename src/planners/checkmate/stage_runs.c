#include "planners/checkmate/stage_runs.h"

#include "base/memory.h"

#include <stdlib.h>

/* ---- The graph, by storages ---- */

static bool makes_only_views(const neap_graph *graph, const neap_op *op)
{
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (neap_graph_value(graph, op->outputs[i])->storage == op->outputs[i])
            return false;
    return op->n_outputs > 0;
}

static bool is_input(const neap_graph *graph, uint32_t storage)
{
    return neap_graph_value(graph, storage)->producer == NEAP_NONE;
}

/* Appends a storage to the last list unless it stands there. */
static neap_status add_storage(stage_runs *x, storage_lists *lists, uint32_t op, uint32_t storage,
                               neap_diag *diag)
{
    for (size_t i = lists->start[op]; i < lists->n_items; i++)
        if (lists->items[i] == storage)
            return NEAP_OK;
    neap_status status =
        NEAP_RESERVE(x->allocator, lists->n_items + 1, &lists->items, &lists->capacity, diag);
    if (status == NEAP_OK)
        lists->items[lists->n_items++] = storage;
    return status;
}

static neap_status list_storages(stage_runs *x, uint32_t k, neap_diag *diag)
{
    const neap_graph *graph = x->graph;
    const neap_op *op = neap_graph_op(graph, k);
    neap_status status = NEAP_OK;
    x->makes.start[k] = (uint32_t)x->makes.n_items;
    x->reads.start[k] = (uint32_t)x->reads.n_items;
    for (uint32_t i = 0; i < op->n_outputs && status == NEAP_OK && !x->only_views[k]; i++) {
        uint32_t s = neap_graph_value(graph, op->outputs[i])->storage;
        if (s == op->outputs[i])
            status = add_storage(x, &x->makes, k, s, diag);
        else if (!is_input(graph, s) && neap_graph_value(graph, s)->producer != k)
            status = add_storage(x, &x->reads, k, s, diag);
    }
    for (uint32_t i = 0; i < op->n_inputs && status == NEAP_OK && !x->only_views[k]; i++) {
        uint32_t s = neap_graph_value(graph, op->inputs[i])->storage;
        if (!is_input(graph, s))
            status = add_storage(x, &x->reads, k, s, diag);
    }
    x->makes.start[k + 1] = (uint32_t)x->makes.n_items;
    x->reads.start[k + 1] = (uint32_t)x->reads.n_items;
    return status;
}

static neap_status list_readers(stage_runs *x, neap_diag *diag)
{
    uint32_t n_values = neap_graph_value_count(x->graph);
    x->n_readers = x->reads.n_items;
    neap_status status = NEAP_NEW(x->allocator, x->n_readers, &x->readers, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(x->allocator, (size_t)n_values + 1, &x->reader_start, diag);
    if (status != NEAP_OK)
        return status;
    for (size_t i = 0; i < x->n_readers; i++)
        x->reader_start[x->reads.items[i] + 1]++;
    for (uint32_t v = 0; v < n_values; v++)
        x->reader_start[v + 1] += x->reader_start[v];
    for (uint32_t k = x->n_ops; k-- > 0;) /* from the back: ends become starts, ops ascend */
        for (size_t i = x->reads.start[k]; i < x->reads.start[k + 1]; i++)
            x->readers[--x->reader_start[x->reads.items[i] + 1]] = k;
    for (uint32_t v = 0; v < n_values; v++)
        x->reader_start[v] = x->reader_start[v + 1];
    x->reader_start[n_values] = (uint32_t)x->n_readers;
    return NEAP_OK;
}

static void measure_op(stage_runs *x, uint32_t k)
{
    const neap_op *op = neap_graph_op(x->graph, k);
    x->ticks[k] = op->variants[0].ticks;
    x->workspace[k] = op->variants[0].workspace;
    for (uint32_t q = 1; q < op->n_variants; q++) {
        x->ticks[k] = op->variants[q].ticks < x->ticks[k] ? op->variants[q].ticks : x->ticks[k];
        if (op->variants[q].workspace < x->workspace[k])
            x->workspace[k] = op->variants[q].workspace;
    }
}

static neap_status allocate(stage_runs *x, neap_diag *diag)
{
    size_t n = x->n_ops, n_values = neap_graph_value_count(x->graph);
    neap_status status = NEAP_NEW(x->allocator, n, &x->only_views, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(x->allocator, n, &x->ticks, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(x->allocator, n, &x->workspace, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(x->allocator, n + 1, &x->makes.start, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(x->allocator, n + 1, &x->reads.start, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(x->allocator, n_values, &x->is_output, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(x->allocator, n, &x->runs, diag);
    if (status == NEAP_OK)
        status = neap_stage_profile_init(&x->profile, x->allocator, x->n_ops, diag);
    return status;
}

neap_status neap_stage_runs_init(stage_runs *x, neap_allocator *allocator, const neap_graph *graph,
                                 neap_diag *diag)
{
    *x = (stage_runs){.allocator = allocator,
                      .graph = graph,
                      .n_ops = neap_graph_op_count(graph),
                      .profile = {.allocator = allocator}};
    neap_status status = allocate(x, diag);
    for (uint32_t k = 0; k < x->n_ops && status == NEAP_OK; k++) {
        x->only_views[k] = makes_only_views(graph, neap_graph_op(graph, k));
        measure_op(x, k);
        status = list_storages(x, k, diag);
    }
    for (uint32_t v = 0; v < neap_graph_value_count(graph) && status == NEAP_OK; v++)
        if (neap_graph_is_output(graph, v))
            x->is_output[neap_graph_value(graph, v)->storage] = true;
    if (status == NEAP_OK)
        status = list_readers(x, diag);
    for (uint32_t k = 0; k < x->n_ops && status == NEAP_OK; k++) {
        if (x->only_views[k])
            x->total_ticks += x->ticks[k];
        else
            status = neap_stage_runs_insert(x, (slot){k, k}, diag);
    }
    return status;
}

void neap_stage_runs_clear(stage_runs *x)
{
    neap_allocator *a = x->allocator;
    size_t n = x->n_ops, n_values = x->graph ? neap_graph_value_count(x->graph) : 0;
    for (size_t k = 0; k < n && x->runs; k++)
        NEAP_DELETE(a, x->runs[k].capacity, x->runs[k].stages);
    NEAP_DELETE(a, n, x->only_views);
    NEAP_DELETE(a, n, x->ticks);
    NEAP_DELETE(a, n, x->workspace);
    NEAP_DELETE(a, n + 1, x->makes.start);
    NEAP_DELETE(a, x->makes.capacity, x->makes.items);
    NEAP_DELETE(a, n + 1, x->reads.start);
    NEAP_DELETE(a, x->reads.capacity, x->reads.items);
    NEAP_DELETE(a, n_values + 1, x->reader_start);
    NEAP_DELETE(a, x->n_readers, x->readers);
    NEAP_DELETE(a, n_values, x->is_output);
    NEAP_DELETE(a, n, x->runs);
    neap_stage_profile_clear(&x->profile);
}

/* ---- What touches a storage ---- */

static void look_at_runs(const stage_runs *x, uint32_t op, bool makes, slot at, touches *t)
{
    const run_list *runs = &x->runs[op];
    for (uint32_t i = 0; i < runs->n; i++) {
        slot run = {runs->stages[i], op};
        if (slot_before(run, at)) {
            if (!t->made_before || slot_before(t->before, run))
                t->before = run;
            t->made_before = true;
        } else if (slot_before(at, run)) {
            if (t->next == NEXT_NONE || slot_before(run, t->behind)) {
                t->behind = run;
                t->next = makes ? NEXT_MAKES : NEXT_USES;
            }
            return; /* later runs are further away */
        }
    }
}

touches neap_stage_runs_touches(const stage_runs *x, uint32_t storage, slot at)
{
    touches t = {0};
    look_at_runs(x, neap_graph_value(x->graph, storage)->producer, true, at, &t);
    for (size_t i = x->reader_start[storage]; i < x->reader_start[storage + 1]; i++)
        look_at_runs(x, x->readers[i], false, at, &t);
    if (t.next == NEXT_NONE && x->is_output[storage]) {
        t.behind = (slot){x->n_ops, 0};
        t.next = NEXT_USES;
    }
    return t;
}

bool neap_stage_runs_has(const stage_runs *x, slot at)
{
    for (uint32_t i = 0; i < x->runs[at.op].n; i++)
        if (x->runs[at.op].stages[i] == at.stage)
            return true;
    return false;
}

/* ---- Runs ---- */

/*
 * What a run at a slot changes (sign 1), or its absence (-1). It makes storages: one that a later
 * use waits for is no longer held from the touch before, else it is there for this slot alone. It
 * reads storages: one that nothing uses later before it is made again is held up to here.
 */
static void apply(stage_runs *x, slot at, int64_t sign)
{
    stage_profile *profile = &x->profile;
    for (size_t i = x->makes.start[at.op]; i < x->makes.start[at.op + 1]; i++) {
        uint32_t s = x->makes.items[i];
        int64_t bytes = sign * neap_graph_value(x->graph, s)->bytes;
        touches t = neap_stage_runs_touches(x, s, at);
        if (t.next != NEXT_USES)
            neap_stage_profile_add(profile, at, at, bytes);
        else if (t.made_before)
            neap_stage_profile_add(profile, slot_next(t.before), slot_previous(at), -bytes);
        else
            neap_stage_profile_add(
                profile, at, t.behind.stage < x->n_ops ? t.behind : slot_previous(t.behind), bytes);
    }
    for (size_t i = x->reads.start[at.op]; i < x->reads.start[at.op + 1]; i++) {
        uint32_t s = x->reads.items[i];
        touches t = neap_stage_runs_touches(x, s, at);
        if (t.next != NEXT_USES)
            neap_stage_profile_add(profile, slot_next(t.before), at,
                                   sign * neap_graph_value(x->graph, s)->bytes);
    }
    neap_stage_profile_add(profile, at, at, sign * x->workspace[at.op]);
    x->total_ticks += sign * x->ticks[at.op];
}

neap_status neap_stage_runs_insert(stage_runs *x, slot at, neap_diag *diag)
{
    run_list *runs = &x->runs[at.op];
    neap_status status =
        NEAP_RESERVE(x->allocator, (size_t)runs->n + 1, &runs->stages, &runs->capacity, diag);
    if (status != NEAP_OK)
        return status;
    apply(x, at, 1);
    uint32_t i = runs->n++;
    for (; i > 0 && runs->stages[i - 1] > at.stage; i--)
        runs->stages[i] = runs->stages[i - 1];
    runs->stages[i] = at.stage;
    return NEAP_OK;
}

void neap_stage_runs_remove(stage_runs *x, slot at)
{
    run_list *runs = &x->runs[at.op];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < runs->n; i++)
        if (runs->stages[i] != at.stage)
            runs->stages[kept++] = runs->stages[i];
    runs->n = kept;
    apply(x, at, -1);
}

int64_t neap_stage_runs_peak(const stage_runs *x)
{
    int64_t peak = 0;
    for (uint32_t t = 0; t < x->n_ops; t++)
        peak = x->profile.most[t] > peak ? x->profile.most[t] : peak;
    return peak;
}

/* ---- Writing it out ---- */

typedef struct writer {
    const stage_runs *x;
    uint32_t **sequence;
    size_t *length, *capacity;
    uint64_t clock;
    uint64_t *made; /* per value: when it was last made; 0: never */
    bool *listed;   /* per op: in the stage's list already */
    neap_diag *diag;
} writer;

static neap_status list_run(writer *w, uint32_t op)
{
    if (w->listed[op])
        return NEAP_OK;
    neap_status status =
        NEAP_RESERVE(w->x->allocator, *w->length + 1, w->sequence, w->capacity, w->diag);
    if (status != NEAP_OK)
        return status;
    w->listed[op] = true;
    (*w->sequence)[(*w->length)++] = op;
    const neap_op *o = neap_graph_op(w->x->graph, op);
    w->clock++;
    for (uint32_t i = 0; i < o->n_outputs; i++)
        w->made[o->outputs[i]] = w->clock;
    return NEAP_OK;
}

/* The views that an op reads and that are older than their storage are made again first. A view
   of a view: the chain is walked from the storage upwards by repeating until nothing is stale. */
static neap_status refresh_views(writer *w, uint32_t op)
{
    const neap_graph *graph = w->x->graph;
    const neap_op *o = neap_graph_op(graph, op);
    neap_status status = NEAP_OK;
    for (uint32_t i = 0; i < o->n_inputs && status == NEAP_OK; i++) {
        const neap_value *value = neap_graph_value(graph, o->inputs[i]);
        if (value->producer == NEAP_NONE || !w->x->only_views[value->producer] ||
            w->made[o->inputs[i]] > w->made[value->storage])
            continue;
        /* Recursion goes down the chain of views, which is as long as views are nested. */
        status = refresh_views(w, value->producer);
        if (status == NEAP_OK)
            status = list_run(w, value->producer);
    }
    return status;
}

static int ascending(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

static neap_status write_stage(writer *w, uint32_t t, const uint32_t *ops, size_t n)
{
    size_t begin = *w->length;
    neap_status status = NEAP_OK;
    for (size_t i = 0; i < n && status == NEAP_OK; i++) {
        status = refresh_views(w, ops[i]);
        if (status == NEAP_OK)
            status = list_run(w, ops[i]);
    }
    if (status == NEAP_OK && w->x->only_views[t]) {
        status = refresh_views(w, t);
        if (status == NEAP_OK)
            status = list_run(w, t);
    }
    for (size_t i = begin; i < *w->length; i++)
        w->listed[(*w->sequence)[i]] = false;
    if (status == NEAP_OK && *w->length > begin)
        qsort(*w->sequence + begin, *w->length - begin, sizeof **w->sequence, ascending);
    return status;
}

neap_status neap_stage_runs_sequence(const stage_runs *x, uint32_t **sequence, size_t *length,
                                     size_t *capacity, neap_diag *diag)
{
    uint32_t n_values = neap_graph_value_count(x->graph), *next = NULL, *ops = NULL;
    writer w = {x, sequence, length, capacity, 0, NULL, NULL, diag};
    *length = 0;
    neap_status status = NEAP_NEW(x->allocator, n_values, &w.made, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(x->allocator, x->n_ops, &w.listed, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(x->allocator, x->n_ops, &next, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(x->allocator, x->n_ops, &ops, diag);
    for (uint32_t t = 0; t < x->n_ops && status == NEAP_OK; t++) {
        size_t n = 0;
        for (uint32_t k = 0; k <= t; k++)
            if (next[k] < x->runs[k].n && x->runs[k].stages[next[k]] == t) {
                next[k]++;
                ops[n++] = k;
            }
        status = write_stage(&w, t, ops, n);
    }
    NEAP_DELETE(x->allocator, n_values, w.made);
    NEAP_DELETE(x->allocator, x->n_ops, w.listed);
    NEAP_DELETE(x->allocator, x->n_ops, next);
    NEAP_DELETE(x->allocator, x->n_ops, ops);
    return status;
}
