/* Reference kernels of matrix products and softmax. */
#include "run/backends/ref/ref.h"

#include <math.h>

/* ---- Products ---- */

/* Where element (row, column) of a matrix lies, and how far it is to the next matrix. */
typedef struct matrix {
    int64_t row, column, size;
} matrix;

static matrix matrix_of(const ref_tensor *x, bool transposed)
{
    int64_t rows = x->shape[x->rank - 2], columns = x->shape[x->rank - 1];
    return transposed ? (matrix){1, columns, rows * columns} : (matrix){columns, 1, rows * columns};
}

static double product(const double *a, int64_t a_step, const double *b, int64_t b_step,
                      int64_t depth)
{
    double sum = 0;
    for (int64_t k = 0; k < depth; k++)
        sum += a[k * a_step] * b[k * b_step];
    return sum;
}

void neap_ref_matmul(const ref_call *call)
{
    bool turned = neap_ref_int(call, "transpose_a") != 0;
    const ref_tensor *ta = &call->in[0], *y = &call->out[0];
    matrix a = matrix_of(ta, turned);
    matrix b = matrix_of(&call->in[1], neap_ref_int(call, "transpose_b") != 0);
    int64_t rows = y->shape[y->rank - 2], columns = y->shape[y->rank - 1];
    int64_t depth = ta->shape[ta->rank - (turned ? 2 : 1)], batches = y->n / (rows * columns);
    for (int64_t i = 0; i < batches; i++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++)
                y->at[(i * rows + r) * columns + c] =
                    product(ta->at + i * a.size + r * a.row, a.column,
                            call->in[1].at + i * b.size + c * b.column, b.row, depth);
}

/* ---- Softmax ---- */

typedef void row_function(const ref_call *call, int64_t first, int64_t step, int64_t n);

/* Calls a function for each row along the axis: n elements, `step` apart. */
static void for_rows(const ref_call *call, row_function *function)
{
    const ref_tensor *x = &call->out[0];
    uint32_t axis = (uint32_t)neap_ref_int(call, "axis");
    int64_t n = x->shape[axis], step = neap_ref_extent(x, axis + 1, x->rank);
    for (int64_t outer = 0; outer < x->n / (n * step); outer++)
        for (int64_t inner = 0; inner < step; inner++)
            function(call, outer * n * step + inner, step, n);
}

static void softmax_row(const ref_call *call, int64_t first, int64_t step, int64_t n)
{
    const double *x = call->in[0].at + first;
    double *y = call->out[0].at + first, largest = x[0], sum = 0;
    for (int64_t k = 0; k < n; k++)
        largest = fmax(largest, x[k * step]);
    for (int64_t k = 0; k < n; k++)
        sum += exp(x[k * step] - largest);
    for (int64_t k = 0; k < n; k++)
        y[k * step] = exp(x[k * step] - largest) / sum;
}

static void softmax_bw_row(const ref_call *call, int64_t first, int64_t step, int64_t n)
{
    const double *dy = call->in[0].at + first, *y = call->in[1].at + first;
    double *dx = call->out[0].at + first, sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += dy[k * step] * y[k * step];
    for (int64_t k = 0; k < n; k++)
        dx[k * step] = y[k * step] * (dy[k * step] - sum);
}

void neap_ref_softmax(const ref_call *call)
{
    for_rows(call, softmax_row);
}

void neap_ref_softmax_bw(const ref_call *call)
{
    for_rows(call, softmax_bw_row);
}
