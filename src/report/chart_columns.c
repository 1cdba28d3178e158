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

typedef struct painter {
    neap_chart_columns *columns;
    int shift; /* times that ticks are halved, to avoid overflow of their product with the count */
    int64_t length; /* of the whole, after halving */
    int64_t clock;  /* time of the compute stream */
    int64_t level;  /* bytes in use after the last step */
    bool *computed; /* per op: ran before */
} painter;

/* Applies an interval to a column that it touches; `share` is the length of their overlap. */
typedef void touch(neap_chart_column *column, int64_t share, int64_t argument);

/* A tick on the scale, clamped to the chart. */
static int64_t scaled(const painter *p, int64_t tick)
{
    int64_t t = tick >> p->shift;
    return (t < 0 ? 0 : t > p->length ? p->length : t) * (int64_t)p->columns->count;
}

/* Calls `action` for each column that [begin, end) touches. An empty interval touches one. */
static void paint(painter *p, int64_t begin, int64_t end, touch *action, int64_t argument)
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

static void touch_bytes(neap_chart_column *column, int64_t share, int64_t bytes)
{
    (void)share;
    if (bytes > column->bytes)
        column->bytes = bytes;
}

static void touch_share(neap_chart_column *column, int64_t share, int64_t what)
{
    column->share[what] += share;
}

static void touch_copy(neap_chart_column *column, int64_t share, int64_t out)
{
    (void)share;
    if (out)
        column->copies_out = true;
    else
        column->copies_in = true;
}

/* The stream waits until `until`: memory stays as the last step left it. */
static void wait_until(painter *p, int64_t until)
{
    if (until <= p->clock)
        return;
    paint(p, p->clock, until, touch_bytes, p->level);
    paint(p, p->clock, until, touch_share, NEAP_DOES_WAIT);
    p->clock = until;
}

static void paint_compute(painter *p, const neap_graph *graph, uint32_t op, int64_t begin,
                          int64_t end, int64_t bytes)
{
    int what = p->computed[op]                                   ? NEAP_DOES_AGAIN
               : neap_graph_op(graph, op)->pass == NEAP_BACKWARD ? NEAP_DOES_BACKWARD
                                                                 : NEAP_DOES_FORWARD;
    p->computed[op] = true;
    wait_until(p, begin);
    paint(p, begin, end, touch_bytes, bytes);
    paint(p, begin, end, touch_share, what);
    p->columns->again += what == NEAP_DOES_AGAIN ? end - begin : 0;
    p->clock = end;
}

static void paint_step(painter *p, const neap_graph *graph, neap_step step,
                       const neap_timeline_step *times)
{
    switch (step.kind) {
    case NEAP_COMPUTE:
        paint_compute(p, graph, step.id, times->begin, times->end, times->live_bytes);
        break;
    case NEAP_FREE: /* takes time only if it waits for a copy */
        wait_until(p, times->end);
        break;
    case NEAP_OFFLOAD:
    case NEAP_PREFETCH:
        p->columns->copies = true;
        paint(p, p->clock, p->clock, touch_bytes, times->live_bytes);
        paint(p, times->begin, times->end, touch_copy, step.kind == NEAP_OFFLOAD);
        break;
    }
    p->level = times->after_bytes;
}

/* The columns of a plan that takes no time: step i spans i to i + 1. */
static void paint_step_by_index(painter *p, const neap_graph *graph, neap_step step,
                                const neap_timeline_step *times, int64_t index)
{
    int64_t begin = index, end = index + 1;
    p->clock = begin;
    if (step.kind == NEAP_COMPUTE) {
        paint_compute(p, graph, step.id, begin, end, times->live_bytes);
        return;
    }
    paint(p, begin, end, touch_bytes, times->live_bytes);
    if (step.kind == NEAP_FREE)
        return;
    p->columns->copies = true;
    paint(p, begin, end, touch_copy, step.kind == NEAP_OFFLOAD);
}

static neap_status check_belong(const neap_graph *graph, const neap_plan *plan,
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

static void paint_all(painter *p, const neap_graph *graph, const neap_plan *plan,
                      const neap_timeline *timeline)
{
    const neap_step *steps = neap_plan_steps(plan);
    p->level = neap_graph_base_bytes(graph);
    if (timeline->n_steps == 0)
        paint(p, 0, p->columns->length, touch_bytes, p->level);
    for (size_t i = 0; i < timeline->n_steps; i++)
        if (p->columns->by_step)
            paint_step_by_index(p, graph, steps[i], &timeline->steps[i], (int64_t)i);
        else
            paint_step(p, graph, steps[i], &timeline->steps[i]);
    if (!p->columns->by_step)
        wait_until(p, timeline->makespan_ticks);
}

neap_status neap_chart_columns_build(neap_allocator *allocator, const neap_graph *graph,
                                     const neap_plan *plan, const neap_timeline *timeline,
                                     size_t count, neap_chart_columns *columns, neap_diag *diag)
{
    *columns = (neap_chart_columns){.allocator = allocator, .count = count};
    neap_status status = check_belong(graph, plan, timeline, diag);
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
        paint_all(&p, graph, plan, timeline);
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
