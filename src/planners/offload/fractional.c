/* Lower bounds, and the fractional relaxation: two flows and how they meet. */
#include "planners/offload/fractional.h"

#include <math.h>

/* Whole ticks of a bound. Each transfer is rounded to the nearest tick, so that the sum may be less
 * than this by half a tick each. */
static int64_t round_bound(const offload_problem *problem, double ticks)
{
    ticks = floor(ticks * (1 - 1e-12) - (double)problem->n_parcels);
    return ticks > (double)problem->total_ticks && ticks < 9e18 ? (int64_t)ticks
                                                                : problem->total_ticks;
}

int64_t neap_offload_lower_bound(const offload_problem *problem)
{
    int64_t away = problem->least_peak - problem->budget;
    if (away <= 0 || problem->n_parcels == 0)
        return problem->total_ticks;
    double per_second = (double)neap_graph_ticks_per_second(problem->graph);
    double out = (double)away / problem->link.out_bandwidth * per_second;
    double in = (double)away / problem->link.in_bandwidth * per_second;
    return round_bound(problem, problem->link.duplex ? fmax(out, in) : out + in);
}

double neap_offload_rate(const offload_problem *problem, bool out)
{
    return (out ? problem->link.out_bandwidth : problem->link.in_bandwidth) /
           (double)neap_graph_ticks_per_second(problem->graph);
}

/* A flow of bytes, and the compute time that passes meanwhile. */
typedef struct flow {
    double rate;
    double limit;     /* bytes to send in all */
    double available; /* of them, what can be sent by now */
    double sent;
    double slack; /* ticks since the last byte was sent */
    double idle;  /* ticks that computations waited */
} flow;

/* Op k waits until enough bytes are gone, and runs; then the flow gets `bytes` more to send. */
static void pass_op(const offload_problem *problem, flow *f, uint32_t k, int64_t bytes)
{
    double gone = problem->excess[k], ticks = (double)problem->ticks[k];
    if (gone > f->sent) {
        f->idle += (gone - f->sent) / f->rate;
        f->sent = gone;
        f->slack = 0;
    }
    double could = f->available - f->sent;
    if (could > 0 && could >= f->rate * ticks) {
        f->sent += f->rate * ticks;
        f->slack = 0;
    } else {
        f->slack = could > 0 ? ticks - could / f->rate : f->slack + ticks;
        f->sent = fmax(f->available, f->sent);
    }
    f->available = fmin(f->limit, f->available + (double)bytes);
}

double neap_offload_meeting_idle(const offload_problem *problem, const double *gone,
                                 const offload_flow_end *out, const offload_flow_end *in)
{
    double idle = 0, spent = 0;
    /* Copies out may continue during the first backward ops, as far as these have their memory. */
    for (uint32_t k = problem->turn; out->backlog > 0 && k < problem->n_ops && spent < in->slack;
         k++) {
        idle = fmax(idle, (gone[k] - out->sent) / out->rate - spent);
        spent += (double)problem->ticks[k];
    }
    /* Copies in may have begun during the last forward ops. */
    spent = 0;
    for (uint32_t k = problem->turn; in->backlog > 0 && k-- > 0 && spent < out->slack;) {
        idle = fmax(idle, (gone[k] - in->sent) / in->rate - spent);
        spent += (double)problem->ticks[k];
    }
    if (problem->link.duplex || (out->backlog <= 0 && in->backlog <= 0))
        return idle;
    double work = out->backlog / out->rate + in->backlog / in->rate;
    double slack = in->backlog <= 0 ? in->slack : out->backlog <= 0 ? out->slack : 0;
    return fmax(idle, work - slack);
}

/* The flow up to the turn. */
static flow flow_out(const offload_problem *problem, const int64_t *need, double limit)
{
    flow forward = {.rate = neap_offload_rate(problem, true), .limit = limit};
    for (uint32_t k = 0; k < problem->n_ops; k++)
        problem->excess[k] = (double)(need[k] - problem->budget);
    for (uint32_t k = 0; k < problem->turn; k++)
        pass_op(problem, &forward, k, problem->made_bytes[k]);
    return forward;
}

bool neap_offload_must_wait(const offload_problem *problem)
{
    return flow_out(problem, problem->need, (double)problem->total_bytes).idle > 0;
}

static offload_flow_end end_of(const flow *f)
{
    return (offload_flow_end){f->rate, f->sent, f->limit - f->sent, f->slack};
}

static double solve(const offload_problem *problem, const int64_t *need, int64_t peak)
{
    double ticks = (double)problem->total_ticks, limit = (double)(peak - problem->budget);
    if (peak <= problem->budget)
        return ticks;
    flow forward = flow_out(problem, need, limit);
    flow backward = {.rate = neap_offload_rate(problem, false), .limit = limit};
    for (uint32_t k = problem->n_ops; k-- > problem->turn;)
        pass_op(problem, &backward, k, problem->needed_bytes[k]);
    offload_flow_end out = end_of(&forward), in = end_of(&backward);
    return ticks + forward.idle + backward.idle +
           neap_offload_meeting_idle(problem, problem->excess, &out, &in);
}

double neap_offload_fractional_ticks(const offload_problem *problem)
{
    return problem->floor > problem->budget ? -1 : solve(problem, problem->need, problem->peak);
}

int64_t neap_offload_fractional_bound(const offload_problem *problem)
{
    if (problem->floor > problem->budget || problem->least_peak <= problem->budget)
        return problem->total_ticks;
    return round_bound(problem, solve(problem, problem->least_need, problem->least_peak));
}
