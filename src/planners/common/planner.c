/* From a compute sequence to a draft: frees, kernel variants, prediction. */
#include "planners/common/planner.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/progress.h"
#include "plan/in_place.h"
#include "plan/plan_internal.h"
#include "planners/common/late_updates.h"

#include <math.h>
#include <string.h>

static void send(const planner *p, const char *phase, double fraction, double best_time,
                 double bound_time)
{
    neap_progress *progress = p->request->progress;
    const neap_progress_event event = {.phase = phase,
                                       .fraction = fraction,
                                       .seconds = neap_clock_seconds() - p->started,
                                       .best_time = best_time,
                                       .bound_time = bound_time};
    if (progress && progress->report)
        progress->report(progress, &event);
}

void neap_planner_report_phase(const planner *p, const char *phase)
{
    send(p, phase, -1, -1, -1);
}

static void report(const planner *p, double fraction, double best_time, double bound_time)
{
    double now = neap_clock_seconds();
    if (!p->request->progress || now - *p->reported < 0.1)
        return;
    *p->reported = now;
    send(p, "planning", fraction, best_time, bound_time);
}

void neap_planner_report(const planner *p, double fraction)
{
    report(p, fraction, -1, -1);
}

void neap_planner_report_search(const planner *p, int64_t best_ticks, int64_t bound_ticks)
{
    report(p, -1, best_ticks < 0 ? -1 : neap_graph_seconds(p->graph, best_ticks),
           bound_ticks < 0 ? -1 : neap_graph_seconds(p->graph, bound_ticks));
}

bool neap_planner_stopped(const planner *p)
{
    double limit = p->request->time_limit;
    return neap_progress_is_cancelled(p->request->progress) ||
           (limit > 0 && neap_clock_seconds() - p->started > limit);
}

int64_t neap_planner_target_ticks(const planner *p)
{
    double ticks = p->request->target_time * (double)neap_graph_ticks_per_second(p->graph);
    return p->request->target_time > 0 && ticks < 9e18 ? (int64_t)llround(ticks) : INT64_MAX;
}

double neap_planner_seconds_left(const planner *p)
{
    double limit = p->request->time_limit, left = limit - (neap_clock_seconds() - p->started);
    return limit <= 0 ? 0 : left > 0.01 ? left : 0.01;
}

bool neap_request_moves_state(const neap_request *request)
{
    return request->link.out_bandwidth > 0 && request->link.in_bandwidth > 0 &&
           request->state != NEAP_STATE_DEVICE;
}

int64_t neap_request_live_floor(const neap_request *request, uint32_t *op)
{
    return neap_request_moves_state(request) ? neap_graph_travel_floor_bytes(request->graph, op)
                                             : neap_graph_floor_bytes(request->graph, op);
}

uint32_t neap_planner_choose_variant(const neap_op *op, int64_t room)
{
    uint32_t best = 0;
    for (uint32_t k = 1; k < op->n_variants; k++) {
        const neap_variant *a = &op->variants[k], *b = &op->variants[best];
        bool a_fits = a->workspace <= room, b_fits = b->workspace <= room;
        bool better =
            a_fits != b_fits ? a_fits
            : a_fits ? a->ticks < b->ticks || (a->ticks == b->ticks && a->workspace < b->workspace)
                     : a->workspace < b->workspace;
        if (better)
            best = k;
    }
    return best;
}

static bool has_variants(const neap_graph *graph)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (neap_graph_op(graph, o)->n_variants > 1)
            return true;
    return false;
}

/* Gives every op the fastest variant that fits at each of its executions. */
static neap_status choose_variants(const planner *p, neap_plan *plan, neap_diag *diag)
{
    const neap_graph *graph = p->graph;
    uint32_t n_ops = neap_graph_op_count(graph);
    neap_timeline timeline = {0};
    int64_t *room;
    neap_status status = NEAP_NEW(p->allocator, n_ops, &room, diag);
    if (status == NEAP_OK)
        status = neap_timeline_build(p->allocator, graph, plan, NULL, &timeline, diag);
    if (status != NEAP_OK)
        goto done;
    for (uint32_t o = 0; o < n_ops; o++)
        room[o] = INT64_MAX;
    for (size_t s = 0; s < plan->n_steps; s++) {
        const neap_step *step = &plan->steps[s];
        if (step->kind != NEAP_COMPUTE)
            continue;
        int64_t workspace = neap_graph_op(graph, step->id)->variants[step->variant].workspace;
        int64_t left = p->budget - (timeline.steps[s].live_bytes - workspace);
        if (left < room[step->id])
            room[step->id] = left;
    }
    for (size_t s = 0; s < plan->n_steps; s++)
        if (plan->steps[s].kind == NEAP_COMPUTE)
            plan->steps[s].variant = neap_planner_choose_variant(
                neap_graph_op(graph, plan->steps[s].id), room[plan->steps[s].id]);
done:
    neap_timeline_clear(&timeline);
    NEAP_DELETE(p->allocator, n_ops, room);
    return status;
}

static neap_status use_sequence(const planner *p, draft *d, const uint32_t *sequence, size_t length,
                                bool in_place, neap_diag *diag)
{
    neap_timeline timeline = {0};
    size_t n_in_place;
    uint32_t *moved;
    NEAP_TRY(NEAP_NEW(p->allocator, length, &moved, diag));
    neap_status status = neap_planner_delay_updates(p, sequence, length, moved, diag);
    if (status == NEAP_OK)
        status = neap_plan_from_sequence(p->allocator, p->graph, moved, length, NULL,
                                         p->request->method, p->request->budget, &d->plan, diag);
    NEAP_DELETE(p->allocator, length, moved);
    if (status == NEAP_OK && in_place)
        status = neap_plan_run_in_place(p->allocator, p->graph, d->plan, &n_in_place, diag);
    if (status == NEAP_OK && has_variants(p->graph))
        status = choose_variants(p, d->plan, diag);
    if (status == NEAP_OK)
        status = neap_timeline_build(p->allocator, p->graph, d->plan, NULL, &timeline, diag);
    if (status == NEAP_OK) {
        d->predicted_peak = timeline.peak_bytes;
        d->predicted_ticks = timeline.makespan_ticks;
    }
    neap_timeline_clear(&timeline);
    return status;
}

neap_status neap_planner_use_sequence(const planner *p, draft *d, const uint32_t *sequence,
                                      size_t length, neap_diag *diag)
{
    return use_sequence(p, d, sequence, length, false, diag);
}

neap_status neap_planner_use_sequence_in_place(const planner *p, draft *d, const uint32_t *sequence,
                                               size_t length, neap_diag *diag)
{
    return use_sequence(p, d, sequence, length, true, diag);
}

neap_status neap_planner_list_computes(const planner *p, const neap_plan *plan, uint32_t **sequence,
                                       size_t *length, size_t *capacity, neap_diag *diag)
{
    neap_status status = NEAP_RESERVE(p->allocator, plan->n_steps, sequence, capacity, diag);
    *length = 0;
    for (size_t s = 0; s < plan->n_steps && status == NEAP_OK; s++)
        if (plan->steps[s].kind == NEAP_COMPUTE)
            (*sequence)[(*length)++] = plan->steps[s].id;
    return status;
}

void neap_draft_take_plan(draft *d, draft *other, bool better)
{
    neap_plan_destroy(better ? d->plan : other->plan);
    if (better) {
        d->plan = other->plan;
        d->predicted_peak = other->predicted_peak;
        d->predicted_ticks = other->predicted_ticks;
    }
    other->plan = NULL;
}

static neap_status add_extra(const planner *p, draft *d, neap_extra extra, neap_diag *diag)
{
    NEAP_TRY(NEAP_RESERVE(p->allocator, d->n_extras + 1, &d->extras, &d->extra_capacity, diag));
    d->extras[d->n_extras++] = extra;
    return NEAP_OK;
}

neap_status neap_draft_add_number(const planner *p, draft *d, const char *name, double number,
                                  neap_diag *diag)
{
    return add_extra(p, d, (neap_extra){.name = name, .number = number}, diag);
}

neap_status neap_draft_add_bound(const planner *p, draft *d, const char *name, double number,
                                 neap_diag *diag)
{
    return add_extra(p, d, (neap_extra){.name = name, .is_bound = true, .number = number}, diag);
}

void neap_draft_take_bounds(draft *d, const draft *other)
{
    for (uint32_t i = 0; i < d->n_extras; i++)
        for (uint32_t k = 0; k < other->n_extras && d->extras[i].is_bound; k++)
            if (strcmp(d->extras[i].name, other->extras[k].name) == 0)
                d->extras[i].number = other->extras[k].number;
}

void neap_draft_drop_bounds(draft *d)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < d->n_extras; i++)
        if (!d->extras[i].is_bound)
            d->extras[kept++] = d->extras[i];
    d->n_extras = kept;
}

neap_status neap_draft_add_list(const planner *p, draft *d, const char *name, const int64_t *items,
                                size_t count, neap_diag *diag)
{
    neap_extra extra = {.name = name, .is_list = true, .n_items = count};
    extra.items = neap_arena_copy(&d->arena, items, count, sizeof *items);
    return extra.items ? add_extra(p, d, extra, diag) : neap_fail_no_memory(diag);
}
