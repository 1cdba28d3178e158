/*
 * A chain of n unit layers: the linear network of the checkpointing literature, as a graph of its
 * own.
 *
 *     x -> f1 -> a1 -> f2 -> ... -> fn -> an -> loss -> g(n+1) -> bn -> gn -> ... -> b1 -> g1
 *
 * Forward op f(i) makes the activation a(i), the loss op the first gradient, backward op b(i) reads
 * the gradient from above and a(i), its layer's output, and makes the gradient g(i). Every op takes
 * one second, every value one byte, the data none; the last gradient is the output. 2n + 1 ops: 17
 * for n = 8.
 *
 * Jain et al., "Checkmate" (2020), appendix A, do not say what a backward op reads, but with this
 * convention their figures for 8 layers and a budget of 4 come out exactly (integrality gap 21.56,
 * with frontier-advancing stages 1.18; the optimum is 26). Where a backward op needs its layer's
 * input a(i-1) too, as that of a convolution does, set `reads_input`: the optimum is then 38.
 * Griewank and Walther's "revolve" (2000) counts a step as f(i) repeated and reversed at once: b(i)
 * recomputes what it needs from a(i-1).
 */
#include "models/blocks.h"

static const neap_model_param params[] = {
    {"layers", "layers, one unit of time and memory each", 8, 1, 100000000},
    {"reads_input", "1: backward ops read their layer's input besides its output", 0, 0, 1},
};

/* The graph under construction, and its first error. */
typedef struct chain_builder {
    neap_graph_builder *graph;
    neap_status status;
    neap_diag *diag;
} chain_builder;

static uint32_t add_value(chain_builder *chain, const char *name, const char *kind, int64_t bytes)
{
    uint32_t id = NEAP_NONE;
    neap_value_desc desc;
    neap_value_desc_init(&desc);
    desc.name = name;
    desc.kind = kind;
    desc.bytes = bytes;
    if (chain->status == NEAP_OK)
        chain->status = neap_graph_builder_add_value(chain->graph, &desc, &id, chain->diag);
    return id;
}

static void add_op(chain_builder *chain, const char *name, const char *type, neap_pass pass,
                   uint32_t n_inputs, const uint32_t *inputs, uint32_t output)
{
    const neap_variant unit = {.seconds = 1.0};
    neap_op_desc desc;
    neap_op_desc_init(&desc);
    desc.name = name;
    desc.type = type;
    desc.pass = pass;
    desc.n_inputs = n_inputs;
    desc.inputs = inputs;
    desc.n_outputs = 1;
    desc.outputs = &output;
    desc.n_variants = 1;
    desc.variants = &unit;
    desc.flops = 1;
    desc.bytes_moved = (int64_t)n_inputs + 1;
    if (chain->status == NEAP_OK)
        chain->status = neap_graph_builder_add_op(chain->graph, &desc, NULL, chain->diag);
}

/* f1 .. fn and the loss. Values get the ids 0 (the data), i (activation i), n + 1 (the loss's
 * gradient). */
static void add_forward(chain_builder *chain, int64_t n)
{
    uint32_t below = add_value(chain, "x", NEAP_KIND_INPUT, 0);
    for (int64_t i = 1; i <= n && chain->status == NEAP_OK; i++) {
        uint32_t output = add_value(chain, numbered("a", i).text, NEAP_KIND_ACTIVATION, 1);
        add_op(chain, numbered("f", i).text, "layer", NEAP_FORWARD, 1, &below, output);
        below = output;
    }
    uint32_t loss = add_value(chain, numbered("g", n + 1).text, NEAP_KIND_GRADIENT, 1);
    add_op(chain, "loss", "loss", NEAP_FORWARD, 1, &below, loss);
}

/* bn .. b1. */
static void add_backward(chain_builder *chain, int64_t n, bool reads_input)
{
    uint32_t above = (uint32_t)n + 1;
    for (int64_t i = n; i >= 1 && chain->status == NEAP_OK; i--) {
        const uint32_t inputs[] = {above, (uint32_t)i, (uint32_t)i - 1};
        uint32_t output = add_value(chain, numbered("g", i).text, NEAP_KIND_GRADIENT, 1);
        add_op(chain, numbered("b", i).text, "layer_backward", NEAP_BACKWARD, reads_input ? 3 : 2,
               inputs, output);
        above = output;
    }
}

static neap_status build_graph(const model_args *args, neap_graph **graph, neap_diag *diag)
{
    const int64_t n = neap_model_get(args, "layers");
    chain_builder chain = {.status = NEAP_OK, .diag = diag};
    neap_status status =
        neap_graph_builder_create(args->allocator, numbered("chain_", n).text, &chain.graph, diag);
    if (status != NEAP_OK)
        return status;
    add_forward(&chain, n);
    uint32_t last = (uint32_t)n + 1;
    if (!args->forward_only) {
        add_backward(&chain, n, neap_model_get(args, "reads_input") != 0);
        last = 2 * (uint32_t)n + 1;
    }
    if (chain.status == NEAP_OK)
        chain.status = neap_graph_builder_add_output(chain.graph, last, diag);
    if (chain.status == NEAP_OK)
        chain.status = neap_graph_builder_finish(chain.graph, graph, diag);
    neap_graph_builder_destroy(chain.graph);
    return chain.status;
}

const model_family neap_family_chain = {
    .source = "Griewank and Walther 2000; Jain et al. 2020, arXiv:1910.02653, appendix A",
    HAS_PARAMS(params),
    .build_graph = build_graph,
};
