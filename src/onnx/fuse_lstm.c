/*
 * Weights of LSTM nodes that an exporter cut into gates and put together in ONNX's order. neap's
 * order is that of the frameworks, so the node is given the weights as they were.
 */
#include "onnx/match.h"

#include "base/fail.h"

#include <string.h>

/* Which of ONNX's gates is neap's gate i. */
static const int64_t gate_of[4] = {0, 2, 3, 1};

/* Rows begin..end-1 of a matrix that some nodes only cut and put together. */
typedef struct row_range {
    uint32_t value;
    int64_t begin, end;
} row_range;

enum { MOST_RANGES = 16 };

typedef struct row_list {
    row_range items[MOST_RANGES];
    uint32_t count;
} row_list;

static int64_t rows_of(const onnx_shape *shape)
{
    uint32_t d = 0;
    while (d + 1 < shape->rank && shape->dims[d] == 1)
        d++;
    return shape->rank > 0 ? shape->dims[d] : 1;
}

/* The dimension that counts rows: the first that is not 1. */
static uint32_t row_dim(const onnx_shape *shape)
{
    uint32_t d = 0;
    while (d + 1 < shape->rank && shape->dims[d] == 1)
        d++;
    return d;
}

static const onnx_node *maker(const onnx_import *im, uint32_t value)
{
    uint32_t node = im->values[value].node;
    return node == NEAP_NONE || *im->nodes[node].domain ? NULL : &im->nodes[node];
}

/* A slice of rows with constant bounds. */
static bool slice_of_rows(const onnx_import *im, const onnx_node *node, int64_t *begin,
                          int64_t *end)
{
    const onnx_constant *starts = neap_onnx_input_constant(im, node, 1);
    const onnx_constant *axes = neap_onnx_input_constant(im, node, 3);
    const onnx_constant *steps = neap_onnx_input_constant(im, node, 4);
    const onnx_shape *from = &neap_onnx_input(im, node, 0)->shape;
    const onnx_shape *to = &neap_onnx_output(im, node, 0)->shape;
    int64_t extent = rows_of(from);
    if (!starts || starts->elements != 1 || (axes && axes->elements != 1) ||
        (steps && (steps->elements != 1 || neap_onnx_get_integer(steps, 0) != 1)))
        return false;
    int64_t axis = axes ? neap_onnx_get_integer(axes, 0) : 0;
    if ((axis < 0 ? axis + from->rank : axis) != row_dim(from))
        return false;
    *begin = neap_onnx_get_integer(starts, 0);
    *begin += *begin < 0 ? extent : 0;
    *begin = *begin < 0 ? 0 : *begin > extent ? extent : *begin;
    *end = *begin + to->dims[row_dim(from)];
    return *end <= extent;
}

/* Appends the rows begin..end-1 of a value, taken apart. False: too many pieces. */
static bool list_rows(const onnx_import *im, uint32_t value, int64_t begin, int64_t end, int depth,
                      row_list *list)
{
    const onnx_node *node = depth < 8 ? maker(im, value) : NULL;
    int64_t first, last;
    if (begin >= end)
        return true;
    if (node && (strcmp(node->type, "Unsqueeze") == 0 || strcmp(node->type, "Squeeze") == 0 ||
                 strcmp(node->type, "Identity") == 0))
        return list_rows(im, node->inputs[0], begin, end, depth + 1, list);
    if (node && strcmp(node->type, "Slice") == 0 && slice_of_rows(im, node, &first, &last))
        return list_rows(im, node->inputs[0], first + begin, first + end, depth + 1, list);
    const onnx_shape *shape = &im->values[value].shape;
    int64_t axis = node ? neap_onnx_int(node, "axis", 0) : 0;
    if (node && strcmp(node->type, "Concat") == 0 && shape->rank > 0 &&
        (axis < 0 ? axis + shape->rank : axis) == row_dim(shape)) {
        int64_t before = 0;
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            int64_t rows = im->values[node->inputs[i]].shape.dims[row_dim(shape)];
            int64_t from = begin > before ? begin - before : 0;
            int64_t to = end < before + rows ? end - before : rows;
            if (!list_rows(im, node->inputs[i], from, to, depth + 1, list))
                return false;
            before += rows;
        }
        return true;
    }
    row_range *tail = list->count > 0 ? &list->items[list->count - 1] : NULL;
    if (tail && tail->value == value && tail->end == begin) {
        tail->end = end;
        return true;
    }
    if (list->count == MOST_RANGES)
        return false;
    list->items[list->count++] = (row_range){value, begin, end};
    return true;
}

/* Whether the rows of a value from `first` on, in neap's order of gates, are all of another value:
   the one that the file cut up. */
static bool find_original(const onnx_import *im, uint32_t value, int64_t first, int64_t hidden,
                          uint32_t *original)
{
    row_list list = {.count = 0};
    for (int64_t g = 0; g < 4; g++) {
        int64_t begin = first + gate_of[g] * hidden;
        if (!list_rows(im, value, begin, begin + hidden, 0, &list))
            return false;
    }
    *original = list.items[0].value;
    return list.count == 1 && list.items[0].begin == 0 &&
           list.items[0].end == rows_of(&im->values[*original].shape);
}

neap_status neap_onnx_fuse_lstm(onnx_import *im, onnx_node *node, bool *done)
{
    uint32_t inputs[9], half;
    onnx_attribute *attributes; /* "sorted", and the node's own */
    *done = false;
    if (*node->domain || strcmp(node->type, "LSTM") != 0 || node->n_inputs > 8)
        return NEAP_OK;
    const onnx_shape *r = &neap_onnx_input(im, node, 2)->shape;
    int64_t hidden = r->dims[2], sorted = 0;
    if (r->dims[0] != 1)
        return NEAP_OK;
    for (uint32_t i = 0; i < 9; i++)
        inputs[i] = i < node->n_inputs ? node->inputs[i] : NEAP_NONE;
    if (find_original(im, node->inputs[1], 0, hidden, &inputs[1]))
        sorted |= ONNX_LSTM_SORTED_W;
    else
        inputs[1] = node->inputs[1];
    if (find_original(im, node->inputs[2], 0, hidden, &inputs[2]))
        sorted |= ONNX_LSTM_SORTED_R;
    else
        inputs[2] = node->inputs[2];
    if (inputs[3] != NEAP_NONE && find_original(im, node->inputs[3], 0, hidden, &half) &&
        find_original(im, node->inputs[3], 4 * hidden, hidden, &inputs[8])) {
        inputs[3] = half;
        sorted |= ONNX_LSTM_SORTED_B;
    } else {
        inputs[8] = NEAP_NONE;
    }
    if (!NEAP_TAKE(im->arena, node->n_attributes + 1, attributes))
        return neap_fail_no_memory(im->diag);
    attributes[0] = (onnx_attribute){.name = "sorted", .kind = ATTRIBUTE_INT, .integer = sorted};
    if (node->n_attributes > 0)
        memcpy(attributes + 1, node->attributes, node->n_attributes * sizeof *attributes);
    *done = true;
    return neap_onnx_replace(im, node, "LSTM", ONNX_NEAP_DOMAIN, 9, inputs, node->n_attributes + 1,
                             attributes);
}
