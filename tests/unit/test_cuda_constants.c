/*
 * What neap believes of NVIDIA's libraries, compared with their headers and files: constants of
 * cuDNN, and that every function of api.def is there. Skipped where they are not installed.
 */
#include "settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifdef __has_include
#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>
#define HAS_CUDNN_HEADER 1
#endif
#endif
#ifndef HAS_CUDNN_HEADER
#define HAS_CUDNN_HEADER 0
#endif

static void constants_are_those_of_the_header(void **state)
{
    (void)state;
#if HAS_CUDNN_HEADER
#define X(name, value) assert_int_equal(name, value);
#include "run/backends/cuda/cudnn_constants.def"
#undef X
#else
    skip_because("cuDNN's headers are not installed");
#endif
}

/* The library's file, from the system or from CUDA's usual folder; NULL: not installed. */
static void *open_library(const char *file)
{
    char path[256];
    void *handle = dlopen(file, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE); /* it leaks */
    if (handle)
        return handle;
    snprintf(path, sizeof path, "/usr/local/cuda/lib64/%s", file);
    return dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
}

static void expect_symbol(void *handle, const char *library, const char *wanted, const char *name)
{
    if (strcmp(library, wanted) == 0 && !dlsym(handle, name))
        fail_msg("%s has no function %s", library, name);
}

static void expect_symbols(const char *library, const char *file)
{
    void *handle = open_library(file);
    if (!handle) {
        char reason[64];
        snprintf(reason, sizeof reason, "there is no %s", file);
        skip_because(reason);
    }
#define X(library_of, result, name, parameters) expect_symbol(handle, #library_of, library, #name);
#include "run/backends/cuda/api.def"
#undef X
    dlclose(handle);
}

static void cudnn_has_all_functions(void **state)
{
    (void)state;
    expect_symbols("CUDNN", "libcudnn.so.9");
}

static void cublaslt_has_all_functions(void **state)
{
    (void)state;
    expect_symbols("CUBLASLT", "libcublasLt.so.13");
}

static void nvrtc_has_all_functions(void **state)
{
    (void)state;
    expect_symbols("NVRTC", "libnvrtc.so.13");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_are_those_of_the_header),
        cmocka_unit_test(cudnn_has_all_functions),
        cmocka_unit_test(cublaslt_has_all_functions),
        cmocka_unit_test(nvrtc_has_all_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
