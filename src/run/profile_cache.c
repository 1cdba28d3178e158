/* The file of measured times. */
#include "run/profile_cache.h"

#include "base/fail.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void neap_profile_cache_init(profile_cache *cache, neap_allocator *allocator)
{
    *cache = (profile_cache){.allocator = allocator};
    neap_arena_init(&cache->arena, allocator);
}

void neap_profile_cache_clear(profile_cache *cache)
{
    NEAP_DELETE(cache->allocator, cache->capacity, cache->entries);
    NEAP_DELETE(cache->allocator, cache->n_slots, cache->slots);
    neap_arena_clear(&cache->arena);
    neap_profile_cache_init(cache, cache->allocator);
}

/* ---- Finding ---- */

/* The slot of an entry, or the empty slot for it. */
static size_t find_slot(const profile_cache *cache, const char *machine, const char *op,
                        uint32_t variant)
{
    uint64_t hash = neap_hash_bytes(NEAP_HASH_BEGIN + variant, machine, strlen(machine));
    hash = neap_hash_bytes(hash, op, strlen(op));
    size_t slot = (hash ^ (hash >> 31)) & (cache->n_slots - 1);
    while (cache->slots[slot]) {
        const profile_entry *entry = &cache->entries[cache->slots[slot] - 1];
        if (entry->variant == variant && strcmp(entry->op, op) == 0 &&
            strcmp(entry->machine, machine) == 0)
            break;
        slot = (slot + 1) & (cache->n_slots - 1);
    }
    return slot;
}

const profile_entry *neap_profile_cache_find(const profile_cache *cache, const char *machine,
                                             const char *op, uint32_t variant, int64_t workspace)
{
    if (cache->n_slots == 0)
        return NULL;
    uint32_t position = cache->slots[find_slot(cache, machine, op, variant)];
    const profile_entry *entry = position ? &cache->entries[position - 1] : NULL;
    return entry && entry->workspace == workspace ? entry : NULL;
}

static neap_status grow_table(profile_cache *cache, neap_diag *diag)
{
    profile_cache larger = *cache;
    larger.n_slots = cache->n_slots ? 2 * cache->n_slots : 64;
    neap_status status = NEAP_NEW(cache->allocator, larger.n_slots, &larger.slots, diag);
    if (status != NEAP_OK)
        return status;
    for (size_t i = 0; i < cache->count; i++) {
        const profile_entry *entry = &cache->entries[i];
        larger.slots[find_slot(&larger, entry->machine, entry->op, entry->variant)] =
            (uint32_t)i + 1;
    }
    NEAP_DELETE(cache->allocator, cache->n_slots, cache->slots);
    *cache = larger;
    return NEAP_OK;
}

neap_status neap_profile_cache_put(profile_cache *cache, const profile_entry *entry,
                                   neap_diag *diag)
{
    neap_status status = NEAP_OK;
    if (2 * (cache->count + 1) > cache->n_slots)
        status = grow_table(cache, diag);
    if (status == NEAP_OK)
        status = NEAP_RESERVE(cache->allocator, cache->count + 1, &cache->entries, &cache->capacity,
                              diag);
    if (status != NEAP_OK)
        return status;
    size_t slot = find_slot(cache, entry->machine, entry->op, entry->variant);
    if (cache->slots[slot]) {
        profile_entry *old = &cache->entries[cache->slots[slot] - 1];
        old->workspace = entry->workspace;
        old->seconds = entry->seconds;
        old->spread = entry->spread;
        old->when = entry->when;
        return NEAP_OK;
    }
    profile_entry copy = *entry;
    copy.machine = neap_arena_text(&cache->arena, entry->machine, strlen(entry->machine));
    copy.op = neap_arena_text(&cache->arena, entry->op, strlen(entry->op));
    if (!copy.machine || !copy.op)
        return neap_fail_no_memory(diag);
    cache->entries[cache->count++] = copy;
    cache->slots[slot] = (uint32_t)cache->count;
    return NEAP_OK;
}

/* ---- Age ---- */

bool neap_profile_entry_holds(const profile_entry *entry, int64_t now)
{
    const double most_spread = 0.5;
    const int64_t provisional = 3600;
    return entry->spread <= most_spread || (entry->when <= now && now - entry->when < provisional);
}

size_t neap_profile_cache_doubt(profile_cache *cache, const char *machine, const char *op)
{
    size_t count = 0;
    for (size_t i = 0; i < cache->count; i++) {
        profile_entry *entry = &cache->entries[i];
        if (strcmp(entry->op, op) != 0 || strcmp(entry->machine, machine) != 0)
            continue;
        entry->when = 0;
        entry->spread = entry->spread > 1 ? entry->spread : 1;
        count++;
    }
    return count;
}

/* ---- Reading ---- */

enum { SEEN_MACHINE = 1, SEEN_OP = 2, SEEN_VARIANT = 4, SEEN_WORKSPACE = 8, SEEN_SECONDS = 16 };

/*
 * Upper limit for a kernel: a longer time is not a plausible measurement, and it would make the
 * graph's tick too coarse.
 */
static const double MOST_SECONDS = 1e6;

static const char *keep_text(profile_cache *cache, json_reader *r)
{
    json_string text = neap_json_text(r);
    const char *kept = neap_arena_text(&cache->arena, text.text, text.length);
    if (!kept && neap_json_ok(r))
        r->status = neap_fail_no_memory(r->diag);
    return kept;
}

static void read_entry(profile_cache *cache, json_reader *r)
{
    profile_entry entry = {.machine = ""};
    uint32_t seen = 0;
    json_string key;
    neap_json_begin_object(r);
    while (neap_json_next_key(r, &key)) {
        if (neap_json_key_is(key, "machine")) {
            neap_json_once(r, &seen, SEEN_MACHINE, "machine");
            entry.machine = keep_text(cache, r);
        } else if (neap_json_key_is(key, "op")) {
            neap_json_once(r, &seen, SEEN_OP, "op");
            entry.op = keep_text(cache, r);
        } else if (neap_json_key_is(key, "variant")) {
            neap_json_once(r, &seen, SEEN_VARIANT, "variant");
            entry.variant = neap_json_u32(r, 1000);
        } else if (neap_json_key_is(key, "workspace")) {
            neap_json_once(r, &seen, SEEN_WORKSPACE, "workspace");
            entry.workspace = neap_json_i64(r);
        } else if (neap_json_key_is(key, "seconds")) {
            neap_json_once(r, &seen, SEEN_SECONDS, "seconds");
            entry.seconds = neap_json_double(r);
        } else if (neap_json_key_is(key, "spread")) {
            entry.spread = neap_json_double(r);
        } else if (neap_json_key_is(key, "when")) {
            entry.when = neap_json_i64(r);
        } else {
            neap_json_skip(r, NULL);
        }
    }
    if (!neap_json_ok(r))
        return;
    if (seen != 31)
        neap_json_fail(r, "an entry has machine, op, variant, workspace and seconds");
    else if (entry.workspace < 0 || entry.spread < 0)
        neap_json_fail(r, "workspace and spread must be 0 or more");
    else if (entry.seconds < 0 || entry.seconds > MOST_SECONDS)
        neap_json_fail(r, "seconds must be from 0 to %.0f", MOST_SECONDS);
    else
        r->status = neap_profile_cache_put(cache, &entry, r->diag);
}

static void read_all(profile_cache *cache, json_reader *r)
{
    json_string key;
    uint32_t seen = 0;
    neap_json_begin_object(r);
    while (neap_json_next_key(r, &key)) {
        if (neap_json_read_header(r, key, "profile", &seen)) {
            continue;
        } else if (neap_json_key_is(key, "entries")) {
            neap_json_begin_array(r);
            while (neap_json_next_item(r))
                read_entry(cache, r);
        } else {
            neap_json_skip(r, NULL);
        }
    }
    neap_json_require_header(r, "profile", seen);
    neap_json_end(r);
}

/*
 * Whether a file is empty or begins like a profile cache; files of another kind or version do not.
 */
static bool was_ours(profile_cache *cache, const char *path)
{
    static const char BEGIN[] = "{\"neap\": \"profile\", \"version\": 1,";
    neap_diag ignored;
    char *text;
    size_t length;
    if (neap_file_read(cache->allocator, path, &text, &length, &ignored) != NEAP_OK)
        return false;
    bool ours = length == 0 || strncmp(text, BEGIN, sizeof BEGIN - 1) == 0;
    NEAP_DELETE(cache->allocator, length + 1, text);
    return ours;
}

neap_status neap_profile_cache_read(profile_cache *cache, const char *path, neap_diag *diag)
{
    struct stat facts;
    if (stat(path, &facts) != 0 && errno == ENOENT)
        return NEAP_OK;
    if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode)) /* reading a pipe would block */
        return neap_fail(diag, NEAP_IO, "%s is not an ordinary file", path);
    json_reader r;
    neap_diag trouble = {.message = ""};
    neap_json_open(&r, cache->allocator, path, &trouble);
    read_all(cache, &r);
    neap_status status = r.status;
    neap_json_clear(&r);
    if (status == NEAP_INVALID && was_ours(cache, path)) {
        snprintf(cache->damage, sizeof cache->damage, "%s", trouble.message);
        return NEAP_OK;
    }
    return status == NEAP_OK ? NEAP_OK : neap_fail(diag, status, "%s", trouble.message);
}

/* ---- Writing ---- */

static void write_entry(const profile_entry *entry, neap_text *text)
{
    neap_text_puts(text, "{\"machine\": ");
    neap_text_json_string(text, entry->machine);
    neap_text_puts(text, ", \"op\": ");
    neap_text_json_string(text, entry->op);
    neap_text_printf(text, ", \"variant\": %lu, \"workspace\": ", (unsigned long)entry->variant);
    neap_text_i64(text, entry->workspace);
    neap_text_puts(text, ", \"seconds\": ");
    neap_text_double(text, entry->seconds);
    neap_text_puts(text, ", \"spread\": ");
    neap_text_double(text, entry->spread);
    if (entry->when > 0) {
        neap_text_puts(text, ", \"when\": ");
        neap_text_i64(text, entry->when);
    }
    neap_text_putc(text, '}');
}

neap_status neap_profile_cache_write(const profile_cache *cache, const char *path, neap_diag *diag)
{
    neap_text text;
    neap_text_init(&text, cache->allocator);
    neap_text_puts(&text, "{\"neap\": \"profile\", \"version\": 1, \"entries\": [");
    for (size_t i = 0; i < cache->count; i++) {
        neap_text_puts(&text, i ? ",\n" : "\n");
        write_entry(&cache->entries[i], &text);
    }
    neap_text_puts(&text, "\n]}\n");
    neap_status status = neap_file_make_folders(cache->allocator, path, diag);
    if (status == NEAP_OK)
        return neap_file_write_text(&text, path, diag);
    neap_text_clear(&text);
    return status;
}

/* Two concurrent updates can still lose the times of one; they are then measured again. */
neap_status neap_profile_cache_update(const profile_cache *cache, const char *path, neap_diag *diag)
{
    profile_cache all;
    neap_profile_cache_init(&all, cache->allocator);
    neap_status status = neap_profile_cache_read(&all, path, diag);
    for (size_t i = 0; i < cache->count && status == NEAP_OK; i++)
        status = neap_profile_cache_put(&all, &cache->entries[i], diag);
    if (status == NEAP_OK)
        status = neap_profile_cache_write(&all, path, diag);
    neap_profile_cache_clear(&all);
    return status;
}
