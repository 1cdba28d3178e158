/* neap_onnx_open: the model and its external files, mapped into memory. */
#define _GNU_SOURCE /* realpath */
#include "onnx/file.h"

#include "base/checked.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/memory.h"
#include "onnx/functions.h"
#include "onnx/wire.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct onnx_mapping {
    onnx_mapping *next;
    const char *location; /* as the model names it */
    uint8_t *bytes;
    size_t length;
};

bool neap_onnx_available(void)
{
    return true;
}

/* ---- Mappings ---- */

static neap_status map_file(neap_onnx *file, const char *path, onnx_mapping **result,
                            neap_diag *diag)
{
    onnx_mapping *mapping;
    int descriptor = -1;
    int64_t bytes;
    if (!NEAP_TAKE(&file->arena, 1, mapping))
        return neap_fail_no_memory(diag);
    NEAP_TRY(neap_file_open(path, &descriptor, &bytes, diag));
    mapping->length = (size_t)bytes;
    if (bytes > 0) {
        void *start = mmap(NULL, mapping->length, PROT_READ, MAP_PRIVATE, descriptor, 0);
        mapping->bytes = start == MAP_FAILED ? NULL : start;
    }
    close(descriptor);
    if (bytes > 0 && !mapping->bytes)
        return neap_fail(diag, NEAP_IO, "%s: cannot be mapped into memory: %s", path,
                         strerror(errno));
    *result = mapping;
    return NEAP_OK;
}

static void unmap(onnx_mapping *mapping)
{
    if (mapping && mapping->bytes)
        munmap(mapping->bytes, mapping->length);
}

const uint8_t *neap_onnx_file_bytes(const neap_onnx *file, size_t *length)
{
    *length = file->model->length;
    return file->model->bytes;
}

/* ---- External data ---- */

/* A relative path without ".." that says so on every system. */
static bool stays_below(const char *location)
{
    if (!*location || *location == '/' || strchr(location, '\\') || strchr(location, ':'))
        return false;
    for (const char *part = location; *part;) {
        size_t length = strcspn(part, "/");
        if (length == 2 && part[0] == '.' && part[1] == '.')
            return false;
        part += length + (part[length] == '/');
    }
    return true;
}

static neap_status fail_outside(const neap_onnx *file, const onnx_tensor *tensor, neap_diag *diag)
{
    return neap_fail(diag, NEAP_INVALID,
                     "%s: tensor \"%s\" has its data in \"%s\", outside the model's folder; put "
                     "the file beside the model",
                     file->path, tensor->name, tensor->location);
}

/* The path of external data, with links resolved; NEAP_INVALID if it leads out of the folder. */
static neap_status resolve(const neap_onnx *file, const onnx_tensor *tensor,
                           char resolved[PATH_MAX], neap_diag *diag)
{
    char folder[PATH_MAX];
    neap_text path;
    const char *slash = strrchr(file->path, '/');
    if (!stays_below(tensor->location))
        return fail_outside(file, tensor, diag);
    neap_text_init(&path, file->allocator);
    neap_text_append(&path, slash ? file->path : ".", slash ? (size_t)(slash - file->path) + 1 : 1);
    bool found = path.status == NEAP_OK && realpath(path.text, folder);
    neap_text_putc(&path, '/');
    neap_text_puts(&path, tensor->location);
    found = found && path.status == NEAP_OK && realpath(path.text, resolved);
    neap_status status = path.status;
    int cause = errno;
    neap_text_clear(&path);
    if (status != NEAP_OK)
        return neap_fail_no_memory(diag);
    if (!found)
        return neap_fail(diag, NEAP_IO,
                         "%s: tensor \"%s\": its data file \"%s\" cannot be found: %s", file->path,
                         tensor->name, tensor->location, strerror(cause));
    size_t length = strlen(folder);
    bool root = strcmp(folder, "/") == 0;
    if (!root && (strncmp(resolved, folder, length) != 0 || resolved[length] != '/'))
        return fail_outside(file, tensor, diag);
    return NEAP_OK;
}

/* Few files hold many tensors. */
static neap_status find_external(neap_onnx *file, const onnx_tensor *tensor,
                                 const onnx_mapping **mapping, neap_diag *diag)
{
    char path[PATH_MAX];
    for (onnx_mapping *m = file->external; m; m = m->next)
        if (strcmp(m->location, tensor->location) == 0) {
            *mapping = m;
            return NEAP_OK;
        }
    onnx_mapping *made;
    NEAP_TRY(resolve(file, tensor, path, diag));
    NEAP_TRY(map_file(file, path, &made, diag));
    made->location = tensor->location;
    made->next = file->external;
    file->external = made;
    *mapping = made;
    return NEAP_OK;
}

static neap_status map_tensor(neap_onnx *file, onnx_tensor *tensor, neap_diag *diag)
{
    const onnx_mapping *mapping;
    int64_t bytes, end;
    if (!tensor->location)
        return neap_fail(diag, NEAP_INVALID,
                         "%s: tensor \"%s\" is external but has no location; export the model "
                         "again",
                         file->path, tensor->name);
    NEAP_TRY(find_external(file, tensor, &mapping, diag));
    if (!neap_mul_i64(tensor->elements, neap_onnx_type_bytes(tensor->type), &bytes) ||
        tensor->offset < 0 || !neap_add_i64(tensor->offset, bytes, &end) ||
        (uint64_t)end > mapping->length)
        return neap_fail(diag, NEAP_INVALID,
                         "%s: tensor \"%s\": \"%s\" ends before its data; the file is cut off or "
                         "of another model",
                         file->path, tensor->name, tensor->location);
    if (tensor->length >= 0 && tensor->length != bytes)
        return neap_fail(diag, NEAP_INVALID,
                         "%s: tensor \"%s\" has %lld bytes in \"%s\", its shape needs %lld",
                         file->path, tensor->name, (long long)tensor->length, tensor->location,
                         (long long)bytes);
    tensor->form = FORM_RAW;
    tensor->data = bytes > 0 ? mapping->bytes + tensor->offset : NULL;
    tensor->count = (uint64_t)bytes;
    return NEAP_OK;
}

static neap_status map_tensors(neap_onnx *file, neap_diag *diag)
{
    onnx_proto *proto = &file->proto;
    onnx_tensor *tensors =
        neap_arena_copy(&file->arena, proto->initializers, proto->n_initializers, sizeof *tensors);
    if (!tensors || !NEAP_TAKE(&file->arena, proto->n_initializers, file->is_external))
        return neap_fail_no_memory(diag);
    for (size_t i = 0; i < proto->n_initializers; i++)
        if (tensors[i].form == FORM_EXTERNAL) {
            NEAP_TRY(map_tensor(file, &tensors[i], diag));
            file->is_external[i] = true;
        }
    proto->initializers = tensors;
    return NEAP_OK;
}

/* ---- Opening ---- */

static neap_status read_model(neap_onnx *file, neap_diag *diag)
{
    uint8_t *digest = NULL;
    size_t length = 0, bytes;
    NEAP_TRY(map_file(file, file->path, &file->model, diag));
    const uint8_t *model = neap_onnx_file_bytes(file, &bytes);
    if (bytes == 0)
        return neap_fail(diag, NEAP_INVALID, "%s: not an ONNX file: it is empty", file->path);
    neap_status status =
        neap_onnx_wire_digest(file->allocator, file->path, model, bytes, &digest, &length, diag);
    if (status == NEAP_OK)
        status = neap_onnx_proto_read(&file->arena, file->path, digest, length, model, bytes,
                                      &file->proto, diag);
    NEAP_DELETE(file->allocator, length, digest);
    if (status == NEAP_OK)
        status = neap_onnx_take_constant_weights(&file->arena, &file->proto, diag);
    if (status == NEAP_OK)
        status = neap_onnx_functions_inline(&file->arena, file->path, &file->proto, diag);
    if (status == NEAP_OK)
        status = map_tensors(file, diag);
    return status == NEAP_OK ? neap_onnx_find_open_sizes(file, diag) : status;
}

neap_status neap_onnx_open(neap_allocator *allocator, const char *path, neap_onnx **result,
                           neap_diag *diag)
{
    neap_onnx *file;
    *result = NULL;
    allocator = neap_allocator_or_system(allocator);
    NEAP_TRY(NEAP_NEW(allocator, 1, &file, diag));
    file->allocator = allocator;
    neap_arena_init(&file->arena, allocator);
    file->path = neap_arena_text(&file->arena, path, strlen(path));
    neap_status status = file->path ? read_model(file, diag) : neap_fail_no_memory(diag);
    if (status == NEAP_OK)
        *result = file;
    else
        neap_onnx_close(file);
    return status;
}

void neap_onnx_close(neap_onnx *file)
{
    if (!file)
        return;
    unmap(file->model);
    for (onnx_mapping *m = file->external; m; m = m->next)
        unmap(m);
    neap_arena_clear(&file->arena);
    NEAP_DELETE(file->allocator, 1, file);
}
