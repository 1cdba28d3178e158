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

#include <interfaces/highs_c_api.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>

enum { LOG_ERROR = 5 }; /* HighsLogType::kError, which the C interface does not name */

struct highs_model {
    neap_allocator *allocator;
    void *highs;
    bool integers; /* else the relaxation */
    size_t n_columns, n_rows, row_capacity;
    bool zero_fits; /* 0 lies within every row */
    const highs_watch *watch;
    neap_arena arena; /* of the next two, n_columns each */
    HighsInt *integrality;
    double *values;
    double *duals; /* row_capacity */
    thrd_t caller; /* progress is told from its own thread only */
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

static void on_event(int type, const char *message, const HighsCallbackDataOut *out,
                     HighsCallbackDataIn *in, void *data)
{
    highs_model *h = data;
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
    h->highs = Highs_create();
    if (!h->highs || !NEAP_TAKE(&h->arena, m->n_columns, h->integrality) ||
        !NEAP_TAKE(&h->arena, m->n_columns, h->values))
        return neap_fail_no_memory(diag);
    Highs_setBoolOptionValue(h->highs, "log_to_console", 0); /* on_event hears it all the same */
    Highs_setCallback(h->highs, on_event, h);
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
    if (h->highs)
        Highs_destroy(h->highs);
    neap_arena_clear(&h->arena);
    NEAP_DELETE(h->allocator, h->row_capacity, h->duals);
    NEAP_DELETE(h->allocator, 1, h);
}

neap_status neap_highs_model_update(highs_model *h, const sparse_model *m, neap_diag *diag)
{
    size_t first = h->n_rows, added = m->n_rows - first;
    HighsInt *starts = NULL;
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
    configure(h, settings);
    if (settings->start &&
        Highs_setSolution(h->highs, settings->start, NULL, NULL, NULL) == kHighsStatusError)
        return solver_failed(h, "take a first solution", diag);
    HighsInt status = Highs_run(h->highs);
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
