/*
 * Backend cuda as a whole on the stand-in for a GPU, whose streams do their work as late as they
 * may: steps on streams and as recorded graphs, copies beside kernels, the link, and what kernels
 * cost beside copies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_device.h"
#include "random_plan.h"
#include "run_command.h"
#include "settings.h"
#include "small_networks.h"
#include "small_training.h"

#include "run/block.h"

#include <neap/layout.h>
#include <neap/network.h>
#include <neap/run.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEPS 4 /* on streams, recorded, and replayed twice */

static void must(neap_status status, const neap_diag *diag)
{
    if (status != NEAP_OK)
        fail_msg("%s", diag->message);
}

#define MUST(call) must(call, &diag)

static neap_backend *open_fake(uint64_t seed)
{
    neap_backend *backend;
    neap_diag diag = {0};
    use_fake_device(seed);
    setenv("NEAP_CACHE_DIR", "none", 1);
    MUST(neap_backend_open(NULL, "cuda", 1, &backend, &diag));
    return backend;
}

static void expect_nothing_left(void)
{
    fake_cuda_usage usage, none = {0};
    fake_device_usage(&usage);
    assert_memory_equal(&usage, &none, sizeof usage);
}

static neap_graph *build_for(const char *network, neap_optimizer optimizer, neap_backend *backend)
{
    neap_diag diag = {0};
    neap_graph *graph = small_network_build(small_networks_find(network), optimizer);
    MUST(neap_backend_fit(backend, graph, &diag));
    return graph;
}

static neap_graph *build(const char *network, neap_backend *backend)
{
    return build_for(network, NEAP_OPTIMIZER_NONE, backend);
}

static void place(const neap_graph *graph, neap_plan *plan)
{
    neap_diag diag = {0};
    neap_layout_options options;
    neap_layout_options_init(&options);
    options.alignment = 64;
    MUST(neap_layout_assign(NULL, graph, plan, &options, &diag));
}

static training_record train(neap_backend *backend, const neap_graph *graph, const neap_plan *plan,
                             const neap_run_options *options)
{
    training_record record;
    neap_diag diag = {0};
    MUST(small_training_run(graph, plan, backend, options, STEPS, &record, &diag));
    return record;
}

static neap_plan *natural_plan(const neap_graph *graph)
{
    neap_diag diag = {0};
    neap_plan *plan;
    uint32_t n_ops = neap_graph_op_count(graph), *order = malloc(n_ops * sizeof *order);
    assert_non_null(order);
    for (uint32_t i = 0; i < n_ops; i++)
        order[i] = i;
    MUST(neap_plan_from_sequence(NULL, graph, order, n_ops, NULL, "natural", -1, &plan, &diag));
    free(order);
    place(graph, plan);
    return plan;
}

/* The next random plan. `moves`: with copies. */
static neap_plan *any_plan(const neap_graph *graph, random_source *random, bool moves)
{
    neap_plan *any = random_plan(random, graph, 3 * neap_graph_op_count(graph), moves);
    neap_plan *plan = with_variants(any, graph, 0);
    neap_plan_destroy(any);
    place(graph, plan);
    return plan;
}

/* A training that is ready for its first step. */
typedef struct training {
    neap_backend *backend;
    neap_graph *graph;
    neap_plan *plan;
    neap_runner *runner;
} training;

static training begin(neap_optimizer optimizer, bool moves, const neap_run_options *options)
{
    random_source random = {5};
    neap_diag diag = {0};
    training t = {.backend = open_fake(3)};
    t.graph = build_for("lstm", optimizer, t.backend);
    t.plan = moves ? any_plan(t.graph, &random, true) : natural_plan(t.graph);
    MUST(neap_runner_create(NULL, t.graph, t.plan, t.backend, options, &t.runner, &diag));
    MUST(small_training_fill(t.runner, t.graph, &diag));
    return t;
}

static void end(training *t)
{
    neap_runner_destroy(t->runner);
    neap_plan_destroy(t->plan);
    neap_graph_destroy(t->graph);
    neap_backend_close(t->backend);
    expect_nothing_left();
}

static bool is_copy(const neap_plan *plan, size_t step)
{
    neap_step_kind kind = neap_plan_steps(plan)[step].kind;
    return kind == NEAP_OFFLOAD || kind == NEAP_PREFETCH;
}

/* ---- Steps ---- */

/* Copies both ways beside kernels: the bits are those of a step that keeps everything, whatever the
   order in which streams do their work, and with random delays. */
static void check_network(const char *network, uint64_t seed)
{
    neap_backend *backend = open_fake(seed);
    neap_graph *graph = build(network, backend);
    neap_run_options options;
    neap_run_options_init(&options);
    options.poison = true;
    neap_plan *order = natural_plan(graph), *natural = with_variants(order, graph, 0);
    place(graph, natural);
    training_record plain = train(backend, graph, natural, &options);
    random_source random = {seed};
    for (int i = 0; i < 4; i++) {
        neap_plan *plan = any_plan(graph, &random, i > 0);
        options.duplex = i % 2 == 1;
        options.stress = i >= 2 ? seed : 0;
        training_record record = train(backend, graph, plan, &options);
        uint32_t differs = training_record_compare(&plain, &record);
        char name[256] = "";
        if (differs != UINT32_MAX)
            training_record_name(graph, &record, differs, name, sizeof name);
        if (*name)
            fail_msg("%s, seed %d, plan %d: %s differs", network, (int)seed, i, name);
        assert_true(i == 0 || record.transferred > 0);
        training_record_clear(&record);
        neap_plan_destroy(plan);
    }
    training_record_clear(&plain);
    neap_plan_destroy(natural);
    neap_plan_destroy(order);
    neap_graph_destroy(graph);
    neap_backend_close(backend);
    expect_nothing_left();
}

static void copies_run_beside_kernels(void **state)
{
    (void)state;
    static const char *const networks[] = {"lstm", "hong-alexnet"};
    uint64_t seed = setting("NEAP_TEST_SEED", 1);
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i += ONE_IN(2))
        check_network(networks[i], seed + i);
}

/* A step that is timed: computations one after the other, copies in the order of their stream, and
   what needs a copy after it. */
static void steps_are_timed(void **state)
{
    (void)state;
    neap_run_options options;
    neap_diag diag = {0};
    neap_run_options_init(&options);
    options.measure = options.duplex = true;
    training t = begin(NEAP_OPTIMIZER_NONE, true, &options);
    for (uint64_t step = 1; step <= 3; step++) {
        MUST(neap_runner_step(t.runner, step, NULL, &diag));
        const neap_step_time *times = neap_runner_step_times(t.runner);
        double compute = 0, lanes[2] = {0, 0};
        int copies = 0;
        for (size_t i = 0; i < neap_plan_step_count(t.plan); i++) {
            bool offloads = neap_plan_steps(t.plan)[i].kind == NEAP_OFFLOAD;
            double *last = is_copy(t.plan, i) ? &lanes[offloads] : &compute;
            assert_true(*last <= times[i].begin && times[i].begin <= times[i].end);
            *last = times[i].end;
            copies += is_copy(t.plan, i);
        }
        assert_true(copies > 0);
    }
    end(&t);
}

/* ---- Recorded steps ---- */

/* What is computed between copies is recorded, and no more than that. */
static void steps_are_recorded(void **state)
{
    (void)state;
    for (int moves = 0; moves < 2; moves++) {
        training t = begin(NEAP_OPTIMIZER_NONE, moves, NULL);
        fake_cuda_usage usage;
        neap_diag diag = {0};
        size_t copies = 0;
        for (size_t i = 0; i < neap_plan_step_count(t.plan); i++)
            copies += is_copy(t.plan, i);
        for (uint64_t step = 1; step <= 3; step++) {
            MUST(neap_runner_step(t.runner, step, NULL, &diag));
            fake_device_usage(&usage);
            if (step == 1)
                assert_int_equal(usage.graphs, 0);
            else if (moves) /* one before a copy, one before what waits for it */
                assert_true(usage.graphs > copies / 4 && usage.graphs <= 2 * copies + 1);
            else
                assert_int_equal(usage.graphs, 1);
        }
        end(&t);
    }
}

/* What fails while a step is recorded fails for good only if it fails again without recording. */
static void try_to_record(neap_backend *backend, const neap_graph *graph, const neap_plan *plan,
                          const char *function, int skips)
{
    neap_runner *runner;
    neap_diag diag = {0};
    uint32_t n_outputs, loss = neap_graph_outputs(graph, &n_outputs)[0];
    float first, numbers[4];
    MUST(neap_runner_create(NULL, graph, plan, backend, NULL, &runner, &diag));
    MUST(small_training_fill(runner, graph, &diag));
    for (int step = 0; step < 4; step++) {
        if (step == 1)
            fake_device_fail_later(function, 900, skips);
        MUST(neap_runner_step(runner, 7, NULL, &diag));
        MUST(neap_runner_read(runner, loss, &numbers[step], &diag));
    }
    first = numbers[0];
    for (int step = 1; step < 4; step++)
        assert_memory_equal(&numbers[step], &first, sizeof first);
    fake_device_fail("cuLaunchKernel", 900);
    assert_int_not_equal(neap_runner_step(runner, 7, NULL, &diag), NEAP_OK);
    neap_runner_destroy(runner);
}

static void recording_may_fail(void **state)
{
    (void)state;
    random_source random = {5};
    neap_backend *backend = open_fake(1);
    neap_graph *graph = build("lstm", backend);
    neap_plan *plan = natural_plan(graph), *moving = any_plan(graph, &random, true);
    try_to_record(backend, graph, plan, "cuStreamBeginCapture_v2", 0);
    for (int skips = 0; skips < 10; skips += 9) {
        try_to_record(backend, graph, plan, "cuLaunchKernel", skips);
        try_to_record(backend, graph, moving, "cuLaunchKernel", skips);
        try_to_record(backend, graph, moving, "cuGraphGetNodes", skips);
        try_to_record(backend, graph, moving, "cuGraphInstantiateWithFlags", skips);
    }
    try_to_record(backend, graph, plan, "cuGraphInstantiateWithFlags", 0);
    neap_plan_destroy(plan);
    neap_plan_destroy(moving);
    neap_graph_destroy(graph);
    neap_backend_close(backend);
    expect_nothing_left();
}

/* If recording does not go on after a copy, computation has begun: the step fails, the next one
   goes to the streams. */
static void recording_may_end_early(void **state)
{
    (void)state;
    training t = begin(NEAP_OPTIMIZER_NONE, true, NULL);
    neap_diag diag = {0};
    MUST(neap_runner_step(t.runner, 7, NULL, &diag));
    fake_device_fail_later("cuStreamBeginCapture_v2", 900, 5);
    assert_int_not_equal(neap_runner_step(t.runner, 7, NULL, &diag), NEAP_OK);
    for (int step = 0; step < 2; step++)
        MUST(neap_runner_step(t.runner, 7, NULL, &diag));
    end(&t);
}

/* A replayed step that fails has done some of its work: the report says what it may have changed,
   and those of later steps are whole. */
static void replaying_may_fail(void **state)
{
    (void)state;
    training t = begin(NEAP_OPTIMIZER_MOMENTUM, true, NULL);
    neap_run_report good, report;
    neap_diag diag = {0};
    for (int step = 0; step < 3; step++)
        MUST(neap_runner_step(t.runner, 7, &good, &diag));
    assert_true(good.computed > 0 && good.transferred > 0 && good.state_changed);
    for (int launches = 0; launches < 12; launches += 4) {
        fake_device_fail_later("cuGraphLaunch", 900, launches);
        assert_int_not_equal(neap_runner_step(t.runner, 7, &report, &diag), NEAP_OK);
        assert_true(report.state_changed);
        MUST(neap_runner_step(t.runner, 7, &report, &diag));
        assert_int_equal(report.computed, good.computed);
        assert_int_equal(report.transferred, good.transferred);
    }
    end(&t);
}

/* ---- Memory of the host ---- */

static size_t host_allocations(void)
{
    fake_cuda_usage usage;
    fake_device_usage(&usage);
    return usage.host_allocations;
}

/* Pinned memory stays for the next training, if that is not larger, until the backend is closed. */
static void pinned_memory_is_kept(void **state)
{
    (void)state;
    enum { SEED = 1, BLOCK = 1 }; /* what a runner pins */
    training t = begin(NEAP_OPTIMIZER_NONE, true, NULL);
    neap_runner *second;
    neap_diag diag = {0};
    neap_runner_destroy(t.runner);
    assert_int_equal(host_allocations(), BLOCK);
    MUST(neap_runner_create(NULL, t.graph, t.plan, t.backend, NULL, &t.runner, &diag));
    assert_int_equal(host_allocations(), BLOCK + SEED);
    MUST(neap_runner_create(NULL, t.graph, t.plan, t.backend, NULL, &second, &diag));
    assert_int_equal(host_allocations(), 2 * (BLOCK + SEED));
    neap_runner_destroy(second);
    assert_int_equal(host_allocations(), BLOCK + SEED);
    end(&t);
}

/* Where memory is short, pinned memory that is not used makes room for what is. */
static void pinned_memory_is_given_up(void **state)
{
    (void)state;
    neap_backend *backend = open_fake(3);
    run_block large, small;
    neap_diag diag = {0};
    MUST(neap_run_block_create_for(backend, true, 1 << 20, &large, &diag));
    neap_run_block_destroy(&large);
    assert_int_equal(host_allocations(), 1);
    fake_device_fail_later("cuMemHostAlloc", 2, 0);
    MUST(neap_run_block_create_for(backend, true, 1000, &small, &diag));
    assert_int_equal(host_allocations(), 1);
    MUST(neap_run_block_create_for(backend, true, 1 << 20, &large, &diag));
    assert_int_equal(host_allocations(), 2);
    neap_run_block_destroy(&large);
    neap_run_block_destroy(&small);
    assert_int_equal(host_allocations(), 1);
    neap_backend_close(backend);
    expect_nothing_left();
}

/* ---- Kernels that are measured ---- */

static int64_t largest_workspace(const neap_graph *graph, bool of_the_least)
{
    int64_t largest = 0;
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        const neap_op *op = neap_graph_op(graph, o);
        int64_t bytes = op->variants[0].workspace;
        for (uint32_t k = 1; k < op->n_variants; k++)
            if ((op->variants[k].workspace < bytes) == of_the_least)
                bytes = op->variants[k].workspace;
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

/* A convolution; kernels for the gradient of its filters need different workspace. */
static neap_graph *build_convolution(neap_backend *backend)
{
    neap_network *net;
    neap_graph *graph;
    neap_diag diag = {0};
    neap_conv2d conv = {
        .channels = 4, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1, .groups = 4};
    const int64_t shape[] = {8, 4, 17, 17};
    MUST(neap_network_create(NULL, "convolution", NEAP_F32, &net, &diag));
    neap_tensor x = neap_net_input(net, "x", NEAP_F32, 4, shape),
                target = neap_net_input(net, "target", NEAP_F32, 4, shape);
    x = neap_net_mse(net, "loss", neap_net_conv2d(net, "conv", x, &conv), target);
    MUST(neap_network_finish(net, x, NULL, &graph, &diag));
    neap_network_destroy(net);
    MUST(neap_backend_fit(backend, graph, &diag));
    return graph;
}

/* Kernels with more workspace than is wanted are not measured, but for the leanest of an op. What
   has been measured is in a file: emptying the cache before each run takes long on the fake. */
static void workspace_is_limited(void **state)
{
    (void)state;
    char *folder = make_temporary_folder(), *cache = join_path(folder, "times.json");
    neap_backend *backend = open_fake(1);
    neap_graph *graph = build_convolution(backend);
    int64_t least = largest_workspace(graph, true), largest = largest_workspace(graph, false);
    neap_profile_options options;
    neap_diag diag = {0};
    neap_profile_options_init(&options);
    options.repetitions = 1;
    options.cache = cache;
    assert_true(0 < least && least < largest);
    for (int i = 0; i < 3; i++) {
        neap_graph *limited = build_convolution(backend);
        neap_profile_report report;
        options.most_workspace = i == 0 ? 1 : largest;
        MUST(neap_profile(NULL, limited, backend, &options, &report, &diag));
        assert_true((report.measured > 0) == (i < 2)); /* what was left out, the second time */
        assert_true(i > 0 || largest_workspace(limited, false) <= least);
        neap_graph_destroy(limited);
    }
    neap_graph_destroy(graph);
    neap_backend_close(backend);
    expect_nothing_left();
    remove_temporary_folder(folder);
    free(cache);
}

/* ---- The link ---- */

static void the_link_is_measured(void **state)
{
    (void)state;
    neap_backend *backend = open_fake(1);
    neap_link link = {0};
    neap_contention contention = {.slowdown = -1};
    neap_diag diag = {0};
    MUST(neap_backend_measure_link(backend, &link, &contention, &diag));
    assert_true(link.out_bandwidth > 0 && link.in_bandwidth > 0 && link.latency >= 0);
    assert_true(link.duplex);
    assert_true(contention.slowdown >= 0 && contention.bandwidth > 0);
    assert_true(contention.out_bandwidth > 0 && contention.in_bandwidth > 0);
    MUST(neap_backend_measure_link(backend, &link, NULL, &diag));
    neap_backend_close(backend);
    expect_nothing_left();

    MUST(neap_backend_open(NULL, "ref", 1, &backend, &diag));
    assert_int_equal(neap_backend_measure_link(backend, &link, NULL, &diag), NEAP_UNSUPPORTED);
    neap_backend_close(backend);
}

/* A kernel cannot be slowed down by more than what its memory traffic is. */
static void kernels_are_slower_beside_copies(void **state)
{
    (void)state;
    char *folder = make_temporary_folder(), *cache = join_path(folder, "profile.json");
    neap_backend *backend;
    neap_profile_options options;
    neap_diag diag = {0};
    MUST(neap_backend_open(NULL, "ref", 1, &backend, &diag)); /* any backend will do */
    neap_graph *alone = build("hong-alexnet", backend), *beside = build("hong-alexnet", backend);
    neap_profile_options_init(&options);
    options.cache = cache;
    MUST(neap_profile(NULL, alone, backend, &options, NULL, &diag));
    options.beside = (neap_contention){.slowdown = 0.25, .bandwidth = 1e9};
    MUST(neap_profile(NULL, beside, backend, &options, NULL, &diag));
    uint32_t slower = 0;
    for (uint32_t i = 0; i < neap_graph_op_count(alone); i++) {
        const neap_op *a = neap_graph_op(alone, i), *b = neap_graph_op(beside, i);
        assert_int_equal(a->n_variants, b->n_variants);
        for (uint32_t k = 0; k < a->n_variants; k++) {
            double least = (double)a->bytes_moved / 1e9, t = a->variants[k].seconds;
            double expected = t + 0.25 * (t < least ? t : least);
            assert_true(fabs(b->variants[k].seconds - expected) <= 1e-9 * expected + 1e-12);
            slower += b->variants[k].seconds > t;
        }
    }
    assert_true(slower > 0);
    neap_graph_destroy(alone);
    neap_graph_destroy(beside);
    neap_backend_close(backend);
    unlink(cache);
    free(cache);
    remove_temporary_folder(folder);
}

/* ---- Memory ---- */

static void memory_is_counted(void **state)
{
    (void)state;
    neap_backend *backend = open_fake(1);
    neap_graph *graph = build("hong-alexnet", backend);
    neap_plan *plan = natural_plan(graph);
    neap_device_memory before, during;
    neap_runner *runner;
    neap_diag diag = {0};
    MUST(neap_backend_memory(backend, &before, &diag));
    MUST(neap_runner_create(NULL, graph, plan, backend, NULL, &runner, &diag));
    MUST(neap_backend_memory(backend, &during, &diag));
    assert_true(during.used - before.used >= neap_runner_arena_bytes(runner));
    assert_int_equal(during.total, before.total);
    assert_int_equal(during.used_before, before.used_before);
    neap_runner_destroy(runner);
    fake_device_fail("cuMemAlloc_v2", 2); /* out of memory */
    assert_int_equal(neap_runner_create(NULL, graph, plan, backend, NULL, &runner, &diag),
                     NEAP_NO_MEMORY);
    assert_non_null(strstr(diag.message, "free"));
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
    neap_backend_close(backend);
    expect_nothing_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_run_beside_kernels),
        cmocka_unit_test(steps_are_timed),
        cmocka_unit_test(steps_are_recorded),
        cmocka_unit_test(recording_may_fail),
        cmocka_unit_test(recording_may_end_early),
        cmocka_unit_test(replaying_may_fail),
        cmocka_unit_test(pinned_memory_is_kept),
        cmocka_unit_test(pinned_memory_is_given_up),
        cmocka_unit_test(workspace_is_limited),
        cmocka_unit_test(the_link_is_measured),
        cmocka_unit_test(kernels_are_slower_beside_copies),
        cmocka_unit_test(memory_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
