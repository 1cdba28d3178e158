#include "measured.h"

#include "output.h"

#include <neap/split.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The path of the profile cache: the given one, or the default. False: none. */
static bool cache_path(const cli_settings *settings, neap_text *path)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (settings->profile_cache)
        neap_text_puts(path, settings->profile_cache);
    else if (cache && *cache)
        neap_text_printf(path, "%s/neap/profile.json", cache);
    else if (home && *home)
        neap_text_printf(path, "%s/.cache/neap/profile.json", home);
    return path->length > 0 && path->status == NEAP_OK && strcmp(path->text, "none") != 0;
}

/* Measures a graph's kernels, and says so where the cache was of no use. */
static neap_status measure(const cli_settings *settings, const cli_loaded *model,
                           neap_backend *backend, cli_progress *progress, neap_graph *graph,
                           neap_profile_report *report, neap_diag *diag)
{
    neap_text path = {0};
    neap_profile_options options;
    neap_profile_options_init(&options);
    options.cache = cache_path(settings, &path) ? path.text : NULL;
    options.refresh = settings->fresh;
    if (settings->repetitions > 0)
        options.repetitions = (int)settings->repetitions;
    options.beside = model->contention;
    options.progress = progress ? &progress->base : NULL;
    neap_status status = neap_profile(NULL, graph, backend, &options, report, diag);
    neap_text_clear(&path);
    if (status != NEAP_OK)
        return status;
    if (*report->cache_damage)
        cli_fail(CLI_OK, "measured times are lost and measured again: %s", report->cache_damage);
    if (*report->cache_trouble)
        cli_fail(CLI_OK, "measured times are not kept: %s", report->cache_trouble);
    return NEAP_OK;
}

/* What becomes of the times that are known when a measurement is interrupted. */
static const char *rest_of_interruption(const cli_settings *settings,
                                        const neap_profile_report *report)
{
    neap_text path = {0};
    bool has_cache = cache_path(settings, &path);
    neap_text_clear(&path);
    return *report->cache_trouble ? ""
           : has_cache            ? "; the times of those that were measured are kept"
                                  : "; without a --profile-cache nothing is kept";
}

static int profile(const cli_settings *settings, cli_loaded *model, cli_progress *progress,
                   cli_measured *measured)
{
    neap_diag diag;
    neap_profile_report *report = &measured->profile;
    cli_progress_part(progress, "measuring kernels", 0, 0);
    if (measure(settings, model, measured->backend, progress, model->graph, report, &diag) !=
        NEAP_OK)
        return cli_fail_diag(&diag);
    if (report->interrupted)
        return cli_fail(CLI_STOPPED, "interrupted while measuring kernels%s",
                        rest_of_interruption(settings, report));
    model->device = NULL; /* the times are no longer its own */
    model->natural_peak = -1;
    return CLI_OK;
}

/* --link measured */
static int measure_link(const cli_settings *settings, neap_backend *backend, cli_loaded *model)
{
    neap_diag diag;
    if (!settings->link || strcmp(settings->link, "measured") != 0)
        return CLI_OK;
    neap_status status =
        neap_backend_measure_link(backend, &model->link, &model->contention, &diag);
    if (status == NEAP_UNSUPPORTED)
        return cli_fail(CLI_BAD_INPUT, "--link measured needs --backend cuda: %s", diag.message);
    if (status != NEAP_OK)
        return cli_fail_diag(&diag);
    model->link.duplex = true;
    model->link.host_memory = settings->host_memory;
    if (settings->link_latency >= 0)
        model->link.latency = settings->link_latency;
    return CLI_OK;
}

/* Options that say something about a GPU only. `backend` may be NULL. */
static int check_device_options(const cli_settings *settings, neap_backend *backend)
{
    neap_device_memory memory;
    const char *given = cli_is_given(settings, "gpu") ? "gpu"
                        : settings->nondeterministic  ? "nondeterministic"
                        : settings->device_memory     ? "device-memory"
                                                      : NULL;
    if (!given || (backend && neap_backend_memory(backend, &memory, NULL) == NEAP_OK))
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "--%s needs --backend cuda", given);
}

static bool has_bf16(const neap_graph *graph)
{
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (neap_graph_value(graph, v)->dtype == NEAP_BF16)
            return true;
    return false;
}

/* Options about measuring mean nothing without. */
static int check_no_backend(const cli_settings *settings)
{
    int code = check_device_options(settings, NULL);
    const char *given = cli_given_of(settings, CLI_GROUP_BACKEND);
    return code != CLI_OK || !given
               ? code
               : cli_fail(CLI_BAD_INPUT,
                          "--%s is about measuring kernels, and needs --backend, such as --backend "
                          "%s",
                          given, neap_backends_default());
}

int cli_backend_open(const cli_settings *settings, cli_loaded *model, neap_backend **backend)
{
    neap_diag diag;
    neap_backend_options options;
    const char *name = settings->backend ? settings->backend : neap_backends_default();
    if (settings->math == NEAP_MATH_TF32 && strncmp(name, "cuda", 4) != 0)
        return cli_fail(CLI_BAD_INPUT, "--dtype tf32 needs --backend cuda: %s computes in f32",
                        name);
    neap_backend_options_init(&options);
    options.threads = (int)settings->threads;
    options.device = (int)settings->gpu;
    options.tf32 = settings->math == NEAP_MATH_TF32 || has_bf16(model->graph);
    options.nondeterministic = settings->nondeterministic;
    if (neap_backend_open_with(NULL, name, &options, backend, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    int code = check_device_options(settings, *backend);
    if (code == CLI_OK)
        code = measure_link(settings, *backend, model);
    if (code != CLI_OK) {
        neap_backend_close(*backend);
        *backend = NULL;
    }
    return code;
}

neap_status cli_profile_graph(const cli_settings *settings, const cli_loaded *model,
                              neap_backend *backend, cli_progress *progress, neap_graph *graph,
                              neap_diag *diag)
{
    neap_profile_report report;
    neap_status status = measure(settings, model, backend, progress, graph, &report, diag);
    if (status != NEAP_OK || !report.interrupted)
        return status;
    snprintf(diag->message, sizeof diag->message, "interrupted while measuring kernels%s",
             rest_of_interruption(settings, &report));
    return diag->status = NEAP_INVALID;
}

/* Numbers of variants in a plan are those of its graph: kernels measured again may be others. */
static bool keeps_kernels(const cli_settings *settings, const neap_graph *graph,
                          const neap_backend *backend)
{
    const char *machine = neap_graph_measured_on(graph);
    return settings->plan_file && !settings->fresh && machine &&
           strcmp(machine, neap_backend_machine(backend)) == 0;
}

int cli_measure(const cli_settings *settings, cli_loaded *model, cli_progress *progress,
                cli_measured *measured)
{
    *measured = (cli_measured){0};
    int code = cli_backend_open(settings, model, &measured->backend);
    if (code != CLI_OK)
        return code;
    neap_graph_join(&model->graph); /* kernels work on whole values */
    measured->known = keeps_kernels(settings, model->graph, measured->backend);
    if (!measured->known)
        code = profile(settings, model, progress, measured);
    if (code == CLI_OK)
        code = cli_load_split(settings, model);
    if (code != CLI_OK)
        cli_measured_clear(measured);
    return code;
}

int cli_load_with_times(const cli_settings *settings, cli_loaded *model)
{
    cli_measured measured;
    cli_progress progress;
    int code = cli_load(settings, settings->operands[0], model);
    if (code == CLI_OK && !settings->backend)
        return check_no_backend(settings);
    if (code != CLI_OK)
        return code;
    if (settings->kernels == NEAP_KERNELS_LAYER)
        return cli_fail(CLI_BAD_INPUT, "--kernels layer is a model of memory: there are no such "
                                       "kernels to measure; leave out --backend, or use lean");
    cli_progress_begin(&progress);
    code = cli_measure(settings, model, &progress, &measured);
    cli_progress_end(&progress);
    if (code == CLI_OK)
        cli_measured_clear(&measured);
    return code;
}

void cli_measured_doubt(const cli_settings *settings, const cli_loaded *model,
                        const cli_measured *measured)
{
    neap_text path = {0};
    neap_diag diag;
    if (measured->known)
        cli_fail(CLI_OK,
                 "neap profile MODEL --fresh -o FILE measures the kernels again; then plan again");
    else if (cache_path(settings, &path) && !*measured->profile.cache_trouble &&
             neap_profile_doubt(NULL, neap_graph_whole(model->graph), measured->backend, path.text,
                                &diag) == NEAP_OK)
        cli_fail(CLI_OK, "the kernels are measured again next time; neap profile --fresh does it "
                         "now");
    neap_text_clear(&path);
}

void cli_measured_clear(cli_measured *measured)
{
    neap_backend_close(measured->backend);
    *measured = (cli_measured){0};
}
