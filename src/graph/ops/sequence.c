/*
 * Ops of sequence models.
 *
 *     embedding(ids, w) -> y                 embedding_bw(dy, ids) -> dw
 *     attention(q, k, v) -> o, lse           attention_bw(do, q, k, v, o, lse) -> dq, dk, dv
 *     attention(qkv) -> o, lse               attention_bw(do, qkv, o, lse) -> dqkv
 *     lstm_cell(gates, c) -> h, c', act      lstm_cell_bw([dh,] [dc',] act, c, c') -> dgates, dc
 *
 * Attention is fused: the scores live in registers, backwards they are computed again from q, k and
 * the saved log-sum-exp (Dao et al., FlashAttention).
 */
#include "graph/network_internal.h"

#include <string.h>

extern const op_def neap_op_embedding, neap_op_attention, neap_op_lstm_cell;

neap_tensor neap_net_embedding(neap_network *net, const char *name, neap_tensor ids, int64_t rows,
                               int64_t features, neap_tensor *weight)
{
    if (weight)
        *weight = NEAP_NONE;
    const net_tensor *input = neap_net_get(net, name, ids);
    if (!input)
        return NEAP_NONE;
    net_tensor shape = *input;
    if ((shape.dtype != NEAP_I64 && shape.dtype != NEAP_I32) || shape.rank == NEAP_MAX_RANK)
        return neap_net_fail(net, name, "ids must be i64 or i32");
    neap_tensor table = neap_net_add_parameter(net, name, "weight", 2, (int64_t[]){rows, features});
    if (weight)
        *weight = table;
    shape.shape[shape.rank++] = features;
    net_call call = {.def = &neap_op_embedding,
                     .name = name,
                     .n_inputs = 2,
                     .inputs = (neap_tensor[]){ids, table}};
    return neap_net_add_node(net, &call, net->dtype, shape.rank, shape.shape);
}

neap_tensor neap_net_attention(neap_network *net, const char *name, neap_tensor q, neap_tensor k,
                               neap_tensor v, int64_t heads, bool causal, double dropout)
{
    bool packed = k == NEAP_NONE && v == NEAP_NONE;
    const net_tensor *query = neap_net_get(net, name, q);
    const net_tensor *key = packed ? query : neap_net_get(net, name, k);
    const net_tensor *value = packed ? query : neap_net_get(net, name, v);
    if (!query || !key || !value)
        return NEAP_NONE;
    int64_t width = packed ? query->shape[query->rank - 1] / 3 : query->shape[query->rank - 1];
    if (query->rank != 3 || key->rank != 3 || value->rank != 3 ||
        (packed && query->shape[2] != 3 * width))
        return neap_net_fail(net, name, "attention takes N x T x C thrice, or N x T x 3C");
    if (memcmp(key->shape, value->shape, sizeof(int64_t[3])) != 0 ||
        key->shape[0] != query->shape[0] || key->shape[2] != query->shape[2])
        return neap_net_fail(net, name, "q, k and v do not fit together");
    if (heads < 1 || width % heads)
        return neap_net_fail(net, name, "%lld heads do not divide %lld features", (long long)heads,
                             (long long)width);
    if (!(dropout >= 0 && dropout < 1))
        return neap_net_fail(net, name, "a dropout probability is at least 0 and below 1");
    neap_attr attrs[] = {ATTR_INT("heads", heads), ATTR_INT("causal", causal),
                         ATTR_REAL("dropout", dropout)};
    net_call call = {.def = &neap_op_attention,
                     .name = name,
                     .n_inputs = packed ? 1 : 3,
                     .inputs = (neap_tensor[]){q, k, v},
                     .n_attrs = 3,
                     .attrs = attrs};
    int64_t batch = query->shape[0], length = query->shape[1];
    neap_tensor out =
        neap_net_add_node(net, &call, query->dtype, 3, (int64_t[]){batch, length, width});
    neap_net_add_output(net, "lse", NEAP_F32, 3, (int64_t[]){batch, heads, length});
    return out;
}

neap_tensor neap_net_lstm_cell(neap_network *net, const char *name, neap_tensor gates,
                               neap_tensor c, neap_tensor *c_next)
{
    *c_next = NEAP_NONE;
    const net_tensor *four = neap_net_get(net, name, gates), *cell = neap_net_get(net, name, c);
    if (!four || !cell)
        return NEAP_NONE;
    if (four->rank != 2 || cell->rank != 2 || four->shape[0] != cell->shape[0] ||
        four->shape[1] % 4 != 0 || four->shape[1] / 4 != cell->shape[1])
        return neap_net_fail(net, name, "gates must be N x 4H for a cell of N x H");
    int64_t shape[2] = {cell->shape[0], cell->shape[1]}, wide[2] = {shape[0], 4 * shape[1]};
    neap_dtype dtype = cell->dtype;
    net_call call = {.def = &neap_op_lstm_cell,
                     .name = name,
                     .n_inputs = 2,
                     .inputs = (neap_tensor[]){gates, c}};
    neap_tensor h = neap_net_add_node(net, &call, dtype, 2, shape);
    *c_next = neap_net_add_output(net, "cell", dtype, 2, shape);
    neap_net_add_output(net, "gates", dtype, 2, wide);
    return h;
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

const op_def neap_op_embedding = {
    .type = "embedding", .count = count_embedding, .backward = embedding_backward};
const op_def neap_op_embedding_bw = {.type = "embedding_bw", .count = count_embedding_bw};
const op_def neap_op_attention = {
    .type = "attention", .random = true, .count = count_attention, .backward = attention_backward};
const op_def neap_op_attention_bw = {
    .type = "attention_bw", .least_inputs = 4, .random = true, .count = count_attention_bw};
const op_def neap_op_lstm_cell = {
    .type = "lstm_cell", .count = count_lstm_cell, .backward = lstm_cell_backward};
const op_def neap_op_lstm_cell_bw = {.type = "lstm_cell_bw", .count = count_lstm_cell_bw};
