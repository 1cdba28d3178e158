/* GELU, SiLU, layer normalization and linear layers, composed of simpler nodes. */
#include "onnx/match.h"

#include "base/fail.h"

#include <math.h>
#include <string.h>

static bool is_type(const onnx_node *node, const char *type)
{
    return !*node->domain && strcmp(node->type, type) == 0;
}

/* ---- GELU: x / 2 (1 + f(x)) ---- */

/* 1 + f(u): gives u. */
static bool one_plus(const onnx_import *im, uint32_t value, const char *function, uint32_t *u)
{
    uint32_t inner;
    double one;
    const onnx_node *call;
    if (!neap_onnx_with_number(im, neap_onnx_made_by(im, value, "Add"), &inner, &one) || one != 1)
        return false;
    call = neap_onnx_made_by(im, inner, function);
    if (!call || call->n_inputs != 1)
        return false;
    *u = call->inputs[0];
    return true;
}

/* constant * x^power, in any form. */
static bool is_power(const onnx_import *im, uint32_t value, uint32_t x, uint32_t power,
                     double constant)
{
    match_product product;
    uint32_t total = 0;
    if (!neap_onnx_product(im, value, &product) || !neap_onnx_is_near(product.constant, constant))
        return false;
    for (uint32_t i = 0; i < product.count; i++) {
        const onnx_node *node = neap_onnx_made_by(im, product.factors[i], "Pow");
        double exponent = 1;
        uint32_t base = product.factors[i];
        if (node && node->n_inputs == 2 && neap_onnx_is_number(im, node->inputs[1], &exponent))
            base = neap_onnx_plain(im, node->inputs[0]);
        if (base != x || exponent < 1 || exponent > 3)
            return false;
        total += (uint32_t)exponent;
    }
    return total == power;
}

/* sqrt(2/pi) (x + 0.044715 x^3), or with x outside the brackets. */
static bool is_tanh_argument(const onnx_import *im, uint32_t value, uint32_t x)
{
    const double root = 0.79788456080286535588, cubic = 0.044715;
    match_product product;
    if (!neap_onnx_product(im, value, &product) || !neap_onnx_is_near(product.constant, root) ||
        product.count < 1 || product.count > 2)
        return false;
    bool outside = product.count == 2;
    uint32_t sum = product.factors[0];
    if (outside && sum == x)
        sum = product.factors[1];
    else if (outside && product.factors[1] != x)
        return false;
    const onnx_node *add = neap_onnx_made_by(im, sum, "Add");
    for (uint32_t i = 0; add && add->n_inputs == 2 && i < 2; i++) {
        uint32_t first = neap_onnx_plain(im, add->inputs[i]), rest = add->inputs[1 - i];
        double one;
        if (outside ? neap_onnx_is_number(im, first, &one) && one == 1 &&
                          is_power(im, rest, x, 2, cubic)
                    : first == x && is_power(im, rest, x, 3, cubic))
            return true;
    }
    return false;
}

neap_status neap_onnx_fuse_gelu(onnx_import *im, onnx_node *node, bool *done)
{
    match_product product;
    *done = false;
    if ((!is_type(node, "Mul") && !is_type(node, "Div")) || !neap_onnx_output(im, node, 0) ||
        !neap_onnx_product(im, node->outputs[0], &product) || product.count != 2 ||
        !neap_onnx_is_near(product.constant, 0.5))
        return NEAP_OK;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t x = product.factors[i], other = product.factors[1 - i], u;
        bool exact = one_plus(im, other, "Erf", &u) && is_power(im, u, x, 1, sqrt(0.5));
        if (!exact && !(one_plus(im, other, "Tanh", &u) && is_tanh_argument(im, u, x)))
            continue;
        const onnx_attribute how = {
            .name = "approximate", .kind = ATTRIBUTE_STRING, .string = exact ? "none" : "tanh"};
        *done = true;
        return neap_onnx_replace(im, node, "Gelu", "", 1, &x, 1, &how);
    }
    return NEAP_OK;
}

/* x sigmoid(x). */
neap_status neap_onnx_fuse_silu(onnx_import *im, onnx_node *node, bool *done)
{
    *done = false;
    if (!is_type(node, "Mul") || node->n_inputs != 2)
        return NEAP_OK;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t x = neap_onnx_plain(im, node->inputs[i]);
        const onnx_node *sigmoid = neap_onnx_made_by(im, node->inputs[1 - i], "Sigmoid");
        if (!sigmoid || sigmoid->n_inputs != 1 || neap_onnx_plain(im, sigmoid->inputs[0]) != x)
            continue;
        *done = true;
        return neap_onnx_replace(im, node, "Silu", ONNX_NEAP_DOMAIN, 1, &x, 0, NULL);
    }
    return NEAP_OK;
}

/* ---- Layer normalization ---- */

/* The mean over the last dimension, which stays as 1: gives what it is the mean of. */
static bool is_row_mean(const onnx_import *im, uint32_t value, uint32_t *of)
{
    const onnx_node *node = neap_onnx_made_by(im, value, "ReduceMean");
    uint32_t axes;
    bool given;
    neap_diag unused;
    onnx_import quiet = *im;
    quiet.diag = &unused;
    if (!node || neap_onnx_int(node, "keepdims", 1) == 0)
        return false;
    uint32_t rank = neap_onnx_input(im, node, 0)->shape.rank;
    if (rank == 0 || neap_onnx_axes(&quiet, node, 1, rank, &axes, &given) != NEAP_OK ||
        axes != UINT32_C(1) << (rank - 1))
        return false;
    *of = neap_onnx_plain(im, node->inputs[0]);
    return true;
}

/* x - mean(x): gives x. */
static bool is_centered(const onnx_import *im, uint32_t value, uint32_t *x)
{
    const onnx_node *node = neap_onnx_made_by(im, value, "Sub");
    uint32_t of;
    if (!node || node->n_inputs != 2)
        return false;
    *x = neap_onnx_plain(im, node->inputs[0]);
    return is_row_mean(im, node->inputs[1], &of) && of == *x;
}

static bool is_square_of_centered(const onnx_import *im, uint32_t value, uint32_t x)
{
    const onnx_node *power = neap_onnx_made_by(im, value, "Pow");
    const onnx_node *product = neap_onnx_made_by(im, value, "Mul");
    uint32_t of;
    double exponent;
    if (power && power->n_inputs == 2 && neap_onnx_is_number(im, power->inputs[1], &exponent))
        return exponent == 2 && is_centered(im, power->inputs[0], &of) && of == x;
    return product && product->n_inputs == 2 &&
           neap_onnx_plain(im, product->inputs[0]) == neap_onnx_plain(im, product->inputs[1]) &&
           is_centered(im, product->inputs[0], &of) && of == x;
}

/* sqrt(variance + epsilon) of x. */
static bool is_deviation(const onnx_import *im, uint32_t value, uint32_t x, double *epsilon)
{
    const onnx_node *root = neap_onnx_made_by(im, value, "Sqrt");
    const onnx_node *power = neap_onnx_made_by(im, value, "Pow");
    uint32_t sum, variance, squares;
    double exponent;
    if (root && root->n_inputs == 1)
        sum = root->inputs[0];
    else if (power && power->n_inputs == 2 &&
             neap_onnx_is_number(im, power->inputs[1], &exponent) && exponent == 0.5)
        sum = power->inputs[0];
    else
        return false;
    return neap_onnx_with_number(im, neap_onnx_made_by(im, sum, "Add"), &variance, epsilon) &&
           *epsilon > 0 && is_row_mean(im, variance, &squares) &&
           is_square_of_centered(im, squares, x);
}

static neap_status set_layer_norm(onnx_import *im, onnx_node *node, const uint32_t inputs[3],
                                  double epsilon)
{
    const onnx_attribute attributes[] = {
        {.name = "axis", .kind = ATTRIBUTE_INT, .integer = -1},
        {.name = "epsilon", .kind = ATTRIBUTE_FLOAT, .real = (float)epsilon}};
    return neap_onnx_replace(im, node, "LayerNormalization", "", 3, inputs, 2, attributes);
}

/* A normalization over the last dimension that lacks its input `input`. */
static const onnx_node *lacking(const onnx_import *im, uint32_t value, uint32_t input)
{
    const onnx_node *node = neap_onnx_made_by(im, value, "LayerNormalization");
    if (!node || neap_onnx_input(im, node, input))
        return NULL;
    int64_t axis = neap_onnx_int(node, "axis", -1);
    uint32_t rank = neap_onnx_input(im, node, 0)->shape.rank;
    return axis == -1 || axis == (int64_t)rank - 1 ? node : NULL;
}

/* (x - mean) / deviation first; then its scale, then its shift, as the nodes come. */
neap_status neap_onnx_fuse_layer_norm(onnx_import *im, onnx_node *node, bool *done)
{
    uint32_t x;
    double epsilon;
    *done = false;
    if (node->n_inputs != 2 || !neap_onnx_output(im, node, 0))
        return NEAP_OK;
    if (is_type(node, "Div") && is_centered(im, node->inputs[0], &x) &&
        is_deviation(im, node->inputs[1], x, &epsilon)) {
        *done = true;
        return set_layer_norm(im, node, (uint32_t[]){x, NEAP_NONE, NEAP_NONE}, epsilon);
    }
    bool scale = is_type(node, "Mul");
    if (!scale && !is_type(node, "Add"))
        return NEAP_OK;
    const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
    for (uint32_t i = 0; shape->rank > 0 && i < 2; i++) {
        const onnx_node *inner = lacking(im, node->inputs[i], scale ? 1 : 2);
        uint32_t vector = node->inputs[1 - i];
        if (!inner || !neap_onnx_is_vector(im, vector, shape->dims[shape->rank - 1]) ||
            (scale && neap_onnx_input(im, inner, 2)))
            continue;
        uint32_t gamma = neap_onnx_input(im, inner, 1) ? inner->inputs[1] : NEAP_NONE;
        *done = true;
        return set_layer_norm(
            im, node,
            (uint32_t[]){inner->inputs[0], scale ? vector : gamma, scale ? NEAP_NONE : vector},
            neap_onnx_real(inner, "epsilon", 1e-5));
    }
    return NEAP_OK;
}

/* ---- Linear layers ---- */

/* A product with a matrix, whose only reader adds a vector. */
neap_status neap_onnx_fuse_linear(onnx_import *im, onnx_node *node, const uint32_t *readers,
                                  bool *done)
{
    *done = false;
    if (!is_type(node, "Add") || node->n_inputs != 2 || !neap_onnx_output(im, node, 0))
        return NEAP_OK;
    const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
    for (uint32_t i = 0; shape->rank > 0 && i < 2; i++) {
        uint32_t value = node->inputs[i], vector = node->inputs[1 - i];
        uint32_t maker = im->values[value].node;
        const onnx_node *product = maker == NEAP_NONE ? NULL : &im->nodes[maker];
        if (!product || !is_type(product, "MatMul") || readers[value] != 1 ||
            im->values[product->inputs[1]].shape.rank != 2 ||
            im->values[value].shape.rank != shape->rank ||
            !neap_onnx_is_vector(im, vector, shape->dims[shape->rank - 1]))
            continue;
        *done = true;
        return neap_onnx_replace(im, node, "Linear", ONNX_NEAP_DOMAIN, 3,
                                 (uint32_t[]){product->inputs[0], product->inputs[1], vector}, 0,
                                 NULL);
    }
    return NEAP_OK;
}

/* ---- Losses, guards ---- */

/* NegativeLogLikelihoodLoss(LogSoftmax(x)) over the classes is a cross-entropy. */
neap_status neap_onnx_fuse_loss(onnx_import *im, onnx_node *node, bool *done)
{
    uint32_t axis = 0, inputs[3] = {NEAP_NONE, NEAP_NONE, NEAP_NONE};
    if (*node->domain || strcmp(node->type, "NegativeLogLikelihoodLoss") != 0 ||
        node->n_inputs < 2 || node->n_inputs > 3)
        return NEAP_OK;
    const onnx_node *logs = neap_onnx_made_by(im, node->inputs[0], "LogSoftmax");
    if (logs)
        NEAP_TRY(neap_onnx_axis(im, logs, neap_onnx_int(logs, "axis", -1),
                                im->values[node->inputs[0]].shape.rank, &axis));
    if (!logs || axis != 1)
        return NEAP_OK;
    memcpy(inputs, node->inputs, node->n_inputs * sizeof *inputs);
    inputs[0] = logs->inputs[0];
    *done = true;
    return neap_onnx_replace(im, node, "SoftmaxCrossEntropyLoss", "", 3, inputs, node->n_attributes,
                             node->attributes);
}

/*
 * Where(IsNaN(p), 0, p) after a Softmax: exporters guard against rows of scores that are all -inf,
 * where nothing is to be seen. What a model is trained on has none.
 */
neap_status neap_onnx_fuse_guard(onnx_import *im, onnx_node *node, bool *done)
{
    double number;
    if (*node->domain || strcmp(node->type, "Where") != 0 || node->n_inputs != 3 ||
        !neap_onnx_is_number(im, node->inputs[1], &number))
        return NEAP_OK;
    const onnx_node *test = neap_onnx_made_by(im, node->inputs[0], "IsNaN");
    if (!test || test->inputs[0] != node->inputs[2] ||
        !neap_onnx_made_by(im, node->inputs[2], "Softmax"))
        return NEAP_OK;
    *done = true;
    return neap_onnx_replace(im, node, "Identity", "", 1, &node->inputs[2], 0, NULL);
}
