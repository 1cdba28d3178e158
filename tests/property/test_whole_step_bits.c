/*
 * Training steps that end with their updates give the same bits under every plan: with state on the
 * host or on the device, with runs in place, with updates as early as a plan likes, and across
 * checkpoints that one plan writes and another resumes.
 *
 * Each run draws networks and plans at random (NEAP_TEST_SEED). With NEAP_WHOLE_STEP=all it tests
 * every network with every optimizer and prints a table (bench/whole_step_bits);
 * NEAP_TEST_BACKEND and NEAP_TEST_NETWORK, a part of the name, restrict it, and NEAP_TEST_THREADS
 * sets the threads. The first argument selects tests by a pattern.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "accepted.h"
#include "picture_files.h"
#include "plan/in_place.h"
#include "random_plan.h"
#include "run_command.h"
#include "settings.h"
#include "small_networks.h"
#include "usable_backends.h"

#include <neap/cost.h>
#include <neap/layout.h>
#include <neap/solve.h>
#include <neap/train.h>

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIME_LIMIT 0.5 /* seconds that a method may search */

static bool is_chosen(const char *variable, const char *name)
{
    const char *part = getenv(variable);
    return !part || strstr(name, part);
}

/* Whether to run on it: it has kernels. */
static bool computes(const char *backend)
{
    return is_chosen("NEAP_TEST_BACKEND", backend) && backend_computes(backend);
}

/* ---- A network with an optimizer, on a backend ---- */

typedef struct subject {
    const small_network *network;
    neap_backend *backend;
    neap_graph *graph;
    int64_t natural_peak;
} subject;

/* Takes the graph. */
static subject begin_with(const small_network *network, const char *backend, neap_graph *graph)
{
    subject s = {.network = network,
                 .backend = opened_backend(backend, (int)setting("NEAP_TEST_THREADS", 1)),
                 .graph = graph};
    neap_devices *devices;
    neap_diag diag;
    assert_int_equal(neap_devices_create(NULL, &devices, &diag), NEAP_OK);
    if (neap_cost_apply(s.graph, neap_devices_find(devices, "h200"), NEAP_MATH_F32, &diag) !=
            NEAP_OK ||
        neap_backend_fit(s.backend, s.graph, &diag) != NEAP_OK ||
        neap_natural_peak(NULL, s.graph, &s.natural_peak, &diag) != NEAP_OK)
        fail_msg("%s: %s", network->name, diag.message);
    neap_devices_destroy(devices);
    return s;
}

static subject begin_subject(const small_network *network, const char *backend,
                             neap_optimizer optimizer)
{
    return begin_with(network, backend, small_network_build(network, optimizer));
}

static void end_subject(subject *s)
{
    neap_graph_destroy(s->graph);
    neap_backend_close(s->backend);
}

/* Any network but those that take long. */
static const small_network *draw_network(random_source *random)
{
    const small_network *network;
    do
        network = small_networks_at(random_below(random, small_networks_count()));
    while (strncmp(network->name, "densenet", 8) == 0);
    return network;
}

/* ---- Plans ---- */

static void place(const subject *s, neap_plan *plan)
{
    neap_layout_options options;
    neap_diag diag;
    neap_layout_options_init(&options);
    options.alignment = NEAP_RUN_ALIGNMENT;
    options.target = INT64_MAX;
    if (neap_layout_assign(NULL, s->graph, plan, &options, &diag) != NEAP_OK)
        fail_msg("%s, %s: %s", s->network->name, neap_plan_method(plan), diag.message);
}

/* Steps and state of a plan, by variant 0 if `plain`; the plan's addresses, or new ones. */
static neap_plan *copy_of(const subject *s, const neap_plan *plan, bool plain)
{
    neap_plan *copy;
    size_t count;
    assert_int_equal(neap_plan_create(NULL, neap_plan_graph_name(plan), neap_plan_method(plan),
                                      neap_plan_budget(plan), &copy, NULL),
                     NEAP_OK);
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        neap_step step = neap_plan_steps(plan)[i];
        step.variant = plain ? 0 : step.variant;
        assert_int_equal(neap_plan_append(copy, step, NULL), NEAP_OK);
    }
    const uint32_t *on_host = neap_plan_host_at_start(plan, &count);
    assert_int_equal(neap_plan_set_host_at_start(copy, on_host, count, NULL), NEAP_OK);
    const int64_t *offsets = plain ? NULL : neap_plan_offsets(plan, &count);
    if (offsets)
        assert_int_equal(
            neap_plan_set_offsets(copy, offsets, count, neap_plan_arena_bytes(plan), NULL),
            NEAP_OK);
    else
        place(s, copy);
    return copy;
}

static neap_plan *natural_plan(const subject *s)
{
    uint32_t n_ops = neap_graph_op_count(s->graph), *order = malloc(n_ops * sizeof *order);
    neap_plan *plan;
    assert_non_null(order);
    for (uint32_t i = 0; i < n_ops; i++)
        order[i] = i;
    assert_int_equal(
        neap_plan_from_sequence(NULL, s->graph, order, n_ops, NULL, "natural", -1, &plan, NULL),
        NEAP_OK);
    free(order);
    place(s, plan);
    return plan;
}

/* Computes, moves and frees whatever is legal; the judge says so. */
static neap_plan *moving_plan(const subject *s, random_source *random, bool in_place)
{
    const neap_link link = {.out_bandwidth = 1e9, .in_bandwidth = 1e9};
    neap_plan *any = random_plan(random, s->graph, 3 * neap_graph_op_count(s->graph), true);
    neap_plan *plan = copy_of(s, any, true);
    size_t count;
    neap_plan_host_at_start(plan, &count);
    assert_true(count > 0);
    if (in_place) {
        assert_int_equal(neap_plan_run_in_place(NULL, s->graph, plan, &count, NULL), NEAP_OK);
        place(s, plan);
    }
    accepted_plan(s->graph, plan, &link);
    neap_plan_destroy(any);
    return plan;
}

/* ---- Running ---- */

static neap_train_options train_options(bool duplex)
{
    neap_train_options options;
    neap_train_options_init(&options);
    options.rate.peak = 0.01;
    options.run.poison = true;
    options.run.duplex = duplex;
    return options;
}

/* Copies take their time, so that ops catch up with them. */
static neap_link slow_link(bool duplex)
{
    return (neap_link){
        .out_bandwidth = 1e9, .in_bandwidth = 1e9, .latency = 5e-5, .duplex = duplex};
}

/* Whether it trains as without the plan; says so where it does not. */
static bool trains_alike(const subject *s, const neap_plan *plan, bool slow, bool duplex, int steps)
{
    neap_train_options options = train_options(duplex);
    neap_verify_report report;
    neap_diag diag;
    if (slow)
        options.run.pace = slow_link(duplex);
    if (neap_train_verify(NULL, s->graph, plan, s->backend, &options, steps, NULL, &report,
                          &diag) != NEAP_OK)
        fail_msg("%s on %s by %s: %s", s->network->name, neap_backend_name(s->backend),
                 neap_plan_method(plan), diag.message);
    if (!report.equal)
        print_message("%s on %s by %s differs in step %" PRId64 ": %s\n", s->network->name,
                      neap_backend_name(s->backend), neap_plan_method(plan), report.differs_step,
                      report.differs);
    assert_int_equal(report.steps, steps);
    if (!isfinite(report.loss)) /* NaNs of freed memory would go unnoticed */
        fail_msg("%s: the loss is %g", s->network->name, report.loss);
    return report.equal;
}

static void test_random_plans(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240731)};
    print_message("seed %" PRIu64 "\n", random.state);
    for (uint32_t i = 0; i < neap_backends_count(); i++)
        for (int o = NEAP_OPTIMIZER_SGD; o <= NEAP_OPTIMIZER_ADAMW; o++) {
            if (!computes(neap_backends_name(i)) ||
                !backend_is_for_case(neap_backends_name(i), (size_t)o))
                continue;
            subject s =
                begin_subject(draw_network(&random), neap_backends_name(i), (neap_optimizer)o);
            print_message("%s on %s with %s\n", s.network->name, neap_backends_name(i),
                          neap_optimizer_name((neap_optimizer)o));
            for (int k = 0; k < 2; k++) {
                neap_plan *plan = moving_plan(&s, &random, k == 1);
                assert_true(trains_alike(&s, plan, true, k == 1, 3));
                neap_plan_destroy(plan);
            }
            end_subject(&s);
        }
}

/* With clipped gradients, or micro-batches, or both; and with running statistics. */
static void test_clipping_and_micro_batches(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240731) + 3};
    for (int i = 1; i < 8; i++) {
        const small_network *network =
            i < 4 ? draw_network(&random)
                  : small_networks_find(i < 6 ? "running statistics" : "shared statistics");
        neap_training training;
        neap_training_init(&training);
        training.optimizer = NEAP_OPTIMIZER_ADAM;
        training.clip_norm = i & 1 ? 0.5 : 0;
        training.accumulate = i & 2 ? 3 : 1;
        subject s = begin_with(network, i & 1 ? "ref" : neap_backends_default(),
                               small_network_train(network, &training));
        for (int k = 0; k < 2; k++) {
            neap_plan *plan = moving_plan(&s, &random, k == 1);
            assert_true(trains_alike(&s, plan, true, k == 1, 3));
            neap_plan_destroy(plan);
        }
        end_subject(&s);
    }
}

/* ---- Checkpoints ---- */

/* Trains up to step `until`, from a checkpoint if there is one, and saves after every step. */
static neap_status train(const subject *s, const neap_plan *plan, const char *from, int64_t until,
                         const char *to)
{
    neap_train_options options = train_options(true);
    neap_trainer *trainer = NULL;
    neap_diag diag;
    neap_status status =
        neap_trainer_create(NULL, s->graph, plan, s->backend, &options, &trainer, &diag);
    if (status == NEAP_OK && from)
        status = neap_trainer_resume(trainer, from, &diag);
    while (status == NEAP_OK && neap_trainer_steps(trainer) < until) {
        status = neap_trainer_step(trainer, NULL, &diag);
        if (status == NEAP_OK)
            status = neap_trainer_save(trainer, to, &diag);
    }
    if (status != NEAP_OK)
        print_message("%s by %s: %s\n", s->network->name, neap_plan_method(plan), diag.message);
    neap_trainer_destroy(trainer);
    return status;
}

static void expect_same_files(const char *a, const char *b)
{
    size_t size, other;
    unsigned char *one = read_file_bytes(a, &size), *two = read_file_bytes(b, &other);
    assert_true(one && two && size == other);
    assert_memory_equal(one, two, size);
    free(one);
    free(two);
}

typedef struct files {
    char *folder, *whole, *part, *rest;
} files;

static files begin_files(void)
{
    files f = {.folder = make_temporary_folder()};
    f.whole = join_path(f.folder, "whole.st");
    f.part = join_path(f.folder, "part.st");
    f.rest = join_path(f.folder, "rest.st");
    return f;
}

static void end_files(files *f)
{
    remove_temporary_folder(f->folder);
    free(f->whole);
    free(f->part);
    free(f->rest);
}

/* What one plan saves, another continues, wherever either has state. */
static void test_resuming_by_another_plan(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240731) + 1};
    for (int o = NEAP_OPTIMIZER_SGD; o <= NEAP_OPTIMIZER_ADAMW; o++) {
        const small_network *network = o == NEAP_OPTIMIZER_MOMENTUM
                                           ? small_networks_find("shared statistics")
                                           : draw_network(&random);
        subject s = begin_subject(network, "ref", (neap_optimizer)o);
        files f = begin_files();
        neap_plan *plans[3] = {natural_plan(&s), moving_plan(&s, &random, false),
                               moving_plan(&s, &random, true)};
        assert_int_equal(train(&s, plans[0], NULL, 4, f.whole), NEAP_OK);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(train(&s, plans[k], NULL, 2, f.part), NEAP_OK);
            assert_int_equal(train(&s, plans[(k + 1) % 3], f.part, 4, f.rest), NEAP_OK);
            expect_same_files(f.rest, f.whole);
        }
        for (int k = 0; k < 3; k++)
            neap_plan_destroy(plans[k]);
        end_files(&f);
        end_subject(&s);
    }
}

static void sleep_for(int64_t nanoseconds)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)(nanoseconds / 1000000000),
                                 .tv_nsec = (long)(nanoseconds % 1000000000)},
              NULL);
}

/* Killed while state is on its way, or between: the file has all of a step. */
static void test_killed_with_state_on_the_host(void **state)
{
    (void)state;
    enum { STEPS = 12 };
    random_source random = {setting("NEAP_TEST_SEED", 20240731) + 2};
    subject s = begin_subject(small_networks_find("gpt2"), "ref", NEAP_OPTIMIZER_ADAM);
    files f = begin_files();
    neap_plan *natural = natural_plan(&s), *moving = moving_plan(&s, &random, true);
    assert_int_equal(train(&s, natural, NULL, STEPS, f.whole), NEAP_OK);
    int killed = 0;
    for (int i = 0; i < 8; i++) {
        unlink(f.part);
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(train(&s, moving, NULL, STEPS, f.part) == NEAP_OK ? 0 : 1);
        while (access(f.part, F_OK) != 0) /* one step is done */
            sleep_for(200000);
        sleep_for(random_below(&random, 30000000));
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        killed += WIFSIGNALED(status);
        assert_int_equal(train(&s, i % 2 ? natural : moving, f.part, STEPS, f.rest), NEAP_OK);
        expect_same_files(access(f.rest, F_OK) == 0 ? f.rest : f.part, f.whole);
        unlink(f.rest);
    }
    print_message("%d killed\n", killed);
    assert_true(killed > 0);
    neap_plan_destroy(natural);
    neap_plan_destroy(moving);
    end_files(&f);
    end_subject(&s);
}

/* ---- Every network with every optimizer ---- */

enum { IN_PLACE, RANDOM, NO_LINK, LINK, HOST, PAPER, KINDS };

static const char *const kinds[KINDS] = {
    "every op once, in place",
    "random: recomputes, moves state and activations",
    "neap without a link, in place",
    "neap with a link, in place",
    "neap with a link and state on the host, in place",
    "hong, in place",
};

/* Half way between the least that the method can do and training without a plan; NULL where it has
   no plan. */
static neap_plan *solved_plan(const subject *s, int kind)
{
    neap_request request;
    neap_solution *solution = NULL;
    neap_plan *plan = NULL;
    neap_diag diag;
    double seconds = neap_graph_seconds(s->graph, neap_graph_base_ticks(s->graph));
    double rate = 4 * (double)s->natural_peak / (seconds > 0 ? seconds : 1);
    neap_request_init(&request, s->graph, kind == PAPER ? "hong" : "neap");
    request.alignment = NEAP_RUN_ALIGNMENT;
    request.time_limit = TIME_LIMIT;
    request.threads = 1;
    request.budget = s->natural_peak * 6 / 10;
    if (kind == LINK || kind == HOST)
        request.link = (neap_link){.out_bandwidth = rate, .in_bandwidth = rate, .duplex = true};
    request.state = kind == HOST ? NEAP_STATE_HOST : NEAP_STATE_AUTO;
    for (int tries = 0; tries < 5 && !plan; tries++) {
        if (neap_solve(NULL, &request, &solution, &diag) != NEAP_OK) {
            print_message("%s by %s: %s\n", s->network->name, kinds[kind], diag.message);
            return NULL;
        }
        if (neap_solution_plan(solution))
            plan = copy_of(s, neap_solution_plan(solution), false);
        neap_solution_destroy(solution);
        request.budget += s->natural_peak / 10;
    }
    return plan;
}

/* Running statistics advance once, and alike, by whatever method. */
static void test_running_statistics(void **state)
{
    (void)state;
    unsigned plans = 0;
    for (uint32_t b = 0; b < 2 * neap_backends_count(); b++) {
        const char *backend = neap_backends_name(b / 2);
        if (!computes(backend))
            continue;
        subject s =
            begin_subject(small_networks_find(b % 2 ? "running statistics" : "shared statistics"),
                          backend, NEAP_OPTIMIZER_SGD);
        for (uint32_t m = 0; m < neap_methods_count(); m++) {
            neap_request request;
            neap_solution *solution = NULL;
            neap_diag diag;
            neap_request_init(&request, s.graph, neap_method_name(neap_methods_at(m)));
            request.alignment = NEAP_RUN_ALIGNMENT;
            request.time_limit = TIME_LIMIT;
            request.threads = 1;
            request.budget = s.natural_peak * 8 / 10;
            request.link = (neap_link){.out_bandwidth = 1e12, .in_bandwidth = 1e12};
            if (neap_solve(NULL, &request, &solution, &diag) == NEAP_OK &&
                neap_solution_plan(solution)) {
                assert_true(trains_alike(&s, neap_solution_plan(solution), false, true, 2));
                plans++;
            }
            neap_solution_destroy(solution);
        }
        end_subject(&s);
    }
    print_message("%u plans\n", plans);
    assert_true(plans > 10);
}

static neap_plan *plan_of(const subject *s, int kind, random_source *random)
{
    if (kind == RANDOM)
        return moving_plan(s, random, true);
    if (kind != IN_PLACE)
        return solved_plan(s, kind);
    size_t count;
    neap_plan *plan = natural_plan(s);
    assert_int_equal(neap_plan_run_in_place(NULL, s->graph, plan, &count, NULL), NEAP_OK);
    place(s, plan);
    return plan;
}

typedef struct tally {
    unsigned plans, differ;
    unsigned in_place, on_host, early; /* plans with runs in place, with state on the host between
                                          steps, with an update before another op's computation */
} tally;

static void count_plan(const subject *s, const neap_plan *plan, tally *all)
{
    bool in_place = false, updates = false, early = false;
    size_t count;
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        const neap_step *step = &neap_plan_steps(plan)[i];
        if (step->kind != NEAP_COMPUTE)
            continue;
        bool is_update = neap_graph_op(s->graph, step->id)->n_updates > 0;
        in_place |= step->in_place;
        early |= updates && !is_update;
        updates |= is_update;
    }
    neap_plan_host_at_start(plan, &count);
    all->plans++;
    all->in_place += in_place;
    all->on_host += count > 0;
    all->early += early;
}

/* One cell: "=" for the same bits, "!" for others, "." where there is no plan. */
static void try_kind(const subject *s, int kind, random_source *random, tally *all)
{
    neap_plan *plan = plan_of(s, kind, random);
    bool alike = !plan || trains_alike(s, plan, false, true, 10);
    if (plan)
        count_plan(s, plan, all);
    all->differ += !alike;
    printf("   %c", !plan ? '.' : alike ? '=' : '!');
    fflush(stdout);
    neap_plan_destroy(plan);
}

static void test_all(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240731)};
    tally all[KINDS] = {{0}};
    unsigned differ = 0;
    for (int k = 0; k < KINDS; k++)
        printf("  %c  %s\n", 'a' + k, kinds[k]);
    for (uint32_t b = 0; b < neap_backends_count(); b++) {
        if (!computes(neap_backends_name(b)))
            continue;
        printf("\n%s, 10 steps\n%-20s %-9s   a   b   c   d   e   f\n", neap_backends_name(b),
               "network", "optimizer");
        for (uint32_t i = 0; i < small_networks_count(); i++)
            for (int o = NEAP_OPTIMIZER_SGD; o <= NEAP_OPTIMIZER_ADAMW; o++) {
                if (!is_chosen("NEAP_TEST_NETWORK", small_networks_at(i)->name))
                    continue;
                subject s =
                    begin_subject(small_networks_at(i), neap_backends_name(b), (neap_optimizer)o);
                printf("%-20s %-9s", s.network->name, neap_optimizer_name((neap_optimizer)o));
                for (int k = 0; k < KINDS; k++)
                    try_kind(&s, k, &random, &all[k]);
                printf("\n");
                end_subject(&s);
            }
    }
    printf("\n    plans  in place  state on the host  early updates  not the same bits\n");
    for (int k = 0; k < KINDS; k++) {
        printf("%c  %6u  %8u  %17u  %13u  %17u\n", 'a' + k, all[k].plans, all[k].in_place,
               all[k].on_host, all[k].early, all[k].differ);
        differ += all[k].differ;
    }
    assert_int_equal(differ, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest some[] = {
        cmocka_unit_test(test_random_plans),
        cmocka_unit_test(test_clipping_and_micro_batches),
        cmocka_unit_test(test_resuming_by_another_plan),
        cmocka_unit_test(test_running_statistics),
        cmocka_unit_test(test_killed_with_state_on_the_host),
    };
    const struct CMUnitTest all[] = {cmocka_unit_test(test_all)};
    const char *which = getenv("NEAP_WHOLE_STEP");
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return which && strcmp(which, "all") == 0
               ? cmocka_run_group_tests_name("whole step", all, NULL, NULL)
               : cmocka_run_group_tests_name("whole step", some, NULL, NULL);
}
