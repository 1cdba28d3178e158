/*
 * The timeline of a plan: what each step holds in memory, and when it begins and ends
 * (docs/memory-model.md).
 *
 * Two passes. The first runs through residency, and says which step cannot be run; the second,
 * which may then rely on it, through time. Both are O(1) a step and for each input and output of a
 * computation. The judge (src/check) computes the same figures by its own means, and tests hold the
 * two against each other.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"

#include <neap/plan.h>

#include <string.h>

typedef struct builder {
    const neap_graph *graph;
    const neap_step *steps;
    size_t n_steps;
    const neap_link *link; /* NULL: none */
    neap_timeline_step *out;
    neap_diag *diag;
} builder;

/* ---- Memory ---- */

typedef struct residency {
    bool *resident;    /* by value */
    bool *on_host;     /* by value */
    uint32_t *holders; /* by storage: the resident values on it */
    int64_t bytes;     /* fixed and live storages */
} residency;

static neap_status fail_step(const builder *b, size_t step, const char *why)
{
    const neap_step *s = &b->steps[step];
    return neap_fail(b->diag, NEAP_INVALID, "step %zu: %s %lu: %s", step,
                     neap_step_kind_name(s->kind), (unsigned long)s->id, why);
}

/* A graph's sizes sum up to less than 2^63, one workspace included. */
static void hold(const neap_graph *graph, residency *r, uint32_t value)
{
    uint32_t storage = neap_graph_value(graph, value)->storage;
    r->resident[value] = true;
    if (r->holders[storage]++ == 0)
        r->bytes += neap_graph_value(graph, storage)->bytes;
}

static void let_go(const neap_graph *graph, residency *r, uint32_t value)
{
    uint32_t storage = neap_graph_value(graph, value)->storage;
    r->resident[value] = false;
    if (--r->holders[storage] == 0)
        r->bytes -= neap_graph_value(graph, storage)->bytes;
}

static neap_status hold_outputs(const builder *b, residency *r, size_t step)
{
    const neap_step *s = &b->steps[step];
    if (s->id >= neap_graph_op_count(b->graph))
        return fail_step(b, step, "there is no such op");
    const neap_op *op = neap_graph_op(b->graph, s->id);
    if (s->variant >= op->n_variants)
        return fail_step(b, step, "the op has no such variant");
    for (uint32_t i = 0; i < op->n_inputs; i++)
        if (!r->resident[op->inputs[i]])
            return fail_step(b, step, "an input is not resident");
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        if (r->resident[op->outputs[i]])
            return fail_step(b, step, "an output is resident already");
        hold(b->graph, r, op->outputs[i]);
    }
    b->out[step].after_bytes = r->bytes;
    b->out[step].live_bytes = r->bytes + op->variants[s->variant].workspace;
    return NEAP_OK;
}

static neap_status move_value(const builder *b, residency *r, size_t step)
{
    const neap_step *s = &b->steps[step];
    if (s->id >= neap_graph_value_count(b->graph))
        return fail_step(b, step, "there is no such value");
    if (neap_graph_value(b->graph, s->id)->producer == NEAP_NONE)
        return fail_step(b, step, "it is an input, resident throughout");
    if (r->resident[s->id] == (s->kind == NEAP_PREFETCH))
        return fail_step(b, step, r->resident[s->id] ? "it is resident" : "it is not resident");
    if (s->kind != NEAP_FREE && !b->link)
        return fail_step(b, step, "there is no link to the host");
    b->out[step].live_bytes = r->bytes;
    if (s->kind == NEAP_FREE) {
        let_go(b->graph, r, s->id);
    } else if (s->kind == NEAP_OFFLOAD) {
        r->on_host[s->id] = true;
    } else {
        if (!r->on_host[s->id])
            return fail_step(b, step, "it is not on the host");
        hold(b->graph, r, s->id);
        b->out[step].live_bytes = r->bytes;
    }
    b->out[step].after_bytes = r->bytes;
    return NEAP_OK;
}

static neap_status trace_memory(neap_allocator *allocator, const builder *b)
{
    uint32_t n_values = neap_graph_value_count(b->graph);
    residency r = {.bytes = neap_graph_fixed_bytes(b->graph)};
    neap_status status = NEAP_NEW(allocator, n_values, &r.resident, b->diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_values, &r.on_host, b->diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_values, &r.holders, b->diag);
    for (uint32_t v = 0; v < n_values && status == NEAP_OK; v++)
        if (neap_graph_value(b->graph, v)->producer == NEAP_NONE)
            hold(b->graph, &r, v);
    for (size_t i = 0; i < b->n_steps && status == NEAP_OK; i++) {
        if (b->steps[i].kind == NEAP_COMPUTE)
            status = hold_outputs(b, &r, i);
        else if (b->steps[i].kind <= NEAP_PREFETCH)
            status = move_value(b, &r, i);
        else
            status = fail_step(b, i, "there is no such kind of step");
    }
    NEAP_DELETE(allocator, n_values, r.holders);
    NEAP_DELETE(allocator, n_values, r.on_host);
    NEAP_DELETE(allocator, n_values, r.resident);
    return status;
}

/* ---- Time ---- */

typedef struct copy_state {
    int64_t end;     /* of the last copy, either way */
    int64_t arrival; /* of the last copy to the device */
} copy_state;

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/*
 * The duration of step i and the moment before which it cannot begin, the compute stream's clock
 * apart; `engine` is the one it runs on, NULL for the compute stream.
 */
static int64_t duration(const builder *b, const neap_step *s, const copy_state *copies,
                        int64_t *earliest)
{
    *earliest = 0;
    if (s->kind == NEAP_COMPUTE) {
        const neap_op *op = neap_graph_op(b->graph, s->id);
        for (uint32_t i = 0; i < op->n_inputs; i++)
            *earliest = later(*earliest, copies[op->inputs[i]].arrival);
        return op->variants[s->variant].ticks;
    }
    *earliest = copies[s->id].end;
    if (s->kind == NEAP_FREE)
        return 0;
    uint32_t storage = neap_graph_value(b->graph, s->id)->storage;
    return neap_link_ticks(b->link, b->graph, s->kind == NEAP_OFFLOAD,
                           neap_graph_value(b->graph, storage)->bytes);
}

static neap_status trace_time(neap_allocator *allocator, const builder *b, neap_timeline *t)
{
    uint32_t n_values = neap_graph_value_count(b->graph);
    copy_state *copies = NULL;
    neap_status status = NEAP_NEW(allocator, n_values, &copies, b->diag);
    int64_t clock = 0, engine[2] = {0, 0};
    for (size_t i = 0; i < b->n_steps && status == NEAP_OK; i++) {
        const neap_step *s = &b->steps[i];
        neap_timeline_step *out = &b->out[i];
        int64_t earliest, ticks = duration(b, s, copies, &earliest);
        if (s->kind == NEAP_COMPUTE || s->kind == NEAP_FREE) {
            /* A free lasts as long as it waits; a computation's wait comes before it begins. */
            int64_t start = later(clock, earliest);
            t->idle_ticks += start - clock;
            out->begin = s->kind == NEAP_FREE ? clock : start;
            if (!neap_add_i64(start, ticks, &out->end)) {
                status = fail_step(b, i, "the time passes 2^63 ticks");
                break;
            }
            t->compute_ticks += ticks;
            clock = out->end;
        } else {
            int64_t *free_at = &engine[b->link->duplex && s->kind == NEAP_PREFETCH];
            out->begin = later(later(clock, *free_at), earliest);
            if (ticks == INT64_MAX || !neap_add_i64(out->begin, ticks, &out->end)) {
                status = fail_step(b, i, "the link has no bandwidth that way, or takes 2^63 ticks");
                break;
            }
            *free_at = copies[s->id].end = out->end;
            if (s->kind == NEAP_PREFETCH)
                copies[s->id].arrival = out->end;
            *(s->kind == NEAP_OFFLOAD ? &t->out_ticks : &t->in_ticks) += ticks;
        }
        t->makespan_ticks = later(t->makespan_ticks, out->end);
    }
    NEAP_DELETE(allocator, n_values, copies);
    return status;
}

/* ---- Both ---- */

static void find_peak(neap_timeline *t, int64_t base)
{
    t->peak_bytes = base;
    for (size_t i = 0; i < t->n_steps; i++)
        if (t->steps[i].live_bytes > t->peak_bytes) {
            t->peak_bytes = t->steps[i].live_bytes;
            t->peak_step = i;
        }
}

neap_status neap_timeline_build(neap_allocator *allocator, const neap_graph *graph,
                                const neap_plan *plan, const neap_link *link,
                                neap_timeline *timeline, neap_diag *diag)
{
    builder b = {.graph = graph,
                 .steps = neap_plan_steps(plan),
                 .n_steps = neap_plan_step_count(plan),
                 .link = link,
                 .diag = diag};
    memset(timeline, 0, sizeof *timeline);
    allocator = neap_allocator_or_system(allocator);
    neap_status status = NEAP_NEW(allocator, b.n_steps, &b.out, diag);
    timeline->allocator = allocator;
    timeline->n_steps = b.n_steps;
    timeline->steps = b.out;
    if (status == NEAP_OK)
        status = trace_memory(allocator, &b);
    if (status == NEAP_OK)
        status = trace_time(allocator, &b, timeline);
    if (status == NEAP_OK)
        find_peak(timeline, neap_graph_base_bytes(graph));
    else
        neap_timeline_clear(timeline);
    return status;
}

void neap_timeline_clear(neap_timeline *timeline)
{
    /* The steps are const to readers only. */
    neap_release(timeline->allocator, (void *)(uintptr_t)timeline->steps,
                 timeline->n_steps * sizeof *timeline->steps);
    memset(timeline, 0, sizeof *timeline);
}
