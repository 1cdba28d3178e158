/*
 * What the offloading methods are made of: parcels of a graph, views that travel with their
 * storage, units, the least selection, the profile in blocks, and the simulator on random training
 * graphs, whose plans the judge replays.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bare_planner.h"
#include "planners/offload/offload_method.h"
#include "random_training.h"
#include "settings.h"
#include "show_graph.h"
#include "small_graphs.h"

#include <neap/check.h>
#include <neap/solve.h>

#include <inttypes.h>
#include <string.h>

static const neap_link LINK = {.out_bandwidth = 10, .in_bandwidth = 10};

static void begin(bare_planner *b, offload_search *s, const neap_graph *graph, int64_t budget,
                  offload_grain grain)
{
    bare_planner_init(b, graph, budget);
    b->request.link = LINK;
    assert_int_equal(neap_offload_search_begin(&b->p, grain, s, NULL), NEAP_OK);
}

/* ---- Parcels ---- */

/*
 * x -> h (100 bytes), of which v and then w are views; w -> y (40). After the turn ops read y, w
 * and h: h's storage travels as h, and v, through which w is reached, and w are made again.
 */
static const char views_graph[] =
    "{'neap':'graph','version':1,'name':'views','values':["
    "{'name':'x','bytes':1,'kind':'input'},{'name':'h','bytes':100},"
    "{'name':'v','bytes':0,'view_of':1},{'name':'w','bytes':0,'view_of':2},"
    "{'name':'y','bytes':40},{'name':'gy','bytes':8},{'name':'gw','bytes':8},"
    "{'name':'gx','bytes':8}],'ops':["
    "{'name':'F1','pass':'forward','inputs':[0],'outputs':[1],'time':1},"
    "{'name':'V','pass':'forward','inputs':[1],'outputs':[2],'time':0},"
    "{'name':'W','pass':'forward','inputs':[2],'outputs':[3],'time':0},"
    "{'name':'F2','pass':'forward','inputs':[3],'outputs':[4],'time':1,'workspace':7},"
    "{'name':'F3','pass':'forward','inputs':[4],'outputs':[],'time':30,'workspace':90},"
    "{'name':'B3','pass':'backward','inputs':[4],'outputs':[5],'time':20},"
    "{'name':'B2','pass':'backward','inputs':[3,5],'outputs':[6],'time':1},"
    "{'name':'B1','pass':'backward','inputs':[1,6],'outputs':[7],'time':1}],'outputs':[7]}";

static void test_views_travel_with_their_storage(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(views_graph);
    bare_planner b;
    offload_search s;
    begin(&b, &s, graph, 231, OFFLOAD_STORAGES);
    const offload_problem *problem = &s.problem;
    assert_int_equal(problem->turn, 5);
    assert_int_equal(problem->n_parcels, 2);
    const parcel *h = &problem->parcels[0];
    assert_int_equal(h->value, 1);
    assert_int_equal(h->bytes, 100);
    assert_int_equal(h->made, 0);
    assert_int_equal(h->left, 3);
    assert_int_equal(h->needed, 6);
    assert_int_equal(h->n_rebuilt, 2);
    assert_int_equal(h->rebuilt[0], 1);
    assert_int_equal(h->rebuilt[1], 2);
    assert_int_equal(h->n_kept, 2); /* h and w, when it leaves */
    assert_true(h->value_read);
    /* The peak is F3's; with h away the most is F2's, which reads h. */
    assert_int_equal(problem->peak, 231);
    assert_int_equal(problem->floor, 148);
    assert_int_equal(problem->floor_op, 3);
    neap_offload_search_end(&s);
    neap_graph_destroy(graph);
}

/* The plan that follows is the judge's too. */
static void test_a_plan_with_views(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(views_graph);
    neap_request request;
    neap_solution *solution;
    neap_diag diag = {0};
    neap_request_init(&request, graph, "offload");
    request.budget = 149;
    request.link = LINK;
    if (neap_solve(NULL, &request, &solution, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    const neap_figures *f = neap_solution_figures(solution);
    assert_non_null(neap_solution_plan(solution));
    assert_int_equal(f->peak_bytes, 149);
    assert_int_equal(f->recomputed_ops, 2);
    assert_int_equal(f->offloaded_bytes, 100);
    /* F2 ends at 2, h is on the host at 11; it comes back from the end of F3 on, during B3. */
    assert_true(f->time == 1 + 10 + 30 + 20 + 1 + 1);
    neap_solution_destroy(solution);
    neap_graph_destroy(graph);
}

static void test_units_are_stages(void **state)
{
    (void)state;
    neap_graph *graph = unit_chain(6);
    bare_planner b;
    offload_search s;
    begin(&b, &s, graph, 5, OFFLOAD_STAGES);
    assert_true(s.problem.n_units > 1 && s.problem.n_units <= s.problem.n_parcels);
    const offload_unit *units = s.problem.units;
    assert_int_equal(units[0].first, 0);
    assert_int_equal(units[s.problem.n_units].first, s.problem.n_parcels);
    for (uint32_t u = 0; u < s.problem.n_units; u++) {
        int64_t bytes = 0;
        assert_true(units[u].first < units[u + 1].first);
        for (uint32_t i = units[u].first; i < units[u + 1].first; i++) {
            const parcel *x = &s.problem.parcels[i];
            assert_true(x->left <= units[u].left && x->needed >= units[u].needed);
            bytes += x->bytes;
        }
        assert_int_equal(units[u].bytes, bytes);
    }
    neap_offload_search_end(&s);
    neap_graph_destroy(graph);
}

/* ---- Selections and schedules ---- */

static int64_t away_at(const offload_search *s, uint32_t k)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < s->problem.n_parcels; i++)
        if (s->away[i] && s->problem.parcels[i].left < k && k < s->problem.parcels[i].needed)
            bytes += s->problem.parcels[i].bytes;
    return bytes;
}

static bool is_enough(const offload_search *s)
{
    for (uint32_t k = 0; k < s->problem.n_ops; k++)
        if (s->problem.need[k] - away_at(s, k) > s->problem.budget)
            return false;
    return true;
}

/* The least selection is enough, and nothing of it can stay. */
static void check_cover(const neap_graph *graph, offload_search *s)
{
    NEED(graph, neap_offload_cover(s, s->problem.budget), "all parcels are not enough");
    NEED(graph, is_enough(s) && neap_offload_search_short(s) == NEAP_NONE,
         "the least selection is not enough");
    for (uint32_t i = 0; i < s->problem.n_parcels; i++) {
        if (!s->away[i])
            continue;
        s->away[i] = false;
        NEED(graph, !is_enough(s) && neap_offload_search_short(s) != NEAP_NONE,
             "parcel %" PRIu32 " could stay", i);
        s->away[i] = true;
    }
}

/* Orders and all else at random: if a schedule fits, its plan is what the simulator said. */
static void check_random_choice(const neap_graph *graph, bare_planner *b, offload_search *s,
                                random_source *random)
{
    uint32_t n = s->problem.n_parcels, n_ops = s->problem.n_ops;
    uint32_t out[200], in[200], hold[200];
    offload_insistence insist[200];
    assert_true(n <= 200);
    for (uint32_t i = 0; i < n; i++) {
        s->away[i] = random_below(random, 3) > 0;
        hold[i] = random_below(random, 4) ? 0 : (uint32_t)random_below(random, n_ops);
        insist[i] = (offload_insistence){(uint32_t)random_below(random, n_ops),
                                         (offload_patience)random_below(random, 3)};
    }
    offload_choice choice = {.out = out, .in = in, .hold = hold, .insist = insist};
    neap_offload_order(s->simulator, s->away, &choice);
    for (uint32_t i = 1; i < choice.n; i++)
        for (int way = 0; way < 2; way++) {
            uint32_t *list = way ? in : out, j = (uint32_t)random_below(random, i + 1);
            uint32_t value = list[i];
            if (random_below(random, 4) == 0) {
                list[i] = list[j];
                list[j] = value;
            }
        }
    offload_result result = neap_offload_simulate(s->simulator, &choice);
    if (!result.fits)
        return;
    draft d = {0};
    neap_diag diag = {0};
    neap_check_options options;
    neap_verdict verdict;
    if (neap_offload_use_choice(s->simulator, &choice, &d, &diag) != NEAP_OK) {
        show_graph(graph);
        fail_msg("%s", diag.message);
    }
    neap_check_options_init(&options);
    options.budget = s->problem.budget;
    options.link = &b->request.link;
    assert_int_equal(neap_check(NULL, graph, d.plan, &options, &verdict, NULL), NEAP_OK);
    NEED(graph, verdict.accepted, "%s", verdict.reason);
    NEED(graph, verdict.ticks == result.ticks, "%" PRId64 " ticks, not %" PRId64, verdict.ticks,
         result.ticks);
    neap_plan_destroy(d.plan);
}

static void test_random_graphs(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240703)};
    uint64_t count = setting("NEAP_TEST_COUNT", 400);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = random_training_graph(&random, 12, false);
        int64_t peak;
        bare_planner b;
        offload_search s;
        assert_int_equal(neap_natural_peak(NULL, graph, &peak, NULL), NEAP_OK);
        begin(&b, &s, graph, INT64_MAX, OFFLOAD_STORAGES);
        int64_t least = s.problem.floor;
        neap_offload_search_end(&s);
        for (int64_t part = 0; part <= 3; part++) {
            begin(&b, &s, graph, least + (peak - least) * part / 3, OFFLOAD_STORAGES);
            s.problem.link.duplex = b.request.link.duplex = i % 2;
            if (s.problem.floor <= s.problem.budget)
                check_cover(graph, &s);
            for (int trial = 0; trial < 10; trial++)
                check_random_choice(graph, &b, &s, &random);
            neap_offload_search_end(&s);
        }
        neap_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views_travel_with_their_storage),
        cmocka_unit_test(test_a_plan_with_views),
        cmocka_unit_test(test_units_are_stages),
        cmocka_unit_test(test_random_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
