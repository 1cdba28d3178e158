/* The files of kernels/ and the tables that they include, as they were when the library was built
   (cmake/embed.cmake). */
#ifndef NEAP_CUDA_SOURCES_H
#define NEAP_CUDA_SOURCES_H

#include <stddef.h>

typedef struct cuda_source {
    const char *name; /* "elementwise.cu" */
    const char *text; /* ends with a NUL */
    size_t bytes;     /* without it */
} cuda_source;

/* By name; ends with one without a name. */
extern const cuda_source neap_cuda_sources[];

#endif
