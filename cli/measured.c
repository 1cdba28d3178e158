#include "measured.h"

#include "output.h"

#include <neap/split.h>
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

static int profile(const cli_settings *settings, cli_loaded *model, cli_progress *progress,
                   cli_measured *measured)
{
    neap_text path = {0};
    neap_profile_options options;
    neap_diag diag;
    neap_profile_options_init(&options);
    options.cache = cache_path(settings, &path) ? path.text : NULL;
    options.refresh = settings->fresh;
    options.progress = &progress->base;
    cli_progress_part(progress, "measuring kernels", 0, 0);
    neap_status status =
        neap_profile(NULL, model->graph, measured->backend, &options, &measured->profile, &diag);
    bool has_cache = options.cache != NULL;
    neap_text_clear(&path);
    if (status != NEAP_OK)
        return cli_fail_diag(&diag);
    if (*measured->profile.cache_damage)
        cli_fail(CLI_OK, "measured times are lost and measured again: %s",
                 measured->profile.cache_damage);
    if (*measured->profile.cache_trouble)
        cli_fail(CLI_OK, "measured times are not kept: %s", measured->profile.cache_trouble);
    if (measured->profile.interrupted)
        return cli_fail(CLI_STOPPED, "interrupted while measuring kernels%s",
                        *measured->profile.cache_trouble ? ""
                        : has_cache ? "; the times of those that were measured are kept"
                                    : "; without a --profile-cache nothing is kept");
    model->device = NULL; /* the times are no longer its own */
    model->natural_peak = -1;
    return CLI_OK;
}

int cli_measure(const cli_settings *settings, cli_loaded *model, cli_progress *progress,
                cli_measured *measured)
{
    neap_diag diag;
    const char *name = settings->backend ? settings->backend : neap_backends_default();
    *measured = (cli_measured){0};
    if (neap_backend_open(NULL, name, (int)settings->threads, &measured->backend, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    neap_graph_join(&model->graph); /* kernels work on whole values */
    int code = profile(settings, model, progress, measured);
    if (code == CLI_OK)
        code = cli_load_split(settings, model);
    if (code != CLI_OK)
        cli_measured_clear(measured);
    return code;
}

void cli_measured_doubt(const cli_settings *settings, const cli_loaded *model,
                        const cli_measured *measured)
{
    neap_text path = {0};
    neap_diag diag;
    if (cache_path(settings, &path) && !*measured->profile.cache_trouble &&
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
