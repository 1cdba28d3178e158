#include "fake_device.h"

#include "run/backends/cuda/emulation/emulation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static cuda_platform *emulation;

static size_t params_bytes(const char *kernel, int bf16)
{
    const emulated_kernel *k = bf16 ? neap_emulated_kernels_bf16 : neap_emulated_kernels_f32;
    while (k->name && strcmp(k->name, kernel) != 0)
        k++;
    return (size_t)k->bytes;
}

static int launch(const fake_cuda_launch *l)
{
    const cuda_function *function;
    neap_diag diag = {0};
    cuda_dims dims = {l->blocks[0], l->blocks[1], l->blocks[2], l->threads, l->shared};
    if (emulation->type->find(emulation, l->kernel, l->bf16 ? NEAP_BF16 : NEAP_F32, &function,
                              &diag) == NEAP_OK &&
        emulation->type->launch(emulation, function, &dims, l->params,
                                params_bytes(l->kernel, l->bf16), &diag) == NEAP_OK)
        return 0;
    print_message("the fake device: %s\n", diag.message);
    return 719; /* CUDA_ERROR_LAUNCH_FAILED */
}

static void close_emulation(void)
{
    emulation->type->close(emulation);
}

/* A function of the library, whose pointer is copied to *function. */
static void find(const char *name, void *function)
{
    static void *library;
    if (!library)
        library = dlopen(NEAP_BINARY_DIR "/tests/fakes/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *address = library ? dlsym(library, name) : NULL;
    if (!address)
        fail_msg("%s", dlerror());
    memcpy(function, &address, sizeof address);
}

void use_fake_device(uint64_t seed)
{
    void (*set_hooks)(const fake_cuda_hooks *hooks, uint64_t seed);
    setenv("NEAP_CUDA_PATH", NEAP_BINARY_DIR "/tests/fakes", 1);
    setenv("NEAP_CACHE_DIR", "none", 1);
    unsetenv("NEAP_NVRTC");
    if (!emulation) {
        assert_int_equal(neap_cuda_emulation_open(NULL, &emulation, NULL), NEAP_OK);
        atexit(close_emulation);
    }
    find("neap_fake_cuda_set_hooks", &set_hooks);
    set_hooks(&(fake_cuda_hooks){params_bytes, launch}, seed);
}

void fake_device_usage(fake_cuda_usage *usage)
{
    void (*get)(fake_cuda_usage * usage);
    find("neap_fake_cuda_usage", &get);
    get(usage);
}

void fake_device_fail_later(const char *function, int error, int skips)
{
    void (*set)(const char *function, int error, int skips);
    find("neap_fake_cuda_fail", &set);
    set(function, error, skips);
}

void fake_device_fail(const char *function, int error)
{
    fake_device_fail_later(function, error, 0);
}
