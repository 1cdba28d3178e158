/*
 * Addresses: instances and their numbers, the gaps of an arena, random plans checked by the judge,
 * wrong offsets that must be detected, alignment, real networks, very many instances.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu_seconds.h"
#include "layout/gaps.h"
#include "layout/place.h"
#include "random_plan.h"
#include "settings.h"
#include "small_graphs.h"

#include <neap/check.h>
#include <neap/layout.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const neap_link fast_link = {.out_bandwidth = 1e9, .in_bandwidth = 1e9, .duplex = true};

static neap_verdict judge_plan(const neap_graph *graph, const neap_plan *plan)
{
    neap_check_options options;
    neap_check_options_init(&options);
    options.link = &fast_link;
    options.budget = INT64_MAX;
    neap_verdict verdict;
    assert_int_equal(neap_check(NULL, graph, plan, &options, &verdict, NULL), NEAP_OK);
    return verdict;
}

/* Lays a plan out and has it judged. */
static neap_verdict lay_out(const neap_graph *graph, neap_plan *plan, int64_t alignment)
{
    neap_layout_options options;
    neap_layout_options_init(&options);
    options.alignment = alignment;
    neap_diag diag = {0};
    if (neap_layout_assign(NULL, graph, plan, &options, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_verdict verdict = judge_plan(graph, plan);
    if (!verdict.accepted)
        fail_msg("%s", verdict.reason);
    return verdict;
}

/* ---- Instances ---- */

static void test_instances_are_numbered_as_allocated(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(tiny_graph);
    neap_plan *plan = plan_from("c0 c1 f1 c0.1 o2 f2 f1 c0 p2 c2 c3");
    static const neap_instance expected[] = {
        {100, 0, 11},              /* x */
        {200, 0, 6},               /* h's storage, until hT and h are freed */
        {64, 0, 1},                /* fc's workspace */
        {200, 7, 11},              /* h again, which hT shares */
        {64, 7, 8},    {4, 9, 11}, /* loss */
        {200, 10, 11},             /* dh */
    };
    neap_instances instances;
    assert_int_equal(neap_instances_collect(NULL, graph, plan, &instances, NULL), NEAP_OK);
    assert_int_equal(instances.count, COUNT_OF(expected));
    assert_int_equal(instances.n_inputs, 1);
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        assert_int_equal(instances.items[i].size, expected[i].size);
        assert_int_equal(instances.items[i].begin, expected[i].begin);
        assert_int_equal(instances.items[i].end, expected[i].end);
    }
    neap_instances_clear(&instances);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

static void test_plans_that_cannot_be_run(void **state)
{
    (void)state;
    static const struct {
        const char *steps, *message;
    } cases[] = {
        {"c9", "layout: step 0: compute 9: there is no such op"},
        {"c0.5", "layout: step 0: compute 0: the op has no such variant"},
        {"c0 c0", "layout: step 1: compute 0: an output is resident already"},
        {"f9", "layout: step 0: free 9: there is no such value"},
        {"f0", "layout: step 0: free 0: it is an input, resident throughout"},
        {"f1", "layout: step 0: free 1: it is not resident"},
        {"c0 p1", "layout: step 1: prefetch 1: it is resident"},
    };
    neap_graph *graph = graph_from(abc_graph);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        neap_plan *plan = plan_from(cases[i].steps);
        neap_diag diag = {0};
        assert_int_equal(neap_layout_assign(NULL, graph, plan, NULL, &diag), NEAP_INVALID);
        assert_string_equal(diag.message, cases[i].message);
        neap_plan_destroy(plan);
    }
    neap_plan *plan = plan_from("c0 c1 c2");
    neap_layout_options options;
    neap_layout_options_init(&options);
    options.alignment = 0;
    assert_int_equal(neap_layout_assign(NULL, graph, plan, &options, NULL), NEAP_INVALID);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

/* ---- Gaps, against an array of bytes ---- */

enum { ARENA = 256 };

static int64_t end_of_gap(const bool *taken, int64_t begin)
{
    while (begin < ARENA && !taken[begin])
        begin++;
    return begin;
}

/* The gap that neap_gaps_tightest (0), _lowest (1) and _highest (2) should find. */
static bool find_naively(const bool *taken, int64_t tail, int how, int64_t size, int64_t *found)
{
    int64_t best_size = INT64_MAX;
    bool any = false;
    for (int64_t at = 0; at < tail; at++) {
        if (taken[at] || (at > 0 && !taken[at - 1]))
            continue;
        int64_t length = end_of_gap(taken, at) - at;
        if (length < size || (how == 0 && length >= best_size) || (how == 1 && any))
            continue;
        best_size = length;
        *found = at;
        any = true;
    }
    return any;
}

static void test_gaps(void **state)
{
    (void)state;
    static bool (*const find[])(const neap_gaps *, int64_t, int64_t *, int64_t *) = {
        neap_gaps_tightest, neap_gaps_lowest, neap_gaps_highest};
    random_source random = {11};
    bool taken[ARENA] = {false};
    int64_t blocks[ARENA][2];
    uint32_t n_blocks = 0;
    neap_gaps gaps;
    assert_int_equal(neap_gaps_init(&gaps, NULL, ARENA, NULL), NEAP_OK);
    for (int round = 0; round < 20000; round++) {
        int64_t tail = ARENA, size = 1 + random_below(&random, 12), begin, end, expected;
        while (tail > 0 && !taken[tail - 1])
            tail--;
        assert_int_equal(gaps.tail, tail);
        for (int how = 0; how < 3; how++) {
            bool any = find_naively(taken, tail, how, size, &expected);
            assert_int_equal(find[how](&gaps, size, &begin, &end), any);
            if (any) {
                assert_int_equal(begin, expected);
                assert_int_equal(end, end_of_gap(taken, begin));
            }
        }
        if (n_blocks > 0 && random_below(&random, 100) < 50) { /* give one back */
            uint32_t i = random_below(&random, n_blocks);
            neap_gaps_give(&gaps, blocks[i][0], blocks[i][1]);
            memset(taken + blocks[i][0], 0, (size_t)(blocks[i][1] - blocks[i][0]));
            memcpy(blocks[i], blocks[--n_blocks], sizeof blocks[i]);
            continue;
        }
        begin = random_below(&random, ARENA);
        if (taken[begin] || end_of_gap(taken, begin) < begin + size)
            continue;
        neap_gaps_take(&gaps, begin, begin + size);
        memset(taken + begin, 1, (size_t)size);
        blocks[n_blocks][0] = begin;
        blocks[n_blocks++][1] = begin + size;
    }
    neap_gaps_clear(&gaps);
}

/* ---- Placers ---- */

typedef neap_status placer(const neap_placement_problem *, neap_placement *, neap_diag *);

static int64_t most_live(const neap_instance *instances, size_t count, size_t n_steps)
{
    int64_t most = 0;
    for (size_t t = 0; t < n_steps; t++) {
        int64_t live = 0;
        for (size_t i = 0; i < count; i++)
            if (instances[i].begin <= t && t < instances[i].end)
                live += instances[i].size;
        if (live > most)
            most = live;
    }
    return most;
}

/* Sizes that are multiples of a number have offsets that are. */
static void expect_aligned(const neap_placement_problem *p, const neap_placement *placing,
                           int64_t alignment)
{
    for (size_t i = 0; i < p->count; i++)
        assert_int_equal(placing->offsets[i] % alignment, 0);
}

static void expect_sound(const neap_placement_problem *p, const neap_placement *placing)
{
    int64_t highest = 0;
    for (size_t i = 0; i < p->count; i++) {
        const neap_instance *a = &p->instances[i];
        int64_t at = placing->offsets[i];
        assert_true(at >= 0);
        if (at + a->size > highest)
            highest = at + a->size;
        for (size_t k = 0; k < i; k++) {
            const neap_instance *b = &p->instances[k];
            if (a->begin < b->end && b->begin < a->end)
                assert_true(at >= placing->offsets[k] + b->size ||
                            placing->offsets[k] >= at + a->size);
        }
    }
    assert_int_equal(placing->arena, highest);
    assert_true(placing->arena >= p->least);
}

static void test_placers_at_random(void **state)
{
    (void)state;
    static placer *const placers[] = {neap_place_first_fit, neap_place_online_fit,
                                      neap_place_two_ends, neap_place_squeeze};
    enum { MOST = 60, STEPS = 50 };
    for (uint64_t seed = 1; seed <= 300; seed++) {
        random_source random = {seed};
        neap_instance instances[MOST];
        int64_t offsets[MOST], alignment = seed % 3 ? 1 : 512;
        size_t count = random_below(&random, MOST + 1);
        for (size_t i = 0; i < count; i++) {
            size_t begin = random_below(&random, STEPS);
            instances[i] =
                (neap_instance){alignment * (1 + random_below(&random, seed % 2 ? 4 : 1000)), begin,
                                begin + 1 + random_below(&random, (uint32_t)(STEPS - begin))};
        }
        neap_placement_problem p = {
            .instances = instances, .count = count, .least = most_live(instances, count, STEPS)};
        p.target = p.least + (alignment > 1 ? random_below(&random, 2000) : 0);
        for (size_t k = 0; k < COUNT_OF(placers); k++) {
            neap_placement placing = {.offsets = offsets, .arena = count ? INT64_MAX : 0};
            assert_int_equal(placers[k](&p, &placing, NULL), NEAP_OK);
            expect_sound(&p, &placing);
            expect_aligned(&p, &placing, alignment);
            int64_t arena = placing.arena; /* a placer only improves what it is given */
            assert_int_equal(placers[(k + 1) % COUNT_OF(placers)](&p, &placing, NULL), NEAP_OK);
            expect_sound(&p, &placing);
            assert_true(placing.arena <= arena);
        }
    }
}

/* Nested lifetimes, as in a chain's forward and backward pass, have a perfect placing: both find
 * it. */
static void test_nested_lifetimes_are_placed_perfectly(void **state)
{
    (void)state;
    enum { DEPTH = 400 };
    static neap_instance instances[DEPTH];
    static int64_t offsets[DEPTH];
    int64_t sum = 0;
    for (size_t i = 0; i < DEPTH; i++) {
        instances[i] = (neap_instance){(int64_t)(1 + i * 37 % 101), i, 2 * DEPTH - i};
        sum += instances[i].size;
    }
    neap_placement_problem p = {
        .instances = instances, .count = DEPTH, .least = sum, .target = sum};
    neap_placement placing = {.offsets = offsets, .arena = INT64_MAX};
    assert_int_equal(neap_place_first_fit(&p, &placing, NULL), NEAP_OK);
    assert_int_equal(placing.arena, sum);
    placing.arena = INT64_MAX;
    assert_int_equal(neap_place_online_fit(&p, &placing, NULL), NEAP_OK);
    assert_int_equal(placing.arena, sum);
}

/* Tensors that are kept among others that are dropped and recomputed, and one large tensor in the
   middle: placed in order of time, what is dropped leaves gaps that the large one cannot use. */
static void test_what_is_dropped_leaves_no_gaps(void **state)
{
    (void)state;
    enum { DEPTH = 1000, TRANSIENT = 40 };
    static neap_instance instances[3 * DEPTH + 1];
    static int64_t offsets[3 * DEPTH + 1];
    size_t n = 0;
    int64_t kept = 0, large = 20 * DEPTH;
    for (size_t i = 0; i < DEPTH; i++) {
        int64_t size = (int64_t)(1 + i * 37 % 31);
        size_t back = 2 * DEPTH - i, gone = i + 1 + i * 7 % TRANSIENT;
        instances[n++] = (neap_instance){size, i, back + 1};
        instances[n++] = (neap_instance){size + 2, i, gone < DEPTH ? gone : DEPTH};
        instances[n++] = (neap_instance){size + 2, back, back + 2};
        kept += size;
    }
    instances[n++] = (neap_instance){large, DEPTH, DEPTH + 1};
    int64_t least = kept + large;
    neap_placement_problem p = {
        .instances = instances, .count = n, .least = least, .target = least};
    neap_placement placing = {.offsets = offsets, .arena = INT64_MAX};
    assert_int_equal(neap_place_online_fit(&p, &placing, NULL), NEAP_OK);
    expect_sound(&p, &placing);
    assert_int_equal(placing.arena, least);
}

/* A training step in little: activations are freed in reverse order, gradients of other sizes stay
 * until the end, and the memory is full from the turn on. From both ends there is no gap. */
static void test_activations_and_gradients_are_placed_perfectly(void **state)
{
    (void)state;
    enum { DEPTH = 300, STEPS = 2 * DEPTH + 1 };
    static neap_instance instances[2 * DEPTH];
    static int64_t offsets[2 * DEPTH];
    for (size_t i = 0; i < DEPTH; i++) {
        instances[i] = (neap_instance){(int64_t)(90 + i * 37 % 31), i, 2 * DEPTH - i};
        instances[DEPTH + i] = (neap_instance){(int64_t)(80 + i * 53 % 41), DEPTH + i, STEPS};
    }
    neap_placement_problem p = {.instances = instances, .count = 2 * DEPTH};
    p.least = p.target = most_live(instances, 2 * DEPTH, STEPS);
    neap_placement placing = {.offsets = offsets, .arena = INT64_MAX};
    assert_int_equal(neap_place_two_ends(&p, &placing, NULL), NEAP_OK);
    expect_sound(&p, &placing);
    assert_int_equal(placing.arena, p.least);
    placing.arena = INT64_MAX;
    assert_int_equal(neap_place_online_fit(&p, &placing, NULL), NEAP_OK);
    assert_true(placing.arena > p.least);
}

/* ---- Whole plans ---- */

static void test_hand_made_plans(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(tiny_graph);
    neap_plan *plan = plan_from(TINY_PLAN);
    neap_verdict v = lay_out(graph, plan, 1);
    assert_int_equal(v.arena_bytes, 4600);
    size_t count;
    const int64_t *offsets = neap_plan_offsets(plan, &count);
    assert_int_equal(count, 4);
    assert_int_equal(offsets[0], 4096); /* the input at the bottom */
    v = lay_out(graph, plan, 64);
    assert_true(v.arena_bytes <= 4096 + 128 + 256 + 64 + 200);
    neap_plan_destroy(plan);
    plan = plan_from(""); /* nothing but the input */
    assert_int_equal(neap_layout_assign(NULL, graph, plan, NULL, NULL), NEAP_OK);
    assert_int_equal(neap_plan_arena_bytes(plan), 4196);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

static void test_random_plans_are_laid_out_soundly(void **state)
{
    (void)state;
    static const int64_t alignments[] = {1, 1, 2, 7, 256};
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        random_source random = {seed};
        neap_graph *graph = random_graph(&random, 30);
        neap_plan *plan = random_plan(&random, graph, random_below(&random, 150), seed % 2 == 0);
        int64_t alignment = alignments[seed % COUNT_OF(alignments)];
        neap_verdict v = lay_out(graph, plan, alignment);
        size_t count;
        const int64_t *offsets = neap_plan_offsets(plan, &count);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(offsets[i] % alignment, 0);
        assert_true(v.has_arena && v.arena_bytes >= v.peak_bytes);
        neap_plan_destroy(plan);
        neap_graph_destroy(graph);
    }
}

/* Moves one offset onto the place of another instance that is live at the same time: always found
 * out. */
static void test_overlaps_are_rejected(void **state)
{
    (void)state;
    unsigned tried = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        random_source random = {seed};
        neap_graph *graph = random_graph(&random, 12);
        neap_plan *plan = random_plan(&random, graph, 40, true);
        lay_out(graph, plan, 1);
        neap_instances all;
        assert_int_equal(neap_instances_collect(NULL, graph, plan, &all, NULL), NEAP_OK);
        size_t count;
        const int64_t *offsets = neap_plan_offsets(plan, &count);
        assert_int_equal(count, all.count);
        int64_t *moved = malloc((count + 1) * sizeof *moved), arena = neap_plan_arena_bytes(plan);
        assert_non_null(moved);
        if (count)
            memcpy(moved, offsets, count * sizeof *moved);
        for (int k = 0; k < 30 && count > 0; k++) {
            size_t i = random_below(&random, (uint32_t)count);
            size_t other = random_below(&random, (uint32_t)count);
            const neap_instance *a = &all.items[i], *b = &all.items[other];
            if (i == other || a->size == 0 || b->size == 0 || a->begin >= b->end ||
                b->begin >= a->end)
                continue;
            int64_t old = moved[i]; /* overlap by one byte, at either end, or wholly */
            moved[i] = k % 3 == 0   ? moved[other] - a->size + 1
                       : k % 3 == 1 ? moved[other] + b->size - 1
                                    : moved[other];
            assert_int_equal(neap_plan_set_offsets(plan, moved, count, arena + 10000, NULL),
                             NEAP_OK);
            neap_verdict v = judge_plan(graph, plan);
            if (v.accepted)
                fail_msg("seed %llu: an overlap of %zu and %zu was accepted",
                         (unsigned long long)seed, i, other);
            moved[i] = old;
            tried++;
        }
        assert_int_equal(neap_plan_set_offsets(plan, moved, count, arena, NULL), NEAP_OK);
        assert_true(judge_plan(graph, plan).accepted);
        free(moved);
        neap_instances_clear(&all);
        neap_plan_destroy(plan);
        neap_graph_destroy(graph);
    }
    assert_true(tried > 1000);
}

static neap_plan *natural_plan(const neap_graph *graph)
{
    uint32_t n_ops = neap_graph_op_count(graph);
    uint32_t *sequence = malloc(n_ops * sizeof *sequence);
    assert_non_null(sequence);
    for (uint32_t o = 0; o < n_ops; o++)
        sequence[o] = o;
    neap_plan *plan;
    assert_int_equal(
        neap_plan_from_sequence(NULL, graph, sequence, n_ops, NULL, "natural", -1, &plan, NULL),
        NEAP_OK);
    free(sequence);
    return plan;
}

static void test_real_networks(void **state)
{
    (void)state;
    static const char *const names[] = {
        "torch_vgg19_b128",      "torch_resnet50_b128", "torch_unet_b16_r416", "torch_gpt2_b8",
        "torch_densenet201_b64", "monet_resnet50_184",  "monet_vgg16_176",     "moccasin_unet",
        "moccasin_rl100",        "moccasin_rl500"};
    const char *folder = need_instances();
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s.json", folder, names[i]);
        neap_graph *graph;
        neap_diag diag = {0};
        if (neap_graph_read_file(NULL, path, &graph, &diag) != NEAP_OK)
            fail_msg("%s", diag.message);
        neap_plan *plan = natural_plan(graph);
        double start = cpu_seconds();
        neap_verdict v = lay_out(graph, plan, 1);
        print_message("%-22s peak %12lld, arena %.5f of it, %.3f s\n", names[i],
                      (long long)v.peak_bytes, (double)v.arena_bytes / (double)v.peak_bytes,
                      cpu_seconds() - start);
        assert_true((double)v.arena_bytes <= 1.01 * (double)v.peak_bytes);
        neap_plan_destroy(plan);
        neap_graph_destroy(graph);
    }
}

/* A chain of n stages, forward and back, sizes at random, with a workspace here and there. */
static neap_graph *long_chain(uint32_t n)
{
    random_source random = {3};
    neap_graph_builder *builder;
    assert_int_equal(neap_graph_builder_create(NULL, "chain", &builder, NULL), NEAP_OK);
    for (uint32_t i = 0; i <= 2 * n; i++) { /* values 0 .. n forward, n + 1 .. 2n backward */
        neap_value_desc value;
        neap_value_desc_init(&value);
        value.kind = i == 0 ? NEAP_KIND_INPUT : NEAP_KIND_ACTIVATION;
        value.bytes = 1 + random_below(&random, 1000000);
        assert_int_equal(neap_graph_builder_add_value(builder, &value, NULL, NULL), NEAP_OK);
    }
    for (uint32_t o = 0; o < 2 * n; o++) {
        uint32_t inputs[2] = {o, 2 * n - 1 - o}, output = o + 1;
        neap_variant variant = {.seconds = 1, .workspace = o % 3 ? 0 : 5000};
        neap_op_desc op;
        neap_op_desc_init(&op);
        op.pass = o < n ? NEAP_FORWARD : NEAP_BACKWARD;
        op.inputs = inputs;
        op.n_inputs = o < n ? 1 : 2;
        op.outputs = &output;
        op.n_outputs = 1;
        op.variants = &variant;
        op.n_variants = 1;
        assert_int_equal(neap_graph_builder_add_op(builder, &op, NULL, NULL), NEAP_OK);
    }
    assert_int_equal(neap_graph_builder_add_output(builder, 2 * n, NULL), NEAP_OK);
    neap_graph *graph;
    assert_int_equal(neap_graph_builder_finish(builder, &graph, NULL), NEAP_OK);
    neap_graph_builder_destroy(builder);
    return graph;
}

static void test_very_many_instances(void **state)
{
    (void)state;
    neap_graph *graph = long_chain(150000);
    neap_plan *plan = natural_plan(graph);
    double start = cpu_seconds();
    assert_int_equal(neap_layout_assign(NULL, graph, plan, NULL, NULL), NEAP_OK);
    double laid = cpu_seconds() - start;
    start = cpu_seconds();
    neap_verdict v = judge_plan(graph, plan);
    double judged = cpu_seconds() - start;
    if (!v.accepted)
        fail_msg("%s", v.reason);
    size_t count;
    neap_plan_offsets(plan, &count);
    print_message(
        "%zu instances in %zu steps: laid out in %.3f s, %.5f of the peak; judged in %.3f s\n",
        count, neap_plan_step_count(plan), laid, (double)v.arena_bytes / (double)v.peak_bytes,
        judged);
    assert_true((double)v.arena_bytes <= 1.01 * (double)v.peak_bytes);
#ifdef __OPTIMIZE__
    assert_true(laid < 10 && judged < 5);
#endif
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

static bool always(neap_progress *self)
{
    (void)self;
    return true;
}

static void test_a_cancelled_layout_is_sound(void **state)
{
    (void)state;
    neap_progress progress = {.cancelled = always};
    neap_layout_options options;
    neap_layout_options_init(&options);
    options.progress = &progress;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        random_source random = {seed};
        neap_graph *graph = random_graph(&random, 30);
        neap_plan *plan = random_plan(&random, graph, 200, true);
        assert_int_equal(neap_layout_assign(NULL, graph, plan, &options, NULL), NEAP_OK);
        assert_true(judge_plan(graph, plan).accepted);
        neap_plan_destroy(plan);
        neap_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instances_are_numbered_as_allocated),
        cmocka_unit_test(test_plans_that_cannot_be_run),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_placers_at_random),
        cmocka_unit_test(test_nested_lifetimes_are_placed_perfectly),
        cmocka_unit_test(test_what_is_dropped_leaves_no_gaps),
        cmocka_unit_test(test_activations_and_gradients_are_placed_perfectly),
        cmocka_unit_test(test_hand_made_plans),
        cmocka_unit_test(test_random_plans_are_laid_out_soundly),
        cmocka_unit_test(test_overlaps_are_rejected),
        cmocka_unit_test(test_real_networks),
        cmocka_unit_test(test_very_many_instances),
        cmocka_unit_test(test_a_cancelled_layout_is_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
