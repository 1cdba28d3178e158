/* Parameters of prime.cu. */
#ifndef NEAP_CUDA_PRIME_H
#define NEAP_CUDA_PRIME_H

#include "types.h"

enum { PRIME_NUMBERS, PRIME_ZEROS, PRIME_ONES };

typedef struct prime_params {
    void *data;
    i64 words; /* of 4 bytes */
    i32 kind;  /* PRIME_NUMBERS: f32 or bf16; PRIME_ONES: f64 */
} prime_params;

#endif
