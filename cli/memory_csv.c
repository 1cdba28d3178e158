/* memory_csv.c - the memory of a step, planned and measured, as a CSV file. */
#include "memory_csv.h"

#include "command.h"
#include "csv.h"
#include "output.h"

static void add_row(cli_csv *csv, const neap_graph *graph, size_t index, const neap_step *step,
                    const neap_timeline_step *planned, const neap_step_memory *measured)
{
    bool compute = step->kind == NEAP_COMPUTE;
    cli_csv_integer(csv, (int64_t)index);
    cli_csv_word(csv, neap_step_kind_name(step->kind));
    cli_csv_integer(csv, step->id);
    cli_csv_string(csv, compute ? neap_graph_op(graph, step->id)->name
                                : neap_graph_value(graph, step->id)->name);
    cli_csv_integer(csv, planned->live_bytes);
    cli_csv_integer(csv, planned->after_bytes);
    cli_csv_integer(csv, measured->during);
    cli_csv_integer(csv, measured->after);
    cli_csv_end_row(csv);
}

int cli_memory_csv_write(const char *path, const neap_graph *graph, const neap_plan *plan,
                         const neap_link *link, const neap_step_memory *memory)
{
    neap_timeline timeline;
    cli_csv csv;
    neap_diag diag;
    if (neap_timeline_build(NULL, graph, plan, link, &timeline, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    cli_csv_begin(&csv, "step,kind,id,name,planned_during,planned_after,resident_during,"
                        "resident_after");
    for (size_t i = 0; i < timeline.n_steps; i++)
        add_row(&csv, graph, i, &neap_plan_steps(plan)[i], &timeline.steps[i], &memory[i]);
    neap_timeline_clear(&timeline);
    return cli_csv_deliver(&csv, path, NULL);
}
