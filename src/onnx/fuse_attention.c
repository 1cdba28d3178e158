/*
 * Scaled dot-product attention: softmax(scale q k^T + mask) v. The scale may be anywhere among the
 * factors, in parts; a mask is left out where it hides nothing and becomes a mark where it hides
 * what comes later. What q, k and v are parts of is found when the node is lowered
 * (ops_attention.c).
 */
#include "onnx/match.h"

#include "base/fail.h"

#include <math.h>
#include <string.h>

typedef struct attention {
    uint32_t q, kt, v; /* ... x T x D, ... x D x S, ... x S x D */
    double scale, dropout;
    bool causal;
} attention;

/* What is added to scores that must not count: so low that nothing is left after softmax. */
#define HIDDEN (-1e4)

onnx_mask neap_onnx_classify_mask(const onnx_constant *mask, const onnx_shape *shape, bool flip)
{
    bool none = true, causal, is_bool = mask->shape.type == ONNX_BOOL;
    onnx_shape whole = mask->shape; /* its own leading dimensions, the scores' last two */
    if (mask->elements == 0 || shape->rank < 2)
        return ONNX_MASK_OTHER;
    if (whole.rank < 2)
        whole = (onnx_shape){.rank = 2};
    int64_t columns = whole.dims[whole.rank - 1] = shape->dims[shape->rank - 1];
    int64_t rows = whole.dims[whole.rank - 2] = shape->dims[shape->rank - 2], elements = 0;
    if (!neap_onnx_shape_elements(&whole, &elements))
        return ONNX_MASK_OTHER;
    causal = rows == columns;
    for (int64_t i = 0; i < elements && (none || causal); i++) {
        double x = neap_onnx_get_real(mask, neap_onnx_broadcast_index(&whole, &mask->shape, i));
        bool seen = is_bool ? (x != 0) != flip : x == 0;
        bool hidden = is_bool ? !seen : x <= HIDDEN;
        bool later = i % columns > i / columns % rows;
        none = none && seen;
        causal = causal && (later ? hidden : seen);
    }
    return none ? ONNX_MASK_NONE : causal ? ONNX_MASK_CAUSAL : ONNX_MASK_OTHER;
}

static bool apply_mask(const onnx_constant *mask, const onnx_shape *shape, bool flip,
                       attention *found)
{
    onnx_mask kind = neap_onnx_classify_mask(mask, shape, flip);
    found->causal = found->causal || kind == ONNX_MASK_CAUSAL;
    return kind != ONNX_MASK_OTHER;
}

static bool is_hiding(const onnx_import *im, uint32_t value)
{
    double number;
    return neap_onnx_is_number(im, value, &number) && number <= HIDDEN;
}

/* One step towards the product: a mask or a number less. */
static bool peel_score(const onnx_import *im, uint32_t *score, attention *found)
{
    const onnx_shape *shape = &im->values[*score].shape;
    const onnx_node *add = neap_onnx_made_by(im, *score, "Add");
    const onnx_node *where = neap_onnx_made_by(im, *score, "Where");
    for (uint32_t i = 0; add && add->n_inputs == 2 && i < 2; i++) {
        const onnx_constant *mask = im->values[add->inputs[i]].constant;
        if (!mask || !apply_mask(mask, shape, false, found))
            continue;
        *score = neap_onnx_plain(im, add->inputs[1 - i]);
        return true;
    }
    for (uint32_t i = 1; where && where->n_inputs == 3 && i < 3; i++) {
        const onnx_constant *mask = im->values[where->inputs[0]].constant;
        if (!mask || !is_hiding(im, where->inputs[3 - i]) ||
            !apply_mask(mask, shape, i == 2, found))
            continue;
        *score = neap_onnx_plain(im, where->inputs[i]);
        return true;
    }
    return false;
}

/* Takes numbers out of a factor: 2 x / 3 gives x. */
static uint32_t without_scale(const onnx_import *im, uint32_t value, double *scale)
{
    match_product product;
    if (!neap_onnx_product(im, value, &product) || product.count != 1)
        return value;
    *scale *= product.constant;
    return product.factors[0];
}

/* From the scores to q and k^T. */
static bool match_scores(const onnx_import *im, uint32_t score, attention *found)
{
    found->scale = 1;
    for (;;) {
        score = without_scale(im, neap_onnx_plain(im, score), &found->scale);
        const onnx_node *product = neap_onnx_made_by(im, score, "MatMul");
        if (product) {
            found->q = without_scale(im, product->inputs[0], &found->scale);
            found->kt = without_scale(im, product->inputs[1], &found->scale);
            return true;
        }
        if (found->scale != 1 || !peel_score(im, &score, found))
            return false; /* a mask that is scaled is none of these */
    }
}

/* Through a dropout, and through the zeros that exporters put where a row hides everything. */
static uint32_t probabilities(const onnx_import *im, uint32_t value, attention *found)
{
    const onnx_node *dropout = neap_onnx_made_by(im, value, "Dropout");
    double ratio = 0.5;
    if (dropout) {
        neap_onnx_is_number(im, dropout->n_inputs > 1 ? dropout->inputs[1] : NEAP_NONE, &ratio);
        found->dropout = ratio;
        value = dropout->inputs[0];
    }
    const onnx_node *where = neap_onnx_made_by(im, value, "Where");
    if (where && where->n_inputs == 3) {
        const onnx_node *nan = neap_onnx_made_by(im, where->inputs[0], "IsNaN");
        if (nan && neap_onnx_plain(im, nan->inputs[0]) == neap_onnx_plain(im, where->inputs[2]))
            value = where->inputs[2];
    }
    return value;
}

/* q, k^T and v have the same leading dimensions and the same depth. */
static bool shapes_fit(const onnx_import *im, const attention *found)
{
    const onnx_shape *q = &im->values[found->q].shape, *k = &im->values[found->kt].shape;
    const onnx_shape *v = &im->values[found->v].shape;
    uint32_t rank = q->rank;
    if (rank < 3 || rank > 4 || k->rank != rank || v->rank != rank)
        return false;
    for (uint32_t d = 0; d + 2 < rank; d++)
        if (q->dims[d] != k->dims[d] || q->dims[d] != v->dims[d])
            return false;
    return q->dims[rank - 1] == v->dims[rank - 1] &&
           (!found->causal || q->dims[rank - 2] == v->dims[rank - 2]);
}

neap_status neap_onnx_fuse_attention(onnx_import *im, onnx_node *node, bool *done)
{
    attention found = {.dropout = 0};
    *done = false;
    if (*node->domain || strcmp(node->type, "MatMul") != 0)
        return NEAP_OK;
    const onnx_node *softmax =
        neap_onnx_made_by(im, probabilities(im, node->inputs[0], &found), "Softmax");
    if (!softmax)
        return NEAP_OK;
    int64_t axis = neap_onnx_int(softmax, "axis", -1);
    uint32_t rank = neap_onnx_input(im, softmax, 0)->shape.rank;
    found.v = node->inputs[1];
    if ((axis != -1 && axis != (int64_t)rank - 1) ||
        !match_scores(im, softmax->inputs[0], &found) || !shapes_fit(im, &found))
        return NEAP_OK;
    const onnx_attribute attributes[] = {
        {.name = "scale", .kind = ATTRIBUTE_FLOAT, .real = (float)found.scale},
        {.name = "causal", .kind = ATTRIBUTE_INT, .integer = found.causal},
        {.name = "dropout",
         .kind = ATTRIBUTE_FLOAT,
         .real = im->options->train_dropout ? (float)found.dropout : 0}};
    im->dropouts[im->options->train_dropout] += found.dropout > 0;
    *done = true;
    return neap_onnx_replace(im, node, "Attention", ONNX_NEAP_DOMAIN, 3,
                             (uint32_t[]){found.q, found.kt, found.v}, 3, attributes);
}
