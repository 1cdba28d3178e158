#include "planners/checkmate/paper_batch.h"

#include "base/fail.h"
#include "base/memory.h"

#include <math.h>

typedef struct search {
    const planner *p;
    paper_options options;
    paper_model model;
    int64_t room; /* of the budget, beside what does not grow */
    paper_batch *answer;
    draft *d;
    neap_status status; /* of what callbacks did */
    neap_diag *diag;
} search;

/* (10): one run of every op, and the forward ops once more. */
static int64_t ticks_limit(const neap_graph *graph)
{
    int64_t ticks = neap_graph_base_ticks(graph); /* sums cannot overflow: the graph is valid */
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        const neap_op *op = neap_graph_op(graph, o);
        if (op->pass == NEAP_FORWARD)
            ticks += op->variants[0].ticks;
    }
    return ticks;
}

/* (11) */
static int64_t batch_of(const search *s, double bytes)
{
    double batch = floor((double)s->room / bytes);
    return s->room <= 0 ? 0 : batch < 9e18 ? (int64_t)batch : INT64_MAX;
}

/* ---- Plans ---- */

/* The peak of what grows with the batch. `resident` counts the values on each storage. */
static int64_t growing_peak(const search *s, const neap_plan *plan, uint32_t *resident)
{
    const paper_graph *g = &s->model.nodes;
    int64_t live = g->base, peak = live;
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        neap_step step = neap_plan_steps(plan)[i];
        if (step.kind == NEAP_FREE) {
            uint32_t storage = neap_graph_value(g->graph, step.id)->storage;
            live -= --resident[storage] == 0 ? g->bytes[storage] : 0;
            continue;
        }
        const neap_op *op = neap_graph_op(g->graph, step.id);
        for (uint32_t o = 0; o < op->n_outputs; o++) {
            uint32_t storage = neap_graph_value(g->graph, op->outputs[o])->storage;
            live += resident[storage]++ == 0 ? g->bytes[storage] : 0;
        }
        int64_t now = live + op->variants[step.variant].workspace;
        peak = now > peak ? now : peak;
    }
    return peak;
}

/* Takes the plan if its peak is the least so far and (10) holds. */
static neap_status offer_plan(search *s, neap_plan **plan, neap_diag *diag)
{
    const planner *p = s->p;
    neap_timeline timeline = {0};
    uint32_t *resident, n_values = s->model.n_values;
    NEAP_TRY(NEAP_NEW(p->allocator, n_values, &resident, diag));
    int64_t bytes = growing_peak(s, *plan, resident);
    NEAP_DELETE(p->allocator, n_values, resident);
    NEAP_TRY(neap_timeline_build(p->allocator, p->graph, *plan, NULL, &timeline, diag));
    bool least = s->answer->bytes < 0 || bytes < s->answer->bytes;
    if (least && timeline.makespan_ticks <= s->options.most_ticks) {
        neap_plan_destroy(s->d->plan);
        s->d->plan = *plan;
        *plan = NULL;
        s->d->predicted_peak = timeline.peak_bytes;
        s->d->predicted_ticks = timeline.makespan_ticks;
        s->answer->bytes = bytes;
        s->answer->batch = bytes > 0 ? batch_of(s, (double)bytes) : INT64_MAX;
    }
    neap_timeline_clear(&timeline);
    return NEAP_OK;
}

static neap_status offer_sequence(search *s, const uint32_t *sequence, size_t length,
                                  const uint32_t *variants, neap_diag *diag)
{
    const planner *p = s->p;
    neap_plan *plan = NULL;
    NEAP_TRY(neap_plan_from_sequence(p->allocator, p->graph, sequence, length, variants,
                                     p->request->method, p->request->budget, &plan, diag));
    neap_status status = offer_plan(s, &plan, diag);
    neap_plan_destroy(plan);
    return status;
}

/* The plan of a solution; without one the natural order, with which every search can begin. */
static neap_status offer(search *s, const double *values, neap_diag *diag)
{
    const planner *p = s->p;
    const paper_model *m = &s->model;
    uint32_t *sequence = NULL, *variants = NULL;
    int64_t ticks;
    size_t length = values ? neap_paper_model_sequence(m, values, NULL, &ticks) : m->n;
    neap_status status = NEAP_NEW(p->allocator, length, &sequence, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(p->allocator, m->n, &variants, diag);
    if (status == NEAP_OK) {
        for (uint32_t k = 0; k < m->n; k++)
            variants[k] = values ? neap_paper_model_variant(m, values, k) : 0;
        if (values)
            neap_paper_model_sequence(m, values, sequence, &ticks);
        for (uint32_t k = 0; !values && k < m->n; k++)
            sequence[k] = k;
        status = offer_sequence(s, sequence, length, variants, diag);
    }
    NEAP_DELETE(p->allocator, m->n, variants);
    NEAP_DELETE(p->allocator, length, sequence);
    return status;
}

/* ---- HiGHS ---- */

/* No larger batch is left to be found. */
static bool is_proven(const search *s)
{
    return s->answer->bytes >= 0 && s->answer->batch >= s->answer->batch_bound;
}

static bool stop(void *context)
{
    const search *s = context;
    return s->status != NEAP_OK || is_proven(s) || neap_planner_stopped(s->p);
}

static bool is_over(void *context)
{
    const search *s = context;
    return neap_planner_stopped(s->p);
}

static void note_bound(search *s, double objective)
{
    double bytes = (objective - 1e-6 * fabs(objective)) / s->model.bytes_scale;
    if (isfinite(objective) && bytes > s->answer->bytes_bound)
        s->answer->bytes_bound = bytes;
    if (s->answer->bytes_bound > 0)
        s->answer->batch_bound = batch_of(s, s->answer->bytes_bound);
}

static void show_progress(void *context, double best, double bound)
{
    search *s = context;
    (void)best;
    note_bound(s, bound);
    neap_planner_report_search(s->p, s->d->plan ? s->d->predicted_ticks : -1, -1);
}

static void take_found(void *context, const double *values)
{
    search *s = context;
    if (s->status == NEAP_OK)
        s->status = offer(s, values, s->diag);
}

static neap_status solve(search *s, neap_diag *diag)
{
    const planner *p = s->p;
    highs_watch watch = {s, stop, is_over, show_progress, take_found};
    highs_model *highs = NULL;
    highs_answer answer = {0};
    highs_settings settings = {.seed = p->request->seed, .absolute_gap = 1e-6};
    s->answer->too_large = !neap_paper_time_for(p, s->options.partitioned, true, &settings.seconds);
    if (s->answer->too_large)
        return NEAP_OK;
    neap_status status =
        neap_highs_model_create(p->allocator, &s->model.lp, true, &watch, &highs, diag);
    if (status == NEAP_OK)
        status = neap_highs_model_solve(highs, &settings, &answer, diag);
    if (status == NEAP_OK)
        status = s->status;
    if (status == NEAP_OK) {
        note_bound(s, answer.bound);
        if (answer.outcome == HIGHS_SOLVED)
            status = offer(s, neap_highs_model_values(highs), diag);
        s->answer->outcome = is_proven(s) ? HIGHS_SOLVED : answer.outcome;
    }
    neap_highs_model_destroy(highs);
    return status;
}

neap_status neap_paper_batch_solve(const planner *p, bool partitioned, paper_batch *answer,
                                   draft *d, neap_diag *diag)
{
    search s = {.p = p,
                .options = {.partitioned = partitioned,
                            .by_batch = true,
                            .most_ticks = ticks_limit(p->graph)},
                .answer = answer,
                .d = d,
                .diag = diag};
    *answer = (paper_batch){.outcome = HIGHS_STOPPED, .bytes = -1, .batch_bound = INT64_MAX};
    neap_status status = neap_paper_model_build(&s.model, p->allocator, p->graph, &s.options, diag);
    if (status == NEAP_OK) {
        answer->columns = s.model.lp.n_columns;
        answer->rows = s.model.lp.n_rows;
        answer->bytes_bound = (double)s.model.nodes.floor;
        s.room = p->budget - s.model.nodes.fixed;
        note_bound(&s, 0);
        status = offer(&s, NULL, diag);
    }
    if (status == NEAP_OK && is_proven(&s))
        answer->outcome = HIGHS_SOLVED;
    else if (status == NEAP_OK)
        status = solve(&s, diag);
    neap_paper_model_clear(&s.model);
    return status;
}
