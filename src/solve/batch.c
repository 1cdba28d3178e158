/*
 * neap/batch.h: the largest batch within a budget and a bounded cost.
 *
 * Jain et al., "Checkmate" (2020), section 6.4. The cost constraint (10) is a target for each
 * solve; the batch is no variable of a program but searched from outside, so that every method can
 * be asked. Their estimate (11) tells where to look: most searches take two to eight solves. With
 * s store-all's largest batch and c the last of which no single op is over the budget, both found
 * without a solve, no search takes more than 2 + 4 log2(c - s).
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
    neap_request solve; /* of the method that is asked now */
    part_progress progress;
    neap_batch_result *result;
    double begun;
    int64_t ceiling; /* the least batch of which one op alone is over the budget; most + 1: none */
    int64_t low;     /* the largest batch that fits; least - 1: none yet */
    int64_t high;    /* the least above it that does not; `ceiling` before any has failed */
    int64_t guess;   /* of the answer, by the last trial; none if not between low and high */
    int64_t scanned; /* batches from high up to this one were tried */
    double base;     /* bytes taken before the first op, at the last trial */
    int64_t failed;  /* the last batch that took too much memory, and how much; 0: none */
    double failed_needs;
    bool ended; /* out of time, or cancelled */
} search;

static neap_status check_request(const neap_batch_request *request, neap_diag *diag)
{
    if (request->least < 1 || request->least > request->most || request->most == INT64_MAX)
        return neap_fail(diag, NEAP_INVALID,
                         "batches from %" PRId64 " to %" PRId64
                         ": the range begins at 1 or more and is not empty",
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
 * Eq. (10): every op once, and extra_forward times the forward pass. In seconds as the judge's
 * times are, so that comparing them is comparing ticks. 0: no limit.
 */
static double target_of(const neap_batch_request *request, const neap_graph *graph)
{
    if (request->extra_forward < 0)
        return 0;
    int64_t forward = 0; /* no sum of times overflows: the graph is valid */
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        const neap_op *op = neap_graph_op(graph, o);
        if (op->pass == NEAP_FORWARD)
            forward += op->variants[0].ticks;
    }
    double extra = floor(request->extra_forward * (double)forward);
    double ticks = (double)neap_graph_base_ticks(graph) + extra;
    return ticks < 0x1p62 ? neap_graph_seconds(graph, (int64_t)ticks) : 0;
}

/* What a solve says of its batch. */
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

/* ---- A guess at the answer ---- */

/*
 * Eq. (11) is (budget - F) / (M@b - F) times b, where F is what does not grow with the batch and
 * M@b what the method needs at b: the peak of its plan, or the least it can do if that is too much.
 * F is taken to be what lies there before the first op; with parameters' gradients missing, the
 * guess is rather too large. Two batches that are too large tell F as well: then it is the zero of
 * a line. (Plans that fit are of different kinds, and on no line.)
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
        return s->low + 1; /* it leads to what is known to fit: the next one is worth a look */
    return guess < (double)s->high ? (int64_t)fmax(guess, 0) : s->high;
}

static bool can_guess(const search *s)
{
    return s->guess > s->low && s->guess < s->high;
}

/* After a batch that fits: is the guess far above? Else the method has made use of the budget, and
   its peak tells nothing of larger batches. */
static bool is_leap(const search *s)
{
    return can_guess(s) && s->guess - s->low >= (s->high - s->low) / 8;
}

/* ---- One trial after another ---- */

/* Builds and solves one batch; *solution has its plan where it fits and is NULL otherwise. A batch
   of which one op alone is over the budget is not solved. */
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
    bool over = neap_graph_floor_bytes(graph, NULL) > s->solve.budget;
    s->base = (double)neap_graph_base_bytes(graph);
    t->target_time = target_of(request, graph);
    t->peak_bytes = t->least_budget = -1;
    t->time = t->overhead = -1;
    t->solved = !over;
    t->outcome = NEAP_INFEASIBLE;
    if (t->solved) {
        s->solve.graph = graph;
        s->solve.target_time = t->target_time;
        s->solve.time_limit = t->time_limit;
        snprintf(s->progress.part, sizeof s->progress.part, "batch %" PRId64, t->batch);
        status = neap_solve(s->allocator, &s->solve, solution, diag);
    }
    if (status == NEAP_OK && t->solved)
        judge_trial(neap_solution_figures(*solution), neap_solution_plan(*solution) != NULL, t);
    if (over) {
        t->verdict = NEAP_BATCH_NO_MEMORY;
        t->proof = NEAP_BATCH_OF_ALL;
    }
    if (*solution && t->verdict != NEAP_BATCH_FITS) {
        neap_solution_destroy(*solution);
        *solution = NULL;
    }
    neap_graph_destroy(graph);
    t->seconds = neap_clock_seconds() - begun;
    return status;
}

static bool cancelled(const search *s)
{
    neap_progress *progress = s->request->solve.progress;
    return progress && progress->cancelled && progress->cancelled(progress);
}

static double seconds_left(const search *s)
{
    return s->request->time_limit - (neap_clock_seconds() - s->begun);
}

/* How many more trials bisection would take. */
static double trials_left(const search *s)
{
    return fmax(1, ceil(log2((double)(s->high - s->low))));
}

/* The time of the next trial if it is one of `count`, 0 for no limit. */
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

/* The least batch above s->low that was tried in vain, or the ceiling. */
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

/* Tries a batch, notes the trial and moves the interval. */
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
    result->interrupted = trial.outcome == NEAP_INTERRUPTED || cancelled(s);
    bool late = s->request->time_limit > 0 && seconds_left(s) <= 0;
    s->ended = result->interrupted || late;
    return NEAP_OK;
}

/*
 * Tries the guess, and if that fits the next batch, which should not; or else the middle of the
 * interval. After three guesses it is the middle's turn, so that methods for which guesses are no
 * good take four times as many trials as bisection at most.
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
 * The answer lies between two batches that are cheap to find, and often is one of them: store-all's
 * largest, `first`, and the last below the ceiling. Good methods reach that one and are done, so it
 * has a quarter of the time. Store-all itself is done after `first`, but for the proof.
 */
static neap_status close_interval(search *s, int64_t first, bool is_store_all, neap_diag *diag)
{
    neap_status status = step(s, first, share_of_time(s, trials_left(s) + 2), diag);
    if (is_store_all)
        s->guess = first + 1;
    else if (s->low == first && !is_leap(s))
        s->guess = 0;
    if (status == NEAP_OK && !s->ended && s->low == first && s->low + 1 < s->high && !can_guess(s))
        status = step(s, s->high - 1, share_of_time(s, 4), diag);
    return status == NEAP_OK ? narrow(s, diag) : status;
}

/* ---- After that ---- */

/* The batch above the answer was stopped, and there is time left for a longer look at it. */
static bool deserves_another(const search *s)
{
    const neap_batch_trial *t = trial_of(s->result, s->high);
    bool limited = s->request->time_limit > 0 && t && t->time_limit > 0;
    return limited && !s->ended && t->verdict == NEAP_BATCH_STOPPED &&
           share_of_time(s, 1) > 1.1 * t->time_limit;
}

/* The last batch that `beyond` lets be tried. */
static int64_t last_beyond(const search *s)
{
    int64_t most = s->request->most, reach = s->request->beyond;
    return reach > most - s->high ? most : s->high + reach;
}

/* The next batch past the answer that is untried and might work; 0: none. */
static int64_t untried_beyond(search *s)
{
    int64_t end = last_beyond(s);
    if (s->scanned < s->high)
        s->scanned = s->high;
    for (; s->scanned <= end; s->scanned++) {
        const neap_batch_trial *t = trial_of(s->result, s->scanned);
        if (!t)
            return s->scanned;
        if (t->proof == NEAP_BATCH_OF_ALL)
            return 0;
    }
    return 0;
}

static neap_status search_all(search *s, int64_t first, bool is_store_all, neap_diag *diag)
{
    neap_status status = close_interval(s, first, is_store_all, diag);
    while (status == NEAP_OK && !s->ended && s->high <= s->request->most) {
        int64_t low = s->low, beyond;
        if (deserves_another(s))
            status = step(s, s->high, share_of_time(s, 1), diag);
        else if ((beyond = untried_beyond(s)) > 0)
            status = step(s, beyond, share_of_time(s, (double)(last_beyond(s) - beyond + 1)), diag);
        else
            break;
        if (status == NEAP_OK && s->low > low)
            status = narrow(s, diag);
    }
    return status;
}

/* ---- Where to begin ---- */

/* Does a batch fail for a reason that all larger ones share? */
typedef neap_status excluding(const search *s, const neap_graph *graph, bool *fails,
                              neap_diag *diag);

static neap_status is_over(const search *s, const neap_graph *graph, bool *fails, neap_diag *diag)
{
    (void)diag;
    *fails = neap_graph_floor_bytes(graph, NULL) > s->solve.budget;
    return NEAP_OK;
}

static bool has_variants(const neap_graph *graph)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (neap_graph_op(graph, o)->n_variants > 1)
            return true;
    return false;
}

/* Store-all takes the natural order. Where ops have leaner variants it is asked itself. */
static neap_status is_too_much(const search *s, const neap_graph *graph, bool *fails,
                               neap_diag *diag)
{
    int64_t peak = 0;
    neap_solution *solution = NULL;
    neap_status status = neap_natural_peak(s->allocator, graph, &peak, diag);
    *fails = peak > s->solve.budget;
    if (status != NEAP_OK || !*fails || !has_variants(graph))
        return status;
    neap_request request = s->solve;
    neap_batch_trial trial = {.target_time = target_of(s->request, graph)};
    request.graph = graph;
    request.method = "store-all";
    request.n_options = request.n_pins = 0; /* it keeps everything anyway */
    request.objective = NEAP_LEAST_TIME;
    request.start = NULL;
    request.time_limit = 0;
    status = neap_solve(s->allocator, &request, &solution, diag);
    if (status == NEAP_OK) {
        judge_trial(neap_solution_figures(solution), neap_solution_plan(solution) != NULL, &trial);
        *fails = trial.verdict != NEAP_BATCH_FITS;
    }
    neap_solution_destroy(solution);
    return status;
}

static neap_status ask(const search *s, excluding *reason, int64_t batch, bool *fails,
                       neap_diag *diag)
{
    neap_graph *graph = NULL;
    *fails = false;
    neap_status status = s->request->graph_of(s->request->context, batch, &graph, diag);
    if (status == NEAP_OK)
        status = reason(s, graph, fails, diag);
    neap_graph_destroy(graph);
    return status;
}

/* The least batch from request->least on that fails, or `end`; by doubling and bisection. */
static neap_status find_first(const search *s, excluding *reason, int64_t end, int64_t *first,
                              neap_diag *diag)
{
    int64_t below = s->request->least - 1, next = s->request->least, above = end;
    neap_status status = NEAP_OK;
    bool doubling = true;
    while (status == NEAP_OK && below + 1 < above) {
        bool fails;
        status = ask(s, reason, next, &fails, diag);
        *(fails ? &above : &below) = next;
        doubling = doubling && !fails && next < end / 2;
        next = doubling ? 2 * next : below + (above - below) / 2;
    }
    *first = above;
    return status;
}

/* ---- The call ---- */

static void begin(search *s)
{
    const neap_batch_request *request = s->request;
    s->begun = neap_clock_seconds();
    s->low = request->least - 1;
    s->solve = request->solve;
    neap_part_progress_init(&s->progress, request->solve.progress, s->begun);
    s->solve.progress = &s->progress.base;
}

static void conclude(search *s)
{
    neap_batch_result *result = s->result;
    const neap_batch_trial *next = trial_of(result, s->low + 1);
    result->batch = s->low < s->request->least ? 0 : s->low;
    result->next = next ? next->verdict : NEAP_BATCH_STOPPED;
    result->proof = next ? next->proof : NEAP_BATCH_UNPROVEN;
    result->seconds = neap_clock_seconds() - s->begun;
}

neap_status neap_batch_search(neap_allocator *allocator, const neap_batch_request *request,
                              neap_batch_result *result, neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    *result = (neap_batch_result){.allocator = allocator};
    search s = {.allocator = allocator, .request = request, .result = result};
    int64_t first = 0;
    neap_status status = check_request(request, diag);
    if (status != NEAP_OK)
        return status;
    begin(&s);
    status = find_first(&s, is_over, request->most + 1, &s.ceiling, diag);
    s.high = s.ceiling;
    if (status == NEAP_OK)
        status = find_first(&s, is_too_much, s.ceiling, &first, diag);
    if (status == NEAP_OK && s.ceiling > request->least && s.ceiling <= request->most)
        status = step(&s, s.ceiling, 0, diag); /* for the record: nothing is solved */
    bool none = first == request->least, is_store_all = strcmp(s.solve.method, "store-all") == 0;
    result->store_all = none ? 0 : first - 1;
    if (status == NEAP_OK)
        status = search_all(&s, none ? first : first - 1, is_store_all, diag);
    conclude(&s);
    if (status != NEAP_OK) {
        neap_batch_result_clear(result);
        *result = (neap_batch_result){.allocator = allocator};
    }
    return status;
}

void neap_batch_result_clear(neap_batch_result *result)
{
    neap_solution_destroy(result->solution);
    NEAP_DELETE(result->allocator, result->trial_capacity, result->trials);
    *result = (neap_batch_result){.allocator = result->allocator};
}
