/*
 * Runs the same steps with and without the plan and compares hashes of all arrays: results must
 * agree bit for bit.
 */
#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/progress.h"
#include "run/backend.h"
#include "train/trainer_internal.h"

#include <neap/split.h>
#include <neap/text.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct digest {
    uint64_t a, b;
} digest;

/* Two hashes of 64 bits with different multipliers. */
static digest digest_of(const void *numbers, int64_t bytes)
{
    digest d = {UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xd1b54a32d192ed03)};
    for (int64_t i = 0; i < bytes; i += 4) {
        uint32_t bits = 0;
        memcpy(&bits, (const unsigned char *)numbers + i, bytes - i < 4 ? (size_t)(bytes - i) : 4);
        d.a = (d.a ^ bits) * UINT64_C(0x100000001b3);
        d.b = (d.b + bits) * UINT64_C(0xff51afd7ed558ccd);
        d.b ^= d.b >> 29;
    }
    return d;
}

/* The results of one of the two runs for every step: the loss and all state. */
typedef struct record {
    digest *digests; /* steps x (1 + n_states) */
    double *seconds; /* by step */
    int64_t steps;   /* done */
    int64_t arena;
    double loss;
} record;

typedef struct verifier {
    neap_allocator *allocator;
    const neap_graph *planned; /* the graph of the plan */
    const neap_graph *graph;   /* the same, or the whole one if that is split */
    neap_backend *backend;
    const neap_train_options *options;
    int64_t steps;
    uint32_t n_states; /* values that persist: parameters, moments */
    neap_progress *progress;
    double begun;
    neap_diag *diag;
} verifier;

static size_t per_step(const verifier *v)
{
    return 1 + (size_t)v->n_states;
}

static neap_status take_digests(const verifier *v, const neap_trainer *t, digest *at)
{
    *at++ = digest_of(&t->last_loss, sizeof t->last_loss);
    for (uint32_t i = 0; i < neap_graph_value_count(v->graph); i++) {
        neap_array array;
        if (!neap_graph_value(v->graph, i)->state)
            continue;
        NEAP_TRY(neap_runner_array(t->runner, i, &array, v->diag));
        *at++ = digest_of(array.data, array.elements * neap_dtype_bytes(array.dtype));
    }
    return NEAP_OK;
}

static bool stopped(const verifier *v, const char *phase, int64_t step)
{
    neap_progress_tell(v->progress, phase, (double)step / (double)v->steps,
                       neap_clock_seconds() - v->begun);
    return neap_progress_is_cancelled(v->progress);
}

static neap_status train(const verifier *v, const neap_graph *graph, const neap_plan *plan,
                         const char *phase, int64_t steps, record *r)
{
    neap_trainer *t = NULL;
    neap_train_report report;
    neap_status status =
        neap_trainer_create(v->allocator, graph, plan, v->backend, v->options, &t, v->diag);
    if (status == NEAP_OK)
        r->arena = neap_runner_arena_bytes(t->runner);
    while (status == NEAP_OK && r->steps < steps && !stopped(v, phase, r->steps)) {
        status = neap_trainer_step(t, &report, v->diag);
        if (status == NEAP_OK)
            status = take_digests(v, t, r->digests + (size_t)r->steps * per_step(v));
        if (status != NEAP_OK)
            break;
        r->seconds[r->steps++] = report.run.seconds;
        r->loss = report.loss;
    }
    neap_trainer_destroy(t);
    return status;
}

/* ---- The plain plan ---- */

/* Every op once, in the graph's order, with the variants that the plan uses. */
static neap_status make_plain(const verifier *v, const neap_plan *plan, neap_plan **plain)
{
    uint32_t n_ops = neap_graph_op_count(v->graph), *sequence = NULL, *variants = NULL;
    const neap_step *steps = neap_plan_steps(plan);
    neap_status status = NEAP_NEW(v->allocator, n_ops, &sequence, v->diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(v->allocator, n_ops, &variants, v->diag);
    if (status == NEAP_OK) {
        for (uint32_t o = 0; o < n_ops; o++)
            sequence[o] = o;
        for (size_t i = 0; i < neap_plan_step_count(plan); i++)
            if (steps[i].kind == NEAP_COMPUTE && steps[i].id < neap_graph_op_count(v->planned))
                variants[neap_graph_whole_op(v->planned, steps[i].id)] = steps[i].variant;
        status = neap_plan_from_sequence(v->allocator, v->graph, sequence, n_ops, variants,
                                         "store-all", -1, plain, v->diag);
    }
    NEAP_DELETE(v->allocator, n_ops, variants);
    NEAP_DELETE(v->allocator, n_ops, sequence);
    return status;
}

/* ---- Comparing ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *numbers, int64_t count)
{
    if (count == 0)
        return 0;
    qsort(numbers, (size_t)count, sizeof *numbers, compare_doubles);
    return numbers[count / 2];
}

static void name_difference(const verifier *v, size_t at, char *text, size_t size)
{
    snprintf(text, size, "the loss");
    for (uint32_t i = 0; i < neap_graph_value_count(v->graph); i++)
        if (neap_graph_value(v->graph, i)->state && at > 0 && --at == 0)
            snprintf(text, size, "%s", neap_graph_value(v->graph, i)->name);
    neap_string_clean(text);
}

static void compare(const verifier *v, const record *a, const record *b, neap_verify_report *report)
{
    size_t each = per_step(v), count = (size_t)report->steps * each;
    report->compared = count;
    report->equal = true;
    for (size_t i = 0; i < count && report->equal; i++)
        if (a->digests[i].a != b->digests[i].a || a->digests[i].b != b->digests[i].b) {
            report->equal = false;
            report->differs_step = (int64_t)(i / each) + 1;
            name_difference(v, i % each, report->differs, sizeof report->differs);
        }
}

static neap_status make_record(const verifier *v, record *r)
{
    neap_status status =
        NEAP_NEW(v->allocator, (size_t)v->steps * per_step(v), &r->digests, v->diag);
    return status == NEAP_OK ? NEAP_NEW(v->allocator, (size_t)v->steps, &r->seconds, v->diag)
                             : status;
}

static void clear_record(const verifier *v, record *r)
{
    NEAP_DELETE(v->allocator, (size_t)v->steps * per_step(v), r->digests);
    NEAP_DELETE(v->allocator, (size_t)v->steps, r->seconds);
}

neap_status neap_train_verify(neap_allocator *allocator, const neap_graph *graph,
                              const neap_plan *plan, neap_backend *backend,
                              const neap_train_options *options, int64_t steps,
                              neap_progress *progress, neap_verify_report *report, neap_diag *diag)
{
    verifier v = {.allocator = neap_allocator_or_system(allocator),
                  .planned = graph,
                  .graph = neap_graph_whole(graph),
                  .backend = backend,
                  .options = options,
                  .steps = steps,
                  .progress = progress,
                  .begun = neap_clock_seconds(),
                  .diag = diag};
    neap_plan *plain = NULL;
    record planned = {.steps = 0}, natural = {.steps = 0};
    size_t digests;
    if (steps < 1)
        return neap_fail(diag, NEAP_INVALID, "verifying needs at least 1 step");
    for (uint32_t i = 0; i < neap_graph_value_count(v.graph); i++)
        v.n_states += neap_graph_value(v.graph, i)->state;
    if (!neap_mul_size((size_t)steps, per_step(&v), &digests))
        return neap_fail_no_memory(diag);
    memset(report, 0, sizeof *report);
    neap_status status = make_record(&v, &planned);
    if (status == NEAP_OK)
        status = make_record(&v, &natural);
    if (status == NEAP_OK)
        status = make_plain(&v, plan, &plain);
    if (status == NEAP_OK)
        status = train(&v, v.planned, plan, "training with the plan", steps, &planned);
    if (status == NEAP_OK)
        status = train(&v, v.graph, plain, "training without the plan", planned.steps, &natural);
    if (status == NEAP_OK) {
        report->steps = natural.steps;
        report->interrupted = natural.steps < steps;
        report->loss = planned.loss;
        report->plan_arena = planned.arena;
        report->plain_arena = natural.arena;
        compare(&v, &planned, &natural, report);
        report->plan_seconds = median(planned.seconds, planned.steps);
        report->plain_seconds = median(natural.seconds, natural.steps);
    }
    neap_plan_destroy(plain);
    clear_record(&v, &natural);
    clear_record(&v, &planned);
    return status;
}
