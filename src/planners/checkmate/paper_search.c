#include "planners/checkmate/paper_search.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "planners/checkmate/relaxation.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* HiGHS looks at no clock in parts of its presolve, which take about a second for so many columns:
   that much of the time left is kept from it. */
enum { RELAXED_A_SECOND = 300000, INTEGER_A_SECOND = 60000 };

neap_status neap_paper_refuse_big(const planner *p, bool partitioned, double most_columns,
                                  neap_diag *diag)
{
    double columns = (double)neap_paper_model_columns(p->graph, partitioned);
    if (columns <= most_columns)
        return NEAP_OK;
    return neap_fail(diag, NEAP_UNSUPPORTED,
                     "%s has %" PRIu32 " ops: the printed program would have %.1f million columns, "
                     "too many for %s (most-columns=%.0f); the default model is smaller",
                     neap_graph_name(p->graph), neap_graph_op_count(p->graph), columns / 1e6,
                     p->request->method, most_columns);
}

bool neap_paper_time_for(const planner *p, bool partitioned, bool integers, double *seconds)
{
    double columns = (double)neap_paper_model_columns(p->graph, partitioned);
    double reserve = columns / (integers ? INTEGER_A_SECOND : RELAXED_A_SECOND);
    double left = neap_planner_seconds_left(p);
    *seconds = left > 0 ? left - reserve : 0;
    return left <= 0 || left > 2 * reserve;
}

neap_status neap_paper_explain_size(const planner *p, bool partitioned, draft *d, neap_diag *diag)
{
    char text[160];
    uint64_t columns = neap_paper_model_columns(p->graph, partitioned);
    snprintf(text, sizeof text,
             "the printed program, with up to %" PRIu64 " columns, is too large for it and was "
             "not begun",
             columns);
    d->reason = neap_arena_text(&d->arena, text, strlen(text));
    return d->reason ? NEAP_OK : neap_fail_no_memory(diag);
}

/* A lower bound in ticks as what a sum of the ops' times can be. */
static int64_t whole_ticks(const neap_graph *graph, double bound)
{
    int64_t least = neap_graph_least_ticks(graph), step = neap_graph_tick_step(graph);
    double whole = floor(bound - 1e-6 * fabs(bound));
    if (!(whole > (double)least) || whole > 1e18)
        return least;
    return ((int64_t)whole + step - 1) / step * step;
}

/* ---- The relaxation ---- */

static bool is_stopped(void *context)
{
    const paper_relaxation *x = context;
    return neap_planner_stopped(x->p);
}

/* Takes over what HiGHS found. */
static neap_status note_relaxation(paper_relaxation *x, const highs_model *highs, double objective,
                                   neap_diag *diag)
{
    const sparse_model *lp = &x->model.lp;
    double *reduced;
    if (!NEAP_TAKE(&x->model.arena, lp->n_columns, x->values) ||
        !NEAP_TAKE(&x->model.arena, lp->n_columns, reduced))
        return neap_fail_no_memory(diag);
    if (lp->n_columns > 0)
        memcpy(x->values, neap_highs_model_values(highs), lp->n_columns * sizeof *x->values);
    double bound = neap_sparse_model_dual_bound(lp, neap_highs_model_duals(highs), reduced);
    x->ticks = objective / x->model.ticks_scale;
    x->bound = fmax(0, bound / x->model.ticks_scale);
    return NEAP_OK;
}

neap_status neap_paper_relaxation_solve(paper_relaxation *x, const planner *p,
                                        const paper_options *options, neap_diag *diag)
{
    *x = (paper_relaxation){
        .p = p, .outcome = HIGHS_STOPPED, .bound_ticks = neap_graph_least_ticks(p->graph)};
    highs_settings settings = {.seed = p->request->seed};
    x->too_large = !neap_paper_time_for(p, options->partitioned, false, &settings.seconds);
    if (x->too_large)
        return NEAP_OK;
    highs_watch watch = {.context = x, .stop = is_stopped, .is_over = is_stopped};
    highs_model *highs = NULL;
    highs_answer answer = {0};
    double started = neap_clock_seconds();
    NEAP_TRY(neap_paper_model_build(&x->model, p->allocator, p->graph, options, diag));
    neap_status status =
        neap_highs_model_create(p->allocator, &x->model.lp, false, &watch, &highs, diag);
    if (status == NEAP_OK)
        status = neap_highs_model_solve(highs, &settings, &answer, diag);
    if (status == NEAP_OK) {
        x->outcome = answer.outcome;
        x->seconds = neap_clock_seconds() - started;
        if (answer.outcome == HIGHS_SOLVED)
            status = note_relaxation(x, highs, answer.objective, diag);
        x->bound_ticks = whole_ticks(p->graph, x->bound);
    }
    neap_highs_model_destroy(highs);
    return status;
}

void neap_paper_relaxation_clear(paper_relaxation *x)
{
    neap_paper_model_clear(&x->model);
    *x = (paper_relaxation){0};
}

/* ---- Problem (9) ---- */

typedef struct search {
    const planner *p;
    const paper_model *model;
    incumbent *best;
    paper_answer *answer;
    neap_status status; /* of what callbacks did */
    neap_diag *diag;
} search;

static double ticks_of(const search *s, double objective)
{
    return objective / s->model->ticks_scale;
}

/* *fits (may be NULL) tells whether the solution, as it is, keeps the budget; *ticks its time. */
static neap_status offer(search *s, const double *values, bool *fits, int64_t *ticks,
                         neap_diag *diag)
{
    const planner *p = s->p;
    size_t length = neap_paper_model_sequence(s->model, values, NULL, ticks);
    uint32_t *sequence;
    NEAP_TRY(NEAP_NEW(p->allocator, length, &sequence, diag));
    neap_paper_model_sequence(s->model, values, sequence, ticks);
    neap_status status = neap_incumbent_offer(s->best, p, sequence, length, diag);
    if (status == NEAP_OK && fits)
        *fits = s->best->ticks <= *ticks;
    if (status == NEAP_OK)
        status = neap_incumbent_offer_trimmed(s->best, p, sequence, length, diag);
    NEAP_DELETE(p->allocator, length, sequence);
    return status;
}

static bool stop(void *context)
{
    const search *s = context;
    return s->status != NEAP_OK || neap_planner_stopped(s->p);
}

static bool is_over(void *context)
{
    const search *s = context;
    return neap_planner_stopped(s->p);
}

static void show_progress(void *context, double best, double bound)
{
    const search *s = context;
    (void)best;
    double proven = fmax(ticks_of(s, bound), s->answer->lp_bound);
    neap_planner_report_search(
        s->p, s->best->ticks == INT64_MAX ? -1 : s->best->ticks,
        whole_ticks(s->p->graph, isfinite(bound) ? proven : s->answer->lp_bound));
}

static void take_found(void *context, const double *values)
{
    search *s = context;
    int64_t ticks;
    if (s->status == NEAP_OK)
        s->status = offer(s, values, NULL, &ticks, s->diag);
}

/* Holds the solution against the judge's arithmetic. */
static neap_status take_solution(search *s, const double *values, neap_diag *diag)
{
    bool fits;
    int64_t ticks;
    NEAP_TRY(offer(s, values, &fits, &ticks, diag));
    if (fits)
        s->answer->ticks = ticks;
    else
        s->answer->outcome = HIGHS_GAVE_UP;
    return NEAP_OK;
}

static neap_status solve_program(search *s, neap_diag *diag)
{
    const planner *p = s->p;
    highs_watch watch = {s, stop, is_over, show_progress, take_found};
    highs_model *highs = NULL;
    highs_answer answer = {0};
    double started = neap_clock_seconds();
    double half_step = 0.5 * (double)neap_graph_tick_step(p->graph) * s->model->ticks_scale;
    highs_settings settings = {.seed = p->request->seed, .absolute_gap = fmax(half_step, 0.5e-4)};
    s->answer->too_large = !neap_paper_time_for(p, s->model->partitioned, true, &settings.seconds);
    if (s->answer->too_large)
        return NEAP_OK;
    neap_status status =
        neap_highs_model_create(p->allocator, &s->model->lp, true, &watch, &highs, diag);
    if (status == NEAP_OK)
        status = neap_highs_model_solve(highs, &settings, &answer, diag);
    if (status == NEAP_OK)
        status = s->status;
    if (status == NEAP_OK) {
        s->answer->outcome = answer.outcome;
        s->answer->seconds = neap_clock_seconds() - started;
        if (isfinite(answer.bound))
            s->answer->bound = fmax(s->answer->bound, ticks_of(s, answer.bound));
        if (answer.outcome == HIGHS_SOLVED)
            status = take_solution(s, neap_highs_model_values(highs), diag);
    }
    neap_highs_model_destroy(highs);
    return status;
}

static void answer_relaxation(const paper_relaxation *x, paper_answer *answer)
{
    *answer = (paper_answer){.columns = x->model.lp.n_columns,
                             .rows = x->model.lp.n_rows,
                             .too_large = x->too_large,
                             .relaxed = x->outcome,
                             .lp_ticks = x->ticks,
                             .lp_bound = x->bound,
                             .lp_seconds = x->seconds,
                             .outcome = HIGHS_STOPPED,
                             .ticks = -1,
                             .bound = x->bound,
                             .bound_ticks = x->bound_ticks};
    if (x->outcome == HIGHS_INFEASIBLE)
        answer->outcome = HIGHS_INFEASIBLE;
}

neap_status neap_paper_relax(const planner *p, bool partitioned, paper_answer *answer,
                             neap_diag *diag)
{
    paper_relaxation x;
    const paper_options options = {.partitioned = partitioned, .budget = p->budget};
    neap_status status = neap_paper_relaxation_solve(&x, p, &options, diag);
    answer_relaxation(&x, answer);
    neap_paper_relaxation_clear(&x);
    return status;
}

neap_status neap_paper_solve(const planner *p, bool partitioned, incumbent *best,
                             paper_answer *answer, neap_diag *diag)
{
    paper_relaxation x;
    const paper_options options = {.partitioned = partitioned, .budget = p->budget};
    neap_status status = neap_paper_relaxation_solve(&x, p, &options, diag);
    answer_relaxation(&x, answer);
    search s = {.p = p, .model = &x.model, .best = best, .answer = answer, .diag = diag};
    bool open = answer->relaxed == HIGHS_SOLVED || answer->relaxed == HIGHS_GAVE_UP;
    if (status == NEAP_OK && open && !neap_planner_stopped(p)) {
        status = solve_program(&s, diag);
        answer->bound_ticks =
            answer->outcome == HIGHS_SOLVED ? answer->ticks : whole_ticks(p->graph, answer->bound);
    }
    neap_paper_relaxation_clear(&x);
    return status;
}
