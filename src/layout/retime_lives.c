/* A plan as lives and an order of steps, and back (retime.h). */
#include "layout/retime.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/progress.h"
#include "plan/residency.h"

#include <string.h>

/* Steps that one pass may trace: a quarter of a second or so. */
#define MOST_WORK (INT64_C(40) * 1000 * 1000)

/* ---- Time ---- */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Traces from the first position whose state may have changed. */
int64_t neap_retimer_trace(neap_retimer *r)
{
    neap_moment now = r->moments[r->valid];
    r->work += r->n_steps - r->valid;
    for (uint32_t i = r->valid; i < r->n_steps; i++) {
        uint32_t id = r->order[i];
        neap_step_kind kind = r->steps[id].kind;
        int64_t earliest = 0;
        r->moments[i] = now;
        for (uint32_t d = r->first_copy[id]; d < r->first_copy[id + 1]; d++)
            earliest = later(earliest, r->end_of[r->copies[d]]);
        r->begin[id] = later(now.clock, earliest);
        if (kind == NEAP_COMPUTE || kind == NEAP_FREE) {
            now.clock = r->end_of[id] = r->begin[id] + r->ticks[id];
        } else {
            int64_t *free_at = &now.engine[r->link->duplex && kind == NEAP_PREFETCH];
            *free_at = r->end_of[id] = later(r->begin[id], *free_at) + r->ticks[id];
        }
        now.makespan = later(now.makespan, r->end_of[id]);
    }
    r->moments[r->n_steps] = now;
    r->valid = r->n_steps;
    return now.makespan;
}

bool neap_retimer_spent(const neap_retimer *r)
{
    return r->work > MOST_WORK || (r->end > 0 && neap_clock_seconds() > r->end) ||
           neap_progress_is_cancelled(r->options->progress);
}

void neap_retimer_put(neap_retimer *r, uint32_t from, uint32_t to)
{
    uint32_t id = r->order[from], low = from < to ? from : to, high = from < to ? to : from;
    if (from < to)
        memmove(&r->order[from], &r->order[from + 1], (to - from) * sizeof *r->order);
    else
        memmove(&r->order[to + 1], &r->order[to], (from - to) * sizeof *r->order);
    r->order[to] = id;
    for (uint32_t i = low; i <= high; i++)
        r->at[r->order[i]] = i;
    r->valid = low < r->valid ? low : r->valid;
    r->changed = low < r->changed ? low : r->changed;
}

void neap_retimer_free_before(neap_retimer *r, const neap_life *x, uint32_t step)
{
    uint32_t to = step;
    for (uint32_t f = x->death; f != NEAP_NONE && r->at[f] > r->at[to]; f = r->before[f]) {
        neap_retimer_put(r, r->at[f], r->at[to]);
        to = f;
    }
}

void neap_retimer_mark(neap_retimer *r)
{
    memcpy(r->marked, r->order, r->n_steps * sizeof *r->order);
    r->changed = r->n_steps;
}

void neap_retimer_undo(neap_retimer *r)
{
    for (uint32_t i = r->changed; i < r->n_steps; i++) {
        r->order[i] = r->marked[i];
        r->at[r->order[i]] = i;
    }
    r->valid = r->changed < r->valid ? r->changed : r->valid;
}

void neap_retimer_set_order(neap_retimer *r, const uint32_t *order)
{
    memcpy(r->order, order, r->n_steps * sizeof *order);
    for (uint32_t i = 0; i < r->n_steps; i++)
        r->at[r->order[i]] = i;
    r->valid = 0;
    r->makespan = neap_retimer_trace(r);
}

/* ---- From a plan ---- */

typedef struct reader {
    neap_retimer *r;
    neap_residency state;
    uint32_t *current;   /* per storage: its life */
    uint32_t *last_free; /* per storage: the last free on that life */
    uint32_t *last_copy; /* per value: its last copy, either way, */
    uint32_t *arrival;   /* and its last copy to the device */
    size_t n_copies;     /* that steps wait for */
    int64_t alignment;
} reader;

static void add(reader *x, int64_t size, uint32_t step, bool is_workspace)
{
    x->r->lives[x->r->n_lives++] =
        (neap_life){.size = (size + x->alignment - 1) / x->alignment * x->alignment,
                    .birth = step,
                    .death = NEAP_NONE,
                    .use = NEAP_NONE,
                    .touch = step,
                    .is_workspace = is_workspace};
}

static void add_storages(reader *x, uint32_t step)
{
    for (uint32_t i = 0; i < x->state.n_began; i++) {
        uint32_t storage = x->state.began[i];
        x->current[storage] = x->r->n_lives;
        x->last_free[storage] = NEAP_NONE;
        add(x, neap_graph_value(x->r->graph, storage)->bytes, step, false);
    }
}

/* A step needs the storage of a value. */
static void touch(reader *x, uint32_t value, uint32_t step)
{
    neap_life *life = &x->r->lives[x->current[neap_graph_value(x->r->graph, value)->storage]];
    if (life->use == NEAP_NONE && life->birth != step)
        life->use = step;
    life->touch = step;
}

/* The step that is being read waits for a copy, if there is one. */
static void wait_for(reader *x, uint32_t copy)
{
    if (copy != NEAP_NONE)
        x->r->copies[x->n_copies++] = copy;
}

static void read_compute(reader *x, const neap_step *s, uint32_t i)
{
    const neap_op *op = neap_graph_op(x->r->graph, s->id);
    const neap_variant *variant = &op->variants[s->variant];
    x->r->ticks[i] = variant->ticks;
    for (uint32_t k = 0; k < op->n_inputs; k++) {
        touch(x, op->inputs[k], i);
        wait_for(x, x->arrival[op->inputs[k]]);
    }
    for (uint32_t k = 0; k < op->n_updates; k++) /* before it writes over them */
        wait_for(x, x->last_copy[op->updates[k]]);
    if (s->in_place)
        wait_for(x, x->last_copy[op->in_place_input]);
    if (x->state.passed_on != NEAP_NONE) {
        x->current[op->in_place_output] = x->current[x->state.passed_on];
        x->last_free[op->in_place_output] = NEAP_NONE;
    }
    for (uint32_t k = 0; k < op->n_outputs; k++)
        touch(x, op->outputs[k], i);
    if (variant->workspace > 0)
        add(x, variant->workspace, i, true);
}

static void read_other(reader *x, const neap_step *s, uint32_t i)
{
    neap_retimer *r = x->r;
    uint32_t storage = neap_graph_value(r->graph, s->id)->storage;
    wait_for(x, x->last_copy[s->id]);
    if (s->kind == NEAP_PREFETCH)
        x->arrival[s->id] = i;
    if (s->kind != NEAP_FREE) {
        x->last_copy[s->id] = i;
        r->ticks[i] = neap_link_ticks(r->link, r->graph, s->kind == NEAP_OFFLOAD,
                                      neap_graph_value(r->graph, storage)->bytes);
        touch(x, s->id, i);
        return;
    }
    r->before[i] = x->last_free[storage];
    x->last_free[storage] = i;
    if (x->state.ended != NEAP_NONE)
        r->lives[x->current[storage]].death = i;
}

static neap_status read_plan(reader *x)
{
    neap_retimer *r = x->r;
    add_storages(x, 0);
    r->n_inputs = r->n_lives;
    for (uint32_t i = 0; i < r->n_inputs; i++)
        r->lives[i].from_start = true;
    for (uint32_t i = 0; i < r->n_steps; i++) {
        r->order[i] = r->at[i] = i;
        NEAP_TRY(neap_residency_step(&x->state, &r->steps[i], i));
        add_storages(x, i);
        (r->steps[i].kind == NEAP_COMPUTE ? read_compute : read_other)(x, &r->steps[i], i);
        r->first_copy[i + 1] = (uint32_t)x->n_copies;
    }
    return NEAP_OK;
}

/* The most lives that the plan can have, and the most copies that its steps can wait for. */
static void count(const neap_retimer *r, size_t *n_lives, size_t *n_copies)
{
    *n_lives = neap_graph_value_count(r->graph); /* the inputs, at most */
    *n_copies = 0;
    for (uint32_t i = 0; i < r->n_steps; i++) {
        bool computes = r->steps[i].kind == NEAP_COMPUTE;
        const neap_op *op = computes ? neap_graph_op(r->graph, r->steps[i].id) : NULL;
        *n_lives += computes ? 1 + (size_t)op->n_outputs : 1;
        *n_copies += computes ? (size_t)op->n_inputs + op->n_updates + 1 : 1;
    }
}

static bool take_arrays(neap_retimer *r)
{
    neap_arena *a = &r->arena;
    size_t n = r->n_steps, n_lives, n_copies;
    count(r, &n_lives, &n_copies);
    return n_copies < NEAP_NONE && NEAP_TAKE(a, n, r->ticks) && NEAP_TAKE(a, n, r->order) &&
           NEAP_TAKE(a, n, r->at) && NEAP_TAKE(a, n, r->before) && NEAP_TAKE(a, n, r->begin) &&
           NEAP_TAKE(a, n, r->end_of) && NEAP_TAKE(a, n, r->marked) &&
           NEAP_TAKE(a, n, r->scratch) && NEAP_TAKE(a, n + 1, r->moments) &&
           NEAP_TAKE(a, n + 1, r->first_copy) && NEAP_TAKE(a, n_copies, r->copies) &&
           NEAP_TAKE(a, n_lives, r->lives) && NEAP_TAKE(a, n_lives, r->near) &&
           NEAP_TAKE(a, n_lives, r->queue) && NEAP_TAKE(a, 2 * n_lives + 2, r->spots);
}

static bool take_reader(reader *x, uint32_t n_values)
{
    neap_arena *a = &x->r->arena;
    bool taken = NEAP_TAKE(a, n_values, x->current) && NEAP_TAKE(a, n_values, x->last_free) &&
                 NEAP_TAKE(a, n_values, x->last_copy) && NEAP_TAKE(a, n_values, x->arrival);
    for (uint32_t v = 0; taken && v < n_values; v++)
        x->last_copy[v] = x->arrival[v] = NEAP_NONE;
    return taken;
}

neap_status neap_retimer_init(neap_retimer *r, neap_allocator *allocator, const neap_graph *graph,
                              const neap_link *link, const neap_plan *plan,
                              const neap_layout_options *options, neap_diag *diag)
{
    *r = (neap_retimer){.graph = graph,
                        .link = link,
                        .plan = plan,
                        .options = options,
                        .steps = neap_plan_steps(plan),
                        .n_steps = (uint32_t)neap_plan_step_count(plan),
                        .allocator = allocator,
                        .diag = diag};
    reader x = {.r = r, .alignment = options->alignment};
    neap_arena_init(&r->arena, allocator);
    if (options->seconds > 0)
        r->end = neap_clock_seconds() + options->seconds;
    neap_status status = neap_residency_init(&x.state, allocator, graph, plan, "layout: ", diag);
    if (status == NEAP_OK && (!take_arrays(r) || !take_reader(&x, neap_graph_value_count(graph))))
        status = neap_fail_no_memory(diag);
    if (status == NEAP_OK)
        status = read_plan(&x);
    neap_residency_clear(&x.state);
    if (status == NEAP_OK)
        r->makespan = neap_retimer_trace(r);
    return status;
}

void neap_retimer_clear(neap_retimer *r)
{
    neap_arena_clear(&r->arena);
}

/* ---- To a plan ---- */

neap_status neap_retimer_write(neap_retimer *r, neap_plan **result)
{
    const neap_plan *plan = r->plan;
    neap_status status =
        neap_plan_create(r->allocator, neap_plan_graph_name(plan), neap_plan_method(plan),
                         neap_plan_budget(plan), result, r->diag);
    for (uint32_t i = 0; i < r->n_steps && status == NEAP_OK; i++)
        status = neap_plan_append(*result, r->steps[r->order[i]], r->diag);
    size_t n_host;
    const uint32_t *on_host = neap_plan_host_at_start(plan, &n_host);
    if (status == NEAP_OK && n_host > 0)
        status = neap_plan_set_host_at_start(*result, on_host, n_host, r->diag);
    if (status != NEAP_OK) {
        neap_plan_destroy(*result);
        *result = NULL;
    }
    return status;
}

/* Lives in the order in which the present order begins them: r->queue. Those of a step lie
   together. */
static void list_lives(neap_retimer *r)
{
    uint32_t *first = r->scratch, n = r->n_inputs; /* per step: its first life */
    for (uint32_t i = 0; i < r->n_inputs; i++)
        r->queue[i] = i;
    memset(first, 0xff, r->n_steps * sizeof *first);
    for (uint32_t i = r->n_lives; i-- > r->n_inputs;)
        first[r->lives[i].birth] = i;
    for (uint32_t p = 0; p < r->n_steps; p++) {
        uint32_t step = r->order[p];
        for (uint32_t i = first[step]; i < r->n_lives && r->lives[i].birth == step; i++)
            r->queue[n++] = i;
    }
}

void neap_retimer_read_offsets(neap_retimer *r, const neap_plan *plan)
{
    size_t count;
    const int64_t *offsets = neap_plan_offsets(plan, &count);
    int64_t alignment = r->options->alignment;
    r->base = (neap_graph_fixed_bytes(r->graph) + alignment - 1) / alignment * alignment;
    list_lives(r);
    for (uint32_t i = 0; i < r->n_lives; i++) {
        neap_life *x = &r->lives[r->queue[i]];
        x->offset = offsets[i];
        if (neap_life_is_permanent(x))
            r->base = later(r->base, x->offset + x->size);
    }
}

neap_status neap_retimer_write_offsets(neap_retimer *r, neap_plan *plan)
{
    int64_t *offsets, arena = r->base;
    if (!NEAP_TAKE(&r->arena, r->n_lives, offsets))
        return neap_fail_no_memory(r->diag);
    list_lives(r);
    for (uint32_t i = 0; i < r->n_lives; i++) {
        const neap_life *x = &r->lives[r->queue[i]];
        offsets[i] = x->offset;
        arena = later(arena, x->offset + x->size);
    }
    return neap_plan_set_offsets(plan, offsets, r->n_lives, arena, r->diag);
}
