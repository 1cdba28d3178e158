/*
 * Inception v3: Szegedy, Vanhoucke, Ioffe, Shlens and Wojna, "Rethinking the Inception architecture
 * for computer vision" (2016), as torchvision has it, input transform off. The loss is that of the
 * main head and 0.4 times that of the auxiliary one.
 *
 * A module is a handful of branches on the same input, concatenated; a branch is a list of
 * convolutions. Branches are built one statement each: the order of calls is the order of ops.
 */
#include "models/blocks.h"

#define LEAST_IMAGE     75  /* what the modules need */
#define LEAST_AUX_IMAGE 299 /* what the auxiliary head's 5 x 5 kernels need */

static const neap_model_param params[] = {
    PARAM_BATCH(32),
    PARAM_IMAGE(299, LEAST_IMAGE),
    PARAM_IMAGE_W,
    PARAM_CLASSES(1000),
    PARAM_DROPOUT(50),
    PARAM_WIDTH,
    {"aux", "1: with the auxiliary head, for images of 299 pixels and more", 1, 0, 1},
};

/* One convolution of a branch. With stride 1 it keeps height and width, with stride 2 it has no
 * padding. */
typedef struct step {
    const char *name;
    int64_t channels, kernel_h, kernel_w, stride;
} step;

static neap_tensor conv_bn_relu(neap_network *net, const char *name, neap_tensor x,
                                neap_conv2d conv)
{
    neap_net_enter(net, "%s", name);
    x = neap_net_conv2d(net, "conv", x, &conv);
    x = neap_net_relu(net, "relu", neap_net_batch_norm(net, "bn", x, 1e-3));
    neap_net_leave(net);
    return x;
}

static neap_tensor run_step(neap_network *net, const model_args *args, neap_tensor x, const step *s)
{
    const neap_conv2d conv = {.channels = scaled(args, s->channels),
                              .kernel_h = s->kernel_h,
                              .kernel_w = s->kernel_w,
                              .stride_h = s->stride,
                              .stride_w = s->stride,
                              .pad_h = s->stride == 1 ? (s->kernel_h - 1) / 2 : 0,
                              .pad_w = s->stride == 1 ? (s->kernel_w - 1) / 2 : 0};
    return conv_bn_relu(net, s->name, x, conv);
}

static neap_tensor run_steps(neap_network *net, const model_args *args, neap_tensor x,
                             uint32_t count, const step *steps)
{
    for (uint32_t i = 0; i < count; i++)
        x = run_step(net, args, x, &steps[i]);
    return x;
}

#define BRANCH(net, args, x, steps) run_steps((net), (args), (x), COUNT_OF(steps), (steps))

/* The branch of a 3 x 3 average and a 1 x 1 convolution. */
static neap_tensor pool_branch(neap_network *net, const model_args *args, neap_tensor x,
                               int64_t channels)
{
    neap_pool2d pool = square_pool(3, 1, 1);
    pool.count_include_pad = true;
    x = neap_net_avg_pool2d(net, "avg_pool", x, &pool);
    return run_step(net, args, x, &(step){"branch_pool", channels, 1, 1, 1});
}

static neap_tensor halving_pool(neap_network *net, neap_tensor x)
{
    const neap_pool2d pool = square_pool(3, 2, 0);
    return neap_net_max_pool2d(net, "max_pool", x, &pool, NULL);
}

#define CONCAT(net, name, parts) neap_net_concat((net), (name), COUNT_OF(parts), (parts), 1)

/* 1 x 1, 5 x 5, two 3 x 3 and a pool: figure 5 of the paper. */
static neap_tensor module_a(neap_network *net, const model_args *args, neap_tensor x,
                            int64_t pool_channels)
{
    static const step b1[] = {{"branch1x1", 64, 1, 1, 1}};
    static const step b5[] = {{"branch5x5_1", 48, 1, 1, 1}, {"branch5x5_2", 64, 5, 5, 1}};
    static const step b3[] = {{"branch3x3dbl_1", 64, 1, 1, 1},
                              {"branch3x3dbl_2", 96, 3, 3, 1},
                              {"branch3x3dbl_3", 96, 3, 3, 1}};
    neap_tensor branches[4];
    branches[0] = BRANCH(net, args, x, b1);
    branches[1] = BRANCH(net, args, x, b5);
    branches[2] = BRANCH(net, args, x, b3);
    branches[3] = pool_branch(net, args, x, pool_channels);
    return CONCAT(net, "cat", branches);
}

/* From 35 x 35 to 17 x 17: figure 10. */
static neap_tensor module_b(neap_network *net, const model_args *args, neap_tensor x)
{
    static const step b3[] = {{"branch3x3", 384, 3, 3, 2}};
    static const step b33[] = {{"branch3x3dbl_1", 64, 1, 1, 1},
                               {"branch3x3dbl_2", 96, 3, 3, 1},
                               {"branch3x3dbl_3", 96, 3, 3, 2}};
    neap_tensor branches[3];
    branches[0] = BRANCH(net, args, x, b3);
    branches[1] = BRANCH(net, args, x, b33);
    branches[2] = halving_pool(net, x);
    return CONCAT(net, "cat", branches);
}

/* 7 x 7 kernels as 1 x 7 and 7 x 1, with `width` channels between: figure 6. */
static neap_tensor module_c(neap_network *net, const model_args *args, neap_tensor x, int64_t width)
{
    const step b1[] = {{"branch1x1", 192, 1, 1, 1}};
    const step b7[] = {{"branch7x7_1", width, 1, 1, 1},
                       {"branch7x7_2", width, 1, 7, 1},
                       {"branch7x7_3", 192, 7, 1, 1}};
    const step b77[] = {{"branch7x7dbl_1", width, 1, 1, 1},
                        {"branch7x7dbl_2", width, 7, 1, 1},
                        {"branch7x7dbl_3", width, 1, 7, 1},
                        {"branch7x7dbl_4", width, 7, 1, 1},
                        {"branch7x7dbl_5", 192, 1, 7, 1}};
    neap_tensor branches[4];
    branches[0] = BRANCH(net, args, x, b1);
    branches[1] = BRANCH(net, args, x, b7);
    branches[2] = BRANCH(net, args, x, b77);
    branches[3] = pool_branch(net, args, x, 192);
    return CONCAT(net, "cat", branches);
}

/* From 17 x 17 to 8 x 8. */
static neap_tensor module_d(neap_network *net, const model_args *args, neap_tensor x)
{
    static const step b3[] = {{"branch3x3_1", 192, 1, 1, 1}, {"branch3x3_2", 320, 3, 3, 2}};
    static const step b7[] = {{"branch7x7x3_1", 192, 1, 1, 1},
                              {"branch7x7x3_2", 192, 1, 7, 1},
                              {"branch7x7x3_3", 192, 7, 1, 1},
                              {"branch7x7x3_4", 192, 3, 3, 2}};
    neap_tensor branches[3];
    branches[0] = BRANCH(net, args, x, b3);
    branches[1] = BRANCH(net, args, x, b7);
    branches[2] = halving_pool(net, x);
    return CONCAT(net, "cat", branches);
}

/* x through a 1 x 3 and a 3 x 1 convolution, side by side. */
static neap_tensor split_3x3(neap_network *net, const model_args *args, const char *name,
                             neap_tensor x, const step *row, const step *column)
{
    neap_tensor halves[2];
    halves[0] = run_step(net, args, x, row);
    halves[1] = run_step(net, args, x, column);
    return CONCAT(net, name, halves);
}

/* 1 x 1, a split 3 x 3, a 3 x 3 and a split one, and a pool: figure 7. */
static neap_tensor module_e(neap_network *net, const model_args *args, neap_tensor x)
{
    static const step b1[] = {{"branch1x1", 320, 1, 1, 1}};
    static const step b3[] = {{"branch3x3_1", 384, 1, 1, 1}};
    static const step b3_row = {"branch3x3_2a", 384, 1, 3, 1};
    static const step b3_column = {"branch3x3_2b", 384, 3, 1, 1};
    static const step b33[] = {{"branch3x3dbl_1", 448, 1, 1, 1}, {"branch3x3dbl_2", 384, 3, 3, 1}};
    static const step b33_row = {"branch3x3dbl_3a", 384, 1, 3, 1};
    static const step b33_column = {"branch3x3dbl_3b", 384, 3, 1, 1};

    neap_tensor branches[4];
    branches[0] = BRANCH(net, args, x, b1);
    branches[1] =
        split_3x3(net, args, "branch3x3.cat", BRANCH(net, args, x, b3), &b3_row, &b3_column);
    branches[2] =
        split_3x3(net, args, "branch3x3dbl.cat", BRANCH(net, args, x, b33), &b33_row, &b33_column);
    branches[3] = pool_branch(net, args, x, 192);
    return CONCAT(net, "cat", branches);
}

/* From 299 x 299 x 3 to 35 x 35 x 192. */
static neap_tensor build_stem(neap_network *net, const model_args *args, neap_tensor x)
{
    const neap_pool2d pool = square_pool(3, 2, 0);
    x = conv_bn_relu(net, "Conv2d_1a_3x3", x, square_conv(scaled(args, 32), 3, 2, 0));
    x = conv_bn_relu(net, "Conv2d_2a_3x3", x, square_conv(scaled(args, 32), 3, 1, 0));
    x = conv_bn_relu(net, "Conv2d_2b_3x3", x, square_conv(scaled(args, 64), 3, 1, 1));
    x = neap_net_max_pool2d(net, "maxpool1", x, &pool, NULL);
    x = conv_bn_relu(net, "Conv2d_3b_1x1", x, square_conv(scaled(args, 80), 1, 1, 0));
    x = conv_bn_relu(net, "Conv2d_4a_3x3", x, square_conv(scaled(args, 192), 3, 1, 0));
    return neap_net_max_pool2d(net, "maxpool2", x, &pool, NULL);
}

/* The modules up to the auxiliary head's fork: 17 x 17 x 768. */
static neap_tensor build_trunk(neap_network *net, const model_args *args, neap_tensor x)
{
    static const struct {
        const char *name;
        int64_t pool_channels;
    } a[] = {{"Mixed_5b", 32}, {"Mixed_5c", 64}, {"Mixed_5d", 64}};
    static const struct {
        const char *name;
        int64_t width;
    } c[] = {{"Mixed_6b", 128}, {"Mixed_6c", 160}, {"Mixed_6d", 160}, {"Mixed_6e", 192}};

    for (uint32_t i = 0; i < COUNT_OF(a); i++) {
        neap_net_enter(net, "%s", a[i].name);
        x = module_a(net, args, x, a[i].pool_channels);
        neap_net_leave(net);
    }
    neap_net_enter(net, "Mixed_6a");
    x = module_b(net, args, x);
    neap_net_leave(net);
    for (uint32_t i = 0; i < COUNT_OF(c); i++) {
        neap_net_enter(net, "%s", c[i].name);
        x = module_c(net, args, x, c[i].width);
        neap_net_leave(net);
    }
    return x;
}

/* The modules after the fork, and the head: 17 x 17 x 768 -> classes. */
static neap_tensor build_main_head(neap_network *net, const model_args *args, neap_tensor x)
{
    neap_net_enter(net, "Mixed_7a");
    x = module_d(net, args, x);
    neap_net_leave(net);
    for (const char *name = "bc"; *name; name++) {
        neap_net_enter(net, "Mixed_7%c", *name);
        x = module_e(net, args, x);
        neap_net_leave(net);
    }
    x = neap_net_adaptive_avg_pool2d(net, "avgpool", x, 1, 1);
    x = neap_net_dropout(net, "dropout", x, dropout_rate(args));
    x = neap_net_flatten(net, "flatten", x, 1);
    return neap_net_linear(net, "fc", x, neap_model_get(args, "classes"), true);
}

static neap_tensor build_aux_head(neap_network *net, const model_args *args, neap_tensor x)
{
    const neap_pool2d pool = square_pool(5, 3, 0);
    neap_net_enter(net, "AuxLogits");
    x = neap_net_avg_pool2d(net, "avg_pool", x, &pool);
    x = conv_bn_relu(net, "conv0", x, square_conv(scaled(args, 128), 1, 1, 0));
    x = conv_bn_relu(net, "conv1", x, square_conv(scaled(args, 768), 5, 1, 0));
    x = neap_block_global_pool(net, "global_pool", x);
    x = neap_net_linear(net, "fc", x, neap_model_get(args, "classes"), true);
    neap_net_leave(net);
    return x;
}

static neap_tensor build(neap_network *net, const model_args *args)
{
    const bool aux = neap_model_get(args, "aux") != 0;
    if (aux && (image_height(args) < LEAST_AUX_IMAGE || image_width(args) < LEAST_AUX_IMAGE)) {
        neap_network_fail(net,
                          "an image of %" PRId64 " x %" PRId64
                          " is too small for the auxiliary head: it needs %d x %d, or set aux to 0",
                          image_height(args), image_width(args), LEAST_AUX_IMAGE, LEAST_AUX_IMAGE);
        return NEAP_NONE;
    }
    const int64_t batch = neap_model_get(args, "batch");
    neap_tensor x = neap_block_images(net, args);
    neap_tensor labels = neap_net_input(net, "labels", NEAP_I64, 1, &batch);
    x = build_trunk(net, args, build_stem(net, args, x));
    neap_tensor aux_logits = aux ? build_aux_head(net, args, x) : NEAP_NONE;
    neap_tensor logits = build_main_head(net, args, x);
    if (!aux)
        return neap_net_cross_entropy(net, "loss", logits, labels);

    neap_tensor loss = neap_net_cross_entropy(net, "main_loss", logits, labels);
    neap_tensor aux_loss = neap_net_cross_entropy(net, "AuxLogits.loss", aux_logits, labels);
    aux_loss = neap_net_scale(net, "AuxLogits.weight", aux_loss, 0.4, 0.0);
    return neap_net_add(net, "loss", loss, aux_loss);
}

const model_family neap_family_inception_v3 = {
    .source = "Szegedy, Vanhoucke, Ioffe, Shlens and Wojna 2016, arXiv:1512.00567; torchvision",
    HAS_PARAMS(params),
    .build = build,
};
