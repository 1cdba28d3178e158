#ifndef NEAP_CUDA_DELAY_H
#define NEAP_CUDA_DELAY_H

#include "types.h"

typedef struct delay_params {
    u64 nanoseconds;
} delay_params;

#endif
