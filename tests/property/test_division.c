/*
 * Dividing a graph at pairs of vertices and the best checkpoints for it
 * (src/planners/chain/division.h) against all sets of checkpoints of small random graphs: those
 * whose segments, the components that the checkpoints leave, have two ends each.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=100000 test_division     # another seed, more graphs
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_allocator.h"
#include "planners/chain/division.h"
#include "random_plan.h"
#include "settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SLOW ONE_IN(10)

enum { MOST = 11, MOST_EDGES = MOST * MOST };

typedef struct net {
    uint32_t n;
    uint32_t n_edges;
    division_edge edges[MOST_EDGES];
    uint32_t names[MOST];
    int64_t bytes[MOST], beside[MOST], weight[MOST];
} net;

/* ---- Random graphs ---- */

static bool has_edge(const net *g, uint32_t from, uint32_t to)
{
    for (uint32_t e = 0; e < g->n_edges; e++)
        if (g->edges[e].from == from && g->edges[e].to == to)
            return true;
    return false;
}

static void add_edge(net *g, uint32_t from, uint32_t to)
{
    if (!has_edge(g, from, to))
        g->edges[g->n_edges++] = (division_edge){.from = from, .to = to};
}

/* Edges between neighbours mostly, so that there are rows and branches as well as dense parts. */
static void connect(random_source *random, net *g)
{
    uint32_t span = 1 + random_below(random, 4), extra = random_below(random, 6);
    for (uint32_t v = 1; v < g->n; v++)
        add_edge(g, v - 1 - random_below(random, v < span ? v : span), v);
    for (uint32_t v = 0; v + 1 < g->n; v++) {
        bool leaves = false;
        for (uint32_t w = v + 1; w < g->n; w++)
            leaves = leaves || has_edge(g, v, w);
        if (!leaves)
            add_edge(g, v, v + 1 + random_below(random, g->n - 1 - v < span ? g->n - 1 - v : span));
    }
    for (uint32_t k = 0; k < extra; k++) {
        uint32_t from = random_below(random, g->n - 1);
        add_edge(g, from, from + 1 + random_below(random, g->n - 1 - from));
    }
}

static net random_net(random_source *random, uint32_t most)
{
    net g = {.n = 2 + random_below(random, most - 1)};
    uint32_t size = 1 + random_below(random, 9), rare = 1 + random_below(random, 4);
    connect(random, &g);
    for (uint32_t e = 0; e < g.n_edges; e++)
        g.edges[e].bytes = random_below(random, rare) ? 0 : random_below(random, size);
    for (uint32_t v = 0; v < g.n; v++) {
        bool inside = v > 0 && v + 1 < g.n;
        g.names[v] = g.n - 1 - v; /* any names will do */
        g.bytes[g.names[v]] = random_below(random, size + 1);
        g.beside[g.names[v]] =
            inside && random_below(random, rare) == 0 ? random_below(random, size) : 0;
        g.weight[g.names[v]] = g.bytes[g.names[v]] + g.beside[g.names[v]];
    }
    return g;
}

static void print_net(const net *g)
{
    for (uint32_t v = 0; v < g->n; v++)
        printf("vertex %" PRIu32 ": %" PRId64 " bytes, %" PRId64 " beside\n", v,
               g->bytes[g->names[v]], g->beside[g->names[v]]);
    for (uint32_t e = 0; e < g->n_edges; e++)
        printf("%" PRIu32 " -> %" PRIu32 ": %" PRId64 "\n", g->edges[e].from, g->edges[e].to,
               g->edges[e].bytes);
}

/* ---- All sets ---- */

/* Spreads the smallest number of a component over it; kept vertices have numbers of their own. */
static void number_components(const net *g, const bool *kept, uint32_t *component)
{
    for (uint32_t v = 0; v < g->n; v++)
        component[v] = v;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t e = 0; e < g->n_edges; e++) {
            uint32_t *a = &component[g->edges[e].from], *b = &component[g->edges[e].to];
            if (kept[g->edges[e].from] || kept[g->edges[e].to] || *a == *b)
                continue;
            *a = *b = *a < *b ? *a : *b;
            changed = true;
        }
    }
}

/* The objective of a set with both ends, or -1 if a segment has other than two ends. */
static int64_t objective(const net *g, const bool *kept)
{
    uint32_t component[MOST];
    int64_t held[MOST] = {0}, stored = 0, largest = 0;
    bool touches[MOST][MOST] = {{false}};
    number_components(g, kept, component);
    for (uint32_t e = 0; e < g->n_edges; e++) {
        uint32_t from = g->edges[e].from, to = g->edges[e].to;
        if (kept[from] && kept[to]) {
            largest = g->edges[e].bytes > largest ? g->edges[e].bytes : largest;
            continue;
        }
        held[component[kept[from] ? to : from]] += g->edges[e].bytes;
        if (kept[from])
            touches[component[to]][from] = true;
        if (kept[to])
            touches[component[from]][to] = true;
    }
    for (uint32_t v = 0; v < g->n; v++) {
        uint32_t name = g->names[v];
        if (kept[v]) {
            stored += g->bytes[name];
            largest = g->beside[name] > largest ? g->beside[name] : largest;
        } else {
            held[component[v]] += g->weight[name];
        }
    }
    for (uint32_t c = 0; c < g->n; c++) {
        uint32_t ends = 0;
        for (uint32_t v = 0; v < g->n; v++)
            ends += touches[c][v];
        if (!kept[c] && component[c] == c && ends != 2)
            return -1;
        largest = held[c] > largest ? held[c] : largest;
    }
    return stored + largest;
}

static int64_t least_of_all(const net *g)
{
    int64_t least = INT64_MAX;
    bool kept[MOST];
    for (uint32_t set = 0; set < 1u << (g->n - 2); set++) {
        for (uint32_t v = 0; v < g->n; v++)
            kept[v] = v == 0 || v == g->n - 1 || (set >> (v - 1) & 1);
        int64_t value = objective(g, kept);
        least = value >= 0 && value < least ? value : least;
    }
    return least;
}

/* ---- The search ---- */

static neap_status search(neap_allocator *allocator, const net *g, division_answer *answer,
                          neap_diag *diag)
{
    division_list list = {.weight = g->weight};
    neap_arena arena;
    division *whole;
    const closed_set set = {.n = g->n, .names = g->names, .edges = g->edges, .n_edges = g->n_edges};
    neap_arena_init(&arena, allocator);
    list.arena = &arena;
    neap_status status = neap_division_build(&list, &set, &whole, diag);
    if (status == NEAP_OK) {
        const division_problem problem = {.list = &list,
                                          .sets = &whole,
                                          .n_sets = 1,
                                          .bytes = g->bytes,
                                          .beside = g->beside,
                                          .n_names = g->n,
                                          .fixed =
                                              g->bytes[g->names[0]] + g->bytes[g->names[g->n - 1]]};
        status = neap_division_search(&problem, answer, allocator, diag);
    }
    neap_division_clear(&list);
    neap_arena_clear(&arena);
    return status;
}

static void test_against_all_sets(void **state)
{
    (void)state;
    uint64_t seed = setting("NEAP_TEST_SEED", 20240607);
    uint64_t count = setting("NEAP_TEST_COUNT", 6000 / SLOW);
    random_source random = {seed};
    printf("seed %" PRIu64 ", %" PRIu64 " graphs\n", seed, count);
    for (uint64_t k = 0; k < count; k++) {
        net g = random_net(&random, k % 20 ? 8 : MOST);
        bool chosen[MOST] = {false}, kept[MOST];
        division_answer answer = {.chosen = chosen};
        assert_int_equal(search(NULL, &g, &answer, NULL), NEAP_OK);
        for (uint32_t v = 0; v < g.n; v++)
            kept[v] = v == 0 || v == g.n - 1 || chosen[g.names[v]];
        int64_t claimed = objective(&g, kept), least = least_of_all(&g);
        if (answer.objective == least && claimed == least)
            continue;
        print_net(&g);
        for (uint32_t v = 0; v < g.n; v++)
            printf("%s", kept[v] ? "*" : ".");
        fail_msg("graph %" PRIu64 ": %" PRId64 " found, %" PRId64 " by its set, %" PRId64
                 " is the least",
                 k, answer.objective, claimed, least);
    }
}

/* K4 with ends that are not neighbours, whose edge 1 -> 2 is a row of three: nothing separates it
 * except the row's ends, so the split has two vertices between its parts, and the row is a part. */
static void test_split(void **state)
{
    (void)state;
    net g = {.n = 6, .names = {0, 1, 2, 3, 4, 5}, .bytes = {0, 1, 5, 5, 1, 0}};
    static const uint32_t pairs[][2] = {{0, 1}, {0, 4}, {1, 2}, {2, 3}, {3, 4}, {1, 5}, {4, 5}};
    bool chosen[MOST] = {false};
    division_answer answer = {.chosen = chosen};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        add_edge(&g, pairs[i][0], pairs[i][1]);
    memcpy(g.weight, g.bytes, sizeof g.weight);
    assert_int_equal(search(NULL, &g, &answer, NULL), NEAP_OK);
    assert_int_equal(answer.objective, 12); /* all in one segment, or 1 and 4 kept: 2 + 10 */
    g.bytes[1] = g.weight[1] = g.bytes[4] = g.weight[4] = 0;
    g.beside[1] = 4;
    g.weight[1] = 4;
    memset(chosen, 0, sizeof chosen);
    assert_int_equal(search(NULL, &g, &answer, NULL), NEAP_OK);
    assert_int_equal(answer.objective, 10); /* 1 and 4 cost nothing; the row is one segment */
    assert_true(chosen[1] && chosen[4] && !chosen[2] && !chosen[3]);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    random_source random = {3};
    net g = {0};
    while (g.n < MOST || g.n_edges < 18)
        g = random_net(&random, MOST);
    for (size_t at = 0;; at++) {
        failing_allocator failing;
        neap_diag diag = {0};
        bool chosen[MOST] = {false};
        division_answer answer = {.chosen = chosen};
        failing_allocator_init(&failing);
        failing.fail_from = at;
        failing.fail_end = at + 1;
        neap_status status = search(&failing.base, &g, &answer, &diag);
        assert_int_equal(failing.live_blocks, 0);
        assert_null(failing.fault);
        if (status == NEAP_OK)
            return;
        assert_int_equal(status, NEAP_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_all_sets),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
