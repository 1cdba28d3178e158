/* Strides, vectors and divisors of images. */
#include "run/backends/cuda/images.h"

#include "base/fail.h"

#define MOST_EXTENT ((int64_t)1 << 29) /* so that sums of a few fit in 31 bits */

image_divisor neap_cuda_image_divisor(int64_t divisor)
{
    uint32_t shift = 0;
    while ((UINT64_C(1) << shift) < (uint64_t)divisor)
        shift++;
    uint64_t excess = (UINT64_C(1) << shift) - (uint64_t)divisor;
    return (image_divisor){.divisor = (u32)divisor,
                           .magic = (u32)((excess << 32) / (uint64_t)divisor + 1),
                           .shift = shift};
}

/* The stride of an extent of 1 is arbitrary. */
static int64_t stride_of(const run_array *image, uint32_t d)
{
    return image->shape[d] > 1 ? image->strides[d] : 0;
}

image_strides neap_cuda_image_strides(const run_array *image)
{
    return (image_strides){.n = stride_of(image, 0),
                           .c = stride_of(image, 1),
                           .h = stride_of(image, 2),
                           .w = stride_of(image, 3)};
}

image_walk neap_cuda_image_walk(const run_array *result, int width)
{
    int64_t channels = result->shape[1] / width, height = result->shape[2],
            columns = result->shape[3];
    image_walk walk = {.items = result->shape[0] * channels * height * columns,
                       .channels_inner = width > 1 || stride_of(result, 1) == 1};
    walk.wide = walk.items > INT32_MAX;
    walk.by[0] = neap_cuda_image_divisor(walk.channels_inner ? channels : columns);
    walk.by[1] = neap_cuda_image_divisor(walk.channels_inner ? columns : height);
    walk.by[2] = neap_cuda_image_divisor(walk.channels_inner ? height : channels);
    return walk;
}

static bool fits_vectors(const run_array *image, int64_t width)
{
    for (uint32_t d = 0; d < 4; d++)
        if (d == 1 ? stride_of(image, d) != 1 : stride_of(image, d) % width != 0)
            return false;
    return image->shape[1] % width == 0;
}

int neap_cuda_image_vector(const run_array *a, const run_array *b)
{
    int width = (int)(16 / neap_dtype_bytes(a->dtype));
    return a->dtype == b->dtype && fits_vectors(a, width) && fits_vectors(b, width) ? width : 1;
}

/* Small blocks where there are few items, so that every multiprocessor gets some. */
cuda_dims neap_cuda_image_dims(const cuda_backend *backend, int64_t items)
{
    bool few = items < (int64_t)backend->platform->multiprocessors * 1024;
    return neap_cuda_dims(backend, items, few ? 64 : 256, 0);
}

neap_status neap_cuda_check_one_type(const run_spec *spec, neap_diag *diag)
{
    const neap_op *op = spec->op;
    NEAP_TRY(neap_cuda_check_types(spec, diag));
    neap_dtype type = neap_cuda_type(spec), other = type == NEAP_BF16 ? NEAP_F32 : NEAP_BF16;
    for (uint32_t i = 0; i < op->n_inputs + op->n_outputs; i++)
        if ((i < op->n_inputs ? spec->in[i].dtype : spec->out[i - op->n_inputs].dtype) == other)
            return neap_fail(diag, NEAP_UNSUPPORTED,
                             "op \"%s\" (%s): the cuda backend takes operands of one type, not %s "
                             "and %s",
                             op->name, op->type, neap_dtype_name(type), neap_dtype_name(other));
    return NEAP_OK;
}

neap_status neap_cuda_check_images(const run_spec *spec, neap_diag *diag)
{
    const neap_op *op = spec->op;
    NEAP_TRY(neap_cuda_check_one_type(spec, diag));
    bool fits = true;
    for (uint32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        const run_array *array = i < op->n_inputs ? &spec->in[i] : &spec->out[i - op->n_inputs];
        for (uint32_t d = 1; d < array->rank; d++)
            fits = fits && array->shape[d] <= MOST_EXTENT;
    }
    for (uint32_t i = 0; i < op->n_attrs; i++)
        fits = fits && op->attrs[i].integer <= MOST_EXTENT;
    if (!fits)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "op \"%s\" (%s): the cuda backend takes images and windows of at most "
                         "%lld rows and columns",
                         op->name, op->type, (long long)MOST_EXTENT);
    return NEAP_OK;
}
