/* The fractional relaxation: two flows and how they meet. */
#include "planners/offload/fractional.h"

#include <math.h>

double neap_offload_rate(const offload_problem *problem, bool out)
{
    return (out ? problem->link.out_bandwidth : problem->link.in_bandwidth) /
           (double)neap_graph_ticks_per_second(problem->graph);
}

/* A flow of bytes, and the compute time that passes beside it. */
typedef struct flow {
    double rate;
    double limit;     /* bytes to send in all */
    double available; /* of them, what can be sent by now */
    double sent;
    double slack; /* ticks since the last byte was sent */
    double idle;  /* ticks that computations waited */
} flow;

static void pass_time(flow *f, double ticks)
{
    double could = f->available - f->sent;
    if (could > 0 && could >= f->rate * ticks) {
        f->sent += f->rate * ticks;
        f->slack = 0;
    } else {
        if (could > 0)
            f->slack = ticks - could / f->rate;
        else
            f->slack += ticks;
        f->sent = f->available > f->sent ? f->available : f->sent;
    }
}

/* An op that takes `ticks` and needs so many bytes gone before it begins. */
static void pass_op(flow *f, double gone, double ticks)
{
    if (gone > f->sent) {
        double wait = (gone - f->sent) / f->rate;
        f->idle += wait;
        f->sent = gone;
        f->slack = 0;
    }
    pass_time(f, ticks);
}

static void offer(flow *f, int64_t bytes)
{
    f->available = fmin(f->limit, f->available + (double)bytes);
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

double neap_offload_meeting_idle(const offload_problem *problem, offload_gone *gone,
                                 const void *context, double out, double in,
                                 const offload_meeting *m)
{
    double idle = 0;
    /* Copies out may go on during the first backward ops, as far as these have their memory. */
    if (m->backlog > 0) {
        double spent = 0;
        for (uint32_t k = problem->turn; k < problem->n_ops && spent < m->back_slack; k++) {
            idle = later(idle, (gone(context, k) - m->sent) / out - spent);
            spent += (double)problem->ticks[k];
        }
    }
    /* Copies in may have begun during the last forward ops. */
    if (m->back_backlog > 0) {
        double spent = 0;
        for (uint32_t k = problem->turn; k-- > 0 && spent < m->slack;) {
            idle = later(idle, (gone(context, k) - m->back) / in - spent);
            spent += (double)problem->ticks[k];
        }
    }
    if (problem->link.duplex)
        return idle;
    double work = m->backlog / out + m->back_backlog / in;
    double slack = m->backlog > 0 && m->back_backlog > 0 ? 0
                   : m->backlog > 0                      ? m->back_slack
                   : m->back_backlog > 0                 ? m->slack
                                                         : HUGE_VAL;
    return later(idle, work - slack);
}

/* The flow up to the turn. */
static flow flow_out(const offload_problem *problem, const int64_t *need, double limit)
{
    flow forward = {.rate = neap_offload_rate(problem, true), .limit = limit};
    for (uint32_t k = 0; k < problem->turn; k++) {
        pass_op(&forward, (double)(need[k] - problem->budget), (double)problem->ticks[k]);
        offer(&forward, problem->made_bytes[k]);
    }
    return forward;
}

bool neap_offload_must_wait(const offload_problem *problem)
{
    return flow_out(problem, problem->need, (double)problem->total_bytes).idle > 0;
}

typedef struct excess {
    const int64_t *need;
    int64_t budget;
} excess;

static double excess_at(const void *context, uint32_t k)
{
    const excess *x = context;
    return (double)(x->need[k] - x->budget);
}

static double solve(const offload_problem *problem, const int64_t *need, int64_t peak)
{
    double limit = peak > problem->budget ? (double)(peak - problem->budget) : 0;
    flow backward = {.rate = neap_offload_rate(problem, false), .limit = limit};
    double ticks = (double)problem->total_ticks;
    if (limit <= 0)
        return ticks;
    flow forward = flow_out(problem, need, limit);
    for (uint32_t k = problem->n_ops; k-- > problem->turn;) {
        pass_op(&backward, (double)(need[k] - problem->budget), (double)problem->ticks[k]);
        offer(&backward, problem->needed_bytes[k]);
    }
    offload_meeting meeting = {.sent = forward.sent,
                               .backlog = limit - forward.sent,
                               .slack = forward.slack,
                               .back = backward.sent,
                               .back_backlog = limit - backward.sent,
                               .back_slack = backward.slack};
    excess over = {need, problem->budget};
    return ticks + forward.idle + backward.idle +
           neap_offload_meeting_idle(problem, excess_at, &over, forward.rate, backward.rate,
                                     &meeting);
}

double neap_offload_fractional_ticks(const offload_problem *problem)
{
    return problem->floor > problem->budget ? -1 : solve(problem, problem->need, problem->peak);
}

int64_t neap_offload_fractional_bound(const offload_problem *problem)
{
    if (problem->floor > problem->budget || problem->least_peak <= problem->budget)
        return problem->total_ticks;
    double ticks = solve(problem, problem->least_need, problem->least_peak);
    /* Each transfer is rounded to the nearest tick. */
    ticks = floor(ticks * (1 - 1e-12) - (double)problem->n_parcels);
    return ticks > (double)problem->total_ticks && ticks < 9e18 ? (int64_t)ticks
                                                                : problem->total_ticks;
}
