/*
 * The timeline of a plan: what each step holds in memory, and when it begins and ends
 * (docs/memory-model.md).
 *
 * Two passes. The first follows residency (residency.h), and says which step cannot be run; the
 * second, which may then rely on it, follows time. Both are O(1) a step and for each input and
 * output of a computation. The judge (src/check) computes the same figures by its own means, and
 * tests compare the two.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"
#include "plan/residency.h"

#include <neap/plan.h>

#include <string.h>

typedef struct builder {
    const neap_graph *graph;
    const neap_step *steps;
    size_t n_steps;
    const neap_link *link; /* NULL: none */
    neap_timeline_step *out;
} builder;

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- Memory ---- */

static neap_status trace_memory(const builder *b, neap_residency *r)
{
    for (size_t i = 0; i < b->n_steps; i++) {
        const neap_step *s = &b->steps[i];
        int64_t before = r->bytes, workspace = 0;
        NEAP_TRY(neap_residency_step(r, s, i));
        if ((s->kind == NEAP_OFFLOAD || s->kind == NEAP_PREFETCH) && !b->link)
            return neap_residency_fail(r, s, i, "there is no link to the host");
        if (s->kind == NEAP_COMPUTE)
            workspace = neap_graph_op(b->graph, s->id)->variants[s->variant].workspace;
        b->out[i].live_bytes = most(before, r->bytes) + workspace;
        b->out[i].after_bytes = r->bytes;
    }
    return NEAP_OK;
}

/* ---- Time ---- */

typedef struct copy_state {
    int64_t end;     /* of the last copy, either way */
    int64_t arrival; /* of the last copy to the device */
} copy_state;

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
            *earliest = most(*earliest, copies[op->inputs[i]].arrival);
        for (uint32_t i = 0; i < op->n_updates; i++)
            *earliest = most(*earliest, copies[op->updates[i]].end);
        if (s->in_place)
            *earliest = most(*earliest, copies[op->in_place_input].end);
        return op->variants[s->variant].ticks;
    }
    *earliest = copies[s->id].end;
    if (s->kind == NEAP_FREE)
        return 0;
    uint32_t storage = neap_graph_value(b->graph, s->id)->storage;
    return neap_link_ticks(b->link, b->graph, s->kind == NEAP_OFFLOAD,
                           neap_graph_value(b->graph, storage)->bytes);
}

static neap_status trace_time(const builder *b, neap_residency *r, neap_timeline *t)
{
    copy_state *copies;
    int64_t clock = 0, engine[2] = {0, 0};
    if (!NEAP_TAKE(&r->arena, neap_graph_value_count(b->graph), copies))
        return neap_fail_no_memory(r->diag);
    for (size_t i = 0; i < b->n_steps; i++) {
        const neap_step *s = &b->steps[i];
        neap_timeline_step *out = &b->out[i];
        int64_t earliest, ticks = duration(b, s, copies, &earliest);
        if (s->kind == NEAP_COMPUTE || s->kind == NEAP_FREE) {
            /* A free lasts as long as it waits; a computation's wait comes before it begins. */
            int64_t start = most(clock, earliest);
            t->idle_ticks += start - clock;
            out->begin = s->kind == NEAP_FREE ? clock : start;
            if (!neap_add_i64(start, ticks, &out->end))
                return neap_residency_fail(r, s, i, "the time passes 2^63 ticks");
            t->compute_ticks += ticks;
            clock = out->end;
        } else {
            int64_t *free_at = &engine[b->link->duplex && s->kind == NEAP_PREFETCH];
            out->begin = most(most(clock, *free_at), earliest);
            if (ticks == INT64_MAX || !neap_add_i64(out->begin, ticks, &out->end))
                return neap_residency_fail(
                    r, s, i, "the link has no bandwidth that way, or takes 2^63 ticks");
            *free_at = copies[s->id].end = out->end;
            if (s->kind == NEAP_PREFETCH)
                copies[s->id].arrival = out->end;
            *(s->kind == NEAP_OFFLOAD ? &t->out_ticks : &t->in_ticks) += ticks;
        }
        t->makespan_ticks = most(t->makespan_ticks, out->end);
    }
    return NEAP_OK;
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
                 .link = link};
    neap_residency r = {0};
    memset(timeline, 0, sizeof *timeline);
    allocator = neap_allocator_or_system(allocator);
    neap_status status = NEAP_NEW(allocator, b.n_steps, &b.out, diag);
    timeline->allocator = allocator;
    timeline->n_steps = b.n_steps;
    timeline->steps = b.out;
    if (status == NEAP_OK)
        status = neap_residency_init(&r, allocator, graph, plan, "", diag);
    int64_t base = r.bytes;
    if (status == NEAP_OK)
        status = trace_memory(&b, &r);
    if (status == NEAP_OK)
        status = trace_time(&b, &r, timeline);
    neap_residency_clear(&r);
    if (status == NEAP_OK)
        find_peak(timeline, base);
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
