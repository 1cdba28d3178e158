/* Functions of one element. */
#include "onnx/ops.h"

#include "base/fail.h"

#include <float.h>
#include <math.h>
#include <string.h>

neap_status neap_onnx_lower_each(onnx_import *im, const onnx_node *node, uint32_t value,
                                 onnx_layer *layer, const double *numbers)
{
    const onnx_view *from;
    neap_tensor x;
    NEAP_TRY(neap_onnx_view(im, node, value, &from));
    if (from->of_initializer || !neap_onnx_view_is_complete(from)) {
        NEAP_TRY(neap_onnx_tensor(im, node, value, &x));
        neap_onnx_set_tensor(im, node, 0, layer(im->net, node->name, x, numbers));
        return NEAP_OK;
    }
    onnx_view view = *from;
    view.root = layer(im->net, node->name, from->root, numbers);
    neap_onnx_set_view(im, node, 0, &view);
    return NEAP_OK;
}

/* ---- Functions without numbers ---- */

typedef struct unary_row {
    const char *type;
    neap_tensor (*layer)(neap_network *net, const char *name, neap_tensor x);
    double (*function)(double); /* NULL: constants are not computed */
} unary_row;

static double relu(double x)
{
    return x > 0 ? x : 0;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double reciprocal(double x)
{
    return 1 / x;
}

static double sign(double x)
{
    return (x > 0) - (x < 0);
}

static const unary_row rows[] = {
    {"Relu", neap_net_relu, relu},
    {"Sigmoid", neap_net_sigmoid, sigmoid},
    {"Tanh", neap_net_tanh, tanh},
    {"Exp", neap_net_exp, exp},
    {"Log", neap_net_log, log},
    {"Sqrt", neap_net_sqrt, sqrt},
    {"Reciprocal", neap_net_reciprocal, reciprocal},
    {"Erf", neap_net_erf, erf},
    {"Sin", neap_net_sin, sin},
    {"Cos", neap_net_cos, cos},
    {"Abs", neap_net_abs, fabs},
    {"Sign", neap_net_sign, sign},
    {"Floor", neap_net_floor, floor},
    {"Ceil", neap_net_ceil, ceil},
    {"Round", neap_net_round, rint},
    {"Mish", neap_net_mish, NULL},
    {"Softplus", neap_net_softplus, NULL},
    {"Softsign", neap_net_softsign, NULL},
    {"HardSwish", neap_net_hard_swish, NULL},
    {"Silu", neap_net_silu, NULL},
};

static const unary_row *find_row(const char *type)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].type, type) == 0)
            return &rows[i];
    return NULL;
}

static neap_status lower_function(onnx_import *im, const onnx_node *node)
{
    const unary_row *row = find_row(node->type);
    const onnx_view *from;
    NEAP_TRY(neap_onnx_view(im, node, node->inputs[0], &from));
    onnx_view view = *from;
    if (from->of_initializer || !neap_onnx_view_is_complete(from)) {
        const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
        neap_tensor x;
        NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
        neap_onnx_view_init(&view, x, false, shape->rank, shape->dims);
    }
    view.root = row->layer(im->net, node->name, view.root);
    neap_onnx_set_view(im, node, 0, &view);
    return NEAP_OK;
}

static neap_status fold_function(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *from = neap_onnx_input_constant(im, node, 0);
    const unary_row *row = find_row(node->type);
    onnx_constant *to;
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    for (int64_t i = 0; i < to->elements; i++)
        neap_onnx_set_real(to, i, row->function(neap_onnx_get_real(from, i)));
    return NEAP_OK;
}

/* ---- Functions with numbers ---- */

static neap_tensor negative(neap_network *net, const char *name, neap_tensor x,
                            const double *numbers)
{
    (void)numbers;
    return neap_net_scale(net, name, x, -1, 0);
}

static neap_status lower_neg(onnx_import *im, const onnx_node *node)
{
    return neap_onnx_lower_each(im, node, node->inputs[0], negative, NULL);
}

static neap_status fold_neg(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *from = neap_onnx_input_constant(im, node, 0);
    bool reals = neap_onnx_type_is_float(from->shape.type);
    onnx_constant *to;
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    for (int64_t i = 0; i < to->elements; i++)
        if (reals)
            neap_onnx_set_real(to, i, -neap_onnx_get_real(from, i));
        else
            neap_onnx_set_integer(to, i, (int64_t)(0 - (uint64_t)neap_onnx_get_integer(from, i)));
    return NEAP_OK;
}

static neap_tensor gelu(neap_network *net, const char *name, neap_tensor x, const double *numbers)
{
    return neap_net_gelu(net, name, x, numbers[0] != 0);
}

static neap_status lower_gelu(onnx_import *im, const onnx_node *node)
{
    const double numbers[] = {strcmp(neap_onnx_string(node, "approximate", "none"), "tanh") == 0};
    return neap_onnx_lower_each(im, node, node->inputs[0], gelu, numbers);
}

static neap_tensor leaky_relu(neap_network *net, const char *name, neap_tensor x,
                              const double *numbers)
{
    return neap_net_leaky_relu(net, name, x, numbers[0]);
}

static neap_tensor elu(neap_network *net, const char *name, neap_tensor x, const double *numbers)
{
    return neap_net_elu(net, name, x, numbers[0]);
}

static neap_tensor celu(neap_network *net, const char *name, neap_tensor x, const double *numbers)
{
    return neap_net_celu(net, name, x, numbers[0]);
}

static neap_tensor hard_sigmoid(neap_network *net, const char *name, neap_tensor x,
                                const double *numbers)
{
    return neap_net_hard_sigmoid(net, name, x, numbers[0], numbers[1]);
}

/* Functions with attributes alpha and beta, and their defaults. */
static neap_status lower_shaped(onnx_import *im, const onnx_node *node)
{
    static const struct {
        const char *type;
        onnx_layer *layer;
        double alpha, beta;
    } layers[] = {{"LeakyRelu", leaky_relu, 0.01, 0},
                  {"Elu", elu, 1, 0},
                  {"Celu", celu, 1, 0},
                  {"HardSigmoid", hard_sigmoid, 0.2, 0.5}};
    size_t i = 0;
    while (strcmp(layers[i].type, node->type) != 0)
        i++;
    const double numbers[] = {neap_onnx_real(node, "alpha", layers[i].alpha),
                              neap_onnx_real(node, "beta", layers[i].beta)};
    return neap_onnx_lower_each(im, node, node->inputs[0], layers[i].layer, numbers);
}

/* ONNX's own defaults are PyTorch's to single precision. */
static neap_status lower_selu(onnx_import *im, const onnx_node *node)
{
    const double alpha = 1.6732632423543772, gamma = 1.0507009873554805;
    if (fabs(neap_onnx_real(node, "alpha", alpha) - alpha) > 1e-5 ||
        fabs(neap_onnx_real(node, "gamma", gamma) - gamma) > 1e-5)
        return neap_onnx_fail_unsupported(im, node, "neap takes SELU with its usual constants");
    neap_tensor x;
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    neap_onnx_set_tensor(im, node, 0, neap_net_selu(im->net, node->name, x));
    return NEAP_OK;
}

/* ---- Clip ---- */

static neap_tensor relu_layer(neap_network *net, const char *name, neap_tensor x,
                              const double *numbers)
{
    (void)numbers;
    return neap_net_relu(net, name, x);
}

static neap_tensor relu6_layer(neap_network *net, const char *name, neap_tensor x,
                               const double *numbers)
{
    (void)numbers;
    return neap_net_relu6(net, name, x);
}

static neap_tensor clip(neap_network *net, const char *name, neap_tensor x, const double *numbers)
{
    return neap_net_clip(net, name, x, numbers[0], numbers[1]);
}

/* One of the two bounds: a number, or none. */
static bool read_bound(const onnx_import *im, const onnx_node *node, uint32_t input, double *bound)
{
    const onnx_constant *constant = neap_onnx_input_constant(im, node, input);
    if (!neap_onnx_input(im, node, input))
        return true;
    if (!constant || constant->elements != 1)
        return false;
    double number = neap_onnx_get_real(constant, 0);
    if (number >= -(double)FLT_MAX && number <= (double)FLT_MAX)
        *bound = number;
    return true;
}

/* Where they cross, everything becomes the upper one. */
static neap_status read_bounds(const onnx_import *im, const onnx_node *node, double bounds[2])
{
    if (!read_bound(im, node, 1, &bounds[0]) || !read_bound(im, node, 2, &bounds[1]))
        return neap_onnx_fail_unsupported(im, node, "its bounds must be numbers");
    if (bounds[0] > bounds[1])
        bounds[0] = bounds[1];
    return NEAP_OK;
}

static neap_status lower_clip(onnx_import *im, const onnx_node *node)
{
    double bounds[] = {-(double)FLT_MAX, (double)FLT_MAX};
    NEAP_TRY(read_bounds(im, node, bounds));
    onnx_layer *layer = bounds[0] == 0 && bounds[1] == 6                 ? relu6_layer
                        : bounds[0] == 0 && bounds[1] == (double)FLT_MAX ? relu_layer
                                                                         : clip;
    return neap_onnx_lower_each(im, node, node->inputs[0], layer, bounds);
}

static neap_status fold_clip(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *from = neap_onnx_input_constant(im, node, 0);
    double bounds[] = {-DBL_MAX, DBL_MAX};
    onnx_constant *to;
    NEAP_TRY(read_bounds(im, node, bounds));
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    for (int64_t i = 0; i < to->elements; i++) {
        double x = neap_onnx_get_real(from, i);
        if (x < bounds[0] || x > bounds[1])
            neap_onnx_set_real(to, i, x < bounds[0] ? bounds[0] : bounds[1]);
        else
            neap_onnx_copy_element(from, i, to, i);
    }
    return NEAP_OK;
}

/* ---- PRelu ---- */

static neap_status infer_prelu(onnx_import *im, const onnx_node *node)
{
    onnx_shape shape;
    NEAP_TRY(neap_onnx_need(im, node, 2));
    const onnx_shape *x = &neap_onnx_input(im, node, 0)->shape;
    if (!neap_onnx_shape_broadcast(x, &neap_onnx_input(im, node, 1)->shape, &shape) ||
        !neap_onnx_shape_equal(x, &shape))
        return neap_onnx_fail(im, node, "its slope does not fit its input");
    return neap_onnx_set_shape(im, node, 0, x);
}

static neap_status lower_prelu(onnx_import *im, const onnx_node *node)
{
    neap_tensor x, slope;
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    NEAP_TRY(neap_onnx_broadcast(im, node, node->inputs[1], &neap_onnx_output(im, node, 0)->shape,
                                 &slope));
    neap_onnx_set_tensor(im, node, 0, neap_net_prelu(im->net, node->name, x, slope));
    return NEAP_OK;
}

#define FUNCTION(type)                                                                             \
    {                                                                                              \
        type, "", neap_onnx_infer_same, fold_function, lower_function                              \
    }
#define ONLY_LAYER(type)                                                                           \
    {                                                                                              \
        type, "", neap_onnx_infer_same, NULL, lower_function                                       \
    }
#define SHAPED(type)                                                                               \
    {                                                                                              \
        type, "", neap_onnx_infer_same, NULL, lower_shaped                                         \
    }

const onnx_op neap_onnx_ops_unary[] = {
    FUNCTION("Relu"),
    FUNCTION("Sigmoid"),
    FUNCTION("Tanh"),
    FUNCTION("Exp"),
    FUNCTION("Log"),
    FUNCTION("Sqrt"),
    FUNCTION("Reciprocal"),
    FUNCTION("Erf"),
    FUNCTION("Sin"),
    FUNCTION("Cos"),
    FUNCTION("Abs"),
    FUNCTION("Sign"),
    FUNCTION("Floor"),
    FUNCTION("Ceil"),
    FUNCTION("Round"),
    ONLY_LAYER("Mish"),
    ONLY_LAYER("Softplus"),
    ONLY_LAYER("Softsign"),
    ONLY_LAYER("HardSwish"),
    SHAPED("LeakyRelu"),
    SHAPED("Elu"),
    SHAPED("Celu"),
    SHAPED("HardSigmoid"),
    {"Selu", "", neap_onnx_infer_same, NULL, lower_selu},
    {"Neg", "", neap_onnx_infer_same, fold_neg, lower_neg},
    {"Clip", "", neap_onnx_infer_same, fold_clip, lower_clip},
    {"Gelu", "", neap_onnx_infer_same, NULL, lower_gelu},
    {"PRelu", "", infer_prelu, NULL, lower_prelu},
    {"Silu", ONNX_NEAP_DOMAIN, neap_onnx_infer_same, NULL, lower_function},
    {0},
};
