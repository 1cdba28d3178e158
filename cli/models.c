/* models.c - neap models: the built-in networks, and what each takes. */

#include "command.h"
#include "csv.h"
#include "files.h"
#include "json.h"
#include "output.h"

#include <inttypes.h>
#include <neap/models.h>
#include <neap/solve.h>
#include <string.h>

/* A model at its default sizes. */
typedef struct model_figures {
    int64_t batch; /* 1 where it has no batch */
    int64_t parameters;
    double forward_macs; /* of one sample */
    uint32_t ops;
    int64_t natural_peak;
} model_figures;

static int64_t default_batch(const neap_model *model)
{
    for (uint32_t i = 0; i < neap_model_param_count(model); i++) {
        const neap_model_param *param = neap_model_param_at(model, i);
        if (strcmp(param->name, "batch") == 0)
            return param->default_value;
    }
    return 1;
}

static int measure(const neap_model *model, model_figures *figures)
{
    neap_diag diag;
    neap_model_options options;
    neap_model_options_init(&options);
    neap_graph *graph;
    if (neap_model_build(NULL, model, &options, &graph, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    *figures = (model_figures){.batch = default_batch(model)};
    figures->parameters = neap_graph_parameter_count(graph);
    figures->ops = neap_graph_op_count(graph);
    for (uint32_t i = 0; i < figures->ops; i++)
        if (neap_graph_op(graph, i)->pass == NEAP_FORWARD)
            figures->forward_macs += (double)neap_op_count_work(graph, i).macs;
    figures->forward_macs /= (double)figures->batch;
    neap_status status = neap_natural_peak(NULL, graph, &figures->natural_peak, &diag);
    neap_graph_destroy(graph);
    return status == NEAP_OK ? CLI_OK : cli_fail_diag(&diag);
}

/* ---- All of them ---- */

static void add_json_figures(cli_json *json, const neap_model *model, const model_figures *figures)
{
    cli_json_string(json, "name", neap_model_name(model));
    cli_json_string(json, "summary", neap_model_summary(model));
    cli_json_integer(json, "batch", figures->batch);
    cli_json_integer(json, "parameters", figures->parameters);
    cli_json_real(json, "forward_macs_per_sample", figures->forward_macs);
    cli_json_integer(json, "ops", figures->ops);
    cli_json_integer(json, "natural_peak_bytes", figures->natural_peak);
}

static void add_row(cli_table *table, const neap_model *model, const model_figures *figures)
{
    cli_text text;
    cli_cell(table, CLI_BOLD, "%s", neap_model_name(model));
    cli_cell(table, CLI_PLAIN, "%.1f", 1e-6 * (double)figures->parameters);
    cli_cell(table, CLI_PLAIN, "%.2f", 1e-9 * figures->forward_macs);
    cli_cell(table, CLI_PLAIN, "%" PRId64, figures->batch);
    cli_cell(table, CLI_PLAIN, "%u", figures->ops);
    cli_cell(table, CLI_PLAIN, "%s", cli_bytes(&text, figures->natural_peak));
    cli_cell(table, CLI_DIM, "%s", neap_model_summary(model));
}

static int list_json(neap_text *out)
{
    int code = CLI_OK;
    cli_json json;
    cli_json_begin(&json, out);
    cli_json_array(&json, NULL);
    for (uint32_t i = 0; i < neap_models_count() && code == CLI_OK; i++) {
        const neap_model *model = neap_models_at(i);
        model_figures figures;
        code = measure(model, &figures);
        if (code != CLI_OK)
            break;
        cli_json_object(&json, NULL);
        add_json_figures(&json, model, &figures);
        cli_json_end_object(&json);
    }
    cli_json_end_array(&json);
    if (code != CLI_OK)
        neap_text_clear(out);
    return code;
}

static int list_table(neap_text *out)
{
    static const cli_column COLUMNS[] = {{"name", false, false}, {"Mparam", true, false},
                                         {"GMAC", true, true},   {"batch", true, false},
                                         {"ops", true, true},    {"memory", true, false},
                                         {"", false, false}};
    int code = CLI_OK;
    cli_table table;
    cli_table_init(&table, COLUMNS, 7, 0);
    for (uint32_t i = 0; i < neap_models_count() && code == CLI_OK; i++) {
        model_figures figures;
        code = measure(neap_models_at(i), &figures);
        if (code == CLI_OK)
            add_row(&table, neap_models_at(i), &figures);
    }
    cli_table_finish(&table, out);
    cli_styled(out, CLI_DIM,
               "GMAC: forward, one sample. memory: training one batch in f32 "
               "without a plan.");
    neap_text_puts(out, "\n");
    if (code != CLI_OK)
        neap_text_clear(out);
    return code;
}

static int list_csv(const char *path, neap_text *out)
{
    int code = CLI_OK;
    cli_csv csv;
    cli_csv_begin(&csv, "name,batch,parameters,forward_macs_per_sample,ops,natural_peak_bytes,"
                        "summary");
    for (uint32_t i = 0; i < neap_models_count() && code == CLI_OK; i++) {
        const neap_model *model = neap_models_at(i);
        model_figures figures;
        code = measure(model, &figures);
        if (code != CLI_OK)
            break;
        cli_csv_word(&csv, neap_model_name(model));
        cli_csv_integer(&csv, figures.batch);
        cli_csv_integer(&csv, figures.parameters);
        cli_csv_real(&csv, figures.forward_macs);
        cli_csv_integer(&csv, figures.ops);
        cli_csv_integer(&csv, figures.natural_peak);
        cli_csv_string(&csv, neap_model_summary(model));
        cli_csv_end_row(&csv);
    }
    if (code == CLI_OK)
        return cli_csv_deliver(&csv, path, out);
    neap_text_clear(&csv.text);
    return code;
}

/* ---- One of them ---- */

static void show_json(const neap_model *model, const model_figures *figures, neap_text *out)
{
    cli_json json;
    cli_json_begin(&json, out);
    cli_json_object(&json, NULL);
    add_json_figures(&json, model, figures);
    cli_json_string(&json, "source", neap_model_source(model));
    cli_json_array(&json, "settings");
    for (uint32_t i = 0; i < neap_model_param_count(model); i++) {
        const neap_model_param *param = neap_model_param_at(model, i);
        cli_json_object(&json, NULL);
        cli_json_string(&json, "name", param->name);
        cli_json_string(&json, "meaning", param->meaning);
        cli_json_integer(&json, "default", param->default_value);
        cli_json_integer(&json, "least", param->least);
        cli_json_integer(&json, "most", param->most);
        cli_json_end_object(&json);
    }
    cli_json_end_array(&json);
    cli_json_end_object(&json);
}

/* The option that sets a parameter: its own, or --set. */
static const char *option_of(cli_text *text, const char *parameter)
{
    if (strcmp(parameter, "batch") == 0 || strcmp(parameter, "seq") == 0)
        return cli_format(text, "--%s N", parameter);
    if (strcmp(parameter, "image") == 0)
        return cli_format(text, "--image H[xW]");
    return cli_format(text, "--set %s=N", parameter);
}

static void show_text(const neap_model *model, const model_figures *figures, neap_text *out)
{
    static const cli_column SETTINGS[] = {{"setting", false, false},
                                          {"default", true, false},
                                          {"from", true, false},
                                          {"to", true, false},
                                          {"", false, false}};
    cli_text text;
    cli_table table;
    cli_styled(out, CLI_BOLD, "%s", neap_model_name(model));
    cli_styled(out, CLI_DIM, "  %s", neap_model_summary(model));
    neap_text_puts(out, "\n");
    cli_facts_init(&table);
    cli_fact(&table, "parameters", CLI_PLAIN,
             cli_format(&text, "%.2f M", 1e-6 * (double)figures->parameters), "%s", "");
    cli_fact(&table, "forward", CLI_PLAIN,
             cli_format(&text, "%.3f GMAC", 1e-9 * figures->forward_macs),
             "multiply-accumulates, one sample");
    cli_fact(&table, "ops", CLI_PLAIN, cli_format(&text, "%u", figures->ops),
             "forward and backward");
    cli_fact(&table, "memory", CLI_PLAIN, cli_bytes(&text, figures->natural_peak),
             "training a batch of %" PRId64 " in f32 without a plan", figures->batch);
    cli_table_finish(&table, out);
    neap_text_puts(out, "  ");
    cli_styled(out, CLI_DIM, "after       ");
    cli_wrap(out, neap_model_source(model), 14, 14, (size_t)cli_width());
    neap_text_puts(out, "\n\n");
    cli_table_init(&table, SETTINGS, 5, 2);
    for (uint32_t i = 0; i < neap_model_param_count(model); i++) {
        const neap_model_param *param = neap_model_param_at(model, i);
        cli_cell(&table, CLI_PLAIN, "%s", option_of(&text, param->name));
        cli_cell(&table, CLI_PLAIN, "%" PRId64, param->default_value);
        cli_cell(&table, CLI_PLAIN, "%" PRId64, param->least);
        cli_cell(&table, CLI_PLAIN, "%" PRId64, param->most);
        cli_cell(&table, CLI_DIM, "%s", param->meaning);
    }
    cli_table_finish(&table, out);
}

/* Its settings. */
static int show_csv(const neap_model *model, const char *path, neap_text *out)
{
    cli_csv csv;
    cli_csv_begin(&csv, "setting,default,least,most,meaning");
    for (uint32_t i = 0; i < neap_model_param_count(model); i++) {
        const neap_model_param *param = neap_model_param_at(model, i);
        cli_csv_word(&csv, param->name);
        cli_csv_integer(&csv, param->default_value);
        cli_csv_integer(&csv, param->least);
        cli_csv_integer(&csv, param->most);
        cli_csv_string(&csv, param->meaning);
        cli_csv_end_row(&csv);
    }
    return cli_csv_deliver(&csv, path, out);
}

static int show_model(const cli_settings *settings, neap_text *out)
{
    const char *name = settings->operands[0];
    const neap_model *model = neap_models_find(name);
    const char *nearest = model ? NULL : neap_models_nearest(name);
    if (nearest)
        return cli_fail(CLI_BAD_INPUT, "no model \"%s\"; did you mean %s?", name, nearest);
    if (!model)
        return cli_fail(CLI_BAD_INPUT, "no model \"%s\"; neap models lists them", name);
    model_figures figures;
    int code = settings->csv ? show_csv(model, settings->csv, out) : CLI_OK;
    if (code != CLI_OK || cli_stdout_taken(settings))
        return code;
    code = measure(model, &figures);
    if (code == CLI_OK && settings->json)
        show_json(model, &figures, out);
    else if (code == CLI_OK)
        show_text(model, &figures, out);
    return code;
}

static int run_models(const cli_settings *settings, neap_text *out)
{
    if (settings->n_operands > 0)
        return show_model(settings, out);
    int code = settings->csv ? list_csv(settings->csv, out) : CLI_OK;
    if (code != CLI_OK || cli_stdout_taken(settings))
        return code;
    return settings->json ? list_json(out) : list_table(out);
}

const cli_command cli_command_models = {
    .name = "models",
    .operands = "[NAME]",
    .summary = "list the built-in networks, or describe one",
    .about = "Lists the built-in networks with their default sizes: millions of parameters, "
             "billions of multiply-accumulates in the forward pass of one sample (GMAC), ops in "
             "the training step, and the memory that a step needs without a plan. A narrow "
             "terminal leaves out GMAC and ops. With a NAME, describes that network and the sizes "
             "it takes, with their bounds and defaults.",
    .examples =
        {
            {"neap models", "all of them"},
            {"neap models gpt2", "one, with its settings"},
            {"neap models --json", "for a script"},
        },
    .groups = CLI_GROUP_CSV | CLI_GROUP_JSON,
    .least_operands = 0,
    .most_operands = 1,
    .run = run_models,
};
