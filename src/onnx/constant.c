/* See constant.h. */
#include "onnx/constant.h"

#include "base/checked.h"
#include "base/half.h"

#include <math.h>
#include <string.h>

/* ---- Shapes ---- */

bool neap_onnx_shape_elements(const onnx_shape *shape, int64_t *elements)
{
    int64_t product = 1;
    for (uint32_t d = 0; d < shape->rank; d++)
        if (!neap_mul_i64(product, shape->dims[d], &product))
            return false;
    *elements = product;
    return true;
}

bool neap_onnx_shape_equal(const onnx_shape *a, const onnx_shape *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

bool neap_onnx_shape_broadcast(const onnx_shape *a, const onnx_shape *b, onnx_shape *result)
{
    onnx_shape whole = {.type = a->type, .rank = a->rank > b->rank ? a->rank : b->rank};
    for (uint32_t d = 0; d < whole.rank; d++) {
        int64_t left = d + a->rank >= whole.rank ? a->dims[d + a->rank - whole.rank] : 1;
        int64_t right = d + b->rank >= whole.rank ? b->dims[d + b->rank - whole.rank] : 1;
        if (left != right && left != 1 && right != 1)
            return false;
        whole.dims[d] = left == 1 ? right : left;
    }
    *result = whole;
    return true;
}

int64_t neap_onnx_broadcast_index(const onnx_shape *whole, const onnx_shape *shape, int64_t i)
{
    int64_t index = 0, stride = 1;
    for (uint32_t d = whole->rank; d-- > 0;) {
        int64_t at = i % whole->dims[d];
        i /= whole->dims[d];
        if (d + shape->rank < whole->rank)
            break;
        int64_t extent = shape->dims[d + shape->rank - whole->rank];
        index += (extent == 1 ? 0 : at) * stride;
        stride *= extent;
    }
    return index;
}

/* ---- Constants ---- */

static size_t element_size(int32_t type)
{
    if (type == ONNX_BOOL)
        return 1;
    if (neap_onnx_type_is_float(type))
        return type == ONNX_DOUBLE ? sizeof(double) : sizeof(float);
    return sizeof(int64_t);
}

onnx_constant *neap_onnx_constant_new(neap_arena *arena, const onnx_shape *shape)
{
    onnx_constant *constant;
    int64_t elements;
    if (!neap_onnx_shape_elements(shape, &elements) || !NEAP_TAKE(arena, 1, constant))
        return NULL;
    constant->shape = *shape;
    constant->elements = elements;
    constant->data = neap_arena_alloc(arena, (size_t)elements, element_size(shape->type));
    return constant->data ? constant : NULL;
}

int64_t neap_onnx_get_integer(const onnx_constant *constant, int64_t i)
{
    if (constant->shape.type == ONNX_BOOL)
        return constant->bools[i];
    if (!neap_onnx_type_is_float(constant->shape.type))
        return constant->integers[i];
    double number = neap_onnx_get_real(constant, i);
    if (!(number > -0x1p63))
        return number != number ? 0 : INT64_MIN;
    return number < 0x1p63 ? (int64_t)number : INT64_MAX;
}

double neap_onnx_get_real(const onnx_constant *constant, int64_t i)
{
    if (constant->shape.type == ONNX_BOOL)
        return constant->bools[i];
    if (constant->shape.type == ONNX_DOUBLE)
        return constant->doubles[i];
    if (neap_onnx_type_is_float(constant->shape.type))
        return (double)constant->floats[i];
    return (double)constant->integers[i];
}

/* An integer as its type holds it: narrow types wrap around. */
static int64_t wrap(int32_t type, int64_t number)
{
    switch (type) {
    case ONNX_UINT8:
        return (uint8_t)number;
    case ONNX_INT8:
        return (int8_t)number;
    case ONNX_UINT16:
        return (uint16_t)number;
    case ONNX_INT16:
        return (int16_t)number;
    case ONNX_INT32:
        return (int32_t)number;
    case ONNX_UINT32:
        return (uint32_t)number;
    default:
        return number;
    }
}

void neap_onnx_set_integer(onnx_constant *constant, int64_t i, int64_t number)
{
    if (constant->shape.type == ONNX_BOOL)
        constant->bools[i] = number != 0;
    else if (neap_onnx_type_is_float(constant->shape.type))
        neap_onnx_set_real(constant, i, (double)number);
    else
        constant->integers[i] = wrap(constant->shape.type, number);
}

void neap_onnx_set_real(onnx_constant *constant, int64_t i, double number)
{
    int32_t type = constant->shape.type;
    if (type == ONNX_BOOL)
        constant->bools[i] = number != 0;
    else if (type == ONNX_DOUBLE)
        constant->doubles[i] = number;
    else if (neap_onnx_type_is_float(type))
        constant->floats[i] = (float)number;
    else if (number != number)
        constant->integers[i] = 0;
    else
        constant->integers[i] = wrap(type, number >= 0x1p63    ? INT64_MAX
                                           : number <= -0x1p63 ? INT64_MIN
                                                               : (int64_t)number);
}

void neap_onnx_copy_element(const onnx_constant *from, int64_t i, onnx_constant *to, int64_t j)
{
    if (neap_onnx_type_is_float(from->shape.type))
        neap_onnx_set_real(to, j, neap_onnx_get_real(from, i));
    else
        neap_onnx_set_integer(to, j, neap_onnx_get_integer(from, i));
}

/* ---- Files ---- */

static double raw_real(const onnx_tensor *tensor, int64_t i)
{
    const uint8_t *at = (const uint8_t *)tensor->data + i * neap_onnx_type_bytes(tensor->type);
    float single;
    double number;
    uint16_t half;
    switch (tensor->type) {
    case ONNX_FLOAT:
        memcpy(&single, at, sizeof single);
        return (double)single;
    case ONNX_DOUBLE:
        memcpy(&number, at, sizeof number);
        return number;
    case ONNX_FLOAT16:
        memcpy(&half, at, sizeof half);
        return (double)neap_from_f16(half);
    case ONNX_BFLOAT16:
        memcpy(&half, at, sizeof half);
        return (double)neap_from_bf16(half);
    default:
        return (double)neap_onnx_tensor_integer(tensor, i);
    }
}

double neap_onnx_tensor_real(const onnx_tensor *tensor, int64_t i)
{
    switch (tensor->form) {
    case FORM_FLOATS:
        return (double)((const float *)tensor->data)[i];
    case FORM_DOUBLES:
        return ((const double *)tensor->data)[i];
    case FORM_INT32S:
        if (tensor->type == ONNX_FLOAT16)
            return (double)neap_from_f16((uint16_t)((const int32_t *)tensor->data)[i]);
        if (tensor->type == ONNX_BFLOAT16)
            return (double)neap_from_bf16((uint16_t)((const int32_t *)tensor->data)[i]);
        return (double)((const int32_t *)tensor->data)[i];
    case FORM_RAW:
        return raw_real(tensor, i);
    default:
        return (double)neap_onnx_tensor_integer(tensor, i);
    }
}

/* Little-endian, as the file has them. */
static int64_t raw_integer(const onnx_tensor *tensor, int64_t i)
{
    int64_t width = neap_onnx_type_bytes(tensor->type);
    const uint8_t *at = (const uint8_t *)tensor->data + i * width;
    uint64_t number = 0;
    for (int64_t b = width; b-- > 0;)
        number = number << 8 | at[b];
    if (tensor->type == ONNX_BOOL)
        return number != 0;
    return wrap(tensor->type, (int64_t)number);
}

int64_t neap_onnx_tensor_integer(const onnx_tensor *tensor, int64_t i)
{
    switch (tensor->form) {
    case FORM_INT32S:
        return ((const int32_t *)tensor->data)[i];
    case FORM_INT64S:
        return ((const int64_t *)tensor->data)[i];
    case FORM_UINT64S:
        return (int64_t)((const uint64_t *)tensor->data)[i];
    case FORM_RAW:
        return raw_integer(tensor, i);
    default:
        return 0;
    }
}

void neap_onnx_tensor_floats(const onnx_tensor *tensor, float *floats)
{
    if (tensor->form == FORM_FLOATS || (tensor->form == FORM_RAW && tensor->type == ONNX_FLOAT)) {
        if (tensor->elements > 0)
            memcpy(floats, tensor->data, (size_t)tensor->elements * sizeof *floats);
        return;
    }
    for (int64_t i = 0; i < tensor->elements; i++)
        floats[i] = (float)neap_onnx_tensor_real(tensor, i);
}

onnx_constant *neap_onnx_constant_of(neap_arena *arena, const onnx_tensor *tensor)
{
    onnx_shape shape = {.type = tensor->type, .rank = tensor->rank};
    if (tensor->rank > 0)
        memcpy(shape.dims, tensor->dims, tensor->rank * sizeof *shape.dims);
    onnx_constant *constant = neap_onnx_constant_new(arena, &shape);
    bool is_float = neap_onnx_type_is_float(tensor->type);
    for (int64_t i = 0; constant && i < constant->elements; i++)
        if (is_float)
            neap_onnx_set_real(constant, i, neap_onnx_tensor_real(tensor, i));
        else
            neap_onnx_set_integer(constant, i, neap_onnx_tensor_integer(tensor, i));
    return constant;
}

size_t neap_onnx_encode(int32_t type, double number, uint8_t bytes[8])
{
    float single = (float)number;
    uint16_t half;
    switch (type) {
    case ONNX_DOUBLE:
        memcpy(bytes, &number, sizeof number);
        return sizeof number;
    case ONNX_FLOAT16:
        half = neap_to_f16(single);
        memcpy(bytes, &half, sizeof half);
        return sizeof half;
    case ONNX_BFLOAT16:
        half = neap_to_bf16(single);
        memcpy(bytes, &half, sizeof half);
        return sizeof half;
    default:
        memcpy(bytes, &single, sizeof single);
        return sizeof single;
    }
}
