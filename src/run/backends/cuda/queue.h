/* The queue (run/queue.h) of a CUDA device: three streams, events between them, and graphs of what
   is computed between copies, once a step has run. */
#ifndef NEAP_CUDA_QUEUE_H
#define NEAP_CUDA_QUEUE_H

#include "run/backends/cuda/cuda.h"
#include "run/backends/cuda/driver.h"
#include "run/queue.h"

neap_status neap_cuda_queue_create(neap_backend *backend, const run_queue_options *options,
                                   run_queue **queue, neap_diag *diag);

#endif
