/* neap/safetensors.h: files of named tensors, written and read. */
#include "base/checked.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "train/safetensors_internal.h"

#include <neap/text.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Writing ---- */

typedef struct writer {
    neap_allocator *allocator;
    const neap_safetensor *tensors;
    size_t n_tensors;
    neap_text header;
    neap_file_piece *pieces; /* header, then data in the order of the file */
    size_t n_pieces;
    int64_t data_bytes; /* so far */
} writer;

/* Rejects a name that could not be read back unchanged. */
static neap_status check_texts(const writer *w, const neap_metadata *metadata, size_t n_metadata,
                               neap_diag *diag)
{
    for (size_t i = 0; i < w->n_tensors; i++)
        if (!neap_utf8_is_valid(w->tensors[i].name))
            return neap_fail(diag, NEAP_INVALID, "the name of tensor \"%s\" is not UTF-8",
                             w->tensors[i].name);
    for (size_t i = 0; i < n_metadata; i++)
        if (!neap_utf8_is_valid(metadata[i].key) || !neap_utf8_is_valid(metadata[i].value))
            return neap_fail(diag, NEAP_INVALID, "the metadata \"%s\": \"%s\" is not UTF-8",
                             metadata[i].key, metadata[i].value);
    return NEAP_OK;
}

static neap_status tensor_bytes(const neap_safetensor *tensor, int64_t *bytes, neap_diag *diag)
{
    *bytes = neap_dtype_bytes(tensor->dtype);
    if (!neap_safetensors_dtype_of(tensor->dtype))
        return neap_fail(diag, NEAP_INVALID, "tensor \"%s\" has no dtype", tensor->name);
    if (strcmp(tensor->name, "__metadata__") == 0)
        return neap_fail(diag, NEAP_INVALID,
                         "a tensor cannot be called __metadata__, the format's own word");
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (!neap_mul_i64(*bytes, tensor->shape[i], bytes))
            return neap_fail(diag, NEAP_INVALID,
                             "the shape of tensor \"%s\" is negative or too large", tensor->name);
    return NEAP_OK;
}

static void put_comma(writer *w)
{
    if (w->header.length > (size_t)NEAP_SAFETENSORS_LENGTH_BYTES + 1)
        neap_text_putc(&w->header, ',');
}

static void put_metadata(writer *w, const neap_metadata *metadata, size_t n_metadata)
{
    neap_text *out = &w->header;
    if (n_metadata == 0)
        return;
    neap_text_puts(out, "\"__metadata__\":{");
    for (size_t i = 0; i < n_metadata; i++) {
        if (i > 0)
            neap_text_putc(out, ',');
        neap_text_json_string(out, metadata[i].key);
        neap_text_putc(out, ':');
        neap_text_json_string(out, metadata[i].value);
    }
    neap_text_putc(out, '}');
}

static neap_status put_tensor(writer *w, const neap_safetensor *tensor, neap_diag *diag)
{
    neap_text *out = &w->header;
    int64_t bytes, end;
    neap_status status = tensor_bytes(tensor, &bytes, diag);
    if (status != NEAP_OK)
        return status;
    if (!neap_add_i64(w->data_bytes, bytes, &end))
        return neap_fail(diag, NEAP_INVALID, "the tensors together are past 2^63 bytes");
    put_comma(w);
    neap_text_json_string(out, tensor->name);
    neap_text_printf(out, ":{\"dtype\":\"%s\",\"shape\":[",
                     neap_safetensors_dtype_of(tensor->dtype)->name);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (i > 0)
            neap_text_putc(out, ',');
        neap_text_i64(out, tensor->shape[i]);
    }
    neap_text_printf(out, "],\"data_offsets\":[%lld,%lld]}", (long long)w->data_bytes,
                     (long long)end);
    w->pieces[w->n_pieces++] = (neap_file_piece){tensor->data, (size_t)bytes};
    w->data_bytes = end;
    return NEAP_OK;
}

/*
 * Elements of 8 bytes first, then 4, 2, 1: every tensor then has the alignment of the start of the
 * data.
 */
static neap_status put_tensors(writer *w, neap_diag *diag)
{
    for (size_t i = 0; i < w->n_tensors; i++) { /* before any is skipped for its size */
        int64_t bytes;
        neap_status status = tensor_bytes(&w->tensors[i], &bytes, diag);
        if (status != NEAP_OK)
            return status;
    }
    for (int64_t size = 8; size > 0; size /= 2)
        for (size_t i = 0; i < w->n_tensors; i++) {
            if (neap_dtype_bytes(w->tensors[i].dtype) != size)
                continue;
            neap_status status = put_tensor(w, &w->tensors[i], diag);
            if (status != NEAP_OK)
                return status;
        }
    return NEAP_OK;
}

/*
 * Pads the header to eight bytes, puts its length before it, and checks with the reader that it can
 * be read.
 */
static neap_status finish_header(writer *w, const char *path, neap_diag *diag)
{
    neap_text *out = &w->header;
    neap_text_putc(out, '}');
    while (out->status == NEAP_OK && out->length % 8 != 0)
        neap_text_putc(out, ' ');
    if (out->status != NEAP_OK)
        return neap_fail_no_memory(diag);
    size_t length = out->length - (size_t)NEAP_SAFETENSORS_LENGTH_BYTES;
    if ((int64_t)length > NEAP_SAFETENSORS_HEADER_LIMIT)
        return neap_fail(diag, NEAP_INVALID,
                         "%s: the header would be %zu bytes, the format has room for %lld; write "
                         "several files",
                         path, length, (long long)NEAP_SAFETENSORS_HEADER_LIMIT);
    for (size_t i = 0; i < (size_t)NEAP_SAFETENSORS_LENGTH_BYTES; i++)
        out->text[i] = (char)(unsigned char)((uint64_t)length >> 8 * i);
    neap_safetensors_header header;
    neap_status status = neap_safetensors_header_read(&header, w->allocator, path,
                                                      out->text + NEAP_SAFETENSORS_LENGTH_BYTES,
                                                      length, w->data_bytes, diag);
    neap_safetensors_header_clear(&header);
    w->pieces[0] = (neap_file_piece){out->text, out->length};
    return status;
}

static neap_status write_file(const writer *w, const char *path, neap_diag *diag)
{
    neap_diag cause = {0};
    neap_status status = neap_file_write_pieces(w->allocator, path, w->pieces, w->n_pieces, &cause);
    if (status == NEAP_OK)
        return NEAP_OK;
    if (status != NEAP_IO)
        return neap_fail(diag, status, "%s", cause.message);
    char size[32];
    neap_bytes_format((int64_t)w->header.length + w->data_bytes, size, sizeof size);
    return neap_fail(diag, status, "%s; it takes %s, an earlier file is unchanged", cause.message,
                     size);
}

neap_status neap_safetensors_write(neap_allocator *allocator, const char *path,
                                   const neap_safetensor *tensors, size_t n_tensors,
                                   const neap_metadata *metadata, size_t n_metadata,
                                   neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    writer w = {.allocator = allocator, .tensors = tensors, .n_tensors = n_tensors, .n_pieces = 1};
    neap_text_init(&w.header, allocator);
    neap_text_append(&w.header, "\0\0\0\0\0\0\0\0{", (size_t)NEAP_SAFETENSORS_LENGTH_BYTES + 1);
    neap_status status = NEAP_NEW(allocator, n_tensors + 1, &w.pieces, diag);
    if (status != NEAP_OK)
        goto done;
    status = check_texts(&w, metadata, n_metadata, diag);
    if (status != NEAP_OK)
        goto done;
    put_metadata(&w, metadata, n_metadata);
    status = put_tensors(&w, diag);
    if (status == NEAP_OK)
        status = finish_header(&w, path, diag);
    if (status == NEAP_OK)
        status = write_file(&w, path, diag);
done:
    NEAP_DELETE(allocator, n_tensors + 1, w.pieces);
    neap_text_clear(&w.header);
    return status;
}

/* ---- Reading ---- */

struct neap_safetensors {
    neap_allocator *allocator;
    char *path;
    int file;
    neap_safetensors_header header;
};

static neap_status read_header(neap_safetensors *f, int64_t file_bytes, neap_diag *diag)
{
    unsigned char length_bytes[NEAP_SAFETENSORS_LENGTH_BYTES];
    int64_t rest = file_bytes - NEAP_SAFETENSORS_LENGTH_BYTES;
    if (rest < 0)
        return neap_fail(diag, NEAP_INVALID,
                         "%s: only %lld bytes; a safetensors file begins with 8 that give the "
                         "header's length",
                         f->path, (long long)file_bytes);
    neap_status status =
        neap_file_read_at(f->file, f->path, 0, length_bytes, sizeof length_bytes, diag);
    if (status != NEAP_OK)
        return status;
    uint64_t length = 0;
    for (size_t i = sizeof length_bytes; i-- > 0;)
        length = length << 8 | length_bytes[i];
    if (length > (uint64_t)NEAP_SAFETENSORS_HEADER_LIMIT)
        return neap_fail(diag, NEAP_INVALID,
                         "%s: a header of %llu bytes is past the format's limit of %lld; this is "
                         "not a safetensors file",
                         f->path, (unsigned long long)length,
                         (long long)NEAP_SAFETENSORS_HEADER_LIMIT);
    if (length > (uint64_t)rest)
        return neap_fail(diag, NEAP_INVALID,
                         "%s: the header should have %llu bytes, but only %lld follow; the file is "
                         "cut off",
                         f->path, (unsigned long long)length, (long long)rest);
    char *text;
    status = NEAP_NEW(f->allocator, (size_t)length, &text, diag);
    if (status == NEAP_OK)
        status = neap_file_read_at(f->file, f->path, NEAP_SAFETENSORS_LENGTH_BYTES, text,
                                   (size_t)length, diag);
    if (status == NEAP_OK)
        status = neap_safetensors_header_read(&f->header, f->allocator, f->path, text ? text : "",
                                              (size_t)length, rest - (int64_t)length, diag);
    NEAP_DELETE(f->allocator, (size_t)length, text);
    return status;
}

neap_status neap_safetensors_open(neap_allocator *allocator, const char *path,
                                  neap_safetensors **file, neap_diag *diag)
{
    *file = NULL;
    allocator = neap_allocator_or_system(allocator);
    neap_safetensors *f;
    int64_t bytes;
    neap_status status = NEAP_NEW(allocator, 1, &f, diag);
    if (status != NEAP_OK)
        return status;
    f->allocator = allocator;
    f->file = -1;
    f->header.allocator = allocator;
    neap_arena_init(&f->header.arena, allocator);
    status = NEAP_NEW(allocator, strlen(path) + 1, &f->path, diag);
    if (status != NEAP_OK)
        goto done;
    memcpy(f->path, path, strlen(path) + 1);
    status = neap_file_open(path, &f->file, &bytes, diag);
    if (status == NEAP_OK)
        status = read_header(f, bytes, diag);
done:
    if (status != NEAP_OK)
        neap_safetensors_close(f);
    else
        *file = f;
    return status;
}

void neap_safetensors_close(neap_safetensors *file)
{
    if (!file)
        return;
    neap_allocator *allocator = file->allocator;
    neap_safetensors_header_clear(&file->header);
    if (file->file >= 0)
        close(file->file);
    if (file->path)
        NEAP_DELETE(allocator, strlen(file->path) + 1, file->path);
    NEAP_DELETE(allocator, 1, file);
}

size_t neap_safetensors_count(const neap_safetensors *file)
{
    return file->header.n_entries;
}

const neap_safetensors_entry *neap_safetensors_at(const neap_safetensors *file, size_t index)
{
    return &file->header.entries[index];
}

static int name_against_entry(const void *name, const void *entry)
{
    return strcmp(name, ((const neap_safetensors_entry *)entry)->name);
}

const neap_safetensors_entry *neap_safetensors_find(const neap_safetensors *file, const char *name)
{
    if (file->header.n_entries == 0)
        return NULL;
    return bsearch(name, file->header.entries, file->header.n_entries, sizeof *file->header.entries,
                   name_against_entry);
}

neap_status neap_safetensors_read(const neap_safetensors *file, const neap_safetensors_entry *entry,
                                  void *buffer, size_t capacity, neap_diag *diag)
{
    if ((uint64_t)entry->bytes > capacity)
        return neap_fail(diag, NEAP_INVALID, "%s: \"%s\" has %lld bytes, but there is room for %zu",
                         file->path, entry->name, (long long)entry->bytes, capacity);
    return neap_safetensors_read_part(file, entry, 0, buffer, (size_t)entry->bytes, diag);
}

neap_status neap_safetensors_read_part(const neap_safetensors *file,
                                       const neap_safetensors_entry *entry, int64_t begin,
                                       void *buffer, size_t bytes, neap_diag *diag)
{
    return neap_file_read_at(file->file, file->path, entry->offset + begin, buffer, bytes, diag);
}

size_t neap_safetensors_metadata_count(const neap_safetensors *file)
{
    return file->header.n_metadata;
}

const neap_metadata *neap_safetensors_metadata_at(const neap_safetensors *file, size_t index)
{
    return &file->header.metadata[index];
}

const char *neap_safetensors_metadata(const neap_safetensors *file, const char *key)
{
    for (size_t i = 0; i < file->header.n_metadata; i++)
        if (strcmp(file->header.metadata[i].key, key) == 0)
            return file->header.metadata[i].value;
    return NULL;
}
