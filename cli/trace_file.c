#include "trace_file.h"

#include "files.h"
#include "output.h"

#include <neap/report.h>

int cli_trace_file_write(const char *path, const neap_graph *graph, const neap_plan *plan,
                         const neap_link *link, const neap_step_time *times, int64_t arena_bytes)
{
    neap_diag diag;
    neap_timeline timeline;
    neap_trace_options options;
    char *text;
    size_t length;
    if (neap_timeline_build(NULL, graph, plan, link->out_bandwidth > 0 ? link : NULL, &timeline,
                            &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    neap_trace_options_init(&options);
    options.times = times;
    options.arena_bytes = arena_bytes;
    neap_status status =
        neap_report_trace(NULL, graph, plan, &timeline, &options, &text, &length, &diag);
    neap_timeline_clear(&timeline);
    if (status != NEAP_OK)
        return cli_fail_diag(&diag);
    int code = cli_file_write(path, text, length);
    neap_release(NULL, text, length + 1);
    return code;
}
