#include "html_report.h"

#include "files.h"
#include "memory.h"
#include "output.h"
#include "pictures.h"

#include <string.h>

/* Room for one more of `count` items; false: no memory. */
static bool make_room(void **items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return true;
    size_t more = *capacity > 0 ? 2 * *capacity : 16;
    void *larger = cli_memory_new(more, size);
    if (!larger)
        return false;
    if (count > 0)
        memcpy(larger, *items, count * size);
    cli_memory_release(*items, *capacity, size);
    *items = larger;
    *capacity = more;
    return true;
}

static int add_plan(cli_html_report *report, const neap_report_plan *plan)
{
    void *plans = report->plans;
    if (!make_room(&plans, report->n_plans, &report->plan_capacity, sizeof *plan))
        return cli_fail_memory();
    report->plans = plans;
    report->plans[report->n_plans++] = *plan;
    return CLI_OK;
}

int cli_html_add_plan(cli_html_report *report, const neap_plan *plan, const char *status)
{
    return add_plan(report, &(neap_report_plan){.plan = plan, .status = status, .bound_time = -1});
}

int cli_html_add(cli_html_report *report, const cli_result *result)
{
    if (result->solved && !report->figures)
        report->figures = result->figures;
    if (!result->plan)
        return CLI_OK;
    return add_plan(report, &(neap_report_plan){
                                .plan = result->plan,
                                .status = cli_result_words(result),
                                .message = neap_solution_message(result->solution),
                                .bound_time = result->figures->bound_time,
                                .bound_scope = neap_scope_name(result->figures->bound_scope),
                            });
}

int cli_html_add_point(cli_html_report *report, const cli_result *result)
{
    void *points = report->points;
    size_t plan = report->n_plans;
    int code = cli_html_add(report, result);
    if (code != CLI_OK)
        return code;
    if (!make_room(&points, report->n_points, &report->point_capacity, sizeof *report->points))
        return cli_fail_memory();
    report->points = points;
    bool of_all = result->solved && result->figures->bound_scope == NEAP_SCOPE_ANY;
    report->points[report->n_points++] = (neap_report_point){
        .method = result->method,
        .status = cli_result_words(result),
        .budget = result->budget,
        .plan = result->plan ? plan : SIZE_MAX,
        .bound_time = of_all ? result->figures->bound_time : -1,
    };
    return CLI_OK;
}

/* ---- Writing ---- */

static const char *device_of(const cli_html_report *report)
{
    const cli_loaded *model = report->model;
    return report->device  ? report->device
           : model->device ? model->device->name
                           : report->settings->backend;
}

static void set_floor(const cli_html_report *report, neap_report *data)
{
    if (report->figures) {
        data->floor_bytes = report->figures->floor_bytes;
        data->floor_op = report->figures->floor_op;
    } else {
        data->floor_bytes = cli_floor(report->model, report->model->graph, &data->floor_op);
    }
}

int cli_html_deliver(const cli_html_report *report, const char *path, neap_text *out)
{
    const cli_loaded *model = report->model;
    const char *device = device_of(report);
    neap_text title = {0};
    neap_diag diag;
    char *text;
    size_t length;
    cli_picture_title(&title, report->settings, model, report->batch, device);
    if (title.status != NEAP_OK)
        return cli_fail_memory();
    neap_report data = {
        .graph = model->graph,
        .link = &model->link,
        .title = title.text,
        .device = device,
        .command = report->settings->command,
        .batch = report->batch > 0 ? report->batch : cli_batch_size(report->settings, model),
        .natural_peak = model->natural_peak,
        .n_plans = report->n_plans,
        .plans = report->plans,
        .n_points = report->n_points,
        .points = report->points,
        .training = report->training,
    };
    set_floor(report, &data);
    neap_status status = neap_report_html(NULL, &data, &text, &length, &diag);
    neap_text_clear(&title);
    if (status != NEAP_OK)
        return cli_fail_diag(&diag);
    int code = cli_file_deliver(path, text, length, out);
    neap_release(NULL, text, length + 1);
    return code;
}

void cli_html_clear(cli_html_report *report)
{
    cli_memory_release(report->plans, report->plan_capacity, sizeof *report->plans);
    cli_memory_release(report->points, report->point_capacity, sizeof *report->points);
    *report = (cli_html_report){0};
}
