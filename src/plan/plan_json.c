/* Plan files in and out (docs/formats.md). */
#include "base/fail.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "plan/plan_internal.h"

#include <string.h>

/* ---- Reading ---- */

static neap_step_kind read_kind(json_reader *r)
{
    json_string word = neap_json_text(r);
    for (neap_step_kind kind = NEAP_COMPUTE; kind <= NEAP_PREFETCH; kind++)
        if (neap_json_key_is(word, neap_step_kind_name(kind)))
            return kind;
    neap_json_fail(r, "a step must be \"compute\", \"free\", \"offload\" or \"prefetch\"");
    return NEAP_COMPUTE;
}

static void read_in_place(json_reader *r, neap_step *step)
{
    step->in_place = neap_json_key_is(neap_json_text(r), "in_place");
    if (neap_json_ok(r) && !step->in_place)
        neap_json_fail(r, "after the variant of a computation only \"in_place\" may follow");
}

/* ["compute", op], ["compute", op, variant], ["compute", op, variant, "in_place"], ["free", value],
   ... */
static neap_step read_step(json_reader *r)
{
    neap_step step = {.kind = NEAP_COMPUTE};
    int items = 0;
    neap_json_begin_array(r);
    while (neap_json_next_item(r)) {
        if (items == 0)
            step.kind = read_kind(r);
        else if (items == 1)
            step.id = neap_json_u32(r, NEAP_NONE - 1);
        else if (items == 2 && step.kind == NEAP_COMPUTE)
            step.variant = neap_json_u32(r, NEAP_NONE - 1);
        else if (items == 3 && step.kind == NEAP_COMPUTE)
            read_in_place(r, &step);
        else
            neap_json_fail(r, "too many items in a step of kind \"%s\"",
                           neap_step_kind_name(step.kind));
        items++;
    }
    if (neap_json_ok(r) && items < 2)
        neap_json_fail(r, "a step must have the form [\"compute\", op], [\"free\", value], ...");
    return step;
}

static void read_steps(json_reader *r, neap_plan *plan)
{
    neap_json_begin_array(r);
    while (neap_json_next_item(r)) {
        neap_step step = read_step(r);
        if (neap_json_ok(r))
            r->status = neap_plan_append(plan, step, r->diag);
    }
}

static void read_host_at_start(json_reader *r, neap_plan *plan)
{
    uint32_t *values = NULL;
    size_t count = 0, capacity = 0;
    neap_json_begin_array(r);
    while (neap_json_next_item(r)) {
        uint32_t value = neap_json_u32(r, NEAP_NONE - 1);
        if (neap_json_ok(r))
            r->status = NEAP_RESERVE(plan->allocator, count + 1, &values, &capacity, r->diag);
        if (neap_json_ok(r))
            values[count++] = value;
    }
    if (neap_json_ok(r))
        r->status = neap_plan_set_host_at_start(plan, values, count, r->diag);
    NEAP_DELETE(plan->allocator, capacity, values);
}

/* An offset per storage instance, into a list that grows; null is no list. */
static void read_offsets(json_reader *r, neap_allocator *allocator, int64_t **offsets,
                         size_t *count, size_t *capacity)
{
    if (neap_json_peek_null(r)) {
        neap_json_skip(r, NULL);
        return;
    }
    neap_json_begin_array(r);
    while (neap_json_next_item(r)) {
        int64_t offset = neap_json_i64(r);
        if (neap_json_ok(r))
            r->status = NEAP_RESERVE(allocator, *count + 1, offsets, capacity, r->diag);
        if (neap_json_ok(r))
            (*offsets)[(*count)++] = offset;
    }
}

static void read_name(json_reader *r, neap_allocator *allocator, char **name)
{
    json_string text = neap_json_text(r);
    char *copy;
    if (neap_json_ok(r))
        r->status = NEAP_NEW(allocator, text.length + 1, &copy, r->diag);
    if (!neap_json_ok(r))
        return;
    memcpy(copy, text.text, text.length);
    NEAP_DELETE(allocator, strlen(*name) + 1, *name);
    *name = copy;
}

static int64_t read_budget(json_reader *r)
{
    if (neap_json_peek_null(r)) {
        neap_json_skip(r, NULL);
        return -1;
    }
    int64_t budget = neap_json_i64(r);
    if (neap_json_ok(r) && budget < 0)
        neap_json_fail(r, "\"budget_bytes\" may not be negative; leave it out for no budget");
    return budget;
}

static void read_plan(json_reader *r, neap_plan *plan)
{
    enum { GRAPH = 1, METHOD = 2, BUDGET = 4, STEPS = 8, OFFSETS = 16, ARENA = 32, HOST = 64 };
    neap_allocator *allocator = plan->allocator;
    json_string key;
    uint32_t seen = 0;
    int64_t *offsets = NULL, arena = -1;
    size_t n_offsets = 0, capacity = 0;
    neap_json_begin_object(r);
    while (neap_json_next_key(r, &key)) {
        if (neap_json_read_header(r, key, "plan", &seen)) {
            continue;
        } else if (neap_json_key_is(key, "graph")) {
            neap_json_once(r, &seen, GRAPH, "graph");
            read_name(r, allocator, &plan->graph_name);
        } else if (neap_json_key_is(key, "method")) {
            neap_json_once(r, &seen, METHOD, "method");
            read_name(r, allocator, &plan->method);
        } else if (neap_json_key_is(key, "budget_bytes")) {
            neap_json_once(r, &seen, BUDGET, "budget_bytes");
            plan->budget = read_budget(r);
        } else if (neap_json_key_is(key, "steps")) {
            neap_json_once(r, &seen, STEPS, "steps");
            read_steps(r, plan);
        } else if (neap_json_key_is(key, "host_at_start")) {
            neap_json_once(r, &seen, HOST, "host_at_start");
            read_host_at_start(r, plan);
        } else if (neap_json_key_is(key, "offsets")) {
            neap_json_once(r, &seen, OFFSETS, "offsets");
            read_offsets(r, allocator, &offsets, &n_offsets, &capacity);
        } else if (neap_json_key_is(key, "arena_bytes")) {
            neap_json_once(r, &seen, ARENA, "arena_bytes");
            arena = neap_json_peek_null(r) ? (neap_json_skip(r, NULL), -1) : neap_json_i64(r);
        } else {
            neap_json_skip(r, NULL);
        }
    }
    neap_json_require_header(r, "plan", seen);
    if (!(seen & STEPS))
        neap_json_fail(r, "the plan has no \"steps\"");
    if (n_offsets > 0 && arena < 0)
        neap_json_fail(r, "a plan with \"offsets\" needs \"arena_bytes\"");
    neap_json_end(r);
    if (neap_json_ok(r) && n_offsets > 0)
        r->status = neap_plan_set_offsets(plan, offsets, n_offsets, arena, r->diag);
    NEAP_DELETE(allocator, capacity, offsets);
}

/* Reads the plan from r, and releases the reader. */
static neap_status take_plan(json_reader *r, neap_allocator *allocator, neap_plan **result)
{
    neap_plan *plan = NULL;
    if (neap_json_ok(r))
        r->status = neap_plan_create(allocator, "", "", -1, &plan, r->diag);
    if (neap_json_ok(r))
        read_plan(r, plan);
    neap_status status = r->status;
    neap_json_clear(r);
    if (status != NEAP_OK) {
        neap_plan_destroy(plan);
        plan = NULL;
    }
    *result = plan;
    return status;
}

neap_status neap_plan_read_text(neap_allocator *allocator, const char *text, size_t length,
                                const char *source, neap_plan **result, neap_diag *diag)
{
    json_reader r;
    neap_json_init(&r, allocator, source, text, length, diag);
    return take_plan(&r, allocator, result);
}

neap_status neap_plan_read_file(neap_allocator *allocator, const char *path, neap_plan **plan,
                                neap_diag *diag)
{
    json_reader r;
    neap_json_open(&r, allocator, path, diag);
    return take_plan(&r, allocator, plan);
}

/* ---- Writing ---- */

static void write_step(neap_text *out, const neap_step *step)
{
    neap_text_puts(out, "[\"");
    neap_text_puts(out, neap_step_kind_name(step->kind));
    neap_text_puts(out, "\",");
    neap_text_i64(out, step->id);
    if (step->kind == NEAP_COMPUTE && (step->variant || step->in_place)) {
        neap_text_putc(out, ',');
        neap_text_i64(out, step->variant);
    }
    if (step->in_place)
        neap_text_puts(out, ",\"in_place\"");
    neap_text_putc(out, ']');
}

static neap_text text_of(const neap_plan *plan, neap_allocator *allocator)
{
    neap_text out;
    neap_text_init(&out, allocator);
    neap_text_puts(&out, "{\"neap\":\"plan\",\"version\":1,\"graph\":");
    neap_text_json_string(&out, plan->graph_name);
    neap_text_puts(&out, ",\"method\":");
    neap_text_json_string(&out, plan->method);
    if (plan->budget >= 0) {
        neap_text_puts(&out, ",\"budget_bytes\":");
        neap_text_i64(&out, plan->budget);
    }
    if (plan->n_host) {
        neap_text_puts(&out, ",\n\"host_at_start\":[");
        for (size_t i = 0; i < plan->n_host; i++) {
            if (i)
                neap_text_putc(&out, ',');
            neap_text_i64(&out, plan->host_at_start[i]);
        }
        neap_text_putc(&out, ']');
    }
    neap_text_puts(&out, ",\n\"steps\":[");
    for (size_t i = 0; i < plan->n_steps; i++) {
        neap_text_puts(&out, i ? (i % 8 ? "," : ",\n") : "\n");
        write_step(&out, &plan->steps[i]);
    }
    neap_text_putc(&out, ']');
    if (plan->n_offsets) {
        neap_text_puts(&out, ",\n\"arena_bytes\":");
        neap_text_i64(&out, plan->arena_bytes);
        neap_text_puts(&out, ",\n\"offsets\":[");
        for (size_t i = 0; i < plan->n_offsets; i++) {
            if (i)
                neap_text_puts(&out, i % 16 ? "," : ",\n");
            neap_text_i64(&out, plan->offsets[i]);
        }
        neap_text_putc(&out, ']');
    }
    neap_text_puts(&out, "}\n");
    return out;
}

neap_status neap_plan_write_text(const neap_plan *plan, neap_allocator *allocator, char **text,
                                 size_t *length, neap_diag *diag)
{
    neap_text out = text_of(plan, allocator);
    return neap_text_take(&out, text, length, diag);
}

neap_status neap_plan_write_file(const neap_plan *plan, const char *path, neap_diag *diag)
{
    neap_text out = text_of(plan, plan->allocator);
    return neap_file_write_text(&out, path, diag);
}
