/*
 * Resizing to the nearest pixel, and its gradient. Parts share rows of images. The rows and columns
 * that pixels are taken from are worked out beforehand; they never decrease, so that what came from
 * one pixel is a block of neighbours.
 */
#include "run/backends/onednn/omp_walk.h"
#include "run/nearest.h"

typedef struct nearest {
    run_array small, large; /* x and y, or dx and dy */
    int64_t sources[];      /* of each row of the large image, then of each column */
} nearest;

static size_t source_bytes(const run_spec *spec, const run_array *large)
{
    (void)spec;
    return (size_t)(large->shape[2] + large->shape[3]) * sizeof(int64_t);
}

static size_t forward_bytes(const run_spec *spec)
{
    return source_bytes(spec, &spec->out[0]);
}

static size_t backward_bytes(const run_spec *spec)
{
    return source_bytes(spec, &spec->in[0]);
}

static void plan_sources(const run_spec *spec, const run_array *small, const run_array *large,
                         nearest *p)
{
    p->small = *small;
    p->large = *large;
    for (uint32_t which = 0; which < 2; which++) {
        run_nearest n = run_nearest_of(spec, small, large, which);
        for (int64_t i = 0; i < n.to; i++)
            p->sources[(which ? large->shape[2] : 0) + i] = run_nearest_pixel(&n, i);
    }
}

static void plan_forward(const run_spec *spec, int parts, void *plan)
{
    (void)parts;
    plan_sources(spec, &spec->in[0], &spec->out[0], plan);
}

static void plan_backward(const run_spec *spec, int parts, void *plan)
{
    (void)parts;
    plan_sources(spec, &spec->out[0], &spec->in[0], plan);
}

static void forward_work(const omp_task *task)
{
    const nearest *p = task->plan;
    const run_array *x = &p->small, *y = &p->large;
    const int64_t *columns = p->sources + y->shape[2];
    omp_range rows = omp_share(task, y->shape[0] * y->shape[2], 1);
    for (int64_t k = rows.begin; k < rows.end; k++) {
        int64_t image = k / y->shape[2], row = k % y->shape[2];
        float *to = omp_out(task, 0) + image * y->strides[0] + row * y->strides[2];
        const float *from =
            omp_in(task, 0) + image * x->strides[0] + p->sources[row] * x->strides[2];
        for (int64_t c = 0; c < y->shape[1]; c++)
            for (int64_t j = 0; j < y->shape[3]; j++)
                to[c * y->strides[1] + j * y->strides[3]] =
                    from[c * x->strides[1] + columns[j] * x->strides[3]];
    }
}

/* The pixels from `begin` on that were taken from `source`. */
static omp_range block_of(const int64_t *sources, int64_t count, int64_t begin, int64_t source)
{
    while (begin < count && sources[begin] < source)
        begin++;
    int64_t end = begin;
    while (end < count && sources[end] == source)
        end++;
    return (omp_range){begin, end};
}

static double sum_of(const float *dy, const run_array *y, omp_range rows, omp_range columns)
{
    double sum = 0;
    for (int64_t i = rows.begin; i < rows.end; i++)
        for (int64_t j = columns.begin; j < columns.end; j++)
            sum += (double)dy[i * y->strides[2] + j * y->strides[3]];
    return sum;
}

static void backward_work(const omp_task *task)
{
    const nearest *p = task->plan;
    const run_array *x = &p->small, *y = &p->large;
    omp_range share = omp_share(task, x->shape[0] * x->shape[2], 1);
    for (int64_t k = share.begin; k < share.end; k++) {
        int64_t image = k / x->shape[2], row = k % x->shape[2];
        omp_range rows = block_of(p->sources, y->shape[2], 0, row), columns = {0, 0};
        for (int64_t j = 0; j < x->shape[3]; j++) {
            columns = block_of(p->sources + y->shape[2], y->shape[3], columns.end, j);
            for (int64_t c = 0; c < x->shape[1]; c++)
                omp_out(task, 0)[image * x->strides[0] + c * x->strides[1] + row * x->strides[2] +
                                 j * x->strides[3]] =
                    (float)sum_of(omp_in(task, 0) + image * y->strides[0] + c * y->strides[1], y,
                                  rows, columns);
        }
    }
}

OMP_OP(resize_nearest, {.plan_bytes = sizeof(nearest),
                        .more_bytes = forward_bytes,
                        .plan = plan_forward,
                        .work = forward_work})
OMP_OP(resize_nearest_bw, {.plan_bytes = sizeof(nearest),
                           .more_bytes = backward_bytes,
                           .plan = plan_backward,
                           .work = backward_work})
