/* The constants of cuDNN that neap uses; its headers are not needed to build neap. */
#ifndef NEAP_CUDNN_CONSTANTS_H
#define NEAP_CUDNN_CONSTANTS_H

enum {
#define X(name, value) name = (value),
#include "run/backends/cuda/cudnn_constants.def"
#undef X
};

#endif
