/* What the passes ask of a node: its operands and attributes; errors and notes. */
#include "onnx/import.h"

#include "base/fail.h"
#include "base/memory.h"

#include <neap/text.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Errors and notes ---- */

static neap_status fail_with(const onnx_import *im, const onnx_node *node, neap_status status,
                             const char *format, va_list arguments) NEAP_PRINTF(4, 0);

static neap_status fail_with(const onnx_import *im, const onnx_node *node, neap_status status,
                             const char *format, va_list arguments)
{
    char message[NEAP_DIAG_CAPACITY];
    vsnprintf(message, sizeof message, format, arguments);
    if (node->call)
        return neap_fail(im->diag, status,
                         "%s: node \"%s\" (%s) of the function %s%s%s, which node \"%s\" calls: %s",
                         im->source, node->name, node->type, node->call->domain,
                         *node->call->domain ? "." : "", node->call->type, node->call->name,
                         message);
    return neap_fail(im->diag, status, "%s: node \"%s\" (%s): %s", im->source, node->name,
                     node->type, message);
}

neap_status neap_onnx_fail(const onnx_import *im, const onnx_node *node, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    neap_status status = fail_with(im, node, NEAP_INVALID, format, arguments);
    va_end(arguments);
    return status;
}

neap_status neap_onnx_fail_unsupported(const onnx_import *im, const onnx_node *node,
                                       const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    neap_status status = fail_with(im, node, NEAP_UNSUPPORTED, format, arguments);
    va_end(arguments);
    return status;
}

neap_status neap_onnx_note(onnx_import *im, const char *format, ...)
{
    neap_text text;
    va_list arguments;
    neap_text_init(&text, im->allocator);
    va_start(arguments, format);
    neap_text_vprintf(&text, format, arguments);
    va_end(arguments);
    const char *note = text.status == NEAP_OK
                           ? neap_arena_text(im->arena, neap_text_get(&text), text.length)
                           : NULL;
    neap_text_clear(&text);
    if (!note)
        return neap_fail_no_memory(im->diag);
    NEAP_TRY(
        NEAP_RESERVE(im->allocator, im->n_notes + 1, &im->notes, &im->note_capacity, im->diag));
    im->notes[im->n_notes++] = note;
    return NEAP_OK;
}

/* ---- Operands ---- */

onnx_value *neap_onnx_input(const onnx_import *im, const onnx_node *node, uint32_t i)
{
    return i < node->n_inputs && node->inputs[i] != NEAP_NONE ? &im->values[node->inputs[i]] : NULL;
}

onnx_value *neap_onnx_output(const onnx_import *im, const onnx_node *node, uint32_t i)
{
    return i < node->n_outputs && node->outputs[i] != NEAP_NONE ? &im->values[node->outputs[i]]
                                                                : NULL;
}

const onnx_constant *neap_onnx_input_constant(const onnx_import *im, const onnx_node *node,
                                              uint32_t i)
{
    const onnx_value *value = neap_onnx_input(im, node, i);
    return value ? value->constant : NULL;
}

/* ---- Attributes ---- */

const onnx_attribute *neap_onnx_attribute(const onnx_node *node, const char *name)
{
    for (size_t i = 0; i < node->n_attributes; i++)
        if (strcmp(node->attributes[i].name, name) == 0)
            return &node->attributes[i];
    return NULL;
}

int64_t neap_onnx_int(const onnx_node *node, const char *name, int64_t otherwise)
{
    const onnx_attribute *attribute = neap_onnx_attribute(node, name);
    return attribute && attribute->kind == ATTRIBUTE_INT ? attribute->integer : otherwise;
}

double neap_onnx_real(const onnx_node *node, const char *name, double otherwise)
{
    const onnx_attribute *attribute = neap_onnx_attribute(node, name);
    return attribute && attribute->kind == ATTRIBUTE_FLOAT ? (double)attribute->real : otherwise;
}

const char *neap_onnx_string(const onnx_node *node, const char *name, const char *otherwise)
{
    const onnx_attribute *attribute = neap_onnx_attribute(node, name);
    return attribute && attribute->kind == ATTRIBUTE_STRING ? attribute->string : otherwise;
}

const int64_t *neap_onnx_ints(const onnx_node *node, const char *name, size_t *count)
{
    const onnx_attribute *attribute = neap_onnx_attribute(node, name);
    bool found = attribute && attribute->kind == ATTRIBUTE_INTS;
    *count = found ? attribute->count : 0;
    return found ? attribute->integers : NULL;
}

neap_status neap_onnx_axis(const onnx_import *im, const onnx_node *node, int64_t axis,
                           uint32_t rank, uint32_t *result)
{
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
        return neap_onnx_fail(im, node, "axis %lld of %u dimensions", (long long)axis, rank);
    *result = (uint32_t)(axis < 0 ? axis + rank : axis);
    return NEAP_OK;
}

neap_status neap_onnx_integers(const onnx_import *im, const onnx_node *node, uint32_t input,
                               const int64_t **integers, size_t *count)
{
    const onnx_value *value = neap_onnx_input(im, node, input);
    *integers = NULL;
    *count = 0;
    if (!value)
        return NEAP_OK;
    if (!value->constant)
        return neap_onnx_fail_unsupported(
            im, node, "its input \"%s\" is computed from data; it must follow from shapes",
            value->name);
    int32_t type = value->constant->shape.type;
    if (neap_onnx_type_is_float(type) || type == ONNX_BOOL)
        return neap_onnx_fail(im, node, "its input \"%s\" must be integers, not %s", value->name,
                              neap_onnx_type_name(type));
    *integers = value->constant->integers;
    *count = (size_t)value->constant->elements;
    return NEAP_OK;
}

neap_status neap_onnx_axes(const onnx_import *im, const onnx_node *node, uint32_t input,
                           uint32_t rank, uint32_t *axes, bool *given)
{
    size_t count;
    const int64_t *list = neap_onnx_ints(node, "axes", &count);
    *axes = 0;
    *given = list || neap_onnx_input(im, node, input);
    if (!list)
        NEAP_TRY(neap_onnx_integers(im, node, input, &list, &count));
    for (size_t i = 0; i < count; i++) {
        uint32_t axis = 0;
        NEAP_TRY(neap_onnx_axis(im, node, list[i], rank, &axis));
        *axes |= UINT32_C(1) << axis;
    }
    return NEAP_OK;
}
