/*
 * checkmate: the best plan whose frontiers end with the first runs, by mixed-integer programming.
 *
 * Jain, Jain, Nrusimha, Gholami, Abbeel, Keutzer, Stoica and Gonzalez, "Checkmate: Breaking the
 * Memory Wall with Optimal Tensor Rematerialization" (2020), problem (9), with HiGHS in place of
 * Gurobi. The program is frontier_model.h's. On the way to the answer:
 *
 * 1. quick methods give a first plan, and its time rules out running slow ops again;
 * 2. the linear relaxation gives a bound, and its rounding better plans (two_phase.h);
 * 3. a column whose reduced cost exceeds the distance between plan and bound is fixed: no better
 *    plan has it otherwise. Few are left;
 * 4. HiGHS solves what is left, looking only for better plans than the best so far.
 *
 * With form=unpartitioned the first runs may come in any frontier (1a to 1f). The program is then
 * weak, so graphs small enough are searched through for the best of all plans (resident_search.h)
 * first. With model=paper the program is written as it is printed and left to HiGHS from nothing,
 * to compare with the paper's figures (paper_model.h); with goal=batch it asks for the largest
 * batch (paper_batch.h).
 */
#include "base/fail.h"
#include "base/memory.h"
#include "planners/checkmate/frontier_search.h"
#include "planners/checkmate/incumbent.h"
#include "planners/checkmate/paper_batch.h"
#include "planners/checkmate/relaxation.h"
#include "planners/checkmate/two_phase.h"
#include "planners/common/resident_search.h"

#include <math.h>

enum { FORM, MODEL, GOAL, ROUNDS, MOST_COLUMNS };
enum { GAPS, PAPER };
enum { TIME, BATCH };

static const neap_option options[] = {
    [FORM] = NEAP_CHOICE_OPTION(
        "form", "partitioned|unpartitioned",
        "whether frontier t ends with the first run of op t, or ops run in any frontier"),
    [MODEL] = NEAP_CHOICE_OPTION(
        "model", "gaps|paper", "neap's own way to write the program, or the paper's with no help"),
    [GOAL] = NEAP_CHOICE_OPTION("goal", "time|batch",
                                "least time, or the largest batch by the paper's program, eq. 10"),
    [ROUNDS] = NEAP_INTEGER_OPTION("rounds", 0, 1e9, 1000, "of the local search for a first plan"),
    [MOST_COLUMNS] = RELAXATION_MOST_COLUMNS,
};

/* Of the search through all plans; about 100 bytes each. */
#define MOST_STATES 3000000

typedef struct search {
    const planner *p;
    incumbent best;
    relaxation relaxed;
    int64_t target_ticks; /* INT64_MAX - 1 without a target */
    int64_t model_cutoff; /* the program knows only plans faster than this */
    int64_t bound_ticks;
    neap_scope scope; /* of which plans that is true */
    bool exhausted;   /* nothing is faster than cutoff_ticks */
    bool stopped;
    bool too_large;         /* the printed program was not begun, for lack of time */
    double lp_ticks;        /* of the printed program's relaxation; -1: not solved */
    uint64_t columns, rows; /* of the printed program */
    neap_status status;     /* of what callbacks did */
    neap_diag *diag;
} search;

/* Offers what rounding the relaxation at several thresholds gives. */
static neap_status round_relaxation(search *s, neap_diag *diag)
{
    static const double thresholds[] = {0.5, 0.3, 0.7, 0.1, 0.9};
    frontier_rows rows = {0};
    lp_schedule schedule;
    neap_status status = neap_lp_schedule_of_gaps(&schedule, s->p->allocator, &s->relaxed.model,
                                                  s->relaxed.values, diag);
    if (status == NEAP_OK)
        status = neap_frontier_rows_init(&rows, s->p->allocator, s->p->graph, diag);
    for (size_t i = 0; i < sizeof thresholds / sizeof *thresholds && status == NEAP_OK; i++) {
        rounding how = {.threshold = thresholds[i]};
        neap_frontier_rows_restart(&rows);
        status = neap_two_phase_round(&schedule, &how, &rows, diag);
        if (status == NEAP_OK)
            status = neap_incumbent_offer_trimmed(&s->best, s->p, rows.sequence, rows.length, diag);
    }
    neap_frontier_rows_clear(&rows);
    neap_lp_schedule_clear(&schedule);
    return status;
}

/* Only plans faster than this matter: than the best so far, and as fast as the target. */
static int64_t cutoff_ticks(const search *s)
{
    return s->best.ticks <= s->target_ticks ? s->best.ticks : s->target_ticks + 1;
}

static bool is_good_enough(const search *s)
{
    bool has_target = s->target_ticks < INT64_MAX - 1;
    return s->best.ticks <= neap_graph_least_ticks(s->p->graph) ||
           (has_target && s->best.ticks <= s->target_ticks);
}

/* Less than the objectives of plans of different times are apart: half a tick step, or a tenth of a
   millionth of the base time where steps are finer than a solver's arithmetic. */
static double margin(const search *s)
{
    return fmax(0.5 * (double)neap_graph_tick_step(s->p->graph) * s->relaxed.model.ticks_scale,
                1e-4);
}

/* The objective that such plans stay below. They may take as long as the target, and the target
   need not be a time that plans have. */
static double cutoff(const search *s)
{
    const frontier_model *m = &s->relaxed.model;
    int64_t step = neap_graph_tick_step(s->p->graph);
    if (cutoff_ticks(s) == INT64_MAX)
        return HUGE_VAL;
    if (s->best.ticks <= s->target_ticks)
        return neap_frontier_model_objective(m, s->best.ticks) - margin(s);
    return neap_frontier_model_objective(m, s->target_ticks / step * step) + margin(s);
}

/* Fixes every column that no better plan has otherwise. */
static void fix_columns(search *s)
{
    relaxation *x = &s->relaxed;
    double gap = cutoff(s) - x->bound;
    for (size_t j = 0; j < x->model.lp.n_columns && isfinite(gap); j++) {
        if (x->reduced[j] > gap && x->model.lp.lower[j] <= 0)
            x->model.lp.upper[j] = 0;
        else if (-x->reduced[j] > gap && x->model.lp.upper[j] >= 1)
            x->model.lp.lower[j] = 1;
    }
}

static neap_status offer_values(search *s, const double *values, neap_diag *diag)
{
    const frontier_model *m = &s->relaxed.model;
    size_t length = neap_frontier_model_length(m, values);
    uint32_t *sequence;
    NEAP_TRY(NEAP_NEW(s->p->allocator, length, &sequence, diag));
    neap_frontier_model_sequence(m, values, sequence);
    neap_status status = neap_incumbent_offer_trimmed(&s->best, s->p, sequence, length, diag);
    NEAP_DELETE(s->p->allocator, length, sequence);
    return status;
}

static bool stop(void *context)
{
    const search *s = context;
    return s->status != NEAP_OK || is_good_enough(s) || neap_planner_stopped(s->p);
}

static bool is_over(void *context)
{
    const search *s = context;
    return neap_planner_stopped(s->p);
}

static void show_progress(void *context, double best, double bound)
{
    search *s = context;
    int64_t ticks = neap_relaxation_bound_ticks(&s->relaxed.model, bound - 1e-6 * fabs(bound));
    (void)best;
    if (isfinite(bound) && ticks > s->bound_ticks)
        s->bound_ticks = ticks < s->model_cutoff ? ticks : s->model_cutoff;
    neap_planner_report_search(s->p, s->best.ticks == INT64_MAX ? -1 : s->best.ticks,
                               s->bound_ticks);
}

static void take_found(void *context, const double *values)
{
    search *s = context;
    if (s->status == NEAP_OK)
        s->status = offer_values(s, values, s->diag);
}

/* The best plan so far as a start for HiGHS; where the program cannot express it, a row that asks
   for a better one. */
static neap_status set_start(search *s, double *start, bool *expressible, neap_diag *diag)
{
    frontier_model *m = &s->relaxed.model;
    *expressible = false;
    if (cutoff_ticks(s) == INT64_MAX)
        return NEAP_OK;
    *expressible = cutoff_ticks(s) == s->best.ticks &&
                   neap_frontier_model_values(m, s->best.sequence, s->best.length, NULL, start);
    return *expressible ? NEAP_OK : neap_frontier_model_add_cutoff(m, cutoff(s), diag);
}

/* Checks HiGHS's solution exactly; what it breaks becomes a row, and *again tells so. */
static neap_status take_solution(search *s, const double *values, bool *again, neap_diag *diag)
{
    frontier_model *m = &s->relaxed.model;
    size_t added;
    bool covered = false;
    NEAP_TRY(neap_frontier_model_add_memory(m, values, 1e-9, &added, diag));
    if (added == 0)
        NEAP_TRY(neap_frontier_model_add_cover(m, values, &covered, diag));
    *again = added > 0 || covered;
    return *again ? NEAP_OK : offer_values(s, values, diag);
}

/* One run of HiGHS on the program as it stands; *again where its answer broke rows that were
   not in it. */
static neap_status solve_once(search *s, bool *again, neap_diag *diag)
{
    const planner *p = s->p;
    frontier_model *m = &s->relaxed.model;
    highs_watch watch = {s, stop, is_over, show_progress, take_found};
    highs_model *highs = NULL;
    highs_answer answer = {0};
    double *start = NULL;
    bool expressible = false;
    *again = false;
    neap_status status = NEAP_NEW(p->allocator, m->lp.n_columns, &start, diag);
    if (status == NEAP_OK)
        status = set_start(s, start, &expressible, diag);
    if (status == NEAP_OK)
        status = neap_highs_model_create(p->allocator, &m->lp, true, &watch, &highs, diag);
    if (status == NEAP_OK) {
        highs_settings settings = {.seconds = neap_planner_seconds_left(p),
                                   .seed = p->request->seed,
                                   .absolute_gap = 0.5 * margin(s),
                                   .start = expressible ? start : NULL};
        status = neap_highs_model_solve(highs, &settings, &answer, diag);
    }
    if (status == NEAP_OK)
        status = s->status;
    show_progress(s, answer.objective, answer.bound);
    if (status == NEAP_OK && answer.outcome == HIGHS_SOLVED && answer.has_solution)
        status = take_solution(s, neap_highs_model_values(highs), again, diag);
    s->stopped = answer.outcome == HIGHS_STOPPED;
    s->exhausted =
        !*again && (answer.outcome == HIGHS_SOLVED || answer.outcome == HIGHS_INFEASIBLE);
    neap_highs_model_destroy(highs);
    NEAP_DELETE(p->allocator, m->lp.n_columns, start);
    return status;
}

static neap_status solve_program(search *s, neap_diag *diag)
{
    bool complete, again = true;
    fix_columns(s);
    NEAP_TRY(neap_frontier_model_add_all_memory(&s->relaxed.model, 300000, &complete, diag));
    while (again)
        NEAP_TRY(solve_once(s, &again, diag));
    return NEAP_OK;
}

/* The best of all plans, where the graph is small enough to look at them. */
static neap_status search_residents(search *s, neap_diag *diag)
{
    resident_answer answer = {0};
    neap_status status =
        neap_resident_search(s->p, false, MOST_STATES, cutoff_ticks(s), &answer, diag);
    if (status == NEAP_OK && answer.outcome == RESIDENT_SOLVED)
        status = neap_incumbent_offer(&s->best, s->p, answer.sequence, answer.length, diag);
    if (status == NEAP_OK &&
        (answer.outcome == RESIDENT_SOLVED || answer.outcome == RESIDENT_NONE)) {
        s->exhausted = true;
        if (!(s->p->request->link.out_bandwidth > 0)) /* else plans with transfers may be faster */
            s->scope = NEAP_SCOPE_ANY;
    }
    s->stopped = answer.outcome == RESIDENT_STOPPED;
    neap_resident_answer_clear(s->p, &answer);
    return status;
}

/* The printed program, from nothing. */
static neap_status run_paper(search *s, bool partitioned, neap_diag *diag)
{
    paper_answer answer = {0};
    NEAP_TRY(neap_paper_refuse_big(s->p, partitioned, s->p->options[MOST_COLUMNS], diag));
    neap_status status = neap_paper_solve(s->p, partitioned, &s->best, &answer, diag);
    s->bound_ticks = answer.bound_ticks > s->bound_ticks ? answer.bound_ticks : s->bound_ticks;
    s->exhausted = answer.outcome == HIGHS_SOLVED || answer.outcome == HIGHS_INFEASIBLE;
    s->stopped = answer.outcome == HIGHS_STOPPED;
    s->too_large = answer.too_large;
    s->lp_ticks = answer.relaxed == HIGHS_SOLVED ? answer.lp_ticks : -1;
    s->columns = answer.columns;
    s->rows = answer.rows;
    return status;
}

static neap_status run(search *s, neap_diag *diag)
{
    const planner *p = s->p;
    frontier_form form = (frontier_form)p->options[FORM];
    if (p->options[MODEL] == PAPER)
        return run_paper(s, form == FRONTIER_PARTITIONED, diag);
    NEAP_TRY(neap_relaxation_refuse_big(p, form, p->options[MOST_COLUMNS], diag));
    NEAP_TRY(neap_incumbent_begin(&s->best, p, diag));
    if (is_good_enough(s))
        return NEAP_OK;
    NEAP_TRY(neap_frontier_search_improve(p, &s->best, (uint32_t)p->options[ROUNDS], diag));
    if (is_good_enough(s))
        return NEAP_OK;
    if (form == FRONTIER_UNPARTITIONED)
        NEAP_TRY(search_residents(s, diag));
    if (s->exhausted || s->stopped)
        return NEAP_OK;
    s->model_cutoff = cutoff_ticks(s);
    frontier_options model = {form, p->budget, s->model_cutoff};
    NEAP_TRY(neap_relaxation_solve(&s->relaxed, p, &model, s->best.ticks, diag));
    s->bound_ticks =
        s->relaxed.bound_ticks < s->model_cutoff ? s->relaxed.bound_ticks : s->model_cutoff;
    s->exhausted = s->relaxed.outcome == HIGHS_INFEASIBLE;
    s->stopped = s->relaxed.outcome == HIGHS_STOPPED;
    if (s->exhausted || s->stopped)
        return NEAP_OK;
    if (form == FRONTIER_PARTITIONED && s->relaxed.outcome == HIGHS_SOLVED)
        NEAP_TRY(round_relaxation(s, diag));
    s->exhausted = cutoff_ticks(s) <= s->bound_ticks || s->relaxed.bound >= cutoff(s);
    return s->exhausted || is_good_enough(s) ? NEAP_OK : solve_program(s, diag);
}

static void finish(search *s, draft *d)
{
    bool found = s->best.ticks != INT64_MAX;
    if (s->exhausted && cutoff_ticks(s) != INT64_MAX)
        s->bound_ticks = cutoff_ticks(s);
    d->bound_ticks = s->bound_ticks;
    d->scope = s->scope;
    d->proven_optimal = found && s->best.ticks <= s->bound_ticks;
    d->stopped = s->stopped && !is_good_enough(s);
    neap_incumbent_take(&s->best, d);
}

/* The relaxation's value as a time, and how large the program was. */
static neap_status tell(const search *s, draft *d, neap_diag *diag)
{
    const relaxation *x = &s->relaxed;
    bool solved = x->highs && x->outcome == HIGHS_SOLVED;
    double lp_ticks = s->lp_ticks, tick = 1 / (double)neap_graph_ticks_per_second(s->p->graph);
    if (solved)
        lp_ticks = (double)x->model.certain_ticks + x->objective / x->model.ticks_scale;
    if (lp_ticks >= 0) {
        const sparse_model *lp = &x->model.lp;
        double columns = (double)(solved ? lp->n_columns : s->columns);
        double rows = (double)(solved ? lp->n_rows : s->rows);
        NEAP_TRY(neap_draft_add_bound(s->p, d, "lp_time", lp_ticks * tick, diag));
        NEAP_TRY(neap_draft_add_number(s->p, d, "columns", columns, diag));
        NEAP_TRY(neap_draft_add_number(s->p, d, "rows", rows, diag));
    }
    if (s->too_large)
        NEAP_TRY(neap_paper_explain_size(s->p, s->scope == NEAP_SCOPE_FRONTIER, d, diag));
    return NEAP_OK;
}

/* The largest batch with at most one extra forward pass, by the printed program. The answer is a
   number; the plan is the one that allows it. */
static neap_status plan_batch(const planner *p, draft *d, neap_diag *diag)
{
    bool partitioned = p->options[FORM] == FRONTIER_PARTITIONED;
    paper_batch found;
    if (p->budget == INT64_MAX)
        return neap_fail(diag, NEAP_UNSUPPORTED, "goal=batch needs a budget");
    NEAP_TRY(neap_paper_refuse_big(p, partitioned, p->options[MOST_COLUMNS], diag));
    NEAP_TRY(neap_paper_batch_solve(p, partitioned, &found, d, diag));
    d->scope = partitioned ? NEAP_SCOPE_FRONTIER : NEAP_SCOPE_PASSES;
    d->stopped = found.outcome == HIGHS_STOPPED;
    NEAP_TRY(neap_draft_add_number(p, d, "columns", (double)found.columns, diag));
    NEAP_TRY(neap_draft_add_number(p, d, "rows", (double)found.rows, diag));
    if (found.bytes >= 0 && found.batch < INT64_MAX) {
        NEAP_TRY(neap_draft_add_number(p, d, "largest_batch", (double)found.batch, diag));
        NEAP_TRY(neap_draft_add_number(p, d, "growing_bytes", (double)found.bytes, diag));
    }
    if (found.batch_bound < INT64_MAX)
        NEAP_TRY(
            neap_draft_add_number(p, d, "largest_batch_bound", (double)found.batch_bound, diag));
    return found.too_large ? neap_paper_explain_size(p, partitioned, d, diag) : NEAP_OK;
}

static neap_status plan_checkmate(const planner *p, draft *d, neap_diag *diag)
{
    if (p->options[GOAL] == BATCH)
        return plan_batch(p, d, diag);
    search s = {.p = p,
                .diag = diag,
                .bound_ticks = neap_graph_least_ticks(p->graph),
                .lp_ticks = -1,
                .scope = p->options[FORM] == FRONTIER_PARTITIONED ? NEAP_SCOPE_FRONTIER
                                                                  : NEAP_SCOPE_PASSES};
    int64_t target = neap_planner_target_ticks(p);
    s.target_ticks = target < INT64_MAX ? target : INT64_MAX - 1;
    neap_incumbent_init(&s.best, p);
    neap_status status = run(&s, diag);
    if (status == NEAP_OK && s.best.ticks == INT64_MAX)
        status = neap_frontier_search_tighten(p, &s.best, diag);
    if (status == NEAP_OK)
        status = tell(&s, d, diag);
    if (status == NEAP_OK)
        finish(&s, d);
    neap_relaxation_clear(&s.relaxed);
    neap_incumbent_clear(&s.best, p);
    return status;
}

const neap_method neap_method_checkmate = {
    .name = "checkmate",
    .summary = "least time in the budget for any graph, proven, by mixed-integer programming",
    .source = "Jain et al. 2020, Checkmate, problem (9)",
    NEAP_METHOD_OPTIONS(options),
    .plan = plan_checkmate,
};
