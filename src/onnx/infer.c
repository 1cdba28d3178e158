/* Types and shapes, in the order of the nodes; what depends on shapes alone is computed. */
#include "onnx/import.h"

#include "base/fail.h"
#include "base/memory.h"

#include <neap/text.h>

#include <stdlib.h>
#include <string.h>

neap_status neap_onnx_set_shape(onnx_import *im, const onnx_node *node, uint32_t output,
                                const onnx_shape *shape)
{
    onnx_value *value = neap_onnx_output(im, node, output);
    int64_t elements;
    if (!value)
        return NEAP_OK;
    for (uint32_t d = 0; d < shape->rank; d++)
        if (shape->dims[d] < 0)
            return neap_onnx_fail(im, node, "dimension %u of its result would be %lld", d,
                                  (long long)shape->dims[d]);
    if (!neap_onnx_shape_elements(shape, &elements) || elements > INT64_MAX / 8)
        return neap_onnx_fail(im, node, "the size of its result overflows 63 bits");
    value->shape = *shape;
    value->known = true;
    return NEAP_OK;
}

neap_status neap_onnx_new_constant(onnx_import *im, const onnx_node *node, uint32_t output,
                                   onnx_constant **constant)
{
    onnx_value *value = neap_onnx_output(im, node, output);
    int64_t elements = 0;
    neap_onnx_shape_elements(&value->shape, &elements);
    im->constant_elements += elements;
    if (im->constant_elements > ONNX_MOST_CONSTANTS)
        return neap_onnx_fail_unsupported(im, node, "the model computes too much with constants");
    *constant = neap_onnx_constant_new(im->arena, &value->shape);
    value->constant = *constant;
    return *constant ? NEAP_OK : neap_fail_no_memory(im->diag);
}

/* ---- Nodes that neap does not know ---- */

static int by_type(const void *a, const void *b)
{
    const onnx_node *const *left = a, *const *right = b;
    int order = strcmp((*left)->domain, (*right)->domain);
    if (order == 0)
        order = strcmp((*left)->type, (*right)->type);
    return order != 0 ? order : *left < *right ? -1 : *left > *right;
}

/* "If (2 nodes, the first "/If_3"), Loop (1 node, "/Loop")" */
static void list_unknown(neap_text *list, const onnx_node *const *nodes, size_t count)
{
    for (size_t i = 0, next; i < count; i = next) {
        const onnx_node *first = nodes[i];
        for (next = i + 1; next < count && strcmp(nodes[next]->type, first->type) == 0 &&
                           strcmp(nodes[next]->domain, first->domain) == 0;)
            next++;
        neap_text_printf(list, "%s%s%s%s (%zu node%s, %s\"%s\")", i > 0 ? ", " : "", first->domain,
                         *first->domain ? "." : "", first->type, next - i, next - i > 1 ? "s" : "",
                         next - i > 1 ? "the first " : "", first->name);
    }
}

static bool is_unknown(const onnx_node *node)
{
    return node->live && !node->op;
}

static neap_status fail_unknown(const onnx_import *im, size_t count)
{
    const onnx_node **unknown;
    neap_text list;
    size_t n = 0;
    if (!NEAP_TAKE(im->arena, count, unknown))
        return neap_fail_no_memory(im->diag);
    for (size_t i = 0; i < im->n_nodes; i++)
        if (is_unknown(&im->nodes[i]))
            unknown[n++] = &im->nodes[i];
    qsort(unknown, n, sizeof *unknown, by_type);
    neap_text_init(&list, im->allocator);
    list_unknown(&list, unknown, n);
    neap_status status = list.status != NEAP_OK ? neap_fail_no_memory(im->diag)
                                                : neap_fail(im->diag, NEAP_UNSUPPORTED,
                                                            "%s: neap cannot train these nodes: %s",
                                                            im->source, neap_text_get(&list));
    neap_text_clear(&list);
    return status;
}

/* ---- The pass ---- */

/* Whether all inputs are constants, and none is a weight. */
static bool is_foldable(const onnx_import *im, const onnx_node *node)
{
    if (!node->op->fold)
        return false;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const onnx_value *value = neap_onnx_input(im, node, i);
        if (value && !value->constant)
            return false;
    }
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        const onnx_value *value = neap_onnx_output(im, node, o);
        int64_t elements = 0;
        if (value &&
            (!neap_onnx_shape_elements(&value->shape, &elements) || elements > ONNX_MOST_CONSTANT))
            return false;
    }
    return true;
}

/* Whether a node computes with weights and constants alone. */
static bool is_trained(const onnx_import *im, const onnx_node *node)
{
    bool trained = false;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const onnx_value *value = neap_onnx_input(im, node, i);
        if (value && !value->constant && !value->trained)
            return false;
        trained = trained || (value && value->trained);
    }
    return trained;
}

/* What other nodes read has a shape. */
static neap_status check_outputs(const onnx_import *im, const onnx_node *node)
{
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        const onnx_value *value = neap_onnx_output(im, node, o);
        if (value && value->live && !value->known)
            return neap_onnx_fail_unsupported(im, node, "neap does not compute its output %u", o);
    }
    return NEAP_OK;
}

static neap_status infer_node(onnx_import *im, const onnx_node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const onnx_value *value = neap_onnx_input(im, node, i);
        if (value && !value->known)
            return neap_onnx_fail_unsupported(im, node, "neap does not compute its input \"%s\"",
                                              value->name);
    }
    NEAP_TRY(node->op->infer(im, node));
    NEAP_TRY(check_outputs(im, node));
    bool trained = is_trained(im, node);
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        onnx_value *value = neap_onnx_output(im, node, o);
        if (value && value->known && !value->constant)
            value->trained = trained;
    }
    return is_foldable(im, node) ? node->op->fold(im, node) : NEAP_OK;
}

neap_status neap_onnx_infer(onnx_import *im)
{
    size_t unknown = 0;
    for (size_t i = 0; i < im->n_nodes; i++)
        unknown += is_unknown(&im->nodes[i]);
    if (unknown > 0)
        return fail_unknown(im, unknown);
    for (size_t i = 0; i < im->n_nodes; i++)
        if (im->nodes[i].live)
            NEAP_TRY(infer_node(im, &im->nodes[i]));
    return NEAP_OK;
}
