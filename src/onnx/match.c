/* See match.h. */
#include "onnx/match.h"

#include "base/fail.h"

#include <math.h>
#include <string.h>

/* Whether the node hands its first input on. */
static bool is_idle(const onnx_import *im, const onnx_node *node)
{
    if (*node->domain || !neap_onnx_input(im, node, 0))
        return false;
    if (strcmp(node->type, "Identity") == 0)
        return true;
    if (strcmp(node->type, "Cast") == 0)
        return neap_onnx_type_is_float(neap_onnx_input(im, node, 0)->shape.type) &&
               neap_onnx_type_is_float((int32_t)neap_onnx_int(node, "to", 0));
    return strcmp(node->type, "Dropout") == 0 && !im->options->train_dropout;
}

uint32_t neap_onnx_plain(const onnx_import *im, uint32_t value)
{
    while (im->values[value].node != NEAP_NONE) {
        const onnx_node *node = &im->nodes[im->values[value].node];
        if (!is_idle(im, node) || node->outputs[0] != value)
            break;
        value = node->inputs[0];
    }
    return value;
}

const onnx_node *neap_onnx_made_by(const onnx_import *im, uint32_t value, const char *type)
{
    uint32_t maker = im->values[neap_onnx_plain(im, value)].node;
    const onnx_node *node = maker == NEAP_NONE ? NULL : &im->nodes[maker];
    return node && !*node->domain && strcmp(node->type, type) == 0 ? node : NULL;
}

bool neap_onnx_is_number(const onnx_import *im, uint32_t value, double *number)
{
    const onnx_constant *constant = value == NEAP_NONE ? NULL : im->values[value].constant;
    if (!constant || constant->elements != 1)
        return false;
    *number = neap_onnx_get_real(constant, 0);
    return true;
}

bool neap_onnx_is_near(double a, double b)
{
    return fabs(a - b) <= 1e-4 * fabs(b);
}

bool neap_onnx_with_number(const onnx_import *im, const onnx_node *node, uint32_t *other,
                           double *number)
{
    if (!node || node->n_inputs != 2)
        return false;
    bool second = neap_onnx_is_number(im, node->inputs[1], number);
    if (!second && !neap_onnx_is_number(im, node->inputs[0], number))
        return false;
    *other = neap_onnx_plain(im, node->inputs[second ? 0 : 1]);
    return true;
}

bool neap_onnx_is_vector(const onnx_import *im, uint32_t id, int64_t width)
{
    const onnx_value *value = &im->values[id];
    int64_t elements = 0;
    if ((!value->trained && !value->constant) || !neap_onnx_type_is_float(value->shape.type) ||
        value->shape.rank == 0 || value->shape.dims[value->shape.rank - 1] != width)
        return false;
    return neap_onnx_shape_elements(&value->shape, &elements) && elements == width;
}

/* ---- Products ---- */

/* Deep enough for every form of the functions that are looked for. */
enum { MOST_DEPTH = 6 };

static bool multiply(const onnx_import *im, uint32_t value, int depth, match_product *product)
{
    const onnx_node *node;
    double number;
    value = neap_onnx_plain(im, value);
    if (neap_onnx_is_number(im, value, &number)) {
        product->constant *= number;
        return true;
    }
    if (depth < MOST_DEPTH && (node = neap_onnx_made_by(im, value, "Mul")) && node->n_inputs == 2)
        return multiply(im, node->inputs[0], depth + 1, product) &&
               multiply(im, node->inputs[1], depth + 1, product);
    if (depth < MOST_DEPTH && (node = neap_onnx_made_by(im, value, "Div")) && node->n_inputs == 2 &&
        neap_onnx_is_number(im, node->inputs[1], &number)) {
        product->constant /= number;
        return multiply(im, node->inputs[0], depth + 1, product);
    }
    if (product->count == MATCH_MOST_FACTORS)
        return false;
    product->factors[product->count++] = value;
    return true;
}

bool neap_onnx_product(const onnx_import *im, uint32_t value, match_product *product)
{
    *product = (match_product){.constant = 1};
    return multiply(im, value, 0, product);
}

/* ---- Replacing ---- */

neap_status neap_onnx_replace(onnx_import *im, onnx_node *node, const char *type,
                              const char *domain, uint32_t n_inputs, const uint32_t *inputs,
                              size_t n_attributes, const onnx_attribute *attributes)
{
    while (n_inputs > 0 && inputs[n_inputs - 1] == NEAP_NONE)
        n_inputs--;
    uint32_t *list = neap_arena_copy(im->arena, inputs, n_inputs, sizeof *inputs);
    onnx_attribute *own = neap_arena_copy(im->arena, attributes, n_attributes, sizeof *attributes);
    if (!list || !own)
        return neap_fail_no_memory(im->diag);
    node->type = type;
    node->domain = domain;
    node->op = neap_onnx_op_find(type, domain);
    node->n_inputs = n_inputs;
    node->inputs = list;
    node->n_attributes = n_attributes;
    node->attributes = own;
    return NEAP_OK;
}
