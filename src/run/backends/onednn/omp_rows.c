/* Arrays as rows of channels, and sums over rows. */
#include "run/backends/onednn/omp_rows.h"

#include "run/backends/onednn/omp_parallel.h"

#include <string.h>

omp_rows neap_omp_rows_of(const run_array *array, uint32_t axis)
{
    omp_rows rows = {.count = 1,
                     .channels = array->shape[axis],
                     .channel_stride = array->shape[axis] > 1 ? array->strides[axis] : 1,
                     .even = true,
                     .stride = 0,
                     .array = *array,
                     .axis = axis};
    int64_t next = 0; /* stride that one more dimension must have */
    for (uint32_t d = array->rank; d-- > 0;) {
        if (d == axis || array->shape[d] == 1)
            continue;
        if (next == 0)
            rows.stride = array->strides[d];
        else if (array->strides[d] != next)
            rows.even = false;
        next = array->strides[d] * array->shape[d];
        rows.count *= array->shape[d];
    }
    return rows;
}

int64_t neap_omp_rows_find(const omp_rows *rows, int64_t row)
{
    int64_t offset = 0;
    for (uint32_t d = rows->array.rank; d-- > 0;) {
        if (d == rows->axis)
            continue;
        offset += row % rows->array.shape[d] * rows->array.strides[d];
        row /= rows->array.shape[d];
    }
    return offset;
}

void neap_omp_rows_copy(const omp_rows *rows, int threads, float *at, float *matrix, bool to_matrix)
{
#pragma omp parallel num_threads(threads)
    {
        omp_range r = omp_my_range(rows->count, 1);
        for (int64_t row = r.begin; row < r.end; row++) {
            float *ours = at + omp_row(rows, row), *theirs = matrix + row * rows->channels;
            for (int64_t c = 0; c < rows->channels; c++)
                if (to_matrix)
                    theirs[c] = ours[c * rows->channel_stride];
                else
                    ours[c * rows->channel_stride] = theirs[c];
        }
    }
}

OMP_CLONES
static void add_chunk(float *restrict y, const float *restrict b, int64_t channels, int64_t stride)
{
    if (stride == 1)
        for (int64_t c = 0; c < channels; c++)
            y[c] += b[c];
    else
        for (int64_t c = 0; c < channels; c++)
            y[c * stride] += b[c];
}

void neap_omp_rows_add(const omp_rows *y, int threads, float *at, const float *b)
{
#pragma omp parallel num_threads(threads)
    {
        omp_range r = omp_my_range(y->count, 1);
        for (int64_t row = r.begin; row < r.end; row++)
            add_chunk(at + omp_row(y, row), b, y->channels, y->channel_stride);
    }
}

/* Sums of a few rows are taken in f32, the sums of those in f64: accurate, and nearly as fast as
   f32 alone. */
#define ROWS_A_SUM     64
#define CHANNELS_A_SUM 256

OMP_CLONES
static void sum_chunk(const float *restrict x, int64_t rows, int64_t row_stride, int64_t channels,
                      int64_t stride, double *restrict sums)
{
    float part[CHANNELS_A_SUM];
    for (int64_t c = 0; c < channels; c++)
        part[c] = 0;
    for (int64_t row = 0; row < rows; row++, x += row_stride)
        if (stride == 1)
            for (int64_t c = 0; c < channels; c++)
                part[c] += x[c];
        else
            for (int64_t c = 0; c < channels; c++)
                part[c] += x[c * stride];
    for (int64_t c = 0; c < channels; c++)
        sums[c] += (double)part[c];
}

int64_t neap_omp_rows_sum_bytes(const omp_rows *x, int threads)
{
    return (int64_t)sizeof(double) * threads * x->channels;
}

static void sum_range(const omp_rows *x, omp_range range, const float *at, double *sums)
{
    memset(sums, 0, (size_t)x->channels * sizeof *sums);
    for (int64_t row = range.begin; row < range.end;) {
        int64_t count = x->even ? range.end - row : 1;
        if (count > ROWS_A_SUM)
            count = ROWS_A_SUM;
        for (int64_t c = 0; c < x->channels; c += CHANNELS_A_SUM) {
            int64_t channels = x->channels - c < CHANNELS_A_SUM ? x->channels - c : CHANNELS_A_SUM;
            sum_chunk(at + omp_row(x, row) + c * x->channel_stride, count, x->stride, channels,
                      x->channel_stride, sums + c);
        }
        row += count;
    }
}

void neap_omp_rows_sum(const omp_rows *x, int threads, const float *at, float *b, void *scratch)
{
    double *sums = scratch;
    memset(sums, 0, (size_t)neap_omp_rows_sum_bytes(x, threads));
#pragma omp parallel num_threads(threads)
    sum_range(x, omp_my_range(x->count, 1), at, sums + omp_get_thread_num() * x->channels);
    for (int64_t c = 0; c < x->channels; c++) {
        double sum = 0;
        for (int t = 0; t < threads; t++)
            sum += sums[t * x->channels + c];
        b[c] = (float)sum;
    }
}
