/* neap/report.h: the data block of a report (docs/report.md has the format). */
#include "report/report_data.h"

#include "report/data_text.h"

#include "base/fail.h"
#include "base/hash.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <neap/version.h>
#include <string.h>

/* Steps of all plans in a report, apart from the first two. */
static const size_t MOST_STEPS = 400000;

typedef struct data {
    neap_text out;
    neap_allocator *allocator;
    const neap_report *report;
    const neap_graph *graph;
    const neap_link *link;      /* NULL: none */
    neap_plan *ordinary;        /* the step without a plan */
    neap_plan_figures *figures; /* of each plan of the report */
    size_t *index;              /* its place in the data; 0: it is left out */
    neap_plan_figures natural;  /* of the ordinary step */
    neap_diag *diag;
} data;

/* `,"key":` or, for the first, `"key":` */
static void put_key(data *d, const char *key)
{
    char before = d->out.length > 0 ? d->out.text[d->out.length - 1] : '{';
    if (before != '{')
        neap_text_putc(&d->out, ',');
    neap_text_putc(&d->out, '"');
    neap_text_puts(&d->out, key);
    neap_text_puts(&d->out, "\":");
}

/* ---- About ---- */

/* Of the canonical text of the graph, so that reports of the same graph can be recognized. */
static neap_status put_hash(data *d)
{
    char *text;
    size_t length;
    NEAP_TRY(neap_graph_write_text(d->graph, d->allocator, &text, &length, d->diag));
    uint64_t hash = neap_hash_bytes(NEAP_HASH_BEGIN, text, length);
    neap_release(d->allocator, text, length + 1);
    put_key(d, "graph_hash");
    neap_text_printf(&d->out, "\"%016" PRIx64 "\"", hash);
    return NEAP_OK;
}

static void put_link(data *d)
{
    put_key(d, "link");
    if (!d->link) {
        neap_text_puts(&d->out, "null");
        return;
    }
    neap_text_putc(&d->out, '{');
    put_key(d, "out_bandwidth");
    neap_data_real(&d->out, d->link->out_bandwidth);
    put_key(d, "in_bandwidth");
    neap_data_real(&d->out, d->link->in_bandwidth);
    put_key(d, "latency");
    neap_data_real(&d->out, d->link->latency);
    put_key(d, "duplex");
    neap_text_puts(&d->out, d->link->duplex ? "true}" : "false}");
}

static neap_status put_about(data *d)
{
    const neap_report *r = d->report;
    bool has_floor = r->floor_bytes > 0;
    put_key(d, "about");
    neap_text_putc(&d->out, '{');
    put_key(d, "graph");
    neap_data_string(&d->out, neap_graph_name(d->graph), NEAP_DATA_NAME);
    put_key(d, "device");
    neap_data_string(&d->out, r->device, NEAP_DATA_NAME);
    put_key(d, "batch");
    neap_data_size(&d->out, r->batch > 0 ? r->batch : -1);
    put_key(d, "command");
    neap_data_string(&d->out, r->command, NEAP_DATA_MESSAGE);
    put_key(d, "neap");
    neap_data_string(&d->out, neap_version(), NEAP_DATA_NAME);
    NEAP_TRY(put_hash(d));
    put_key(d, "natural_peak_bytes");
    neap_data_integer(&d->out, r->natural_peak > 0 ? r->natural_peak : d->natural.peak_bytes);
    put_key(d, "base_time");
    neap_data_real(&d->out, neap_graph_seconds(d->graph, neap_graph_base_ticks(d->graph)));
    put_key(d, "ticks_per_second");
    neap_data_integer(&d->out, neap_graph_ticks_per_second(d->graph));
    put_key(d, "floor_bytes");
    neap_data_size(&d->out, has_floor ? r->floor_bytes : -1);
    put_key(d, "floor_op");
    neap_data_size(&d->out, has_floor && r->floor_op != NEAP_NONE ? (int64_t)r->floor_op : -1);
    put_link(d);
    neap_text_putc(&d->out, '}');
    return NEAP_OK;
}

/* ---- Plans ---- */

static bool is_same_step(const neap_step *a, const neap_step *b)
{
    return a->kind == b->kind && a->id == b->id && a->variant == b->variant &&
           a->in_place == b->in_place;
}

static bool is_same_plan(const neap_plan *a, const neap_plan *b)
{
    size_t n = neap_plan_step_count(a), count, other;
    if (n != neap_plan_step_count(b) || strcmp(neap_plan_method(a), neap_plan_method(b)) != 0)
        return false;
    const uint32_t *host = neap_plan_host_at_start(a, &count);
    const uint32_t *other_host = neap_plan_host_at_start(b, &other);
    if (count != other || (count > 0 && memcmp(host, other_host, count * sizeof *host) != 0))
        return false;
    const int64_t *offsets = neap_plan_offsets(a, &count);
    const int64_t *other_offsets = neap_plan_offsets(b, &other);
    if (!offsets != !other_offsets || (offsets && count != other) ||
        (offsets && memcmp(offsets, other_offsets, count * sizeof *offsets) != 0))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_same_step(&neap_plan_steps(a)[i], &neap_plan_steps(b)[i]))
            return false;
    return true;
}

/* Which plans the data has, and where. */
static void choose_plans(data *d)
{
    const neap_report *r = d->report;
    size_t count = 0, n_steps = 0;
    for (size_t i = 0; i < r->n_plans; i++) {
        size_t same = 0;
        while (same < i &&
               !(d->index[same] > 0 && is_same_plan(r->plans[i].plan, r->plans[same].plan)))
            same++;
        if (same < i) {
            d->index[i] = d->index[same];
            continue;
        }
        size_t steps = neap_plan_step_count(r->plans[i].plan);
        if (i > 0 && steps > MOST_STEPS - n_steps)
            continue;
        n_steps = i == 0 ? 0 : n_steps + steps;
        d->index[i] = ++count;
    }
}

/* "neap@2777959424"; its place tells it apart from another of the same name. */
static neap_status put_plan(data *d, const neap_report_plan *plan, size_t place)
{
    neap_text id;
    neap_text_init(&id, d->allocator);
    neap_text_puts(&id, neap_plan_method(plan->plan));
    if (neap_plan_budget(plan->plan) >= 0)
        neap_text_printf(&id, "@%" PRId64, neap_plan_budget(plan->plan));
    if (place > 1)
        neap_text_printf(&id, "#%zu", place);
    neap_status status = id.status != NEAP_OK ? neap_fail_no_memory(d->diag) : NEAP_OK;
    neap_text_puts(&d->out, place > 0 ? ",\n" : "");
    if (status == NEAP_OK)
        status = neap_data_plan(&d->out, d->allocator, d->graph, d->link, plan, id.text, d->diag);
    neap_text_clear(&id);
    return status;
}

static neap_status put_plans(data *d)
{
    const neap_report *r = d->report;
    const neap_report_plan ordinary = {.plan = d->ordinary,
                                       .status = "ordinary",
                                       .message = "the step without a plan: every op once, every "
                                                  "value kept until its last use",
                                       .bound_time = -1};
    size_t place = 0;
    neap_text_putc(&d->out, '\n');
    neap_data_begin(&d->out, "plans");
    NEAP_TRY(put_plan(d, &ordinary, place));
    for (size_t i = 0; i < r->n_plans; i++)
        if (d->index[i] == place + 1)
            NEAP_TRY(put_plan(d, &r->plans[i], ++place));
    neap_data_end(&d->out);
    put_key(d, "main");
    neap_data_integer(&d->out, r->n_plans > 0);
    return NEAP_OK;
}

/* ---- The curve ---- */

static void put_point(data *d, const neap_report_point *point)
{
    bool has_plan = point->plan < d->report->n_plans;
    const neap_plan_figures *figures = has_plan ? &d->figures[point->plan] : NULL;
    neap_data_comma(&d->out);
    neap_text_putc(&d->out, '{');
    put_key(d, "method");
    neap_data_string(&d->out, point->method, NEAP_DATA_NAME);
    put_key(d, "budget_bytes");
    neap_data_size(&d->out, point->budget);
    put_key(d, "status");
    neap_data_string(&d->out, point->status, NEAP_DATA_NAME);
    put_key(d, "peak_bytes");
    neap_data_size(&d->out, figures ? figures->peak_bytes : -1);
    put_key(d, "overhead");
    neap_data_real(&d->out, figures ? figures->overhead : (double)NAN);
    put_key(d, "plan");
    neap_data_size(&d->out,
                   has_plan && d->index[point->plan] > 0 ? (int64_t)d->index[point->plan] : -1);
    neap_text_putc(&d->out, '}');
}

/* The highest bound for a budget: that of any point with this budget or a larger one. */
static double bound_at(const neap_report *r, int64_t budget)
{
    double best = -1;
    for (size_t i = 0; i < r->n_points; i++)
        if (r->points[i].budget >= budget && r->points[i].bound_time > best)
            best = r->points[i].bound_time;
    return best;
}

/* The points with a bound, each budget once, by rising budget. */
static void put_bounds(data *d)
{
    const neap_report *r = d->report;
    double base = neap_graph_seconds(d->graph, neap_graph_base_ticks(d->graph));
    int64_t last = -1;
    neap_text_putc(&d->out, ',');
    neap_data_begin(&d->out, "bound");
    for (;;) {
        int64_t next = INT64_MAX;
        for (size_t i = 0; i < r->n_points; i++)
            if (r->points[i].budget > last && r->points[i].budget < next)
                next = r->points[i].budget;
        if (next == INT64_MAX)
            break;
        last = next;
        double bound = bound_at(r, next);
        if (!(bound >= 0) || !(base > 0))
            continue;
        neap_data_comma(&d->out);
        neap_text_putc(&d->out, '{');
        put_key(d, "budget_bytes");
        neap_data_integer(&d->out, next);
        put_key(d, "overhead");
        neap_data_real(&d->out, bound / base - 1);
        neap_text_putc(&d->out, '}');
    }
    neap_data_end(&d->out);
}

static void put_curve(data *d)
{
    const neap_report *r = d->report;
    neap_text_puts(&d->out, ",\n\"curve\":");
    if (r->n_points == 0) {
        neap_text_puts(&d->out, "null");
        return;
    }
    neap_text_putc(&d->out, '{');
    neap_data_begin(&d->out, "points");
    for (size_t i = 0; i < r->n_points; i++)
        put_point(d, &r->points[i]);
    neap_data_end(&d->out);
    put_bounds(d);
    put_key(d, "floor_bytes");
    neap_data_size(&d->out, r->floor_bytes > 0 ? r->floor_bytes : -1);
    neap_text_putc(&d->out, '}');
}

/* ---- Training ---- */

static void put_reals(data *d, const char *key, const double *numbers, size_t count)
{
    if (!numbers) {
        put_key(d, key);
        neap_text_puts(&d->out, "null");
        return;
    }
    neap_text_putc(&d->out, ',');
    neap_data_begin(&d->out, key);
    for (size_t i = 0; i < count; i++) {
        neap_data_comma(&d->out);
        neap_data_real(&d->out, numbers[i]);
    }
    neap_data_end(&d->out);
}

static void put_training(data *d)
{
    const neap_report_training *t = d->report->training;
    neap_text_puts(&d->out, ",\n\"train\":");
    if (!t) {
        neap_text_puts(&d->out, "null");
        return;
    }
    neap_text_putc(&d->out, '{');
    neap_data_begin(&d->out, "steps");
    for (size_t i = 0; i < t->n_steps; i++)
        neap_data_item(&d->out, t->steps[i]);
    neap_data_end(&d->out);
    put_reals(d, "loss", t->losses, t->n_steps);
    put_reals(d, "seconds", t->seconds, t->n_steps);
    put_key(d, "predicted");
    neap_data_real(&d->out, t->predicted);
    neap_text_putc(&d->out, '}');
}

/* ---- All of it ---- */

static neap_status prepare(data *d)
{
    const neap_report *r = d->report;
    NEAP_TRY(neap_plan_from_sequence(d->allocator, d->graph, neap_graph_ordinary_order(d->graph),
                                     neap_graph_op_count(d->graph), NULL, "store-all", -1,
                                     &d->ordinary, d->diag));
    NEAP_TRY(
        neap_data_plan_figures(d->allocator, d->graph, d->ordinary, d->link, &d->natural, d->diag));
    NEAP_TRY(NEAP_NEW(d->allocator, r->n_plans, &d->figures, d->diag));
    NEAP_TRY(NEAP_NEW(d->allocator, r->n_plans, &d->index, d->diag));
    for (size_t i = 0; i < r->n_plans; i++)
        NEAP_TRY(neap_data_plan_figures(d->allocator, d->graph, r->plans[i].plan, d->link,
                                        &d->figures[i], d->diag));
    choose_plans(d);
    return NEAP_OK;
}

static neap_status put_all(data *d)
{
    const char *title = d->report->title ? d->report->title : neap_graph_name(d->graph);
    NEAP_TRY(prepare(d));
    neap_text_puts(&d->out, "{\"neap\":\"report\",\"version\":1,\n\"title\":");
    neap_data_string(&d->out, title, NEAP_DATA_NAME);
    NEAP_TRY(put_about(d));
    neap_text_puts(&d->out, ",\n\"kinds\":[\"parameters\",\"gradients\",\"state\",\"activations\","
                            "\"workspace\",\"other\"],\n");
    NEAP_TRY(neap_data_graph(&d->out, d->allocator, d->graph, d->diag));
    neap_text_putc(&d->out, ',');
    NEAP_TRY(put_plans(d));
    put_curve(d);
    put_training(d);
    neap_text_puts(&d->out, "}\n");
    return NEAP_OK;
}

neap_status neap_report_data(neap_allocator *allocator, const neap_report *report, char **text,
                             size_t *length, neap_diag *diag)
{
    const neap_link *link = report->link;
    allocator = neap_allocator_or_system(allocator);
    data d = {.allocator = allocator,
              .report = report,
              .graph = report->graph,
              .link = link && link->out_bandwidth > 0 && link->in_bandwidth > 0 ? link : NULL,
              .diag = diag};
    *text = NULL;
    *length = 0;
    neap_text_init(&d.out, allocator);
    neap_status status = put_all(&d);
    if (status == NEAP_OK)
        status = neap_text_take(&d.out, text, length, diag);
    neap_text_clear(&d.out);
    NEAP_DELETE(allocator, report->n_plans, d.figures);
    NEAP_DELETE(allocator, report->n_plans, d.index);
    neap_plan_destroy(d.ordinary);
    return status;
}
