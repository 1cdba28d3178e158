/* Training steps: a batch, the plan, the update. */
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/team.h"
#include "run/backend.h"
#include "train/trainer_internal.h"

#include <neap/split.h>

#include <math.h>
#include <string.h>

void neap_train_options_init(neap_train_options *options)
{
    *options = (neap_train_options){.data = "synthetic", .seed = 1};
    neap_sgd_init(&options->sgd);
    options->sgd.momentum = 0.9;
    neap_adam_init(&options->adam);
    neap_lr_init(&options->rate);
    neap_run_options_init(&options->run);
}

/* ---- Creating ---- */

static int state_count(neap_optimizer optimizer)
{
    return optimizer == NEAP_OPTIMIZER_ADAM ? 2 : optimizer == NEAP_OPTIMIZER_MOMENTUM ? 1 : 0;
}

static bool is_parameter(const neap_value *value)
{
    return value->producer == NEAP_NONE && strcmp(value->kind, NEAP_KIND_PARAMETER) == 0;
}

static neap_status fail_graph(const neap_graph *graph, const char *why, neap_diag *diag)
{
    return neap_fail(diag, NEAP_UNSUPPORTED,
                     "\"%s\" is not a training step: %s; its outputs must be a loss and a float "
                     "gradient for each parameter, in order",
                     neap_graph_name(graph), why);
}

/* A parameter and the gradient at the same position. */
static neap_status bind_parameter(neap_trainer *t, uint32_t value, uint32_t gradient,
                                  train_parameter *p, neap_diag *diag)
{
    neap_array weights, slopes;
    neap_status status = neap_runner_array(t->runner, value, &weights, diag);
    if (status == NEAP_OK)
        status = neap_runner_array(t->runner, gradient, &slopes, diag);
    if (status != NEAP_OK)
        return status;
    if (weights.dtype != NEAP_F32 || slopes.dtype != NEAP_F32 || !weights.plain || !slopes.plain ||
        weights.elements != slopes.elements)
        return fail_graph(t->graph, "a gradient is not like its parameter", diag);
    *p = (train_parameter){.name = neap_graph_value(t->graph, value)->name,
                           .value = value,
                           .weights = weights.data,
                           .gradient = slopes.data,
                           .count = weights.elements,
                           .rank = weights.rank,
                           .shape = weights.shape};
    return NEAP_OK;
}

static neap_status bind_parameters(neap_trainer *t, neap_diag *diag)
{
    uint32_t n_outputs, n_values = neap_graph_value_count(t->graph), next = 0;
    const uint32_t *outputs = neap_graph_outputs(t->graph, &n_outputs);
    for (uint32_t v = 0; v < n_values; v++)
        t->n_parameters += is_parameter(neap_graph_value(t->graph, v));
    if (n_outputs != t->n_parameters + 1)
        return fail_graph(t->graph, "it has other outputs", diag);
    neap_array loss;
    neap_status status = neap_runner_array(t->runner, outputs[0], &loss, diag);
    if (status == NEAP_OK && (loss.dtype != NEAP_F32 || loss.elements != 1))
        status = fail_graph(t->graph, "its loss is not one float", diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(t->allocator, t->n_parameters, &t->parameters, diag);
    if (status != NEAP_OK)
        return status;
    t->loss = loss.data;
    for (uint32_t v = 0; v < n_values && status == NEAP_OK; v++)
        if (is_parameter(neap_graph_value(t->graph, v))) {
            status = bind_parameter(t, v, outputs[next + 1], &t->parameters[next], diag);
            next++;
        }
    return status;
}

/*
 * The optimizer's state is the fixed memory of the graph: the first state of all parameters, then
 * the second.
 */
static neap_status bind_state(neap_trainer *t, neap_diag *diag)
{
    int64_t bytes, needed = 0;
    int states = state_count(t->options.optimizer);
    float *at = neap_runner_fixed(t->runner, &bytes);
    for (uint32_t i = 0; i < t->n_parameters; i++)
        needed += t->parameters[i].count * (int64_t)sizeof(float) * states;
    if (bytes < needed)
        return neap_fail(diag, NEAP_INVALID,
                         "the graph has %lld fixed bytes, the optimizer's state takes %lld: build "
                         "it for this optimizer",
                         (long long)bytes, (long long)needed);
    for (int s = 0; s < states; s++)
        for (uint32_t i = 0; i < t->n_parameters; i++) {
            t->parameters[i].state[s] = at;
            at += t->parameters[i].count;
        }
    return NEAP_OK;
}

static neap_status check_options(const neap_train_options *o, neap_diag *diag)
{
    neap_status status = neap_lr_check(&o->rate, diag);
    if (status == NEAP_OK)
        status = o->optimizer == NEAP_OPTIMIZER_ADAM ? neap_adam_check(&o->adam, diag)
                                                     : neap_sgd_check(&o->sgd, diag);
    return status;
}

/* `planned` is the graph that the plan is for. */
static neap_status prepare(neap_trainer *t, const neap_graph *planned, const neap_plan *plan,
                           neap_backend *backend, neap_diag *diag)
{
    neap_status status = check_options(&t->options, diag);
    if (status == NEAP_OK)
        status = neap_train_inputs_open(t, diag);
    if (status == NEAP_OK)
        status = neap_runner_create(t->allocator, planned, plan, backend, &t->options.run,
                                    &t->runner, diag);
    if (status == NEAP_OK)
        status = bind_parameters(t, diag);
    if (status == NEAP_OK)
        status = bind_state(t, diag);
    for (uint32_t i = 0; i < t->n_parameters && status == NEAP_OK; i++)
        neap_train_init_parameter(t->graph, t->options.seed, &t->parameters[i]);
    return status;
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
    t->threads = neap_backend_threads(backend);
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
    NEAP_DELETE(t->allocator, t->n_parameters, t->parameters);
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

uint64_t neap_trainer_seed(const neap_trainer *t)
{
    return t->options.seed;
}

/* ---- The update ---- */

/* Every thread of the team updates its share of the elements. */
typedef struct update_job {
    neap_job base;
    neap_trainer *trainer;
    double rate;
} update_job;

static void update_part(const update_job *job, const train_parameter *p, int64_t begin, int64_t end)
{
    const neap_train_options *o = &job->trainer->options;
    float *w = p->weights + begin, *first = p->state[0], *second = p->state[1];
    const float *g = p->gradient + begin;
    if (o->optimizer == NEAP_OPTIMIZER_ADAM) {
        neap_adam adam = o->adam;
        adam.learning_rate = job->rate;
        neap_adam_update(w, g, first + begin, second + begin, end - begin, job->trainer->steps + 1,
                         &adam);
        return;
    }
    neap_sgd sgd = o->sgd;
    sgd.learning_rate = job->rate;
    if (!first)
        sgd.momentum = 0;
    neap_sgd_update(w, g, first ? first + begin : NULL, end - begin, &sgd);
}

static void update_share(neap_job *base, neap_team *team, unsigned member)
{
    const update_job *job = (const update_job *)base;
    int64_t members = neap_team_members(team);
    for (uint32_t i = 0; i < job->trainer->n_parameters; i++) {
        const train_parameter *p = &job->trainer->parameters[i];
        int64_t share = (p->count + members - 1) / members;
        int64_t begin = share * member, end = begin + share < p->count ? begin + share : p->count;
        if (begin < end)
            update_part(job, p, begin, end);
    }
}

static void update(neap_trainer *t, double rate)
{
    update_job job = {.base = {update_share}, .trainer = t, .rate = rate};
    neap_team_run(&job.base, (unsigned)t->threads);
}

neap_status neap_trainer_step(neap_trainer *t, neap_train_report *report, neap_diag *diag)
{
    neap_train_report ours = {.step = t->steps + 1};
    double begin = neap_clock_seconds();
    neap_status status = neap_train_inputs_fill(t, t->steps, diag);
    ours.data_seconds = neap_clock_seconds() - begin;
    if (status == NEAP_OK)
        status = neap_runner_step(t->runner, run_random(t->options.seed, (uint64_t)t->steps),
                                  &ours.run, diag);
    if (status != NEAP_OK)
        return status;
    ours.loss = (double)*t->loss;
    ours.learning_rate = neap_lr_at(&t->options.rate, t->steps);
    begin = neap_clock_seconds();
    update(t, ours.learning_rate);
    ours.update_seconds = neap_clock_seconds() - begin;
    t->steps++;
    if (report)
        *report = ours;
    return NEAP_OK;
}
