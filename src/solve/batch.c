/*
 * neap/batch.h: the largest batch within a budget and a bounded cost.
 *
 * Jain et al., "Checkmate" (2020), section 6.4. The cost constraint (10) is the target time of each
 * solve. The batch is not a variable of a program but searched from outside, so that every method
 * can be used. Their estimate (11) guides the search: most searches take two to eight solves. Let s
 * be the largest batch of store-all and c the largest at which no single op exceeds the budget,
 * both found without a solve. No search takes more than 2 + 4 log2(c - s) solves.
 */
#include <neap/batch.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "planners/common/planner.h"
#include "solve/part_progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void neap_batch_request_init(neap_batch_request *request, neap_batch_graph *graph_of, void *context,
                             const char *method)
{
    *request = (neap_batch_request){.graph_of = graph_of,
                                    .context = context,
                                    .extra_forward = 1,
                                    .least = 1,
                                    .most = INT64_C(1) << 20};
    neap_request_init(&request->solve, NULL, method);
}

const char *neap_batch_verdict_name(neap_batch_verdict verdict)
{
    static const char *const names[] = {"fits", "no_memory", "too_slow", "stopped"};
    return (size_t)verdict < 4 ? names[verdict] : "unknown";
}

const char *neap_batch_proof_name(neap_batch_proof proof)
{
    static const char *const names[] = {"no", "method", "all"};
    return (size_t)proof < 3 ? names[proof] : "unknown";
}

/* ---- The search ---- */

typedef struct search {
    neap_allocator *allocator;
    const neap_batch_request *request;
    neap_request solve; /* with the progress of the search; graph and limits set for each trial */
    part_progress progress;
    neap_batch_result *result;
    double started;
    int64_t ceiling;     /* the smallest batch at which one op exceeds the budget; else most + 1 */
    int64_t low;         /* the largest batch that fits; least - 1: none yet */
    int64_t high;        /* the smallest one above that does not; `ceiling` until one has failed */
    int64_t guess;       /* of the answer, from the last trial; valid only between low and high */
    double base;         /* bytes in use before the first op, in the last trial */
    int64_t failed;      /* the last batch that needed too much memory; 0: none */
    double failed_needs; /* the bytes that it needed */
    bool ended;          /* timed out or cancelled */
} search;

static neap_status check_request(const neap_batch_request *request, neap_diag *diag)
{
    if (request->least < 1 || request->least > request->most || request->most == INT64_MAX)
        return neap_fail(diag, NEAP_INVALID,
                         "batches from %" PRId64 " to %" PRId64
                         ": the range must start at 1 or more and not be empty",
                         request->least, request->most);
    if (request->solve.budget < 1)
        return neap_fail(diag, NEAP_INVALID, "the largest batch needs a budget, like 16GB");
    if (!isfinite(request->extra_forward))
        return neap_fail(diag, NEAP_INVALID,
                         "the extra cost is a number of forward passes, negative for no limit");
    if (!(request->time_limit >= 0))
        return neap_fail(diag, NEAP_INVALID, "a time limit is 0 (none) or more seconds");
    return NEAP_OK;
}

/*
 * Eq. (10): the time of every op once plus extra_forward forward passes; 0: no limit. It is
 * computed from ticks like the times of the judge, so that comparing seconds compares ticks
 * exactly.
 */
static double target_of(const neap_batch_request *request, const neap_graph *graph)
{
    if (request->extra_forward < 0)
        return 0;
    int64_t forward = 0; /* cannot overflow: the graph is valid */
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        const neap_op *op = neap_graph_op(graph, o);
        if (op->pass == NEAP_FORWARD)
            forward += op->variants[0].ticks;
    }
    double extra = floor(request->extra_forward * (double)forward);
    double ticks = (double)neap_graph_base_ticks(graph) + extra;
    return ticks < 0x1p62 ? neap_graph_seconds(graph, (int64_t)ticks) : 0;
}

/* Sets the verdict on a batch from the figures of its solve. */
static void judge_trial(const neap_figures *figures, bool has_plan, neap_batch_trial *t)
{
    bool limited = t->target_time > 0, of_all = figures->bound_scope == NEAP_SCOPE_ANY;
    bool stopped = figures->outcome == NEAP_TIME_LIMIT || figures->outcome == NEAP_INTERRUPTED;
    t->outcome = figures->outcome;
    t->least_budget = has_plan ? -1 : figures->least_budget;
    if (has_plan) {
        t->peak_bytes = figures->peak_bytes;
        t->time = figures->time;
        t->overhead = figures->overhead;
    }
    if (has_plan && (!limited || figures->time <= t->target_time)) {
        t->verdict = NEAP_BATCH_FITS;
    } else if (limited && (figures->bound_time > t->target_time ||
                           (has_plan && figures->outcome == NEAP_OPTIMAL))) {
        t->verdict = NEAP_BATCH_TOO_SLOW;
        t->proof = of_all ? NEAP_BATCH_OF_ALL : NEAP_BATCH_OF_METHOD;
    } else if (stopped) {
        t->verdict = NEAP_BATCH_STOPPED;
    } else {
        t->verdict = has_plan ? NEAP_BATCH_TOO_SLOW : NEAP_BATCH_NO_MEMORY;
        t->proof = NEAP_BATCH_OF_METHOD;
    }
}

/* ---- Estimating the answer ---- */

/*
 * Eq. (11) is b (budget - F) / (M@b - F), where F is the memory that does not grow with the batch
 * and M@b the memory that the method needs at b: the peak of its plan, or its least budget if it
 * has none. F is taken to be the memory in use before the first op. As that omits the gradients of
 * the parameters, the guess tends to be too large. Once two batches needed too much memory, the
 * line through both replaces that F. (Plans that fit differ in kind, so they are not on a line.)
 */
static int64_t guess_from(search *s, const neap_batch_trial *t)
{
    bool fits = t->verdict == NEAP_BATCH_FITS;
    double needed = (double)(fits ? t->peak_bytes : t->least_budget);
    if ((!fits && t->verdict != NEAP_BATCH_NO_MEMORY) || needed <= 0)
        return 0;
    double item = (needed - s->base) / (double)t->batch;
    if (!fits) {
        if (s->failed > 0 && s->failed != t->batch)
            item = (needed - s->failed_needs) / (double)(t->batch - s->failed);
        s->failed = t->batch;
        s->failed_needs = needed;
    }
    if (!(item > 0))
        return 0;
    double guess = (double)t->batch + floor(((double)s->solve.budget - needed) / item);
    if (!fits && guess <= (double)s->low)
        return s->low + 1; /* that one is known to fit, so try the next */
    return guess < (double)s->high ? (int64_t)fmax(guess, 0) : s->high;
}

static bool can_guess(const search *s)
{
    return s->guess > s->low && s->guess < s->high;
}

/* After a batch that fits: whether the guess is far above it. Otherwise the method has used up the
   budget, and its peak says nothing about larger batches. */
static bool is_leap(const search *s)
{
    return can_guess(s) && s->guess - s->low >= (s->high - s->low) / 8;
}

/* ---- Trials ---- */

/* Builds and solves one batch. *solution has its plan if it fits and is NULL otherwise. A batch at
   which one op exceeds the budget is not solved. */
static neap_status try_batch(search *s, neap_batch_trial *t, neap_solution **solution,
                             neap_diag *diag)
{
    const neap_batch_request *request = s->request;
    double begun = neap_clock_seconds();
    neap_graph *graph = NULL;
    *solution = NULL;
    neap_status status = request->graph_of(request->context, t->batch, &graph, diag);
    if (status != NEAP_OK)
        return status;
    s->base = (double)neap_graph_base_bytes(graph);
    t->target_time = target_of(request, graph);
    t->peak_bytes = t->least_budget = -1;
    t->time = t->overhead = -1;
    s->solve.graph = graph;
    t->solved = neap_request_live_floor(&s->solve, NULL) <= s->solve.budget;
    t->outcome = NEAP_INFEASIBLE;
    t->verdict = NEAP_BATCH_NO_MEMORY;
    t->proof = NEAP_BATCH_OF_ALL;
    if (t->solved) {
        t->proof = NEAP_BATCH_UNPROVEN;
        s->solve.target_time = t->target_time;
        s->solve.time_limit = t->time_limit;
        snprintf(s->progress.part, sizeof s->progress.part, "batch %" PRId64, t->batch);
        status = neap_solve(s->allocator, &s->solve, solution, diag);
    }
    if (status == NEAP_OK && t->solved)
        judge_trial(neap_solution_figures(*solution), neap_solution_plan(*solution) != NULL, t);
    if (*solution && t->verdict != NEAP_BATCH_FITS) {
        neap_solution_destroy(*solution);
        *solution = NULL;
    }
    neap_graph_destroy(graph);
    t->seconds = neap_clock_seconds() - begun;
    return status;
}

static double seconds_left(const search *s)
{
    return s->request->time_limit - (neap_clock_seconds() - s->started);
}

/* The number of further trials that bisection would take. */
static double trials_left(const search *s)
{
    return fmax(1, ceil(log2((double)(s->high - s->low))));
}

/* The time limit of the next of `count` trials; 0: none. */
static double share_of_time(const search *s, double count)
{
    double each = s->request->solve.time_limit;
    if (s->request->time_limit <= 0)
        return each;
    double share = fmax(seconds_left(s) / count, 1e-3);
    return each > 0 ? fmin(each, share) : share;
}

/* The last trial of a batch, or NULL. */
static const neap_batch_trial *trial_of(const neap_batch_result *result, int64_t batch)
{
    for (size_t i = result->n_trials; i-- > 0;)
        if (result->trials[i].batch == batch)
            return &result->trials[i];
    return NULL;
}

/* The smallest batch above s->low that failed, or the ceiling. */
static int64_t least_failed(const search *s)
{
    int64_t least = s->ceiling;
    for (size_t i = 0; i < s->result->n_trials; i++) {
        const neap_batch_trial *t = &s->result->trials[i];
        if (t->batch > s->low && t->batch < least)
            least = t->batch;
    }
    return least;
}

/* Tries a batch, records the trial and narrows the interval. */
static neap_status step(search *s, int64_t batch, double time_limit, neap_diag *diag)
{
    neap_batch_result *result = s->result;
    neap_batch_trial trial = {.batch = batch, .time_limit = time_limit};
    neap_solution *solution;
    neap_status status = NEAP_RESERVE(s->allocator, result->n_trials + 1, &result->trials,
                                      &result->trial_capacity, diag);
    if (status == NEAP_OK)
        status = try_batch(s, &trial, &solution, diag);
    if (status != NEAP_OK)
        return status;
    result->trials[result->n_trials++] = trial;
    result->n_solved += trial.solved;
    if (trial.verdict == NEAP_BATCH_FITS) {
        neap_solution_destroy(result->solution);
        result->solution = solution;
        s->low = batch;
        s->high = least_failed(s);
    } else if (batch < s->high) {
        s->high = batch;
    }
    s->guess = guess_from(s, &trial);
    neap_progress *progress = &s->progress.base;
    result->interrupted =
        trial.outcome == NEAP_INTERRUPTED || (progress->cancelled && progress->cancelled(progress));
    bool late = s->request->time_limit > 0 && seconds_left(s) <= 0;
    s->ended = result->interrupted || late;
    return NEAP_OK;
}

/*
 * Tries the guess and, if it fits, the next batch, which should not fit; without a guess, the
 * middle of the interval. After three guesses the middle is next, so that a method with bad guesses
 * takes at most four times as many trials as bisection.
 */
static neap_status narrow(search *s, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    int guesses = 0;
    while (status == NEAP_OK && !s->ended && s->low + 1 < s->high) {
        bool guessed = guesses < 3 && can_guess(s);
        int64_t next = guessed ? s->guess : s->low + (s->high - s->low) / 2;
        guesses = guessed ? guesses + 1 : 0;
        status = step(s, next, share_of_time(s, trials_left(s)), diag);
        if (s->low == next && guessed && !can_guess(s))
            s->guess = next + 1;
        else if (s->low == next && !guessed && !is_leap(s))
            s->guess = 0;
    }
    return status;
}

/*
 * The answer is between two batches that are cheap to find, and often equals one of them: `first`,
 * the largest of store-all, and the last one below the ceiling. Good methods reach the latter and
 * are then finished, so it gets a quarter of the time. Store-all itself only needs the proof at
 * first + 1.
 */
static neap_status close_interval(search *s, int64_t first, neap_diag *diag)
{
    neap_status status = step(s, first, share_of_time(s, trials_left(s) + 2), diag);
    if (strcmp(s->solve.method, "store-all") == 0)
        s->guess = first + 1;
    else if (s->low == first && !is_leap(s))
        s->guess = 0;
    if (status == NEAP_OK && !s->ended && s->low == first && s->low + 1 < s->high && !can_guess(s))
        status = step(s, s->high - 1, share_of_time(s, 4), diag);
    return status == NEAP_OK ? narrow(s, diag) : status;
}

/* ---- Beyond the answer ---- */

/* Whether the solve of the batch above the answer was stopped and time is left for a longer try. */
static bool can_retry(const search *s)
{
    const neap_batch_trial *t = trial_of(s->result, s->high);
    return s->request->time_limit > 0 && t && t->time_limit > 0 &&
           t->verdict == NEAP_BATCH_STOPPED && share_of_time(s, 1) > 1.1 * t->time_limit;
}

/* The next untried batch from the answer to `end` that no proof rules out; 0: none. */
static int64_t untried_beyond(const search *s, int64_t end)
{
    for (int64_t batch = s->high; batch <= end; batch++) {
        const neap_batch_trial *t = trial_of(s->result, batch);
        if (!t || t->proof == NEAP_BATCH_OF_ALL)
            return t ? 0 : batch;
    }
    return 0;
}

static neap_status search_all(search *s, int64_t first, neap_diag *diag)
{
    int64_t most = s->request->most, reach = s->request->beyond;
    neap_status status = close_interval(s, first, diag);
    while (status == NEAP_OK && !s->ended && s->high <= most) {
        int64_t end = reach > most - s->high ? most : s->high + reach;
        bool retry = can_retry(s);
        int64_t low = s->low, next = retry ? s->high : untried_beyond(s, end);
        if (next == 0)
            break;
        status = step(s, next, share_of_time(s, retry ? 1 : (double)(end - next + 1)), diag);
        if (status == NEAP_OK && s->low > low)
            status = narrow(s, diag);
    }
    return status;
}

/* ---- The initial interval ---- */

/* Whether store-all has no plan for a graph. It is the ordinary step; if that needs too much and
   ops have several variants or can run in place, a solve tells whether that helps. */
static neap_status store_all_fails(const search *s, const neap_graph *graph, bool *fails,
                                   neap_diag *diag)
{
    int64_t peak = 0;
    bool has_choice = false;
    neap_solution *solution = NULL;
    neap_status status = neap_natural_peak(s->allocator, graph, &peak, diag);
    *fails = peak > s->solve.budget;
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        has_choice = has_choice || neap_graph_op(graph, o)->n_variants > 1 ||
                     neap_graph_can_run_in_place(graph, o);
    if (status != NEAP_OK || !*fails || !has_choice)
        return status;
    neap_batch_trial trial = {.target_time = target_of(s->request, graph)};
    neap_request request = s->solve;
    request.graph = graph;
    request.method = "store-all";
    request.n_options = request.n_pins = 0; /* it keeps everything anyway */
    request.objective = NEAP_LEAST_TIME;
    request.start = NULL;
    request.state = NEAP_STATE_AUTO; /* which is on the device */
    request.time_limit = 0;
    status = neap_solve(s->allocator, &request, &solution, diag);
    if (status == NEAP_OK) {
        judge_trial(neap_solution_figures(solution), neap_solution_plan(solution) != NULL, &trial);
        *fails = trial.verdict != NEAP_BATCH_FITS;
    }
    neap_solution_destroy(solution);
    return status;
}

static bool is_below_floor(const search *s, const neap_graph *graph)
{
    neap_request request = s->solve;
    request.graph = graph;
    return s->solve.budget < neap_request_live_floor(&request, NULL);
}

/* The smallest batch from request->least on, and below `end`, that store-all cannot train or, if
   not `store_all`, at which one op exceeds the budget; else `end`. By doubling and bisection: all
   larger batches fail, too. */
static neap_status find_first(const search *s, bool store_all, int64_t end, int64_t *first,
                              neap_diag *diag)
{
    const neap_batch_request *request = s->request;
    int64_t below = request->least - 1, next = request->least, above = end;
    neap_status status = NEAP_OK;
    bool doubling = true;
    while (status == NEAP_OK && below + 1 < above) {
        neap_graph *graph = NULL;
        bool fails = false;
        status = request->graph_of(request->context, next, &graph, diag);
        if (status == NEAP_OK && store_all)
            status = store_all_fails(s, graph, &fails, diag);
        else if (status == NEAP_OK)
            fails = is_below_floor(s, graph);
        neap_graph_destroy(graph);
        *(fails ? &above : &below) = next;
        doubling = doubling && !fails && next < end / 2;
        next = doubling ? 2 * next : below + (above - below) / 2;
    }
    *first = above;
    return status;
}

/* ---- The call ---- */

neap_status neap_batch_search(neap_allocator *allocator, const neap_batch_request *request,
                              neap_batch_result *result, neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    *result = (neap_batch_result){.allocator = allocator};
    search s = {.allocator = allocator,
                .request = request,
                .solve = request->solve,
                .result = result,
                .started = neap_clock_seconds(),
                .low = request->least - 1};
    int64_t first = 0;
    neap_status status = check_request(request, diag);
    if (status != NEAP_OK)
        return status;
    neap_part_progress_init(&s.progress, request->solve.progress, s.started);
    s.solve.progress = &s.progress.base;
    status = find_first(&s, false, request->most + 1, &s.ceiling, diag);
    s.high = s.ceiling;
    if (status == NEAP_OK)
        status = find_first(&s, true, s.ceiling, &first, diag);
    if (status == NEAP_OK && s.ceiling > request->least && s.ceiling <= request->most)
        status = step(&s, s.ceiling, 0, diag); /* records the trial; nothing is solved */
    bool none = first == request->least;
    result->store_all = none ? 0 : first - 1;
    if (status == NEAP_OK)
        status = search_all(&s, none ? first : first - 1, diag);
    if (status != NEAP_OK) {
        neap_batch_result_clear(result);
        return status;
    }
    const neap_batch_trial *next = trial_of(result, s.low + 1);
    result->batch = s.low < request->least ? 0 : s.low;
    result->next = next ? next->verdict : NEAP_BATCH_STOPPED;
    result->proof = next ? next->proof : NEAP_BATCH_UNPROVEN;
    result->seconds = neap_clock_seconds() - s.started;
    return NEAP_OK;
}

void neap_batch_result_clear(neap_batch_result *result)
{
    neap_solution_destroy(result->solution);
    NEAP_DELETE(result->allocator, result->trial_capacity, result->trials);
    *result = (neap_batch_result){.allocator = result->allocator};
}
