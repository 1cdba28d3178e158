/* Tensors on the host: what the importer computes with to find shapes, masks and indices. */
#ifndef NEAP_ONNX_CONSTANT_H
#define NEAP_ONNX_CONSTANT_H

#include "onnx/proto.h"

#include <neap/network.h>

/* A type and extents; rank 0 is a scalar. */
typedef struct onnx_shape {
    int32_t type; /* an onnx_type */
    uint32_t rank;
    int64_t dims[NEAP_MAX_RANK];
} onnx_shape;

/* The product of the extents. False if it overflows. */
bool neap_onnx_shape_elements(const onnx_shape *shape, int64_t *elements);
bool neap_onnx_shape_equal(const onnx_shape *a, const onnx_shape *b); /* types may differ */
/* numpy's rule; false where two extents differ and neither is 1. The type stays that of *a. */
bool neap_onnx_shape_broadcast(const onnx_shape *a, const onnx_shape *b, onnx_shape *result);

/* Elements by the class of their type: integers as int64_t, bools as uint8_t, floats as float or,
   for the type double, as double. */
typedef struct onnx_constant {
    onnx_shape shape;
    int64_t elements;
    union {
        void *data;
        int64_t *integers;
        uint8_t *bools;
        float *floats;
        double *doubles;
    };
} onnx_constant;

/* Zeros in the arena; NULL when out of memory. The elements of the shape must not overflow. */
onnx_constant *neap_onnx_constant_new(neap_arena *arena, const onnx_shape *shape);
/* The elements of a tensor of the file, which must have data in memory. */
onnx_constant *neap_onnx_constant_of(neap_arena *arena, const onnx_tensor *tensor);

int64_t neap_onnx_get_integer(const onnx_constant *constant, int64_t i);
double neap_onnx_get_real(const onnx_constant *constant, int64_t i);
void neap_onnx_set_integer(onnx_constant *constant, int64_t i, int64_t number);
void neap_onnx_set_real(onnx_constant *constant, int64_t i, double number);

/* Element j of one becomes element i of the other, as its type holds it. */
void neap_onnx_copy_element(const onnx_constant *from, int64_t i, onnx_constant *to, int64_t j);

/* Index in a tensor of `shape` of the element that broadcasting reads for element i of `whole`. */
int64_t neap_onnx_broadcast_index(const onnx_shape *whole, const onnx_shape *shape, int64_t i);

/* ---- Elements of tensors in files ---- */

double neap_onnx_tensor_real(const onnx_tensor *tensor, int64_t i);
int64_t neap_onnx_tensor_integer(const onnx_tensor *tensor, int64_t i);
/* All of them at once; fast for f32 in raw data. */
void neap_onnx_tensor_floats(const onnx_tensor *tensor, float *floats);
/* The bytes that raw data of this type would have for a number. Returns how many. */
size_t neap_onnx_encode(int32_t type, double number, uint8_t bytes[8]);

#endif
