/* neap_solve: options in, a method's draft, then judge and layout; nothing unverified leaves. */
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "solve/solution_internal.h"

#include <neap/layout.h>
#include <neap/text.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *neap_outcome_name(neap_outcome outcome)
{
    static const char *const names[] = {"optimal", "feasible", "infeasible", "time_limit",
                                        "interrupted"};
    return (size_t)outcome < 5 ? names[outcome] : "unknown";
}

void neap_request_init(neap_request *request, const neap_graph *graph, const char *method)
{
    *request = (neap_request){.graph = graph, .method = method, .budget = -1, .alignment = 1};
}

/* ---- Options ---- */

static neap_status set_choice(const neap_option *option, const char *value, double *result,
                              neap_diag *diag)
{
    size_t length = strlen(value);
    double index = 0;
    for (const char *at = option->choices; at; index++) {
        const char *end = strchr(at, '|');
        size_t size = end ? (size_t)(end - at) : strlen(at);
        if (size == length && memcmp(at, value, length) == 0) {
            *result = index;
            return NEAP_OK;
        }
        at = end ? end + 1 : NULL;
    }
    return neap_fail(diag, NEAP_INVALID, "option %s is one of %s, not \"%s\"", option->name,
                     option->choices, value);
}

static neap_status set_number(const neap_option *option, const char *value, double *result,
                              neap_diag *diag)
{
    const char *end = value;
    double number = 0;
    bool is_number = neap_json_parse_number(value, &end, &number);
    bool whole = option->type != NEAP_OPTION_INTEGER || number == floor(number);
    if (!is_number || *end || !isfinite(number) || !whole || number < option->least ||
        number > option->most)
        return neap_fail(diag, NEAP_INVALID,
                         "option %s takes a%s number from %.15g to %.15g, not \"%s\"", option->name,
                         option->type == NEAP_OPTION_INTEGER ? " whole" : "", option->least,
                         option->most, value);
    *result = number;
    return NEAP_OK;
}

static neap_status set_option(const neap_method *method, const neap_option_setting *setting,
                              double *values, neap_diag *diag)
{
    for (uint32_t i = 0; i < method->n_options; i++) {
        const neap_option *option = &method->options[i];
        if (strcmp(option->name, setting->name) != 0)
            continue;
        return option->type == NEAP_OPTION_CHOICE
                   ? set_choice(option, setting->value, &values[i], diag)
                   : set_number(option, setting->value, &values[i], diag);
    }
    return neap_fail(diag, NEAP_INVALID,
                     "method %s has no option \"%s\"; `neap methods %s` lists them", method->name,
                     setting->name, method->name);
}

static void set_defaults(const neap_method *method, double *values)
{
    for (uint32_t i = 0; i < method->n_options; i++)
        values[i] =
            method->options[i].type == NEAP_OPTION_CHOICE ? 0 : method->options[i].default_value;
}

static neap_status set_options(const neap_method *method, const neap_request *request,
                               double *values, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    set_defaults(method, values);
    for (uint32_t i = 0; i < request->n_options && status == NEAP_OK; i++)
        status = set_option(method, &request->options[i], values, diag);
    return status;
}

static neap_status check_request(const neap_request *request, const neap_method **method,
                                 neap_diag *diag)
{
    *method = neap_methods_find(request->method);
    if (!*method) {
        const char *near = neap_methods_nearest(request->method);
        return neap_fail(
            diag, NEAP_INVALID, "there is no method \"%s\"%s%s%s; `neap methods` lists them",
            request->method, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
    if (request->budget == 0 || request->budget < -1)
        return neap_fail(diag, NEAP_INVALID,
                         "a budget of %" PRId64 " bytes: it must be positive, like 8GiB",
                         request->budget);
    bool linked = request->link.out_bandwidth > 0 && request->link.in_bandwidth > 0;
    if ((*method)->needs_link && !linked)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "method %s moves tensors to host memory and back and needs a link with "
                         "bandwidth both ways, such as --link 12.2GB/s or --link device",
                         request->method);
    bool constrained =
        request->objective != NEAP_LEAST_TIME || request->n_pins > 0 || request->start;
    if (constrained && !(*method)->takes_constraints)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "method %s takes no objective but time, no pins and no plan to start "
                         "from; method neap does",
                         request->method);
    if (!(request->gap >= 0))
        return neap_fail(diag, NEAP_INVALID, "a gap is 0 or more, 0.01 for 1%%");
    if (!(request->time_limit >= 0))
        return neap_fail(diag, NEAP_INVALID, "a time limit is 0 (none) or more seconds");
    if (request->alignment < 1)
        return neap_fail(diag, NEAP_INVALID, "an alignment is 1 or more bytes");
    return NEAP_OK;
}

neap_status neap_planner_run_method(const planner *p, const char *name, draft *d, neap_diag *diag)
{
    const neap_method *method = neap_methods_find(name);
    double *options;
    neap_status status = NEAP_NEW(p->allocator, method->n_options, &options, diag);
    if (status != NEAP_OK)
        return status;
    set_defaults(method, options);
    planner part = *p;
    part.options = options;
    part.as_part = true;
    status = method->plan(&part, d, diag);
    NEAP_DELETE(p->allocator, method->n_options, options);
    return status;
}

void neap_planner_clear_draft(const planner *p, draft *d)
{
    neap_plan_destroy(d->plan);
    d->plan = NULL;
    NEAP_DELETE(p->allocator, d->extra_capacity, d->extras);
    d->extras = NULL;
    d->extra_capacity = d->n_extras = 0;
    neap_arena_clear(&d->arena);
}

/* ---- Verification ---- */

/* Judges the draft's plan without a budget and compares with what the method promised. */
static neap_status judge(const planner *p, const draft *d, neap_verdict *verdict, neap_diag *diag)
{
    neap_check_options options;
    neap_check_options_init(&options);
    options.budget = INT64_MAX;
    options.link = &p->request->link;
    neap_status status = neap_check(p->allocator, p->graph, d->plan, &options, verdict, diag);
    if (status != NEAP_OK)
        return status;
    if (!verdict->accepted)
        return neap_fail(diag, NEAP_INTERNAL, "method %s made a plan that the judge rejects: %s",
                         p->request->method, verdict->reason);
    if (verdict->peak_bytes != d->predicted_peak || verdict->ticks != d->predicted_ticks)
        return neap_fail(diag, NEAP_INTERNAL,
                         "method %s predicts a peak of %" PRId64 " bytes and %" PRId64
                         " ticks, the judge finds %" PRId64 " and %" PRId64,
                         p->request->method, d->predicted_peak, d->predicted_ticks,
                         verdict->peak_bytes, verdict->ticks);
    return NEAP_OK;
}

/* ` (op "conv5_bw")`, or "" for NEAP_NONE. */
static void name_op(const neap_graph *graph, uint32_t op, char *text, size_t capacity)
{
    const char *name = op == NEAP_NONE ? "" : neap_graph_op(graph, op)->name;
    text[0] = '\0';
    if (op != NEAP_NONE)
        snprintf(text, capacity, " (op \"%.*s\")", (int)neap_utf8_clip(name, 100), name);
}

static void write_shortage(const planner *p, neap_solution *solution)
{
    const neap_figures *f = &solution->figures;
    const char *reason = solution->draft.reason;
    char budget[32], least[32], lowest[32], op[128], floor_op[128];
    neap_bytes_format(p->budget, budget, sizeof budget);
    neap_bytes_format(f->least_budget, least, sizeof least);
    neap_bytes_format(f->floor_bytes, lowest, sizeof lowest);
    name_op(p->graph, f->blocking_op, op, sizeof op);
    name_op(p->graph, f->floor_op, floor_op, sizeof floor_op);
    if (f->floor_op == NEAP_NONE)
        snprintf(floor_op, sizeof floor_op, " (the outputs)");
    snprintf(solution->message, sizeof solution->message,
             "%s%sbudget %s is below the least %s can do, %s%s; no method can do less than %s%s",
             reason ? reason : "", reason ? "; " : "", budget, p->request->method,
             f->least_budget < 0 ? "unknown" : least, op, lowest, floor_op);
    neap_string_clean(solution->message);
}

static void explain_infeasible(const planner *p, neap_solution *solution,
                               const neap_verdict *verdict)
{
    neap_figures *f = &solution->figures;
    f->outcome = NEAP_INFEASIBLE;
    if (solution->draft.least_budget > 0)
        f->least_budget = solution->draft.least_budget;
    else if (verdict)
        f->least_budget = verdict->peak_bytes;
    if (verdict && verdict->peak_step < neap_plan_step_count(solution->draft.plan)) {
        const neap_step *step = &neap_plan_steps(solution->draft.plan)[verdict->peak_step];
        if (step->kind == NEAP_COMPUTE)
            f->blocking_op = step->id;
    } else if (solution->draft.has_blocking_op) {
        f->blocking_op = solution->draft.blocking_op;
    }
    write_shortage(p, solution);
    neap_plan_destroy(solution->draft.plan);
    solution->draft.plan = NULL;
}

/* ---- Addresses ---- */

/* Lays a draft's plan out. *fits: the arena does not exceed the budget. */
static neap_status lay_out(const planner *p, const draft *d, bool *fits, neap_diag *diag)
{
    neap_layout_options options;
    neap_layout_options_init(&options);
    options.alignment = p->request->alignment;
    options.progress = p->request->progress;
    options.target = p->request->budget;
    neap_status status = neap_layout_assign(p->allocator, p->graph, d->plan, &options, diag);
    *fits = status == NEAP_OK && neap_plan_arena_bytes(d->plan) <= p->budget;
    return status;
}

/* What one more planning, within fewer bytes, came to. */
typedef struct attempt {
    int64_t allowed;        /* live bytes */
    const neap_plan *start; /* the plan so far, to begin with */
    draft draft;
    bool found, fits; /* a plan of so few live bytes; its arena, too */
} attempt;

static neap_status plan_within(const planner *p, attempt *a, neap_diag *diag)
{
    neap_request request = *p->request;
    planner tighter = *p;
    tighter.budget = a->allowed;
    tighter.request = &request;
    if (neap_methods_find(request.method)->takes_constraints)
        request.start = a->start;
    if (request.time_limit > 0) { /* half of what is left: the next one may be needed, too */
        double spent = neap_clock_seconds() - p->started;
        request.time_limit = spent + (request.time_limit - spent) / 2;
    }
    neap_arena_init(&a->draft.arena, p->allocator);
    a->draft.bound_ticks = a->draft.least_budget = -1;
    neap_status status = neap_methods_find(p->request->method)->plan(&tighter, &a->draft, diag);
    if (status != NEAP_OK || !a->draft.plan)
        return status;
    neap_verdict verdict;
    status = judge(p, &a->draft, &verdict, diag);
    a->found = status == NEAP_OK && verdict.peak_bytes <= a->allowed;
    return a->found ? lay_out(p, &a->draft, &a->fits, diag) : status;
}

/* Takes an attempt's plan. What was proven of the budget by the first planning stays; what was
   proven of fewer bytes says nothing about it. */
static void adopt(const planner *p, draft *first, attempt *a)
{
    draft d = a->draft;
    d.bound_ticks = first->bound_ticks;
    bool fastest = first->proven_optimal && p->request->objective == NEAP_LEAST_TIME;
    if (fastest && first->predicted_ticks > d.bound_ticks)
        d.bound_ticks = first->predicted_ticks;
    d.proven_optimal = false;
    d.scope = first->scope;
    d.stopped = d.stopped || first->stopped;
    neap_planner_clear_draft(p, first);
    *first = d;
}

/* How often to plan again, and how much of a time limit goes to planning the first time. */
#define TIGHTENINGS 5
#define FIRST_SHARE 0.7
#define LONG_SHARE  0.9 /* where a plan to start from makes the next one quick */

/*
 * The addresses of the first plan take more than the budget: plans again, within as many bytes less
 * as were missing, until the addresses fit. Where a method has no plan that small, halfway back.
 */
static neap_status tighten(const planner *p, draft *first, int64_t *allowed, neap_diag *diag)
{
    int64_t most = first->predicted_peak, least = neap_graph_floor_bytes(p->graph, NULL) - 1;
    int64_t arena = neap_plan_arena_bytes(first->plan);
    neap_status status = neap_plan_set_offsets(first->plan, NULL, 0, -1, diag); /* no good */
    *allowed = -1;
    for (int i = 0;
         status == NEAP_OK && i < TIGHTENINGS && *allowed < 0 && !neap_planner_stopped(p); i++) {
        attempt a = {.allowed = most - (arena - p->budget), .start = first->plan};
        if (a.allowed <= least)
            a.allowed = least + (most - least) / 2;
        if (a.allowed <= least)
            break;
        status = plan_within(p, &a, diag);
        if (status == NEAP_OK && a.fits) {
            *allowed = a.allowed;
            adopt(p, first, &a);
            break;
        }
        if (a.found) {
            most = a.draft.predicted_peak;
            arena = neap_plan_arena_bytes(a.draft.plan);
        } else {
            least = a.allowed;
        }
        neap_planner_clear_draft(p, &a.draft);
        if (status != NEAP_OK)
            break;
    }
    return status;
}

/* A budget is one on the arena: tightens the plan until its addresses fit; if that fails it goes
   without. */
static neap_status give_addresses(const planner *p, neap_solution *solution, neap_diag *diag)
{
    draft *d = &solution->draft;
    char peak_text[32], arena_text[32], budget_text[32];
    bool fits;
    neap_status status = lay_out(p, d, &fits, diag);
    if (status != NEAP_OK || fits)
        return status;
    int64_t peak = d->predicted_peak, arena = neap_plan_arena_bytes(d->plan), allowed;
    status = tighten(p, d, &allowed, diag);
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

static void set_bound(const planner *p, neap_solution *solution)
{
    const draft *d = &solution->draft;
    if (d->bound_ticks <= neap_graph_least_ticks(p->graph))
        return;
    solution->figures.bound_time = neap_graph_seconds(p->graph, d->bound_ticks);
    solution->figures.bound_scope = d->scope ? d->scope : "any";
}

static void set_figures(const planner *p, neap_solution *solution, const neap_verdict *verdict)
{
    const draft *d = &solution->draft;
    neap_figures *f = &solution->figures;
    set_bound(p, solution);
    if (verdict->has_arena)
        f->arena_bytes = verdict->arena_bytes;
    f->peak_bytes = verdict->peak_bytes;
    f->time = verdict->time;
    f->overhead = f->base_time > 0 ? verdict->time / f->base_time - 1 : 0;
    f->gap = f->bound_time > 0 ? verdict->time / f->bound_time - 1 : 0;
    f->recomputed_ops = verdict->recomputed_ops;
    f->offloaded_bytes = verdict->offloaded_bytes;
    bool best = d->proven_optimal;
    if (p->request->objective == NEAP_LEAST_PEAK)
        best = best || verdict->peak_bytes <= f->floor_bytes;
    else
        best = best || verdict->ticks == neap_graph_least_ticks(p->graph) ||
               (d->bound_ticks >= 0 && verdict->ticks <= d->bound_ticks);
    if (best)
        f->outcome = NEAP_OPTIMAL;
}

static neap_status verify(const planner *p, neap_solution *solution, neap_diag *diag)
{
    draft *d = &solution->draft;
    set_bound(p, solution);
    if (!d->plan) {
        if (!d->stopped)
            explain_infeasible(p, solution, NULL);
        return NEAP_OK;
    }
    neap_verdict verdict;
    neap_status status = judge(p, d, &verdict, diag);
    if (status != NEAP_OK)
        return status;
    if (verdict.peak_bytes > p->budget) {
        explain_infeasible(p, solution, &verdict);
        return NEAP_OK;
    }
    status = give_addresses(p, solution, diag);
    if (status == NEAP_OK)
        status = judge(p, d, &verdict, diag);
    if (status == NEAP_OK)
        set_figures(p, solution, &verdict);
    return status;
}

/* The first planning leaves some of the time for addresses that do not fit. */
static neap_status plan_first(const planner *p, const neap_method *method, draft *d,
                              neap_diag *diag)
{
    neap_request request = *p->request;
    planner first = *p;
    first.request = &request;
    if (p->budget < INT64_MAX)
        request.time_limit *= method->takes_constraints ? LONG_SHARE : FIRST_SHARE;
    return method->plan(&first, d, diag);
}

static neap_outcome stop_reason(const planner *p)
{
    neap_progress *progress = p->request->progress;
    bool cancelled = progress && progress->cancelled && progress->cancelled(progress);
    return cancelled ? NEAP_INTERRUPTED : NEAP_TIME_LIMIT;
}

/* The last word to who listens, however lately it heard. */
static void report_end(const planner *p, const neap_figures *f)
{
    neap_progress *progress = p->request->progress;
    const neap_progress_event event = {.phase = p->request->method,
                                       .fraction = 1,
                                       .seconds = f->solve_seconds,
                                       .best_time = f->time,
                                       .bound_time = f->bound_time};
    if (progress && progress->report)
        progress->report(progress, &event);
}

neap_status neap_solve(neap_allocator *allocator, const neap_request *request,
                       neap_solution **result, neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    const neap_method *method;
    neap_solution *solution = NULL;
    double *options = NULL;
    *result = NULL;
    neap_status status = check_request(request, &method, diag);
    if (status != NEAP_OK)
        return status;
    double reported = -1; /* not yet */
    planner p = {.allocator = allocator,
                 .reported = &reported,
                 .request = request,
                 .graph = request->graph,
                 .budget = request->budget < 0 ? INT64_MAX : request->budget,
                 .started = neap_clock_seconds()};
    status = NEAP_NEW(allocator, method->n_options, &options, diag);
    if (status == NEAP_OK)
        status = set_options(method, request, options, diag);
    p.options = options;
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, 1, &solution, diag);
    if (status != NEAP_OK)
        goto done;

    solution->allocator = allocator;
    neap_arena_init(&solution->draft.arena, allocator);
    solution->draft.bound_ticks = solution->draft.least_budget = -1;
    solution->figures =
        (neap_figures){.outcome = NEAP_FEASIBLE,
                       .budget_bytes = request->budget,
                       .peak_bytes = -1,
                       .arena_bytes = -1,
                       .time = -1,
                       .base_time = neap_graph_seconds(p.graph, neap_graph_base_ticks(p.graph)),
                       .overhead = -1,
                       .bound_time = neap_graph_seconds(p.graph, neap_graph_least_ticks(p.graph)),
                       .bound_scope = "any",
                       .gap = -1,
                       .least_budget = -1,
                       .blocking_op = NEAP_NONE};
    solution->figures.floor_bytes = neap_graph_floor_bytes(p.graph, &solution->figures.floor_op);
    status = plan_first(&p, method, &solution->draft, diag);
    if (status == NEAP_OK) {
        if (solution->draft.stopped)
            solution->figures.outcome = stop_reason(&p);
        status = verify(&p, solution, diag);
    }
    solution->figures.solve_seconds = neap_clock_seconds() - p.started;
    if (status == NEAP_OK)
        report_end(&p, &solution->figures);
done:
    NEAP_DELETE(allocator, method->n_options, options);
    if (status == NEAP_OK)
        *result = solution;
    else
        neap_solution_destroy(solution);
    return status;
}

/* ---- The solution ---- */

void neap_solution_destroy(neap_solution *solution)
{
    if (!solution)
        return;
    neap_allocator *allocator = solution->allocator;
    neap_plan_destroy(solution->draft.plan);
    NEAP_DELETE(allocator, solution->draft.extra_capacity, solution->draft.extras);
    neap_arena_clear(&solution->draft.arena);
    NEAP_DELETE(allocator, 1, solution);
}

const neap_figures *neap_solution_figures(const neap_solution *solution)
{
    return &solution->figures;
}

const neap_plan *neap_solution_plan(const neap_solution *solution)
{
    return solution->draft.plan;
}

uint32_t neap_solution_extra_count(const neap_solution *solution)
{
    return solution->draft.n_extras;
}

const neap_extra *neap_solution_extra_at(const neap_solution *solution, uint32_t index)
{
    return index < solution->draft.n_extras ? &solution->draft.extras[index] : NULL;
}

const char *neap_solution_shortage(const neap_solution *solution)
{
    return solution->draft.reason ? solution->draft.reason : "";
}

const char *neap_solution_message(const neap_solution *solution)
{
    return solution->message;
}

neap_status neap_natural_peak(neap_allocator *allocator, const neap_graph *graph, int64_t *peak,
                              neap_diag *diag)
{
    uint32_t n_ops = neap_graph_op_count(graph), *sequence;
    neap_plan *plan = NULL;
    neap_verdict verdict;
    allocator = neap_allocator_or_system(allocator);
    neap_status status = NEAP_NEW(allocator, n_ops, &sequence, diag);
    if (status != NEAP_OK)
        return status;
    for (uint32_t o = 0; o < n_ops; o++)
        sequence[o] = o;
    status = neap_plan_from_sequence(allocator, graph, sequence, n_ops, NULL, "natural", -1, &plan,
                                     diag);
    NEAP_DELETE(allocator, n_ops, sequence);
    if (status == NEAP_OK)
        status = neap_check(allocator, graph, plan, NULL, &verdict, diag);
    if (status == NEAP_OK && !verdict.accepted)
        status =
            neap_fail(diag, NEAP_INTERNAL, "the natural order is rejected: %s", verdict.reason);
    if (status == NEAP_OK)
        *peak = verdict.peak_bytes;
    neap_plan_destroy(plan);
    return status;
}
