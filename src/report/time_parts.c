/*
 * neap/report.h: where the time of a step goes, planned and measured.
 *
 * Copies are sorted by their beginnings and merged into stretches in which something is copied;
 * computations, which do not overlap each other, are then compared with these in one pass.
 * O(n log n) for n copies, as two engines take turns in the plan's order.
 */
#include "base/fail.h"
#include "base/memory.h"

#include <neap/report.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_begin(const void *a, const void *b)
{
    double x = ((const neap_step_time *)a)->begin, y = ((const neap_step_time *)b)->begin;
    return (x > y) - (x < y);
}

static bool is_copy(const neap_step *step)
{
    return step->kind == NEAP_OFFLOAD || step->kind == NEAP_PREFETCH;
}

/* Puts the stretches in which something is copied into `stretches`, one after the other. */
static size_t merge_copies(const neap_step *steps, size_t n_steps, const neap_step_time *measured,
                           neap_step_time *stretches)
{
    size_t count = 0, merged = 0;
    for (size_t i = 0; i < n_steps; i++)
        if (is_copy(&steps[i]))
            stretches[count++] = measured[i];
    qsort(stretches, count, sizeof *stretches, by_begin);
    for (size_t i = 0; i < count; i++)
        if (merged > 0 && stretches[i].begin <= stretches[merged - 1].end)
            stretches[merged - 1].end = fmax(stretches[merged - 1].end, stretches[i].end);
        else
            stretches[merged++] = stretches[i];
    return merged;
}

/* The seconds of a computation in which something is copied. *first: the first stretch that does
   not end before it; computations come in order. */
static double overlap(const neap_step_time *time, const neap_step_time *stretches, size_t count,
                      size_t *first)
{
    double seconds = 0;
    while (*first < count && stretches[*first].end <= time->begin)
        ++*first;
    for (size_t k = *first; k < count && stretches[k].begin < time->end; k++)
        seconds += fmin(time->end, stretches[k].end) - fmax(time->begin, stretches[k].begin);
    return seconds;
}

static void add(neap_time_pair *pair, neap_step_time planned, neap_step_time measured)
{
    pair->planned += planned.end - planned.begin;
    pair->measured += measured.end - measured.begin;
}

static neap_step_time planned_time(const neap_graph *graph, const neap_timeline_step *step)
{
    return (neap_step_time){neap_graph_seconds(graph, step->begin),
                            neap_graph_seconds(graph, step->end)};
}

static void add_copy(const neap_graph *graph, const neap_step *step, neap_step_time planned,
                     neap_step_time measured, neap_time_parts *parts)
{
    bool out = step->kind == NEAP_OFFLOAD;
    uint32_t storage = neap_graph_value(graph, step->id)->storage;
    *(out ? &parts->out_bytes : &parts->in_bytes) += neap_graph_value(graph, storage)->bytes;
    add(out ? &parts->out : &parts->in, planned, measured);
}

static double rest(double all, double alone, double beside)
{
    return fmax(0, all - alone - beside);
}

neap_status neap_report_time_parts(neap_allocator *allocator, const neap_graph *graph,
                                   const neap_plan *plan, const neap_timeline *timeline,
                                   const neap_step_time *measured, neap_time_parts *parts,
                                   neap_diag *diag)
{
    const neap_step *steps = neap_plan_steps(plan);
    size_t n_steps = neap_plan_step_count(plan), first = 0;
    neap_step_time *stretches;
    memset(parts, 0, sizeof *parts);
    if (timeline->n_steps != n_steps)
        return neap_fail(diag, NEAP_INVALID, "the timeline is that of another plan");
    allocator = neap_allocator_or_system(allocator);
    neap_status status = NEAP_NEW(allocator, n_steps, &stretches, diag);
    if (status != NEAP_OK)
        return status;
    size_t count = merge_copies(steps, n_steps, measured, stretches);
    for (size_t i = 0; i < n_steps; i++) {
        neap_step_time planned = planned_time(graph, &timeline->steps[i]), real = measured[i];
        parts->step.planned = fmax(parts->step.planned, planned.end);
        parts->step.measured = fmax(parts->step.measured, real.end);
        if (is_copy(&steps[i]))
            add_copy(graph, &steps[i], planned, real, parts);
        else if (steps[i].kind == NEAP_COMPUTE)
            add(2 * overlap(&real, stretches, count, &first) >= real.end - real.begin && count > 0
                    ? &parts->beside
                    : &parts->alone,
                planned, real);
    }
    parts->idle.planned = rest(parts->step.planned, parts->alone.planned, parts->beside.planned);
    parts->idle.measured =
        rest(parts->step.measured, parts->alone.measured, parts->beside.measured);
    NEAP_DELETE(allocator, n_steps, stretches);
    return NEAP_OK;
}
