/* Shared pieces of networks; see blocks.h. */
#include "models/blocks.h"

bool neap_block_image_multiple_of(neap_network *net, const model_args *args, int64_t multiple)
{
    const int64_t sizes[] = {image_height(args), image_width(args)};
    for (int i = 0; i < 2; i++) {
        int64_t below = sizes[i] / multiple * multiple;
        if (below == sizes[i])
            continue;
        neap_network_fail(net,
                          "image%s %" PRId64 " is no multiple of %" PRId64 "; %" PRId64
                          " and %" PRId64 " are",
                          i == 0 ? "" : "_w", sizes[i], multiple, below, below + multiple);
        return false;
    }
    return true;
}

bool neap_block_heads_fit(neap_network *net, const model_args *args)
{
    int64_t hidden = neap_model_get(args, "hidden");
    int64_t heads = neap_model_get(args, "heads");
    if (hidden % heads == 0)
        return true;
    neap_network_fail(net, "hidden %" PRId64 " is no multiple of heads %" PRId64, hidden, heads);
    return false;
}

neap_tensor neap_block_images(neap_network *net, const model_args *args)
{
    const int64_t shape[] = {neap_model_get(args, "batch"), 3, image_height(args),
                             image_width(args)};
    return neap_net_input(net, "images", args->dtype, 4, shape);
}

neap_tensor neap_block_ids(neap_network *net, const model_args *args, const char *name)
{
    const int64_t shape[] = {neap_model_get(args, "batch"), neap_model_get(args, "seq")};
    return neap_net_input(net, name, NEAP_I64, 2, shape);
}

neap_tensor neap_block_position_ids(neap_network *net, const model_args *args)
{
    const int64_t shape[] = {neap_model_get(args, "seq")};
    return neap_net_input(net, "position_ids", NEAP_I64, 1, shape);
}

neap_tensor neap_block_class_loss(neap_network *net, neap_tensor logits)
{
    const int64_t shape[] = {neap_net_dim(net, logits, 0)};
    neap_tensor labels = neap_net_input(net, "labels", NEAP_I64, 1, shape);
    return neap_net_cross_entropy(net, "loss", logits, labels);
}

neap_tensor neap_block_pixel_loss(neap_network *net, neap_tensor scores)
{
    const int64_t shape[] = {neap_net_dim(net, scores, 0), neap_net_dim(net, scores, 2),
                             neap_net_dim(net, scores, 3)};
    neap_tensor labels = neap_net_input(net, "labels", NEAP_I64, 3, shape);
    return neap_net_cross_entropy(net, "loss", scores, labels);
}

neap_tensor neap_block_token_loss(neap_network *net, neap_tensor logits)
{
    const int64_t rows = neap_net_dim(net, logits, 0) * neap_net_dim(net, logits, 1);
    const int64_t shape[] = {rows, neap_net_dim(net, logits, 2)};
    neap_tensor labels = neap_net_input(net, "labels", NEAP_I64, 1, &rows);
    logits = neap_net_reshape(net, "flatten", logits, 2, shape);
    return neap_net_cross_entropy(net, "loss", logits, labels);
}

neap_tensor neap_block_conv_bn(neap_network *net, const char *conv_name, const char *bn_name,
                               neap_tensor x, neap_conv2d conv)
{
    x = neap_net_conv2d(net, conv_name, x, &conv);
    return neap_net_batch_norm(net, bn_name, x, BATCH_NORM_EPSILON);
}

neap_tensor neap_block_global_pool(neap_network *net, const char *name, neap_tensor x)
{
    x = neap_net_adaptive_avg_pool2d(net, name, x, 1, 1);
    return neap_net_flatten(net, "flatten", x, 1);
}
