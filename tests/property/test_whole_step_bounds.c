/*
 * The bounds of `neap` on graphs with runs in place, updates, and state that moves: on thousands of
 * tiny graphs none exceeds the optimum of least_time.h in its scope. Single moments, programs over
 * several moments and what the bound makes of them are compared one by one.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=20000 test_whole_step_bounds     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "least_time.h"
#include "planners/neap/cut_program.h"
#include "random_small_graph.h"
#include "settings.h"
#include "show_graph.h"

#include <inttypes.h>
#include <neap/solve.h>
#include <string.h>

#define SHARE ONE_IN(6)

enum { COUNT = 240 / SHARE, MOST_BUDGETS = 5, MOST_STATES = 40000, MOST_CHAIN = 4 };

/* ---- Families of graphs and links ---- */

typedef struct family {
    const char *name;
    unsigned flags; /* of random_small_graph; most have SMALL_TRAINING as well, unless odd */
    uint32_t most_ops;
    uint32_t part; /* one in `part` of COUNT, where the optimum takes long to find */
    bool link;
    neap_state_place place;
    bool every_chain; /* of moments, not a random one */
} family;

static neap_link draw_link(random_source *random, bool wanted)
{
    static const double bandwidths[] = {0.5, 1, 2, 3};
    neap_link link = {0};
    if (!wanted)
        return link;
    link.out_bandwidth = bandwidths[random_below(random, 4)];
    link.in_bandwidth = bandwidths[random_below(random, 4)];
    link.latency = random_below(random, 4) == 0 ? 0.25 : 0;
    link.duplex = random_below(random, 2);
    return link;
}

/* ---- A case ---- */

typedef struct scene {
    const neap_graph *graph;
    int64_t budget;
    neap_link link;
    neap_state_place place;
    bool every_chain;
    const problem *x;
    least_time_answer best[2]; /* by scope */
} scene;

typedef struct tally {
    uint64_t cases, unknown; /* unknown: the optimum took too long to find */
    uint64_t none[2], none_proven[2];
    uint64_t feasible[2], tight[2]; /* by scope */
    double shares[2]; /* of what the optimum takes beyond all first runs, the part proven */
    uint64_t n_shares[2];
} tally;

static const char *const scope_names[] = {"any order", "the graph's order"};

/* That of plans which may change variants from run to run. */
static least_time_answer optimum(const scene *s, cut_scope scope)
{
    least_time_options options = {.link = s->link,
                                  .fixed_order = scope == CUT_GRAPH_ORDER,
                                  .mixed_variants = true,
                                  .state_moves = s->place != NEAP_STATE_DEVICE,
                                  .state_on_host = s->place == NEAP_STATE_HOST,
                                  .most_states = MOST_STATES};
    return least_time_search(s->graph, s->budget, &options);
}

static void check_ticks(const scene *s, cut_scope scope, int64_t ticks, const char *what)
{
    const least_time_answer *best = &s->best[scope];
    NEED(s->graph, !best->found || ticks <= best->ticks,
         "within %" PRId64 ", %s (out %g, in %g, latency %g, duplex %d): %s proves %" PRId64
         ", but %" PRId64 " can be had",
         s->budget, scope_names[scope], s->link.out_bandwidth, s->link.in_bandwidth,
         s->link.latency, s->link.duplex, what, ticks, best->ticks);
}

static void check_infeasible(const scene *s, cut_scope scope, bool infeasible, const char *what)
{
    NEED(s->graph, !infeasible || !s->best[scope].found,
         "within %" PRId64 ", %s: %s finds no plan, but there is one", s->budget,
         scope_names[scope], what);
}

/* ---- Each kind of bound ---- */

static void check_cuts(const scene *s, cut *c)
{
    static const cut_watch watch;
    for (uint32_t k = 0; k < s->x->n_tasks; k++)
        for (int scope = 0; scope < 2; scope++) {
            cut_answer answer = neap_cut_solve(c, k, (cut_scope)scope, 0, INT64_MIN / 2, &watch);
            check_infeasible(s, (cut_scope)scope, answer.infeasible, "a single moment");
            if (!answer.infeasible)
                check_ticks(s, (cut_scope)scope, answer.ticks, "a single moment");
        }
}

/* Tasks of which each certainly follows the one before. */
static uint32_t draw_chain(random_source *random, const problem *x, cut_scope scope,
                           uint32_t *moments)
{
    uint8_t role[MOST_TIMED_OPS];
    uint32_t n = 0;
    for (uint32_t k = 0; k < x->n_tasks && n < MOST_CHAIN; k++) {
        neap_problem_mark_roles(x, k, scope, role);
        if (random_below(random, 2) && (n == 0 || role[moments[n - 1]] == ROLE_PAST))
            moments[n++] = k;
    }
    return n;
}

/* The integer program, and its relaxation. */
static void check_program(const scene *s, const cut *c, cut_scope scope, const uint32_t *moments,
                          uint32_t n_moments)
{
    static const cut_watch watch;
    uint8_t fates[MOST_TIMED_VALUES];
    int64_t excess[MOST_TIMED_OPS];
    for (int relaxed = 0; relaxed < 2 && NEAP_HAS_HIGHS && n_moments > 0; relaxed++) {
        program_request request = {.x = s->x,
                                   .budget = s->budget,
                                   .choices = neap_cut_choices(c),
                                   .scope = scope,
                                   .moments = moments,
                                   .n_moments = n_moments,
                                   .relaxed = relaxed,
                                   .effort = 10000,
                                   .watch = &watch};
        program_answer answer;
        neap_status status = neap_cut_program_solve(
            NULL, &request, &(program_results){fates, excess}, &answer, NULL);
        if (status == NEAP_INTERNAL) /* HiGHS does not take it: where no op takes time, say */
            continue;
        assert_int_equal(status, NEAP_OK);
        check_ticks(s, scope, answer.ticks, relaxed ? "a relaxation" : "a program");
    }
}

/* Every chain of moments. */
static void check_chains(const scene *s, const cut *c, cut_scope scope)
{
    uint8_t role[MOST_TIMED_OPS];
    for (uint32_t set = 1; set < UINT32_C(1) << s->x->n_tasks; set++) {
        uint32_t moments[MOST_TIMED_OPS], n = 0;
        bool is_chain = true;
        for (uint32_t k = 0; k < s->x->n_tasks; k++)
            if (set >> k & 1) {
                neap_problem_mark_roles(s->x, k, scope, role);
                is_chain = is_chain && (n == 0 || role[moments[n - 1]] == ROLE_PAST);
                moments[n++] = k;
            }
        if (is_chain)
            check_program(s, c, scope, moments, n);
    }
}

static void check_programs(const scene *s, const cut *c, random_source *random)
{
    uint32_t moments[MOST_CHAIN];
    for (int scope = 0; scope < 2; scope++) {
        if (s->every_chain) {
            check_chains(s, c, (cut_scope)scope);
            continue;
        }
        uint32_t n = draw_chain(random, s->x, (cut_scope)scope, moments);
        check_program(s, c, (cut_scope)scope, moments, n);
    }
}

static void count(const scene *s, cut_scope scope, int64_t ticks, bool infeasible, tally *all)
{
    const least_time_answer *best = &s->best[scope];
    int64_t least = neap_graph_least_ticks(s->graph);
    if (best->gave_up)
        return;
    all->none[scope] += !best->found;
    all->none_proven[scope] += !best->found && infeasible;
    if (!best->found)
        return;
    all->feasible[scope]++;
    all->tight[scope] += ticks == best->ticks;
    if (best->ticks > least) {
        all->shares[scope] += (double)(ticks - least) / (double)(best->ticks - least);
        all->n_shares[scope]++;
    }
}

static bound *finished_bound(const scene *s)
{
    bound *b;
    assert_int_equal(neap_bound_create(NULL, s->x, s->budget, &s->link, &b, NULL), NEAP_OK);
    while (!neap_bound_state(b)->done)
        assert_int_equal(neap_bound_improve(b, NULL, NULL, NULL), NEAP_OK);
    return b;
}

/* The same figures every time. */
static void check_again(const scene *s, const bound_figures *f)
{
    bound *b = finished_bound(s);
    const bound_figures *again = neap_bound_state(b);
    assert_true(again->any_ticks == f->any_ticks && again->order_ticks == f->order_ticks &&
                again->infeasible == f->infeasible && again->none_fits == f->none_fits &&
                again->position == f->position);
    neap_bound_destroy(b);
}

static void check_bound(const scene *s, tally *all)
{
    bound *b = finished_bound(s);
    const bound_figures *f = neap_bound_state(b);
    check_infeasible(s, CUT_ANY_ORDER, f->none_fits, "the bound");
    check_infeasible(s, CUT_GRAPH_ORDER, f->infeasible, "the bound");
    if (!f->none_fits)
        check_ticks(s, CUT_ANY_ORDER, f->any_ticks, "the bound");
    if (!f->infeasible)
        check_ticks(s, CUT_GRAPH_ORDER, f->order_ticks, "the bound");
    count(s, CUT_ANY_ORDER, f->any_ticks, f->none_fits, all);
    count(s, CUT_GRAPH_ORDER, f->order_ticks, f->infeasible, all);
    if (all->cases % 10 == 0)
        check_again(s, f);
    neap_bound_destroy(b);
}

static void check_scene(scene *s, random_source *random, tally *all)
{
    neap_arena arena;
    neap_arena_init(&arena, NULL);
    all->cases++;
    for (int scope = 0; scope < 2; scope++) {
        s->best[scope] = optimum(s, (cut_scope)scope);
        all->unknown += s->best[scope].gave_up;
    }
    cut *c = neap_cut_create(&arena, s->x, s->budget, &s->link);
    assert_non_null(c);
    check_cuts(s, c);
    check_programs(s, c, random);
    check_bound(s, all);
    neap_arena_clear(&arena);
}

/* ---- A family ---- */

static void open_problem(problem *x, const scene *s)
{
    neap_request request;
    neap_request_init(&request, s->graph, "neap");
    request.link = s->link;
    request.state = s->place;
    assert_int_equal(neap_problem_init(x, NULL, &request, NULL), NEAP_OK);
    assert_int_equal(neap_problem_let_state_travel(x, &request, NULL), NEAP_OK);
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 100.0;
}

static void report(const char *name, const tally *all)
{
    print_message("%s: %" PRIu64 " cases (%" PRIu64 " optima not known)\n", name, all->cases,
                  all->unknown);
    for (int i = 0; i < 2; i++)
        print_message("    %s: tight %.1f%% of %" PRIu64
                      ", %.1f%% of the overhead proven; of %" PRIu64
                      " without a plan %.1f%% proven\n",
                      scope_names[i], percent(all->tight[i], all->feasible[i]), all->feasible[i],
                      100 * all->shares[i] / (double)(all->n_shares[i] + !all->n_shares[i]),
                      all->none[i], percent(all->none_proven[i], all->none[i]));
}

static void check_family(const family *f, uint64_t seed)
{
    random_source random = {setting("NEAP_TEST_SEED", seed)};
    uint64_t n = (setting("NEAP_TEST_COUNT", COUNT) + f->part - 1) / f->part;
    tally all = {0};
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, n);
    for (uint64_t i = 0; i < n; i++) {
        int64_t budgets[MOST_BUDGETS];
        bool training = ((f->flags & SMALL_UPDATES) && i % 8 < 7) || i % 2;
        unsigned flags = f->flags | (training && !(f->flags & SMALL_ODD) ? SMALL_TRAINING : 0);
        neap_graph *graph = random_small_graph(&random, f->most_ops, flags);
        scene s = {.graph = graph,
                   .link = draw_link(&random, f->link),
                   .place = f->place,
                   .every_chain = f->every_chain};
        size_t n_budgets = small_graph_budgets(graph, budgets, MOST_BUDGETS);
        for (size_t k = 0; k < n_budgets; k++) {
            problem x;
            open_problem(&x, &s);
            s.x = &x;
            s.budget = budgets[k];
            if ((i + k) % 2)
                neap_problem_forget_variants(&x, s.budget);
            check_scene(&s, &random, &all);
            neap_problem_clear(&x);
        }
        neap_graph_destroy(graph);
    }
    report(f->name, &all);
    assert_true(4 * all.unknown <= 2 * all.cases); /* or there is not much to say */
}

static void test_in_place(void **state)
{
    (void)state;
    check_family(&(family){.name = "in place", .flags = SMALL_IN_PLACE, .most_ops = 7, .part = 1},
                 20261201);
    check_family(&(family){.name = "in place, variants",
                           .flags = SMALL_IN_PLACE | SMALL_VARIANTS,
                           .most_ops = 6,
                           .part = 2},
                 20261202);
    check_family(
        &(family){
            .name = "in place, odd", .flags = SMALL_IN_PLACE | SMALL_ODD, .most_ops = 6, .part = 2},
        20261203);
    check_family(&(family){.name = "in place, link",
                           .flags = SMALL_IN_PLACE,
                           .most_ops = 5,
                           .part = 4,
                           .link = true},
                 20261204);
    check_family(&(family){.name = "in place, odd, link",
                           .flags = SMALL_IN_PLACE | SMALL_ODD,
                           .most_ops = 5,
                           .part = 4,
                           .link = true},
                 20261211);
}

static void test_updates(void **state)
{
    (void)state;
    check_family(&(family){.name = "updates", .flags = SMALL_UPDATES, .most_ops = 7, .part = 1},
                 20261205);
    check_family(&(family){.name = "updates, in place",
                           .flags = SMALL_UPDATES | SMALL_IN_PLACE,
                           .most_ops = 7,
                           .part = 1},
                 20261206);
    check_family(&(family){.name = "updates, in place, link, state on the device",
                           .flags = SMALL_UPDATES | SMALL_IN_PLACE,
                           .most_ops = 5,
                           .part = 4,
                           .link = true,
                           .place = NEAP_STATE_DEVICE},
                 20261207);
}

static void test_moving_state(void **state)
{
    (void)state;
    check_family(&(family){.name = "updates, state that moves",
                           .flags = SMALL_UPDATES,
                           .most_ops = 5,
                           .part = 2,
                           .link = true},
                 20261208);
    check_family(&(family){.name = "updates, state that moves, in place",
                           .flags = SMALL_UPDATES | SMALL_IN_PLACE,
                           .most_ops = 5,
                           .part = 2,
                           .link = true},
                 20261209);
    check_family(&(family){.name = "all of it, and variants",
                           .flags = SMALL_UPDATES | SMALL_IN_PLACE | SMALL_VARIANTS,
                           .most_ops = 4,
                           .part = 4,
                           .link = true},
                 20261210);
    check_family(&(family){.name = "any ops, and state that moves",
                           .flags = SMALL_UPDATES | SMALL_IN_PLACE | SMALL_ODD,
                           .most_ops = 5,
                           .part = 4,
                           .link = true},
                 20261212);
    check_family(&(family){.name = "state on the host",
                           .flags = SMALL_UPDATES | SMALL_IN_PLACE,
                           .most_ops = 5,
                           .part = 4,
                           .link = true,
                           .place = NEAP_STATE_HOST},
                 20261213);
    check_family(&(family){.name = "values without bytes, state on the host",
                           .flags = SMALL_UPDATES | SMALL_EMPTY,
                           .most_ops = 5,
                           .part = 4,
                           .link = true,
                           .place = NEAP_STATE_HOST,
                           .every_chain = true},
                 1002);
}

static neap_graph *read_graph(const char *text)
{
    neap_graph *graph;
    neap_diag diag;
    if (neap_graph_read_text(NULL, text, strlen(text), "small", &graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    return graph;
}

/* ---- An update that is late ---- */

/* Of op2 and op4, the update, op3 follows the former and need not follow the latter, and what it
   makes takes no memory: the optimum makes what it reads again after both, op4 before. */
static neap_graph *late_update(void)
{
    static const char text[] =
        "{\"neap\":\"graph\",\"version\":1,\"values\":[{\"bytes\":3},{\"bytes\":0},{\"bytes\":3},"
        "{\"bytes\":3,\"state\":true},{\"bytes\":0},{\"bytes\":0},{\"bytes\":3},{\"bytes\":0},"
        "{\"bytes\":0,\"state\":true}],\"ops\":["
        "{\"time\":4,\"inputs\":[0],\"outputs\":[1,2]},"
        "{\"time\":0,\"inputs\":[1,3],\"outputs\":[4]},"
        "{\"time\":0,\"inputs\":[4,3],\"outputs\":[5,6],\"workspace\":3},"
        "{\"time\":4,\"inputs\":[5,0,1,2],\"outputs\":[7]},"
        "{\"time\":2,\"inputs\":[3,6,8],\"outputs\":[],\"updates\":[3,8],\"workspace\":4}],"
        "\"outputs\":[7]}";
    return read_graph(text);
}

static void test_late_update(void **state)
{
    (void)state;
    neap_graph *graph = late_update();
    for (int64_t budget = 9; budget < 20; budget++) {
        problem x;
        neap_arena arena;
        scene s = {.graph = graph,
                   .budget = budget,
                   .place = NEAP_STATE_HOST,
                   .link = {.out_bandwidth = 0.5, .in_bandwidth = 3}};
        neap_arena_init(&arena, NULL);
        open_problem(&x, &s);
        s.x = &x;
        cut *c = neap_cut_create(&arena, &x, budget, &s.link);
        assert_non_null(c);
        for (int scope = 0; scope < 2; scope++) {
            s.best[scope] = optimum(&s, (cut_scope)scope);
            check_chains(&s, c, (cut_scope)scope);
        }
        neap_arena_clear(&arena);
        neap_problem_clear(&x);
    }
    neap_graph_destroy(graph);
}

/* ---- Variants at several moments ---- */

/* A large tensor is kept over a row of ops whose fastest variants have no room beside it, and one
   of which has none at all. Each op has to be slower, so that single moments prove little. */
static neap_graph *row_of_variants(void)
{
    static const char text[] =
        "{\"neap\":\"graph\",\"version\":1,\"values\":[{\"bytes\":1},{\"bytes\":60},{\"bytes\":4},"
        "{\"bytes\":4},{\"bytes\":4},{\"bytes\":4},{\"bytes\":4},{\"bytes\":4}],\"ops\":["
        "{\"time\":40,\"inputs\":[0],\"outputs\":[1]},"
        "{\"time\":1,\"inputs\":[1],\"outputs\":[2]},"
        "{\"time\":3,\"workspace\":20,\"inputs\":[2],\"outputs\":[3],\"variants\":"
        "[{\"time\":3,\"workspace\":20},{\"time\":5,\"workspace\":8}]},"
        "{\"time\":2,\"workspace\":9,\"inputs\":[3],\"outputs\":[4],\"variants\":"
        "[{\"time\":2,\"workspace\":9},{\"time\":6,\"workspace\":7},{\"time\":9}]},"
        "{\"time\":1,\"workspace\":90,\"inputs\":[4],\"outputs\":[5],\"variants\":"
        "[{\"time\":1,\"workspace\":90},{\"time\":2,\"workspace\":30},"
        "{\"time\":3,\"workspace\":8}]},"
        "{\"time\":7,\"workspace\":50,\"inputs\":[5],\"outputs\":[6],\"variants\":"
        "[{\"time\":7,\"workspace\":50},{\"time\":8,\"workspace\":1}]},"
        "{\"time\":1,\"inputs\":[1,6],\"outputs\":[7]}],\"outputs\":[7]}";
    return read_graph(text);
}

/* The bound is the optimum but for HiGHS's tolerances, also with a link over which nothing is worth
   moving. */
static void test_row_of_variants(void **state)
{
    (void)state;
    neap_graph *graph = row_of_variants();
    int64_t least = neap_graph_least_ticks(graph);
    for (int i = 0; i < 4 && NEAP_HAS_HIGHS; i++) {
        scene s = {.graph = graph, .budget = 77};
        problem x;
        if (i / 2)
            s.link = (neap_link){.out_bandwidth = 0.5, .in_bandwidth = 0.5};
        open_problem(&x, &s);
        s.x = &x;
        if (i % 2)
            neap_problem_forget_variants(&x, s.budget);
        for (int scope = 0; scope < 2; scope++)
            s.best[scope] = optimum(&s, (cut_scope)scope);
        least_time_answer best = s.best[CUT_ANY_ORDER];
        assert_true(best.found && neap_graph_seconds(graph, best.ticks - least) >= 9);
        bound *b = finished_bound(&s);
        check_ticks(&s, CUT_ANY_ORDER, neap_bound_state(b)->any_ticks, "the bound");
        assert_true(neap_bound_state(b)->any_ticks >= best.ticks - best.ticks / 10000);
        neap_bound_destroy(b);
        neap_problem_clear(&x);
    }
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_place),        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_moving_state),    cmocka_unit_test(test_late_update),
        cmocka_unit_test(test_row_of_variants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
