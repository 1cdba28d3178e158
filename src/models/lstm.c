/*
 * A recurrent language model: Zaremba, Sutskever and Vinyals, "Recurrent neural network
 * regularization" (2014), the medium network: word embedding, stacked LSTM layers, decoder; dropout
 * between layers but not through time. The recurrence is unrolled, so that backpropagation through
 * time is an ordinary graph: at each step, layer by layer,
 *
 *     gates = x_t Wx + b + h_{t-1} Wh,     (h_t, c_t) = cell(gates, c_{t-1})
 *
 * The states before the first step are inputs. The states of the last layer are stacked over time
 * for one decoder product and one loss over all steps.
 */
#include "base/memory.h"
#include "graph/network_internal.h" /* to report a failed allocation */
#include "models/blocks.h"

static const neap_model_param params[] = {
    PARAM_BATCH(20),
    {"seq", "steps in time", 35, 1, 1 << 20},
    {"layers", "LSTM layers", 2, 1, 10000},
    {"hidden", "features of a word, a state and a cell", 650, 1, 1 << 20},
    PARAM_VOCAB(10000),
    PARAM_DROPOUT(50),
    {"tied", "1: the decoder's weight is the embedding's", 0, 0, 1},
};

/* One layer: its weights, and its state at the current step. */
typedef struct lstm_layer {
    neap_tensor input_weight;     /* 4H x H */
    neap_tensor recurrent_weight; /* 4H x H */
    neap_tensor bias;             /* 4H */
    neap_tensor h, c;             /* N x H each */
} lstm_layer;

static void create_layers(neap_network *net, const model_args *args, int64_t count,
                          lstm_layer *layers)
{
    const int64_t hidden = neap_model_get(args, "hidden");
    const int64_t weight[] = {4 * hidden, hidden};
    const int64_t bias[] = {4 * hidden};
    const int64_t state[] = {neap_model_get(args, "batch"), hidden};
    for (int64_t i = 0; i < count; i++) {
        neap_net_enter(net, "lstm.%" PRId64, i);
        layers[i].input_weight = neap_net_parameter(net, "weight_ih", 2, weight);
        layers[i].recurrent_weight = neap_net_parameter(net, "weight_hh", 2, weight);
        layers[i].bias = neap_net_parameter(net, "bias", 1, bias);
        layers[i].h = neap_net_input(net, "h0", args->dtype, 2, state);
        layers[i].c = neap_net_input(net, "c0", args->dtype, 2, state);
        neap_net_leave(net);
    }
}

/* x: N x H. Moves the layer's state on by one step and returns h. */
static neap_tensor advance(neap_network *net, lstm_layer *layer, neap_tensor x)
{
    neap_tensor from_input =
        neap_net_linear_with(net, "input", x, layer->input_weight, layer->bias);
    neap_tensor from_state =
        neap_net_linear_with(net, "state", layer->h, layer->recurrent_weight, NEAP_NONE);
    neap_tensor gates = neap_net_add(net, "gates", from_input, from_state);
    layer->h = neap_net_lstm_cell(net, "cell", gates, layer->c, &layer->c);
    return layer->h;
}

/*
 * words: T x N x H. Fills tops[t] with the last layer's state of step t, 1 x N x H.
 */
static void unroll(neap_network *net, const model_args *args, neap_tensor words, lstm_layer *layers,
                   neap_tensor *tops)
{
    const double drop = dropout_rate(args);
    const int64_t n_layers = neap_model_get(args, "layers");
    const int64_t n_steps = neap_net_dim(net, words, 0);
    const int64_t flat[] = {neap_net_dim(net, words, 1), neap_net_dim(net, words, 2)};
    const int64_t stacked[] = {1, flat[0], flat[1]};
    neap_net_split(net, "words", words, 0, (uint32_t)n_steps, tops); /* 1 x N x H each */
    for (int64_t t = 0; t < n_steps && !neap_network_failed(net); t++) {
        neap_net_enter(net, "t%" PRId64, t);
        neap_tensor x = neap_net_reshape(net, "x", tops[t], 2, flat);
        for (int64_t i = 0; i < n_layers; i++) {
            neap_net_enter(net, "lstm.%" PRId64, i);
            x = neap_net_dropout(net, "dropout", advance(net, &layers[i], x), drop);
            neap_net_leave(net);
        }
        tops[t] = neap_net_reshape(net, "top", x, 3, stacked);
        neap_net_leave(net);
    }
}

static neap_tensor decode(neap_network *net, const model_args *args, neap_tensor x,
                          neap_tensor embedding)
{
    const int64_t vocab = neap_model_get(args, "vocab");
    if (neap_model_get(args, "tied") == 0)
        return neap_net_linear(net, "decoder", x, vocab, true);
    neap_tensor bias = neap_net_parameter(net, "decoder.bias", 1, &vocab);
    return neap_net_linear_with(net, "decoder", x, embedding, bias);
}

static neap_tensor build(neap_network *net, const model_args *args)
{
    const int64_t n_steps = neap_model_get(args, "seq");
    const int64_t n_layers = neap_model_get(args, "layers");
    const int64_t time_major[] = {n_steps, neap_model_get(args, "batch")};
    neap_tensor x = NEAP_NONE, embedding = NEAP_NONE;
    lstm_layer *layers = NULL;
    neap_tensor *tops = NULL; /* of each step */
    net->status = NEAP_NEW(args->allocator, (size_t)n_layers, &layers, &net->diag);
    if (net->status == NEAP_OK)
        net->status = NEAP_NEW(args->allocator, (size_t)n_steps, &tops, &net->diag);
    if (net->status != NEAP_OK)
        goto done;

    neap_tensor ids = neap_net_input(net, "ids", NEAP_I64, 2, time_major);
    x = neap_net_embedding(net, "encoder", ids, neap_model_get(args, "vocab"),
                           neap_model_get(args, "hidden"), &embedding);
    x = neap_net_dropout(net, "dropout", x, dropout_rate(args));
    create_layers(net, args, n_layers, layers);
    unroll(net, args, x, layers, tops);
    if (!neap_network_failed(net)) {
        x = neap_net_concat(net, "stack", (uint32_t)n_steps, tops, 0); /* T x N x H */
        x = neap_block_token_loss(net, decode(net, args, x, embedding));
    }

done:
    NEAP_DELETE(args->allocator, (size_t)n_layers, layers);
    NEAP_DELETE(args->allocator, (size_t)n_steps, tops);
    return x;
}

const model_family neap_family_lstm = {
    .source =
        "Zaremba, Sutskever and Vinyals 2014, arXiv:1409.2329; Hochreiter and Schmidhuber 1997",
    HAS_PARAMS(params),
    .build = build,
};
