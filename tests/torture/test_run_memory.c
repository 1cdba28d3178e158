/*
 * Fitting, measuring, running and training when each allocation fails once, in turn, and then that
 * one and all later ones fail: a status, no leak, an unchanged graph.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_allocator.h"
#include "random_plan.h"
#include "small_networks.h"
#include "usable_backends.h"

#include <neap/solve.h>
#include <neap/train.h>

#include <string.h>

/* ---- The rack ---- */

#define MOST_EACH 60

typedef struct rack {
    failing_allocator memory;
    size_t fail_from, fail_count;
    const char *backend_name;
    neap_backend *backend; /* its memory fails too */
    const neap_graph *graph;
    const neap_plan *plan;
    neap_diag diag;
} rack;

/* Does it, and cleans up after itself. */
typedef neap_status operation(rack *k);

/* From here on allocations fail: what came before was preparation. */
static void arm(rack *k)
{
    k->memory.calls = 0;
    k->memory.fail_from = k->fail_from;
    k->memory.fail_end =
        k->fail_count > SIZE_MAX - k->fail_from ? SIZE_MAX : k->fail_from + k->fail_count;
}

static void disarm(rack *k)
{
    k->memory.fail_from = SIZE_MAX;
}

/* Returns whether an allocation failed on the way. */
static bool run_once(operation *run, const char *name, rack *k)
{
    failing_allocator_init(&k->memory);
    k->diag = (neap_diag){0};
    if (neap_backend_open(&k->memory.base, k->backend_name, 1, &k->backend, &k->diag) != NEAP_OK)
        fail_msg("%s", k->diag.message);
    arm(k);
    neap_status status = run(k);
    disarm(k);
    neap_backend_close(k->backend);
    if (k->memory.fault || k->memory.live_blocks)
        fail_msg("%s on %s, allocation %zu: %s, %zu blocks leaked", name, k->backend_name,
                 k->fail_from, k->memory.fault ? k->memory.fault : "", k->memory.live_blocks);
    if (status != (k->memory.failed ? NEAP_NO_MEMORY : NEAP_OK))
        fail_msg("%s on %s, allocation %zu: %s, \"%s\"", name, k->backend_name, k->fail_from,
                 neap_status_name(status), k->diag.message);
    if (k->memory.failed && !strstr(k->diag.message, "out of memory"))
        fail_msg("%s, allocation %zu: says \"%s\"", name, k->fail_from, k->diag.message);
    return k->memory.failed;
}

static void torture(operation *run, const char *name, const char *backend, const neap_graph *graph,
                    const neap_plan *plan)
{
    static const size_t counts[] = {1, SIZE_MAX};
    size_t allocations = 0;
    for (int i = 0; i < 2; i++) {
        rack k = {.fail_count = counts[i], .backend_name = backend, .graph = graph, .plan = plan};
        /* Ops repeat themselves: of those, some. */
        while (run_once(run, name, &k))
            k.fail_from += 1 + (k.fail_from > MOST_EACH ? k.fail_from / 10 : 0);
        allocations = k.memory.calls;
    }
    assert_true(allocations > 0);
    print_message("%s on %s: %zu allocations\n", name, backend, allocations);
}

/* ---- Operations ---- */

static neap_graph *build(void)
{
    return small_network_build(small_networks_find("hong-alexnet"), NEAP_OPTIMIZER_MOMENTUM);
}

static neap_status open_and_close(rack *k)
{
    neap_backend *backend = NULL;
    neap_status status = neap_backend_open(&k->memory.base, k->backend_name, 1, &backend, &k->diag);
    assert_true((backend != NULL) == (status == NEAP_OK));
    neap_backend_close(backend);
    return status;
}

static char *text_of(const neap_graph *graph, size_t *length)
{
    char *text = NULL;
    assert_int_equal(neap_graph_write_text(graph, NULL, &text, length, NULL), NEAP_OK);
    return text;
}

/* Fits or profiles a graph of its own; after a failure it is as it was. */
static neap_status change_graph(rack *k, bool profile)
{
    disarm(k);
    neap_graph *graph = build();
    size_t before_length, after_length;
    char *before = text_of(graph, &before_length);
    arm(k);
    neap_profile_options options;
    neap_profile_options_init(&options);
    options.warmups = 0;
    options.repetitions = 1;
    neap_status status =
        profile ? neap_profile(&k->memory.base, graph, k->backend, &options, NULL, &k->diag)
                : neap_backend_fit(k->backend, graph, &k->diag);
    disarm(k);
    char *after = text_of(graph, &after_length);
    if (status != NEAP_OK) {
        assert_int_equal(after_length, before_length);
        assert_memory_equal(after, before, before_length);
    }
    neap_release(NULL, before, before_length + 1);
    neap_release(NULL, after, after_length + 1);
    neap_graph_destroy(graph);
    return status;
}

static neap_status fit(rack *k)
{
    return change_graph(k, false);
}

static neap_status profile(rack *k)
{
    return change_graph(k, true);
}

static neap_status check(rack *k)
{
    return neap_backend_check(k->backend, k->graph, &k->diag);
}

static neap_status create_runner(rack *k)
{
    neap_run_options options;
    neap_runner *runner = NULL;
    neap_run_options_init(&options);
    options.duplex = true;
    options.measure = true;
    options.trace_memory = true;
    neap_status status = neap_runner_create(&k->memory.base, k->graph, k->plan, k->backend,
                                            &options, &runner, &k->diag);
    assert_true((runner != NULL) == (status == NEAP_OK));
    neap_runner_destroy(runner);
    return status;
}

static neap_status create_trainer(rack *k)
{
    neap_train_options options;
    neap_trainer *trainer = NULL;
    neap_train_options_init(&options);
    neap_status status = neap_trainer_create(&k->memory.base, k->graph, k->plan, k->backend,
                                             &options, &trainer, &k->diag);
    assert_true((trainer != NULL) == (status == NEAP_OK));
    if (trainer)
        status = neap_trainer_step(trainer, NULL, &k->diag);
    neap_trainer_destroy(trainer);
    return status;
}

static neap_status verify(rack *k)
{
    neap_train_options options;
    neap_verify_report report;
    neap_train_options_init(&options);
    neap_status status = neap_train_verify(&k->memory.base, k->graph, k->plan, k->backend, &options,
                                           1, NULL, &report, &k->diag);
    bool computes = strcmp(neap_backend_name(k->backend), "null") != 0; /* or results are chance */
    assert_true(status != NEAP_OK || report.equal || !computes);
    return status;
}

/* ---- All backends ---- */

/* A plan that moves something, for a graph fitted to a backend. */
static neap_solution *plan_for(const char *backend_name, neap_graph *graph, const char *method)
{
    neap_backend *backend;
    neap_solution *solution = NULL;
    neap_request request;
    neap_diag diag;
    if (neap_backend_open(NULL, backend_name, 1, &backend, &diag) != NEAP_OK ||
        neap_backend_fit(backend, graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_backend_close(backend);
    neap_request_init(&request, graph, method);
    request.alignment = NEAP_RUN_ALIGNMENT;
    request.link = (neap_link){.out_bandwidth = 1e12, .in_bandwidth = 1e12, .duplex = true};
    assert_int_equal(neap_natural_peak(NULL, graph, &request.budget, &diag), NEAP_OK);
    request.budget--;
    if (neap_solve(NULL, &request, &solution, &diag) != NEAP_OK || !neap_solution_plan(solution))
        fail_msg("%s: %s", method, solution ? neap_solution_message(solution) : diag.message);
    return solution;
}

/* Training that advances running statistics, of two layers in common among them. */
static void torture_statistics(const char *backend)
{
    neap_graph *graph =
        small_network_build(small_networks_find("shared statistics"), NEAP_OPTIMIZER_SGD);
    neap_solution *solution = plan_for(backend, graph, "offload-greedy");
    torture(create_trainer, "trainer with statistics", backend, graph,
            neap_solution_plan(solution));
    neap_solution_destroy(solution);
    neap_graph_destroy(graph);
}

static void torture_backend(const char *backend)
{
    neap_graph *graph = build();
    neap_solution *solution = plan_for(backend, graph, "offload-greedy");
    const neap_plan *plan = neap_solution_plan(solution);
    assert_true(neap_solution_figures(solution)->offloaded_bytes > 0);
    torture(open_and_close, "open", backend, graph, plan);
    torture(check, "check", backend, graph, plan);
    torture(fit, "fit", backend, graph, plan);
    torture(profile, "profile", backend, graph, plan);
    torture(create_runner, "runner", backend, graph, plan);
    torture(create_trainer, "trainer", backend, graph, plan);
    torture(verify, "verify", backend, graph, plan);
    neap_solution_destroy(solution);
    random_source random = {20240229};
    neap_plan *moving = random_plan(&random, graph, neap_graph_op_count(graph), true);
    size_t n_on_host;
    neap_plan_host_at_start(moving, &n_on_host);
    assert_true(n_on_host > 0);
    torture(create_runner, "runner, with state on the host", backend, graph, moving);
    neap_plan_destroy(moving);
    neap_graph_destroy(graph);
}

static void test_every_backend(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < neap_backends_count(); i++)
        if (backend_is_usable(neap_backends_name(i))) {
            torture_backend(neap_backends_name(i));
            torture_statistics(neap_backends_name(i));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_backend),
    };
    return cmocka_run_group_tests_name("run memory", tests, NULL, NULL);
}
