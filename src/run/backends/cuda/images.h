/* Planning kernels that go through images (kernels/image.h). */
#ifndef NEAP_CUDA_IMAGES_H
#define NEAP_CUDA_IMAGES_H

#include "run/backends/cuda/cuda.h"
#include "run/backends/cuda/kernels/image.h"

/* The divisor is from 1 to 2^31 - 1. */
image_divisor neap_cuda_image_divisor(int64_t divisor);
image_strides neap_cuda_image_strides(const run_array *image);
/* Over the elements of a result, `width` channels at a time. */
image_walk neap_cuda_image_walk(const run_array *result, int width);
/* How many channels a vector of 16 bytes holds, if kernels can go through these images of the same
   batch and channels with vectors at addresses that are multiples of 16; 1 if not. */
int neap_cuda_image_vector(const run_array *a, const run_array *b);
/* NEAP_UNSUPPORTED unless all floats are of one type, f32 or bf16. */
neap_status neap_cuda_check_one_type(const run_spec *spec, neap_diag *diag);
/* One thread for each item. */
cuda_dims neap_cuda_image_dims(const cuda_backend *backend, int64_t items);
/* NEAP_UNSUPPORTED if extents or attributes of the op are too large for kernels that count
   positions in 32 bits. */
neap_status neap_cuda_check_images(const run_spec *spec, neap_diag *diag);

#endif
