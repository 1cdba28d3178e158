/*
 * GPT-2: Radford, Wu, Child, Luan, Amodei and Sutskever, "Language models are unsupervised
 * multitask learners" (2019), as Hugging Face's GPT2LMHeadModel has it: normalization before each
 * half of a layer, packed query, key and value, the tanh form of GELU, the output layer tied to the
 * word embedding. The loss is the mean over all positions.
 */
#include "models/blocks.h"

#define LAYER_NORM_EPSILON 1e-5
#define TRAINED_POSITIONS  1024 /* rows of the position embedding, unless `seq` is more */

#define GPT2_PARAMS(layers, hidden, heads)                                                         \
    {                                                                                              \
        PARAM_BATCH(8), PARAM_SEQ(1024), PARAM_LAYERS(layers), PARAM_HIDDEN(hidden),               \
            PARAM_HEADS(heads), PARAM_VOCAB(50257), PARAM_DROPOUT(0)                               \
    }

static const neap_model_param small_params[] = GPT2_PARAMS(12, 768, 12);
static const neap_model_param medium_params[] = GPT2_PARAMS(24, 1024, 16);
static const neap_model_param large_params[] = GPT2_PARAMS(36, 1280, 20);
static const neap_model_param xl_params[] = GPT2_PARAMS(48, 1600, 25);

/*
 * 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). PyTorch's eager mode runs it as the eight ops
 * that Hugging Face's NewGELUActivation spells out, and saves what each of them needs.
 */
static neap_tensor new_gelu(neap_network *net, neap_tensor x)
{
    if (neap_network_kernels(net) != NEAP_KERNELS_TORCH)
        return neap_net_gelu(net, "act", x, true);
    const double sqrt_2_over_pi = 0.79788456080286535588;
    neap_net_enter(net, "act");
    neap_tensor half = neap_net_scale(net, "half", x, 0.5, 0.0);
    neap_tensor inner = neap_net_pow(net, "cube", x, 3.0);
    inner = neap_net_scale(net, "scaled_cube", inner, 0.044715, 0.0);
    inner = neap_net_add(net, "sum", x, inner);
    inner = neap_net_scale(net, "scaled_sum", inner, sqrt_2_over_pi, 0.0);
    inner = neap_net_tanh(net, "tanh", inner);
    inner = neap_net_scale(net, "one_plus", inner, 1.0, 1.0);
    x = neap_net_mul(net, "product", half, inner);
    neap_net_leave(net);
    return x;
}

/* x: N x T x C */
static neap_tensor block(neap_network *net, neap_tensor x, int64_t heads, double drop)
{
    const int64_t hidden = neap_net_dim(net, x, 2);
    neap_tensor y = neap_net_layer_norm(net, "ln_1", x, LAYER_NORM_EPSILON);
    y = neap_net_linear(net, "attn.c_attn", y, 3 * hidden, true);
    y = neap_net_attention(net, "attn", y, NEAP_NONE, NEAP_NONE, heads, true, drop);
    y = neap_net_linear(net, "attn.c_proj", y, hidden, true);
    y = neap_net_dropout(net, "attn.resid_dropout", y, drop);
    x = neap_net_add(net, "add_1", y, x);

    y = neap_net_layer_norm(net, "ln_2", x, LAYER_NORM_EPSILON);
    neap_net_enter(net, "mlp");
    y = neap_net_linear(net, "c_fc", y, 4 * hidden, true);
    y = new_gelu(net, y);
    y = neap_net_linear(net, "c_proj", y, hidden, true);
    y = neap_net_dropout(net, "dropout", y, drop);
    neap_net_leave(net);
    return neap_net_add(net, "add_2", x, y);
}

static neap_tensor build(neap_network *net, const model_args *args)
{
    if (!neap_block_heads_fit(net, args))
        return NEAP_NONE;
    const double drop = dropout_rate(args);
    const int64_t seq = neap_model_get(args, "seq");
    const int64_t hidden = neap_model_get(args, "hidden");
    const int64_t layers = neap_model_get(args, "layers");
    const int64_t heads = neap_model_get(args, "heads");
    const int64_t positions = seq > TRAINED_POSITIONS ? seq : TRAINED_POSITIONS;

    neap_tensor ids = neap_block_ids(net, args, "input_ids");
    neap_tensor position_ids = neap_block_position_ids(net, args);
    neap_tensor words;
    neap_net_enter(net, "transformer");
    neap_tensor x =
        neap_net_embedding(net, "wte", ids, neap_model_get(args, "vocab"), hidden, &words);
    neap_tensor position = neap_net_embedding(net, "wpe", position_ids, positions, hidden, NULL);
    x = neap_net_dropout(net, "drop", neap_net_add(net, "add", x, position), drop);
    for (int64_t i = 0; i < layers && !neap_network_failed(net); i++) {
        neap_net_enter(net, "h.%" PRId64, i);
        x = block(net, x, heads, drop);
        neap_net_leave(net);
    }
    x = neap_net_layer_norm(net, "ln_f", x, LAYER_NORM_EPSILON);
    neap_net_leave(net);
    return neap_block_token_loss(net, neap_net_linear_with(net, "lm_head", x, words, NEAP_NONE));
}

#define GPT2_SOURCE "Radford et al. 2019; Hugging Face transformers"

const model_family neap_family_gpt2 = {
    .source = GPT2_SOURCE, HAS_PARAMS(small_params), .build = build};
const model_family neap_family_gpt2_medium = {
    .source = GPT2_SOURCE, HAS_PARAMS(medium_params), .build = build};
const model_family neap_family_gpt2_large = {
    .source = GPT2_SOURCE, HAS_PARAMS(large_params), .build = build};
const model_family neap_family_gpt2_xl = {
    .source = GPT2_SOURCE, HAS_PARAMS(xl_params), .build = build};
