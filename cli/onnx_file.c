#include "onnx_file.h"

#include "memory.h"
#include "output.h"

#include <string.h>

bool cli_is_onnx(const char *operand)
{
    size_t length = operand ? strlen(operand) : 0;
    return length > 5 && strcmp(operand + length - 5, ".onnx") == 0;
}

/* ---- Building ---- */

static void set_options(const cli_settings *s, int64_t batch, neap_onnx_size *sizes,
                        neap_onnx_options *options)
{
    neap_onnx_options_init(options);
    options->dtype = (neap_dtype)s->dtype;
    options->kernels = (neap_kernels)s->kernels;
    options->training = cli_training_of(s);
    options->loss = (neap_onnx_loss)s->loss;
    options->loss_output = s->loss_output;
    options->train_dropout = s->train_dropout;
    options->batch_norm = (neap_onnx_batch_norm)s->batch_norm;
    options->n_frozen = s->n_frozen;
    options->frozen = s->frozen;
    options->sizes = sizes;
    for (uint32_t i = 0; i < s->n_sizes; i++)
        if (strcmp(s->sizes[i].name, "batch") == 0)
            options->batch = s->sizes[i].value;
        else
            sizes[options->n_sizes++] = (neap_onnx_size){s->sizes[i].name, s->sizes[i].value};
    if (batch > 0)
        options->batch = batch;
}

static neap_status build(const cli_settings *settings, const neap_onnx *file, int64_t batch,
                         neap_graph **graph, neap_onnx_binding **binding, neap_diag *diag)
{
    neap_onnx_options options;
    size_t capacity = settings->n_sizes + 1;
    neap_onnx_size *sizes = cli_memory_new(capacity, sizeof *sizes);
    *graph = NULL;
    if (!sizes)
        return diag->status = NEAP_NO_MEMORY;
    set_options(settings, batch, sizes, &options);
    neap_status status = neap_onnx_build(file, &options, graph, binding, diag);
    cli_memory_release(sizes, capacity, sizeof *sizes);
    return status;
}

neap_status cli_onnx_batch(const cli_settings *settings, const cli_loaded *loaded, int64_t batch,
                           neap_graph **graph, neap_diag *diag)
{
    return build(settings, loaded->onnx, batch, graph, NULL, diag);
}

/* "model.onnx leaves sizes open: --set height=N --set width=N" */
static int check_sizes(const cli_settings *settings, const char *path, const neap_onnx *file)
{
    neap_text missing = {0};
    const char *name;
    int code = CLI_OK;
    for (size_t i = 0; (name = neap_onnx_open_size(file, i)); i++) {
        bool given = false;
        for (uint32_t s = 0; s < settings->n_sizes; s++)
            given = given || strcmp(settings->sizes[s].name, name) == 0;
        if (!given)
            neap_text_printf(&missing, " --set %s=N", name);
    }
    if (missing.status != NEAP_OK)
        code = cli_fail_memory();
    else if (missing.length > 0)
        code = cli_fail(CLI_BAD_INPUT, "%s leaves sizes open; give them:%s", path, missing.text);
    neap_text_clear(&missing);
    return code;
}

int cli_onnx_load(const cli_settings *settings, const char *path, cli_loaded *loaded)
{
    neap_diag diag;
    const char *other = cli_is_given(settings, "image") ? "image"
                        : cli_is_given(settings, "seq") ? "seq"
                                                        : NULL;
    if (other)
        return cli_fail(CLI_BAD_INPUT,
                        "--%s is for built-in models; sizes that %s leaves open are set by their "
                        "names: --set NAME=N",
                        other, path);
    if (neap_onnx_open(NULL, path, &loaded->onnx, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    int code = check_sizes(settings, path, loaded->onnx);
    if (code != CLI_OK)
        return code;
    if (build(settings, loaded->onnx, 0, &loaded->graph, &loaded->binding, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    for (size_t i = 0; i < neap_onnx_note_count(loaded->binding); i++)
        cli_fail(CLI_OK, "%s: %s", path, neap_onnx_note_at(loaded->binding, i));
    return CLI_OK;
}

/* ---- Weights ---- */

static neap_status fill(neap_train_source *self, const char *name, neap_dtype dtype, void *data,
                        int64_t count, bool *found, neap_diag *diag)
{
    const cli_onnx_source *source = (const cli_onnx_source *)self;
    return neap_onnx_fill(source->binding, name, dtype, data, count, found, diag);
}

void cli_onnx_source_init(cli_onnx_source *source, const neap_onnx_binding *binding)
{
    *source = (cli_onnx_source){{fill}, binding};
}

typedef struct trained_weights {
    neap_onnx_weights base;
    neap_trainer *trainer;
} trained_weights;

static neap_status read_weights(neap_onnx_weights *self, const char *name, float *numbers,
                                int64_t count, neap_diag *diag)
{
    return neap_trainer_read(((trained_weights *)self)->trainer, name, numbers, count, diag);
}

neap_status cli_onnx_save(const cli_loaded *loaded, neap_trainer *trainer, const char *path,
                          neap_diag *diag)
{
    trained_weights weights = {{read_weights}, trainer};
    return neap_onnx_write(loaded->binding, path, &weights.base, diag);
}
