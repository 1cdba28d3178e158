/* trace.c - the memory of a step, planned and measured, as a file. */
#include "trace.h"

#include "command.h"
#include "files.h"
#include "output.h"

#include <inttypes.h>

/* In quotes, with those inside it doubled. */
static void add_name(neap_text *csv, const char *name)
{
    neap_text_putc(csv, '"');
    for (; *name; name++) {
        if (*name == '"')
            neap_text_putc(csv, '"');
        neap_text_putc(csv, *name);
    }
    neap_text_putc(csv, '"');
}

static void add_row(neap_text *csv, const neap_graph *graph, size_t index, const neap_step *step,
                    const neap_timeline_step *planned, const neap_step_memory *measured)
{
    bool compute = step->kind == NEAP_COMPUTE;
    neap_text_printf(csv, "%zu,%s,%" PRIu32 ",", index, neap_step_kind_name(step->kind), step->id);
    add_name(csv, compute ? neap_graph_op(graph, step->id)->name
                          : neap_graph_value(graph, step->id)->name);
    neap_text_printf(csv, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "\n", planned->live_bytes,
                     planned->after_bytes, measured->during, measured->after);
}

int cli_trace_write(const char *path, const neap_graph *graph, const neap_plan *plan,
                    const neap_link *link, const neap_step_memory *memory)
{
    neap_timeline timeline;
    neap_text csv = {0};
    neap_diag diag;
    if (neap_timeline_build(NULL, graph, plan, link, &timeline, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    neap_text_puts(&csv, "step,kind,id,name,planned_during,planned_after,resident_during,"
                         "resident_after\n");
    for (size_t i = 0; i < timeline.n_steps; i++)
        add_row(&csv, graph, i, &neap_plan_steps(plan)[i], &timeline.steps[i], &memory[i]);
    int code =
        csv.status != NEAP_OK ? cli_fail_memory() : cli_file_write(path, csv.text, csv.length);
    neap_text_clear(&csv);
    neap_timeline_clear(&timeline);
    return code;
}
