/* neap/cost.h: the table of devices, and the file that extends it. */
#include "base/arena.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/memory.h"

#include <neap/cost.h>
#include <neap/text.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* Devices and their texts are in the arena, so pointers to them stay valid when the table
   grows and even when its device is replaced. */
struct neap_devices {
    neap_allocator *allocator;
    neap_arena arena;
    const neap_device **items;
    size_t count, capacity;
};

#define NEAP_DEVICE(n, s, u, bytes, bw, f32, tf32, f16, bf16, f64, ce, me, l, lo, li, ll, dx)      \
    {.name = (n),                                                                                  \
     .summary = (s),                                                                               \
     .unit = (u),                                                                                  \
     .memory = (bytes),                                                                            \
     .bandwidth = (bw),                                                                            \
     .flops = {(f32), (tf32), (f16), (bf16), (f64)}, /* in the order of neap_math */               \
     .compute_efficiency = (ce),                                                                   \
     .memory_efficiency = (me),                                                                    \
     .launch = (l),                                                                                \
     .link_out = (lo),                                                                             \
     .link_in = (li),                                                                              \
     .link_latency = (ll),                                                                         \
     .duplex = (dx)},

static const neap_device built_in[] = {
#include "cost/devices.def"
};

/* ---- The table ---- */

neap_status neap_devices_create(neap_allocator *allocator, neap_devices **devices, neap_diag *diag)
{
    *devices = NULL;
    allocator = neap_allocator_or_system(allocator);
    neap_devices *table;
    neap_status status = NEAP_NEW(allocator, 1, &table, diag);
    if (status != NEAP_OK)
        return status;
    table->allocator = allocator;
    neap_arena_init(&table->arena, allocator);
    status = NEAP_RESERVE(allocator, COUNT_OF(built_in), &table->items, &table->capacity, diag);
    if (status != NEAP_OK) {
        neap_devices_destroy(table);
        return status;
    }
    for (size_t i = 0; i < COUNT_OF(built_in); i++)
        table->items[table->count++] = &built_in[i];
    *devices = table;
    return NEAP_OK;
}

void neap_devices_destroy(neap_devices *devices)
{
    if (!devices)
        return;
    neap_allocator *allocator = devices->allocator;
    NEAP_DELETE(allocator, devices->capacity, devices->items);
    neap_arena_clear(&devices->arena);
    NEAP_DELETE(allocator, 1, devices);
}

uint32_t neap_devices_count(const neap_devices *devices)
{
    return (uint32_t)devices->count;
}

const neap_device *neap_devices_at(const neap_devices *devices, uint32_t index)
{
    return index < devices->count ? devices->items[index] : NULL;
}

/* The place of a device in a list, or `count`. */
static size_t position(const neap_device *const *items, size_t count, const char *name)
{
    size_t i = 0;
    while (i < count && strcmp(items[i]->name, name) != 0)
        i++;
    return i;
}

const neap_device *neap_devices_find(const neap_devices *devices, const char *name)
{
    size_t i = position(devices->items, devices->count, name);
    return i < devices->count ? devices->items[i] : NULL;
}

/* ---- The fields of a device in a file ---- */

typedef struct real_field {
    const char *name;
    size_t offset;    /* of a double in neap_device */
    bool positive;    /* else 0 is fine too */
    double most;      /* past it, a number is a slip of the unit */
    const char *unit; /* for messages */
} real_field;

static const real_field real_fields[] = {
    {"bandwidth", offsetof(neap_device, bandwidth), true, 1e18, "bytes a second"},
    {"compute_efficiency", offsetof(neap_device, compute_efficiency), true, 1, "parts of the peak"},
    {"memory_efficiency", offsetof(neap_device, memory_efficiency), true, 1, "parts of the peak"},
    {"launch", offsetof(neap_device, launch), false, 60, "seconds"},
    {"link_out", offsetof(neap_device, link_out), false, 1e18, "bytes a second"},
    {"link_in", offsetof(neap_device, link_in), false, 1e18, "bytes a second"},
    {"link_latency", offsetof(neap_device, link_latency), false, 60, "seconds"},
};

/* The members of "flops"; the index is the neap_math. */
static const real_field rate_fields[NEAP_MATH_COUNT] = {
    {"f32", offsetof(neap_device, flops[NEAP_MATH_F32]), false, 1e21, "flop a second"},
    {"tf32", offsetof(neap_device, flops[NEAP_MATH_TF32]), false, 1e21, "flop a second"},
    {"f16", offsetof(neap_device, flops[NEAP_MATH_F16]), false, 1e21, "flop a second"},
    {"bf16", offsetof(neap_device, flops[NEAP_MATH_BF16]), false, 1e21, "flop a second"},
    {"f64", offsetof(neap_device, flops[NEAP_MATH_F64]), false, 1e21, "flop a second"},
};

enum { NAME, SUMMARY, MEMORY, FLOPS, DUPLEX, OTHER_COUNT };
static const char *const other_fields[OTHER_COUNT] = {"name", "summary", "memory", "flops",
                                                      "duplex"};

/* One device as the file has it: of `device`, only what was seen counts. Bits are indices in the
 * tables above. */
typedef struct entry {
    neap_device device;
    uint32_t seen_reals, seen_rates, seen_others;
} entry;

static double *real_at(neap_device *device, const real_field *field)
{
    return (double *)((char *)device + field->offset);
}

/* Where the next value begins: r->at goes back there for a complaint about it. */
static const char *value_start(json_reader *r)
{
    (void)neap_json_peek_null(r); /* skips white space */
    return r->at;
}

static void read_real(json_reader *r, const real_field *field, neap_device *device)
{
    const char *start = value_start(r);
    if (field->offset == offsetof(neap_device, bandwidth) && neap_json_peek_null(r)) {
        neap_json_skip(r, NULL);
        device->bandwidth = HUGE_VAL;
        return;
    }
    double value = neap_json_double(r);
    if (!neap_json_ok(r))
        return;
    if (value < 0 || (field->positive && value == 0) || value > field->most) {
        r->at = start;
        neap_json_fail(r, "\"%s\" must be %s 0 and at most %g %s", field->name,
                       field->positive ? "more than" : "at least", field->most, field->unit);
        return;
    }
    *real_at(device, field) = value;
}

/* Reads the field of that name, if the table has it. */
static bool read_real_of(json_reader *r, json_string key, const real_field *fields, size_t count,
                         neap_device *device, uint32_t *seen)
{
    for (size_t i = 0; i < count; i++) {
        if (!neap_json_key_is(key, fields[i].name))
            continue;
        neap_json_once(r, seen, 1u << i, fields[i].name);
        read_real(r, &fields[i], device);
        return true;
    }
    return false;
}

#define SHOWN 64

/* The beginning of a text of the file, to be quoted. */
static void show(json_string text, char shown[SHOWN])
{
    snprintf(shown, SHOWN, "%.*s", text.length < SHOWN ? (int)text.length : SHOWN - 1, text.text);
    neap_string_clean(shown);
}

/* A misspelt field would otherwise leave a device that is quietly wrong. */
static void fail_unknown(json_reader *r, json_string key, const real_field *fields, size_t count,
                         bool others)
{
    if (!neap_json_ok(r))
        return;
    char name[SHOWN];
    show(key, name);
    neap_suggestion suggestion;
    neap_suggestion_begin(&suggestion, name);
    for (size_t i = 0; i < count; i++)
        neap_suggestion_offer(&suggestion, fields[i].name);
    for (size_t i = 0; others && i < OTHER_COUNT; i++)
        neap_suggestion_offer(&suggestion, other_fields[i]);
    if (suggestion.best)
        neap_json_fail(r, "a device has no \"%s\"; did you mean \"%s\"?", name, suggestion.best);
    else
        neap_json_fail(r, "a device has no \"%s\"", name);
}

static void read_rates(json_reader *r, entry *e)
{
    json_string key;
    neap_json_begin_object(r);
    while (neap_json_next_key(r, &key))
        if (!read_real_of(r, key, rate_fields, NEAP_MATH_COUNT, &e->device, &e->seen_rates))
            fail_unknown(r, key, rate_fields, NEAP_MATH_COUNT, false);
}

static const char *read_text(json_reader *r, neap_arena *arena)
{
    json_string text = neap_json_text(r);
    if (!neap_json_ok(r))
        return "";
    char *copy = neap_arena_text(arena, text.text, text.length);
    if (!copy)
        r->status = neap_fail_no_memory(r->diag);
    return copy;
}

/* A name is typed on command lines: nothing that a shell or a terminal would take for something
 * else. */
static void read_name(json_reader *r, neap_arena *arena, const char **name)
{
    const char *start = value_start(r);
    *name = read_text(r, arena);
    if (!neap_json_ok(r))
        return;
    size_t length = strlen(*name);
    bool plain = length > 0 && length <= 64;
    for (const char *c = *name; *c; c++)
        plain = plain && (unsigned char)*c > ' ' && *c != 0x7f;
    if (!plain) {
        r->at = start;
        neap_json_fail(r, "a device's name must have 1 to 64 bytes and no space");
    }
}

static void read_memory(json_reader *r, neap_device *device)
{
    const char *start = value_start(r);
    device->memory = neap_json_i64(r);
    if (neap_json_ok(r) && device->memory < 0) {
        r->at = start;
        neap_json_fail(r, "\"memory\" must be at least 0 bytes");
    }
}

static void read_other(json_reader *r, neap_arena *arena, int field, entry *e)
{
    neap_json_once(r, &e->seen_others, 1u << field, other_fields[field]);
    switch (field) {
    case NAME:
        read_name(r, arena, &e->device.name);
        break;
    case SUMMARY:
        e->device.summary = read_text(r, arena);
        break;
    case MEMORY:
        read_memory(r, &e->device);
        break;
    case FLOPS:
        read_rates(r, e);
        break;
    case DUPLEX:
        e->device.duplex = neap_json_bool(r);
        break;
    }
}

static void read_field(json_reader *r, neap_arena *arena, json_string key, entry *e)
{
    if (read_real_of(r, key, real_fields, COUNT_OF(real_fields), &e->device, &e->seen_reals))
        return;
    for (int i = 0; i < OTHER_COUNT; i++)
        if (neap_json_key_is(key, other_fields[i])) {
            read_other(r, arena, i, e);
            return;
        }
    fail_unknown(r, key, real_fields, COUNT_OF(real_fields), true);
}

/* ---- From entries to devices ---- */

/* Writes what the file gave over what was there before. */
static void merge(const entry *e, neap_device *device)
{
    neap_device given = e->device;
    for (size_t i = 0; i < COUNT_OF(real_fields); i++)
        if (e->seen_reals & 1u << i)
            *real_at(device, &real_fields[i]) = *real_at(&given, &real_fields[i]);
    for (size_t i = 0; i < NEAP_MATH_COUNT; i++)
        if (e->seen_rates & 1u << i)
            device->flops[i] = given.flops[i];
    device->name = given.name;
    if (e->seen_others & 1u << SUMMARY)
        device->summary = given.summary;
    if (e->seen_others & 1u << MEMORY)
        device->memory = given.memory;
    if (e->seen_others & 1u << DUPLEX)
        device->duplex = given.duplex;
}

/* What no single field can tell: whether the whole makes a device. */
static void check_device(json_reader *r, const neap_device *device)
{
    double fastest = 0;
    for (size_t i = 0; i < NEAP_MATH_COUNT; i++)
        fastest = device->flops[i] > fastest ? device->flops[i] : fastest;
    if (!device->unit && device->bandwidth == 0)
        neap_json_fail(r, "device \"%s\" needs a \"bandwidth\"", device->name);
    else if (!device->unit && fastest == 0)
        neap_json_fail(r, "device \"%s\" needs \"flops\" with at least one rate", device->name);
    else if ((device->link_out == 0) != (device->link_in == 0))
        neap_json_fail(r,
                       "device \"%s\" has a host link one way only; give both \"link_out\" and "
                       "\"link_in\"",
                       device->name);
}

/* A growing list of devices in an arena. */
typedef struct device_list {
    const neap_device **items;
    size_t count, capacity;
} device_list;

static void read_device(json_reader *r, neap_devices *devices, device_list *added)
{
    const char *start = value_start(r);
    entry e = {.seen_reals = 0};
    json_string key;
    neap_json_begin_object(r);
    while (neap_json_next_key(r, &key))
        read_field(r, &devices->arena, key, &e);
    if (!neap_json_ok(r))
        return;
    const char *end = r->at;
    r->at = start; /* for complaints about the whole */
    if (!e.device.name) {
        neap_json_fail(r, "the device has no \"name\"");
        return;
    }
    if (position(added->items, added->count, e.device.name) < added->count) {
        neap_json_fail(r, "device \"%s\" is given twice", e.device.name);
        return;
    }
    const neap_device *old = neap_devices_find(devices, e.device.name);
    neap_device fresh = {.summary = "", .compute_efficiency = 1, .memory_efficiency = 1};
    neap_device *device = neap_arena_copy(&devices->arena, old ? old : &fresh, 1, sizeof fresh);
    if (!device ||
        NEAP_RESERVE(devices->allocator, added->count + 1, &added->items, &added->capacity, NULL)) {
        r->status = neap_fail_no_memory(r->diag);
        return;
    }
    merge(&e, device);
    check_device(r, device);
    added->items[added->count++] = device;
    r->at = neap_json_ok(r) ? end : r->at;
}

static void read_devices(json_reader *r, neap_devices *devices, device_list *added)
{
    enum { DEVICES = 1 };
    uint32_t seen = 0;
    json_string key;
    neap_json_begin_object(r);
    while (neap_json_next_key(r, &key)) {
        if (neap_json_read_header(r, key, "devices", &seen)) {
            continue;
        } else if (neap_json_key_is(key, "devices")) {
            neap_json_once(r, &seen, DEVICES, "devices");
            neap_json_begin_array(r);
            while (neap_json_next_item(r))
                read_device(r, devices, added);
        } else {
            neap_json_skip(r, NULL);
        }
    }
    neap_json_require_header(r, "devices", seen);
    if (!(seen & DEVICES))
        neap_json_fail(r, "the file has no \"devices\"");
    neap_json_end(r);
}

/* Takes over a list that was read to its end; the room is made first, so it is all or nothing. */
static neap_status commit(neap_devices *devices, const device_list *added, neap_diag *diag)
{
    neap_status status = NEAP_RESERVE(devices->allocator, devices->count + added->count,
                                      &devices->items, &devices->capacity, diag);
    if (status != NEAP_OK)
        return status;
    for (size_t i = 0; i < added->count; i++) {
        size_t at = position(devices->items, devices->count, added->items[i]->name);
        devices->items[at] = added->items[i];
        devices->count += at == devices->count;
    }
    return NEAP_OK;
}

neap_status neap_devices_read_file(neap_devices *devices, const char *path, neap_diag *diag)
{
    device_list added = {NULL, 0, 0};
    json_reader r;
    neap_json_open(&r, devices->allocator, path, diag);
    read_devices(&r, devices, &added);
    neap_status status = r.status;
    if (status == NEAP_OK)
        status = commit(devices, &added, diag);
    neap_json_clear(&r);
    NEAP_DELETE(devices->allocator, added.capacity, added.items);
    return status;
}
