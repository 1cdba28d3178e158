/*
 * Batch normalisation (per channel, over N, H, W), layer normalisation (per row, over the last
 * dimension) and group normalisation (per image and group of channels; one channel a group is
 * instance normalisation). RMS normalisation is layer normalisation without a mean and a bias.
 *
 * Statistics are saved in f32 whatever the network's type. With frozen batch normalisation those of
 * the data are inputs; neap_net_keep_statistics makes a step advance them (ops/update.c).
 */
#include "graph/network_internal.h"

#include <string.h>

/* `groups` is an attribute of group normalisation; 0 for others. */
static neap_tensor add_norm_with(neap_network *net, const op_def *def, const char *name,
                                 neap_tensor x, neap_tensor weight, neap_tensor bias,
                                 double epsilon, int64_t groups)
{
    if (!(epsilon > 0))
        return neap_net_fail(net, name, "epsilon must be positive");
    neap_tensor inputs[3] = {x, weight, bias};
    neap_attr attrs[] = {ATTR_REAL("epsilon", epsilon), ATTR_INT("groups", groups)};
    net_call call = {.def = def,
                     .name = name,
                     .n_inputs = 3,
                     .inputs = inputs,
                     .n_attrs = groups ? 2 : 1,
                     .attrs = attrs};
    return neap_net_add_op(net, &call);
}

/* The same with parameters of its own. */
static neap_tensor add_norm(neap_network *net, const op_def *def, const char *name, neap_tensor x,
                            int64_t channels, double epsilon, int64_t groups)
{
    neap_tensor weight = neap_net_add_parameter(net, name, "weight", 1, &channels);
    neap_tensor bias = neap_net_add_parameter(net, name, "bias", 1, &channels);
    return add_norm_with(net, def, name, x, weight, bias, epsilon, groups);
}

extern const op_def neap_op_batch_norm, neap_op_layer_norm, neap_op_group_norm, neap_op_rms_norm,
    neap_op_batch_norm_frozen;

neap_tensor neap_net_batch_norm(neap_network *net, const char *name, neap_tensor x, double epsilon)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    if (input->rank < 2)
        return neap_net_fail(net, name, "batch normalisation takes N x C x ...");
    return add_norm(net, &neap_op_batch_norm, name, x, input->shape[1], epsilon, 0);
}

neap_tensor neap_net_layer_norm(neap_network *net, const char *name, neap_tensor x, double epsilon)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    int64_t channels = input->shape[input->rank - 1];
    return add_norm(net, &neap_op_layer_norm, name, x, channels, epsilon, 0);
}

neap_tensor neap_net_group_norm(neap_network *net, const char *name, neap_tensor x, int64_t groups,
                                double epsilon)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    if (input->rank < 2 || groups < 1)
        return neap_net_fail(net, name,
                             "group normalisation takes N x C x ... and at least one group");
    return add_norm(net, &neap_op_group_norm, name, x, input->shape[1], epsilon, groups);
}

neap_tensor neap_net_batch_norm_with(neap_network *net, const char *name, neap_tensor x,
                                     neap_tensor weight, neap_tensor bias, double epsilon)
{
    return add_norm_with(net, &neap_op_batch_norm, name, x, weight, bias, epsilon, 0);
}

/* The layer that made a tensor; NULL: none did. */
static net_node *maker_of(const neap_network *net, neap_tensor y)
{
    for (size_t n = net->n_nodes; n-- > 0;)
        if (net->nodes[n].outputs[0] == y)
            return &net->nodes[n];
    return NULL;
}

/* Those of this name; NULL: no layer keeps them so far. */
static const net_statistics *find_statistics(const neap_network *net, const char *mean)
{
    for (size_t n = 0; n < net->n_nodes; n++)
        if (net->nodes[n].statistics && strcmp(net->nodes[n].statistics->mean, mean) == 0)
            return net->nodes[n].statistics;
    return NULL;
}

static bool are_alike(const net_statistics *a, const net_statistics *b)
{
    return strcmp(a->variance, b->variance) == 0 && a->channels == b->channels &&
           !(a->momentum < b->momentum || a->momentum > b->momentum || a->epsilon < b->epsilon ||
             a->epsilon > b->epsilon);
}

void neap_net_keep_statistics(neap_network *net, neap_tensor y, const char *mean,
                              const char *variance, double momentum)
{
    if (!neap_net_get(net, mean, y))
        return;
    net_node *node = maker_of(net, y);
    if (!node || node->def != &neap_op_batch_norm || node->statistics) {
        neap_net_fail(net, mean,
                      "\"%s\" is not the result of a batch normalisation without "
                      "running statistics",
                      net->tensors[y].name);
        return;
    }
    if (!(momentum >= 0 && momentum <= 1)) {
        neap_net_fail(net, mean, "the momentum of running statistics is %g; it must be from 0 to 1",
                      momentum);
        return;
    }
    net_statistics *made = neap_arena_alloc(&net->arena, 1, sizeof *made);
    if (!made) {
        neap_net_fail_no_memory(net);
        return;
    }
    *made = (net_statistics){.mean = neap_net_full_name(net, mean, NULL),
                             .variance = neap_net_full_name(net, variance, NULL),
                             .channels = net->tensors[y].shape[1],
                             .momentum = momentum,
                             .epsilon = node->attrs[0].real};
    const net_statistics *shared = find_statistics(net, made->mean);
    if (shared && !are_alike(shared, made)) {
        neap_net_fail(net, mean,
                      "layers that share running statistics have the same channels, momentum and "
                      "epsilon");
        return;
    }
    node->statistics = shared ? shared : made;
}

neap_tensor neap_net_layer_norm_with(neap_network *net, const char *name, neap_tensor x,
                                     neap_tensor weight, neap_tensor bias, double epsilon)
{
    return add_norm_with(net, &neap_op_layer_norm, name, x, weight, bias, epsilon, 0);
}

neap_tensor neap_net_group_norm_with(neap_network *net, const char *name, neap_tensor x,
                                     neap_tensor weight, neap_tensor bias, int64_t groups,
                                     double epsilon)
{
    if (groups < 1)
        return neap_net_fail(net, name, "group normalisation takes at least one group");
    return add_norm_with(net, &neap_op_group_norm, name, x, weight, bias, epsilon, groups);
}

neap_tensor neap_net_instance_norm(neap_network *net, const char *name, neap_tensor x,
                                   double epsilon)
{
    return neap_net_group_norm(net, name, x, neap_net_dim(net, x, 1), epsilon);
}

neap_tensor neap_net_rms_norm(neap_network *net, const char *name, neap_tensor x, double epsilon)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    int64_t channels = input->shape[input->rank - 1];
    neap_tensor weight = neap_net_add_parameter(net, name, "weight", 1, &channels);
    return neap_net_rms_norm_with(net, name, x, weight, epsilon);
}

neap_tensor neap_net_rms_norm_with(neap_network *net, const char *name, neap_tensor x,
                                   neap_tensor weight, double epsilon)
{
    if (!(epsilon > 0))
        return neap_net_fail(net, name, "epsilon must be positive");
    net_call call = {.def = &neap_op_rms_norm,
                     .name = name,
                     .n_inputs = 2,
                     .inputs = (neap_tensor[]){x, weight},
                     .n_attrs = 1,
                     .attrs = &ATTR_REAL("epsilon", epsilon)};
    return neap_net_add_op(net, &call);
}

neap_tensor neap_net_batch_norm_frozen(neap_network *net, const char *name, neap_tensor x,
                                       neap_tensor weight, neap_tensor bias, neap_tensor mean,
                                       neap_tensor variance, double epsilon)
{
    if (!(epsilon > 0))
        return neap_net_fail(net, name, "epsilon must be positive");
    net_call call = {.def = &neap_op_batch_norm_frozen,
                     .name = name,
                     .n_inputs = 5,
                     .inputs = (neap_tensor[]){x, weight, bias, mean, variance},
                     .n_attrs = 1,
                     .attrs = &ATTR_REAL("epsilon", epsilon)};
    return neap_net_add_op(net, &call);
}

static void group_norm_rule(op_fit *fit)
{
    int64_t groups = neap_fit_int(fit, "groups"), channels = neap_fit_extent(fit, 'C');
    if (channels % groups)
        neap_fit_fail(fit, "%lld groups do not divide its %lld channels", (long long)groups,
                      (long long)channels);
}

/* The kernels make the gradients of gamma and beta together; one of a constant goes unused. */
static void emit(neap_network *net, const net_node *node, const char *type)
{
    neap_tensor reads[5];
    uint32_t count = 0;
    reads[count++] = neap_grad_of(net, node, 0);
    reads[count++] = node->inputs[0];
    if (neap_grad_wanted(net, node->inputs[0])) /* only dx needs gamma */
        reads[count++] = node->inputs[1];
    reads[count++] = node->outputs[1];
    reads[count++] = node->outputs[2];
    neap_grad_emit_all(net, node, type, count, reads, 3, node->inputs, 1);
}

static void batch_norm_backward(neap_network *net, const net_node *node)
{
    emit(net, node, "batch_norm_bw");
}

static void layer_norm_backward(neap_network *net, const net_node *node)
{
    emit(net, node, "layer_norm_bw");
}

static void group_norm_backward(neap_network *net, const net_node *node)
{
    emit(net, node, "group_norm_bw");
}

static void rms_norm_backward(neap_network *net, const net_node *node)
{
    neap_tensor reads[4];
    uint32_t count = 0;
    reads[count++] = neap_grad_of(net, node, 0);
    reads[count++] = node->inputs[0];
    if (neap_grad_wanted(net, node->inputs[0])) /* only dx needs gamma */
        reads[count++] = node->inputs[1];
    reads[count++] = node->outputs[1];
    neap_grad_emit_all(net, node, "rms_norm_bw", count, reads, 2, node->inputs, 1);
}

/* The statistics are constants; the gradient of beta is a sum of dy alone. */
static void batch_norm_frozen_backward(neap_network *net, const net_node *node)
{
    neap_tensor dy = neap_grad_of(net, node, 0), x = node->inputs[0], gamma = node->inputs[1];
    neap_tensor mean = node->inputs[3], variance = node->inputs[4];
    int64_t all = (INT64_C(1) << net->tensors[x].rank) - 1;
    neap_attr sum[] = {ATTR_INT("axes", all & ~INT64_C(2)), ATTR_INT("keepdims", 0)};
    neap_grad_emit(net, node, "batch_norm_frozen_bw_weight", 4,
                   (neap_tensor[]){dy, x, mean, variance}, 1, &gamma);
    neap_grad_emit_with(net, node, "sum_axes", 1, &dy, node->inputs[2], 2, sum);
    neap_grad_emit(net, node, "batch_norm_frozen_bw_data", 3, (neap_tensor[]){dy, gamma, variance},
                   1, &x);
}

static void count_rms(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_mul(4, neap_count_elements(&s->inputs[0]));
}

/* Normalise again 1, the sum 2, the input's gradient 5. */
static void count_rms_bw(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_mul(8, neap_count_elements(&s->inputs[0]));
}

/* Normalise again 2, multiply and add 2. */
static void count_frozen_weight(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_mul(4, neap_count_elements(&s->inputs[0]));
}

/* Mean 1, variance 3, normalise 2, scale and shift 2. */
static void count_forward(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_mul(8, neap_count_elements(&s->inputs[0]));
}

/* Normalise again 2, the two sums 3, the input's gradient 6. */
static void count_backward(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_mul(11, neap_count_elements(&s->inputs[0]));
}

/*
 * Statistics and sums are complete before the first element is written, and from then on each
 * depends on its own place alone.
 */
enum { OVER_X = 1, OVER_DY = 1, OVER_X_BW = 2 };

const op_def neap_op_batch_norm = {
    .type = "batch_norm",
    .in_place = OVER_X,
    .form = "x[N,C,*R] gamma[C] beta[C] -> y[N,C,*R] mean:f32[C] invstd:f32[C]",
    .attrs = "epsilon~",
    .count = count_forward,
    .backward = batch_norm_backward};
const op_def neap_op_batch_norm_bw = {
    .type = "batch_norm_bw",
    .in_place = OVER_DY | OVER_X_BW,
    .form = "dy[N,C,*R] x[N,C,*R] gamma[C] mean[C] invstd[C] -> dx[N,C,*R] dgamma[C] dbeta[C]"
            " | dy[N,C,*R] x[N,C,*R] mean[C] invstd[C] -> dgamma[C] dbeta[C]",
    .count = count_backward};
const op_def neap_op_layer_norm = {
    .type = "layer_norm",
    .in_place = OVER_X,
    .form = "x[*R,C] gamma[C] beta[C] -> y[*R,C] mean:f32[*R] invstd:f32[*R]",
    .attrs = "epsilon~",
    .count = count_forward,
    .backward = layer_norm_backward};
const op_def neap_op_layer_norm_bw = {
    .type = "layer_norm_bw",
    .in_place = OVER_DY | OVER_X_BW,
    .form = "dy[*R,C] x[*R,C] gamma[C] mean[*R] invstd[*R] -> dx[*R,C] dgamma[C] dbeta[C]"
            " | dy[*R,C] x[*R,C] mean[*R] invstd[*R] -> dgamma[C] dbeta[C]",
    .count = count_backward};
const op_def neap_op_group_norm = {
    .type = "group_norm",
    .in_place = OVER_X,
    .form = "x[N,C,*R] gamma[C] beta[C] -> y[N,C,*R] mean:f32[N,groups] invstd:f32[N,groups]",
    .attrs = "groups>0 epsilon~",
    .rule = group_norm_rule,
    .count = count_forward,
    .backward = group_norm_backward};
const op_def neap_op_group_norm_bw = {
    .type = "group_norm_bw",
    .in_place = OVER_DY | OVER_X_BW,
    .form = "dy[N,C,*R] x[N,C,*R] gamma[C] mean[N,groups] invstd[N,groups]"
            " -> dx[N,C,*R] dgamma[C] dbeta[C]"
            " | dy[N,C,*R] x[N,C,*R] mean[N,groups] invstd[N,groups] -> dgamma[C] dbeta[C]",
    .attrs = "groups>0",
    .rule = group_norm_rule,
    .count = count_backward};
const op_def neap_op_rms_norm = {.type = "rms_norm",
                                 .in_place = OVER_X,
                                 .form = "x[*R,C] gamma[C] -> y[*R,C] invrms:f32[*R]",
                                 .attrs = "epsilon~",
                                 .count = count_rms,
                                 .backward = rms_norm_backward};
const op_def neap_op_rms_norm_bw = {.type = "rms_norm_bw",
                                    .in_place = OVER_DY | OVER_X_BW,
                                    .form =
                                        "dy[*R,C] x[*R,C] gamma[C] invrms[*R] -> dx[*R,C] dgamma[C]"
                                        " | dy[*R,C] x[*R,C] invrms[*R] -> dgamma[C]",
                                    .count = count_rms_bw};
const op_def neap_op_batch_norm_frozen = {
    .type = "batch_norm_frozen",
    .in_place = OVER_X,
    .form = "x[N,C,*R] gamma[C] beta[C] mean[C] variance[C] -> y[N,C,*R]",
    .attrs = "epsilon~",
    .flops_per_element = 4,
    .backward = batch_norm_frozen_backward};
const op_def neap_op_batch_norm_frozen_bw_data = {
    .type = "batch_norm_frozen_bw_data",
    .in_place = OVER_DY,
    .form = "dy[N,C,*R] gamma[C] variance[C] -> dx[N,C,*R]",
    .attrs = "epsilon~",
    .flops_per_element = 2};
const op_def neap_op_batch_norm_frozen_bw_weight = {
    .type = "batch_norm_frozen_bw_weight",
    .form = "dy[N,C,*R] x[N,C,*R] mean[C] variance[C] -> dgamma[C]",
    .attrs = "epsilon~",
    .count = count_frozen_weight};
