#include "pictures.h"

#include "files.h"
#include "output.h"

#include <inttypes.h>

void cli_picture_title(neap_text *title, const cli_settings *settings, const cli_loaded *model,
                       int64_t batch, const char *device)
{
    if (batch == 0)
        batch = cli_batch_size(settings, model);
    if (!device)
        device = model->device ? model->device->name : settings->backend;
    neap_text_puts(title, model->model && batch > 0 ? neap_model_name(model->model)
                                                    : neap_graph_name(model->graph));
    if (batch > 0)
        neap_text_printf(title, ", batch %" PRId64, batch);
    if (device)
        neap_text_printf(title, ", on %s", device);
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
