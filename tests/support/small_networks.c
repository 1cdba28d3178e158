/* The table of small networks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "small_networks.h"

#include <string.h>

static neap_tensor normed(neap_network *net, const char *name, neap_tensor x)
{
    const neap_conv2d conv = {.channels = 5, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
    neap_net_enter(net, "%s", name);
    x = neap_net_batch_norm(net, "bn", neap_net_conv2d(net, "conv", x, &conv), 1e-5);
    neap_net_keep_statistics(net, x, "bn.running_mean", "bn.running_var", 0.875);
    x = neap_net_relu(net, "relu", x);
    neap_net_leave(net);
    return x;
}

/* Images of 4 x 3 x 12 x 12, 5 classes: a shortcut, a layer of several ops and, if `shared`, one
   that has its statistics in common with another. */
static neap_tensor make_running(neap_network *net, bool shared)
{
    neap_tensor x = neap_net_input(net, "images", NEAP_F32, 4, (int64_t[]){4, 3, 12, 12});
    neap_tensor labels = neap_net_input(net, "labels", NEAP_I64, 1, (int64_t[]){4});
    x = normed(net, "a", x);
    neap_tensor shortcut = x;
    neap_net_begin_layer(net);
    x = normed(net, "b", x);
    neap_net_end_layer(net);
    x = neap_net_add(net, "add", normed(net, "c", x), shortcut);
    if (shared) {
        x = neap_net_batch_norm(net, "d", x, 1e-5);
        neap_net_keep_statistics(net, x, "c.bn.running_mean", "c.bn.running_var", 0.875);
    }
    x = neap_net_flatten(net, "flat", neap_net_adaptive_avg_pool2d(net, "pool", x, 1, 1), 1);
    return neap_net_cross_entropy(net, "loss", neap_net_linear(net, "fc", x, 5, true), labels);
}

/* Narrow networks on large batches: what plans are about is activations, not weights. */
/* clang-format off */
#define IMAGES(count, size, percent)  {"batch", (count)}, {"image", (size)}, {"classes", 5}, {"width", (percent)}
#define TOKENS(count, length, size)   {"batch", (count)}, {"seq", (length)}, {"vocab", 24}, {"hidden", (size)}

static const small_network networks[] = {
    {"alexnet",            "alexnet",      {IMAGES(12, 63, 2)}},
    {"vgg11",              "vgg11",        {IMAGES(16, 32, 2)}},
    {"vgg16",              "vgg16",        {IMAGES(8, 32, 2)}},
    {"vgg19",              "vgg19",        {IMAGES(8, 32, 2)}},
    {"vgg11 batch_norm",   "vgg11",        {IMAGES(8, 32, 2), {"batch_norm", 1}}},
    {"hong-vgg19",         "hong-vgg19",   {IMAGES(6, 32, 3)}},
    {"hong-alexnet",       "hong-alexnet", {IMAGES(16, 37, 2)}},
    {"hong-alexnet-plain", "hong-alexnet-plain", {IMAGES(16, 37, 2)}},
    {"resnet18",           "resnet18",     {IMAGES(4, 48, 4)}},
    {"resnet18 groups",    "resnet18",     {IMAGES(4, 48, 4), {"norm_groups", 1}}},
    {"resnet34",           "resnet34",     {IMAGES(4, 48, 4)}},
    {"resnet50",           "resnet50",     {IMAGES(3, 48, 3)}},
    {"resnet101",          "resnet101",    {IMAGES(3, 48, 3)}},
    {"resnet152",          "resnet152",    {IMAGES(3, 48, 3)}},
    {"densenet121",        "densenet121",  {IMAGES(2, 29, 6)}},
    {"densenet161",        "densenet161",  {IMAGES(2, 29, 4)}},
    {"densenet169",        "densenet169",  {IMAGES(2, 29, 4)}},
    {"densenet201",        "densenet201",  {IMAGES(2, 29, 4)}},
    {"densenet-chain",     "densenet-chain", {IMAGES(2, 29, 6)}},
    {"inception_v3",       "inception_v3", {IMAGES(2, 75, 3), {"aux", 0}}},
    {"inception_v3 aux",   "inception_v3", {IMAGES(1, 299, 1)}},
    {"mobilenet_v1",       "mobilenet_v1", {IMAGES(4, 48, 7)}},
    {"mobilenet_v1 keras", "mobilenet_v1", {IMAGES(4, 48, 7), {"keras", 1}}},
    {"mobilenet_v2",       "mobilenet_v2", {IMAGES(4, 48, 8)}},
    {"convnext_tiny",      "convnext_tiny", {IMAGES(2, 32, 6)}},
    {"unet",               "unet",         {IMAGES(2, 32, 4)}},
    {"fcn8",               "fcn8",         {IMAGES(6, 32, 2)}},
    {"segnet",             "segnet",       {IMAGES(4, 32, 4)}},
    {"vit_b_16",           "vit_b_16",     {{"batch", 4}, {"image", 48}, {"classes", 5}, {"hidden", 6},
                                            {"heads", 2}, {"dropout_percent", 10}}},
    {"bert-base",          "bert-base",    {TOKENS(4, 12, 6), {"heads", 3}}},
    {"gpt2",               "gpt2",         {TOKENS(4, 16, 8), {"heads", 2}, {"dropout_percent", 10}}},
    {"gpt2-medium",        "gpt2-medium",  {TOKENS(3, 14, 6), {"heads", 2}}},
    {"gpt2-large",         "gpt2-large",   {TOKENS(3, 12, 6), {"heads", 3}}},
    {"gpt2-xl",            "gpt2-xl",      {TOKENS(2, 12, 6), {"heads", 2}}},
    {"lstm",               "lstm",         {TOKENS(3, 8, 10)}},
    {"lstm tied",          "lstm",         {TOKENS(4, 12, 10), {"tied", 1}}},
    {"running statistics", NULL,           {{NULL, 0}}},
    {"shared statistics",  NULL,           {{NULL, 0}}},
};
/* clang-format on */

uint32_t small_networks_count(void)
{
    return sizeof networks / sizeof *networks;
}

const small_network *small_networks_at(uint32_t index)
{
    return &networks[index];
}

const small_network *small_networks_find(const char *name)
{
    for (uint32_t i = 0; i < small_networks_count(); i++)
        if (strcmp(networks[i].name, name) == 0)
            return &networks[i];
    return NULL;
}

static neap_status make(const small_network *network, const neap_training *training,
                        neap_graph **graph, neap_diag *diag)
{
    neap_network *net;
    neap_status status = neap_network_create(NULL, network->name, NEAP_F32, &net, diag);
    if (status != NEAP_OK)
        return status;
    neap_tensor loss = make_running(net, strcmp(network->name, "shared statistics") == 0);
    status = neap_network_finish(net, loss, training, graph, diag);
    neap_network_destroy(net);
    return status;
}

neap_graph *small_network_train(const small_network *network, const neap_training *training)
{
    neap_model_options options;
    neap_graph *graph = NULL;
    neap_diag diag;
    neap_model_options_init(&options);
    options.training = *training;
    options.settings = network->settings;
    while (options.n_settings < SMALL_NETWORK_SETTINGS &&
           network->settings[options.n_settings].name)
        options.n_settings++;
    neap_status status = !network->model ? make(network, training, &graph, &diag)
                                         : neap_model_build(NULL, neap_models_find(network->model),
                                                            &options, &graph, &diag);
    if (status != NEAP_OK)
        fail_msg("%s: %s", network->name, diag.message);
    return graph;
}

neap_graph *small_network_build(const small_network *network, neap_optimizer optimizer)
{
    neap_training training;
    neap_training_init(&training);
    training.optimizer = optimizer;
    return small_network_train(network, &training);
}
