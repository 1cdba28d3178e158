/*
 * The judge: replays a plan step by step (docs/memory-model.md) and says what it costs, or why it
 * is wrong.
 *
 * Naive on purpose. It keeps, for each value, whether it is resident and on the host and until when
 * it is being copied; for each storage, how many resident values lie on it and whether it was
 * updated; three clocks; and the
 * arena's live instances in order of address. It shares no code with the timeline or any planner:
 * what they compute as well, it computes again. Cost: O(log instances) a step and O(1) for each
 * input and output of a computation.
 *
 * Functions that return bool return whether the plan may go on; `return reject(...)` ends it.
 */
#include "base/checked.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <neap/check.h>
#include <neap/text.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER SIZE_MAX /* no step, no instance */

typedef struct value_state {
    bool resident, on_host;
    bool starts_on_host; /* state that is on the host when the step begins and when it ends */
    bool copied_updated; /* its copy on the host was made after its storage was updated */
    size_t since;        /* the step that last made it resident; NEVER for inputs */
    size_t freed;        /* the step that last freed it, or NEVER */
    int64_t copy_end;    /* when its last copy ends, either way */
    int64_t arrival;     /* when its last prefetch ends */
} value_state;

typedef struct storage_state {
    uint32_t residents; /* resident values on it: live while there are any */
    bool updated;       /* an op has overwritten it */
    size_t instance;    /* its number in the arena while live */
} storage_state;

typedef struct ranked_offset {
    int64_t offset;
    size_t instance;
} ranked_offset;

/*
 * The instances, numbered as they are allocated, ranked by their offsets. `live` is a complete
 * binary tree over the ranks, root 1, that marks the nodes with a live instance below: the
 * neighbours of an instance are found, and checked, in O(log n).
 */
typedef struct arena {
    const int64_t *offsets; /* NULL: the plan has none */
    size_t count;
    int64_t bytes;
    size_t next;           /* the instance to be allocated next */
    ranked_offset *ranked; /* by rank */
    size_t *rank;          /* by instance, as the next two */
    int64_t *size;
    uint32_t *owner; /* the value whose storage it is */
    bool *live;
    size_t leaves;
} arena;

typedef struct judge {
    neap_allocator *allocator;
    const neap_graph *graph;
    const neap_link *link; /* NULL: none */
    int64_t budget;
    neap_verdict *verdict;
    uint32_t n_values, n_ops;
    value_state *values;
    storage_state *storages; /* by the value that owns the storage */
    bool *computed;          /* by op */
    size_t step;             /* NEVER before the first and after the last */
    const neap_step *now;
    int64_t live_bytes; /* fixed bytes and live storages */
    int64_t clock;      /* of the compute stream */
    int64_t free_at[2]; /* when the engine to and from the host is free */
    int64_t host_bytes;
    arena arena;
} judge;

/* ---- Saying why ---- */

typedef struct label {
    char text[112];
} label;

/* `op 12 "conv3_bw"`; a long name is cut between two characters. */
static label named(const char *what, uint32_t id, const char *name)
{
    int length = (int)neap_utf8_clip(name, 64);
    label l;
    snprintf(l.text, sizeof l.text, "%s %lu \"%.*s%s\"", what, (unsigned long)id, length, name,
             name[length] ? "..." : "");
    return l;
}

static label op_label(const judge *j, uint32_t id)
{
    return named("op", id, neap_graph_op(j->graph, id)->name);
}

static label value_label(const judge *j, uint32_t id)
{
    return named("value", id, neap_graph_value(j->graph, id)->name);
}

/* Why a value is not resident, and what would help. */
static label whereabouts(const judge *j, uint32_t id)
{
    const value_state *v = &j->values[id];
    const char *remedy = v->on_host ? "; prefetch it" : "";
    label l;
    if (v->freed != NEVER)
        snprintf(l.text, sizeof l.text, "freed at step %zu%s", v->freed, remedy);
    else if (v->starts_on_host)
        snprintf(l.text, sizeof l.text, "on the host at the start%s", remedy);
    else
        snprintf(l.text, sizeof l.text, "op %lu, which makes it, has not run",
                 (unsigned long)neap_graph_value(j->graph, id)->producer);
    return l;
}

/* Formats two sizes; exactly if rounding would make them look equal. */
static void format_sizes(int64_t a, int64_t b, char a_text[32], char b_text[32])
{
    neap_bytes_format(a, a_text, 32);
    neap_bytes_format(b, b_text, 32);
    if (a != b && strcmp(a_text, b_text) == 0) {
        snprintf(a_text, 32, "%lld B", (long long)a);
        snprintf(b_text, 32, "%lld B", (long long)b);
    }
}

/* `step 17: compute op 12 "conv3_bw": `, or nothing outside the steps. */
static size_t write_place(const judge *j, char *text, size_t capacity)
{
    if (j->step == NEVER)
        return 0;
    bool compute = j->now->kind == NEAP_COMPUTE;
    label l;
    if (j->now->id >= (compute ? j->n_ops : j->n_values))
        snprintf(l.text, sizeof l.text, "%s %lu", compute ? "op" : "value",
                 (unsigned long)j->now->id);
    else
        l = compute ? op_label(j, j->now->id) : value_label(j, j->now->id);
    int length = snprintf(text, capacity, "step %zu: %s %s: ", j->step,
                          neap_step_kind_name(j->now->kind), l.text);
    return length < 0 ? 0 : (size_t)length;
}

NEAP_PRINTF(2, 3) static bool reject(judge *j, const char *format, ...)
{
    char *reason = j->verdict->reason;
    size_t place = write_place(j, reason, NEAP_REASON_CAPACITY);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(reason + place, NEAP_REASON_CAPACITY - place, format, arguments);
    va_end(arguments);
    bool cut = length >= (int)(NEAP_REASON_CAPACITY - place);
    if (cut)
        reason[NEAP_REASON_CAPACITY - 4] = '\0';
    size_t kept = neap_string_clean(reason); /* names come from files */
    if (cut)
        memcpy(reason + kept, "...", 4);
    j->verdict->step = j->step;
    return false;
}

/* ---- The arena ---- */

static int by_offset(const void *left, const void *right)
{
    const ranked_offset *a = left, *b = right;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return (a->instance > b->instance) - (a->instance < b->instance);
}

static neap_status arena_init(arena *a, neap_allocator *allocator, const neap_plan *plan,
                              neap_diag *diag)
{
    a->offsets = neap_plan_offsets(plan, &a->count);
    if (!a->offsets)
        return NEAP_OK;
    a->bytes = neap_plan_arena_bytes(plan);
    for (a->leaves = 1; a->leaves < a->count;)
        a->leaves *= 2;
    neap_status status = NEAP_NEW(allocator, a->count, &a->ranked, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, a->count, &a->rank, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, a->count, &a->size, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, a->count, &a->owner, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, 2 * a->leaves, &a->live, diag);
    if (status != NEAP_OK)
        return status;
    for (size_t i = 0; i < a->count; i++)
        a->ranked[i] = (ranked_offset){a->offsets[i], i};
    qsort(a->ranked, a->count, sizeof *a->ranked, by_offset);
    for (size_t r = 0; r < a->count; r++)
        a->rank[a->ranked[r].instance] = r;
    return NEAP_OK;
}

static void arena_clear(arena *a, neap_allocator *allocator)
{
    NEAP_DELETE(allocator, a->count, a->ranked);
    NEAP_DELETE(allocator, a->count, a->rank);
    NEAP_DELETE(allocator, a->count, a->size);
    NEAP_DELETE(allocator, a->count, a->owner);
    NEAP_DELETE(allocator, 2 * a->leaves, a->live);
}

static void arena_mark(arena *a, size_t instance, bool live)
{
    size_t node = a->leaves + a->rank[instance];
    a->live[node] = live;
    while (node > 1) {
        node /= 2;
        a->live[node] = a->live[2 * node] || a->live[2 * node + 1];
    }
}

/* The live instance next to an instance in rank, below it (side 0) or above it (side 1); or NEVER.
 */
static size_t arena_neighbour(const arena *a, size_t instance, size_t side)
{
    size_t node = a->leaves + a->rank[instance];
    /* Climb until there is a live sibling on that side, then descend to its nearest leaf. */
    while (node > 1 && (node % 2 == side || !a->live[node ^ 1]))
        node /= 2;
    if (node <= 1)
        return NEVER;
    node ^= 1;
    while (node < a->leaves)
        node = 2 * node + (a->live[2 * node + (1 - side)] ? 1 - side : side);
    return a->ranked[node - a->leaves].instance;
}

/* `offset 3 puts the storage of value 4 "dh" at [96, 104)` */
typedef struct placement {
    char text[256];
} placement;

static placement placed(const judge *j, size_t instance)
{
    const arena *a = &j->arena;
    uint32_t owner = a->owner[instance];
    int64_t at = a->offsets[instance], end = INT64_MAX;
    neap_add_i64(at, a->size[instance], &end); /* offsets come from files */
    placement p;
    snprintf(p.text, sizeof p.text, "offset %zu puts the %s of %s at [%lld, %lld)", instance,
             owner == NEAP_NONE ? "workspace" : "storage",
             owner == NEAP_NONE ? op_label(j, j->now->id).text : value_label(j, owner).text,
             (long long)at, (long long)end);
    return p;
}

/* Gives the next instance its place, if the plan has offsets. Owner: a storage, or NEAP_NONE for
 * the workspace. */
static bool allocate(judge *j, uint32_t owner, int64_t size)
{
    arena *a = &j->arena;
    if (!a->offsets)
        return true;
    if (a->next == a->count)
        return reject(j, "the plan has %zu offsets, there is none for the %s of %s", a->count,
                      owner == NEAP_NONE ? "workspace" : "storage",
                      owner == NEAP_NONE ? op_label(j, j->now->id).text
                                         : value_label(j, owner).text);
    size_t i = a->next++;
    int64_t at = a->offsets[i], fixed = neap_graph_fixed_bytes(j->graph);
    a->size[i] = size;
    a->owner[i] = owner;
    if (at < 0 || size > a->bytes || at > a->bytes - size)
        return reject(j, "%s, outside the arena of %lld bytes", placed(j, i).text,
                      (long long)a->bytes);
    if (size == 0)
        return true;
    if (at < fixed)
        return reject(j, "%s, but the first %lld bytes are the graph's fixed bytes",
                      placed(j, i).text, (long long)fixed);
    for (size_t side = 0; side < 2; side++) {
        size_t other = arena_neighbour(a, i, side);
        if (other != NEVER && at < a->offsets[other] + a->size[other] &&
            a->offsets[other] < at + size)
            return reject(j, "%s, but %s, and both are live", placed(j, i).text,
                          placed(j, other).text);
    }
    arena_mark(a, i, true);
    return true;
}

static void release(judge *j, size_t instance)
{
    if (j->arena.offsets && j->arena.size[instance] > 0)
        arena_mark(&j->arena, instance, false);
}

/* ---- Memory ---- */

static bool make_resident(judge *j, uint32_t id)
{
    uint32_t owner = neap_graph_value(j->graph, id)->storage;
    int64_t size = neap_graph_value(j->graph, owner)->bytes;
    storage_state *storage = &j->storages[owner];
    j->values[id].resident = true;
    j->values[id].since = j->step;
    if (storage->residents++ > 0)
        return true;
    storage->instance = j->arena.next;
    j->live_bytes += size; /* a graph's sizes sum up to less than 2^63 */
    return allocate(j, owner, size);
}

/* Takes the peak: what is live now, and a workspace on top. */
static bool note_peak(judge *j, int64_t workspace)
{
    int64_t bytes = j->live_bytes + workspace;
    if (bytes > j->verdict->peak_bytes) {
        j->verdict->peak_bytes = bytes;
        j->verdict->peak_step = j->step == NEVER ? 0 : j->step;
    }
    if (bytes <= j->budget)
        return true;
    char live[32], budget[32];
    format_sizes(bytes, j->budget, live, budget);
    return reject(j,
                  j->step == NEVER ? "the fixed bytes and inputs take %s, the budget is %s"
                                   : "%s live, the budget is %s",
                  live, budget);
}

/* The value leaves memory; true if its storage does, too. */
static bool drop(judge *j, uint32_t id)
{
    j->values[id].resident = false;
    j->values[id].freed = j->step;
    return --j->storages[neap_graph_value(j->graph, id)->storage].residents == 0;
}

/* ---- The four steps ---- */

static bool add_ticks(judge *j, int64_t ticks, int64_t *clock)
{
    if (!neap_add_i64(*clock, ticks, clock))
        return reject(j, "the time passes 2^63 ticks");
    if (*clock > j->verdict->ticks)
        j->verdict->ticks = *clock;
    return true;
}

static void wait_until(judge *j, int64_t time)
{
    if (time > j->clock)
        j->clock = time;
}

/* An op that updates state runs once, and no other op reads that state after it. */
static bool check_updates(judge *j, const neap_op *op)
{
    if (op->n_updates > 0)
        return !j->computed[j->now->id] || reject(j, "it updates state, and ran before");
    for (uint32_t i = 0; i < op->n_inputs; i++)
        if (j->storages[neap_graph_value(j->graph, op->inputs[i])->storage].updated)
            return reject(j, "input %s was updated; ops that read it must run before its update",
                          value_label(j, op->inputs[i]).text);
    return true;
}

/* Whether the host has a value as it is now. */
static bool is_current(const judge *j, uint32_t id)
{
    bool updated = j->storages[neap_graph_value(j->graph, id)->storage].updated;
    return j->values[id].on_host && (!updated || j->values[id].copied_updated);
}

/* Whether the op of this step may run in place. */
static bool check_in_place(judge *j, const neap_op *op)
{
    if (op->in_place_input == NEAP_NONE)
        return reject(j, "the graph does not say that it may run in place");
    const neap_value *input = neap_graph_value(j->graph, op->in_place_input);
    int64_t size = neap_graph_value(j->graph, input->storage)->bytes;
    const neap_value *output = neap_graph_value(j->graph, op->in_place_output);
    if (input->producer == NEAP_NONE)
        return reject(j, "%s is an input: no op may write over it",
                      value_label(j, op->in_place_input).text);
    if (j->storages[input->storage].residents != 1)
        return reject(j, "another resident value lies on the storage of %s",
                      value_label(j, op->in_place_input).text);
    if (j->storages[output->storage].residents > 0)
        return reject(j, "the storage of %s is live already",
                      value_label(j, op->in_place_output).text);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (neap_graph_value(j->graph, op->outputs[i])->storage == input->storage)
            return reject(j, "its output %s lies on the storage of %s, which is written over",
                          value_label(j, op->outputs[i]).text,
                          value_label(j, op->in_place_input).text);
    if (output->view_of != NEAP_NONE || output->bytes != size)
        return reject(j, "%s has not the size of the storage of %s, which it would take over",
                      value_label(j, op->in_place_output).text,
                      value_label(j, op->in_place_input).text);
    return true;
}

/* The output takes over the input's storage, with its place in the arena. */
static void take_over(judge *j, const neap_op *op)
{
    storage_state *old = &j->storages[neap_graph_value(j->graph, op->in_place_input)->storage];
    storage_state *new = &j->storages[op->in_place_output];
    drop(j, op->in_place_input);
    new->instance = old->instance;
    new->residents = 1;
    j->values[op->in_place_output].resident = true;
    j->values[op->in_place_output].since = j->step;
    if (j->arena.offsets)
        j->arena.owner[new->instance] = op->in_place_output;
}

static bool run_compute(judge *j)
{
    const neap_step *step = j->now;
    if (step->id >= j->n_ops)
        return reject(j, "the graph has %lu ops", (unsigned long)j->n_ops);
    const neap_op *op = neap_graph_op(j->graph, step->id);
    if (step->variant >= op->n_variants)
        return reject(j, "there is no variant %lu: the op has %lu, from 0",
                      (unsigned long)step->variant, (unsigned long)op->n_variants);
    const neap_variant *variant = &op->variants[step->variant];
    for (uint32_t i = 0; i < op->n_inputs; i++)
        if (!j->values[op->inputs[i]].resident)
            return reject(j, "input %s is not resident (%s)", value_label(j, op->inputs[i]).text,
                          whereabouts(j, op->inputs[i]).text);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (j->values[op->outputs[i]].resident)
            return reject(j, "output %s is resident already (since step %zu); free it before",
                          value_label(j, op->outputs[i]).text, j->values[op->outputs[i]].since);
    if (!check_updates(j, op) || (step->in_place && !check_in_place(j, op)))
        return false;

    for (uint32_t i = 0; i < op->n_inputs; i++)
        wait_until(j, j->values[op->inputs[i]].arrival);
    for (uint32_t i = 0; i < op->n_updates; i++) /* a copy under way needs what is overwritten */
        wait_until(j, j->values[op->updates[i]].copy_end);
    if (step->in_place)
        wait_until(j, j->values[op->in_place_input].copy_end);
    if (!add_ticks(j, variant->ticks, &j->clock))
        return false;
    j->verdict->compute_ticks += variant->ticks; /* at most the clock */
    j->verdict->recomputed_ops += j->computed[step->id];
    j->computed[step->id] = true;

    for (uint32_t i = 0; i < op->n_updates; i++)
        j->storages[neap_graph_value(j->graph, op->updates[i])->storage].updated = true;
    if (step->in_place)
        take_over(j, op);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (!(step->in_place && op->outputs[i] == op->in_place_output) &&
            !make_resident(j, op->outputs[i]))
            return false;
    if (variant->workspace > 0) {
        size_t instance = j->arena.next;
        if (!allocate(j, NEAP_NONE, variant->workspace))
            return false;
        release(j, instance);
    }
    return note_peak(j, variant->workspace);
}

/* What free and offload ask of a value: there, and not an input, or state. */
static bool is_movable(judge *j, uint32_t id)
{
    const neap_value *value = neap_graph_value(j->graph, id);
    if (value->producer == NEAP_NONE && !value->state)
        return reject(j, "it is an input: resident throughout, never freed or transferred");
    if (!j->values[id].resident)
        return reject(j, "it is not resident (%s)", whereabouts(j, id).text);
    return true;
}

static bool run_free(judge *j)
{
    uint32_t id = j->now->id;
    if (!is_movable(j, id))
        return false;
    value_state *v = &j->values[id];
    if (neap_graph_value(j->graph, id)->state && !is_current(j, id))
        return reject(j, v->on_host ? "it was updated, and the host does not have it as it is now; "
                                      "offload it before"
                                    : "it is state, and the host does not have it; offload it "
                                      "before");
    wait_until(j, v->copy_end);
    uint32_t owner = neap_graph_value(j->graph, id)->storage;
    if (drop(j, id)) {
        j->live_bytes -= neap_graph_value(j->graph, owner)->bytes;
        release(j, j->storages[owner].instance);
    }
    return true;
}

/* Books a copy of a value's storage on its engine. */
static bool transfer(judge *j, bool out, int64_t *bytes)
{
    value_state *v = &j->values[j->now->id];
    uint32_t owner = neap_graph_value(j->graph, j->now->id)->storage;
    *bytes = neap_graph_value(j->graph, owner)->bytes;
    if (!j->link || !((out ? j->link->out_bandwidth : j->link->in_bandwidth) > 0))
        return reject(j,
                      "there is no link %s the host; give its bandwidth, or plan without transfers",
                      out ? "to" : "from");
    int64_t *engine = &j->free_at[j->link->duplex && !out];
    int64_t start = *engine;
    start = start > j->clock ? start : j->clock;
    start = start > v->copy_end ? start : v->copy_end;
    if (!add_ticks(j, neap_link_ticks(j->link, j->graph, out, *bytes), &start))
        return false;
    *engine = v->copy_end = start;
    return true;
}

/* One more value on the host. */
static bool hold_on_host(judge *j, uint32_t id, int64_t bytes)
{
    j->values[id].on_host = true;
    if (!neap_add_i64(j->host_bytes, bytes, &j->host_bytes))
        return reject(j, "the bytes on the host pass 2^63");
    j->verdict->host_bytes = j->host_bytes;
    if (!j->link || j->link->host_memory <= 0 || j->host_bytes <= j->link->host_memory)
        return true;
    char held[32], limit[32];
    format_sizes(j->host_bytes, j->link->host_memory, held, limit);
    return reject(j, "%s on the host, its memory is %s", held, limit);
}

static bool run_offload(judge *j)
{
    int64_t bytes;
    if (!is_movable(j, j->now->id) || !transfer(j, true, &bytes))
        return false;
    neap_verdict *verdict = j->verdict;
    if (!neap_add_i64(verdict->offloaded_bytes, bytes, &verdict->offloaded_bytes))
        return reject(j, "the bytes offloaded pass 2^63");
    uint32_t owner = neap_graph_value(j->graph, j->now->id)->storage;
    j->values[j->now->id].copied_updated = j->storages[owner].updated;
    return j->values[j->now->id].on_host || hold_on_host(j, j->now->id, bytes);
}

static bool run_prefetch(judge *j)
{
    value_state *v = &j->values[j->now->id];
    if (v->resident && v->since == NEVER && !neap_graph_value(j->graph, j->now->id)->state)
        return reject(j, "it is an input: resident throughout, never freed or transferred");
    if (v->resident && v->since == NEVER)
        return reject(j, "it is resident already (since the start)");
    if (v->resident)
        return reject(j, "it is resident already (since step %zu)", v->since);
    if (!v->on_host)
        return reject(j, "it is not on the host (never offloaded)");
    if (!is_current(j, j->now->id))
        return reject(j, "it was updated after its copy on the host was made");
    int64_t bytes;
    if (!transfer(j, false, &bytes))
        return false;
    v->arrival = v->copy_end;
    return make_resident(j, j->now->id) && note_peak(j, 0);
}

static bool run_step(judge *j)
{
    if (j->now->kind != NEAP_COMPUTE && j->now->id >= j->n_values)
        return reject(j, "the graph has %lu values", (unsigned long)j->n_values);
    switch (j->now->kind) {
    case NEAP_COMPUTE:
        return run_compute(j);
    case NEAP_FREE:
        return run_free(j);
    case NEAP_OFFLOAD:
        return run_offload(j);
    case NEAP_PREFETCH:
        return run_prefetch(j);
    }
    return reject(j, "there is no such kind of step");
}

/* ---- The whole plan ---- */

/* State that the plan has on the host at the start. */
static bool begin_on_host(judge *j, const neap_plan *plan)
{
    size_t count;
    const uint32_t *values = neap_plan_host_at_start(plan, &count);
    for (size_t i = 0; i < count; i++) {
        if (values[i] >= j->n_values)
            return reject(j, "host_at_start names value %lu, but the graph has %lu values",
                          (unsigned long)values[i], (unsigned long)j->n_values);
        if (!neap_graph_value(j->graph, values[i])->state)
            return reject(j, "host_at_start names %s, which is no state",
                          value_label(j, values[i]).text);
        if (j->values[values[i]].starts_on_host)
            return reject(j, "host_at_start names %s twice", value_label(j, values[i]).text);
        j->values[values[i]].starts_on_host = true;
        uint32_t owner = neap_graph_value(j->graph, values[i])->storage;
        if (!hold_on_host(j, values[i], neap_graph_value(j->graph, owner)->bytes))
            return false;
    }
    return true;
}

static bool begin(judge *j, const neap_plan *plan)
{
    int64_t fixed = neap_graph_fixed_bytes(j->graph);
    j->step = NEVER;
    j->live_bytes = fixed;
    for (uint32_t v = 0; v < j->n_values; v++)
        j->values[v].since = j->values[v].freed = NEVER;
    if (!begin_on_host(j, plan))
        return false;
    if (j->arena.offsets) {
        if (fixed > j->arena.bytes)
            return reject(j, "the arena has %lld bytes, the graph's fixed bytes are %lld",
                          (long long)j->arena.bytes, (long long)fixed);
        if (j->arena.bytes > j->budget) {
            char arena_text[32], budget[32];
            format_sizes(j->arena.bytes, j->budget, arena_text, budget);
            return reject(j, "the arena has %s, the budget is %s", arena_text, budget);
        }
    }
    for (uint32_t v = 0; v < j->n_values; v++)
        if (neap_graph_value(j->graph, v)->producer == NEAP_NONE && !j->values[v].starts_on_host &&
            !make_resident(j, v))
            return false;
    return note_peak(j, 0);
}

/* State ends where it began, as it is now. */
static bool finish_state(judge *j)
{
    for (uint32_t v = 0; v < j->n_values; v++) {
        const value_state *state = &j->values[v];
        if (!neap_graph_value(j->graph, v)->state)
            continue;
        if (!state->starts_on_host && !state->resident)
            return reject(j, "state %s is not resident at the end (%s)", value_label(j, v).text,
                          whereabouts(j, v).text);
        if (state->starts_on_host && !is_current(j, v))
            return reject(j,
                          "%s was updated, and the host does not have it as it is now at the "
                          "end; offload it",
                          value_label(j, v).text);
        if (state->starts_on_host && state->resident)
            return reject(j, "%s began on the host and is still on the device at the end; free it",
                          value_label(j, v).text);
    }
    return true;
}

static bool finish(judge *j)
{
    j->step = NEVER;
    for (uint32_t o = 0; o < j->n_ops; o++)
        if (!j->computed[o])
            return reject(j, "%s is never computed", op_label(j, o).text);
    uint32_t n_outputs;
    const uint32_t *outputs = neap_graph_outputs(j->graph, &n_outputs);
    for (uint32_t i = 0; i < n_outputs; i++)
        if (!j->values[outputs[i]].resident)
            return reject(j, "output %s is not resident at the end (%s)",
                          value_label(j, outputs[i]).text, whereabouts(j, outputs[i]).text);
    if (!finish_state(j))
        return false;
    if (j->arena.next < j->arena.count)
        return reject(j, "the plan has %zu offsets, its steps allocate %zu times", j->arena.count,
                      j->arena.next);
    return true;
}

static bool replay(judge *j, const neap_plan *plan)
{
    const neap_step *steps = neap_plan_steps(plan);
    size_t n_steps = neap_plan_step_count(plan);
    if (!begin(j, plan))
        return false;
    for (size_t i = 0; i < n_steps; i++) {
        j->step = i;
        j->now = &steps[i];
        if (!run_step(j))
            return false;
    }
    return finish(j);
}

void neap_check_options_init(neap_check_options *options)
{
    *options = (neap_check_options){.budget = -1, .link = NULL};
}

neap_status neap_check(neap_allocator *allocator, const neap_graph *graph, const neap_plan *plan,
                       const neap_check_options *options, neap_verdict *verdict, neap_diag *diag)
{
    judge j = {.allocator = neap_allocator_or_system(allocator),
               .graph = graph,
               .link = options ? options->link : NULL,
               .budget = options ? options->budget : -1,
               .verdict = verdict,
               .n_values = neap_graph_value_count(graph),
               .n_ops = neap_graph_op_count(graph)};
    if (j.budget < 0)
        j.budget = neap_plan_budget(plan);
    if (j.budget < 0)
        j.budget = INT64_MAX;
    memset(verdict, 0, sizeof *verdict);
    verdict->step = NEVER;
    verdict->arena_bytes = neap_plan_arena_bytes(plan);

    neap_status status = NEAP_NEW(j.allocator, j.n_values, &j.values, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(j.allocator, j.n_values, &j.storages, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(j.allocator, j.n_ops, &j.computed, diag);
    if (status == NEAP_OK)
        status = arena_init(&j.arena, j.allocator, plan, diag);
    if (status != NEAP_OK)
        goto done;

    verdict->accepted = replay(&j, plan);
    verdict->has_arena = verdict->accepted && j.arena.offsets;
    verdict->time = neap_graph_seconds(graph, verdict->ticks);
done:
    arena_clear(&j.arena, j.allocator);
    NEAP_DELETE(j.allocator, j.n_ops, j.computed);
    NEAP_DELETE(j.allocator, j.n_values, j.storages);
    NEAP_DELETE(j.allocator, j.n_values, j.values);
    return status;
}
