/* Training steps: batches, and the plan, which ends with the updates. */
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "graph/graph_internal.h"
#include "run/backend.h"
#include "train/trainer_internal.h"

#include <neap/split.h>

#include <string.h>

void neap_train_options_init(neap_train_options *options)
{
    *options = (neap_train_options){.data = "synthetic", .seed = 1};
    neap_lr_init(&options->rate);
    neap_run_options_init(&options->run);
}

/* ---- Creating ---- */

static neap_status fail_graph(const neap_graph *graph, const char *why, neap_diag *diag)
{
    return neap_fail(diag, NEAP_UNSUPPORTED,
                     "\"%s\" is not a training step: %s; build it with an optimizer",
                     neap_graph_name(graph), why);
}

static neap_optimizer optimizer_of(const neap_op *op)
{
    neap_optimizer optimizer = op->n_updates > 0 ? NEAP_OPTIMIZER_ADAMW : NEAP_OPTIMIZER_NONE;
    while (optimizer > 0 && strcmp(neap_optimizer_name(optimizer), op->type) != 0)
        optimizer--;
    return optimizer;
}

static bool is_running(const neap_op *op)
{
    return op->n_updates > 0 && strcmp(op->type, "running_stats") == 0;
}

static bool is_step(const neap_op *op)
{
    return op->n_updates > 0 && !is_running(op);
}

static bool is_f32(const neap_graph *graph, uint32_t value)
{
    return neap_graph_value(graph, value)->dtype == NEAP_F32;
}

/* Operands of updates: w, dw, step, moments, [scale,] [master,] [sum]. */
static neap_status bind_update(neap_trainer *t, const neap_op *op, neap_diag *diag)
{
    const char *const *names;
    uint32_t n_moments = neap_optimizer_moments(t->optimizer, &names);
    if (optimizer_of(op) != t->optimizer || op->n_inputs < 3 + n_moments)
        return fail_graph(t->graph, "its updates are of several kinds", diag);
    train_parameter p = {
        .value = op->inputs[0], .master = NEAP_NONE, .moments = {NEAP_NONE, NEAP_NONE}};
    uint32_t at = 3 + n_moments + (neap_op_attr_int(op, "clip", 0) ? 1 : 0);
    if (neap_op_attr_int(op, "master", 0) && at < op->n_inputs)
        p.master = op->inputs[at];
    if (!is_f32(t->graph, p.master == NEAP_NONE ? p.value : p.master))
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "\"%s\" cannot be trained: its parameters are %s without originals in f32",
                         neap_graph_name(t->graph),
                         neap_dtype_name(neap_graph_value(t->graph, op->inputs[0])->dtype));
    t->step_input = op->inputs[2];
    for (uint32_t i = 0; i < n_moments; i++)
        p.moments[i] = op->inputs[3 + i];
    t->parameters[t->n_parameters++] = p;
    return NEAP_OK;
}

/* Operands of running statistics: mean, variance, those of the batch. */
static neap_status bind_running(neap_trainer *t, const neap_op *op, neap_diag *diag)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (op->n_inputs < 4 || !is_f32(t->graph, op->inputs[i]))
            return fail_graph(t->graph, "its running statistics are not f32", diag);
        t->statistics[t->n_statistics++] = (train_statistic){op->inputs[i], i == 0 ? 0 : 1};
    }
    return NEAP_OK;
}

static neap_status bind_loss(neap_trainer *t, neap_diag *diag)
{
    uint32_t n_outputs;
    const uint32_t *outputs = neap_graph_outputs(t->graph, &n_outputs);
    neap_array loss;
    if (n_outputs != 1)
        return fail_graph(t->graph, "its output must be a loss and nothing else", diag);
    neap_status status = neap_runner_array(t->runner, outputs[0], &loss, diag);
    if (status == NEAP_OK && (loss.dtype != NEAP_F32 || loss.elements != 1))
        status = fail_graph(t->graph, "its loss is not one float", diag);
    t->loss = outputs[0];
    return status;
}

static neap_status bind_all(neap_trainer *t, uint32_t n_steps, uint32_t n_running, neap_diag *diag)
{
    neap_status status = NEAP_NEW(t->allocator, n_steps, &t->parameters, diag);
    t->parameter_capacity = status == NEAP_OK ? n_steps : 0;
    if (status == NEAP_OK)
        status = NEAP_NEW(t->allocator, 2 * (size_t)n_running, &t->statistics, diag);
    t->statistic_capacity = status == NEAP_OK ? 2 * (size_t)n_running : 0;
    for (uint32_t o = 0; o < neap_graph_op_count(t->graph) && status == NEAP_OK; o++) {
        const neap_op *op = neap_graph_op(t->graph, o);
        if (is_running(op))
            status = bind_running(t, op, diag);
        else if (is_step(op))
            status = bind_update(t, op, diag);
    }
    return status;
}

/* Updates are those of parameters in order, and running statistics anywhere. */
static neap_status bind_updates(neap_trainer *t, neap_diag *diag)
{
    uint32_t n_ops = neap_graph_op_count(t->graph), count = 0, n_running = 0;
    for (uint32_t o = n_ops; o-- > 0;) {
        const neap_op *op = neap_graph_op(t->graph, o);
        n_running += is_running(op);
        if (is_step(op)) {
            t->update = op;
            count++;
        } else if (strcmp(op->type, "clip_norm") == 0) {
            t->clip_norm = neap_op_attr_real(op, "norm", 0);
        }
    }
    if (count == 0)
        return fail_graph(t->graph, "it has no updates", diag);
    t->optimizer = optimizer_of(t->update);
    if (t->optimizer == NEAP_OPTIMIZER_NONE)
        return fail_graph(t->graph, "neap does not know its updates", diag);
    t->accumulate = neap_op_attr_int(t->update, "accumulate", 0);
    t->accumulate = t->accumulate > 0 ? t->accumulate : 1;
    return bind_all(t, count, n_running, diag);
}

/* State of the optimizer is zero at first: the arena is. */
static neap_status init_state(neap_trainer *t, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    for (uint32_t i = 0; i < t->n_statistics && status == NEAP_OK; i++)
        status = neap_train_init_statistic(t, &t->statistics[i], diag);
    for (uint32_t i = 0; i < t->n_parameters && status == NEAP_OK; i++)
        status = neap_train_init_parameter(t, &t->parameters[i], diag);
    return status;
}

/* `planned` is the graph that the plan is for. */
static neap_status prepare(neap_trainer *t, const neap_graph *planned, const neap_plan *plan,
                           neap_backend *backend, neap_diag *diag)
{
    neap_status status = neap_lr_check(&t->options.rate, diag);
    if (status == NEAP_OK)
        status = bind_updates(t, diag);
    if (status == NEAP_OK)
        status = neap_train_inputs_open(t, diag);
    if (status == NEAP_OK)
        status = neap_runner_create(t->allocator, planned, plan, backend, &t->options.run,
                                    &t->runner, diag);
    if (status == NEAP_OK)
        status = bind_loss(t, diag);
    if (status == NEAP_OK)
        status = neap_train_inputs_write_given(t, diag);
    return status == NEAP_OK ? init_state(t, diag) : status;
}

neap_status neap_trainer_create(neap_allocator *allocator, const neap_graph *graph,
                                const neap_plan *plan, neap_backend *backend,
                                const neap_train_options *options, neap_trainer **result,
                                neap_diag *diag)
{
    neap_trainer *t;
    allocator = neap_allocator_or_system(allocator);
    neap_status status = NEAP_NEW(allocator, 1, &t, diag);
    if (status != NEAP_OK)
        return status;
    t->allocator = allocator;
    t->graph = neap_graph_whole(graph);
    if (options)
        t->options = *options;
    else
        neap_train_options_init(&t->options);
    status = prepare(t, graph, plan, backend, diag);
    if (status == NEAP_OK)
        *result = t;
    else
        neap_trainer_destroy(t);
    return status;
}

void neap_trainer_destroy(neap_trainer *t)
{
    if (!t)
        return;
    neap_train_inputs_close(t);
    neap_runner_destroy(t->runner);
    NEAP_DELETE(t->allocator, t->statistic_capacity, t->statistics);
    NEAP_DELETE(t->allocator, t->parameter_capacity, t->parameters);
    NEAP_DELETE(t->allocator, 1, t);
}

neap_runner *neap_trainer_runner(neap_trainer *t)
{
    return t->runner;
}

int64_t neap_trainer_steps(const neap_trainer *t)
{
    return t->steps;
}

/* The value that holds a parameter in f32, or a vector of running statistics; NEAP_NONE: there is
   none of that name. *shaped has its shape. */
static uint32_t find_trained(const neap_trainer *t, const char *name, uint32_t *shaped)
{
    for (uint32_t i = 0; i < t->n_parameters; i++) {
        const train_parameter *p = &t->parameters[i];
        *shaped = p->value;
        if (strcmp(neap_graph_value(t->graph, p->value)->name, name) == 0)
            return p->master == NEAP_NONE ? p->value : p->master;
    }
    for (uint32_t i = 0; i < t->n_statistics; i++) {
        *shaped = t->statistics[i].value;
        if (strcmp(neap_graph_value(t->graph, *shaped)->name, name) == 0)
            return *shaped;
    }
    return NEAP_NONE;
}

neap_status neap_trainer_read(neap_trainer *t, const char *name, float *numbers, int64_t count,
                              neap_diag *diag)
{
    uint32_t shaped, id = find_trained(t, name, &shaped);
    int64_t elements = 1;
    if (id == NEAP_NONE)
        return neap_fail(diag, NEAP_INVALID, "\"%s\" has no parameter \"%s\"",
                         neap_graph_name(t->graph), name);
    const neap_value *value = neap_graph_value(t->graph, shaped);
    for (uint32_t d = 0; d < value->rank; d++)
        elements *= value->shape[d];
    if (elements != count)
        return neap_fail(diag, NEAP_INVALID, "parameter \"%s\" has %lld elements, not %lld", name,
                         (long long)elements, (long long)count);
    return neap_runner_read(t->runner, id, numbers, diag);
}

uint64_t neap_trainer_seed(const neap_trainer *t)
{
    return t->options.seed;
}

/* ---- Steps ---- */

static void add_report(neap_run_report *sum, const neap_run_report *report)
{
    sum->seconds += report->seconds;
    sum->wait_seconds += report->wait_seconds;
    sum->computed += report->computed;
    sum->transferred += report->transferred;
}

/* One run of the plan, for micro-batch k of this step. */
static neap_status run_batch(neap_trainer *t, int64_t k, neap_train_report *report, neap_diag *diag)
{
    int64_t batch = t->steps * t->accumulate + k;
    double begin = neap_clock_seconds();
    const double numbers[3] = {report->learning_rate, (double)report->step,
                               k + 1 == t->accumulate ? 1 : 0};
    neap_run_report run = {.state_changed = false};
    neap_status status = neap_train_inputs_fill(t, batch, diag);
    if (status == NEAP_OK)
        status = neap_runner_write(t->runner, t->step_input, numbers, diag);
    report->data_seconds += neap_clock_seconds() - begin;
    if (status == NEAP_OK)
        status =
            neap_runner_step(t->runner, run_random(t->options.seed, (uint64_t)batch), &run, diag);
    if (status == NEAP_OK)
        status = neap_runner_read(t->runner, t->loss, &t->last_loss, diag);
    t->torn = t->torn || (status != NEAP_OK && run.state_changed);
    if (status != NEAP_OK)
        return status;
    add_report(&report->run, &run);
    report->loss += (double)t->last_loss / (double)t->accumulate;
    return NEAP_OK;
}

neap_status neap_trainer_step(neap_trainer *t, neap_train_report *report, neap_diag *diag)
{
    neap_train_report ours = {.step = t->steps + 1,
                              .learning_rate = neap_lr_at(&t->options.rate, t->steps)};
    neap_status status = NEAP_OK;
    for (int64_t k = 0; k < t->accumulate && status == NEAP_OK; k++)
        status = run_batch(t, k, &ours, diag);
    if (status != NEAP_OK)
        return status;
    t->steps++;
    if (report)
        *report = ours;
    return NEAP_OK;
}
