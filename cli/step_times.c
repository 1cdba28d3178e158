#include "step_times.h"

#include "output.h"

int cli_step_times_find(const neap_graph *graph, const neap_plan *plan, const neap_link *link,
                        const neap_step_time *measured, neap_time_parts *parts)
{
    neap_diag diag;
    neap_timeline timeline;
    if (neap_timeline_build(NULL, graph, plan, link->out_bandwidth > 0 ? link : NULL, &timeline,
                            &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    neap_status status =
        neap_report_time_parts(NULL, graph, plan, &timeline, measured, parts, &diag);
    neap_timeline_clear(&timeline);
    return status == NEAP_OK ? CLI_OK : cli_fail_diag(&diag);
}

/* ---- As a table ---- */

static void add_row(cli_table *table, const char *name, const neap_time_pair *pair)
{
    cli_text planned, measured, difference;
    cli_cell(table, CLI_PLAIN, "%s", name);
    cli_cell(table, CLI_PLAIN, "%s", cli_seconds(&planned, pair->planned));
    cli_cell(table, CLI_PLAIN, "%s", cli_seconds(&measured, pair->measured));
    cli_cell(table, CLI_PLAIN, "%s",
             pair->planned > 0 ? cli_percent(&difference, pair->measured / pair->planned - 1) : "");
}

static const char *rate(cli_text *text, double seconds, int64_t bytes)
{
    return seconds > 0 ? cli_format(text, "%.1f GB/s", (double)bytes / seconds / 1e9) : "-";
}

static void add_copies(cli_table *table, const char *name, const neap_time_pair *pair,
                       int64_t bytes)
{
    cli_text planned, measured, difference;
    if (bytes == 0)
        return;
    cli_cell(table, CLI_PLAIN, "%s", name);
    cli_cell(table, CLI_PLAIN, "%s", rate(&planned, pair->planned, bytes));
    cli_cell(table, CLI_PLAIN, "%s", rate(&measured, pair->measured, bytes));
    cli_cell(table, CLI_PLAIN, "%s",
             pair->measured > 0 ? cli_percent(&difference, pair->planned / pair->measured - 1)
                                : "");
}

void cli_step_times_add(neap_text *out, const neap_time_parts *parts)
{
    static const cli_column COLUMNS[] = {{"the last step", false, false},
                                         {"planned", true, false},
                                         {"measured", true, false},
                                         {"difference", true, false}};
    bool copies = parts->out_bytes > 0 || parts->in_bytes > 0;
    cli_table table;
    cli_table_init(&table, COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0], 0);
    add_row(&table, "in all", &parts->step);
    add_row(&table, copies ? "computing, without copies" : "computing", &parts->alone);
    if (copies)
        add_row(&table, "computing, beside copies", &parts->beside);
    add_row(&table, copies ? "waiting for copies, and gaps" : "gaps", &parts->idle);
    add_copies(&table, "copies to the host", &parts->out, parts->out_bytes);
    add_copies(&table, "copies from the host", &parts->in, parts->in_bytes);
    cli_table_finish(&table, out);
}

/* ---- As JSON ---- */

static void put_pair(cli_json *json, const char *name, const neap_time_pair *pair)
{
    cli_json_object(json, name);
    cli_json_real(json, "planned", pair->planned);
    cli_json_real(json, "measured", pair->measured);
    cli_json_end_object(json);
}

void cli_step_times_json(cli_json *json, const neap_time_parts *parts)
{
    cli_json_object(json, "times");
    put_pair(json, "step", &parts->step);
    put_pair(json, "computing_alone", &parts->alone);
    put_pair(json, "computing_beside_copies", &parts->beside);
    put_pair(json, "idle", &parts->idle);
    put_pair(json, "copies_out", &parts->out);
    put_pair(json, "copies_in", &parts->in);
    cli_json_integer(json, "out_bytes", parts->out_bytes);
    cli_json_integer(json, "in_bytes", parts->in_bytes);
    cli_json_end_object(json);
}
