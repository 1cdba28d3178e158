/* methods.c - neap methods: the planning methods, and the options of each. */

#include "command.h"
#include "csv.h"
#include "files.h"
#include "json.h"
#include "output.h"

#include <math.h>
#include <neap/planner.h>
#include <string.h>

static const char *const TYPES[] = {[NEAP_OPTION_INTEGER] = "integer",
                                    [NEAP_OPTION_REAL] = "real",
                                    [NEAP_OPTION_CHOICE] = "choice",
                                    [NEAP_OPTION_LIST] = "list"};

/* ---- JSON ---- */

static void add_option_json(cli_json *json, const neap_option *option)
{
    cli_json_object(json, NULL);
    cli_json_string(json, "name", option->name);
    cli_json_string(json, "meaning", option->meaning);
    cli_json_string(json, "type", TYPES[option->type]);
    if (option->type == NEAP_OPTION_CHOICE) {
        cli_json_string(json, "choices", option->choices);
    } else {
        if (option->type != NEAP_OPTION_LIST)
            cli_json_real(json, "default", option->default_value);
        cli_json_real(json, "least", option->least);
        cli_json_real(json, "most", option->most);
    }
    cli_json_end_object(json);
}

static void add_method_json(cli_json *json, const neap_method *method)
{
    cli_json_object(json, NULL);
    cli_json_string(json, "name", neap_method_name(method));
    cli_json_string(json, "summary", neap_method_summary(method));
    cli_json_string(json, "source", neap_method_source(method));
    cli_json_array(json, "options");
    for (uint32_t i = 0; i < neap_method_option_count(method); i++)
        add_option_json(json, neap_method_option_at(method, i));
    cli_json_end_array(json);
    cli_json_end_object(json);
}

/* ---- CSV ---- */

static int list_csv(const char *path, neap_text *out)
{
    cli_csv csv;
    cli_csv_begin(&csv, "name,options,summary,source");
    for (uint32_t i = 0; i < neap_methods_count(); i++) {
        const neap_method *method = neap_methods_at(i);
        cli_csv_word(&csv, neap_method_name(method));
        cli_csv_integer(&csv, neap_method_option_count(method));
        cli_csv_string(&csv, neap_method_summary(method));
        cli_csv_string(&csv, neap_method_source(method));
        cli_csv_end_row(&csv);
    }
    return cli_csv_deliver(&csv, path, out);
}

/* The options of a method. */
static int describe_csv(const neap_method *method, const char *path, neap_text *out)
{
    cli_csv csv;
    cli_csv_begin(&csv, "option,type,default,least,most,choices,meaning");
    for (uint32_t i = 0; i < neap_method_option_count(method); i++) {
        const neap_option *option = neap_method_option_at(method, i);
        bool is_number = option->type == NEAP_OPTION_INTEGER || option->type == NEAP_OPTION_REAL;
        cli_csv_word(&csv, option->name);
        cli_csv_word(&csv, TYPES[option->type]);
        cli_csv_real(&csv, is_number ? option->default_value : (double)NAN);
        if (option->type == NEAP_OPTION_CHOICE) {
            cli_csv_none(&csv, 2);
            cli_csv_string(&csv, option->choices);
        } else {
            cli_csv_real(&csv, option->least);
            cli_csv_real(&csv, option->most);
            cli_csv_none(&csv, 1);
        }
        cli_csv_string(&csv, option->meaning);
        cli_csv_end_row(&csv);
    }
    return cli_csv_deliver(&csv, path, out);
}

/* ---- Text ---- */

static void list_methods(neap_text *out)
{
    static const cli_column COLUMNS[] = {{"name", false, false}, {"what it does", false, false}};
    cli_table table;
    cli_table_init(&table, COLUMNS, 2, 0);
    for (uint32_t i = 0; i < neap_methods_count(); i++) {
        const neap_method *method = neap_methods_at(i);
        cli_cell(&table, CLI_BOLD, "%s", neap_method_name(method));
        cli_cell(&table, CLI_PLAIN, "%s", neap_method_summary(method));
    }
    cli_table_finish(&table, out);
    cli_styled(out, CLI_DIM, "neap methods NAME has the paper and the options.");
    neap_text_puts(out, "\n");
}

/* "--option effort=N", and below it what it means, its bounds and its default. */
static void add_option(const neap_option *option, neap_text *out)
{
    static const size_t INDENT = 6;
    bool is_choice = option->type == NEAP_OPTION_CHOICE, is_list = option->type == NEAP_OPTION_LIST;
    neap_text text = {0};
    neap_text_printf(out, "  --option %s=%s\n", option->name,
                     is_choice ? option->choices
                     : is_list ? "N,..."
                               : "N");
    neap_text_puts(&text, option->meaning);
    if (is_choice)
        neap_text_printf(&text, " [default: %.*s]", (int)strcspn(option->choices, "|"),
                         option->choices);
    else if (is_list)
        neap_text_printf(&text, "; from %.10g to %.10g", option->least, option->most);
    else
        neap_text_printf(&text, "; from %.10g to %.10g [default: %.10g]", option->least,
                         option->most, option->default_value);
    neap_text_repeat(out, ' ', INDENT);
    cli_wrap(out, neap_text_get(&text), INDENT, INDENT, (size_t)cli_width());
    neap_text_puts(out, "\n");
    neap_text_clear(&text);
}

static void describe(const neap_method *method, neap_text *out)
{
    size_t width = (size_t)cli_width();
    cli_styled(out, CLI_BOLD, "%s", neap_method_name(method));
    neap_text_puts(out, "\n  ");
    cli_wrap(out, neap_method_summary(method), 2, 2, width);
    neap_text_puts(out, "\n  ");
    cli_wrap(out, neap_method_source(method), 2, 2, width);
    neap_text_puts(out, "\n\n");
    uint32_t count = neap_method_option_count(method);
    for (uint32_t i = 0; i < count; i++)
        add_option(neap_method_option_at(method, i), out);
    if (count == 0)
        neap_text_puts(out, "  It has no options.\n");
}

/* ---- The command ---- */

static int run_methods(const cli_settings *settings, neap_text *out)
{
    cli_json json;
    cli_json_begin(&json, out);
    if (settings->n_operands > 0) {
        const char *name = settings->operands[0];
        const neap_method *method = neap_methods_find(name);
        const char *nearest = method ? NULL : neap_methods_nearest(name);
        if (nearest)
            return cli_fail(CLI_BAD_INPUT, "no method \"%s\"; did you mean %s?", name, nearest);
        if (!method)
            return cli_fail(CLI_BAD_INPUT, "no method \"%s\"; neap methods lists them", name);
        int code = settings->csv ? describe_csv(method, settings->csv, out) : CLI_OK;
        if (code != CLI_OK || cli_stdout_taken(settings))
            return code;
        if (settings->json)
            add_method_json(&json, method);
        else
            describe(method, out);
        return CLI_OK;
    }
    int code = settings->csv ? list_csv(settings->csv, out) : CLI_OK;
    if (code != CLI_OK || cli_stdout_taken(settings))
        return code;
    if (settings->json) {
        cli_json_array(&json, NULL);
        for (uint32_t i = 0; i < neap_methods_count(); i++)
            add_method_json(&json, neap_methods_at(i));
        cli_json_end_array(&json);
    } else {
        list_methods(out);
    }
    return CLI_OK;
}

const cli_command cli_command_methods = {
    .name = "methods",
    .operands = "[NAME]",
    .summary = "list the planning methods, or describe one",
    .about = "Lists the planning methods for --method. All take the same graphs, are judged by the "
             "same judge and return the same kind of plan. With a NAME, gives the paper that the "
             "method comes from and its options, which --option sets.",
    .examples =
        {
            {"neap methods", "all of them"},
            {"neap methods sqrt", "one, with its source and options"},
            {"neap methods --json", "for a script"},
        },
    .groups = CLI_GROUP_CSV | CLI_GROUP_JSON,
    .least_operands = 0,
    .most_operands = 1,
    .run = run_methods,
};
