/*
 * Einsum of one or two operands, as a product of matrices. Of two operands a and b, with
 *
 *     shared     labels of both and of the result      left   labels of a and of the result
 *     summed     labels of both alone                  right  labels of b and of the result
 *
 * the result is a, as shared x left x summed, times b, as shared x summed x right. Labels of one
 * operand alone are summed before.
 */
#include "onnx/ops.h"

#include "base/fail.h"

#include <string.h>

/* A letter, or a dimension that an ellipsis stands for, counted from its last one. */
enum { FROM_ELLIPSIS = 128 };

typedef struct term {
    uint32_t rank;
    int labels[NEAP_MAX_RANK];
    int64_t extents[NEAP_MAX_RANK];
} term;

typedef struct einsum {
    uint32_t n_operands;
    term operands[2], result;
} einsum;

/* ---- The equation ---- */

static neap_status fail_equation(const onnx_import *im, const onnx_node *node)
{
    return neap_onnx_fail_unsupported(im, node, "neap does not compute \"%s\" of its %u operands",
                                      neap_onnx_string(node, "equation", ""), node->n_inputs);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int64_t find(const term *t, int label)
{
    for (uint32_t d = 0; d < t->rank; d++)
        if (t->labels[d] == label)
            return d;
    return -1;
}

/* False for a label twice, or too many. */
static bool add_label(term *t, int label)
{
    if (t->rank == NEAP_MAX_RANK || find(t, label) >= 0)
        return false;
    t->labels[t->rank++] = label;
    return true;
}

/* Letters and at most one ellipsis, which stands for `ellipsis` dimensions, up to ',' or '-'. */
static bool read_term(const char **at, uint32_t ellipsis, term *t)
{
    bool fits = true, dots = false;
    for (; fits && **at && **at != ',' && **at != '-'; ++*at) {
        if (**at == ' ')
            continue;
        if (strncmp(*at, "...", 3) == 0 && !dots) {
            for (uint32_t i = ellipsis; fits && i-- > 0;)
                fits = add_label(t, FROM_ELLIPSIS + (int)i);
            *at += 2;
            dots = true;
        } else {
            fits = is_letter(**at) && add_label(t, **at);
        }
    }
    return fits;
}

/* How many dimensions the ellipsis of a term stands for: those that its letters leave. */
static uint32_t ellipsis_of(const char *at, uint32_t rank)
{
    uint32_t letters = 0;
    for (; *at && *at != ',' && *at != '-'; at++)
        letters += is_letter(*at);
    return rank > letters ? rank - letters : 0;
}

/* Without an arrow: labels that occur once, in the order of the alphabet, after the ellipsis. */
static bool imply_result(einsum *e, uint32_t ellipsis)
{
    bool fits = true;
    for (uint32_t i = ellipsis; fits && i-- > 0;)
        fits = add_label(&e->result, FROM_ELLIPSIS + (int)i);
    for (int c = 'A'; fits && c <= 'z'; c++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < e->n_operands; i++)
            count += find(&e->operands[i], c) >= 0;
        if (count == 1)
            fits = add_label(&e->result, c);
    }
    return fits;
}

static bool read_equation(const onnx_import *im, const onnx_node *node, einsum *e)
{
    const char *at = neap_onnx_string(node, "equation", "");
    uint32_t longest = 0;
    *e = (einsum){.n_operands = node->n_inputs};
    for (uint32_t i = 0; i < e->n_operands; i++) {
        const onnx_shape *shape = &neap_onnx_input(im, node, i)->shape;
        uint32_t ellipsis = ellipsis_of(at, shape->rank);
        term *t = &e->operands[i];
        longest = ellipsis > longest ? ellipsis : longest;
        if (!read_term(&at, ellipsis, t) || t->rank != shape->rank ||
            (*at == ',') != (i + 1 < e->n_operands))
            return false;
        memcpy(t->extents, shape->dims, sizeof t->extents);
        at += *at == ',';
    }
    if (!*at)
        return imply_result(e, longest);
    return strncmp(at, "->", 2) == 0 && (at += 2, read_term(&at, longest, &e->result)) && !*at;
}

static neap_status read_einsum(const onnx_import *im, const onnx_node *node, einsum *e)
{
    if (node->n_inputs < 1 || node->n_inputs > 2)
        return fail_equation(im, node);
    NEAP_TRY(neap_onnx_need(im, node, node->n_inputs));
    if (!read_equation(im, node, e))
        return fail_equation(im, node);
    for (uint32_t d = 0; d < e->result.rank; d++) {
        e->result.extents[d] = -1;
        for (uint32_t i = 0; i < e->n_operands; i++) {
            int64_t place = find(&e->operands[i], e->result.labels[d]);
            if (place >= 0)
                e->result.extents[d] = e->operands[i].extents[place];
        }
        if (e->result.extents[d] < 0)
            return fail_equation(im, node);
    }
    for (uint32_t d = 0; e->n_operands == 2 && d < e->operands[0].rank; d++) {
        int64_t place = find(&e->operands[1], e->operands[0].labels[d]);
        if (place >= 0 && e->operands[1].extents[place] != e->operands[0].extents[d])
            return neap_onnx_fail_unsupported(im, node, "one label has the extents %lld and %lld",
                                              (long long)e->operands[0].extents[d],
                                              (long long)e->operands[1].extents[place]);
    }
    return NEAP_OK;
}

static neap_status infer_einsum(onnx_import *im, const onnx_node *node)
{
    einsum e;
    NEAP_TRY(read_einsum(im, node, &e));
    onnx_shape shape = {.type = neap_onnx_input(im, node, 0)->shape.type, .rank = e.result.rank};
    memcpy(shape.dims, e.result.extents, e.result.rank * sizeof *shape.dims);
    return neap_onnx_set_shape(im, node, 0, &shape);
}

/* ---- Layers ---- */

/* The operand without the labels that neither the other one nor the result has. */
static neap_status sum_alone(onnx_import *im, const onnx_node *node, einsum *e, uint32_t operand,
                             onnx_view *view)
{
    const onnx_view *from;
    term *t = &e->operands[operand], kept = {0};
    uint32_t axes[NEAP_MAX_RANK], count = 0;
    neap_tensor x;
    NEAP_TRY(neap_onnx_view(im, node, node->inputs[operand], &from));
    *view = *from;
    for (uint32_t d = 0; d < t->rank; d++) {
        bool used = find(&e->result, t->labels[d]) >= 0 ||
                    (e->n_operands == 2 && find(&e->operands[1 - operand], t->labels[d]) >= 0);
        if (used)
            kept.extents[kept.rank] = t->extents[d];
        if (used)
            kept.labels[kept.rank++] = t->labels[d];
        else
            axes[count++] = d;
    }
    if (count == 0)
        return NEAP_OK;
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[operand], &x));
    x = neap_net_sum_axes(im->net, node->name, x, count, axes, true);
    *t = kept;
    neap_onnx_view_init(view, x, false, kept.rank, kept.extents);
    return neap_onnx_check_net(im, node);
}

/* Labels of a term in a new order; their product is an extent of a matrix. */
typedef struct ordering {
    uint32_t n, perm[NEAP_MAX_RANK];
    int labels[NEAP_MAX_RANK];
    int64_t extents[NEAP_MAX_RANK];
} ordering;

/* Appends those labels that are, or are not, in each of two others. Returns their product. */
static int64_t append(ordering *o, const term *t, const term *other, bool in_other,
                      const term *result, bool in_result)
{
    int64_t product = 1;
    for (uint32_t d = 0; d < t->rank; d++)
        if ((find(other, t->labels[d]) >= 0) == in_other &&
            (find(result, t->labels[d]) >= 0) == in_result) {
            o->labels[o->n] = t->labels[d];
            o->extents[o->n] = t->extents[d];
            o->perm[o->n++] = d;
            product *= t->extents[d];
        }
    return product;
}

/* An operand as shared x rows x columns; without `shared` where that is 1. */
static neap_status make_matrix(onnx_import *im, const onnx_node *node, uint32_t operand,
                               onnx_view *view, const ordering *o, const int64_t shape[3],
                               neap_tensor *matrix)
{
    uint32_t skip = shape[0] == 1 ? 1 : 0;
    neap_onnx_view_transpose(view, o->perm);
    return neap_onnx_weight(im, node, node->inputs[operand], view, 3 - skip, shape + skip, matrix);
}

/* The result has these labels; it is seen in the order of the equation. */
static neap_status set_result(onnx_import *im, const onnx_node *node, const einsum *e,
                              const onnx_view *from, const int *labels)
{
    uint32_t perm[NEAP_MAX_RANK];
    onnx_view view = *from;
    for (uint32_t d = 0; d < e->result.rank; d++)
        for (perm[d] = 0; labels[perm[d]] != e->result.labels[d];)
            perm[d]++;
    neap_onnx_view_transpose(&view, perm);
    neap_onnx_set_view(im, node, 0, &view);
    return neap_onnx_check_net(im, node);
}

static neap_status lower_einsum(onnx_import *im, const onnx_node *node)
{
    einsum e;
    onnx_view views[2], product;
    ordering a = {0}, b = {0};
    neap_tensor matrices[2];
    NEAP_TRY(read_einsum(im, node, &e));
    for (uint32_t i = 0; i < e.n_operands; i++)
        NEAP_TRY(sum_alone(im, node, &e, i, &views[i]));
    if (e.n_operands == 1)
        return set_result(im, node, &e, &views[0], e.operands[0].labels);
    const term *x = &e.operands[0], *y = &e.operands[1], *z = &e.result;
    int64_t shared = append(&a, x, y, true, z, true), left = append(&a, x, y, false, z, true);
    int64_t summed = append(&a, x, y, true, z, false), right;
    /* b has the shared and the summed labels in the same order as a */
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < a.n; i++) {
            int64_t place = find(y, a.labels[i]);
            if (place < 0 || (find(z, a.labels[i]) >= 0) != (pass == 0))
                continue;
            b.labels[b.n] = a.labels[i];
            b.extents[b.n] = a.extents[i];
            b.perm[b.n++] = (uint32_t)place;
        }
    right = append(&b, y, x, false, z, true);
    NEAP_TRY(
        make_matrix(im, node, 0, &views[0], &a, (int64_t[]){shared, left, summed}, &matrices[0]));
    NEAP_TRY(
        make_matrix(im, node, 1, &views[1], &b, (int64_t[]){shared, summed, right}, &matrices[1]));
    neap_tensor root = neap_net_matmul(im->net, node->name, matrices[0], matrices[1], false, false);
    ordering made = {0}; /* shared, left, right */
    append(&made, x, y, true, z, true);
    append(&made, x, y, false, z, true);
    append(&made, y, x, false, z, true);
    neap_onnx_view_init(&product, root, false, made.n, made.extents);
    return set_result(im, node, &e, &product, made.labels);
}

const onnx_op neap_onnx_ops_einsum[] = {
    {"Einsum", "", infer_einsum, NULL, lower_einsum},
    {0},
};
