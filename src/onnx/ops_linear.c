/*
 * Matrix products: Gemm and MatMul. A product with a weight is a linear layer, whose weight neap
 * has as features x inputs, and whose bias may come from an Add that follows (fuse_linear.c).
 */
#include "onnx/ops.h"

#include "base/fail.h"

#include <string.h>

/* ---- Shapes ---- */

static neap_status infer_gemm(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 2));
    const onnx_shape *a = &neap_onnx_input(im, node, 0)->shape;
    const onnx_shape *b = &neap_onnx_input(im, node, 1)->shape;
    const onnx_value *c = neap_onnx_input(im, node, 2);
    uint32_t at = neap_onnx_int(node, "transA", 0) != 0, bt = neap_onnx_int(node, "transB", 0) != 0;
    if (a->rank != 2 || b->rank != 2 || a->dims[1 - at] != b->dims[bt])
        return neap_onnx_fail(im, node, "its matrices do not fit each other");
    onnx_shape shape = {.type = a->type, .rank = 2, .dims = {a->dims[at], b->dims[1 - bt]}}, sum;
    if (c && (!neap_onnx_shape_broadcast(&shape, &c->shape, &sum) ||
              !neap_onnx_shape_equal(&sum, &shape)))
        return neap_onnx_fail(im, node, "what it adds does not fit its product");
    return neap_onnx_set_shape(im, node, 0, &shape);
}

/* The shape of a factor; a vector is a row on the left, a column on the right. */
static onnx_shape matrix_shape(const onnx_import *im, const onnx_node *node, uint32_t input)
{
    onnx_shape shape = neap_onnx_input(im, node, input)->shape;
    if (shape.rank == 1) {
        shape.rank = 2;
        shape.dims[1] = input == 0 ? shape.dims[0] : 1;
        shape.dims[0] = input == 0 ? 1 : shape.dims[0];
    }
    return shape;
}

static neap_status infer_matmul(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 2));
    onnx_shape a = matrix_shape(im, node, 0), b = matrix_shape(im, node, 1);
    bool row = neap_onnx_input(im, node, 0)->shape.rank == 1;
    bool column = neap_onnx_input(im, node, 1)->shape.rank == 1;
    if (a.rank < 2 || b.rank < 2)
        return neap_onnx_fail(im, node, "a number is no matrix");
    if (a.dims[a.rank - 1] != b.dims[b.rank - 2])
        return neap_onnx_fail(im, node, "%lld columns do not fit %lld rows",
                              (long long)a.dims[a.rank - 1], (long long)b.dims[b.rank - 2]);
    int64_t rows = a.dims[a.rank - 2], columns = b.dims[b.rank - 1];
    onnx_shape shape;
    a.rank -= 2;
    b.rank -= 2;
    if (!neap_onnx_shape_broadcast(&a, &b, &shape))
        return neap_onnx_fail(im, node, "the leading dimensions of its factors differ");
    if (!row)
        shape.dims[shape.rank++] = rows;
    if (!column)
        shape.dims[shape.rank++] = columns;
    return neap_onnx_set_shape(im, node, 0, &shape);
}

/* ---- Linear layers ---- */

/*
 * y = x w [+ b] for a matrix w, inputs x features. Where the rows of x are seen through a view, so
 * are those of y.
 */
static neap_status lower_product(onnx_import *im, const onnx_node *node, uint32_t x, uint32_t w,
                                 bool transposed, uint32_t bias)
{
    const onnx_view *from;
    neap_tensor root, weight, vector = NEAP_NONE;
    const onnx_shape *matrix = &im->values[w].shape;
    int64_t inputs = matrix->dims[transposed], features = matrix->dims[!transposed];
    const int64_t shape[2] = {features, inputs};
    NEAP_TRY(neap_onnx_view(im, node, w, &from));
    onnx_view turned = *from;
    if (!transposed)
        neap_onnx_view_transpose(&turned, (uint32_t[]){1, 0});
    NEAP_TRY(neap_onnx_weight(im, node, w, &turned, 2, shape, &weight));
    if (bias != NEAP_NONE) {
        NEAP_TRY(neap_onnx_view(im, node, bias, &from));
        onnx_view flat = *from;
        NEAP_TRY(neap_onnx_weight(im, node, bias, &flat, 1, &features, &vector));
    }
    NEAP_TRY(neap_onnx_view(im, node, x, &from));
    onnx_view view = *from;
    root = view.root;
    if (!view.of_initializer && neap_onnx_view_keeps_last(&view, inputs)) {
        root = neap_onnx_rows(im, node, root, inputs);
    } else {
        NEAP_TRY(neap_onnx_tensor(im, node, x, &root));
        neap_onnx_view_init(&view, root, false, im->values[x].shape.rank, im->values[x].shape.dims);
    }
    root = neap_net_linear_with(im->net, node->name, root, weight, vector);
    if (!neap_onnx_view_change_last(&view, features, root))
        return neap_onnx_fail_unsupported(im, node, "its input has too many dimensions");
    neap_onnx_set_view(im, node, 0, &view);
    return NEAP_OK;
}

static neap_status lower_linear(onnx_import *im, const onnx_node *node)
{
    uint32_t bias = neap_onnx_input(im, node, 2) ? node->inputs[2] : NEAP_NONE;
    return lower_product(im, node, node->inputs[0], node->inputs[1],
                         neap_onnx_int(node, "transposed", 0) != 0, bias);
}

static neap_status infer_linear(onnx_import *im, const onnx_node *node)
{
    (void)im;
    (void)node;
    return NEAP_OK; /* fusing sets the shape */
}

static bool is_vector(const onnx_value *value, int64_t width)
{
    int64_t elements = 0;
    const onnx_shape *shape = &value->shape;
    neap_onnx_shape_elements(shape, &elements);
    return elements == width && (shape->rank == 0 || shape->dims[shape->rank - 1] == width);
}

/* alpha A B + beta C, whatever is transposed and repeated. */
static neap_status lower_gemm_any(onnx_import *im, const onnx_node *node)
{
    const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
    double alpha = neap_onnx_real(node, "alpha", 1), beta = neap_onnx_real(node, "beta", 1);
    neap_tensor a, b, sum;
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &a));
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[1], &b));
    neap_tensor y =
        neap_net_matmul(im->net, node->name, a, b, neap_onnx_int(node, "transA", 0) != 0,
                        neap_onnx_int(node, "transB", 0) != 0);
    if (alpha != 1)
        y = neap_net_scale(im->net, node->name, y, alpha, 0);
    if (neap_onnx_input(im, node, 2) && beta != 0) {
        NEAP_TRY(neap_onnx_broadcast(im, node, node->inputs[2], shape, &sum));
        if (beta != 1)
            sum = neap_net_scale(im->net, node->name, sum, beta, 0);
        y = neap_net_add(im->net, node->name, y, sum);
    }
    neap_onnx_set_tensor(im, node, 0, y);
    return NEAP_OK;
}

static neap_status lower_gemm(onnx_import *im, const onnx_node *node)
{
    const onnx_value *c = neap_onnx_input(im, node, 2);
    const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
    double alpha = neap_onnx_real(node, "alpha", 1), beta = neap_onnx_real(node, "beta", 1);
    bool transposed = neap_onnx_int(node, "transB", 0) != 0;
    if (neap_onnx_int(node, "transA", 0) != 0 || alpha != 1 || (c && beta != 1) ||
        (c && !is_vector(c, shape->dims[1])))
        return lower_gemm_any(im, node);
    return lower_product(im, node, node->inputs[0], node->inputs[1], transposed,
                         c ? node->inputs[2] : NEAP_NONE);
}

/* A product with a vector, as one of matrices. */
static neap_status lower_vector(onnx_import *im, const onnx_node *node)
{
    const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
    onnx_shape a = matrix_shape(im, node, 0), b = matrix_shape(im, node, 1);
    neap_tensor factors[2];
    onnx_view view;
    for (uint32_t i = 0; i < 2; i++) {
        const onnx_shape *own = i == 0 ? &a : &b;
        NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[i], &factors[i]));
        factors[i] = neap_net_reshape(im->net, node->name, factors[i], own->rank, own->dims);
    }
    if (b.rank > 2) { /* the row for each matrix; a column is for all rows of the left factor */
        onnx_shape whole = b;
        whole.dims[b.rank - 2] = 1;
        whole.dims[b.rank - 1] = a.dims[1];
        factors[0] = neap_net_broadcast(im->net, node->name, factors[0], whole.rank, whole.dims);
    } else if (a.rank > 2) {
        factors[0] = neap_net_reshape(im->net, node->name, factors[0], 2,
                                      (int64_t[]){-1, a.dims[a.rank - 1]});
    }
    neap_tensor y = neap_net_matmul(im->net, node->name, factors[0], factors[1], false, false);
    neap_onnx_view_init(&view, y, false, shape->rank, shape->dims);
    neap_onnx_set_view(im, node, 0, &view);
    return neap_onnx_check_net(im, node);
}

static neap_status lower_matmul(onnx_import *im, const onnx_node *node)
{
    const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
    if (neap_onnx_input(im, node, 0)->shape.rank == 1 ||
        neap_onnx_input(im, node, 1)->shape.rank == 1)
        return lower_vector(im, node);
    if (neap_onnx_input(im, node, 1)->shape.rank == 2)
        return lower_product(im, node, node->inputs[0], node->inputs[1], false, NEAP_NONE);
    neap_tensor factors[2];
    for (uint32_t i = 0; i < 2; i++) { /* equal leading dimensions */
        onnx_shape whole = *shape;
        const onnx_shape *own = &neap_onnx_input(im, node, i)->shape;
        whole.dims[whole.rank - 2] = own->dims[own->rank - 2];
        whole.dims[whole.rank - 1] = own->dims[own->rank - 1];
        NEAP_TRY(neap_onnx_broadcast(im, node, node->inputs[i], &whole, &factors[i]));
    }
    neap_onnx_set_tensor(
        im, node, 0, neap_net_matmul(im->net, node->name, factors[0], factors[1], false, false));
    return NEAP_OK;
}

const onnx_op neap_onnx_ops_linear[] = {
    {"Gemm", "", infer_gemm, NULL, lower_gemm},
    {"MatMul", "", infer_matmul, NULL, lower_matmul},
    {"Linear", ONNX_NEAP_DOMAIN, infer_linear, NULL, lower_linear},
    {0},
};
