#include "pictures.h"

#include "files.h"
#include "output.h"

#include <inttypes.h>
#include <string.h>

/* The batch of the graph; 0: not known. */
static int64_t batch_of(const cli_settings *settings, const cli_loaded *model)
{
    for (uint32_t i = 0; cli_has_batches(model) && i < settings->n_sizes; i++)
        if (strcmp(settings->sizes[i].name, "batch") == 0)
            return settings->sizes[i].value;
    for (uint32_t i = 0; model->model && i < neap_model_param_count(model->model); i++) {
        const neap_model_param *param = neap_model_param_at(model->model, i);
        if (strcmp(param->name, "batch") == 0)
            return param->default_value;
    }
    return 0;
}

void cli_picture_title(neap_text *title, const cli_settings *settings, const cli_loaded *model,
                       int64_t batch)
{
    if (batch == 0)
        batch = batch_of(settings, model);
    neap_text_puts(title, model->model && batch > 0 ? neap_model_name(model->model)
                                                    : neap_graph_name(model->graph));
    if (batch > 0)
        neap_text_printf(title, ", batch %" PRId64, batch);
    if (model->device)
        neap_text_printf(title, ", on %s", model->device->name);
}

void cli_chart_options(neap_chart_options *options, int beside)
{
    neap_chart_options_init(options);
    options->width = cli_width() - beside;
    options->color = cli_colors();
    options->unicode = cli_unicode();
}

int cli_picture_deliver(neap_status status, const neap_diag *diag, const char *path, char *text,
                        size_t length, neap_text *out)
{
    if (status != NEAP_OK)
        return cli_fail_diag(diag);
    int code = cli_file_deliver(path, text, length, out);
    neap_release(NULL, text, length + 1);
    return code;
}
