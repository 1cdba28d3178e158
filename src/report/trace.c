/*
 * neap/report.h: a plan over time as a trace, in the JSON trace event format that Perfetto and
 * Chrome read.
 *
 * One process with three threads: the compute stream and the two copy engines. Ops and copies are
 * complete events ("X") in microseconds with three decimals. Times are rounded to nanoseconds at
 * both ends, so that slices that do not overlap in the plan do not overlap in the trace. An arrow
 * (a flow, "s" and "f") leads from an offload to the prefetch that brings the value back. Counters
 * ("C") have the live bytes of the plan and the size of the arena.
 */
#include "report/chart_columns.h"
#include "report/clean_text.h"

#include "base/fail.h"
#include "base/memory.h"

#include <neap/layers.h>
#include <neap/report.h>
#include <neap/text.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESS = 1, COMPUTE = 1, OUT = 2, IN = 3 };
enum { LONGEST_NAME = 200 };   /* characters of a name from a file */
enum { SHORTEST_FREE = 1000 }; /* nanoseconds: shorter frees have no slice */

/* Of events that begin together, slices come first, the longest before others. */
typedef struct event {
    int64_t at; /* nanoseconds */
    int64_t duration;
    int rank;
    size_t order;         /* in which it was added: makes sorting stable */
    size_t begin, length; /* in the text of all events */
} event;

typedef struct trace {
    neap_allocator *allocator;
    const neap_graph *graph;
    const neap_plan *plan;
    const neap_timeline *timeline;
    const neap_trace_options *options;
    neap_layers *layers;
    event *events;
    size_t n_events, capacity;
    neap_text body;   /* of all events, in the order in which they were added */
    neap_text name;   /* scratch */
    uint32_t *runs;   /* by op: computed so far */
    size_t *offloads; /* by storage: 1 + the step of its latest offload; 0: none */
    int64_t now;      /* of the compute stream */
    int64_t level;    /* live bytes in the last counter; -1: none yet */
    size_t n_flows;
    neap_status status;
    neap_diag *diag;
} trace;

/* ---- Events ---- */

static int64_t nanoseconds(double seconds)
{
    return seconds < 9e9 ? (int64_t)llround(1e9 * seconds) : INT64_C(9000000000000000000);
}

static int64_t begin_of(const trace *t, size_t step)
{
    return nanoseconds(t->options->times
                           ? t->options->times[step].begin
                           : neap_graph_seconds(t->graph, t->timeline->steps[step].begin));
}

static int64_t end_of(const trace *t, size_t step)
{
    return nanoseconds(t->options->times
                           ? t->options->times[step].end
                           : neap_graph_seconds(t->graph, t->timeline->steps[step].end));
}

static void put_microseconds(neap_text *out, int64_t ns)
{
    neap_text_printf(out, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
}

/* A name from a file as a JSON string: cleaned, cut, and without characters of markup. */
static void put_name(trace *t, neap_text *out, const char *name)
{
    t->name.length = 0;
    neap_text_clean(&t->name, name, LONGEST_NAME, "...");
    neap_text_putc(out, '"');
    for (const char *c = neap_text_get(&t->name); t->name.length > 0 && *c; c++)
        if (*c == '"' || *c == '\\')
            neap_text_printf(out, "\\%c", *c);
        else if (*c == '<' || *c == '>' || *c == '&')
            neap_text_printf(out, "\\u%04x", (unsigned)*c);
        else
            neap_text_putc(out, *c);
    neap_text_putc(out, '"');
    if (t->name.status != NEAP_OK)
        out->status = t->name.status;
}

/* Adds an event up to its "ts"; the caller completes it and calls end_event. */
static void begin_event(trace *t, const char *phase, int thread, int rank, int64_t at,
                        int64_t duration)
{
    if (t->status == NEAP_OK)
        t->status = NEAP_RESERVE(t->allocator, t->n_events + 1, &t->events, &t->capacity, t->diag);
    if (t->status != NEAP_OK)
        return;
    t->events[t->n_events] = (event){.at = at,
                                     .duration = duration,
                                     .rank = rank,
                                     .order = t->n_events,
                                     .begin = t->body.length};
    neap_text_printf(&t->body, "{\"ph\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": ", phase,
                     PROCESS, thread);
    put_microseconds(&t->body, at);
}

static void end_event(trace *t)
{
    if (t->status != NEAP_OK)
        return;
    neap_text_puts(&t->body, "}");
    event *last = &t->events[t->n_events++];
    last->length = t->body.length - last->begin;
}

static void begin_slice(trace *t, int thread, size_t step, const char *category)
{
    int64_t begin = begin_of(t, step), end = end_of(t, step);
    begin_event(t, "X", thread, 0, begin, end - begin);
    neap_text_puts(&t->body, ", \"dur\": ");
    put_microseconds(&t->body, end - begin);
    neap_text_printf(&t->body, ", \"cat\": \"%s\", \"name\": ", category);
}

static void add_counter(trace *t, const char *name, int64_t at, int64_t bytes)
{
    begin_event(t, "C", COMPUTE, 2, at, 0);
    neap_text_printf(&t->body, ", \"name\": \"%s\", \"args\": {\"bytes\": %" PRId64 "}", name,
                     bytes);
    end_event(t);
}

/* ---- Steps ---- */

static int64_t storage_bytes(const neap_graph *graph, const uint32_t *values, uint32_t count)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t storage = neap_graph_value(graph, values[i])->storage;
        bytes += neap_graph_value(graph, storage)->bytes;
    }
    return bytes;
}

/* An op that only makes views has no kernel. */
static bool is_view(const neap_graph *graph, const neap_op *op)
{
    bool view = op->n_outputs > 0 && op->n_updates == 0;
    for (uint32_t i = 0; i < op->n_outputs; i++)
        view = view && neap_graph_value(graph, op->outputs[i])->view_of != NEAP_NONE;
    return view;
}

static void put_layer(trace *t, uint32_t op)
{
    size_t length;
    neap_text layer;
    const char *name = neap_layers_name(t->layers, neap_layers_of_op(t->layers, op), &length);
    neap_text_init(&layer, t->allocator);
    neap_text_append(&layer, name, length);
    neap_text_puts(&t->body, "\"layer\": ");
    put_name(t, &t->body, neap_text_get(&layer));
    if (layer.status != NEAP_OK)
        t->body.status = layer.status;
    neap_text_clear(&layer);
}

static void put_times(trace *t, size_t step)
{
    const neap_timeline_step *planned = &t->timeline->steps[step];
    neap_text_printf(&t->body, ", \"step\": %zu", step);
    if (!t->options->times)
        return;
    neap_text_puts(&t->body, ", \"planned_us\": ");
    put_microseconds(&t->body, nanoseconds(neap_graph_seconds(t->graph, planned->end)) -
                                   nanoseconds(neap_graph_seconds(t->graph, planned->begin)));
}

static void add_compute(trace *t, size_t index, const neap_step *step)
{
    const neap_op *op = neap_graph_op(t->graph, step->id);
    bool again = t->runs[step->id]++ > 0;
    if (is_view(t->graph, op))
        return;
    const char *pass = op->n_updates > 0          ? "update"
                       : op->pass == NEAP_FORWARD ? "forward"
                                                  : "backward";
    begin_slice(t, COMPUTE, index, again ? "recomputation" : pass);
    put_name(t, &t->body, op->name);
    neap_text_puts(&t->body, ", \"args\": {");
    put_layer(t, step->id);
    neap_text_puts(&t->body, ", \"type\": ");
    put_name(t, &t->body, op->type);
    neap_text_printf(
        &t->body,
        ", \"pass\": \"%s\", \"variant\": %" PRIu32 ", \"recomputation\": %s, "
        "\"in_place\": %s, \"read_bytes\": %" PRId64 ", \"written_bytes\": %" PRId64
        ", \"workspace_bytes\": %" PRId64,
        pass, step->variant, again ? "true" : "false", step->in_place ? "true" : "false",
        storage_bytes(t->graph, op->inputs, op->n_inputs),
        storage_bytes(t->graph, op->outputs, op->n_outputs), op->variants[step->variant].workspace);
    put_times(t, index);
    neap_text_puts(&t->body, "}");
    end_event(t);
}

/* An arrow from the end of an offload to the beginning of the prefetch. */
static void add_flow(trace *t, size_t offload, size_t prefetch)
{
    int64_t begin = begin_of(t, offload), end = end_of(t, offload);
    size_t id = ++t->n_flows;
    begin_event(t, "s", OUT, 1, end > begin ? end - 1 : begin, 0);
    neap_text_printf(&t->body, ", \"id\": %zu, \"cat\": \"copy\", \"name\": \"on the host\"", id);
    end_event(t);
    begin_event(t, "f", IN, 1, begin_of(t, prefetch), 0);
    neap_text_printf(
        &t->body, ", \"id\": %zu, \"cat\": \"copy\", \"name\": \"on the host\", \"bp\": \"e\"", id);
    end_event(t);
}

static void add_transfer(trace *t, size_t index, const neap_step *step)
{
    bool out = step->kind == NEAP_OFFLOAD;
    const neap_value *value = neap_graph_value(t->graph, step->id);
    begin_slice(t, out ? OUT : IN, index, out ? "offload" : "prefetch");
    put_name(t, &t->body, value->name);
    neap_text_puts(&t->body, ", \"args\": {\"kind\": ");
    put_name(t, &t->body, value->kind);
    neap_text_printf(&t->body, ", \"bytes\": %" PRId64,
                     neap_graph_value(t->graph, value->storage)->bytes);
    put_times(t, index);
    neap_text_puts(&t->body, "}");
    end_event(t);
    if (out)
        t->offloads[value->storage] = index + 1;
    else if (t->offloads[value->storage] > 0)
        add_flow(t, t->offloads[value->storage] - 1, index);
}

static void add_free(trace *t, size_t index, const neap_step *step)
{
    if (end_of(t, index) - begin_of(t, index) < SHORTEST_FREE)
        return;
    begin_slice(t, COMPUTE, index, "free");
    put_name(t, &t->body, neap_graph_value(t->graph, step->id)->name);
    neap_text_puts(&t->body, ", \"args\": {\"kind\": \"free, waiting for a copy\"");
    put_times(t, index);
    neap_text_puts(&t->body, "}");
    end_event(t);
}

static void set_level(trace *t, int64_t at, int64_t bytes)
{
    if (bytes != t->level)
        add_counter(t, "planned live memory", at, bytes);
    t->level = bytes;
}

/* Memory changes when the compute stream gets to the step. A transfer begins later on its engine,
   but its memory is taken at once. */
static void add_memory(trace *t, size_t index, const neap_step *step)
{
    const neap_timeline_step *planned = &t->timeline->steps[index];
    bool transfer = step->kind == NEAP_OFFLOAD || step->kind == NEAP_PREFETCH;
    int64_t begin = begin_of(t, index), end = end_of(t, index);
    if (step->kind == NEAP_COMPUTE)
        set_level(t, begin > t->now ? begin : t->now, planned->live_bytes);
    if (!transfer && end > t->now)
        t->now = end;
    set_level(t, t->now, planned->after_bytes);
}

static void add_steps(trace *t)
{
    const neap_step *steps = neap_plan_steps(t->plan);
    int64_t last = 0;
    for (size_t i = 0; i < t->timeline->n_steps && t->status == NEAP_OK; i++) {
        if (steps[i].kind == NEAP_COMPUTE)
            add_compute(t, i, &steps[i]);
        else if (steps[i].kind == NEAP_FREE)
            add_free(t, i, &steps[i]);
        else
            add_transfer(t, i, &steps[i]);
        add_memory(t, i, &steps[i]);
        last = end_of(t, i) > last ? end_of(t, i) : last;
    }
    for (int i = 0; i < 2 && t->options->arena_bytes >= 0; i++)
        add_counter(t, "arena", i == 0 ? 0 : last, t->options->arena_bytes);
}

/* ---- The file ---- */

static int compare_events(const void *a, const void *b)
{
    const event *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->duration != y->duration)
        return x->duration > y->duration ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static void put_thread(neap_text *out, int thread, const char *name)
{
    neap_text_printf(out,
                     "{\"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"ts\": 0, \"name\": "
                     "\"thread_name\", \"args\": {\"name\": \"%s\"}},\n"
                     "{\"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"ts\": 0, \"name\": "
                     "\"thread_sort_index\", \"args\": {\"sort_index\": %d}}",
                     PROCESS, thread, name, PROCESS, thread, thread);
}

static void put_head(trace *t, neap_text *out)
{
    neap_text_puts(out, "{\"displayTimeUnit\": \"ms\",\n \"otherData\": {\"program\": \"neap\", "
                        "\"graph\": ");
    put_name(t, out, neap_graph_name(t->graph));
    neap_text_puts(out, ", \"method\": ");
    put_name(t, out, neap_plan_method(t->plan));
    neap_text_printf(out, ", \"times\": \"%s\"},\n \"traceEvents\": [\n",
                     t->options->times ? "measured" : "planned");
    neap_text_printf(out,
                     "{\"ph\": \"M\", \"pid\": %d, \"tid\": 0, \"ts\": 0, \"name\": "
                     "\"process_name\", \"args\": {\"name\": ",
                     PROCESS);
    put_name(t, out, neap_graph_name(t->graph));
    neap_text_puts(out, "}},\n");
    put_thread(out, COMPUTE, "compute stream");
    neap_text_puts(out, ",\n");
    put_thread(out, OUT, "copy engine, to the host");
    neap_text_puts(out, ",\n");
    put_thread(out, IN, "copy engine, to the device");
}

static neap_status write_trace(trace *t, char **text, size_t *length)
{
    neap_text out;
    add_steps(t);
    if (t->status == NEAP_OK && t->body.status != NEAP_OK)
        t->status = neap_fail(t->diag, NEAP_NO_MEMORY, "out of memory");
    if (t->status != NEAP_OK)
        return t->status;
    neap_text_init(&out, t->allocator);
    if (t->n_events > 0)
        qsort(t->events, t->n_events, sizeof *t->events, compare_events);
    put_head(t, &out);
    for (size_t i = 0; i < t->n_events; i++) {
        neap_text_puts(&out, ",\n");
        neap_text_append(&out, t->body.text + t->events[i].begin, t->events[i].length);
    }
    neap_text_puts(&out, "\n]}\n");
    return neap_text_take(&out, text, length, t->diag);
}

void neap_trace_options_init(neap_trace_options *options)
{
    *options = (neap_trace_options){.arena_bytes = -1};
}

neap_status neap_report_trace(neap_allocator *allocator, const neap_graph *graph,
                              const neap_plan *plan, const neap_timeline *timeline,
                              const neap_trace_options *options, char **text, size_t *length,
                              neap_diag *diag)
{
    neap_trace_options defaults;
    neap_trace_options_init(&defaults);
    allocator = neap_allocator_or_system(allocator);
    trace t = {.allocator = allocator,
               .graph = graph,
               .plan = plan,
               .timeline = timeline,
               .options = options ? options : &defaults,
               .level = -1,
               .diag = diag};
    uint32_t n_ops = neap_graph_op_count(graph), n_values = neap_graph_value_count(graph);
    *text = NULL;
    *length = 0;
    t.status = neap_report_check_timeline(graph, plan, timeline, diag);
    if (t.status != NEAP_OK)
        return t.status;
    neap_text_init(&t.body, allocator);
    neap_text_init(&t.name, allocator);
    t.status = NEAP_NEW(allocator, n_ops, &t.runs, diag);
    if (t.status == NEAP_OK)
        t.status = NEAP_NEW(allocator, n_values, &t.offloads, diag);
    if (t.status == NEAP_OK)
        t.status = neap_layers_find(allocator, graph, &t.layers, diag);
    if (t.status == NEAP_OK)
        t.status = write_trace(&t, text, length);
    neap_layers_destroy(t.layers);
    NEAP_DELETE(allocator, n_ops, t.runs);
    NEAP_DELETE(allocator, n_values, t.offloads);
    NEAP_DELETE(allocator, t.capacity, t.events);
    neap_text_clear(&t.body);
    neap_text_clear(&t.name);
    return t.status;
}
