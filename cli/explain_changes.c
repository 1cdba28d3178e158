/*
 * explain_changes.c - what would help a budget, each planned for real.
 *
 * A change is a few settings: the graph is built again with them, or the link is another one, and
 * the same method plans it for the same budget. Kernels are not measured again, so with --backend
 * only changes that keep the graph are tried.
 */
#include "explanation.h"

#include "memory.h"
#include "output.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The link that is assumed where the device has none. */
static const double USUAL_BANDWIDTH = 55e9;
/* Shares of the time that is left: of each change, and of each batch. */
static const double CHANGE_SHARE = 0.2, BATCH_SHARE = 0.2;

bool explain_helps(const explanation *e, const explain_change *change)
{
    if (change->state != EXPLAIN_TRIED || !change->feasible)
        return false;
    return !e->result.plan || change->overhead < e->result.figures->overhead - EXPLAIN_NOTHING;
}

static void take_result(const neap_graph *graph, const cli_result *result, explain_change *change)
{
    change->state = EXPLAIN_TRIED;
    change->feasible = result->solved && result->plan && cli_result_has_addresses(result);
    if (!change->feasible)
        return;
    change->overhead = result->figures->overhead;
    change->peak = result->figures->peak_bytes;
    change->moved = result->figures->offloaded_bytes;
    change->host_state = explain_host_state(graph, result->plan);
}

/* Plans a changed model and keeps what it gives. */
static int try_model(explanation *e, const cli_settings *settings, const cli_loaded *model,
                     double share, explain_change *change)
{
    cli_result result;
    int code = explain_solve(e, settings, model, e->budget, explain_seconds(e, share), &result);
    if (code == CLI_OK && cli_interrupted() && !result.plan)
        change->state = EXPLAIN_NOT_REACHED;
    else if (code == CLI_OK)
        take_result(model->graph, &result, change);
    cli_result_clear(&result);
    return code;
}

/* ---- The link and state ---- */

/* "12.2 GB/s" */
static void show_rate(cli_text *text, double bandwidth)
{
    cli_format(text, "%.3g GB/s", 1e-9 * bandwidth);
}

static int try_link(explanation *e, explain_change *change)
{
    const neap_device *device = e->model.device;
    cli_settings settings = *e->settings;
    cli_loaded model = e->model;
    cli_text rate;
    if (e->settings->link)
        return CLI_OK;
    bool own = device && device->link_out > 0 && device->link_in > 0;
    model.link = own ? (neap_link){.out_bandwidth = device->link_out,
                                   .in_bandwidth = device->link_in,
                                   .latency = device->link_latency,
                                   .duplex = device->duplex}
                     : (neap_link){.out_bandwidth = USUAL_BANDWIDTH,
                                   .in_bandwidth = USUAL_BANDWIDTH,
                                   .duplex = true};
    model.moves_state = settings.state != NEAP_STATE_DEVICE;
    show_rate(&rate, model.link.out_bandwidth);
    cli_format(&change->option, "%s", own ? "--link device" : "--link 55GB/s --duplex");
    cli_format(&change->note, "%s, %s", rate.chars,
               own ? "as on this device" : "assumed: no link is known here");
    return try_model(e, &settings, &model, CHANGE_SHARE, change);
}

static int try_state(explanation *e, explain_change *change)
{
    cli_settings settings = *e->settings;
    cli_loaded model = e->model;
    if (!(e->model.link.out_bandwidth > 0) || settings.state != NEAP_STATE_DEVICE)
        return CLI_OK;
    settings.state = NEAP_STATE_AUTO;
    model.moves_state = true;
    cli_format(&change->option, "--state auto");
    return try_model(e, &settings, &model, CHANGE_SHARE, change);
}

/* ---- Another graph ---- */

/* The batch that the settings ask for; 0: as an ONNX file has it. */
static int64_t given_batch(const explanation *e)
{
    int64_t batch = 0;
    const neap_model *model = e->model.model;
    for (uint32_t i = 0; model && i < neap_model_param_count(model); i++)
        if (strcmp(neap_model_param_at(model, i)->name, "batch") == 0)
            batch = neap_model_param_at(model, i)->default_value;
    for (uint32_t i = 0; i < e->settings->n_sizes; i++)
        if (strcmp(e->settings->sizes[i].name, "batch") == 0)
            batch = e->settings->sizes[i].value;
    return batch;
}

/* Whether a graph can be built again with other settings. */
static bool can_build(const explanation *e)
{
    return cli_has_batches(&e->model) && !e->settings->backend &&
           (e->model.onnx || given_batch(e) > 0);
}

/* A setting that cannot be had here, such as a type that the device lacks, is not a change. */
static int try_build(explanation *e, const cli_settings *settings, int64_t batch, double share,
                     explain_change *change)
{
    cli_loaded model = e->model;
    neap_diag diag;
    neap_status status = cli_load_batch(settings, &e->model, batch, &model.graph, &diag);
    if (status == NEAP_NO_MEMORY)
        return cli_fail_memory();
    if (status != NEAP_OK)
        return CLI_OK;
    int code = try_model(e, settings, &model, share, change);
    neap_graph_destroy(model.graph);
    return code;
}

static int try_in_place(explanation *e, explain_change *change)
{
    cli_settings settings = *e->settings;
    if (!settings.out_of_place || !can_build(e))
        return CLI_OK;
    settings.out_of_place = 0;
    cli_format(&change->option, "--in-place yes");
    return try_build(e, &settings, given_batch(e), CHANGE_SHARE, change);
}

static int try_optimizer(explanation *e, explain_change *change)
{
    cli_settings settings = *e->settings;
    if (!can_build(e) || settings.optimizer != NEAP_OPTIMIZER_NONE)
        return CLI_OK;
    settings.optimizer = NEAP_OPTIMIZER_SGD;
    cli_format(&change->option, "--optimizer sgd");
    cli_format(&change->note, "each gradient goes as soon as it is applied");
    return try_build(e, &settings, given_batch(e), CHANGE_SHARE, change);
}

static int try_dtype(explanation *e, explain_change *change)
{
    cli_settings settings = *e->settings;
    if (!can_build(e) || !e->model.model || settings.dtype != NEAP_F32)
        return CLI_OK;
    settings.dtype = NEAP_BF16;
    settings.math = NEAP_MATH_F32;
    cli_format(&change->option, "--dtype bf16");
    cli_format(&change->note, "of its own time; results are rounded differently");
    return try_build(e, &settings, given_batch(e), CHANGE_SHARE, change);
}

/* ---- Batches ---- */

/* What is known about one batch. */
typedef struct batch_trial {
    int64_t batch;
    explain_change found;
} batch_trial;

typedef struct batch_trials {
    uint32_t count, capacity;
    batch_trial *items;
} batch_trials;

static const batch_trial *find_trial(const batch_trials *trials, int64_t batch)
{
    for (uint32_t i = 0; i < trials->count; i++)
        if (trials->items[i].batch == batch)
            return &trials->items[i];
    return NULL;
}

/* A trial of this batch, from memory or new; *trial is NULL if time or Ctrl-C ended it. */
static int try_batch(explanation *e, batch_trials *trials, int64_t batch, const batch_trial **trial)
{
    cli_settings settings = *e->settings;
    *trial = find_trial(trials, batch);
    if (*trial || cli_interrupted() || trials->count == trials->capacity)
        return CLI_OK;
    if (settings.time_limit > 0 && cli_clock() - e->begin > settings.time_limit)
        return CLI_OK;
    batch_trial *next = &trials->items[trials->count];
    *next = (batch_trial){.batch = batch};
    int code = try_build(e, &settings, batch, BATCH_SHARE, &next->found);
    if (code != CLI_OK || next->found.state != EXPLAIN_TRIED)
        return code;
    trials->count++;
    *trial = next;
    return CLI_OK;
}

/* The largest batch below the given one whose overhead is below a limit, by bisection. */
static int search_batch(explanation *e, batch_trials *trials, double limit, int64_t given,
                        explain_change *change)
{
    int64_t fits = 0, fails = given;
    const batch_trial *trial, *best = NULL, *next = NULL;
    while (fails - fits > 1) {
        int code = try_batch(e, trials, fits + (fails - fits) / 2, &trial);
        if (code != CLI_OK)
            return code;
        if (!trial) {
            change->state = EXPLAIN_NOT_REACHED;
            return CLI_OK;
        }
        if (trial->found.feasible && trial->found.overhead < limit) {
            fits = trial->batch;
            best = trial;
        } else {
            fails = trial->batch;
            next = trial;
        }
    }
    change->state = EXPLAIN_TRIED;
    if (!best)
        return CLI_OK;
    *change = best->found;
    change->batch = best->batch;
    change->next_batch = fails;
    change->next_feasible = next ? next->found.feasible : e->result.plan != NULL;
    change->next_overhead = next             ? next->found.overhead
                            : e->result.plan ? e->result.figures->overhead
                                             : 0;
    cli_format(&change->option, "--batch %" PRId64, best->batch);
    return CLI_OK;
}

static int try_batches(explanation *e)
{
    enum { MOST_TRIALS = 64 }; /* two bisections of a number below 2^31 take fewer */
    int64_t given = given_batch(e);
    double overhead = e->result.plan ? e->result.figures->overhead : HUGE_VAL;
    if (!can_build(e) || given < 2 || given > INT32_MAX || overhead < EXPLAIN_NOTHING)
        return CLI_OK;
    batch_trials trials = {.capacity = MOST_TRIALS};
    trials.items = cli_memory_new(trials.capacity, sizeof *trials.items);
    if (!trials.items)
        return cli_fail_memory();
    int code = CLI_OK;
    if (overhead >= EXPLAIN_CHEAP)
        code = search_batch(e, &trials, EXPLAIN_CHEAP, given, &e->changes[EXPLAIN_BATCH_CHEAP]);
    if (code == CLI_OK)
        code = search_batch(e, &trials, EXPLAIN_NOTHING, given, &e->changes[EXPLAIN_BATCH_FREE]);
    if (e->changes[EXPLAIN_BATCH_CHEAP].batch == e->changes[EXPLAIN_BATCH_FREE].batch &&
        e->changes[EXPLAIN_BATCH_FREE].state == EXPLAIN_TRIED)
        e->changes[EXPLAIN_BATCH_CHEAP] = (explain_change){0}; /* the same says it */
    cli_memory_release(trials.items, trials.capacity, sizeof *trials.items);
    return code;
}

/* ---- All ---- */

int explain_try_changes(explanation *e)
{
    static const struct {
        explain_kind kind;
        const char *label;
        int (*try)(explanation *e, explain_change *change);
    } CHANGES[] = {
        {EXPLAIN_LINK, "copies to the host", try_link},
        {EXPLAIN_STATE, "state on the host", try_state},
        {EXPLAIN_IN_PLACE, "runs in place", try_in_place},
        {EXPLAIN_OPTIMIZER, "updates in the step", try_optimizer},
        {EXPLAIN_DTYPE, "another number type", try_dtype},
    };
    if (e->result.plan && e->result.figures->overhead < EXPLAIN_NOTHING)
        return CLI_OK; /* there is nothing to gain */
    int code = CLI_OK;
    for (size_t i = 0; i < sizeof CHANGES / sizeof CHANGES[0] && code == CLI_OK; i++) {
        explain_change *change = &e->changes[CHANGES[i].kind];
        cli_progress_part(&e->run.progress, CHANGES[i].label, 0, 0);
        if (cli_interrupted())
            change->state = EXPLAIN_NOT_REACHED;
        else
            code = CHANGES[i].try(e, change);
    }
    cli_progress_part(&e->run.progress, "smaller batches", 0, 0);
    return code == CLI_OK ? try_batches(e) : code;
}
