/* How long a transfer takes: the one definition, for planners, timeline and judge alike. */
#include <neap/plan.h>

#include <math.h>

/*
 * The sum is rounded once, at the end. bytes * ticks_per_second may take 113 bits; long double
 * keeps the leading 64 (or more) of them, so the result is off by a tick only past 2^63 or within
 * 10^-4 ticks of a tie.
 */
int64_t neap_link_ticks(const neap_link *link, const neap_graph *graph, bool out, int64_t bytes)
{
    double bandwidth = out ? link->out_bandwidth : link->in_bandwidth;
    if (!(bandwidth > 0))
        return INT64_MAX;
    long double per_second = (long double)neap_graph_ticks_per_second(graph);
    long double latency = link->latency > 0 ? (long double)link->latency : 0;
    long double copying = (long double)bytes * per_second / (long double)bandwidth;
    long double ticks = roundl(latency * per_second + copying);
    return ticks < 9223372036854775808.0L ? (int64_t)ticks : INT64_MAX;
}
