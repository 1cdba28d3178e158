/*
 * The time at which each step happens. The compute stream determines the time: the memory of a step
 * lasts while the stream works or waits at that step. Transfers run in parallel and only mark the
 * columns.
 *
 * Time is scaled so that the length of a column is an integer: with `count` columns over a length
 * of L ticks, tick t is at t * count and column c spans c * L to (c + 1) * L. All sums are then
 * exact.
 */
#include "report/chart_columns.h"

#include "base/fail.h"
#include "base/memory.h"
#include "plan/residency.h"

#include <string.h>

/* Bytes in use at one time, by class. */
typedef struct memory_state {
    int64_t bytes;
    int64_t parts[NEAP_MEMORY_CLASSES];
} memory_state;

typedef struct painter {
    neap_chart_columns *columns;
    int shift; /* times that ticks are halved, to avoid overflow of their product with the count */
    int64_t length; /* of the whole, after halving */
    int64_t clock;  /* time of the compute stream */
    neap_residency residency;
    memory_state after;  /* the last step */
    memory_state during; /* the step that is painted */
    bool *computed;      /* per op: ran before */
} painter;

/* Applies an interval to a column that it touches; `share` is the length of their overlap. */
typedef void touch(neap_chart_column *column, int64_t share, const void *argument);

/* ---- Memory by class ---- */

static void add_storage(painter *p, uint32_t storage, int64_t sign)
{
    const neap_graph *graph = p->residency.graph;
    int64_t bytes = sign * neap_graph_value(graph, storage)->bytes;
    p->after.parts[neap_memory_class_of(graph, storage)] += bytes;
    p->after.bytes += bytes;
}

static void begin_memory(painter *p)
{
    p->after = (memory_state){.bytes = neap_graph_fixed_bytes(p->residency.graph)};
    p->after.parts[NEAP_MEMORY_OTHER] = p->after.bytes;
    for (uint32_t i = 0; i < p->residency.n_began; i++)
        add_storage(p, p->residency.began[i], 1);
}

/* Takes a step: what is in memory during it, and after it. */
static neap_status take_step(painter *p, const neap_step *step, size_t index)
{
    neap_residency *r = &p->residency;
    p->during = p->after;
    NEAP_TRY(neap_residency_step(r, step, index));
    for (uint32_t i = 0; i < r->n_began; i++)
        add_storage(p, r->began[i], 1);
    if (r->ended != NEAP_NONE)
        add_storage(p, r->ended, -1);
    if (r->passed_on != NEAP_NONE) {
        add_storage(p, r->passed_on, -1);
        add_storage(p, neap_graph_op(r->graph, step->id)->in_place_output, 1);
    }
    if (step->kind != NEAP_FREE)
        p->during = p->after;
    if (step->kind == NEAP_COMPUTE) {
        int64_t bytes = neap_graph_op(r->graph, step->id)->variants[step->variant].workspace;
        p->during.parts[NEAP_MEMORY_WORKSPACE] += bytes;
        p->during.bytes += bytes;
    }
    return NEAP_OK;
}

/* ---- Time ---- */

/* A tick on the scale, clamped to the chart. */
static int64_t scaled(const painter *p, int64_t tick)
{
    int64_t t = tick >> p->shift;
    return (t < 0 ? 0 : t > p->length ? p->length : t) * (int64_t)p->columns->count;
}

/* Calls `action` for each column that [begin, end) touches. An empty interval touches one. */
static void paint(painter *p, int64_t begin, int64_t end, touch *action, const void *argument)
{
    int64_t count = (int64_t)p->columns->count;
    int64_t from = scaled(p, begin), to = scaled(p, end);
    int64_t first = from / p->length;
    if (first >= count)
        first = count - 1;
    for (int64_t c = first; c == first || (c < count && c * p->length < to); c++) {
        int64_t left = c * p->length, right = left + p->length;
        int64_t share = (to < right ? to : right) - (from > left ? from : left);
        action(&p->columns->items[c], share > 0 ? share : 0, argument);
    }
}

/* A column shows the time at which most is in use. */
static void touch_memory(neap_chart_column *column, int64_t share, const void *argument)
{
    const memory_state *memory = argument;
    (void)share;
    if (memory->bytes <= column->bytes)
        return;
    column->bytes = memory->bytes;
    memcpy(column->parts, memory->parts, sizeof column->parts);
}

static void touch_share(neap_chart_column *column, int64_t share, const void *what)
{
    column->share[*(const int *)what] += share;
}

static void touch_copy(neap_chart_column *column, int64_t share, const void *argument)
{
    const neap_step *step = argument;
    (void)share;
    if (step->kind == NEAP_OFFLOAD)
        column->copies_out = true;
    else
        column->copies_in = true;
}

/* The stream waits until `until`: memory stays as `memory` says. */
static void wait_until(painter *p, int64_t until, const memory_state *memory)
{
    if (until <= p->clock)
        return;
    paint(p, p->clock, until, touch_memory, memory);
    paint(p, p->clock, until, touch_share, &(int){NEAP_DOES_WAIT});
    p->clock = until;
}

static void paint_compute(painter *p, uint32_t op, int64_t begin, int64_t end)
{
    const neap_graph *graph = p->residency.graph;
    int what = p->computed[op]                                   ? NEAP_DOES_AGAIN
               : neap_graph_op(graph, op)->pass == NEAP_BACKWARD ? NEAP_DOES_BACKWARD
                                                                 : NEAP_DOES_FORWARD;
    p->computed[op] = true;
    paint(p, begin, end, touch_memory, &p->during);
    paint(p, begin, end, touch_share, &what);
    p->columns->again += what == NEAP_DOES_AGAIN ? end - begin : 0;
    p->clock = end;
}

/* `before` is what is in memory before the step, while the stream waits for it. */
static void paint_step(painter *p, neap_step step, const neap_timeline_step *times,
                       const memory_state *before)
{
    switch (step.kind) {
    case NEAP_COMPUTE:
        wait_until(p, times->begin, before);
        paint_compute(p, step.id, times->begin, times->end);
        break;
    case NEAP_FREE: /* takes time only if it waits for a copy */
        wait_until(p, times->end, before);
        break;
    case NEAP_OFFLOAD:
    case NEAP_PREFETCH:
        p->columns->copies = true;
        paint(p, p->clock, p->clock, touch_memory, &p->during);
        paint(p, times->begin, times->end, touch_copy, &step);
        break;
    }
}

/* The columns of a plan that takes no time: step i spans i to i + 1. */
static void paint_step_by_index(painter *p, neap_step step, int64_t index)
{
    int64_t begin = index, end = index + 1;
    p->clock = begin;
    if (step.kind == NEAP_COMPUTE) {
        paint_compute(p, step.id, begin, end);
        return;
    }
    paint(p, begin, end, touch_memory, &p->during);
    if (step.kind == NEAP_FREE)
        return;
    p->columns->copies = true;
    paint(p, begin, end, touch_copy, &step);
}

neap_status neap_report_check_timeline(const neap_graph *graph, const neap_plan *plan,
                                       const neap_timeline *timeline, neap_diag *diag)
{
    size_t n_steps = neap_plan_step_count(plan);
    if (timeline->n_steps != n_steps)
        return neap_fail(diag, NEAP_INVALID, "the timeline has %zu steps, but the plan has %zu",
                         timeline->n_steps, n_steps);
    const neap_step *steps = neap_plan_steps(plan);
    for (size_t i = 0; i < n_steps; i++)
        if (steps[i].kind == NEAP_COMPUTE && steps[i].id >= neap_graph_op_count(graph))
            return neap_fail(diag, NEAP_INVALID,
                             "step %zu computes op %lu, but the graph has %lu ops", i,
                             (unsigned long)steps[i].id, (unsigned long)neap_graph_op_count(graph));
    return NEAP_OK;
}

static neap_status paint_all(painter *p, const neap_plan *plan, const neap_timeline *timeline)
{
    const neap_step *steps = neap_plan_steps(plan);
    begin_memory(p);
    if (timeline->n_steps == 0)
        paint(p, 0, p->columns->length, touch_memory, &p->after);
    for (size_t i = 0; i < timeline->n_steps; i++) {
        memory_state before = p->after;
        NEAP_TRY(take_step(p, &steps[i], i));
        if (p->columns->by_step)
            paint_step_by_index(p, steps[i], (int64_t)i);
        else
            paint_step(p, steps[i], &timeline->steps[i], &before);
    }
    if (!p->columns->by_step)
        wait_until(p, timeline->makespan_ticks, &p->after);
    return NEAP_OK;
}

neap_status neap_chart_columns_build(neap_allocator *allocator, const neap_graph *graph,
                                     const neap_plan *plan, const neap_timeline *timeline,
                                     size_t count, neap_chart_columns *columns, neap_diag *diag)
{
    *columns = (neap_chart_columns){.allocator = allocator, .count = count};
    neap_status status = neap_report_check_timeline(graph, plan, timeline, diag);
    if (status != NEAP_OK)
        return status;
    columns->by_step = timeline->makespan_ticks <= 0;
    columns->length = columns->by_step ? (int64_t)timeline->n_steps : timeline->makespan_ticks;
    if (columns->length == 0)
        columns->length = 1;
    painter p = {.columns = columns, .length = columns->length};
    while (p.length > INT64_MAX / 2 / (int64_t)count) {
        p.length >>= 1;
        p.shift++;
    }
    uint32_t n_ops = neap_graph_op_count(graph);
    status = NEAP_NEW(allocator, count, &columns->items, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_ops, &p.computed, diag);
    if (status == NEAP_OK)
        status = neap_residency_init(&p.residency, allocator, graph, plan, "", diag);
    if (status == NEAP_OK)
        status = paint_all(&p, plan, timeline);
    neap_residency_clear(&p.residency);
    NEAP_DELETE(allocator, n_ops, p.computed);
    if (status != NEAP_OK)
        neap_chart_columns_clear(columns);
    return status;
}

void neap_chart_columns_clear(neap_chart_columns *columns)
{
    NEAP_DELETE(columns->allocator, columns->count, columns->items);
    columns->items = NULL;
}
