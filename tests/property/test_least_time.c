/*
 * The exhaustive optimum of least_time.h, which other tests rely on: compared with two searches
 * that use none of its rules, with results computed by hand, and with properties of every optimum.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=3000 test_least_time     # another seed, more cases
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
#include <neap/solve.h>
#include <stdlib.h>
#include <string.h>

#define SHARE ONE_IN(8)

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

static bool is_update(const neap_graph *graph, uint32_t op)
{
    return neap_graph_op(graph, op)->n_updates > 0;
}

/* Updates may run anywhere. */
static bool begins_in_order(const neap_graph *graph, const neap_plan *plan)
{
    uint32_t next = 0;
    const neap_step *steps = neap_plan_steps(plan);
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        while (next < neap_graph_op_count(graph) && is_update(graph, next))
            next++;
        if (steps[i].kind != NEAP_COMPUTE || is_update(graph, steps[i].id))
            continue;
        if (steps[i].id > next)
            return false;
        next += steps[i].id == next;
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
    NEED(graph, !options.fixed_order || begins_in_order(graph, answer.plan),
         "not in the graph's order");
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

enum { MOST_VALUES = 20, MOST_MOMENTS = 40000, SLOTS = 1 << 17 };

/* What the future depends on, by docs/memory-model.md. Compared as bytes. */
typedef struct moment {
    int64_t clock, engine[2];                            /* all times 0 once they are past */
    int64_t copied[MOST_VALUES], arrives[MOST_VALUES];   /* end of the last copy, of the fetch */
    uint8_t resident[MOST_VALUES], on_host[MOST_VALUES]; /* the host has it as it is now */
    uint8_t variant[MOST_TIMED_OPS];                     /* 0: not run; else which and 1 */
} moment;

typedef struct plain {
    const neap_graph *graph;
    bool starts_on_host[MOST_VALUES];
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

static uint32_t storage_of(const plain *s, uint32_t value)
{
    return neap_graph_value(s->graph, value)->storage;
}

/* Whether an update allows the op to run. */
static bool is_in_time(const plain *s, const moment *m, uint32_t id)
{
    const neap_op *op = neap_graph_op(s->graph, id);
    if (op->n_updates > 0)
        return !m->variant[id];
    for (uint32_t o = 0; o < neap_graph_op_count(s->graph); o++)
        for (uint32_t k = 0; k < neap_graph_op(s->graph, o)->n_updates && m->variant[o]; k++)
            for (uint32_t i = 0; i < op->n_inputs; i++)
                if (storage_of(s, op->inputs[i]) ==
                    storage_of(s, neap_graph_op(s->graph, o)->updates[k]))
                    return false;
    return true;
}

static void plain_update(const plain *s, const neap_op *op, moment *m)
{
    for (uint32_t k = 0; k < op->n_updates; k++) {
        m->clock = later(m->clock, m->copied[op->updates[k]]);
        for (uint32_t v = 0; v < neap_graph_value_count(s->graph); v++)
            if (storage_of(s, v) == storage_of(s, op->updates[k]))
                m->on_host[v] = 0;
    }
}

/* The input makes way for the output; false if it cannot. */
static bool plain_write_over(const plain *s, const neap_op *op, moment *m)
{
    uint32_t input = op->in_place_input;
    if (input == NEAP_NONE || s->options.out_of_place ||
        neap_graph_value(s->graph, input)->producer == NEAP_NONE ||
        neap_graph_value(s->graph, op->in_place_output)->view_of != NEAP_NONE ||
        bytes_of(s->graph, input) != bytes_of(s->graph, op->in_place_output))
        return false;
    for (uint32_t v = 0; v < neap_graph_value_count(s->graph); v++)
        if (v != input && m->resident[v] &&
            (storage_of(s, v) == storage_of(s, input) || storage_of(s, v) == op->in_place_output))
            return false;
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (storage_of(s, op->outputs[i]) == storage_of(s, input))
            return false;
    m->resident[input] = 0;
    m->clock = later(m->clock, m->copied[input]);
    return true;
}

static void plain_run(plain *s, const moment *before, uint32_t id, bool in_place)
{
    const neap_op *op = neap_graph_op(s->graph, id);
    moment ready = *before;
    if (!is_in_time(s, before, id) || (in_place && op->in_place_input == NEAP_NONE))
        return;
    for (uint32_t o = 0; s->options.fixed_order && o < id && !is_update(s->graph, id); o++)
        if (!ready.variant[o] && !is_update(s->graph, o))
            return;
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        if (!ready.resident[op->inputs[i]])
            return;
        ready.clock = later(ready.clock, ready.arrives[op->inputs[i]]);
    }
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (ready.resident[op->outputs[i]])
            return;
    if (in_place && !plain_write_over(s, op, &ready))
        return;
    plain_update(s, op, &ready);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        ready.resident[op->outputs[i]] = 1;
    for (uint32_t i = 0; i < op->n_variants; i++) {
        moment m = ready;
        if (m.variant[id] && m.variant[id] != i + 1 && !s->options.mixed_variants)
            continue;
        m.variant[id] = (uint8_t)(s->options.mixed_variants ? 1 : i + 1);
        m.clock += op->variants[i].ticks;
        keep(s, &m, op->variants[i].workspace);
    }
}

static void plain_compute(plain *s, const moment *before, uint32_t id)
{
    plain_run(s, before, id, false);
    plain_run(s, before, id, true);
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
    bool state = neap_graph_value(s->graph, v)->state && s->options.state_moves;
    if (neap_graph_value(s->graph, v)->producer == NEAP_NONE && !state)
        return;
    if (before->resident[v]) {
        moment m = *before;
        m.resident[v] = 0;
        m.clock = later(m.clock, m.copied[v]);
        if (!state || before->on_host[v])
            keep(s, &m, 0);
        if (link->out_bandwidth > 0)
            plain_copy(s, before, v, true);
    } else if (before->on_host[v] && link->in_bandwidth > 0) {
        plain_copy(s, before, v, false);
    }
}

static bool is_complete(const plain *s, const moment *m)
{
    const neap_graph *graph = s->graph;
    uint32_t n_outputs;
    const uint32_t *outputs = neap_graph_outputs(graph, &n_outputs);
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (!m->variant[o])
            return false;
    for (uint32_t i = 0; i < n_outputs; i++)
        if (!m->resident[outputs[i]])
            return false;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (neap_graph_value(graph, v)->state && m->resident[v] == s->starts_on_host[v])
            return false;
        else if (s->starts_on_host[v] && !m->on_host[v])
            return false;
    return true;
}

/* Looks for a plan that is faster than `cutoff`, among all with this state on the host at the start
   (a bit for each state value, in order). False: there were too many. */
static bool search_plainly_from(const neap_graph *graph, int64_t budget, least_time_options options,
                                int64_t cutoff, uint32_t on_host)
{
    plain s = {.graph = graph, .budget = budget, .options = options, .cutoff = cutoff};
    moment start;
    memset(&start, 0, sizeof start);
    assert_true(neap_graph_value_count(graph) <= MOST_VALUES);
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        start.resident[v] = neap_graph_value(graph, v)->producer == NEAP_NONE;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (neap_graph_value(graph, v)->state) {
            s.starts_on_host[v] = on_host % 2;
            start.on_host[v] = on_host % 2;
            start.resident[v] = !(on_host % 2);
            on_host /= 2;
        }
    s.moments = malloc(MOST_MOMENTS * sizeof *s.moments);
    s.slots = calloc(SLOTS, sizeof *s.slots);
    assert_true(s.moments && s.slots);
    keep(&s, &start, 0);
    for (uint32_t i = 0; i < s.count && s.count < MOST_MOMENTS; i++) {
        NEED(graph, !is_complete(&s, &s.moments[i]),
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

static bool search_plainly(const neap_graph *graph, int64_t budget, least_time_options options,
                           int64_t cutoff)
{
    uint32_t n_state = 0;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        n_state += neap_graph_value(graph, v)->state;
    bool all = true;
    for (uint32_t on_host = 0; on_host < (options.state_moves ? 1u << n_state : 1); on_host++)
        all = search_plainly_from(graph, budget, options, cutoff, on_host) && all;
    return all;
}

/* Where there is no plan, none is found in three times the time of all ops either. */
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

/* Runs in place always, updates often. */
static unsigned whole_step_flags(random_source *random)
{
    unsigned updates = random_below(random, 3) ? SMALL_TRAINING | SMALL_UPDATES : 0;
    return SMALL_IN_PLACE | updates | random_below(random, 4);
}

static void test_against_a_plain_search(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20250301)};
    uint64_t count = setting("NEAP_TEST_COUNT", 120 / SHARE);
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

/* Runs in place, updates, and state that moves. */
static void test_whole_steps_against_a_plain_search(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20261116)};
    uint64_t count = setting("NEAP_TEST_COUNT", 40 / SHARE);
    plain_tally without = {0}, with = {0};
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        least_time_options options = {.fixed_order = random_below(&random, 3) == 0,
                                      .mixed_variants = random_below(&random, 3) == 0};
        bool link = i % 2;
        neap_graph *graph = random_small_graph(&random, link ? 5 : 6, whole_step_flags(&random));
        if (link) {
            options.link = random_link(&random);
            options.link.host_memory = 0;
            options.state_moves = random_below(&random, 4) > 0;
        }
        check_plainly(graph, options, link ? &with : &without);
        neap_graph_destroy(graph);
    }
    print_message("proven: %" PRIu64 " of %" PRIu64 " without a link, %" PRIu64 " of %" PRIu64
                  " with one\n",
                  without.proven, without.asked, with.proven, with.asked);
    assert_true(10 * without.proven >= 9 * without.asked && 2 * with.proven >= with.asked);
}

/* ---- Its own rules ---- */

/* Few enough values for a link: the optimum of some graphs of five ops takes minutes. */
static neap_graph *draw_little(random_source *random)
{
    for (;;) {
        neap_graph *graph = random_small_graph(random, 5, random_flags(random));
        if (neap_graph_value_count(graph) <= 8)
            return graph;
        neap_graph_destroy(graph);
    }
}

/* The answer without some of the rules is the same; false where it is not known for all of them. */
static bool check_rules(const neap_graph *graph, int64_t budget, least_time_options options)
{
    int64_t ticks = 0;
    for (unsigned left_out = 0; left_out < 4; left_out++) {
        options.every_place = left_out & 1;
        options.equals_only = left_out & 2;
        least_time_answer answer = least_time_search(graph, budget, &options);
        ticks = left_out == 0 ? answer.ticks : ticks;
        if (answer.gave_up)
            return false;
        NEED(graph, answer.ticks == ticks,
             "%" PRId64 " ticks within %" PRId64 " bytes, but without %s%s %" PRId64, ticks, budget,
             left_out & 1 ? "places " : "", left_out & 2 ? "clocks" : "", answer.ticks);
    }
    return true;
}

static void test_without_its_rules(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20250304)};
    uint64_t count = setting("NEAP_TEST_COUNT", 200 / SHARE), asked = 0, settled = 0;
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        least_time_options options = {.most_states = 5000, .link = random_link(&random)};
        int64_t budgets[3];
        neap_graph *graph = draw_little(&random);
        size_t n = small_graph_budgets(graph, budgets, 3);
        for (size_t b = 0; b < n; b++, asked++)
            settled += check_rules(graph, budgets[b], options);
        neap_graph_destroy(graph);
    }
    print_message("settled: %" PRIu64 " of %" PRIu64 "\n", settled, asked);
    assert_true(2 * settled >= asked);
}

/* ---- Every list of a given number of steps, by the judge alone ---- */

enum { MOST_STEPS = 7, MOST_LISTS = 60000 };

typedef struct lists {
    const neap_graph *graph;
    int64_t budget, ticks; /* ticks: of the fastest so far */
    neap_link link;
    uint32_t count;
    size_t n_steps;
    neap_step steps[MOST_STEPS];
} lists;

static void try_lists(lists *l);

static void try_step(lists *l, neap_step step)
{
    l->steps[l->n_steps++] = step;
    try_lists(l);
    l->n_steps--;
}

/* Judges the list, and if it is right as far as it goes, all that begin with it. */
static void try_lists(lists *l)
{
    neap_plan *plan;
    if (l->count++ >= MOST_LISTS)
        return;
    assert_int_equal(neap_plan_create(NULL, "small", "any", -1, &plan, NULL), NEAP_OK);
    for (size_t i = 0; i < l->n_steps; i++)
        assert_int_equal(neap_plan_append(plan, l->steps[i], NULL), NEAP_OK);
    neap_verdict verdict = judge(l->graph, plan, l->budget, &l->link);
    neap_plan_destroy(plan);
    if (verdict.accepted && (l->ticks < 0 || verdict.ticks < l->ticks))
        l->ticks = verdict.ticks;
    if ((!verdict.accepted && verdict.step != SIZE_MAX) || l->n_steps == MOST_STEPS)
        return;
    for (uint32_t o = 0; o < neap_graph_op_count(l->graph); o++)
        for (uint32_t i = 0; i < neap_graph_op(l->graph, o)->n_variants; i++)
            try_step(l, (neap_step){NEAP_COMPUTE, o, i, false});
    for (uint32_t v = 0; v < neap_graph_value_count(l->graph); v++)
        for (int kind = NEAP_FREE; kind <= NEAP_PREFETCH; kind++)
            try_step(l, (neap_step){(neap_step_kind)kind, v, 0, false});
}

/* No list is faster, and if the plan is short enough to be among them, one is as fast. True where
   the lists could be tried. */
static bool check_lists(const neap_graph *graph, int64_t budget, least_time_options options)
{
    int64_t ticks = least(graph, budget, options);
    lists l = {.graph = graph, .budget = budget, .ticks = -1, .link = options.link};
    try_lists(&l);
    NEED(graph, l.ticks < 0 || (ticks >= 0 && ticks <= l.ticks),
         "%" PRId64 " within %" PRId64 " bytes, but %" PRId64 " can be had", ticks, budget,
         l.ticks);
    if (l.count > MOST_LISTS || ticks < 0)
        return l.count <= MOST_LISTS;
    options.want_plan = true;
    least_time_answer answer = least_time_search(graph, budget, &options);
    size_t n_steps = neap_plan_step_count(answer.plan);
    neap_plan_destroy(answer.plan);
    NEED(graph, n_steps > MOST_STEPS || l.ticks == ticks, "a plan that no list has");
    return n_steps <= MOST_STEPS;
}

static void test_against_every_list(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20250302)};
    uint64_t count = setting("NEAP_TEST_COUNT", 60 / SHARE), asked = 0, settled = 0;
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        least_time_options options = {.mixed_variants = true};
        int64_t budgets[2];
        neap_graph *graph = random_small_graph(&random, 3, random_flags(&random));
        if (i % 2)
            options.link = random_link(&random);
        size_t n = small_graph_budgets(graph, budgets, 2);
        for (size_t b = 0; b < n; b++, asked++)
            settled += check_lists(graph, budgets[b], options);
        neap_graph_destroy(graph);
    }
    print_message("settled: %" PRIu64 " of %" PRIu64 "\n", settled, asked);
    assert_true(2 * settled >= asked);
}

/* ---- By hand ---- */

static void expect(const neap_graph *graph, int64_t budget, least_time_options options,
                   double seconds)
{
    int64_t ticks = least(graph, budget, options);
    double found = ticks < 0 ? -1 : neap_graph_seconds(graph, ticks);
    if (found != seconds)
        fail_msg("%g s within %" PRId64 " bytes, not %g s", found, budget, seconds);
}

static void test_no_choice(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(abc_graph); /* 10 + 100 + 200 + 50 bytes, and no way around */
    expect(graph, 359, (least_time_options){0}, -1);
    expect(graph, 360, (least_time_options){0}, 3);
    expect(graph, INT64_MAX, (least_time_options){.fixed_order = true}, 3);
    expect(graph, 359, (least_time_options){.link = {.out_bandwidth = 1e3, .in_bandwidth = 1e3}},
           -1);
    neap_graph_destroy(graph);
}

/*
 * a (4 bytes, 5 s) is of use only after b (6 bytes) has come and gone. In the graph's order it is
 * made again or moved; in the other it is made late.
 */
static void test_made_again_or_moved(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(
        "{'neap':'graph','version':1,'values':[{'bytes':0},{'bytes':4},{'bytes':6},{'bytes':1},"
        "{'bytes':1}],'ops':[{'inputs':[0],'outputs':[1],'time':5},{'inputs':[0],'outputs':[2],"
        "'time':3},{'inputs':[2],'outputs':[3],'time':4},{'inputs':[1,3],'outputs':[4],'time':2}],"
        "'outputs':[4]}");
    least_time_options any = {0}, ordered = {.fixed_order = true}, moving = ordered;
    moving.link = (neap_link){.out_bandwidth = 4, .in_bandwidth = 2};
    expect(graph, 6, any, -1);
    expect(graph, 7, any, 14);
    expect(graph, 8, ordered, 19);
    expect(graph, 8, moving, 17);  /* 5, 1 for the copy, 3, 4, 2 for the copy back, 2 */
    expect(graph, 10, moving, 16); /* b is made while a leaves */
    expect(graph, 11, moving, 14);
    moving.link.duplex = true;
    expect(graph, 8, moving, 17);
    moving.link.latency = 0.5;
    expect(graph, 8, moving, 18);
    moving.link.host_memory = 3; /* a has no room there */
    expect(graph, 8, moving, 19);
    moving.link.host_memory = 4;
    expect(graph, 8, moving, 18);
    neap_graph_destroy(graph);
}

/* The view is an output and keeps a's 4 bytes: they are not there beside b's 5. */
static void test_view(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(
        "{'neap':'graph','version':1,'values':[{'bytes':0},{'bytes':4},{'bytes':0,'view_of':1},"
        "{'bytes':5}],'ops':[{'inputs':[0],'outputs':[1],'time':2},{'inputs':[1],'outputs':[2],"
        "'time':0},{'inputs':[0],'outputs':[3],'time':3}],'outputs':[2]}");
    least_time_options any = {0}, ordered = {.fixed_order = true}, moving = ordered;
    moving.link = (neap_link){.out_bandwidth = 8, .in_bandwidth = 8};
    expect(graph, 9, ordered, 5);
    expect(graph, 8, any, 5);
    expect(graph, 8, ordered, 7);
    expect(graph, 8, moving, 6); /* the view alone moves, with the storage's bytes */
    expect(graph, 4, any, -1);
    neap_graph_destroy(graph);
}

/*
 * Op 0 runs twice. Its fast variant does not fit beside b, so that the second run has to be slow;
 * then so has the first, unless variants may change.
 */
static void test_variants(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(
        "{'neap':'graph','version':1,'values':[{'bytes':0},{'bytes':4},{'bytes':2},{'bytes':3},"
        "{'bytes':1}],'ops':[{'inputs':[0],'outputs':[1],'time':1,'workspace':4,'variants':["
        "{'time':1,'workspace':4},{'time':3,'workspace':0}]},{'inputs':[1],'outputs':[2],'time':1},"
        "{'inputs':[2],'outputs':[3],'time':1},{'inputs':[1,3],'outputs':[4],'time':1}],"
        "'outputs':[4]}");
    expect(graph, 8, (least_time_options){0}, 9);
    expect(graph, 8, (least_time_options){.mixed_variants = true}, 7);
    expect(graph, 9, (least_time_options){0}, 4);
    expect(graph, 7, (least_time_options){0}, -1);
    neap_graph_destroy(graph);
}

static void test_giving_up(void **state)
{
    (void)state;
    neap_graph *graph = unit_chain(3);
    least_time_answer answer =
        least_time_search(graph, 4, &(least_time_options){.most_states = 3, .want_plan = true});
    assert_true(answer.gave_up && !answer.found && !answer.plan && answer.states <= 3);
    answer = least_time_search(graph, 1000, NULL);
    assert_true(answer.found && answer.ticks == neap_graph_least_ticks(graph));
    neap_graph_destroy(graph);
}

/* ---- What holds of every optimum ---- */

/* -1, for no plan, is the longest time. */
static bool is_as_fast(int64_t a, int64_t b)
{
    return b < 0 || (a >= 0 && a <= b);
}

/* More freedom is never slower. */
static int64_t check_freedoms(const neap_graph *graph, int64_t budget, neap_link link)
{
    least_time_options o = {0};
    int64_t any = least(graph, budget, o);
    o.fixed_order = true;
    int64_t ordered = least(graph, budget, o);
    o = (least_time_options){.mixed_variants = true};
    int64_t mixed = least(graph, budget, o);
    NEED(graph, is_as_fast(any, ordered) && is_as_fast(mixed, any),
         "any order %" PRId64 ", the graph's %" PRId64 ", mixed %" PRId64, any, ordered, mixed);
    NEED(graph, (any < 0) == (mixed < 0), "whether there is a plan depends on mixing");
    NEED(graph, any < 0 || mixed >= neap_graph_least_ticks(graph), "too fast");

    o = (least_time_options){.link = link};
    o.link.duplex = false;
    int64_t half = least(graph, budget, o);
    o.link.duplex = true;
    int64_t both = least(graph, budget, o);
    NEED(graph, is_as_fast(half, any) && is_as_fast(both, half),
         "without a link %" PRId64 ", with one %" PRId64 ", duplex %" PRId64, any, half, both);
    return any;
}

static void check_order(const neap_graph *graph, neap_link link)
{
    int64_t budgets[6], last = -1, at_floor = neap_graph_floor_bytes(graph, NULL);
    size_t n = small_graph_budgets(graph, budgets, 6);
    for (size_t i = 0; i < n; i++) {
        int64_t ticks = check_freedoms(graph, budgets[i], link);
        NEED(graph, is_as_fast(ticks, last), "slower within %" PRId64 " than within less",
             budgets[i]);
        last = ticks;
    }
    least_time_options all = {.link = link};
    NEED(graph, last >= 0, "no plan within the natural peak");
    NEED(graph, least(graph, at_floor - 1, all) < 0, "a plan below the floor");
    NEED(graph, least(graph, INT64_MAX, all) == neap_graph_least_ticks(graph), "all the memory");
}

static void test_more_freedom(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20250303)};
    uint64_t count = setting("NEAP_TEST_COUNT", 200 / SHARE);
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = draw_little(&random);
        check_order(graph, random_link(&random));
        neap_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_plain_search),
        cmocka_unit_test(test_whole_steps_against_a_plain_search),
        cmocka_unit_test(test_against_every_list),
        cmocka_unit_test(test_without_its_rules),
        cmocka_unit_test(test_no_choice),
        cmocka_unit_test(test_made_again_or_moved),
        cmocka_unit_test(test_view),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_giving_up),
        cmocka_unit_test(test_more_freedom),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
