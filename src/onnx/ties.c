/*
 * Weights that an exporter wrote twice. A table that serves as an embedding and, transposed, as
 * the matrix of the last layer is one weight; constant folding makes a second tensor of it. Two
 * matrices with the same numbers are taken for one weight again if one is transposed, or if one is
 * a table that a Gather reads. Others stay two: the layers of a network that was not trained yet
 * may be copies of each other.
 */
#include "onnx/import.h"

#include "base/fail.h"

#include <stdlib.h>
#include <string.h>

/* Smaller matrices may be equal by chance or by convention. */
enum { LEAST_ELEMENTS = 64 };

/* What equal matrices have in common, turned or not. */
typedef struct fingerprint {
    uint32_t initializer;
    int64_t elements;
    uint64_t first, last; /* the bits of two elements */
} fingerprint;

static int by_contents(const void *a, const void *b)
{
    const fingerprint *left = a, *right = b;
    if (left->elements != right->elements)
        return left->elements < right->elements ? -1 : 1;
    if (left->first != right->first)
        return left->first < right->first ? -1 : 1;
    if (left->last != right->last)
        return left->last < right->last ? -1 : 1;
    return left->initializer < right->initializer ? -1 : left->initializer > right->initializer;
}

static bool is_alike(const fingerprint *a, const fingerprint *b)
{
    return a->elements == b->elements && a->first == b->first && a->last == b->last;
}

/* All ones, all zeros: the beginning of many weights, not one of them. */
static bool is_uniform(const onnx_tensor *tensor)
{
    double first = neap_onnx_tensor_real(tensor, 0);
    for (int64_t i = 1; i < tensor->elements; i++)
        if (neap_onnx_tensor_real(tensor, i) != first)
            return false;
    return true;
}

static bool is_equal(const onnx_tensor *a, const onnx_tensor *b, bool turned)
{
    int64_t rows = a->dims[0], columns = a->dims[1];
    if (a->type != b->type || b->dims[turned] != rows || b->dims[!turned] != columns)
        return false;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            if (neap_onnx_tensor_real(a, r * columns + c) !=
                neap_onnx_tensor_real(b, turned ? c * rows + r : r * columns + c))
                return false;
    return true;
}

static uint64_t bits_of(const onnx_tensor *tensor, int64_t i)
{
    double number = neap_onnx_tensor_real(tensor, i);
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static neap_status collect(onnx_import *im, fingerprint **prints, size_t *count)
{
    *count = 0;
    if (!NEAP_TAKE(im->arena, im->proto->n_initializers, *prints))
        return neap_fail_no_memory(im->diag);
    for (size_t v = 0; v < im->n_values; v++) {
        const onnx_value *value = &im->values[v];
        if (!value->live || value->initializer == NEAP_NONE || !value->trained ||
            value->shape.rank != 2)
            continue;
        const onnx_tensor *tensor = &im->proto->initializers[value->initializer];
        if (tensor->elements >= LEAST_ELEMENTS)
            (*prints)[(*count)++] =
                (fingerprint){value->initializer, tensor->elements, bits_of(tensor, 0),
                              bits_of(tensor, tensor->elements - 1)};
    }
    qsort(*prints, *count, sizeof **prints, by_contents);
    return NEAP_OK;
}

/* Marks the initializers that a Gather reads rows of. */
static neap_status find_tables(const onnx_import *im, bool **tables)
{
    if (!NEAP_TAKE(im->arena, im->proto->n_initializers, *tables))
        return neap_fail_no_memory(im->diag);
    for (size_t n = 0; n < im->n_nodes; n++) {
        const onnx_node *node = &im->nodes[n];
        const onnx_value *data = neap_onnx_input(im, node, 0);
        if (node->live && !*node->domain && strcmp(node->type, "Gather") == 0 && data &&
            data->initializer != NEAP_NONE)
            (*tables)[data->initializer] = true;
    }
    return NEAP_OK;
}

/* Ties the second of two equal matrices to the first. A symmetric one equals its copies however
   they are turned. */
static neap_status tie(onnx_import *im, uint32_t first, uint32_t second, const bool *tables)
{
    const onnx_tensor *a = &im->proto->initializers[first];
    const onnx_tensor *b = &im->proto->initializers[second];
    bool table = tables[first] || tables[second];
    if (im->ties[first].to != NEAP_NONE || im->ties[second].to != NEAP_NONE)
        return NEAP_OK;
    bool turned = is_equal(a, b, true);
    bool same = turned ? table || !is_equal(a, a, true) : table && is_equal(a, b, false);
    if (!same || is_uniform(a))
        return NEAP_OK;
    im->ties[second] = (onnx_tie){first, turned};
    return neap_onnx_note(im, "\"%s\" is \"%s\"%s: one weight, trained once", b->name, a->name,
                          turned ? ", turned" : "");
}

neap_status neap_onnx_find_ties(onnx_import *im)
{
    fingerprint *prints;
    bool *tables;
    size_t count;
    if (!NEAP_TAKE(im->arena, im->proto->n_initializers, im->ties))
        return neap_fail_no_memory(im->diag);
    for (size_t i = 0; i < im->proto->n_initializers; i++)
        im->ties[i].to = NEAP_NONE;
    NEAP_TRY(find_tables(im, &tables));
    NEAP_TRY(collect(im, &prints, &count));
    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1; k < count && is_alike(&prints[i], &prints[k]); k++)
            NEAP_TRY(tie(im, prints[i].initializer, prints[k].initializer, tables));
    return NEAP_OK;
}
