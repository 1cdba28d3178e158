/* A plan in the data block of a report: its figures, its steps over time, its addresses. */
#include "report/data_text.h"
#include "report/report_data.h"

#include "base/fail.h"
#include "layout/instances.h"
#include "plan/memory_parts.h"

#include <math.h>
#include <string.h>

typedef struct plan_data {
    neap_text *out;
    neap_allocator *allocator;
    const neap_graph *graph;
    const neap_report_plan *source;
    const neap_plan *plan;
    const neap_step *steps;
    size_t n_steps;
    neap_timeline timeline;
    neap_diag *diag;
} plan_data;

static bool is_compute(const neap_step *step)
{
    return step->kind == NEAP_COMPUTE;
}

static bool is_copy(const neap_step *step)
{
    return step->kind == NEAP_OFFLOAD || step->kind == NEAP_PREFETCH;
}

static double overhead_of(const neap_graph *graph, int64_t ticks)
{
    double base = neap_graph_seconds(graph, neap_graph_base_ticks(graph));
    return base > 0 ? neap_graph_seconds(graph, ticks) / base - 1 : 0;
}

neap_status neap_data_plan_figures(neap_allocator *allocator, const neap_graph *graph,
                                   const neap_plan *plan, const neap_link *link,
                                   neap_plan_figures *figures, neap_diag *diag)
{
    neap_timeline timeline;
    NEAP_TRY(neap_timeline_build(allocator, graph, plan, link, &timeline, diag));
    figures->peak_bytes = timeline.peak_bytes;
    figures->time = neap_graph_seconds(graph, timeline.makespan_ticks);
    figures->overhead = overhead_of(graph, timeline.makespan_ticks);
    neap_timeline_clear(&timeline);
    return NEAP_OK;
}

/* ---- Figures ---- */

static void put_key(const plan_data *d, const char *key)
{
    neap_text_puts(d->out, ",\"");
    neap_text_puts(d->out, key);
    neap_text_puts(d->out, "\":");
}

/* "neap, 2.59 GiB" */
static void put_label(const plan_data *d)
{
    char size[64];
    neap_text label;
    int64_t budget = neap_plan_budget(d->plan);
    neap_text_init(&label, d->allocator);
    neap_text_puts(&label, neap_plan_method(d->plan));
    if (budget >= 0)
        neap_text_printf(&label, ", %s", neap_bytes_format(budget, size, sizeof size));
    if (label.status != NEAP_OK)
        d->out->status = label.status;
    put_key(d, "label");
    neap_data_string(d->out, neap_text_get(&label), NEAP_DATA_NAME);
    neap_text_clear(&label);
}

/* Compute steps beyond the first of each op. */
static int64_t count_recomputations(const plan_data *d)
{
    int64_t computations = 0;
    for (size_t i = 0; i < d->n_steps; i++)
        computations += is_compute(&d->steps[i]);
    return computations - neap_graph_op_count(d->graph);
}

static int64_t count_offloaded(const plan_data *d)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < d->n_steps; i++)
        if (d->steps[i].kind == NEAP_OFFLOAD) {
            uint32_t storage = neap_graph_value(d->graph, d->steps[i].id)->storage;
            bytes += neap_graph_value(d->graph, storage)->bytes;
        }
    return bytes;
}

static neap_status put_parts(const plan_data *d)
{
    neap_memory_parts parts;
    NEAP_TRY(neap_plan_peak_parts(d->allocator, d->graph, d->plan, &parts, d->diag));
    neap_text_putc(d->out, ',');
    neap_data_begin(d->out, "parts");
    for (int part = 0; part < NEAP_MEMORY_CLASSES; part++)
        neap_data_item(d->out, *neap_memory_part(&parts, (neap_memory_class)part));
    neap_data_end(d->out);
    return NEAP_OK;
}

static const char *scope_of(const neap_report_plan *plan)
{
    return plan->bound_scope ? plan->bound_scope : "any";
}

static void put_figures(const plan_data *d, const char *id)
{
    double time = neap_graph_seconds(d->graph, d->timeline.makespan_ticks);
    double bound = d->source->bound_time;
    neap_text_puts(d->out, "{\"id\":");
    neap_data_string(d->out, id, NEAP_DATA_NAME);
    put_key(d, "method");
    neap_data_string(d->out, neap_plan_method(d->plan), NEAP_DATA_NAME);
    put_key(d, "status");
    neap_data_string(d->out, d->source->status, NEAP_DATA_NAME);
    put_label(d);
    put_key(d, "budget_bytes");
    neap_data_size(d->out, neap_plan_budget(d->plan));
    put_key(d, "peak_bytes");
    neap_data_size(d->out, d->timeline.peak_bytes);
    put_key(d, "arena_bytes");
    neap_data_size(d->out, neap_plan_arena_bytes(d->plan));
    put_key(d, "time");
    neap_data_real(d->out, time);
    put_key(d, "overhead");
    neap_data_real(d->out, overhead_of(d->graph, d->timeline.makespan_ticks));
    put_key(d, "bound_time");
    neap_data_real(d->out, bound >= 0 ? bound : (double)NAN);
    put_key(d, "bound_scope");
    neap_data_string(d->out, bound >= 0 ? scope_of(d->source) : NULL, NEAP_DATA_NAME);
    put_key(d, "gap");
    neap_data_real(d->out, bound > 0 ? time / bound - 1 : (double)NAN);
    put_key(d, "recomputed_ops");
    neap_data_integer(d->out, count_recomputations(d));
    put_key(d, "offloaded_bytes");
    neap_data_integer(d->out, count_offloaded(d));
    put_key(d, "message");
    neap_data_string(d->out, d->source->message ? d->source->message : "", NEAP_DATA_MESSAGE);
    put_key(d, "peak_step");
    neap_data_integer(d->out, (int64_t)d->timeline.peak_step);
}

/* ---- Steps ---- */

static char letter_of(const neap_step *step)
{
    static const char letters[] = {
        [NEAP_COMPUTE] = 'c', [NEAP_FREE] = 'f', [NEAP_OFFLOAD] = 'o', [NEAP_PREFETCH] = 'p'};
    return step->in_place ? 'i' : letters[step->kind];
}

/* Differences from the id before: of ops and of values, each by themselves. */
static void put_ids(const plan_data *d)
{
    int64_t last[2] = {0, 0};
    neap_data_begin(d->out, "id");
    for (size_t i = 0; i < d->n_steps; i++) {
        int64_t *before = &last[is_compute(&d->steps[i])];
        neap_data_item(d->out, (int64_t)d->steps[i].id - *before);
        *before = d->steps[i].id;
    }
    neap_data_end(d->out);
}

static void put_variants(const plan_data *d)
{
    bool any = false;
    for (size_t i = 0; i < d->n_steps && !any; i++)
        any = d->steps[i].variant > 0;
    if (!any)
        return;
    neap_text_putc(d->out, ',');
    neap_data_begin(d->out, "variant");
    for (size_t i = 0; i < d->n_steps; i++)
        neap_data_item(d->out, d->steps[i].variant);
    neap_data_end(d->out);
}

/*
 * Times follow from what ops take, except for waits and copies. `waits` has pairs: the distance
 * from the last step that waits (the first from 0), and for how many ticks. A computation or copy
 * waits before it begins, a free until it ends.
 */
static void put_waits(const plan_data *d)
{
    int64_t clock = 0;
    size_t last = 0;
    neap_text_putc(d->out, ',');
    neap_data_begin(d->out, "waits");
    for (size_t i = 0; i < d->n_steps; i++) {
        const neap_timeline_step *t = &d->timeline.steps[i];
        int64_t wait = (d->steps[i].kind == NEAP_FREE ? t->end : t->begin) - clock;
        if (wait != 0) {
            neap_data_item(d->out, (int64_t)(i - last));
            neap_data_item(d->out, wait);
            last = i;
        }
        if (!is_copy(&d->steps[i]))
            clock = t->end;
    }
    neap_data_end(d->out);
    neap_text_putc(d->out, ',');
    neap_data_begin(d->out, "copies");
    for (size_t i = 0; i < d->n_steps; i++)
        if (is_copy(&d->steps[i]))
            neap_data_item(d->out, d->timeline.steps[i].end - d->timeline.steps[i].begin);
    neap_data_end(d->out);
}

/* The bytes that a step adds while it runs, and those of them and others that are gone after it. */
static void put_bytes(const plan_data *d, int64_t start)
{
    int64_t before = start;
    neap_text_putc(d->out, ',');
    neap_data_begin(d->out, "grow");
    for (size_t i = 0; i < d->n_steps; i++) {
        neap_data_item(d->out, d->timeline.steps[i].live_bytes - before);
        before = d->timeline.steps[i].after_bytes;
    }
    neap_data_end(d->out);
    neap_text_putc(d->out, ',');
    neap_data_begin(d->out, "drop");
    for (size_t i = 0; i < d->n_steps; i++)
        neap_data_item(d->out, d->timeline.steps[i].live_bytes - d->timeline.steps[i].after_bytes);
    neap_data_end(d->out);
}

/* The bytes in memory before the first step: the inputs but for those on the host. */
static int64_t start_bytes(const plan_data *d)
{
    size_t count;
    const uint32_t *host = neap_plan_host_at_start(d->plan, &count);
    int64_t bytes = neap_graph_base_bytes(d->graph);
    for (size_t i = 0; i < count; i++)
        bytes -= neap_graph_value(d->graph, host[i])->bytes;
    return bytes;
}

static void put_steps(const plan_data *d)
{
    size_t count;
    const uint32_t *host = neap_plan_host_at_start(d->plan, &count);
    neap_text_putc(d->out, ',');
    neap_data_begin(d->out, "host_at_start");
    for (size_t i = 0; i < count; i++)
        neap_data_item(d->out, host[i]);
    neap_data_end(d->out);
    put_key(d, "start_bytes");
    neap_data_integer(d->out, start_bytes(d));
    neap_text_puts(d->out, ",\n\"steps\":{\"kind\":\"");
    for (size_t i = 0; i < d->n_steps; i++)
        neap_text_putc(d->out, letter_of(&d->steps[i]));
    neap_text_puts(d->out, "\",");
    put_ids(d);
    put_variants(d);
    put_waits(d);
    put_bytes(d, start_bytes(d));
    neap_text_putc(d->out, '}');
}

/* ---- Addresses ---- */

typedef enum offset_column { OWNER, OFFSET, FROM, STEPS } offset_column;

/* Owners and first steps are differences. */
static void put_offset_column(const plan_data *d, const neap_instances *all, const int64_t *offsets,
                              const char *key, offset_column column)
{
    int64_t last = 0;
    if (column != OWNER)
        neap_text_putc(d->out, ',');
    neap_data_begin(d->out, key);
    for (size_t i = 0; i < all->count; i++) {
        int64_t begin = (int64_t)all->items[i].begin, number = begin;
        if (column == OWNER)
            number = all->owners[i];
        else if (column == OFFSET)
            number = offsets[i];
        else if (column == STEPS)
            number = (int64_t)all->items[i].end - begin;
        neap_data_item(d->out, column == OWNER || column == FROM ? number - last : number);
        last = number;
    }
    neap_data_end(d->out);
}

static neap_status put_offsets(const plan_data *d)
{
    size_t count;
    neap_instances all;
    const int64_t *offsets = neap_plan_offsets(d->plan, &count);
    put_key(d, "offsets");
    if (!offsets) {
        neap_text_puts(d->out, "null}");
        return NEAP_OK;
    }
    neap_status status = neap_instances_collect(d->allocator, d->graph, d->plan, &all, d->diag);
    if (status == NEAP_OK && all.count != count)
        status = neap_fail(d->diag, NEAP_INVALID, "the plan has %zu offsets; it needs %zu", count,
                           all.count);
    if (status == NEAP_OK) {
        neap_text_putc(d->out, '{');
        put_offset_column(d, &all, offsets, "value", OWNER);
        put_offset_column(d, &all, offsets, "offset", OFFSET);
        put_offset_column(d, &all, offsets, "from", FROM);
        put_offset_column(d, &all, offsets, "steps", STEPS);
        neap_text_puts(d->out, "}}");
    }
    neap_instances_clear(&all);
    return status;
}

neap_status neap_data_plan(neap_text *out, neap_allocator *allocator, const neap_graph *graph,
                           const neap_link *link, const neap_report_plan *plan, const char *id,
                           neap_diag *diag)
{
    plan_data d = {.out = out,
                   .allocator = allocator,
                   .graph = graph,
                   .source = plan,
                   .plan = plan->plan,
                   .steps = neap_plan_steps(plan->plan),
                   .n_steps = neap_plan_step_count(plan->plan),
                   .diag = diag};
    NEAP_TRY(neap_timeline_build(allocator, graph, d.plan, link, &d.timeline, diag));
    put_figures(&d, id);
    neap_status status = put_parts(&d);
    if (status == NEAP_OK) {
        put_steps(&d);
        status = put_offsets(&d);
    }
    neap_timeline_clear(&d.timeline);
    return status;
}
