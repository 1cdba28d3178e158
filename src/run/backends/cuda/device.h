/* The memory of a CUDA device, measuring on it, and its link: what the executor asks of it. */
#ifndef NEAP_CUDA_DEVICE_H
#define NEAP_CUDA_DEVICE_H

#include "run/backend.h"

extern const run_device_type neap_cuda_device_type;

#endif
