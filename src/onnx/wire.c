/*
 * See wire.h. One recursive walk serves both purposes: it appends pieces to a list, and where a
 * message inside changes its length, the piece with that length is filled in once the message is
 * complete.
 */
#include "onnx/wire.h"

#include "base/fail.h"
#include "base/memory.h"

#include <string.h>

/* ---- The messages that matter ---- */

typedef enum wire_kind {
    KIND_MODEL,
    KIND_GRAPH,
    KIND_NODE,
    KIND_ATTRIBUTE,
    KIND_TENSOR,
    KIND_ENTRY,
    KIND_VALUE_INFO,
    KIND_TYPE,
    KIND_TENSOR_TYPE,
    KIND_SHAPE,
    KIND_DIMENSION,
    KIND_OPSET,
    KIND_FUNCTION,
    KIND_NONE /* a field without messages inside */
} wire_kind;

/* Fields that a digest keeps, by their numbers in onnx.proto. */
static const struct wire_rule {
    wire_kind message;
    uint32_t field;
    wire_kind child;
} rules[] = {
    {KIND_MODEL, 1, KIND_NONE},        /* ir_version */
    {KIND_MODEL, 2, KIND_NONE},        /* producer_name */
    {KIND_MODEL, 7, KIND_GRAPH},       /* graph */
    {KIND_MODEL, 8, KIND_OPSET},       /* opset_import */
    {KIND_MODEL, 25, KIND_FUNCTION},   /* functions */
    {KIND_GRAPH, 1, KIND_NODE},        /* node */
    {KIND_GRAPH, 2, KIND_NONE},        /* name */
    {KIND_GRAPH, 5, KIND_TENSOR},      /* initializer */
    {KIND_GRAPH, 11, KIND_VALUE_INFO}, /* input */
    {KIND_GRAPH, 12, KIND_VALUE_INFO}, /* output */
    {KIND_NODE, 1, KIND_NONE},         /* input */
    {KIND_NODE, 2, KIND_NONE},         /* output */
    {KIND_NODE, 3, KIND_NONE},         /* name */
    {KIND_NODE, 4, KIND_NONE},         /* op_type */
    {KIND_NODE, 5, KIND_ATTRIBUTE},    /* attribute */
    {KIND_NODE, 7, KIND_NONE},         /* domain */
    {KIND_NODE, 8, KIND_NONE},         /* overload */
    {KIND_ATTRIBUTE, 1, KIND_NONE},    /* name */
    {KIND_ATTRIBUTE, 2, KIND_NONE},    /* f */
    {KIND_ATTRIBUTE, 3, KIND_NONE},    /* i */
    {KIND_ATTRIBUTE, 4, KIND_NONE},    /* s */
    {KIND_ATTRIBUTE, 5, KIND_TENSOR},  /* t */
    {KIND_ATTRIBUTE, 7, KIND_NONE},    /* floats */
    {KIND_ATTRIBUTE, 8, KIND_NONE},    /* ints */
    {KIND_ATTRIBUTE, 9, KIND_NONE},    /* strings */
    {KIND_ATTRIBUTE, 21, KIND_NONE},   /* ref_attr_name */
    {KIND_TENSOR, 1, KIND_NONE},       /* dims */
    {KIND_TENSOR, 2, KIND_NONE},       /* data_type */
    {KIND_TENSOR, 4, KIND_NONE},       /* float_data */
    {KIND_TENSOR, 5, KIND_NONE},       /* int32_data */
    {KIND_TENSOR, 7, KIND_NONE},       /* int64_data */
    {KIND_TENSOR, 8, KIND_NONE},       /* name */
    {KIND_TENSOR, 9, KIND_NONE},       /* raw_data: its place */
    {KIND_TENSOR, 10, KIND_NONE},      /* double_data */
    {KIND_TENSOR, 11, KIND_NONE},      /* uint64_data */
    {KIND_TENSOR, 13, KIND_ENTRY},     /* external_data */
    {KIND_TENSOR, 14, KIND_NONE},      /* data_location */
    {KIND_ENTRY, 1, KIND_NONE},        /* key */
    {KIND_ENTRY, 2, KIND_NONE},        /* value */
    {KIND_VALUE_INFO, 1, KIND_NONE},   /* name */
    {KIND_VALUE_INFO, 2, KIND_TYPE},   /* type */
    {KIND_TYPE, 1, KIND_TENSOR_TYPE},  /* tensor_type */
    {KIND_TENSOR_TYPE, 1, KIND_NONE},  /* elem_type */
    {KIND_TENSOR_TYPE, 2, KIND_SHAPE}, /* shape */
    {KIND_SHAPE, 1, KIND_DIMENSION},   /* dim */
    {KIND_DIMENSION, 1, KIND_NONE},    /* dim_value */
    {KIND_DIMENSION, 2, KIND_NONE},    /* dim_param */
    {KIND_OPSET, 1, KIND_NONE},        /* domain */
    {KIND_OPSET, 2, KIND_NONE},        /* version */

    {KIND_FUNCTION, 1, KIND_NONE},       /* name */
    {KIND_FUNCTION, 4, KIND_NONE},       /* input */
    {KIND_FUNCTION, 5, KIND_NONE},       /* output */
    {KIND_FUNCTION, 7, KIND_NODE},       /* node */
    {KIND_FUNCTION, 9, KIND_OPSET},      /* opset_import */
    {KIND_FUNCTION, 10, KIND_NONE},      /* domain */
    {KIND_FUNCTION, 11, KIND_ATTRIBUTE}, /* attribute_proto */
    {KIND_FUNCTION, 13, KIND_NONE},      /* overload */
};

enum {
    FIELD_MODEL_GRAPH = 7,
    FIELD_GRAPH_NODE = 1,
    FIELD_GRAPH_INITIALIZER = 5,
    FIELD_NODE_OUTPUT = 2,
    FIELD_NODE_TYPE = 4,
    FIELD_NODE_ATTRIBUTE = 5,
    FIELD_ATTRIBUTE_TENSOR = 5,
    FIELD_TENSOR_NAME = 8,
    FIELD_TENSOR_RAW = 9,
    FIELD_TENSOR_EXTERNAL = 13,
    MOST_FIELD = 32
};

/* Fields of a tensor that hold its elements. */
static bool holds_elements(uint32_t field)
{
    return field == 4 || field == 5 || field == 6 || field == 7 || field == FIELD_TENSOR_RAW ||
           field == 10 || field == 11;
}

typedef struct walker {
    wire_pieces *out;
    const char *source;
    const uint8_t *file, *end;
    wire_find *find; /* NULL: makes a digest */
    const void *patches;
    int8_t children[KIND_NONE][MOST_FIELD]; /* of rules: the child's kind; -1: not kept */
    uint64_t written;                       /* bytes of all pieces */
    neap_diag *diag;
} walker;

static void load_rules(walker *w)
{
    memset(w->children, -1, sizeof w->children);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        w->children[rules[i].message][rules[i].field] = (int8_t)rules[i].child;
}

/* ---- Reading ---- */

/* A field: its number, what it holds, and all of it from its tag on. */
typedef struct wire_field {
    uint32_t number;
    uint32_t type; /* 0 varint, 1 eight bytes, 2 length and contents, 5 four bytes */
    const uint8_t *begin, *contents, *end;
} wire_field;

static neap_status fail_at(const walker *w, const uint8_t *at, const char *what)
{
    return neap_fail(w->diag, NEAP_INVALID,
                     "%s: not an ONNX file, or a damaged one: %s at byte %llu", w->source, what,
                     (unsigned long long)(at - w->file));
}

/* False for one that does not end, or does not fit 64 bits. */
static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 70 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        if (shift == 63 && byte > 1)
            return false;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static neap_status read_field(const walker *w, const uint8_t **at, const uint8_t *end,
                              wire_field *field)
{
    uint64_t tag, length = 0;
    field->begin = *at;
    if (!read_varint(at, end, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
        return fail_at(w, field->begin, "no field's tag");
    field->number = (uint32_t)(tag >> 3);
    field->type = (uint32_t)(tag & 7);
    field->contents = *at;
    switch (field->type) {
    case 0:
        if (!read_varint(at, end, &length))
            return fail_at(w, field->begin, "a number that does not end");
        field->end = *at;
        return NEAP_OK;
    case 1:
        length = 8;
        break;
    case 2:
        if (!read_varint(at, end, &length))
            return fail_at(w, field->begin, "a length that does not end");
        field->contents = *at;
        break;
    case 5:
        length = 4;
        break;
    default:
        return fail_at(w, field->begin, "a field of a type that ONNX does not use");
    }
    if (length > (uint64_t)(end - *at))
        return fail_at(w, field->begin, "a field that is longer than what is left");
    *at += length;
    field->end = *at;
    return NEAP_OK;
}

/* ---- Writing pieces ---- */

static neap_status put(walker *w, const void *data, size_t length)
{
    wire_pieces *out = w->out;
    neap_file_piece *last = out->count > 0 ? &out->items[out->count - 1] : NULL;
    w->written += length;
    if (length == 0)
        return NEAP_OK;
    bool of_file = (const uint8_t *)data >= w->file && (const uint8_t *)data < w->end;
    if (of_file && last && (const uint8_t *)last->data + last->length == (const uint8_t *)data) {
        last->length += length; /* what follows each other in the file stays one piece */
        return NEAP_OK;
    }
    neap_status status =
        NEAP_RESERVE(out->allocator, out->count + 1, &out->items, &out->capacity, w->diag);
    if (status == NEAP_OK)
        out->items[out->count++] = (neap_file_piece){data, length};
    return status;
}

static size_t encode_varint(uint8_t *bytes, uint64_t value)
{
    size_t length = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[length++] = (uint8_t)(value | 0x80);
    bytes[length++] = (uint8_t)value;
    return length;
}

/* A copy of a few bytes as a piece of its own. */
static neap_status put_copy(walker *w, const void *bytes, size_t length)
{
    void *copy = neap_arena_copy(&w->out->arena, bytes, length, 1);
    return copy ? put(w, copy, length) : neap_fail_no_memory(w->diag);
}

static neap_status put_varint(walker *w, uint64_t value)
{
    uint8_t bytes[10];
    return put_copy(w, bytes, encode_varint(bytes, value));
}

/* The tag and length of a field with contents. */
static neap_status put_head(walker *w, uint32_t field, uint64_t length)
{
    uint8_t bytes[20];
    size_t tag = encode_varint(bytes, (uint64_t)field << 3 | 2);
    return put_copy(w, bytes, tag + encode_varint(bytes + tag, length));
}

static neap_status walk(walker *w, wire_kind kind, const uint8_t *at, const uint8_t *end);

/* A message whose length is known only after its fields. */
static neap_status put_message(walker *w, const wire_field *field,
                               neap_status (*fill)(walker *w, const wire_field *field,
                                                   const void *context),
                               const void *context)
{
    NEAP_TRY(put_varint(w, (uint64_t)field->number << 3 | 2));
    uint8_t *bytes = neap_arena_alloc(&w->out->arena, 10, 1);
    if (!bytes)
        return neap_fail_no_memory(w->diag);
    size_t place = w->out->count;
    NEAP_TRY(put(w, bytes, 10)); /* a place for the length */
    uint64_t before = w->written;
    NEAP_TRY(fill(w, field, context));
    size_t used = encode_varint(bytes, w->written - before);
    w->out->items[place].length = used;
    w->written -= 10 - used;
    return NEAP_OK;
}

/* ---- Digests ---- */

static neap_status fill_digest(walker *w, const wire_field *field, const void *context)
{
    return walk(w, *(const wire_kind *)context, field->contents, field->end);
}

static neap_status digest_field(walker *w, wire_kind kind, const wire_field *field)
{
    int child = field->number < MOST_FIELD ? w->children[kind][field->number] : -1;
    if (child < 0)
        return NEAP_OK;
    if (kind == KIND_TENSOR && field->number == FIELD_TENSOR_RAW) {
        if (field->type != 2)
            return fail_at(w, field->begin, "raw_data without contents");
        wire_place place = {(uint64_t)(field->contents - w->file),
                            (uint64_t)(field->end - field->contents)};
        NEAP_TRY(put_head(w, FIELD_TENSOR_RAW, sizeof place));
        return put_copy(w, &place, sizeof place);
    }
    if (child == KIND_NONE)
        return put(w, field->begin, (size_t)(field->end - field->begin));
    if (field->type != 2)
        return fail_at(w, field->begin, "a number where a message belongs");
    wire_kind inner = (wire_kind)child;
    return put_message(w, field, fill_digest, &inner);
}

/* ---- Patches ---- */

static neap_status put_entry(walker *w, const char *key, const char *value)
{
    size_t keys = strlen(key), values = strlen(value);
    uint8_t bytes[10];
    uint64_t inner = 2 + keys + 1 + encode_varint(bytes, values) + values; /* keys are short */
    NEAP_TRY(put_head(w, FIELD_TENSOR_EXTERNAL, inner));
    NEAP_TRY(put_head(w, 1, keys));
    NEAP_TRY(put_copy(w, key, keys));
    NEAP_TRY(put_head(w, 2, values));
    return put_copy(w, value, values);
}

static neap_status put_number_entry(walker *w, const char *key, int64_t number)
{
    neap_text text;
    neap_text_init(&text, w->out->allocator);
    neap_text_i64(&text, number);
    neap_status status = text.status == NEAP_OK ? put_entry(w, key, neap_text_get(&text))
                                                : neap_fail_no_memory(w->diag);
    neap_text_clear(&text);
    return status;
}

/* The elements come where the old raw_data were, or at the end where they had another form. */
static neap_status fill_patched(walker *w, const wire_field *tensor, const void *context)
{
    const wire_patch *patch = context;
    const uint8_t *at = tensor->contents;
    bool written = !patch->payload;
    while (at < tensor->end) {
        wire_field field;
        NEAP_TRY(read_field(w, &at, tensor->end, &field));
        if (patch->location && field.number == FIELD_TENSOR_EXTERNAL)
            continue;
        if (patch->payload && holds_elements(field.number)) {
            if (field.number != FIELD_TENSOR_RAW || written)
                continue;
            NEAP_TRY(put_head(w, FIELD_TENSOR_RAW, patch->length));
            NEAP_TRY(put(w, patch->payload, patch->length));
            written = true;
            continue;
        }
        NEAP_TRY(put(w, field.begin, (size_t)(field.end - field.begin)));
    }
    if (!written) {
        NEAP_TRY(put_head(w, FIELD_TENSOR_RAW, patch->length));
        NEAP_TRY(put(w, patch->payload, patch->length));
    }
    if (!patch->location)
        return NEAP_OK;
    NEAP_TRY(put_entry(w, "location", patch->location));
    NEAP_TRY(put_number_entry(w, "offset", patch->offset));
    return put_number_entry(w, "length", patch->bytes);
}

static bool is_text(const wire_field *field, const char *text)
{
    size_t length = (size_t)(field->end - field->contents);
    return field->type == 2 && length == strlen(text) && memcmp(field->contents, text, length) == 0;
}

static bool changes(const wire_patch *patch)
{
    return patch && (patch->payload || patch->location);
}

/* The tensor of a Constant node's attribute, and what is around it. */
static neap_status fill_attribute(walker *w, const wire_field *attribute, const void *context)
{
    const uint8_t *at = attribute->contents;
    while (at < attribute->end) {
        wire_field field;
        NEAP_TRY(read_field(w, &at, attribute->end, &field));
        if (field.number == FIELD_ATTRIBUTE_TENSOR && field.type == 2)
            NEAP_TRY(put_message(w, &field, fill_patched, context));
        else
            NEAP_TRY(put(w, field.begin, (size_t)(field.end - field.begin)));
    }
    return NEAP_OK;
}

static neap_status fill_constant(walker *w, const wire_field *node, const void *context)
{
    const uint8_t *at = node->contents;
    while (at < node->end) {
        wire_field field;
        NEAP_TRY(read_field(w, &at, node->end, &field));
        if (field.number == FIELD_NODE_ATTRIBUTE && field.type == 2)
            NEAP_TRY(put_message(w, &field, fill_attribute, context));
        else
            NEAP_TRY(put(w, field.begin, (size_t)(field.end - field.begin)));
    }
    return NEAP_OK;
}

/* A weight that is a Constant node has the name of its output. */
static neap_status patch_node(walker *w, const wire_field *node)
{
    const uint8_t *at = node->contents;
    const wire_patch *patch = NULL;
    bool constant = false;
    while (at < node->end) {
        wire_field field;
        NEAP_TRY(read_field(w, &at, node->end, &field));
        if (field.number == FIELD_NODE_TYPE)
            constant = is_text(&field, "Constant");
        else if (field.number == FIELD_NODE_OUTPUT && field.type == 2)
            patch = w->find(w->patches, (const char *)field.contents,
                            (size_t)(field.end - field.contents));
    }
    return constant && changes(patch) ? put_message(w, node, fill_constant, patch)
                                      : put(w, node->begin, (size_t)(node->end - node->begin));
}

static neap_status patch_initializer(walker *w, const wire_field *tensor)
{
    const uint8_t *at = tensor->contents;
    const wire_patch *patch = NULL;
    while (at < tensor->end) {
        wire_field field;
        NEAP_TRY(read_field(w, &at, tensor->end, &field));
        if (field.number == FIELD_TENSOR_NAME && field.type == 2)
            patch = w->find(w->patches, (const char *)field.contents,
                            (size_t)(field.end - field.contents));
    }
    if (!changes(patch))
        return put(w, tensor->begin, (size_t)(tensor->end - tensor->begin));
    return put_message(w, tensor, fill_patched, patch);
}

static neap_status fill_graph(walker *w, const wire_field *field, const void *context)
{
    (void)context;
    return walk(w, KIND_GRAPH, field->contents, field->end);
}

static neap_status patch_field(walker *w, wire_kind kind, const wire_field *field)
{
    if (kind == KIND_MODEL && field->number == FIELD_MODEL_GRAPH && field->type == 2)
        return put_message(w, field, fill_graph, NULL);
    if (kind == KIND_GRAPH && field->number == FIELD_GRAPH_INITIALIZER && field->type == 2)
        return patch_initializer(w, field);
    if (kind == KIND_GRAPH && field->number == FIELD_GRAPH_NODE && field->type == 2)
        return patch_node(w, field);
    return put(w, field->begin, (size_t)(field->end - field->begin));
}

/* ---- The walk ---- */

/* The rules have no cycle, so the recursion is as deep as the rules at most. */
static neap_status walk(walker *w, wire_kind kind, const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        wire_field field;
        NEAP_TRY(read_field(w, &at, end, &field));
        NEAP_TRY(w->find ? patch_field(w, kind, &field) : digest_field(w, kind, &field));
    }
    return NEAP_OK;
}

void neap_onnx_wire_clear(wire_pieces *pieces)
{
    NEAP_DELETE(pieces->allocator, pieces->capacity, pieces->items);
    neap_arena_clear(&pieces->arena);
    *pieces = (wire_pieces){.allocator = pieces->allocator};
}

neap_status neap_onnx_wire_patch(neap_allocator *allocator, const char *source, const uint8_t *file,
                                 size_t file_length, wire_find *find, const void *patches,
                                 wire_pieces *pieces, neap_diag *diag)
{
    walker w = {.out = pieces,
                .source = source,
                .file = file,
                .end = file + file_length,
                .find = find,
                .patches = patches,
                .diag = diag};
    *pieces = (wire_pieces){.allocator = allocator};
    neap_arena_init(&pieces->arena, allocator);
    load_rules(&w);
    neap_status status = walk(&w, KIND_MODEL, file, file + file_length);
    if (status != NEAP_OK)
        neap_onnx_wire_clear(pieces);
    return status;
}

neap_status neap_onnx_wire_digest(neap_allocator *allocator, const char *source,
                                  const uint8_t *file, size_t file_length, uint8_t **digest,
                                  size_t *length, neap_diag *diag)
{
    wire_pieces pieces;
    *digest = NULL;
    *length = 0;
    NEAP_TRY(neap_onnx_wire_patch(allocator, source, file, file_length, NULL, NULL, &pieces, diag));
    size_t total = 0;
    for (size_t i = 0; i < pieces.count; i++)
        total += pieces.items[i].length;
    neap_status status = NEAP_NEW(allocator, total, digest, diag);
    for (size_t i = 0, at = 0; status == NEAP_OK && i < pieces.count; i++) {
        memcpy(*digest + at, pieces.items[i].data, pieces.items[i].length);
        at += pieces.items[i].length;
    }
    *length = status == NEAP_OK ? total : 0;
    neap_onnx_wire_clear(&pieces);
    return status;
}
