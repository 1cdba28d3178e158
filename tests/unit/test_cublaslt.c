/*
 * What neap copied from cuBLASLt's headers is what they say, where they are installed; the
 * functions it calls are there, where the library is. Nothing here needs a GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "settings.h"

#include "run/backends/cuda/cublaslt_constants.h"

#include <dlfcn.h>
#include <string.h>

#if defined __has_include
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define HAS_HEADERS 1
#endif
#endif

#ifdef HAS_HEADERS
#define X(name, value, theirs)                                                                     \
    _Static_assert((long long)(value) == (long long)(theirs), #theirs " is not " #value);
CUBLASLT_CONSTANTS(X)
#undef X
_Static_assert(sizeof(cublaslt_algo) == sizeof(cublasLtMatmulAlgo_t), "size of an algorithm");
_Static_assert(sizeof(cublaslt_result) == sizeof(cublasLtMatmulHeuristicResult_t),
               "size of a result");
#define SAME_PLACE(ours, theirs)                                                                   \
    _Static_assert(offsetof(cublaslt_result, ours) ==                                              \
                       offsetof(cublasLtMatmulHeuristicResult_t, theirs),                          \
                   "place of " #theirs)
SAME_PLACE(algo, algo);
SAME_PLACE(workspace, workspaceSize);
SAME_PLACE(state, state);
SAME_PLACE(waves, wavesCount);
SAME_PLACE(reserved, reserved);
_Static_assert(sizeof(cublasStatus_t) == sizeof(int) && sizeof(cudaDataType_t) == sizeof(int) &&
                   sizeof(cublasComputeType_t) == sizeof(int) &&
                   sizeof(cublasLtMatmulDescAttributes_t) == sizeof(int) &&
                   sizeof(cublasLtMatrixLayoutAttribute_t) == sizeof(int) &&
                   sizeof(cublasLtMatmulPreferenceAttributes_t) == sizeof(int) &&
                   sizeof(cublasLtMatmulAlgoConfigAttributes_t) == sizeof(int),
               "enumerations are passed as int");
#endif

static void test_headers(void **state)
{
    (void)state;
#ifndef HAS_HEADERS
    skip_because("cublasLt.h is not installed");
#endif
}

static void test_functions(void **state)
{
    (void)state;
    static const char *const files[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                        "/usr/local/cuda/lib64/libcublasLt.so"};
    static const char *const names[] = {
#define X(library, result, name, parameters) #library, #name,
#include "run/backends/cuda/api.def"
#undef X
    };
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof files / sizeof *files; i++)
        library = dlopen(files[i], RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE); /* it leaks */
    if (!library)
        skip_because("there is no cuBLASLt");
    for (size_t i = 0; i < sizeof names / sizeof *names; i += 2)
        if (strcmp(names[i], "CUBLASLT") == 0 && !dlsym(library, names[i + 1]))
            fail_msg("cuBLASLt has no function %s", names[i + 1]);
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
