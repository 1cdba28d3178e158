#include "parts.h"

#include <neap/solve.h>

static const struct part {
    const char *name, *key;
    size_t field;
} PARTS[] = {
    {"parameters", "parameters", offsetof(neap_memory_parts, parameters)},
    {"gradients", "gradients", offsetof(neap_memory_parts, gradients)},
    {"optimizer state", "state", offsetof(neap_memory_parts, state)},
    {"activations", "activations", offsetof(neap_memory_parts, activations)},
    {"workspace", "workspace", offsetof(neap_memory_parts, workspace)},
    {"data and other", "other", offsetof(neap_memory_parts, other)},
};
enum { N_PARTS = sizeof PARTS / sizeof PARTS[0] };

static int64_t bytes_of(const neap_memory_parts *parts, size_t i)
{
    return *(const int64_t *)(const void *)((const char *)parts + PARTS[i].field);
}

int cli_parts_find(const neap_graph *graph, const neap_plan *plan, neap_memory_parts *parts)
{
    neap_diag diag;
    neap_plan *ordinary = NULL;
    neap_status status = plan ? NEAP_OK : neap_natural_plan(NULL, graph, &ordinary, &diag);
    if (status == NEAP_OK)
        status = neap_plan_peak_parts(NULL, graph, plan ? plan : ordinary, parts, &diag);
    neap_plan_destroy(ordinary);
    return status == NEAP_OK ? CLI_OK : cli_fail_diag(&diag);
}

void cli_parts_table(neap_text *out, const neap_memory_parts *natural,
                     const neap_memory_parts *planned)
{
    static const cli_column COLUMNS[] = {
        {"at the peak", false, false}, {"without a plan", true, false}, {"with it", true, false}};
    cli_table table;
    cli_text text;
    cli_table_init(&table, COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0], 2);
    for (size_t i = 0; i < N_PARTS; i++) {
        if (bytes_of(natural, i) == 0 && bytes_of(planned, i) == 0)
            continue;
        cli_cell(&table, CLI_PLAIN, "%s", PARTS[i].name);
        cli_cell(&table, CLI_DIM, "%s", cli_bytes(&text, bytes_of(natural, i)));
        cli_cell(&table, CLI_PLAIN, "%s", cli_bytes(&text, bytes_of(planned, i)));
    }
    cli_table_finish(&table, out);
}

void cli_parts_list(neap_text *out, const neap_memory_parts *parts)
{
    cli_text text;
    const char *separator = "";
    for (size_t i = 0; i < N_PARTS; i++) {
        if (bytes_of(parts, i) == 0)
            continue;
        neap_text_printf(out, "%s%s %s", separator, PARTS[i].name,
                         cli_bytes(&text, bytes_of(parts, i)));
        separator = ", ";
    }
}

void cli_parts_json(cli_json *json, const char *key, const neap_memory_parts *parts)
{
    cli_json_object(json, key);
    for (size_t i = 0; i < N_PARTS; i++)
        cli_json_integer(json, PARTS[i].key, bytes_of(parts, i));
    cli_json_end_object(json);
}
