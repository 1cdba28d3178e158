/*
 * Ops of sequence models.
 *
 * Attention is fused: the scores live in registers, backwards they are computed again from q, k and
 * the saved log-sum-exp (Dao et al., FlashAttention).
 */
#include "graph/network_internal.h"

#include <string.h>

/* The forms of attention_bw after the first. */
enum { PACKED = 1, ONLY_DV };

extern const op_def neap_op_embedding, neap_op_attention, neap_op_lstm_cell;

neap_tensor neap_net_embedding(neap_network *net, const char *name, neap_tensor ids, int64_t rows,
                               int64_t features, neap_tensor *weight)
{
    neap_tensor table = neap_net_add_parameter(net, name, "weight", 2, (int64_t[]){rows, features});
    if (weight)
        *weight = table;
    return neap_net_embedding_with(net, name, ids, table);
}

neap_tensor neap_net_embedding_with(neap_network *net, const char *name, neap_tensor ids,
                                    neap_tensor weight)
{
    net_call call = {.def = &neap_op_embedding,
                     .name = name,
                     .n_inputs = 2,
                     .inputs = (neap_tensor[]){ids, weight}};
    return neap_net_add_op(net, &call);
}

neap_tensor neap_net_attention(neap_network *net, const char *name, neap_tensor q, neap_tensor k,
                               neap_tensor v, int64_t heads, bool causal, double dropout)
{
    bool packed = k == NEAP_NONE && v == NEAP_NONE;
    neap_attr attrs[] = {ATTR_INT("heads", heads), ATTR_INT("causal", causal),
                         ATTR_REAL("dropout", dropout)};
    net_call call = {.def = &neap_op_attention,
                     .name = name,
                     .n_inputs = packed ? 1 : 3,
                     .inputs = (neap_tensor[]){q, k, v},
                     .n_attrs = 3,
                     .attrs = attrs};
    return neap_net_add_op(net, &call);
}

neap_tensor neap_net_lstm_cell(neap_network *net, const char *name, neap_tensor gates,
                               neap_tensor c, neap_tensor *c_next)
{
    net_call call = {.def = &neap_op_lstm_cell,
                     .name = name,
                     .n_inputs = 2,
                     .inputs = (neap_tensor[]){gates, c}};
    neap_tensor h = neap_net_add_op(net, &call);
    *c_next = h == NEAP_NONE ? NEAP_NONE : h + 1;
    return h;
}

/* ---- Shapes ---- */

static void attention_rule(op_fit *fit)
{
    if (neap_fit_extent(fit, 'C') % neap_fit_int(fit, "heads"))
        neap_fit_fail(fit, "%lld heads do not divide its %lld features",
                      (long long)neap_fit_int(fit, "heads"), (long long)neap_fit_extent(fit, 'C'));
}

/* The attributes say so where dv alone is wanted. */
static void attention_bw_rule(op_fit *fit)
{
    attention_rule(fit);
    bool only_dv = !neap_fit_int(fit, "wants_dq") && !neap_fit_int(fit, "wants_dk") &&
                   neap_fit_int(fit, "wants_dv");
    if ((neap_fit_form(fit) == ONLY_DV) != only_dv && neap_fit_form(fit) != PACKED)
        neap_fit_fail(fit, "what it reads does not go with wants_dq, wants_dk and wants_dv");
}

static void lstm_bw_rule(op_fit *fit)
{
    if (!neap_fit_int(fit, "has_dh") && !neap_fit_int(fit, "has_dc"))
        neap_fit_fail(fit, "has neither dh nor dc");
}

/* ---- Backward ---- */

static void embedding_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit(net, node, "embedding_bw", 2,
                   (neap_tensor[]){neap_grad_of(net, node, 0), node->inputs[0]}, 1,
                   node->inputs + 1);
}

/*
 * Where q, k and v do not all want a gradient, attributes say which do. dv = P^T do needs neither v
 * nor the output.
 */
static void attention_backward(neap_network *net, const net_node *node)
{
    bool wants[3] = {false, false, false}, packed = node->n_inputs == 1;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        wants[i] = neap_grad_wanted(net, node->inputs[i]);
    bool only_dv = !packed && !wants[0] && !wants[1];
    neap_tensor reads[6];
    uint32_t count = 0;
    reads[count++] = neap_grad_of(net, node, 0);
    for (uint32_t i = 0; i < (only_dv ? 2 : node->n_inputs); i++)
        reads[count++] = node->inputs[i];
    if (!only_dv)
        reads[count++] = node->outputs[0];
    reads[count++] = node->outputs[1];
    net_node marked = *node;
    neap_attr attrs[6];
    if (!packed && !(wants[0] && wants[1] && wants[2])) {
        memcpy(attrs, node->attrs, sizeof(neap_attr[3]));
        attrs[3] = ATTR_INT("wants_dq", wants[0]);
        attrs[4] = ATTR_INT("wants_dk", wants[1]);
        attrs[5] = ATTR_INT("wants_dv", wants[2]);
        marked.attrs = attrs;
        marked.n_attrs = 6;
    }
    neap_grad_emit(net, &marked, "attention_bw", count, reads, node->n_inputs, node->inputs);
}

/*
 * h or c' may not be used (the last step): then its gradient is not read, and the attributes say
 * so. c is read for dgates only, c' with dh only.
 */
static void lstm_cell_backward(neap_network *net, const net_node *node)
{
    neap_tensor reads[5], dh = neap_grad_of(net, node, 0), dc = neap_grad_of(net, node, 1);
    uint32_t count = 0;
    if (dh != NEAP_NONE)
        reads[count++] = dh;
    if (dc != NEAP_NONE)
        reads[count++] = dc;
    reads[count++] = node->outputs[2];
    if (neap_grad_wanted(net, node->inputs[0])) /* for the forget gate's gradient */
        reads[count++] = node->inputs[1];
    if (dh != NEAP_NONE)
        reads[count++] = node->outputs[1];
    net_node marked = *node;
    neap_attr attrs[] = {ATTR_INT("has_dh", dh != NEAP_NONE), ATTR_INT("has_dc", dc != NEAP_NONE)};
    marked.n_attrs = 2;
    marked.attrs = attrs;
    neap_grad_emit(net, &marked, "lstm_cell_bw", count, reads, 2, node->inputs);
}

/* ---- Counts ---- */

/* Only the rows that are looked up move. */
static void count_embedding(const op_shapes *s, neap_op_count *count)
{
    const op_shape *out = &s->outputs[0];
    int64_t rows = neap_count_mul(neap_count_elements(out), neap_dtype_bytes(out->dtype));
    int64_t ids =
        neap_count_mul(neap_count_elements(&s->inputs[0]), neap_dtype_bytes(s->inputs[0].dtype));
    count->bytes_moved = neap_count_add(neap_count_mul(2, rows), ids);
}

static void count_embedding_bw(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_elements(&s->inputs[0]);
}

/* Multiply-accumulates of one product of the scores' shape: N x Tq x Tk x C; half of it under a
 * causal mask. */
static int64_t score_macs(const op_shapes *s, const op_shape *query, const op_shape *key)
{
    int64_t width = s->outputs[0].shape[2];
    int64_t macs = neap_count_mul(neap_count_mul(query->shape[0], query->shape[1]),
                                  neap_count_mul(key->shape[1], width));
    return neap_op_attr_int(s->op, "causal", 0) ? macs / 2 : macs;
}

/* q k^T and the product with v; softmax is 5 an element of the scores. */
static void count_attention(const op_shapes *s, neap_op_count *count)
{
    const op_shape *key = s->n_inputs > 1 ? &s->inputs[1] : &s->inputs[0];
    int64_t product = score_macs(s, &s->inputs[0], key);
    int64_t heads = neap_op_attr_int(s->op, "heads", 1), width = s->outputs[0].shape[2];
    count->macs = neap_count_mul(2, product);
    count->flops = neap_count_mul(neap_count_mul(5, heads), product / (width ? width : 1));
}

/* The scores again, and four products: dv, dp, dq, dk. */
static void count_attention_bw(const op_shapes *s, neap_op_count *count)
{
    bool packed = s->inputs[1].shape[2] > s->inputs[0].shape[2];
    op_shapes narrow = *s;
    narrow.outputs[0] = s->inputs[0]; /* do is N x T x C */
    int64_t product = score_macs(&narrow, &s->inputs[0], packed ? &s->inputs[0] : &s->inputs[2]);
    int64_t heads = neap_op_attr_int(s->op, "heads", 1), width = s->inputs[0].shape[2];
    count->macs = neap_count_mul(5, product);
    count->flops = neap_count_mul(neap_count_mul(8, heads), product / (width ? width : 1));
}

/* Three sigmoids of 4, two tanh, four multiplications and additions. */
static void count_lstm_cell(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_mul(18, neap_count_elements(&s->outputs[0]));
}

static void count_lstm_cell_bw(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_mul(6, neap_count_elements(&s->outputs[0]));
}

const op_def neap_op_embedding = {.type = "embedding",
                                  .form = "ids:ids<V[*R] w[V,C] -> y:net[*R,C]",
                                  .count = count_embedding,
                                  .backward = embedding_backward};
const op_def neap_op_embedding_bw = {.type = "embedding_bw",
                                     .form = "dy[*R,C] ids:ids<V[*R] -> dw[V,C]",
                                     .count = count_embedding_bw};
const op_def neap_op_attention = {.type = "attention",
                                  .form =
                                      "q[N,T,C] k[N,S,C] v[N,S,C] -> o[N,T,C] lse:f32[N,heads,T]"
                                      " | qkv[N,T,3C] -> o[N,T,C] lse:f32[N,heads,T]",
                                  .attrs = "heads>0 causal dropout%",
                                  .rule = attention_rule,
                                  .random = true,
                                  .count = count_attention,
                                  .backward = attention_backward};
const op_def neap_op_attention_bw = {
    .type = "attention_bw",
    .form = "do[N,T,C] q[N,T,C] k[N,S,C] v[N,S,C] o[N,T,C] lse[N,heads,T]"
            " -> dq?wants_dq[N,T,C] dk?wants_dk[N,S,C] dv?wants_dv[N,S,C]"
            " | do[N,T,C] qkv[N,T,3C] o[N,T,C] lse[N,heads,T] -> dqkv[N,T,3C]"
            " | do[N,T,C] q[N,T,C] k[N,S,C] lse[N,heads,T] -> dv[N,S,C]",
    .attrs = "heads>0 causal dropout%",
    .rule = attention_bw_rule,
    .random = true,
    .count = count_attention_bw};
const op_def neap_op_lstm_cell = {.type = "lstm_cell",
                                  .form = "gates[N,4H] c[N,H] -> h[N,H] cell[N,H] gates[N,4H]",
                                  .in_place = 1, /* the activated gates over the gates */
                                  .in_place_output = 2,
                                  .count = count_lstm_cell,
                                  .backward = lstm_cell_backward};
const op_def neap_op_lstm_cell_bw = {
    .type = "lstm_cell_bw",
    .form = "dh?has_dh[N,H] dcell?has_dc[N,H] gates[N,4H] c[N,H] cell?has_dh[N,H]"
            " -> dgates[N,4H] dc[N,H]"
            " | dh?has_dh[N,H] dcell?has_dc[N,H] gates[N,4H] c[N,H] cell?has_dh[N,H]"
            " -> dgates[N,4H]"
            " | dh?has_dh[N,H] dcell?has_dc[N,H] gates[N,4H] cell?has_dh[N,H] -> dc[N,H]",
    .attrs = "has_dh has_dc",
    .in_place = 31, /* dgates over the gates, or dc alone over any of its size */
    .rule = lstm_bw_rule,
    .count = count_lstm_cell_bw};
