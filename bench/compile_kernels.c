/*
 * Compiles the kernels of backend cuda for a GPU that need not be there: compile_kernels 90 is for
 * compute capability 9.0. They go where the backend keeps compiled kernels (NEAP_CACHE_DIR).
 */
#include "run/backends/cuda/code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    static cuda_api api;
    static const neap_dtype TYPES[] = {NEAP_F32, NEAP_BF16};
    const char *last = "";
    int architecture = argc == 2 ? (int)strtol(argv[1], NULL, 10) : 0;
    if (architecture <= 0) {
        fprintf(stderr, "usage: compile_kernels ARCHITECTURE, such as 90\n");
        return 2;
    }
    neap_cuda_api_load(&api);
    for (size_t k = 0; k < CUDA_N_KERNELS; k++) {
        const char *file = neap_cuda_kernels[k].file;
        for (int t = 0; t < 2 && strcmp(file, last) != 0; t++) {
            cuda_code_request request = {file, TYPES[t], architecture, false};
            cuda_code code;
            neap_diag diag;
            if (neap_cuda_code_get(&api, NULL, &request, &code, &diag) != NEAP_OK) {
                fprintf(stderr, "compile_kernels: %s: %s\n", file, diag.message);
                return 1;
            }
            neap_cuda_code_clear(NULL, &code);
        }
        last = file;
    }
    neap_cuda_api_unload(&api);
    return 0;
}
