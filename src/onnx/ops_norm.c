/* Normalization and dropout. */
#include "onnx/ops.h"

#include "base/fail.h"
#include "base/memory.h"

#include <string.h>

/* ---- BatchNormalization ---- */

static neap_status infer_batch_norm(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 5));
    const onnx_shape *x = &neap_onnx_input(im, node, 0)->shape;
    if (x->rank < 2)
        return neap_onnx_fail(im, node, "its input has no channels");
    for (uint32_t i = 1; i < 5; i++) {
        const onnx_shape *vector = &neap_onnx_input(im, node, i)->shape;
        if (vector->rank != 1 || vector->dims[0] != x->dims[1])
            return neap_onnx_fail(im, node, "its input %u does not have %lld elements", i,
                                  (long long)x->dims[1]);
        if (i > 2 && i < node->n_outputs + 2)
            NEAP_TRY(neap_onnx_set_shape(im, node, i - 2, vector));
    }
    return neap_onnx_set_shape(im, node, 0, x);
}

/* Whether it takes the batch's statistics. */
static bool trains(const onnx_import *im, const onnx_node *node)
{
    switch (im->options->batch_norm) {
    case NEAP_ONNX_BATCH_NORM_TRAIN:
        return true;
    case NEAP_ONNX_BATCH_NORM_FROZEN:
        return false;
    default:
        /* before opset 14 the number of outputs says it */
        return neap_onnx_int(node, "training_mode", im->proto->opset < 14 && node->n_outputs > 3);
    }
}

/* The initializer that statistics are, perhaps through nodes that only pass it on; NEAP_NONE: they
   are computed. */
static neap_status find_statistics(onnx_import *im, const onnx_node *node, uint32_t input,
                                   uint32_t *initializer)
{
    const onnx_value *value = neap_onnx_input(im, node, input);
    const onnx_view *view;
    *initializer = value->initializer;
    if (value->initializer != NEAP_NONE || !value->trained)
        return NEAP_OK;
    NEAP_TRY(neap_onnx_view(im, node, node->inputs[input], &view));
    if (view->of_initializer && neap_onnx_view_is_whole(view))
        *initializer = view->root;
    return NEAP_OK;
}

/* Statistics of the file: inputs, not parameters. */
static neap_status read_statistics(onnx_import *im, const onnx_node *node, uint32_t input,
                                   neap_tensor *tensor)
{
    onnx_value *value = neap_onnx_input(im, node, input);
    uint32_t initializer;
    NEAP_TRY(find_statistics(im, node, input, &initializer));
    if (value->constant || initializer == NEAP_NONE)
        return neap_onnx_tensor(im, node, node->inputs[input], tensor);
    if (im->parameter_of[initializer] != NEAP_NONE)
        return neap_onnx_fail_unsupported(im, node, "its statistics \"%s\" are also trained",
                                          value->name);
    if (!value->lowered || value->view.of_initializer) {
        onnx_constant *constant =
            neap_onnx_constant_of(im->arena, &im->proto->initializers[initializer]);
        if (!constant)
            return neap_fail_no_memory(im->diag);
        value->constant = constant;
        NEAP_TRY(neap_onnx_fixed(im, constant, value->name, 1, value->shape.dims, &value->made));
        neap_onnx_view_init(&value->view, value->made, false, 1, value->shape.dims);
        value->lowered = true;
    }
    return neap_onnx_tensor(im, node, node->inputs[input], tensor);
}

/* Whether a step advances the statistics of the file. */
static bool advances(const onnx_import *im)
{
    const neap_training *training = &im->options->training;
    return !training->forward_only && training->optimizer != NEAP_OPTIMIZER_NONE;
}

/* The entry of an initializer; NULL: it has none yet. */
static const onnx_parameter *find_kept(const onnx_import *im, uint32_t initializer)
{
    for (size_t i = 0; i < im->n_parameters; i++)
        if (im->parameters[i].initializer == initializer)
            return &im->parameters[i];
    return NULL;
}

static neap_status keep(onnx_import *im, const onnx_parameter *made)
{
    const onnx_tensor *tensor = &im->proto->initializers[made->initializer];
    NEAP_TRY(NEAP_RESERVE(im->allocator, im->n_parameters + 1, &im->parameters,
                          &im->parameter_capacity, im->diag));
    onnx_parameter *kept = &im->parameters[im->n_parameters++];
    *kept = *made;
    kept->name = tensor->name;
    kept->tensor = NEAP_NONE;
    neap_onnx_view_init(&kept->layout, made->initializer, true, tensor->rank, tensor->dims);
    return NEAP_OK;
}

/* Whether nodes that share statistics advance them by the same rule. */
static bool is_same_rule(const onnx_parameter *kept, const onnx_parameter *made)
{
    return kept->running && kept->partner == made->partner &&
           memcmp(&kept->momentum, &made->momentum, sizeof made->momentum) == 0 &&
           memcmp(&kept->epsilon, &made->epsilon, sizeof made->epsilon) == 0;
}

/* The running statistics of a node that takes the batch's. Those that no initializer holds cannot
   be saved. */
static neap_status keep_statistics(onnx_import *im, const onnx_node *node, neap_tensor y)
{
    onnx_parameter made[2] = {{.running = true}, {.running = true}};
    if (!advances(im) || neap_network_failed(im->net))
        return NEAP_OK;
    for (uint32_t i = 0; i < 2; i++) {
        NEAP_TRY(find_statistics(im, node, 3 + i, &made[i].initializer));
        made[1 - i].partner = made[i].initializer;
        made[i].momentum = neap_onnx_real(node, "momentum", 0.9);
        made[i].epsilon = neap_onnx_real(node, "epsilon", 1e-5);
    }
    bool advances_them = made[0].initializer != made[1].initializer;
    for (uint32_t i = 0; i < 2 && advances_them; i++) {
        const onnx_parameter *kept = find_kept(im, made[i].initializer);
        advances_them = made[i].initializer != NEAP_NONE && (!kept || is_same_rule(kept, &made[i]));
    }
    if (!advances_them) {
        im->stale_norms++;
        return NEAP_OK;
    }
    for (uint32_t i = 0; i < 2; i++)
        if (!find_kept(im, made[i].initializer))
            NEAP_TRY(keep(im, &made[i]));
    neap_net_keep_statistics(im->net, y, im->proto->initializers[made[0].initializer].name,
                             im->proto->initializers[made[1].initializer].name, made[0].momentum);
    im->running_norms++;
    return NEAP_OK;
}

static neap_status lower_batch_norm(onnx_import *im, const onnx_node *node)
{
    neap_tensor x, gamma, beta, mean, variance;
    bool train = trains(im, node);
    double epsilon = neap_onnx_real(node, "epsilon", 1e-5);
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[1], &gamma));
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[2], &beta));
    im->batch_norms[train ? 0 : 1]++;
    if (train) {
        x = neap_net_batch_norm_with(im->net, node->name, x, gamma, beta, epsilon);
        NEAP_TRY(keep_statistics(im, node, x));
    } else {
        NEAP_TRY(read_statistics(im, node, 3, &mean));
        NEAP_TRY(read_statistics(im, node, 4, &variance));
        x = neap_net_batch_norm_frozen(im->net, node->name, x, gamma, beta, mean, variance,
                                       epsilon);
    }
    neap_onnx_set_tensor(im, node, 0, x);
    return NEAP_OK;
}

/* ---- InstanceNormalization, GroupNormalization ---- */

static neap_status infer_channels(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 3));
    const onnx_shape *x = &neap_onnx_input(im, node, 0)->shape;
    for (uint32_t i = 1; i < 3; i++) {
        const onnx_shape *vector = &neap_onnx_input(im, node, i)->shape;
        int64_t groups = x->rank < 2 ? 0 : neap_onnx_int(node, "num_groups", x->dims[1]);
        if (groups < 1 || x->dims[1] % groups != 0 || vector->rank != 1 ||
            (vector->dims[0] != x->dims[1] && vector->dims[0] != groups))
            return neap_onnx_fail(im, node,
                                  "its scale and bias do not fit %u dimensions and "
                                  "%lld groups",
                                  x->rank, (long long)groups);
    }
    return neap_onnx_set_shape(im, node, 0, x);
}

/* A vector with a number for each channel; opset 18 has one for each group. */
static neap_status read_channels(onnx_import *im, const onnx_node *node, uint32_t input,
                                 int64_t channels, neap_tensor *vector)
{
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[input], vector));
    int64_t count = neap_onnx_input(im, node, input)->shape.dims[0];
    if (count == channels)
        return NEAP_OK;
    const int64_t column[] = {count, 1}, whole[] = {count, channels / count};
    *vector = neap_net_reshape(im->net, node->name, *vector, 2, column);
    *vector = neap_net_broadcast(im->net, node->name, *vector, 2, whole);
    *vector = neap_net_reshape(im->net, node->name, *vector, 1, &channels);
    return neap_onnx_check_net(im, node);
}

static neap_status lower_group_norm(onnx_import *im, const onnx_node *node)
{
    neap_tensor x, gamma, beta;
    int64_t channels = neap_onnx_input(im, node, 0)->shape.dims[1];
    int64_t groups = neap_onnx_int(node, "num_groups", channels); /* one channel each: instances */
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    NEAP_TRY(read_channels(im, node, 1, channels, &gamma));
    NEAP_TRY(read_channels(im, node, 2, channels, &beta));
    x = neap_net_group_norm_with(im->net, node->name, x, gamma, beta, groups,
                                 neap_onnx_real(node, "epsilon", 1e-5));
    neap_onnx_set_tensor(im, node, 0, x);
    return NEAP_OK;
}

/* ---- LayerNormalization ---- */

/* x with its last dimensions, from `axis` on, as rows; how the result is seen goes to *view. */
static neap_status read_rows(onnx_import *im, const onnx_node *node, uint32_t axis, int64_t width,
                             onnx_view *view, neap_tensor *x)
{
    const onnx_shape *shape = &neap_onnx_input(im, node, 0)->shape;
    const onnx_view *from;
    NEAP_TRY(neap_onnx_view(im, node, node->inputs[0], &from));
    onnx_view rows = *view = *from; /* the dimensions of a row as one */
    rows.rank = axis + 1;
    for (uint32_t d = axis + 1; d < shape->rank; d++)
        rows.counts[axis] = (uint8_t)(rows.counts[axis] + rows.counts[d]);
    *x = from->root;
    if (from->of_initializer || !neap_onnx_view_keeps_last(&rows, width)) {
        NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], x));
        neap_onnx_view_init(view, *x, false, shape->rank, shape->dims);
    }
    *x = neap_onnx_rows(im, node, *x, width);
    return NEAP_OK;
}

/* Over the last dimension, or the last ones as one; without a mean and a bias for RMS. */
static neap_status lower_layer_norm(onnx_import *im, const onnx_node *node)
{
    const onnx_shape shape = neap_onnx_input(im, node, 0)->shape;
    bool rms = strcmp(node->type, "LayerNormalization") != 0;
    double epsilon = neap_onnx_real(node, "epsilon", 1e-5);
    neap_tensor x, gamma, beta;
    onnx_view view;
    uint32_t axis;
    int64_t width = 1;
    NEAP_TRY(neap_onnx_axis(im, node, neap_onnx_int(node, "axis", -1), shape.rank, &axis));
    for (uint32_t d = axis; d < shape.rank; d++)
        width *= shape.dims[d];
    NEAP_TRY(neap_onnx_affine(im, node, 1, width, 1, &gamma));
    if (!rms)
        NEAP_TRY(neap_onnx_affine(im, node, 2, width, 0, &beta));
    NEAP_TRY(read_rows(im, node, axis, width, &view, &x));
    view.root = rms ? neap_net_rms_norm_with(im->net, node->name, x, gamma, epsilon)
                    : neap_net_layer_norm_with(im->net, node->name, x, gamma, beta, epsilon);
    neap_onnx_set_view(im, node, 0, &view);
    return NEAP_OK;
}

neap_status neap_onnx_affine(onnx_import *im, const onnx_node *node, uint32_t input, int64_t width,
                             double otherwise, neap_tensor *tensor)
{
    const onnx_view *view;
    const onnx_value *value = neap_onnx_input(im, node, input);
    int64_t elements = 0;
    if (value) {
        neap_onnx_shape_elements(&value->shape, &elements);
        if (elements != width)
            return neap_onnx_fail(im, node, "its input %u does not have %lld elements", input,
                                  (long long)width);
        NEAP_TRY(neap_onnx_view(im, node, node->inputs[input], &view));
        onnx_view copy = *view;
        return neap_onnx_weight(im, node, node->inputs[input], &copy, 1, &width, tensor);
    }
    const onnx_shape shape = {.type = ONNX_FLOAT, .rank = 1, .dims = {width}};
    onnx_constant *constant = neap_onnx_constant_new(im->arena, &shape);
    if (!constant)
        return neap_fail_no_memory(im->diag);
    for (int64_t i = 0; i < width; i++)
        constant->floats[i] = (float)otherwise;
    return neap_onnx_fixed(im, constant, node->name, 1, &width, tensor);
}

/* ---- Dropout ---- */

static neap_status infer_dropout(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 1));
    onnx_shape shape = neap_onnx_input(im, node, 0)->shape;
    NEAP_TRY(neap_onnx_set_shape(im, node, 0, &shape));
    shape.type = ONNX_BOOL;
    return neap_onnx_set_shape(im, node, 1, &shape);
}

static neap_tensor drop(neap_network *net, const char *name, neap_tensor x, const double *numbers)
{
    return neap_net_dropout(net, name, x, numbers[0]);
}

static neap_status lower_dropout(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *ratio = neap_onnx_input_constant(im, node, 1);
    const onnx_value *mask = neap_onnx_output(im, node, 1);
    double p[] = {ratio && ratio->elements == 1 ? neap_onnx_get_real(ratio, 0) : 0.5};
    if (mask && mask->live)
        return neap_onnx_fail_unsupported(im, node, "neap keeps the mask of a dropout to itself");
    if (neap_onnx_input(im, node, 1) && !ratio)
        return neap_onnx_fail_unsupported(im, node, "its ratio must be a number");
    if (!(p[0] >= 0 && p[0] < 1))
        return neap_onnx_fail(im, node, "its ratio is %g", p[0]);
    im->dropouts[im->options->train_dropout && p[0] > 0]++;
    if (!im->options->train_dropout)
        p[0] = 0;
    return neap_onnx_lower_each(im, node, node->inputs[0], drop, p);
}

static neap_status infer_layer_norm(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 1));
    const onnx_shape *x = &neap_onnx_input(im, node, 0)->shape;
    if (x->rank == 0)
        return neap_onnx_fail(im, node, "its input has no dimensions");
    return neap_onnx_set_shape(im, node, 0, x);
}

const onnx_op neap_onnx_ops_norm[] = {
    {"BatchNormalization", "", infer_batch_norm, NULL, lower_batch_norm},
    {"LayerNormalization", "", infer_layer_norm, NULL, lower_layer_norm},
    {"RMSNormalization", "", infer_layer_norm, NULL, lower_layer_norm},
    {"InstanceNormalization", "", infer_channels, NULL, lower_group_norm},
    {"GroupNormalization", "", infer_channels, NULL, lower_group_norm},
    {"Dropout", "", infer_dropout, NULL, lower_dropout},
    {0},
};
