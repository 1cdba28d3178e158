#include "bare_planner.h"
#include "base/clock.h"

void bare_planner_init(bare_planner *b, const neap_graph *graph, int64_t budget)
{
    neap_request_init(&b->request, graph, "bare");
    b->request.budget = budget == INT64_MAX ? -1 : budget;
    b->reported = 0;
    b->p = (planner){.allocator = neap_allocator_system(),
                     .request = &b->request,
                     .graph = graph,
                     .budget = budget,
                     .started = neap_clock_seconds(),
                     .reported = &b->reported};
}
