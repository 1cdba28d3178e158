/* Compiled kernels in files (code.h says where). */
#ifndef NEAP_CUDA_CODE_CACHE_H
#define NEAP_CUDA_CODE_CACHE_H

#include "run/backends/cuda/code.h"

#include <neap/text.h>

/* Appends the folder of all that is kept from one process to the next; false if there is none
   (NEAP_CACHE_DIR=none). */
bool neap_cuda_cache_folder(neap_text *path);

typedef struct cuda_code_key {
    char name[96];     /* file, type, architecture and hash; without NVRTC's version */
    uint64_t check;    /* a second hash of what the first one is of */
    char compiler[16]; /* NVRTC's version; "": any */
} cuda_code_key;

/* True if it was there and whole. Fails only for lack of memory. */
neap_status neap_cuda_code_read(neap_allocator *allocator, const cuda_code_key *key,
                                cuda_code *code, bool *found, neap_diag *diag);
/* What cannot be written is compiled again next time: that is no error. */
void neap_cuda_code_write(neap_allocator *allocator, const cuda_code_key *key,
                          const cuda_code *code);

#endif
