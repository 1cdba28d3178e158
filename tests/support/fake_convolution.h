/* A convolution by loops, as a plan of fake_cudnn.c carries it out. */
#ifndef NEAP_TESTS_FAKE_CONVOLUTION_H
#define NEAP_TESTS_FAKE_CONVOLUTION_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fake_tensor {
    int type; /* of cuDNN: float or bfloat16 */
    int64_t dims[4], strides[4], uid;
} fake_tensor;

typedef struct fake_convolution {
    enum { FAKE_Y, FAKE_X, FAKE_W } target; /* what is computed from the other two */
    fake_tensor tensors[3];
    int64_t steps[2], dilations[2], pads[2];
    bool adds; /* to what is there */
    bool has_bias, has_relu;
    int64_t bias_uid;
} fake_convolution;

/* `bias` may be NULL. */
void fake_convolution_run(const fake_convolution *c, void *const at[3], const void *bias);

#endif
