/* The header of a safetensors file: JSON in, a checked table out. */
#include "base/checked.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/memory.h"
#include "train/safetensors_internal.h"

#include <stdlib.h>
#include <string.h>

static const neap_safetensors_dtype dtypes[] = {
#define DTYPE(name, dtype, bytes) {#name, dtype, bytes},
#include "train/safetensors_dtypes.def"
#undef DTYPE
};

#define N_DTYPES (sizeof dtypes / sizeof *dtypes)

const neap_safetensors_dtype *neap_safetensors_dtype_of(neap_dtype dtype)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (dtypes[i].dtype == dtype && dtype != NEAP_DTYPE_UNKNOWN)
            return &dtypes[i];
    return NULL;
}

/* ---- One tensor ---- */

typedef struct header_reader {
    neap_safetensors_header *header;
    json_reader json;
    int64_t data_start, data_bytes;
    int64_t *extents; /* of the shape being read */
    size_t extent_capacity;
} header_reader;

static const char *keep_text(header_reader *r, json_string text)
{
    const char *copy = neap_arena_text(&r->header->arena, text.text, text.length);
    if (!copy && neap_json_ok(&r->json))
        r->json.status = neap_fail_no_memory(r->json.diag);
    return copy;
}

static const neap_safetensors_dtype *read_dtype(header_reader *r)
{
    json_string name = neap_json_text(&r->json);
    for (size_t i = 0; i < N_DTYPES; i++)
        if (neap_json_key_is(name, dtypes[i].name))
            return &dtypes[i];
    if (name.length > 40) /* do not cut a character in half */
        name = (json_string){"...", 3};
    neap_json_fail(&r->json, "\"%.*s\" is not a dtype of the format, such as F32 or I64",
                   (int)name.length, name.text);
    return NULL;
}

static void read_shape(header_reader *r, neap_safetensors_entry *entry)
{
    size_t rank = 0;
    neap_json_begin_array(&r->json);
    while (neap_json_next_item(&r->json)) {
        int64_t extent = neap_json_i64(&r->json);
        if (!neap_json_ok(&r->json))
            return;
        if (extent < 0) {
            neap_json_fail(&r->json, "the extents of a shape cannot be negative");
            return;
        }
        neap_status status = NEAP_RESERVE(r->header->allocator, rank + 1, &r->extents,
                                          &r->extent_capacity, r->json.diag);
        if (status != NEAP_OK) {
            r->json.status = status;
            return;
        }
        r->extents[rank++] = extent;
    }
    if (!neap_json_ok(&r->json) || rank == 0)
        return;
    entry->rank = (uint32_t)rank; /* fits: the header is at most 100 MB */
    entry->shape = neap_arena_copy(&r->header->arena, r->extents, rank, sizeof *r->extents);
    if (!entry->shape)
        r->json.status = neap_fail_no_memory(r->json.diag);
}

static void read_offsets(header_reader *r, neap_safetensors_entry *entry)
{
    json_reader *json = &r->json;
    int64_t ends[2] = {0, 0};
    int count = 0;
    neap_json_begin_array(json);
    while (neap_json_next_item(json) && count < 3) {
        int64_t offset = neap_json_i64(json);
        if (count < 2)
            ends[count] = offset;
        count++;
    }
    if (!neap_json_ok(json))
        return;
    if (count != 2)
        neap_json_fail(json, "data_offsets has two numbers, the begin and the end");
    else if (ends[0] < 0 || ends[1] < ends[0])
        neap_json_fail(json,
                       "data_offsets must be a begin of 0 or more and an end that is not before");
    else if (ends[1] > r->data_bytes)
        neap_json_fail(json,
                       "data_offsets end at %lld, but the file has %lld bytes of data; cut off?",
                       (long long)ends[1], (long long)r->data_bytes);
    entry->offset = r->data_start + ends[0];
    entry->bytes = ends[1] - ends[0];
}

static void check_size(header_reader *r, const neap_safetensors_dtype *dtype,
                       const neap_safetensors_entry *entry)
{
    int64_t bytes = dtype->bytes;
    for (uint32_t i = 0; i < entry->rank; i++)
        if (!neap_mul_i64(bytes, entry->shape[i], &bytes)) {
            neap_json_fail(&r->json, "the shape of \"%s\" is past 2^63 bytes", entry->name);
            return;
        }
    if (bytes != entry->bytes)
        neap_json_fail(&r->json, "\"%s\" has %lld bytes of data, but its shape of %s makes %lld",
                       entry->name, (long long)entry->bytes, dtype->name, (long long)bytes);
}

static void read_entry(header_reader *r, json_string key)
{
    enum { DTYPE_SEEN = 1, SHAPE_SEEN = 2, OFFSETS_SEEN = 4, ALL_SEEN = 7 };
    neap_safetensors_header *header = r->header;
    json_reader *json = &r->json;
    neap_safetensors_entry entry = {.name = keep_text(r, key)};
    const neap_safetensors_dtype *dtype = NULL;
    uint32_t seen = 0;
    json_string field;
    neap_json_begin_object(json);
    while (neap_json_next_key(json, &field))
        if (neap_json_key_is(field, "dtype")) {
            neap_json_once(json, &seen, DTYPE_SEEN, "dtype");
            dtype = read_dtype(r);
        } else if (neap_json_key_is(field, "shape")) {
            neap_json_once(json, &seen, SHAPE_SEEN, "shape");
            read_shape(r, &entry);
        } else if (neap_json_key_is(field, "data_offsets")) {
            neap_json_once(json, &seen, OFFSETS_SEEN, "data_offsets");
            read_offsets(r, &entry);
        } else {
            neap_json_skip(json, NULL);
        }
    if (!neap_json_ok(json))
        return;
    if (seen != ALL_SEEN || !dtype) {
        neap_json_fail(json, "\"%s\" lacks its dtype, shape or data_offsets", entry.name);
        return;
    }
    entry.dtype = dtype->dtype;
    entry.dtype_name = dtype->name;
    check_size(r, dtype, &entry);
    if (!neap_json_ok(json))
        return;
    neap_status status = NEAP_RESERVE(header->allocator, header->n_entries + 1, &header->entries,
                                      &header->entry_capacity, json->diag);
    if (status != NEAP_OK)
        json->status = status;
    else
        header->entries[header->n_entries++] = entry;
}

/* ---- The whole ---- */

static void read_metadata(header_reader *r)
{
    neap_safetensors_header *header = r->header;
    json_reader *json = &r->json;
    json_string key;
    neap_json_begin_object(json);
    while (neap_json_next_key(json, &key)) {
        neap_metadata item;
        item.key = keep_text(r, key);
        item.value = keep_text(r, neap_json_text(json));
        if (!neap_json_ok(json))
            return;
        neap_status status =
            NEAP_RESERVE(header->allocator, header->n_metadata + 1, &header->metadata,
                         &header->metadata_capacity, json->diag);
        if (status != NEAP_OK) {
            json->status = status;
            return;
        }
        header->metadata[header->n_metadata++] = item;
    }
}

static void read_all(header_reader *r)
{
    json_reader *json = &r->json;
    json_string key;
    uint32_t seen = 0;
    neap_json_begin_object(json);
    while (neap_json_next_key(json, &key))
        if (neap_json_key_is(key, "__metadata__")) {
            neap_json_once(json, &seen, 1, "__metadata__");
            read_metadata(r);
        } else {
            read_entry(r, key);
        }
    if (neap_json_ok(json))
        neap_json_end(json);
}

static int by_name(const void *a, const void *b)
{
    const neap_safetensors_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int by_key(const void *a, const void *b)
{
    const neap_metadata *x = a, *y = b;
    return strcmp(x->key, y->key);
}

/* Ties are ordered by end, so that empty tensors come before one that begins at the same offset. */
static int by_offset(const void *a, const void *b)
{
    const neap_safetensors_entry *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Checks that the data fill the file: each tensor begins where the one before it ended. */
static neap_status check_places(const header_reader *r, const char *source, neap_diag *diag)
{
    const neap_safetensors_header *header = r->header;
    int64_t at = r->data_start;
    if (header->n_entries > 0)
        qsort(header->entries, header->n_entries, sizeof *header->entries, by_offset);
    for (size_t i = 0; i < header->n_entries; i++) {
        const neap_safetensors_entry *entry = &header->entries[i];
        if (entry->offset < at)
            return neap_fail(diag, NEAP_INVALID, "%s: the data of \"%s\" and \"%s\" overlap",
                             source, header->entries[i - 1].name, entry->name);
        if (entry->offset > at)
            return neap_fail(diag, NEAP_INVALID,
                             "%s: %lld bytes before the data of \"%s\" belong to no tensor", source,
                             (long long)(entry->offset - at), entry->name);
        at += entry->bytes;
    }
    if (at != r->data_start + r->data_bytes)
        return neap_fail(diag, NEAP_INVALID, "%s: the last %lld bytes belong to no tensor", source,
                         (long long)(r->data_start + r->data_bytes - at));
    return NEAP_OK;
}

static neap_status check_names(neap_safetensors_header *header, const char *source, neap_diag *diag)
{
    if (header->n_entries > 0)
        qsort(header->entries, header->n_entries, sizeof *header->entries, by_name);
    if (header->n_metadata > 0)
        qsort(header->metadata, header->n_metadata, sizeof *header->metadata, by_key);
    for (size_t i = 1; i < header->n_entries; i++)
        if (by_name(&header->entries[i - 1], &header->entries[i]) == 0)
            return neap_fail(diag, NEAP_INVALID, "%s: two tensors have the name \"%s\"", source,
                             header->entries[i].name);
    for (size_t i = 1; i < header->n_metadata; i++)
        if (by_key(&header->metadata[i - 1], &header->metadata[i]) == 0)
            return neap_fail(diag, NEAP_INVALID, "%s: __metadata__ has the key \"%s\" twice",
                             source, header->metadata[i].key);
    return NEAP_OK;
}

neap_status neap_safetensors_header_read(neap_safetensors_header *header, neap_allocator *allocator,
                                         const char *source, const char *text, size_t length,
                                         int64_t data_bytes, neap_diag *diag)
{
    *header = (neap_safetensors_header){.allocator = allocator};
    neap_arena_init(&header->arena, allocator);
    header_reader r = {.header = header,
                       .data_start = NEAP_SAFETENSORS_LENGTH_BYTES + (int64_t)length,
                       .data_bytes = data_bytes};
    neap_json_init(&r.json, allocator, source, text, length, diag);
    read_all(&r);
    neap_status status = r.json.status;
    neap_json_clear(&r.json);
    NEAP_DELETE(allocator, r.extent_capacity, r.extents);
    if (status == NEAP_OK)
        status = check_names(header, source, diag);
    if (status == NEAP_OK)
        status = check_places(&r, source, diag);
    if (status == NEAP_OK)
        status = check_names(header, source, diag); /* back in the order of names */
    return status;
}

void neap_safetensors_header_clear(neap_safetensors_header *header)
{
    neap_arena_clear(&header->arena);
    NEAP_DELETE(header->allocator, header->entry_capacity, header->entries);
    NEAP_DELETE(header->allocator, header->metadata_capacity, header->metadata);
}
