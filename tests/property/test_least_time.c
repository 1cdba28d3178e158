/*
 * The exhaustive optimum of least_time.h, which other tests rely on: against two searches that know
 * none of its rules, by hand, and in what must hold of every optimum.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=3000 test_least_time     for other, and more, graphs
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "least_time.h"
#include "random_small_graph.h"
#include "settings.h"
#include "show_graph.h"
#include "small_graphs.h"

#include <inttypes.h>
#include <neap/check.h>
#include <neap/planner.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define SHARE 4
#else
#define SHARE 1
#endif

/* ---- What an answer is worth ---- */

static neap_verdict judge(const neap_graph *graph, const neap_plan *plan, int64_t budget,
                          const neap_link *link)
{
    neap_check_options options;
    neap_verdict verdict;
    neap_check_options_init(&options);
    options.budget = budget;
    options.link = link;
    assert_int_equal(neap_check(NULL, graph, plan, &options, &verdict, NULL), NEAP_OK);
    return verdict;
}

static bool runs_by_one_variant(const neap_graph *graph, const neap_plan *plan)
{
    uint32_t variants[MOST_TIMED_OPS];
    bool seen[MOST_TIMED_OPS] = {0};
    const neap_step *steps = neap_plan_steps(plan);
    assert_true(neap_graph_op_count(graph) <= MOST_TIMED_OPS);
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        if (steps[i].kind != NEAP_COMPUTE)
            continue;
        if (seen[steps[i].id] && variants[steps[i].id] != steps[i].variant)
            return false;
        seen[steps[i].id] = true;
        variants[steps[i].id] = steps[i].variant;
    }
    return true;
}

static bool begins_in_order(const neap_plan *plan)
{
    uint32_t next = 0;
    const neap_step *steps = neap_plan_steps(plan);
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        if (steps[i].kind == NEAP_COMPUTE && steps[i].id > next)
            return false;
        next += steps[i].kind == NEAP_COMPUTE && steps[i].id == next;
    }
    return true;
}

/* The answer, and its plan judged: -1 where there is no plan. */
static int64_t least(const neap_graph *graph, int64_t budget, least_time_options options)
{
    options.want_plan = true;
    least_time_answer answer = least_time_search(graph, budget, &options);
    NEED(graph, !answer.gave_up, "gave up within %" PRId64 " bytes", budget);
    NEED(graph, answer.found == (answer.plan != NULL), "an answer without its plan");
    if (!answer.found)
        return -1;
    neap_verdict verdict = judge(graph, answer.plan, budget, &options.link);
    NEED(graph, verdict.accepted, "within %" PRId64 ": %s", budget, verdict.reason);
    NEED(graph, verdict.ticks == answer.ticks, "%" PRId64 " ticks, but %" PRId64 " by the judge",
         answer.ticks, verdict.ticks);
    NEED(graph, options.mixed_variants || runs_by_one_variant(graph, answer.plan),
         "two variants of one op");
    NEED(graph, !options.fixed_order || begins_in_order(answer.plan), "not in the graph's order");
    neap_plan_destroy(answer.plan);
    return answer.ticks;
}

/* Fast and slow ones, one way slower than the other, with latency and without. */
static neap_link random_link(random_source *random)
{
    static const double bandwidths[] = {0.5, 1, 2, 3, 7};
    neap_link link = {.out_bandwidth = bandwidths[random_below(random, 5)],
                      .in_bandwidth = bandwidths[random_below(random, 5)],
                      .latency = random_below(random, 3) == 0 ? 0.25 : 0,
                      .duplex = random_below(random, 2) == 0};
    link.host_memory = random_below(random, 5) == 0 ? 1 + random_below(random, 6) : 0;
    return link;
}

/* ---- A search without rules: every step that is legal, every moment once ---- */

enum { MOST_VALUES = 20, MOST_MOMENTS = 400000, SLOTS = 1 << 20 };

/* What the future depends on, by docs/memory-model.md. Compared as bytes. */
typedef struct moment {
    int64_t clock, engine[2];                          /* all times 0 once they are past */
    int64_t copied[MOST_VALUES], arrives[MOST_VALUES]; /* end of the last copy, of the fetch */
    uint8_t resident[MOST_VALUES], on_host[MOST_VALUES];
    uint8_t variant[MOST_TIMED_OPS]; /* 0: not run; else which and 1 */
} moment;

typedef struct plain {
    const neap_graph *graph;
    int64_t budget, cutoff;
    least_time_options options;
    moment *moments;
    uint32_t count, *slots;
} plain;

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t bytes_of(const neap_graph *graph, uint32_t value)
{
    return neap_graph_value(graph, neap_graph_value(graph, value)->storage)->bytes;
}

static int64_t live_bytes(const neap_graph *graph, const moment *m)
{
    bool live[MOST_VALUES] = {0};
    int64_t sum = neap_graph_fixed_bytes(graph);
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (m->resident[v])
            live[neap_graph_value(graph, v)->storage] = true;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        sum += live[v] ? neap_graph_value(graph, v)->bytes : 0;
    return sum;
}

static int64_t host_bytes(const neap_graph *graph, const moment *m)
{
    int64_t sum = 0;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        sum += m->on_host[v] ? bytes_of(graph, v) : 0;
    return sum;
}

static int64_t end_of(const moment *m)
{
    return later(m->clock, later(m->engine[0], m->engine[1]));
}

/* Times that are past are all the same. */
static void forget_the_past(moment *m)
{
    for (int v = 0; v < MOST_VALUES; v++) {
        m->copied[v] = m->copied[v] > m->clock ? m->copied[v] : 0;
        m->arrives[v] = m->arrives[v] > m->clock ? m->arrives[v] : 0;
    }
    for (int e = 0; e < 2; e++)
        m->engine[e] = m->engine[e] > m->clock ? m->engine[e] : 0;
}

/* Keeps the moment unless it is known, too late to be of use, or over the budget. */
static void keep(plain *s, moment *m, int64_t workspace)
{
    int64_t host = s->options.link.host_memory;
    forget_the_past(m);
    int64_t bound = m->clock;
    for (uint32_t o = 0; o < neap_graph_op_count(s->graph); o++) {
        const neap_op *op = neap_graph_op(s->graph, o);
        int64_t fastest = INT64_MAX;
        for (uint32_t i = 0; i < op->n_variants; i++)
            fastest = op->variants[i].ticks < fastest ? op->variants[i].ticks : fastest;
        bound += m->variant[o] ? 0 : fastest;
    }
    if (later(bound, end_of(m)) >= s->cutoff || s->count == MOST_MOMENTS ||
        live_bytes(s->graph, m) + workspace > s->budget ||
        (host > 0 && host_bytes(s->graph, m) > host))
        return;
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < sizeof *m; i++)
        hash = (hash ^ ((const unsigned char *)m)[i]) * 1099511628211u;
    uint32_t at = (uint32_t)(hash >> 20) % SLOTS;
    for (; s->slots[at]; at = (at + 1) % SLOTS)
        if (memcmp(&s->moments[s->slots[at] - 1], m, sizeof *m) == 0)
            return;
    s->moments[s->count++] = *m;
    s->slots[at] = s->count;
}

static void plain_compute(plain *s, const moment *before, uint32_t id)
{
    const neap_op *op = neap_graph_op(s->graph, id);
    moment ready = *before;
    for (uint32_t o = 0; s->options.fixed_order && o < id; o++)
        if (!ready.variant[o])
            return;
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        if (!ready.resident[op->inputs[i]])
            return;
        ready.clock = later(ready.clock, ready.arrives[op->inputs[i]]);
    }
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        if (ready.resident[op->outputs[i]])
            return;
        ready.resident[op->outputs[i]] = 1;
    }
    for (uint32_t i = 0; i < op->n_variants; i++) {
        moment m = ready;
        if (m.variant[id] && m.variant[id] != i + 1 && !s->options.mixed_variants)
            continue;
        m.variant[id] = (uint8_t)(s->options.mixed_variants ? 1 : i + 1);
        m.clock += op->variants[i].ticks;
        keep(s, &m, op->variants[i].workspace);
    }
}

static void plain_copy(plain *s, const moment *before, uint32_t v, bool out)
{
    const neap_link *link = &s->options.link;
    moment m = *before;
    int e = link->duplex && !out;
    int64_t start = later(later(m.clock, m.engine[e]), m.copied[v]);
    m.engine[e] = m.copied[v] = start + neap_link_ticks(link, s->graph, out, bytes_of(s->graph, v));
    if (out) {
        m.on_host[v] = 1;
    } else {
        m.resident[v] = 1;
        m.arrives[v] = m.copied[v];
    }
    keep(s, &m, 0);
}

static void plain_value(plain *s, const moment *before, uint32_t v)
{
    const neap_link *link = &s->options.link;
    if (neap_graph_value(s->graph, v)->producer == NEAP_NONE)
        return;
    if (before->resident[v]) {
        moment m = *before;
        m.resident[v] = 0;
        m.clock = later(m.clock, m.copied[v]);
        keep(s, &m, 0);
        if (link->out_bandwidth > 0)
            plain_copy(s, before, v, true);
    } else if (before->on_host[v] && link->in_bandwidth > 0) {
        plain_copy(s, before, v, false);
    }
}

static bool is_complete(const neap_graph *graph, const moment *m)
{
    uint32_t n_outputs;
    const uint32_t *outputs = neap_graph_outputs(graph, &n_outputs);
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (!m->variant[o])
            return false;
    for (uint32_t i = 0; i < n_outputs; i++)
        if (!m->resident[outputs[i]])
            return false;
    return true;
}

/* Looks for a plan that is faster than `cutoff`, among all. False: there were too many. */
static bool search_plainly(const neap_graph *graph, int64_t budget, least_time_options options,
                           int64_t cutoff)
{
    plain s = {.graph = graph, .budget = budget, .options = options, .cutoff = cutoff};
    moment start;
    memset(&start, 0, sizeof start);
    assert_true(neap_graph_value_count(graph) <= MOST_VALUES);
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        start.resident[v] = neap_graph_value(graph, v)->producer == NEAP_NONE;
    s.moments = malloc(MOST_MOMENTS * sizeof *s.moments);
    s.slots = calloc(SLOTS, sizeof *s.slots);
    assert_true(s.moments && s.slots);
    keep(&s, &start, 0);
    for (uint32_t i = 0; i < s.count && s.count < MOST_MOMENTS; i++) {
        NEED(graph, !is_complete(graph, &s.moments[i]),
             "%" PRId64 " within %" PRId64 " bytes, but %" PRId64 " can be had", cutoff, budget,
             end_of(&s.moments[i]));
        for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
            plain_compute(&s, &s.moments[i], o);
        for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
            plain_value(&s, &s.moments[i], v);
    }
    bool all = s.count < MOST_MOMENTS;
    free(s.moments);
    free(s.slots);
    return all;
}

/* Where there is no plan, none is found in ten times the time of all ops either. */
static int64_t cutoff_of(const neap_graph *graph, int64_t ticks)
{
    return ticks >= 0 ? ticks : 3 * neap_graph_base_ticks(graph) + 1;
}

typedef struct plain_tally {
    uint64_t asked, proven;
} plain_tally;

static void check_plainly(const neap_graph *graph, least_time_options options, plain_tally *tally)
{
    int64_t budgets[4];
    size_t n = small_graph_budgets(graph, budgets, 4);
    for (size_t i = 0; i < n; i++) {
        int64_t ticks = least(graph, budgets[i], options);
        tally->asked++;
        tally->proven += search_plainly(graph, budgets[i], options, cutoff_of(graph, ticks));
    }
}

static unsigned random_flags(random_source *random)
{
    return random_below(random, 4);
}

static void test_against_a_plain_search(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20250301)};
    uint64_t count = setting("NEAP_TEST_COUNT", 600 / SHARE);
    plain_tally without = {0}, with = {0};
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        least_time_options options = {.fixed_order = random_below(&random, 3) == 0,
                                      .mixed_variants = random_below(&random, 3) == 0};
        bool link = i % 2;
        neap_graph *graph = random_small_graph(&random, link ? 4 : 5, random_flags(&random));
        if (link)
            options.link = random_link(&random);
        check_plainly(graph, options, link ? &with : &without);
        neap_graph_destroy(graph);
    }
    print_message("proven: %" PRIu64 " of %" PRIu64 " without a link, %" PRIu64 " of %" PRIu64
                  " with one\n",
                  without.proven, without.asked, with.proven, with.asked);
    assert_true(without.proven == without.asked && 10 * with.proven >= 7 * with.asked);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_plain_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
