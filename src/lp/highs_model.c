#include "lp/highs_model.h"

#include "base/arena.h"
#include "base/fail.h"
#include "base/memory.h"

#include <neap/text.h>

#include <float.h>
#include <math.h>

double neap_sparse_model_dual_bound(const sparse_model *m, const double *duals, double *reduced)
{
    double bound = 0, magnitude = 0;
    double *cost = reduced; /* reduced costs are needed for the bound in any case */
    for (size_t j = 0; j < m->n_columns; j++)
        cost[j] = m->cost[j];
    for (size_t r = 0; r < m->n_rows; r++) {
        double side = duals[r] > 0 ? m->row_lower[r] : m->row_upper[r];
        if (duals[r] == 0 || !isfinite(side) || !isfinite(duals[r]))
            continue; /* a multiplier of a side that does not exist proves nothing: leave it out */
        bound += duals[r] * side;
        magnitude += fabs(duals[r] * side);
        for (int32_t e = m->row_start[r]; e < m->row_start[r + 1]; e++) {
            cost[m->entry_column[e]] -= duals[r] * m->entry_value[e];
            magnitude += fabs(duals[r] * m->entry_value[e]);
        }
    }
    for (size_t j = 0; j < m->n_columns; j++) {
        double side = cost[j] > 0 ? m->lower[j] : m->upper[j];
        bound += cost[j] == 0 ? 0 : cost[j] * side;
        magnitude += fabs(m->cost[j]);
    }
    /* Every term went through a handful of roundings, and sums of up to 2^31 terms add theirs. All
       columns of our models lie in [0, 1], so the terms' magnitude bounds them all. */
    return bound - 64 * DBL_EPSILON * magnitude;
}

#if NEAP_HAS_HIGHS

#include "base/clock.h"
#include "base/left_behind.h"

#include <interfaces/highs_c_api.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>

const char *neap_highs_version(void)
{
    return Highs_version();
}

enum { LOG_ERROR = 5 }; /* HighsLogType::kError, which the C interface does not name */

/* How often is_over is asked, and how long HiGHS has then to end, in seconds. */
static const double POLL = 0.02, GRACE = 0.1;

/* What HiGHS knows of its model. It may outlive the model: then its thread releases it. */
typedef struct highs_line {
    pthread_mutex_t lock;
    pthread_cond_t turn;
    highs_model *model; /* NULL: left behind */
    void *highs;
    HighsInt status; /* of the run, */
    bool done;       /* once it has ended */
} highs_line;

struct highs_model {
    neap_allocator *allocator;
    highs_line *line; /* NULL: left behind */
    void *highs;      /* the line's */
    bool integers;    /* else the relaxation */
    size_t n_columns, n_rows, row_capacity;
    bool zero_fits; /* 0 lies within every row */
    const highs_watch *watch;
    neap_arena arena; /* of the next two, n_columns each */
    HighsInt *integrality;
    double *values;
    double *duals; /* row_capacity */
    thrd_t caller; /* the thread that runs HiGHS: progress is told from there only */
    bool was_stopped;
    char complaint[200]; /* HiGHS's last word on what is wrong; empty: none */
};

static neap_status solver_failed(const highs_model *h, const char *what, neap_diag *diag)
{
    return neap_fail(diag, NEAP_INTERNAL, "HiGHS could not %s: %s", what,
                     h->complaint[0] ? h->complaint : "it does not say why");
}

/* Keeps what HiGHS complains of: "ERROR:   Column 3 has ..." and a newline. */
static void note_complaint(highs_model *h, const char *message)
{
    static const char mark[] = "ERROR:";
    if (strncmp(message, mark, sizeof mark - 1) == 0)
        message += sizeof mark - 1;
    message += strspn(message, " ");
    snprintf(h->complaint, sizeof h->complaint, "%.*s", (int)strcspn(message, "\n"), message);
    neap_string_clean(h->complaint);
}

static void tell(highs_model *h, int type, const char *message, const HighsCallbackDataOut *out,
                 HighsCallbackDataIn *in)
{
    const highs_watch *watch = h->watch;
    if (type == kHighsCallbackLogging) {
        if (out->log_type == LOG_ERROR && thrd_equal(h->caller, thrd_current()))
            note_complaint(h, message);
        return;
    }
    if (type == kHighsCallbackMipImprovingSolution) {
        if (watch->found && out->mip_solution)
            watch->found(watch->context, out->mip_solution);
        return;
    }
    if (type == kHighsCallbackMipInterrupt && watch->progress &&
        thrd_equal(h->caller, thrd_current()))
        watch->progress(watch->context, out->mip_primal_bound, out->mip_dual_bound);
    if (in && watch->stop && watch->stop(watch->context)) {
        h->was_stopped = true;
        in->user_interrupt = 1;
    }
}

static void on_event(int type, const char *message, const HighsCallbackDataOut *out,
                     HighsCallbackDataIn *in, void *data)
{
    highs_line *line = data;
    pthread_mutex_lock(&line->lock);
    if (line->model)
        tell(line->model, type, message, out, in);
    else if (in)
        in->user_interrupt = 1;
    pthread_mutex_unlock(&line->lock);
}

/* ---- The line ---- */

static neap_status open_line(highs_model *h, neap_diag *diag)
{
    highs_line *line;
    NEAP_TRY(NEAP_NEW(neap_allocator_system(), 1, &line, diag));
    bool locks = pthread_mutex_init(&line->lock, NULL) == 0;
    if (!locks || pthread_cond_init(&line->turn, NULL) != 0) {
        if (locks)
            pthread_mutex_destroy(&line->lock);
        NEAP_DELETE(neap_allocator_system(), 1, line);
        return neap_fail_no_memory(diag);
    }
    line->model = h;
    h->line = line;
    h->highs = line->highs = Highs_create();
    return h->highs ? NEAP_OK : neap_fail_no_memory(diag);
}

static void close_line(highs_line *line)
{
    if (line->highs)
        Highs_destroy(line->highs);
    pthread_cond_destroy(&line->turn);
    pthread_mutex_destroy(&line->lock);
    NEAP_DELETE(neap_allocator_system(), 1, line);
}

static void *run_highs(void *data)
{
    highs_line *line = data;
    pthread_mutex_lock(&line->lock);
    if (line->model)
        line->model->caller = thrd_current();
    pthread_mutex_unlock(&line->lock);
    HighsInt status = Highs_run(line->highs);
    pthread_mutex_lock(&line->lock);
    line->status = status;
    line->done = true;
    bool alone = !line->model;
    pthread_cond_signal(&line->turn);
    pthread_mutex_unlock(&line->lock);
    if (alone) {
        close_line(line);
        neap_left_thread_end();
    }
    return NULL;
}

/* Waits until HiGHS has ended, or for a moment after the time is over. The lock is held. */
static void wait_for_end(highs_line *line, const highs_watch *watch)
{
    double over = 0;
    while (!line->done && (over <= 0 || neap_clock_seconds() < over + GRACE)) {
        struct timespec until;
        timespec_get(&until, TIME_UTC);
        until.tv_nsec += (long)(POLL * 1e9);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&line->turn, &line->lock, &until);
        if (over <= 0 && !line->done && watch->is_over(watch->context))
            over = neap_clock_seconds();
    }
}

/* Runs HiGHS on its own thread; false: it was left behind. */
static bool run_beside(highs_model *h, HighsInt *status)
{
    highs_line *line = h->line;
    pthread_t thread;
    line->done = false;
    if (pthread_create(&thread, NULL, run_highs, line) != 0) {
        *status = Highs_run(h->highs);
        return true;
    }
    pthread_mutex_lock(&line->lock);
    wait_for_end(line, h->watch);
    bool ended = line->done;
    *status = line->status;
    if (!ended) {
        neap_left_thread_begin();
        line->model = NULL;
        h->line = NULL;
        h->highs = NULL;
    }
    pthread_mutex_unlock(&line->lock);
    if (ended)
        pthread_join(thread, NULL);
    else
        pthread_detach(thread);
    return ended;
}

static HighsInt pass(highs_model *h, const sparse_model *m)
{
    static const HighsInt none = 0;
    return Highs_passMip(h->highs, (HighsInt)m->n_columns, (HighsInt)m->n_rows,
                         (HighsInt)m->n_entries, kHighsMatrixFormatRowwise, kHighsObjSenseMinimize,
                         0.0, m->cost, m->lower, m->upper, m->row_lower, m->row_upper,
                         m->n_rows ? m->row_start : &none, m->entry_column, m->entry_value,
                         h->integrality);
}

/* Whether rows that have no columns, from `first` on, are satisfied. */
static bool zero_satisfies(const sparse_model *m, size_t first)
{
    for (size_t r = first; r < m->n_rows; r++)
        if (!(m->row_lower[r] <= 0 && m->row_upper[r] >= 0))
            return false;
    return true;
}

static neap_status set_up(highs_model *h, const sparse_model *m, neap_diag *diag)
{
    static const HighsInt events[] = {kHighsCallbackLogging, kHighsCallbackSimplexInterrupt,
                                      kHighsCallbackIpmInterrupt, kHighsCallbackMipInterrupt,
                                      kHighsCallbackMipImprovingSolution};
    NEAP_TRY(NEAP_RESERVE(h->allocator, m->n_rows, &h->duals, &h->row_capacity, diag));
    NEAP_TRY(open_line(h, diag));
    if (!NEAP_TAKE(&h->arena, m->n_columns, h->integrality) ||
        !NEAP_TAKE(&h->arena, m->n_columns, h->values))
        return neap_fail_no_memory(diag);
    Highs_setBoolOptionValue(h->highs, "log_to_console", 0); /* on_event hears it all the same */
    Highs_setCallback(h->highs, on_event, h->line);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        Highs_startCallback(h->highs, events[i]);
    Highs_setStringOptionValue(h->highs, "parallel", "off"); /* the same answer on any machine */
    Highs_setDoubleOptionValue(h->highs, "mip_rel_gap", 0);
    for (size_t j = 0; j < m->n_columns; j++)
        h->integrality[j] =
            h->integers && m->is_integer[j] ? kHighsVarTypeInteger : kHighsVarTypeContinuous;
    if (pass(h, m) == kHighsStatusError)
        return solver_failed(h, "take the model", diag);
    h->n_rows = m->n_rows;
    h->zero_fits = zero_satisfies(m, 0);
    return NEAP_OK;
}

neap_status neap_highs_model_create(neap_allocator *allocator, const sparse_model *m, bool integers,
                                    const highs_watch *watch, highs_model **result, neap_diag *diag)
{
    highs_model *h;
    *result = NULL;
    NEAP_TRY(NEAP_NEW(allocator, 1, &h, diag));
    h->allocator = allocator;
    h->watch = watch;
    h->integers = integers;
    h->n_columns = m->n_columns;
    h->caller = thrd_current();
    neap_arena_init(&h->arena, allocator);
    neap_status status = set_up(h, m, diag);
    if (status == NEAP_OK)
        *result = h;
    else
        neap_highs_model_destroy(h);
    return status;
}

void neap_highs_model_destroy(highs_model *h)
{
    if (!h)
        return;
    if (h->line)
        close_line(h->line);
    neap_arena_clear(&h->arena);
    NEAP_DELETE(h->allocator, h->row_capacity, h->duals);
    NEAP_DELETE(h->allocator, 1, h);
}

neap_status neap_highs_model_update(highs_model *h, const sparse_model *m, neap_diag *diag)
{
    size_t first = h->n_rows, added = m->n_rows - first;
    HighsInt *starts = NULL;
    if (!h->line)
        return NEAP_OK;
    h->complaint[0] = '\0';
    neap_status status = NEAP_OK;
    NEAP_TRY(NEAP_RESERVE(h->allocator, m->n_rows, &h->duals, &h->row_capacity, diag));
    NEAP_TRY(NEAP_NEW(h->allocator, added, &starts, diag));
    for (size_t i = 0; i < added; i++)
        starts[i] = m->row_start[first + i] - m->row_start[first];
    size_t offset = added ? (size_t)m->row_start[first] : 0;
    if (added &&
        Highs_addRows(h->highs, (HighsInt)added, m->row_lower + first, m->row_upper + first,
                      (HighsInt)(m->n_entries - offset), starts, m->entry_column + offset,
                      m->entry_value + offset) == kHighsStatusError)
        status = solver_failed(h, "take more rows", diag);
    NEAP_DELETE(h->allocator, added, starts);
    if (status == NEAP_OK && h->n_columns > 0 &&
        Highs_changeColsBoundsByRange(h->highs, 0, (HighsInt)h->n_columns - 1, m->lower,
                                      m->upper) == kHighsStatusError)
        status = solver_failed(h, "change bounds", diag);
    if (status == NEAP_OK) {
        h->zero_fits = h->zero_fits && zero_satisfies(m, first);
        h->n_rows = m->n_rows;
    }
    return status;
}

static highs_outcome outcome_of(const highs_model *h)
{
    HighsInt status = Highs_getModelStatus(h->highs);
    if (status == kHighsModelStatusOptimal)
        return HIGHS_SOLVED;
    if (status == kHighsModelStatusInfeasible || status == kHighsModelStatusObjectiveBound)
        return HIGHS_INFEASIBLE;
    if (status == kHighsModelStatusTimeLimit || status == kHighsModelStatusInterrupt ||
        status == kHighsModelStatusIterationLimit || status == kHighsModelStatusSolutionLimit)
        return HIGHS_STOPPED;
    return h->was_stopped ? HIGHS_STOPPED : HIGHS_GAVE_UP;
}

static void configure(const highs_model *h, const highs_settings *settings)
{
    void *highs = h->highs;
    double infinity = Highs_getInfinity(highs);
    Highs_zeroAllClocks(highs);
    Highs_setDoubleOptionValue(highs, "time_limit",
                               settings->seconds > 0 ? settings->seconds : infinity);
    Highs_setIntOptionValue(highs, "threads", settings->threads);
    Highs_setIntOptionValue(highs, "random_seed", (HighsInt)(settings->seed & 0x7fffffff));
    if (h->integers)
        Highs_setDoubleOptionValue(highs, "mip_abs_gap", settings->absolute_gap);
    else
        Highs_setStringOptionValue(highs, "solver", "simplex");
}

/* A model without columns, which HiGHS calls empty whatever its rows say. */
static void solve_empty(highs_model *h, highs_answer *answer)
{
    *answer = (highs_answer){.outcome = h->zero_fits ? HIGHS_SOLVED : HIGHS_INFEASIBLE,
                             .has_solution = h->zero_fits,
                             .bound = -HUGE_VAL};
    if (h->integers)
        answer->bound = h->zero_fits ? 0 : HUGE_VAL;
    for (size_t r = 0; r < h->n_rows; r++)
        h->duals[r] = 0;
}

neap_status neap_highs_model_solve(highs_model *h, const highs_settings *settings,
                                   highs_answer *answer, neap_diag *diag)
{
    h->was_stopped = false;
    h->complaint[0] = '\0';
    if (h->n_columns == 0) {
        solve_empty(h, answer);
        return NEAP_OK;
    }
    *answer = (highs_answer){.outcome = HIGHS_STOPPED, .bound = -HUGE_VAL};
    if (!h->line)
        return NEAP_OK;
    configure(h, settings);
    if (settings->start &&
        Highs_setSolution(h->highs, settings->start, NULL, NULL, NULL) == kHighsStatusError)
        return solver_failed(h, "take a first solution", diag);
    HighsInt status;
    if (!h->watch->is_over)
        status = Highs_run(h->highs);
    else if (!run_beside(h, &status))
        return NEAP_OK;
    *answer = (highs_answer){.outcome = outcome_of(h), .bound = -HUGE_VAL};
    if (status == kHighsStatusError && answer->outcome == HIGHS_SOLVED)
        answer->outcome = HIGHS_GAVE_UP;
    HighsInt primal = kHighsSolutionStatusNone;
    Highs_getIntInfoValue(h->highs, "primal_solution_status", &primal);
    answer->has_solution = primal == kHighsSolutionStatusFeasible;
    answer->objective = Highs_getObjectiveValue(h->highs);
    double bound = -HUGE_VAL;
    if (h->integers &&
        Highs_getDoubleInfoValue(h->highs, "mip_dual_bound", &bound) == kHighsStatusOk)
        answer->bound = bound;
    if (Highs_getSolution(h->highs, h->values, NULL, NULL, h->duals) == kHighsStatusError)
        return solver_failed(h, "give its solution", diag);
    return NEAP_OK;
}

const double *neap_highs_model_values(const highs_model *h)
{
    return h->values;
}

const double *neap_highs_model_duals(const highs_model *h)
{
    return h->duals;
}

#else

const char *neap_highs_version(void)
{
    return "";
}

static neap_status unsupported(neap_diag *diag)
{
    return neap_fail(diag, NEAP_UNSUPPORTED,
                     "this build of neap has no HiGHS, which this method needs: build it with "
                     "-DNEAP_HIGHS=ON, or use the method pareto");
}

neap_status neap_highs_model_create(neap_allocator *allocator, const sparse_model *m, bool integers,
                                    const highs_watch *watch, highs_model **h, neap_diag *diag)
{
    (void)allocator, (void)m, (void)integers, (void)watch;
    *h = NULL;
    return unsupported(diag);
}

void neap_highs_model_destroy(highs_model *h)
{
    (void)h;
}

neap_status neap_highs_model_update(highs_model *h, const sparse_model *m, neap_diag *diag)
{
    (void)h, (void)m;
    return unsupported(diag);
}

neap_status neap_highs_model_solve(highs_model *h, const highs_settings *settings,
                                   highs_answer *answer, neap_diag *diag)
{
    (void)h, (void)settings, (void)answer;
    return unsupported(diag);
}

const double *neap_highs_model_values(const highs_model *h)
{
    (void)h;
    return NULL;
}

const double *neap_highs_model_duals(const highs_model *h)
{
    (void)h;
    return NULL;
}

#endif
