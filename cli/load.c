#include "load.h"

#include "memory.h"
#include "onnx_file.h"
#include "output.h"
#include "parse_values.h"
#include "progress.h"

#include <math.h>
#include <neap/check.h>
#include <neap/layout.h>
#include <neap/solve.h>
#include <neap/split.h>
#include <neap/text.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Devices ---- */

/* NEAP_DEVICES: paths with colons between them. */
static neap_status read_environment(neap_devices *devices, neap_diag *diag)
{
    const char *paths = getenv("NEAP_DEVICES");
    neap_status status = NEAP_OK;
    neap_text path = {0};
    while (paths && *paths && status == NEAP_OK) {
        size_t length = strcspn(paths, ":");
        path.length = 0;
        neap_text_append(&path, paths, length);
        if (path.status != NEAP_OK) {
            status = diag->status = NEAP_NO_MEMORY;
        } else if (length > 0) {
            status = neap_devices_read_file(devices, path.text, diag);
        }
        paths += length + (paths[length] == ':');
    }
    neap_text_clear(&path);
    return status;
}

int cli_load_devices(const cli_settings *settings, neap_devices **devices)
{
    neap_diag diag;
    *devices = NULL;
    neap_status status = neap_devices_create(NULL, devices, &diag);
    if (status == NEAP_OK)
        status = read_environment(*devices, &diag);
    for (size_t i = 0; status == NEAP_OK && i < settings->n_device_files; i++)
        status = neap_devices_read_file(*devices, settings->device_files[i], &diag);
    if (status == NEAP_OK)
        return CLI_OK;
    neap_devices_destroy(*devices);
    *devices = NULL;
    return cli_fail_diag(&diag);
}

const neap_device *cli_find_device(const neap_devices *devices, const char *name)
{
    const neap_device *device = neap_devices_find(devices, name);
    if (device)
        return device;
    neap_suggestion suggestion;
    neap_suggestion_begin(&suggestion, name);
    for (uint32_t i = 0; i < neap_devices_count(devices); i++)
        neap_suggestion_offer(&suggestion, neap_devices_at(devices, i)->name);
    if (suggestion.best)
        cli_fail(CLI_BAD_INPUT, "no device \"%s\"; did you mean %s?", name, suggestion.best);
    else
        cli_fail(CLI_BAD_INPUT,
                 "no device \"%s\"; neap devices lists them, --devices FILE adds yours", name);
    return NULL;
}

/* ---- The graph ---- */

bool cli_has_updates(const neap_graph *graph)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (neap_graph_op(graph, o)->n_updates > 0)
            return true;
    return false;
}

/* A path has a slash or ends in .json or .onnx; "-" is standard input. Another word is a model
   first. */
static bool looks_like_path(const char *operand)
{
    size_t length = strlen(operand);
    return strcmp(operand, "-") == 0 || strchr(operand, '/') || cli_is_onnx(operand) ||
           (length > 5 && strcmp(operand + length - 5, ".json") == 0);
}

static int unknown_model(const char *operand)
{
    const char *nearest = neap_models_nearest(operand);
    if (nearest)
        return cli_fail(CLI_BAD_INPUT, "no model and no file \"%s\"; did you mean %s?", operand,
                        nearest);
    return cli_fail(CLI_BAD_INPUT,
                    "no model and no file \"%s\"; neap models lists the built-in ones", operand);
}

neap_training cli_training_of(const cli_settings *settings)
{
    neap_training training;
    neap_training_init(&training);
    training.optimizer = (neap_optimizer)settings->optimizer;
    training.momentum = settings->momentum;
    training.weight_decay = settings->weight_decay;
    training.clip_norm = settings->clip_norm;
    training.accumulate = settings->accumulate;
    return training;
}

static neap_status build_with(const cli_settings *settings, const neap_model *model,
                              const neap_model_setting *sizes, uint32_t n_sizes, neap_graph **graph,
                              neap_diag *diag)
{
    neap_model_options options;
    neap_model_options_init(&options);
    options.dtype = (neap_dtype)settings->dtype;
    options.kernels = (neap_kernels)settings->kernels;
    options.training = cli_training_of(settings);
    options.n_settings = n_sizes;
    options.settings = sizes;
    return neap_model_build(NULL, model, &options, graph, diag);
}

static int build_model(const cli_settings *settings, cli_loaded *loaded)
{
    neap_diag diag;
    if (build_with(settings, loaded->model, settings->sizes, settings->n_sizes, &loaded->graph,
                   &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    return CLI_OK;
}

bool cli_has_batches(const cli_loaded *loaded)
{
    return loaded->model || loaded->onnx;
}

int64_t cli_batch_size(const cli_settings *settings, const cli_loaded *loaded)
{
    for (uint32_t i = 0; i < settings->n_sizes; i++)
        if (strcmp(settings->sizes[i].name, "batch") == 0)
            return settings->sizes[i].value;
    const neap_model *model = loaded->model;
    for (uint32_t i = 0; model && i < neap_model_param_count(model); i++)
        if (strcmp(neap_model_param_at(model, i)->name, "batch") == 0)
            return neap_model_param_at(model, i)->default_value;
    for (uint32_t v = 0; v < neap_graph_value_count(loaded->graph); v++) {
        const neap_value *value = neap_graph_value(loaded->graph, v);
        if (strcmp(value->kind, NEAP_KIND_INPUT) == 0 && value->rank > 1)
            return value->shape[0];
    }
    return 0;
}

static neap_status build_batch(const cli_settings *settings, const cli_loaded *loaded,
                               int64_t batch, neap_graph **graph, neap_diag *diag)
{
    uint32_t count = settings->n_sizes + 1;
    neap_model_setting *sizes = cli_memory_new(count, sizeof *sizes);
    *graph = NULL;
    if (!sizes)
        return diag->status = NEAP_NO_MEMORY;
    if (settings->n_sizes > 0)
        memcpy(sizes, settings->sizes, settings->n_sizes * sizeof *sizes);
    sizes[settings->n_sizes] = (neap_model_setting){"batch", batch};
    neap_status status = build_with(settings, loaded->model, sizes, count, graph, diag);
    cli_memory_release(sizes, count, sizeof *sizes);
    return status;
}

neap_status cli_load_batch(const cli_settings *settings, const cli_loaded *loaded, int64_t batch,
                           neap_graph **graph, neap_diag *diag)
{
    neap_status status = loaded->onnx ? cli_onnx_batch(settings, loaded, batch, graph, diag)
                                      : build_batch(settings, loaded, batch, graph, diag);
    if (status == NEAP_OK && loaded->device) /* else the caller measures */
        status = neap_cost_apply(*graph, loaded->device, settings->math, diag);
    if (status == NEAP_OK && settings->split > 0)
        status = neap_graph_split(graph, settings->split, diag);
    if (status == NEAP_OK && settings->out_of_place)
        neap_graph_clear_in_place(*graph);
    if (status != NEAP_OK) {
        neap_graph_destroy(*graph);
        *graph = NULL;
    }
    return status;
}

/* A graph file with the gradients as outputs gets the updates; one that has updates keeps them. */
static int add_updates(const cli_settings *settings, const char *path, cli_loaded *loaded)
{
    const char *given = cli_given_of(settings, CLI_GROUP_OPTIMIZER);
    const neap_training training = cli_training_of(settings);
    neap_graph *updated;
    neap_diag diag;
    if (cli_has_updates(loaded->graph))
        return given ? cli_fail(CLI_BAD_INPUT, "--%s: the graph file %s has its own updates", given,
                                path)
                     : CLI_OK;
    if (training.optimizer == NEAP_OPTIMIZER_NONE)
        return CLI_OK;
    if (neap_graph_add_updates(loaded->graph, &training, &updated, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    neap_graph_destroy(loaded->graph);
    loaded->graph = updated;
    return CLI_OK;
}

static int read_graph(const cli_settings *settings, const char *path, cli_loaded *loaded)
{
    const char *size = cli_given_of(settings, CLI_GROUP_MODEL | CLI_GROUP_BATCH);
    if (!size && settings->dtype != NEAP_F32)
        size = "dtype";
    if (size)
        return cli_fail(CLI_BAD_INPUT,
                        "--%s is for built-in models; the sizes of the graph file %s are fixed",
                        size, path);
    if (cli_is_given(settings, "dtype") && !cli_is_given(settings, "device") && !settings->backend)
        return cli_fail(
            CLI_BAD_INPUT,
            "--dtype with the graph file %s needs --device or --backend, to replace its "
            "own times",
            path);
    neap_diag diag;
    if (neap_graph_read_file(NULL, path, &loaded->graph, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    loaded->measured = neap_graph_measured_on(loaded->graph) != NULL;
    return add_updates(settings, path, loaded);
}

static int load_graph(const cli_settings *settings, const char *operand, cli_loaded *loaded)
{
    if (!looks_like_path(operand)) {
        loaded->model = neap_models_find(operand);
        const char *option = cli_given_of(settings, CLI_GROUP_ONNX);
        if (loaded->model && option)
            return cli_fail(CLI_BAD_INPUT, "--%s is for ONNX files; %s is a built-in model", option,
                            operand);
        if (loaded->model)
            return build_model(settings, loaded);
        if (access(operand, F_OK) != 0)
            return unknown_model(operand);
    }
    if (cli_is_onnx(operand))
        return cli_onnx_load(settings, operand, loaded);
    const char *option = cli_given_of(settings, CLI_GROUP_ONNX);
    if (option)
        return cli_fail(CLI_BAD_INPUT, "--%s is for ONNX files, not for the graph file %s", option,
                        operand);
    return read_graph(settings, operand, loaded);
}

/* Models take their times from a device, graph files only if one is named. */
static int apply_device(const cli_settings *settings, cli_loaded *loaded)
{
    if (!cli_has_batches(loaded) && !cli_is_given(settings, "device"))
        return CLI_OK;
    int code = cli_load_devices(settings, &loaded->devices);
    if (code != CLI_OK)
        return code;
    loaded->device = cli_find_device(loaded->devices, settings->device);
    if (!loaded->device)
        return CLI_BAD_INPUT;
    neap_diag diag;
    if (neap_cost_apply(loaded->graph, loaded->device, settings->math, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    return CLI_OK;
}

int cli_load_split(const cli_settings *settings, cli_loaded *loaded)
{
    neap_diag diag;
    if (settings->split == 0 || neap_graph_split(&loaded->graph, settings->split, &diag) == NEAP_OK)
        return CLI_OK;
    return diag.status == NEAP_NO_MEMORY ? cli_fail_diag(&diag)
                                         : cli_fail(CLI_BAD_INPUT, "--split: %s", diag.message);
}

/* ---- The link ---- */

int cli_fail_modelled_link(void)
{
    return cli_fail(CLI_BAD_INPUT,
                    "--link device is the link of a modelled device, not of this machine; use "
                    "--link measured with --backend cuda, or give a rate, such as --link "
                    "12.2GB/s");
}

static int device_link(const cli_settings *settings, cli_loaded *loaded)
{
    const neap_device *device = loaded->device;
    if (settings->backend && !cli_is_given(settings, "device"))
        return cli_fail_modelled_link();
    if (!device)
        return cli_fail(CLI_BAD_INPUT, "--link device needs --device NAME; or give a rate, such as "
                                       "--link 12.2GB/s");
    if (!(device->link_out > 0) || !(device->link_in > 0))
        return cli_fail(CLI_BAD_INPUT,
                        "--link device: %s has no link; give a rate, such as --link 12.2GB/s",
                        device->name);
    loaded->link.out_bandwidth = device->link_out;
    loaded->link.in_bandwidth = device->link_in;
    loaded->link.latency = device->link_latency;
    loaded->link.duplex = device->duplex;
    return CLI_OK;
}

/* One rate for both ways, or out and in with a comma between. */
static int written_link(const char *text, cli_loaded *loaded)
{
    char out[64];
    size_t length = strcspn(text, ",");
    bool good = length < sizeof out;
    if (good) {
        memcpy(out, text, length);
        out[length] = '\0';
        const char *in = text[length] == ',' ? text + length + 1 : out;
        good = cli_parse_bandwidth(out, &loaded->link.out_bandwidth) &&
               cli_parse_bandwidth(in, &loaded->link.in_bandwidth);
    }
    if (good && loaded->link.out_bandwidth > 0 && loaded->link.in_bandwidth > 0)
        return CLI_OK;
    if (good)
        return cli_fail(CLI_BAD_INPUT,
                        "--link \"%s\": at 0 bytes a second nothing moves; write 12.2GB/s, say, or "
                        "leave --link out",
                        text);
    return cli_fail(CLI_BAD_INPUT,
                    "--link \"%s\" is no rate; write 12.2GB/s, 12GB/s,13GB/s (out and in), device "
                    "or measured",
                    text);
}

static int load_link(const cli_settings *settings, cli_loaded *loaded)
{
    const char *option = cli_given_of(settings, CLI_GROUP_LINK);
    if (!settings->link && option)
        return cli_fail(CLI_BAD_INPUT, "--%s needs --link, such as --link 12.2GB/s", option);
    if (!settings->link && settings->state == NEAP_STATE_HOST)
        return cli_fail(CLI_BAD_INPUT, "--state host needs --link, such as --link 12.2GB/s");
    if (!settings->link)
        return CLI_OK;
    loaded->moves_state = settings->state != NEAP_STATE_DEVICE;
    if (strcmp(settings->link, "measured") == 0) /* by measured.c, once the backend is open */
        return settings->backend ? CLI_OK
                                 : cli_fail(CLI_BAD_INPUT,
                                            "--link measured needs --backend cuda; or give a rate, "
                                            "such as --link 12.2GB/s");
    int code = strcmp(settings->link, "device") == 0 ? device_link(settings, loaded)
                                                     : written_link(settings->link, loaded);
    if (settings->duplex)
        loaded->link.duplex = true;
    if (settings->link_latency >= 0)
        loaded->link.latency = settings->link_latency;
    loaded->link.host_memory = settings->host_memory;
    return code;
}

/* ---- A plan to start from ---- */

/* Its addresses and budget do not matter, only that it computes the graph. */
static int load_start(const cli_settings *settings, cli_loaded *loaded)
{
    const char *path = settings->start;
    neap_diag diag;
    neap_verdict verdict;
    neap_check_options options;
    if (!path)
        return CLI_OK;
    neap_check_options_init(&options);
    options.budget = INT64_MAX;
    options.link = loaded->link.out_bandwidth > 0 ? &loaded->link : NULL;
    if (neap_plan_read_file(NULL, path, &loaded->start, &diag) != NEAP_OK ||
        neap_plan_set_offsets(loaded->start, NULL, 0, -1, &diag) != NEAP_OK ||
        neap_check(NULL, loaded->graph, loaded->start, &options, &verdict, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    if (verdict.accepted)
        return CLI_OK;
    const char *made_for = neap_plan_graph_name(loaded->start);
    bool other = strcmp(made_for, neap_graph_name(loaded->graph)) != 0;
    return cli_fail(CLI_BAD_INPUT, "--start %s: rejected: %s%s%s%s", path, verdict.reason,
                    other ? "; it is a plan for \"" : "", other ? made_for : "", other ? "\"" : "");
}

/* ---- All of it ---- */

int64_t cli_floor(const cli_loaded *loaded, const neap_graph *graph, uint32_t *op)
{
    return loaded->moves_state ? neap_graph_travel_floor_bytes(graph, op)
                               : neap_graph_floor_bytes(graph, op);
}

/* --in-place no. */
static void remove_marks(const cli_settings *settings, cli_loaded *loaded)
{
    loaded->in_place_floor = -1;
    if (!settings->out_of_place)
        return;
    loaded->in_place_floor = cli_floor(loaded, loaded->graph, NULL);
    neap_graph_clear_in_place(loaded->graph);
}

/* A plan for measured kernels is run, and addresses that do not suit kernels are assigned anew
   there. */
static int64_t alignment_of(const cli_settings *settings, const cli_loaded *loaded)
{
    int64_t needed = neap_run_alignment(loaded->graph);
    bool runs = settings->backend || loaded->measured;
    return runs && !cli_is_given(settings, "alignment") && settings->alignment < needed
               ? needed
               : settings->alignment;
}

int cli_load(const cli_settings *settings, const char *operand, cli_loaded *loaded)
{
    double begin = cli_clock();
    *loaded = (cli_loaded){.natural_peak = -1, .alignment = settings->alignment};
    if (settings->start && strcmp(settings->start, "-") == 0 && strcmp(operand, "-") == 0)
        return cli_fail(CLI_BAD_INPUT, "graph and --start cannot both come from standard input");
    int code = load_graph(settings, operand, loaded);
    if (code == CLI_OK)
        code = apply_device(settings, loaded);
    if (code == CLI_OK)
        code = cli_load_split(settings, loaded);
    if (code == CLI_OK)
        loaded->alignment = alignment_of(settings, loaded);
    if (code == CLI_OK)
        code = load_link(settings, loaded);
    if (code == CLI_OK)
        remove_marks(settings, loaded);
    if (code == CLI_OK)
        code = load_start(settings, loaded);
    loaded->seconds = cli_clock() - begin;
    if (code != CLI_OK)
        cli_loaded_clear(loaded);
    return code;
}

void cli_loaded_clear(cli_loaded *loaded)
{
    neap_graph_destroy(loaded->graph);
    neap_onnx_binding_destroy(loaded->binding);
    neap_onnx_close(loaded->onnx);
    neap_devices_destroy(loaded->devices);
    neap_plan_destroy(loaded->start);
    *loaded = (cli_loaded){.natural_peak = -1};
}

neap_status cli_plan_bytes(const cli_loaded *loaded, neap_plan *plan, int64_t *bytes,
                           neap_diag *diag)
{
    neap_layout_options options;
    neap_layout_options_init(&options);
    options.alignment = loaded->alignment;
    neap_status status = neap_layout_assign(NULL, loaded->graph, plan, &options, diag);
    if (status == NEAP_OK)
        *bytes = neap_plan_arena_bytes(plan);
    return status;
}

static int find_natural_peak(cli_loaded *loaded)
{
    neap_diag diag;
    neap_plan *plan = NULL;
    if (loaded->alignment == 1)
        return neap_natural_peak(NULL, loaded->graph, &loaded->natural_peak, &diag) == NEAP_OK
                   ? CLI_OK
                   : cli_fail_diag(&diag);
    neap_status status = neap_natural_plan(NULL, loaded->graph, &plan, &diag);
    if (status == NEAP_OK)
        status = cli_plan_bytes(loaded, plan, &loaded->natural_peak, &diag);
    neap_plan_destroy(plan);
    return status == NEAP_OK ? CLI_OK : cli_fail_diag(&diag);
}

int cli_load_natural_peak(cli_loaded *loaded)
{
    if (loaded->natural_peak >= 0)
        return CLI_OK;
    double begin = cli_clock();
    int code = find_natural_peak(loaded);
    loaded->seconds += cli_clock() - begin;
    return code;
}

int cli_load_budget(cli_loaded *loaded, const char *option, const char *text, int64_t *budget)
{
    static const char FORMS[] =
        "such as 8GiB, 5e9 (bytes) or 50% (of what training takes without a plan)";
    *budget = -1;
    if (!text)
        return CLI_OK;
    double share;
    if (cli_parse_percent(text, &share)) {
        int code = cli_load_natural_peak(loaded);
        if (code != CLI_OK)
            return code;
        double bytes = floor((double)loaded->natural_peak * share);
        *budget = bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
        if (*budget > 0)
            return CLI_OK;
    } else if (neap_bytes_parse(text, budget, NULL) != NEAP_OK) {
        return cli_fail(CLI_BAD_INPUT,
                        "--%s \"%s\" is no size in bytes above 0 and below 2^63; write one %s",
                        option, text, FORMS);
    }
    int64_t number;
    bool bare = cli_parse_integer(text, &number) && number <= 100;
    if (bare && *budget > 0 && *budget < neap_graph_travel_floor_bytes(loaded->graph, NULL) / 1000)
        return cli_fail(CLI_BAD_INPUT, "--%s %s is %s byte%s; did you mean %s%% or %sGiB?", option,
                        text, text, number > 1 ? "s" : "", text, text);
    if (*budget > 0)
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is 0 bytes; give a size above 0, %s", option, text,
                    FORMS);
}
