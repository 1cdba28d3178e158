#include "planners/checkmate/relaxation.h"

#include "base/fail.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { COLUMNS_A_SECOND = 1000000 }; /* of a program that is built, read and cleared */

static int64_t greatest_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

int64_t neap_graph_tick_step(const neap_graph *graph)
{
    int64_t step = 0;
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        const neap_op *op = neap_graph_op(graph, o);
        for (uint32_t q = 0; q < op->n_variants; q++)
            if (!neap_frontier_variant_is_dominated(op, q))
                step = greatest_divisor(step, op->variants[q].ticks);
    }
    return step > 0 ? step : 1;
}

int64_t neap_relaxation_bound_ticks(const frontier_model *m, double bound)
{
    int64_t least = neap_graph_least_ticks(m->graph), step = neap_graph_tick_step(m->graph);
    double extra = floor(bound / m->ticks_scale);
    if (!(extra > 0) || extra > 1e17)
        return least;
    int64_t ticks = m->certain_ticks + (int64_t)extra;
    ticks = (ticks + step - 1) / step * step;
    return ticks > least ? ticks : least;
}

neap_status neap_relaxation_refuse_big(const planner *p, frontier_form form, double most_columns,
                                       neap_diag *diag)
{
    frontier_size size = neap_frontier_model_size(p->graph, form);
    if ((double)size.columns <= most_columns)
        return NEAP_OK;
    return neap_fail(diag, NEAP_UNSUPPORTED,
                     "%s has %" PRIu32 " ops: its program would have %.1f million columns and %.1f "
                     "million rows, too many for %s (most-columns=%.0f); use linear-greedy or "
                     "ap-greedy, or rotor for a chain of blocks",
                     neap_graph_name(p->graph), neap_graph_op_count(p->graph),
                     (double)size.columns / 1e6, (double)size.rows / 1e6, p->request->method,
                     most_columns);
}

/* Building the program looks at no clock, and neither does HiGHS while it reads it. */
static bool takes_too_long(const planner *p, frontier_form form)
{
    double left = neap_planner_seconds_left(p);
    return left > 0 &&
           (double)neap_frontier_model_size(p->graph, form).columns > COLUMNS_A_SECOND * left;
}

static bool stop(void *context)
{
    const relaxation *x = context;
    neap_planner_report_search(x->p, x->best_ticks, x->bound_ticks);
    return neap_planner_stopped(x->p);
}

static bool is_over(void *context)
{
    const relaxation *x = context;
    return neap_planner_stopped(x->p);
}

/* Takes over what the last solve found: any duals prove a bound. */
static void note(relaxation *x, double objective)
{
    x->objective = objective;
    if (x->model.lp.n_columns > 0)
        memcpy(x->values, neap_highs_model_values(x->highs),
               x->model.lp.n_columns * sizeof *x->values);
    x->bound =
        neap_sparse_model_dual_bound(&x->model.lp, neap_highs_model_duals(x->highs), x->reduced);
    int64_t ticks = neap_relaxation_bound_ticks(&x->model, x->bound);
    if (ticks > x->bound_ticks)
        x->bound_ticks = ticks;
}

static neap_status build(relaxation *x, const planner *p, const frontier_options *options,
                         neap_diag *diag)
{
    x->watch = (highs_watch){.context = x, .stop = stop, .is_over = is_over};
    sparse_model *lp = &x->model.lp;
    size_t added;
    NEAP_TRY(neap_frontier_model_build(&x->model, p->allocator, p->graph, options, diag));
    if (!NEAP_TAKE(&x->model.arena, lp->n_columns, x->values) ||
        !NEAP_TAKE(&x->model.arena, lp->n_columns, x->reduced))
        return neap_fail_no_memory(diag);
    /* The rows that keeping everything would break, one per frontier. */
    NEAP_TRY(neap_frontier_model_add_memory(&x->model, lp->upper, 0, &added, diag));
    return neap_highs_model_create(p->allocator, lp, false, &x->watch, &x->highs, diag);
}

neap_status neap_relaxation_solve(relaxation *x, const planner *p, const frontier_options *options,
                                  int64_t best_ticks, neap_diag *diag)
{
    *x = (relaxation){.p = p,
                      .outcome = HIGHS_STOPPED,
                      .best_ticks = best_ticks == INT64_MAX ? -1 : best_ticks,
                      .bound_ticks = neap_graph_least_ticks(p->graph)};
    if (takes_too_long(p, options->form))
        return NEAP_OK;
    NEAP_TRY(build(x, p, options, diag));
    for (size_t added = 1; added > 0;) {
        highs_settings settings = {.seconds = neap_planner_seconds_left(p),
                                   .seed = p->request->seed};
        highs_answer answer;
        NEAP_TRY(neap_highs_model_update(x->highs, &x->model.lp, diag));
        NEAP_TRY(neap_highs_model_solve(x->highs, &settings, &answer, diag));
        x->outcome = answer.outcome;
        if (answer.outcome != HIGHS_SOLVED)
            return NEAP_OK;
        note(x, answer.objective);
        NEAP_TRY(neap_frontier_model_add_memory(&x->model, x->values, 1e-7, &added, diag));
    }
    return NEAP_OK;
}

void neap_relaxation_clear(relaxation *x)
{
    neap_highs_model_destroy(x->highs);
    neap_frontier_model_clear(&x->model);
    *x = (relaxation){0};
}
