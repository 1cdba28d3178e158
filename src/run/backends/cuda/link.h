/* Measuring the link between a CUDA device and pinned memory of the host. */
#ifndef NEAP_CUDA_LINK_H
#define NEAP_CUDA_LINK_H

#include "run/backends/cuda/cuda.h"

/* As neap_backend_measure_link; `contention` may be NULL. */
neap_status neap_cuda_measure_link(neap_backend *backend, neap_link *link,
                                   neap_contention *contention, neap_diag *diag);

#endif
