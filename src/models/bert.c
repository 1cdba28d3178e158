/*
 * BERT base: Devlin, Chang, Lee and Toutanova, "BERT: pre-training of deep bidirectional
 * transformers for language understanding" (2019), as Hugging Face's BertForMaskedLM has it:
 * normalization after each half of a layer, query, key and value by themselves, the exact GELU,
 * the decoder tied to the word embedding with a bias of its own. No attention mask: sequences are
 * full. The loss is the mean over all positions.
 */
#include "models/blocks.h"

#define LAYER_NORM_EPSILON 1e-12
#define TRAINED_POSITIONS  512 /* rows of the position embedding, unless `seq` is more */
#define TOKEN_TYPES        2   /* first and second sentence */

static const neap_model_param params[] = {
    PARAM_BATCH(16), PARAM_SEQ(512),     PARAM_LAYERS(12),  PARAM_HIDDEN(768),
    PARAM_HEADS(12), PARAM_VOCAB(30522), PARAM_DROPOUT(10),
};

/* Words, sentences and positions: N x T x C. */
static neap_tensor build_embeddings(neap_network *net, const model_args *args, neap_tensor *words)
{
    const int64_t seq = neap_model_get(args, "seq");
    const int64_t hidden = neap_model_get(args, "hidden");
    const int64_t vocab = neap_model_get(args, "vocab");
    const int64_t positions = seq > TRAINED_POSITIONS ? seq : TRAINED_POSITIONS;

    neap_tensor ids = neap_block_ids(net, args, "input_ids");
    neap_tensor type_ids = neap_block_ids(net, args, "token_type_ids");
    neap_tensor position_ids = neap_block_position_ids(net, args);
    neap_net_enter(net, "bert.embeddings");
    neap_tensor x = neap_net_embedding(net, "word_embeddings", ids, vocab, hidden, words);
    neap_tensor type =
        neap_net_embedding(net, "token_type_embeddings", type_ids, TOKEN_TYPES, hidden, NULL);
    x = neap_net_add(net, "add_type", x, type);
    neap_tensor position =
        neap_net_embedding(net, "position_embeddings", position_ids, positions, hidden, NULL);
    x = neap_net_add(net, "add_position", x, position);
    x = neap_net_layer_norm(net, "LayerNorm", x, LAYER_NORM_EPSILON);
    x = neap_net_dropout(net, "dropout", x, dropout_rate(args));
    neap_net_leave(net);
    return x;
}

/* x: N x T x C */
static neap_tensor self_attention(neap_network *net, neap_tensor x, int64_t heads, double drop)
{
    const int64_t hidden = neap_net_dim(net, x, 2);
    neap_tensor q = neap_net_linear(net, "attention.self.query", x, hidden, true);
    neap_tensor k = neap_net_linear(net, "attention.self.key", x, hidden, true);
    neap_tensor v = neap_net_linear(net, "attention.self.value", x, hidden, true);
    neap_tensor y = neap_net_attention(net, "attention.self", q, k, v, heads, false, drop);
    y = neap_net_linear(net, "attention.output.dense", y, hidden, true);
    y = neap_net_dropout(net, "attention.output.dropout", y, drop);
    y = neap_net_add(net, "attention.output.add", y, x);
    return neap_net_layer_norm(net, "attention.output.LayerNorm", y, LAYER_NORM_EPSILON);
}

static neap_tensor feed_forward(neap_network *net, neap_tensor x, double drop)
{
    const int64_t hidden = neap_net_dim(net, x, 2);
    neap_tensor y = neap_net_linear(net, "intermediate.dense", x, 4 * hidden, true);
    y = neap_net_gelu(net, "intermediate.gelu", y, false);
    y = neap_net_linear(net, "output.dense", y, hidden, true);
    y = neap_net_dropout(net, "output.dropout", y, drop);
    y = neap_net_add(net, "output.add", y, x);
    return neap_net_layer_norm(net, "output.LayerNorm", y, LAYER_NORM_EPSILON);
}

/* The masked-language head: N x T x C -> N x T x vocab. */
static neap_tensor build_head(neap_network *net, neap_tensor x, neap_tensor words)
{
    const int64_t vocab = neap_net_dim(net, words, 0);
    neap_net_enter(net, "cls.predictions");
    x = neap_net_linear(net, "transform.dense", x, neap_net_dim(net, x, 2), true);
    x = neap_net_gelu(net, "transform.gelu", x, false);
    x = neap_net_layer_norm(net, "transform.LayerNorm", x, LAYER_NORM_EPSILON);
    neap_tensor bias = neap_net_parameter(net, "bias", 1, &vocab);
    x = neap_net_linear_with(net, "decoder", x, words, bias);
    neap_net_leave(net);
    return x;
}

static neap_tensor build(neap_network *net, const model_args *args)
{
    if (!neap_block_heads_fit(net, args))
        return NEAP_NONE;
    const double drop = dropout_rate(args);
    const int64_t layers = neap_model_get(args, "layers");
    const int64_t heads = neap_model_get(args, "heads");

    neap_tensor words;
    neap_tensor x = build_embeddings(net, args, &words);
    for (int64_t i = 0; i < layers && !neap_network_failed(net); i++) {
        neap_net_enter(net, "bert.encoder.layer.%" PRId64, i);
        x = self_attention(net, x, heads, drop);
        x = feed_forward(net, x, drop);
        neap_net_leave(net);
    }
    return neap_block_token_loss(net, build_head(net, x, words));
}

const model_family neap_family_bert = {
    .source = "Devlin, Chang, Lee and Toutanova 2019, arXiv:1810.04805; Hugging Face transformers",
    HAS_PARAMS(params),
    .build = build,
};
