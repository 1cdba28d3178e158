/* neap_onnx_write: the model again, with other weights. */
#include "onnx/import.h"

#include "base/fail.h"
#include "base/file.h"
#include "base/memory.h"
#include "onnx/wire.h"

#include <neap/text.h>

#include <stdlib.h>
#include <string.h>

/* All patches, by name; and the new payloads. */
typedef struct writer {
    neap_allocator *allocator;
    neap_arena arena;
    const neap_onnx_binding *binding;
    wire_patch *patches; /* one for each initializer */
    wire_patch **sorted;
    size_t count;
    neap_diag *diag;
} writer;

/* ---- Patches by name ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp((*(wire_patch *const *)a)->name, (*(wire_patch *const *)b)->name);
}

typedef struct name_range {
    const char *name;
    size_t length;
} name_range;

static int against_name(const void *key, const void *item)
{
    const name_range *range = key;
    const char *name = (*(wire_patch *const *)item)->name;
    int order = strncmp(range->name, name, range->length);
    return order != 0 ? order : name[range->length] ? -1 : 0;
}

static const wire_patch *find_patch(const void *context, const char *name, size_t length)
{
    const writer *w = context;
    name_range range = {name, length};
    if (w->count == 0 || memchr(name, '\0', length))
        return NULL;
    wire_patch *const *found =
        bsearch(&range, w->sorted, w->count, sizeof *w->sorted, against_name);
    return found ? *found : NULL;
}

/* ---- Payloads ---- */

/* The elements of a parameter, in the order and type of the file. */
static neap_status encode(writer *w, const onnx_parameter *parameter, const float *numbers,
                          wire_patch *patch)
{
    const onnx_tensor *tensor = &w->binding->file->proto.initializers[parameter->initializer];
    size_t width = (size_t)neap_onnx_type_bytes(tensor->type);
    uint8_t *payload = neap_arena_alloc(&w->arena, (size_t)tensor->elements, width);
    onnx_walk walk;
    if (!payload)
        return neap_fail_no_memory(w->diag);
    neap_onnx_walk_begin(&walk, parameter);
    for (int64_t i = 0; i < tensor->elements; i++) {
        uint8_t bytes[8];
        neap_onnx_encode(tensor->type, (double)numbers[i], bytes);
        memcpy(payload + (size_t)neap_onnx_walk_next(&walk) * width, bytes, width);
    }
    patch->payload = payload;
    patch->length = (size_t)tensor->elements * width;
    return NEAP_OK;
}

static neap_status read_parameter(writer *w, const onnx_parameter *parameter,
                                  neap_onnx_weights *weights)
{
    const onnx_tensor *tensor = &w->binding->file->proto.initializers[parameter->initializer];
    float *numbers;
    NEAP_TRY(NEAP_NEW(w->allocator, (size_t)tensor->elements, &numbers, w->diag));
    neap_status status =
        weights->read(weights, parameter->name, numbers, tensor->elements, w->diag);
    if (status == NEAP_OK)
        status = encode(w, parameter, numbers, &w->patches[parameter->initializer]);
    NEAP_DELETE(w->allocator, (size_t)tensor->elements, numbers);
    return status;
}

/* A tensor that is another one, perhaps turned, gets its new payload from there. */
static neap_status copy_tied(writer *w, size_t index)
{
    const onnx_tie *tie = &w->binding->ties[index];
    const onnx_tensor *tensor = &w->binding->file->proto.initializers[index];
    const wire_patch *from = &w->patches[tie->to];
    if (!from->payload)
        return NEAP_OK;
    size_t width = (size_t)neap_onnx_type_bytes(tensor->type);
    size_t rows = (size_t)tensor->dims[0], columns = (size_t)tensor->dims[1];
    uint8_t *payload = neap_arena_copy(&w->arena, from->payload, from->length, 1);
    if (!payload)
        return neap_fail_no_memory(w->diag);
    for (size_t r = 0; tie->turned && r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            memcpy(payload + (r * columns + c) * width,
                   (const uint8_t *)from->payload + (c * rows + r) * width, width);
    w->patches[index].payload = payload;
    w->patches[index].length = from->length;
    return NEAP_OK;
}

static neap_status make_patches(writer *w, neap_onnx_weights *weights)
{
    const onnx_proto *proto = &w->binding->file->proto;
    w->count = proto->n_initializers;
    if (!NEAP_TAKE(&w->arena, w->count, w->patches) || !NEAP_TAKE(&w->arena, w->count, w->sorted))
        return neap_fail_no_memory(w->diag);
    for (size_t i = 0; i < w->count; i++) {
        w->patches[i].name = proto->initializers[i].name;
        w->sorted[i] = &w->patches[i];
    }
    qsort(w->sorted, w->count, sizeof *w->sorted, by_name);
    for (size_t i = 0; i < w->binding->n_parameters; i++)
        NEAP_TRY(read_parameter(w, &w->binding->parameters[i], weights));
    for (size_t i = 0; i < w->count; i++)
        if (w->binding->ties[i].to != NEAP_NONE)
            NEAP_TRY(copy_tied(w, i));
    return NEAP_OK;
}

/* ---- External data ---- */

/* Tensors begin at multiples of this, so that they can be mapped. */
enum { EXTERNAL_ALIGNMENT = 64 };

/* All external tensors, trained or not, go to one file, and the model points there. */
static neap_status write_external(writer *w, const char *path)
{
    static const char zeros[EXTERNAL_ALIGNMENT] = {0};
    const neap_onnx *file = w->binding->file;
    const char *slash = strrchr(path, '/');
    neap_file_piece *pieces;
    size_t n_pieces = 0;
    int64_t offset = 0;
    neap_text name;
    neap_text_init(&name, w->allocator);
    neap_text_printf(&name, "%s.data", path);
    const char *whole =
        name.status == NEAP_OK ? neap_arena_text(&w->arena, name.text, name.length) : NULL;
    neap_text_clear(&name);
    if (!whole || !NEAP_TAKE(&w->arena, 2 * w->count, pieces))
        return neap_fail_no_memory(w->diag);
    for (size_t i = 0; i < w->count; i++) {
        wire_patch *patch = &w->patches[i];
        const onnx_tensor *tensor = &file->proto.initializers[i];
        if (!file->is_external[i])
            continue;
        size_t length = (size_t)tensor->count, pad = (size_t)(-offset & (EXTERNAL_ALIGNMENT - 1));
        pieces[n_pieces++] = (neap_file_piece){zeros, pad};
        pieces[n_pieces++] =
            (neap_file_piece){patch->payload ? patch->payload : tensor->data, length};
        patch->payload = NULL; /* it is not in the model itself */
        patch->location = whole + (slash ? slash + 1 - path : 0);
        patch->offset = offset + (int64_t)pad;
        patch->bytes = (int64_t)length;
        offset = patch->offset + patch->bytes;
    }
    return n_pieces > 0 ? neap_file_write_pieces(w->allocator, whole, pieces, n_pieces, w->diag)
                        : NEAP_OK;
}

neap_status neap_onnx_write(const neap_onnx_binding *binding, const char *path,
                            neap_onnx_weights *weights, neap_diag *diag)
{
    writer w = {.allocator = binding->allocator, .binding = binding, .diag = diag};
    wire_pieces pieces = {.allocator = binding->allocator};
    size_t length;
    const uint8_t *bytes = neap_onnx_file_bytes(binding->file, &length);
    neap_arena_init(&w.arena, w.allocator);
    neap_arena_init(&pieces.arena, w.allocator);
    neap_status status = make_patches(&w, weights);
    if (status == NEAP_OK)
        status = write_external(&w, path);
    if (status == NEAP_OK)
        status = neap_onnx_wire_patch(w.allocator, binding->file->path, bytes, length, find_patch,
                                      &w, &pieces, diag);
    if (status == NEAP_OK)
        status = neap_file_write_pieces(w.allocator, path, pieces.items, pieces.count, diag);
    neap_onnx_wire_clear(&pieces);
    neap_arena_clear(&w.arena);
    return status;
}
