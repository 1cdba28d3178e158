/*
 * A plan file of arbitrary bytes: rejected with one line, or a plan that is written and read
 * without loss and that the judge can check. If the judge accepts a plan, timeline and layout
 * accept it too, and they agree.
 */
#include "fuzz.h"

#include <neap/check.h>
#include <neap/layout.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Small ids go far: views, a workspace, variants, an input that is an output, an empty value. */
static const char plan_graph_text[] =
    "{\"neap\":\"graph\",\"version\":1,\"name\":\"small\",\"fixed_bytes\":7,\"values\":["
    "{\"bytes\":10,\"kind\":\"input\"},{\"bytes\":20},{\"bytes\":0,\"view_of\":1},{\"bytes\":4},"
    "{\"bytes\":30},{\"bytes\":0},{\"bytes\":8}],\"ops\":["
    "{\"inputs\":[0],\"outputs\":[1],\"time\":0.5,\"workspace\":3,\"variants\":["
    "{\"time\":0.5,\"workspace\":3},{\"time\":1.25,\"workspace\":0}]},"
    "{\"inputs\":[1],\"outputs\":[2],\"time\":0},"
    "{\"inputs\":[2],\"outputs\":[3,4],\"time\":1},"
    "{\"pass\":\"backward\",\"inputs\":[4,1],\"outputs\":[5],\"time\":0.25},"
    "{\"pass\":\"backward\",\"inputs\":[5,3,0],\"outputs\":[6],\"time\":2,\"workspace\":5}],"
    "\"outputs\":[6,0]}";

static void plan_check_round_trip(const neap_plan *plan)
{
    char *first, *second;
    size_t first_length, second_length;
    neap_plan *again;
    neap_diag diag = {0};
    FUZZ_CHECK(neap_plan_write_text(plan, NULL, &first, &first_length, &diag) == NEAP_OK);
    FUZZ_CHECK(neap_plan_read_text(NULL, first, first_length, "again", &again, &diag) == NEAP_OK);
    FUZZ_CHECK(neap_plan_step_count(again) == neap_plan_step_count(plan));
    FUZZ_CHECK(neap_plan_budget(again) == neap_plan_budget(plan));
    FUZZ_CHECK(neap_plan_arena_bytes(again) == neap_plan_arena_bytes(plan));
    FUZZ_CHECK(neap_plan_write_text(again, NULL, &second, &second_length, &diag) == NEAP_OK);
    FUZZ_CHECK(first_length == second_length && memcmp(first, second, first_length) == 0);
    neap_plan_destroy(again);
    neap_release(NULL, first, first_length + 1);
    neap_release(NULL, second, second_length + 1);
}

static void plan_check_accepted(const neap_graph *graph, neap_plan *plan, const neap_link *link,
                                const neap_verdict *verdict)
{
    neap_timeline timeline;
    neap_diag diag = {0};
    FUZZ_CHECK(neap_timeline_build(NULL, graph, plan, link, &timeline, &diag) == NEAP_OK);
    FUZZ_CHECK(timeline.peak_bytes == verdict->peak_bytes);
    FUZZ_CHECK(timeline.peak_step == verdict->peak_step);
    FUZZ_CHECK(timeline.makespan_ticks == verdict->ticks);
    FUZZ_CHECK(timeline.compute_ticks == verdict->compute_ticks);
    FUZZ_CHECK(verdict->peak_bytes >= neap_graph_travel_floor_bytes(graph, NULL));
    FUZZ_CHECK(verdict->compute_ticks >= neap_graph_least_ticks(graph));
    neap_timeline_clear(&timeline);

    FUZZ_CHECK(neap_layout_assign(NULL, graph, plan, NULL, &diag) == NEAP_OK);
    neap_check_options options;
    neap_verdict again;
    neap_check_options_init(&options);
    options.budget = INT64_MAX;
    options.link = link;
    FUZZ_CHECK(neap_check(NULL, graph, plan, &options, &again, &diag) == NEAP_OK);
    FUZZ_CHECK(again.accepted && again.has_arena && again.peak_bytes == verdict->peak_bytes);
    FUZZ_CHECK(again.arena_bytes >= again.peak_bytes);
}

static void plan_check_judged(const neap_graph *graph, neap_plan *plan, const neap_link *link)
{
    neap_check_options options;
    neap_verdict verdict;
    neap_diag diag = {0};
    neap_check_options_init(&options);
    options.link = link;
    FUZZ_CHECK(neap_check(NULL, graph, plan, &options, &verdict, &diag) == NEAP_OK);
    FUZZ_CHECK(verdict.peak_bytes >= 0 && verdict.ticks >= 0 && verdict.host_bytes >= 0);
    if (verdict.accepted) {
        FUZZ_CHECK(verdict.reason[0] == '\0');
        plan_check_accepted(graph, plan, link, &verdict);
    } else {
        fuzz_check_line(verdict.reason);
        FUZZ_CHECK(verdict.step == SIZE_MAX || verdict.step < neap_plan_step_count(plan));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const neap_link one_way = {.out_bandwidth = 10, .in_bandwidth = 20, .latency = 0.5};
    static const neap_link both_ways = {.out_bandwidth = 1e9, .in_bandwidth = 3, .duplex = true};
    neap_plan *plan;
    neap_graph *graph;
    neap_diag diag = {0};
    neap_status status =
        neap_plan_read_text(NULL, (const char *)data, size, "fuzz.json", &plan, &diag);
    if (status != NEAP_OK) {
        FUZZ_CHECK(plan == NULL);
        fuzz_check_refusal(status, &diag, "fuzz.json:");
        return 0;
    }
    status = neap_graph_read_text(NULL, plan_graph_text, sizeof plan_graph_text - 1, "small",
                                  &graph, &diag);
    FUZZ_CHECK(status == NEAP_OK);
    plan_check_round_trip(plan);
    plan_check_judged(graph, plan, &one_way);
    plan_check_judged(graph, plan, &both_ways);
    plan_check_judged(graph, plan, NULL);
    neap_graph_destroy(graph);
    neap_plan_destroy(plan);
    return 0;
}
