/*
 * Results do not depend on the plan, to the bit: every built-in network at a small size, planned by
 * every method in several budgets, gives the losses, gradients and weights that it gives when
 * nothing is recomputed or moved.
 *
 * The full test takes minutes, so each run uses a random sample: every network, every method, some
 * of their pairs (NEAP_TEST_SEED; NEAP_TEST_COUNT pairs per network). With NEAP_BIT_IDENTITY=all it
 * tests every pair and prints a table (bench/bit_identity), on NEAP_TEST_THREADS threads;
 * NEAP_TEST_BACKEND and NEAP_TEST_NETWORK, a part of the name, restrict it. The first argument
 * selects tests by a pattern.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "accepted.h"
#include "plan/in_place.h"
#include "random_plan.h"
#include "settings.h"
#include "small_networks.h"
#include "small_training.h"
#include "usable_backends.h"

#include <neap/cost.h>
#include <neap/layout.h>
#include <neap/solve.h>
#include <neap/train.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEPS      2
#define TIME_LIMIT 0.4 /* seconds that a method may search */

/* Above that, programs are too large to be solved in the time. */
#define MOST_PROGRAM_OPS 130

enum { BUDGETS = 3 };

/* Of the way from the least that a method can do to what training takes without a plan. */
static const double shares[BUDGETS] = {0.67, 0.33, 0};

static const char *method_name(uint32_t index)
{
    return neap_method_name(neap_methods_at(index));
}

static bool solves_programs(uint32_t method)
{
    return strncmp(method_name(method), "checkmate", 9) == 0;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- A network on a backend ---- */

/* The training that plans of one choice of variants are held against. */
typedef struct plain_run {
    uint64_t variants; /* a hash */
    training_record record;
} plain_run;

typedef struct subject {
    const small_network *network;
    neap_backend *backend;
    neap_graph *graph;
    int64_t natural_peak;
    plain_run *plain;
    size_t n_plain;
    uint64_t *seen; /* hashes of plans that have been run */
    size_t n_seen;
} subject;

/* What came of the plans of one method. */
typedef struct tally {
    uint32_t plans;  /* found */
    uint32_t ran;    /* trainings; the same plan of another method or budget is not run again */
    uint32_t differ; /* of those */
} tally;

static void set_times(neap_graph *graph, const char *device)
{
    neap_devices *devices;
    neap_diag diag;
    assert_int_equal(neap_devices_create(NULL, &devices, &diag), NEAP_OK);
    if (neap_cost_apply(graph, neap_devices_find(devices, device), NEAP_MATH_F32, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_devices_destroy(devices);
}

static subject begin_subject(const small_network *network, neap_backend *backend,
                             neap_optimizer optimizer, const char *device)
{
    subject s = {.network = network, .backend = backend};
    neap_diag diag;
    s.graph = small_network_build(network, optimizer);
    set_times(s.graph, device);
    if (neap_backend_fit(backend, s.graph, &diag) != NEAP_OK)
        fail_msg("%s: %s", network->name, diag.message);
    assert_int_equal(neap_natural_peak(NULL, s.graph, &s.natural_peak, &diag), NEAP_OK);
    return s;
}

static void end_subject(subject *s)
{
    for (size_t i = 0; i < s->n_plain; i++)
        training_record_clear(&s->plain[i].record);
    free(s->plain);
    free(s->seen);
    neap_graph_destroy(s->graph);
}

/* ---- Plans ---- */

static uint64_t mix(uint64_t hash, uint64_t number)
{
    hash = (hash ^ number) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 31);
}

/* All that the executor goes by. */
static uint64_t hash_plan(const neap_plan *plan, bool duplex)
{
    uint64_t hash = duplex;
    const neap_step *steps = neap_plan_steps(plan);
    for (size_t i = 0; i < neap_plan_step_count(plan); i++)
        hash = mix(hash, (uint64_t)steps[i].kind << 60 ^ (uint64_t)steps[i].in_place << 59 ^
                             (uint64_t)steps[i].variant << 32 ^ (uint64_t)steps[i].id);
    size_t count;
    const int64_t *offsets = neap_plan_offsets(plan, &count);
    for (size_t i = 0; offsets && i < count; i++)
        hash = mix(hash, (uint64_t)offsets[i]);
    return hash;
}

static bool is_new(subject *s, uint64_t hash)
{
    for (size_t i = 0; i < s->n_seen; i++)
        if (s->seen[i] == hash)
            return false;
    s->seen = realloc(s->seen, (s->n_seen + 1) * sizeof *s->seen);
    assert_non_null(s->seen);
    s->seen[s->n_seen++] = hash;
    return true;
}

/* By op, what the plan computes it by: the same each time. */
static uint32_t *variants_of(const subject *s, const neap_plan *plan)
{
    uint32_t n_ops = neap_graph_op_count(s->graph);
    uint32_t *variants = malloc(n_ops * sizeof *variants);
    assert_non_null(variants);
    memset(variants, 0xff, n_ops * sizeof *variants);
    const neap_step *steps = neap_plan_steps(plan);
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        if (steps[i].kind != NEAP_COMPUTE)
            continue;
        uint32_t *variant = &variants[steps[i].id];
        if (*variant != UINT32_MAX && *variant != steps[i].variant)
            fail_msg("%s, %s: op %u is computed by variants %u and %u", s->network->name,
                     neap_plan_method(plan), (unsigned)steps[i].id, (unsigned)*variant,
                     (unsigned)steps[i].variant);
        *variant = steps[i].variant;
    }
    return variants;
}

static neap_run_options run_options(bool duplex)
{
    neap_run_options options;
    neap_run_options_init(&options);
    options.poison = true;
    options.duplex = duplex;
    return options;
}

/* Addresses for a plan without, found in no time: a dense arena, if not the smallest. */
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

/* Every op once, in the graph's order. */
static neap_plan *natural_plan(const subject *s, const uint32_t *variants)
{
    uint32_t n_ops = neap_graph_op_count(s->graph);
    uint32_t *order = malloc(n_ops * sizeof *order);
    neap_plan *plan = NULL;
    neap_diag diag;
    assert_non_null(order);
    for (uint32_t i = 0; i < n_ops; i++)
        order[i] = i;
    if (neap_plan_from_sequence(NULL, s->graph, order, n_ops, variants, "natural", -1, &plan,
                                &diag) != NEAP_OK)
        fail_msg("%s: %s", s->network->name, diag.message);
    place(s, plan);
    free(order);
    return plan;
}

static const training_record *plain_record(subject *s, const uint32_t *variants)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < neap_graph_op_count(s->graph); i++)
        hash = mix(hash, variants[i]);
    for (size_t i = 0; i < s->n_plain; i++)
        if (s->plain[i].variants == hash)
            return &s->plain[i].record;
    s->plain = realloc(s->plain, (s->n_plain + 1) * sizeof *s->plain);
    assert_non_null(s->plain);
    plain_run *run = &s->plain[s->n_plain++];
    run->variants = hash;
    neap_plan *plan = natural_plan(s, variants);
    neap_run_options options = run_options(false);
    neap_diag diag;
    if (small_training_run(s->graph, plan, s->backend, &options, STEPS, &run->record, &diag) !=
        NEAP_OK)
        fail_msg("%s on %s: %s", s->network->name, neap_backend_name(s->backend), diag.message);
    /* With NaNs in the results, those of freed memory would go unnoticed. */
    if (!isfinite(run->record.loss))
        fail_msg("%s on %s: the loss is %g", s->network->name, neap_backend_name(s->backend),
                 run->record.loss);
    neap_plan_destroy(plan);
    return &run->record;
}

/* Returns whether it trains as without the plan; says so where it does not. */
static bool trains_alike(subject *s, const neap_plan *plan, bool duplex)
{
    uint32_t *variants = variants_of(s, plan);
    const training_record *expected = plain_record(s, variants);
    training_record record;
    neap_diag diag;
    char what[NEAP_DIAG_CAPACITY] = "";
    neap_run_options options = run_options(duplex);
    neap_status status =
        small_training_run(s->graph, plan, s->backend, &options, STEPS, &record, &diag);
    uint32_t at = status == NEAP_OK ? training_record_compare(expected, &record) : 0;
    if (status != NEAP_OK)
        snprintf(what, sizeof what, "%s", diag.message);
    else if (at != UINT32_MAX)
        training_record_name(s->graph, &record, at, what, sizeof what);
    if (*what)
        print_message("%s on %s by %s in %" PRId64 " bytes%s: %s%s\n", s->network->name,
                      neap_backend_name(s->backend), neap_plan_method(plan), neap_plan_budget(plan),
                      duplex ? ", duplex" : "", status == NEAP_OK ? "differs: " : "", what);
    training_record_clear(&record);
    free(variants);
    return !*what;
}

/* ---- Methods ---- */

/* One on which all values together take a quarter of the training: some copies are waited for. */
static neap_link link_for(const subject *s, bool duplex)
{
    double seconds = neap_graph_seconds(s->graph, neap_graph_base_ticks(s->graph));
    double rate = 4 * (double)s->natural_peak / (seconds > 0 ? seconds : 1);
    return (neap_link){.out_bandwidth = rate, .in_bandwidth = rate, .duplex = duplex};
}

/* NULL where the method is for other graphs. */
static neap_solution *solve(const subject *s, uint32_t method, int64_t budget, bool duplex)
{
    neap_request request;
    neap_solution *solution = NULL;
    neap_diag diag;
    neap_request_init(&request, s->graph, method_name(method));
    request.budget = budget;
    request.alignment = NEAP_RUN_ALIGNMENT;
    request.time_limit = TIME_LIMIT;
    request.threads = 1;
    if (neap_method_needs_link(neap_methods_at(method)))
        request.link = link_for(s, duplex);
    neap_status status = neap_solve(NULL, &request, &solution, &diag);
    if (status != NEAP_OK && status != NEAP_UNSUPPORTED)
        fail_msg("%s by %s in %" PRId64 " bytes: %s", s->network->name, method_name(method), budget,
                 diag.message);
    return solution;
}

/* What a method says is the least it can do; -1 where it cannot say. It is asked at the floor,
   which is higher with aligned addresses. */
static int64_t least_budget(const subject *s, uint32_t method, bool duplex)
{
    int64_t floor = neap_graph_floor_bytes(s->graph, NULL), least = -1;
    neap_solution *solution = solve(s, method, floor, duplex);
    if (solution && neap_solution_figures(solution)->floor_bytes > floor) {
        floor = neap_solution_figures(solution)->floor_bytes;
        neap_solution_destroy(solution);
        solution = solve(s, method, floor, duplex);
    }
    if (solution)
        least = neap_solution_figures(solution)->least_budget;
    neap_solution_destroy(solution);
    return least;
}

/* The same steps; padding to aligned addresses can leave a plan of tiny arrays without any. */
static neap_plan *copy_of(const subject *s, const neap_plan *plan)
{
    neap_plan *copy;
    neap_diag diag;
    assert_int_equal(neap_plan_create(NULL, neap_plan_graph_name(plan), neap_plan_method(plan),
                                      neap_plan_budget(plan), &copy, &diag),
                     NEAP_OK);
    for (size_t i = 0; i < neap_plan_step_count(plan); i++)
        assert_int_equal(neap_plan_append(copy, neap_plan_steps(plan)[i], &diag), NEAP_OK);
    size_t count;
    const int64_t *offsets = neap_plan_offsets(plan, &count);
    if (offsets)
        assert_int_equal(
            neap_plan_set_offsets(copy, offsets, count, neap_plan_arena_bytes(plan), &diag),
            NEAP_OK);
    else
        place(s, copy);
    return copy;
}

/* A plan that moves something runs with one copy at a time and with one each way. */
static void try_plan(subject *s, const neap_plan *plan, bool moves, tally *result)
{
    for (int duplex = 0; duplex <= moves; duplex++)
        if (is_new(s, hash_plan(plan, duplex))) {
            result->ran++;
            result->differ += !trains_alike(s, plan, duplex);
        }
}

static void try_budget(subject *s, uint32_t method, int64_t budget, bool duplex, tally *result)
{
    neap_solution *solution = solve(s, method, budget, duplex);
    if (solution && neap_solution_plan(solution)) {
        neap_plan *plan = copy_of(s, neap_solution_plan(solution));
        result->plans++;
        try_plan(s, plan, neap_solution_figures(solution)->offloaded_bytes > 0, result);
        neap_plan_destroy(plan);
    }
    neap_solution_destroy(solution);
}

/* Budgets `first` up to, but without, `end`; links are duplex every other time. */
static void try_method(subject *s, uint32_t method, int first, int end, tally *result)
{
    for (int i = first; i < end; i++) {
        bool duplex = i % 2 == 0;
        int64_t least = least_budget(s, method, duplex);
        if (least < 0) /* no plan was found in the time */
            least = s->natural_peak * 9 / 10;
        try_budget(s, method, least + (int64_t)(shares[i] * (double)(s->natural_peak - least)),
                   duplex, result);
    }
}

/* ---- Backends ---- */

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

static bool is_large(const subject *s)
{
    return neap_graph_op_count(s->graph) > MOST_PROGRAM_OPS;
}

/* ---- Some of all ---- */

/* Methods in random order, round and round. */
typedef struct drawer {
    random_source random;
    uint32_t *deck;
    uint32_t count, next;
} drawer;

static void swap(uint32_t *a, uint32_t *b)
{
    uint32_t old = *a;
    *a = *b;
    *b = old;
}

static void shuffle(drawer *d)
{
    for (uint32_t i = d->count; i > 1; i--)
        swap(&d->deck[i - 1], &d->deck[random_below(&d->random, i)]);
    d->next = 0;
}

/* The next one; for a network that is too large for a program, the next that needs none. */
static uint32_t draw(drawer *d, bool large)
{
    if (d->next == d->count)
        shuffle(d);
    uint32_t i = d->next;
    while (large && i < d->count && solves_programs(d->deck[i]))
        i++;
    if (i < d->count) {
        swap(&d->deck[i], &d->deck[d->next]);
        return d->deck[d->next++];
    }
    do /* of those that were drawn before */
        i = random_below(&d->random, d->next);
    while (solves_programs(d->deck[i]));
    return d->deck[i];
}

/* Returns the number of plans that were run. */
static uint32_t try_some(subject *s, drawer *d, tally *by_method)
{
    uint32_t ran = 0;
    for (uint64_t i = 0; i < setting("NEAP_TEST_COUNT", 1); i++) {
        uint32_t method = draw(d, is_large(s));
        int budget = (int)random_below(&d->random, BUDGETS);
        tally result = {0};
        try_method(s, method, budget, budget + 1, &result);
        assert_int_equal(result.differ, 0);
        by_method[method].plans += result.plans;
        ran += result.ran;
    }
    return ran;
}

/* Networks that take long go to one backend after the other. */
static bool is_for(const neap_graph *graph, uint32_t network, uint32_t backend, uint64_t seed)
{
    return neap_graph_op_count(graph) < 300 || (network + backend + seed) % 2 == 0;
}

static void check_some(uint32_t index, drawer *d, tally *by_method)
{
    static const char *const devices[] = {"unit", "h200", "flops"};
    for (uint32_t i = 0; i < small_networks_count(); i++) {
        if (!is_chosen("NEAP_TEST_NETWORK", small_networks_at(i)->name) ||
            (i + index) % ONE_IN(5) != 0 || !backend_is_for_case(neap_backends_name(index), i / 5))
            continue;
        double begin = seconds_now();
        /* More threads take longer where other programs run too: one network has them. */
        neap_backend *backend = opened_backend(neap_backends_name(index), i > 0);
        const char *device = devices[random_below(&d->random, 3)];
        subject s = begin_subject(small_networks_at(i), backend, NEAP_OPTIMIZER_NONE, device);
        if (is_for(s.graph, i, index, setting("NEAP_TEST_SEED", 0))) {
            uint32_t ran = try_some(&s, d, by_method);
            print_message("%-8s %-20s %4u ops, %u plans run, %5.2f s\n", neap_backend_name(backend),
                          s.network->name, (unsigned)neap_graph_op_count(s.graph), (unsigned)ran,
                          seconds_now() - begin);
        }
        end_subject(&s);
        neap_backend_close(backend);
    }
}

/* Methods that were not drawn, or found no plan in the time, on one of the smallest networks. */
static void check_missing(tally *by_method)
{
    neap_backend *backend = opened_backend("ref", 1);
    subject s =
        begin_subject(small_networks_find("hong-alexnet"), backend, NEAP_OPTIMIZER_NONE, "unit");
    for (uint32_t m = 0; m < neap_methods_count(); m++) {
        if (by_method[m].plans == 0)
            try_method(&s, m, 0, BUDGETS, &by_method[m]);
        assert_int_equal(by_method[m].differ, 0);
        if (by_method[m].plans == 0)
            fail_msg("%s made no plan", method_name(m));
    }
    end_subject(&s);
    neap_backend_close(backend);
}

static void test_some_pairs(void **state)
{
    (void)state;
    uint32_t n_methods = neap_methods_count();
    drawer d = {.random = {setting("NEAP_TEST_SEED", 20240731)}, .count = n_methods};
    print_message("seed %" PRIu64 "\n", d.random.state);
    d.deck = malloc(n_methods * sizeof *d.deck);
    tally *by_method = calloc(n_methods, sizeof *by_method);
    assert_true(d.deck && by_method);
    for (uint32_t i = 0; i < n_methods; i++)
        d.deck[i] = i;
    shuffle(&d);
    for (uint32_t i = 0; i < neap_backends_count(); i++)
        if (computes(neap_backends_name(i)))
            check_some(i, &d, by_method);
    check_missing(by_method);
    free(by_method);
    free(d.deck);
}

/* ---- Plans that no method makes ---- */

/* Values leave and come back without need, parts of a storage one by one, whatever is legal; out of
   place and in place. Returns the number of runs in place. */
static size_t check_random_plans(const char *network, const char *backend_name,
                                 random_source *random)
{
    neap_backend *backend = opened_backend(backend_name, 1);
    subject s = begin_subject(small_networks_find(network), backend, NEAP_OPTIMIZER_NONE, "unit");
    uint32_t choice = random_below(random, 60);
    size_t in_place = 0, count;
    for (int i = 0; i < 3; i++) {
        neap_plan *any = random_plan(random, s.graph, 3 * neap_graph_op_count(s.graph), i > 0);
        neap_plan *plan = with_variants(any, s.graph, choice);
        place(&s, plan);
        assert_true(trains_alike(&s, plan, i == 2));
        assert_int_equal(neap_plan_run_in_place(NULL, s.graph, plan, &count, NULL), NEAP_OK);
        place(&s, plan);
        assert_true(trains_alike(&s, plan, i == 2));
        in_place += count;
        neap_plan_destroy(plan);
        neap_plan_destroy(any);
    }
    end_subject(&s);
    neap_backend_close(backend);
    return in_place;
}

/* Every run that can be in place, in the natural order. Returns how many those are. */
static size_t check_in_place(const small_network *network, const char *backend_name)
{
    neap_backend *backend = opened_backend(backend_name, 2);
    subject s = begin_subject(network, backend, NEAP_OPTIMIZER_NONE, "unit");
    uint32_t *variants = calloc(neap_graph_op_count(s.graph), sizeof *variants);
    neap_plan *plan = natural_plan(&s, variants);
    size_t count;
    assert_int_equal(neap_plan_run_in_place(NULL, s.graph, plan, &count, NULL), NEAP_OK);
    place(&s, plan);
    assert_true(trains_alike(&s, plan, false));
    neap_plan_destroy(plan);
    free(variants);
    end_subject(&s);
    neap_backend_close(backend);
    return count;
}

static void test_in_place(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < small_networks_count(); i++)
        for (uint32_t k = 0; k < neap_backends_count(); k++)
            if (computes(neap_backends_name(k)) && (i + k) % ONE_IN(2) == 0 &&
                backend_is_for_case(neap_backends_name(k), i / 2))
                assert_true(check_in_place(small_networks_at(i), neap_backends_name(k)) > 0);
}

static void test_random_plans(void **state)
{
    (void)state;
    static const char *const networks[] = {"hong-alexnet", "resnet18", "unet",
                                           "segnet",       "lstm",     "vit_b_16"};
    random_source random = {setting("NEAP_TEST_SEED", 20240731) + 2};
    size_t in_place = 0;
    for (uint32_t i = 0; i < neap_backends_count(); i++)
        for (size_t k = 0; k < sizeof networks / sizeof *networks; k++)
            if (computes(neap_backends_name(i)) && backend_is_for_case(neap_backends_name(i), k))
                in_place += check_random_plans(networks[k], neap_backends_name(i), &random);
    print_message("%zu runs in place\n", in_place);
    assert_true(in_place > 0);
}

/* ---- The trainer ---- */

/* Data, updates and all, by the library's own comparison. Copies take their time, so that ops catch
   up with them. */
static void expect_verified(const subject *s, const neap_plan *plan, bool duplex)
{
    const char *backend = neap_backend_name(s->backend), *method = neap_plan_method(plan);
    neap_train_options options;
    neap_verify_report report;
    neap_diag diag;
    neap_train_options_init(&options);
    options.run = run_options(duplex);
    options.run.pace =
        (neap_link){.out_bandwidth = 1e9, .in_bandwidth = 1e9, .latency = 5e-5, .duplex = duplex};
    if (neap_train_verify(NULL, s->graph, plan, s->backend, &options, 3, NULL, &report, &diag) !=
        NEAP_OK)
        fail_msg("%s on %s by %s: %s", s->network->name, backend, method, diag.message);
    if (!report.equal)
        fail_msg("%s on %s by %s, step %" PRId64 ": %s", s->network->name, backend, method,
                 report.differs_step, report.differs);
    assert_int_equal(report.steps, 3);
    assert_true(isfinite(report.loss));
}

static void verify(const small_network *network, const char *backend_name, neap_optimizer optimizer,
                   const char *method)
{
    neap_backend *backend = opened_backend(backend_name, 1);
    subject s = begin_subject(network, backend, optimizer, "unit");
    uint32_t m = 0;
    while (strcmp(method_name(m), method) != 0)
        m++;
    neap_solution *solution = solve(&s, m, least_budget(&s, m, true), true);
    assert_true(solution && neap_solution_plan(solution));
    expect_verified(&s, neap_solution_plan(solution), true);
    neap_solution_destroy(solution);
    end_subject(&s);
    neap_backend_close(backend);
}

static void test_training(void **state)
{
    (void)state;
    static const neap_optimizer optimizers[] = {NEAP_OPTIMIZER_MOMENTUM, NEAP_OPTIMIZER_ADAM};
    static const char *const plans[] = {"linear-greedy", "sqrt", "hong", "offload-greedy", "vdnn"};
    random_source random = {setting("NEAP_TEST_SEED", 20240731) + 1};
    for (uint32_t i = 0; i < neap_backends_count(); i++)
        for (int k = 0; computes(neap_backends_name(i)) && k < 2; k++) {
            const small_network *network;
            do
                network = small_networks_at(random_below(&random, small_networks_count()));
            while (strncmp(network->name, "densenet", 8) == 0); /* they take long */
            const char *method = plans[random_below(&random, 5)];
            print_message("%s on %s by %s\n", network->name, neap_backends_name(i), method);
            verify(network, neap_backends_name(i), optimizers[k], method);
        }
}

/* ---- All ---- */

static char letter(uint32_t method)
{
    return (char)('a' + method % 26);
}

static void print_head(const char *backend)
{
    printf("\n%s: plans that train as without one, in %d budgets\n\n", backend, BUDGETS);
    for (uint32_t m = 0; m < neap_methods_count(); m++)
        printf("  %c  %s\n", letter(m), method_name(m));
    printf("\n%-20s  ops", "network");
    for (uint32_t m = 0; m < neap_methods_count(); m++)
        printf("  %c", letter(m));
    printf("   plans runs  differ  seconds\n");
}

/* One cell: the number of plans, all identical; "!" where one is not, "." where there is none. */
static void print_cell(const tally *t)
{
    if (t->differ)
        printf("  !");
    else if (t->plans)
        printf(" %2u", (unsigned)t->plans);
    else
        printf("  .");
    fflush(stdout);
}

static void try_everywhere(subject *s, uint32_t method, tally *result)
{
    if (!solves_programs(method) || !is_large(s))
        try_method(s, method, 0, BUDGETS, result);
}

/* Returns how many plans do not train alike. */
static uint32_t check_all(neap_backend *backend)
{
    tally all = {0};
    print_head(neap_backend_name(backend));
    for (uint32_t i = 0; i < small_networks_count(); i++) {
        if (!is_chosen("NEAP_TEST_NETWORK", small_networks_at(i)->name))
            continue;
        double begin = seconds_now();
        tally row = {0};
        subject s = begin_subject(small_networks_at(i), backend, NEAP_OPTIMIZER_NONE,
                                  i % 2 ? "unit" : "h200");
        printf("%-20s %4u", s.network->name, (unsigned)neap_graph_op_count(s.graph));
        for (uint32_t m = 0; m < neap_methods_count(); m++) {
            tally cell = {0};
            try_everywhere(&s, m, &cell);
            print_cell(&cell);
            row.plans += cell.plans;
            row.ran += cell.ran;
            row.differ += cell.differ;
        }
        printf("   %5u %4u  %6u  %7.1f\n", (unsigned)row.plans, (unsigned)row.ran,
               (unsigned)row.differ, seconds_now() - begin);
        end_subject(&s);
        all.plans += row.plans;
        all.ran += row.ran;
        all.differ += row.differ;
    }
    printf("\n%s: %u plans, %u runs of what is different, %u do not train alike\n",
           neap_backend_name(backend), (unsigned)all.plans, (unsigned)all.ran,
           (unsigned)all.differ);
    return all.differ;
}

static void test_all_pairs(void **state)
{
    (void)state;
    uint32_t differ = 0;
    for (uint32_t i = 0; i < neap_backends_count(); i++)
        if (computes(neap_backends_name(i))) {
            neap_backend *backend =
                opened_backend(neap_backends_name(i), (int)setting("NEAP_TEST_THREADS", 0));
            differ += check_all(backend);
            neap_backend_close(backend);
        }
    assert_int_equal(differ, 0);
}

/* ---- The table of networks ---- */

static void test_every_model_is_there(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < neap_models_count(); i++) {
        const char *name = neap_model_name(neap_models_at(i));
        if (strcmp(name, "chain") != 0 && !small_networks_find(name))
            fail_msg("there is no small %s", name);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest some[] = {
        cmocka_unit_test(test_every_model_is_there),
        cmocka_unit_test(test_some_pairs),
        cmocka_unit_test(test_random_plans),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_training),
    };
    const struct CMUnitTest all[] = {cmocka_unit_test(test_all_pairs)};
    const char *which = getenv("NEAP_BIT_IDENTITY");
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return which && strcmp(which, "all") == 0
               ? cmocka_run_group_tests_name("bit identity", all, NULL, NULL)
               : cmocka_run_group_tests_name("bit identity", some, NULL, NULL);
}
