/*
 * Addresses within the budget.
 *
 * A budget limits the arena. If the addresses of a plan exceed it, the method plans again with a
 * smaller budget until they fit. Of all plans that could be placed the fastest is the result, also
 * of those that the method had placed while it searched (neap_trial); only if there is none does
 * the plan have no addresses.
 */
#include "base/clock.h"
#include "base/fail.h"
#include "layout/retime.h"
#include "plan/in_place.h"
#include "solve/run_method.h"
#include "solve/solution_internal.h"

#include <neap/layout.h>
#include <neap/text.h>

#include <stdio.h>

static void set_options(const neap_request *request, int64_t budget, double seconds,
                        neap_layout_options *options)
{
    neap_layout_options_init(options);
    options->alignment = request->alignment;
    options->progress = request->progress;
    options->target = budget;
    options->seconds = seconds;
    options->threads = request->threads;
}

neap_status neap_request_lay_out(neap_allocator *allocator, const neap_request *request,
                                 int64_t budget, double seconds, neap_plan *plan, bool *fits,
                                 neap_diag *diag)
{
    neap_layout_options options;
    set_options(request, budget, seconds, &options);
    neap_status status = neap_layout_assign(allocator, request->graph, plan, &options, diag);
    *fits = status == NEAP_OK && neap_plan_arena_bytes(plan) <= neap_budget_bytes(budget);
    return status;
}

/* ---- Time ---- */

/* Seconds for addresses after the caller has cancelled, or if the time limit is over. */
static const double GRACE = 0.1;

/* Cancels a moment after the caller does: a plan without addresses is of little use. */
typedef struct watch {
    neap_progress base;
    neap_progress *outer;
    _Atomic double since; /* when the caller cancelled; 0: not yet */
} watch;

static bool is_over(neap_progress *self)
{
    watch *w = (watch *)self; /* base is its first member */
    if (!w->outer || !w->outer->cancelled || !w->outer->cancelled(w->outer))
        return false;
    if (w->since <= 0)
        w->since = neap_clock_seconds();
    return neap_clock_seconds() - w->since > GRACE;
}

/* Seconds that a share of the rest of the time limit is; 0: there is no limit. */
static double seconds_of(const planner *p, double share)
{
    double limit = p->request->time_limit;
    double seconds = share * (limit - (neap_clock_seconds() - p->started));
    return limit <= 0 ? 0 : seconds > GRACE ? seconds : GRACE;
}

/* Assigns addresses in a share of the time that is left. A plan with copies is replaced by one with
   copies at other times, which takes longer by at most the fraction most_loss. */
static neap_status lay_out(const planner *p, neap_plan **plan, double share, double most_loss,
                           bool *fits, neap_diag *diag)
{
    watch w = {{.cancelled = is_over}, .outer = p->request->progress};
    neap_request request = *p->request;
    neap_layout_options options;
    neap_plan *placed = NULL;
    request.progress = &w.base;
    neap_planner_report_phase(p, "assigning addresses");
    if (!neap_retime_applies(*plan))
        return neap_request_lay_out(p->allocator, &request, request.budget, seconds_of(p, share),
                                    *plan, fits, diag);
    set_options(&request, request.budget, seconds_of(p, share), &options);
    neap_status status = neap_retime_assign(p->allocator, p->graph, &request.link, *plan, &options,
                                            most_loss, &placed, diag);
    *fits = status == NEAP_OK && neap_plan_arena_bytes(placed) <= neap_budget_bytes(request.budget);
    if (status == NEAP_OK) {
        neap_plan_destroy(*plan);
        *plan = placed;
    }
    return status;
}

/* The same for the plan of a draft, whose prediction follows. */
static neap_status lay_out_draft(const planner *p, draft *d, double share, double most_loss,
                                 bool *fits, neap_diag *diag)
{
    neap_timeline timeline;
    const neap_plan *before = d->plan;
    NEAP_TRY(lay_out(p, &d->plan, share, most_loss, fits, diag));
    if (d->plan == before)
        return NEAP_OK;
    NEAP_TRY(
        neap_timeline_build(p->allocator, p->graph, d->plan, &p->request->link, &timeline, diag));
    d->proven_optimal = d->proven_optimal && timeline.makespan_ticks == d->predicted_ticks;
    d->predicted_peak = timeline.peak_bytes;
    d->predicted_ticks = timeline.makespan_ticks;
    neap_timeline_clear(&timeline);
    return NEAP_OK;
}

/* ---- Plans that fit ---- */

/* Of the time that is left: for a plan after the method has searched. */
static const double FIRST_SHARE = 0.4, LAST_SHARE = 0.8;

/* Copies may be moved in time until the addresses fit, while the plan takes longer by no more than
   this; then a plan within a smaller budget is better. */
static const double MOST_LOSS = 0.01;

/* Keeps a plan whose addresses fit, if it is the fastest. Takes the plan over. */
static void keep_fastest(neap_trial *t, neap_plan *plan, const neap_verdict *verdict)
{
    bool better = verdict->accepted && (!t->plan || t->ticks > verdict->ticks);
    neap_plan_destroy(better ? t->plan : plan);
    if (!better)
        return;
    t->plan = plan;
    t->peak = verdict->peak_bytes;
    t->ticks = verdict->ticks;
}

static neap_status place_trial(neap_trial *self, neap_plan *plan, double share, int64_t *arena,
                               neap_diag *diag)
{
    neap_keeper *k = (neap_keeper *)self; /* base is its first member */
    const planner *p = k->p;
    neap_verdict verdict;
    bool fits = false;
    *arena = -1;
    size_t count;
    neap_status status = neap_plan_run_in_place(p->allocator, p->graph, plan, &count, diag);
    if (status == NEAP_OK)
        status =
            neap_request_judge(p->allocator, p->request, plan, p->request->budget, &verdict, diag);
    if (status == NEAP_OK && verdict.accepted)
        status = lay_out(p, &plan, share, MOST_LOSS, &fits, diag);
    neap_planner_report_phase(p, "planning");
    if (status == NEAP_OK)
        *arena = neap_plan_arena_bytes(plan);
    if (fits) /* perhaps with copies at other times */
        status =
            neap_request_judge(p->allocator, p->request, plan, p->request->budget, &verdict, diag);
    if (fits && status == NEAP_OK)
        keep_fastest(self, plan, &verdict);
    else
        neap_plan_destroy(plan);
    return status;
}

void neap_keeper_init(neap_keeper *keeper, const planner *p)
{
    *keeper = (neap_keeper){.base = {.place = place_trial}, .p = p};
}

void neap_keeper_clear(neap_keeper *keeper)
{
    neap_plan_destroy(keeper->base.plan);
    keeper->base.plan = NULL;
}

/* ---- Planning again ---- */

/* One more planning, with a smaller budget. */
typedef struct attempt {
    int64_t allowed;        /* live bytes */
    const neap_plan *start; /* the plan so far, to start from */
    draft draft;
    bool found, fits; /* the plan is within `allowed`; its arena within the budget */
} attempt;

/* Runs the method within a->allowed; `once` as of neap_run_method. */
static neap_status run_method(const planner *p, bool once, attempt *a, neap_diag *diag)
{
    neap_request request = *p->request;
    planner tighter = *p;
    tighter.budget = a->allowed;
    tighter.request = &request;
    const neap_method *method = neap_methods_find(request.method);
    if (method->takes_constraints)
        request.start = a->start;
    if (request.time_limit > 0) { /* half of the rest: another attempt may follow */
        double spent = neap_clock_seconds() - p->started;
        request.time_limit = spent + (request.time_limit - spent) / 2;
    }
    neap_draft_init(&a->draft, p->allocator);
    neap_planner_report_phase(p, "planning");
    neap_status status = neap_run_method(&tighter, method, once, &a->draft, diag);
    if (status != NEAP_OK || !a->draft.plan)
        return status;
    neap_verdict verdict;
    status = neap_judge_draft(p, &a->draft, &verdict, diag);
    a->found = status == NEAP_OK && verdict.peak_bytes <= a->allowed;
    return status;
}

static neap_status plan_within(const planner *p, attempt *a, neap_diag *diag)
{
    NEAP_TRY(run_method(p, false, a, diag));
    return a->found ? lay_out_draft(p, &a->draft, FIRST_SHARE, MOST_LOSS, &a->fits, diag) : NEAP_OK;
}

/* The plan of least memory that the method has, with addresses: to a budget that is too small it
   answers with that plan, or with the budget that it needs. */
static neap_status plan_least(const planner *p, attempt *a, neap_diag *diag)
{
    a->allowed = neap_request_live_floor(p->request, NULL);
    NEAP_TRY(run_method(p, true, a, diag));
    if (!a->draft.plan && a->draft.least_budget > 0) {
        a->allowed = a->draft.least_budget;
        neap_planner_clear_draft(p, &a->draft);
        NEAP_TRY(run_method(p, true, a, diag));
    }
    if (!a->draft.plan)
        return NEAP_OK;
    NEAP_TRY(lay_out_draft(p, &a->draft, LAST_SHARE, MOST_LOSS, &a->fits, diag));
    a->allowed = a->draft.predicted_peak;
    a->fits = a->fits && a->allowed <= p->budget;
    return NEAP_OK;
}

/* Takes another plan. Proofs of the first planning remain; those of an attempt hold only for its
   smaller budget. */
static void adopt(const planner *p, draft *first, draft d)
{
    d.bound_ticks = first->bound_ticks;
    bool fastest = first->proven_optimal && p->request->objective == NEAP_LEAST_TIME;
    if (fastest && first->predicted_ticks > d.bound_ticks)
        d.bound_ticks = first->predicted_ticks;
    d.proven_optimal = false;
    d.scope = first->scope;
    d.stopped = d.stopped || first->stopped;
    neap_draft_take_bounds(&d, first);
    neap_planner_clear_draft(p, first);
    *first = d;
}

void neap_adopt_kept(draft *d, neap_keeper *kept)
{
    neap_plan_destroy(d->plan);
    d->plan = kept->base.plan;
    d->proven_optimal = d->proven_optimal && kept->base.ticks == d->predicted_ticks;
    d->predicted_peak = kept->base.peak;
    d->predicted_ticks = kept->base.ticks;
    kept->base.plan = NULL;
}

/* The plan of least memory, if its addresses fit: a budget that was said to work does. */
static neap_status take_least(const planner *p, draft *first, int64_t *allowed, neap_diag *diag)
{
    attempt a = {.start = first->plan};
    neap_status status = plan_least(p, &a, diag);
    if (status == NEAP_OK && a.fits) {
        *allowed = a.allowed;
        adopt(p, first, a.draft);
    } else {
        neap_planner_clear_draft(p, &a.draft);
    }
    return status;
}

/* Whether the plan that was kept is hardly slower: one within even fewer bytes is not faster. */
static bool is_kept_close(const neap_keeper *kept, const draft *first)
{
    return kept->base.plan &&
           (double)kept->base.ticks <= (1 + MOST_LOSS) * (double)first->predicted_ticks;
}

/* The largest number of attempts. */
enum { TIGHTENINGS = 5 };

/*
 * The addresses of the first plan exceed the budget: plans again, with a budget reduced by the
 * excess, until the addresses fit. If the method has no plan that small, goes back halfway.
 * *allowed is the live bytes of the plan that fits, or -1.
 */
static neap_status tighten(const planner *p, draft *first, neap_keeper *kept, int64_t *allowed,
                           neap_diag *diag)
{
    int64_t most = first->predicted_peak, least = neap_request_live_floor(p->request, NULL) - 1;
    int64_t arena = neap_plan_arena_bytes(first->plan);
    neap_status status = neap_plan_set_offsets(first->plan, NULL, 0, -1, diag);
    *allowed = -1;
    for (int i = 0; status == NEAP_OK && i < TIGHTENINGS && !neap_planner_stopped(p); i++) {
        attempt a = {.allowed = most - (arena - p->budget), .start = first->plan};
        if (a.allowed <= least)
            a.allowed = least + (most - least) / 2;
        if (a.allowed <= least || (is_kept_close(kept, first) && a.allowed <= kept->base.peak))
            break;
        status = plan_within(p, &a, diag);
        if (status == NEAP_OK && a.fits) {
            if (kept->base.plan && kept->base.ticks <= a.draft.predicted_ticks) {
                neap_planner_clear_draft(p, &a.draft);
                break;
            }
            *allowed = a.allowed;
            adopt(p, first, a.draft);
            return NEAP_OK;
        }
        if (a.found) {
            most = a.draft.predicted_peak;
            arena = neap_plan_arena_bytes(a.draft.plan);
        } else {
            least = a.allowed;
        }
        neap_planner_clear_draft(p, &a.draft);
    }
    if (status == NEAP_OK && kept->base.plan) {
        *allowed = kept->base.peak;
        neap_adopt_kept(first, kept);
    } else if (status == NEAP_OK && !neap_methods_find(p->request->method)->takes_constraints &&
               !neap_planner_stopped(p)) {
        status = take_least(p, first, allowed, diag);
    }
    return status;
}

neap_status neap_give_addresses(const planner *p, neap_solution *solution, neap_keeper *kept,
                                neap_diag *diag)
{
    draft *d = &solution->draft;
    char peak_text[32], arena_text[32], budget_text[32];
    bool fits, again = p->budget < INT64_MAX;
    if (neap_plan_arena_bytes(d->plan) >= 0)
        return NEAP_OK; /* it was kept */
    if (kept->base.plan && kept->base.ticks <= d->predicted_ticks) {
        neap_adopt_kept(d, kept);
        return NEAP_OK;
    }
    neap_status status =
        lay_out_draft(p, d, again ? FIRST_SHARE : LAST_SHARE, MOST_LOSS, &fits, diag);
    if (status != NEAP_OK || fits)
        return status;
    int64_t peak = d->predicted_peak, arena = neap_plan_arena_bytes(d->plan), allowed;
    status = tighten(p, d, kept, &allowed, diag);
    if (status != NEAP_OK)
        return status;
    neap_bytes_format(p->budget, budget_text, sizeof budget_text);
    if (allowed >= 0) {
        snprintf(solution->message, sizeof solution->message,
                 "addresses needed %.2g%% more than the live bytes: planned within %s so that the "
                 "arena fits %s",
                 100 * (double)(arena - peak) / (double)peak,
                 neap_bytes_format(allowed, peak_text, sizeof peak_text), budget_text);
        return NEAP_OK;
    }
    solution->figures.arena_bytes = arena;
    snprintf(
        solution->message, sizeof solution->message,
        "live bytes fit (%s), but the addresses found take %s: the plan goes without addresses",
        neap_bytes_format(peak, peak_text, sizeof peak_text),
        neap_bytes_format(arena, arena_text, sizeof arena_text));
    return neap_plan_set_offsets(d->plan, NULL, 0, -1, diag);
}

/* ---- The least budget ---- */

neap_status neap_find_least_budget(const planner *p, draft *d, int64_t *bytes, neap_diag *diag)
{
    neap_request request = *p->request;
    planner open = *p; /* places without a target */
    attempt a = {.allowed = d->least_budget};
    bool fits, again = d->least_budget > 0, is_late = neap_planner_stopped(p);
    neap_status status = NEAP_OK;
    open.request = &request;
    request.budget = -1;
    neap_draft_init(&a.draft, p->allocator);
    if (again && !is_late)
        status = run_method(p, true, &a, diag);
    draft *least = again ? &a.draft : d;
    *bytes = again ? d->least_budget : d->predicted_peak;
    if (status == NEAP_OK && least->plan && !is_late && (!again || a.found)) {
        int64_t peak = least->predicted_peak; /* copies at other times may need less */
        status = lay_out_draft(&open, least, LAST_SHARE, MOST_LOSS, &fits, diag);
        int64_t arena = status == NEAP_OK ? neap_plan_arena_bytes(least->plan) : 0;
        *bytes = arena > peak ? arena : peak;
    }
    neap_planner_clear_draft(p, &a.draft);
    return status;
}
