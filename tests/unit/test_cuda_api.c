/* Loading NVIDIA's libraries where there are none, or others. */
#include "run/backends/cuda/api.h"
#include "run/backends/cuda/driver.h"
#include "run_command.h"
#include "settings.h"

#include <neap/run.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the message of each library must say. */
static const char *const FILES[CUDA_LIBRARY_COUNT] = {
    "libcuda.so.1", "libnvrtc.so.13", "libcudnn.so.9", "libcublasLt.so.13", "libnvidia-ml.so.1"};
static const char *const REMEDIES[CUDA_LIBRARY_COUNT] = {
    "install NVIDIA's driver", "pip install nvidia-cuda-nvrtc", "pip install nvidia-cudnn-cu13",
    "pip install nvidia-cublas", "it comes with NVIDIA's driver"};

static void expect_nothing(const char *path)
{
    cuda_api api;
    neap_diag diag;
    char version[16];
    setenv("NEAP_CUDA_PATH", path, 1);
    neap_cuda_api_load(&api);
    for (int i = 0; i < CUDA_LIBRARY_COUNT; i++) {
        cuda_library library = (cuda_library)i;
        assert_null(api.handles[i]);
        assert_string_equal(api.files[i], "");
        assert_string_equal(neap_cuda_library_version(&api, library, version, sizeof version), "");
        assert_int_equal(neap_cuda_api_need(&api, library, &diag), NEAP_UNSUPPORTED);
        assert_non_null(strstr(diag.message, neap_cuda_library_name(library)));
        assert_non_null(strstr(diag.message, FILES[i]));
        assert_non_null(strstr(diag.message, REMEDIES[i]));
        assert_true(strlen(api.problems[i]) < sizeof api.problems[i] - 1); /* not cut off */
    }
    assert_null((void *)(uintptr_t)api.cuInit);
    neap_cuda_api_unload(&api);
}

static void nothing_is_there(void **state)
{
    (void)state;
    char *folder = make_temporary_folder();
    unsetenv("NEAP_NVRTC");
    expect_nothing("none");
    expect_nothing(folder);
    expect_nothing(":/dev/null::/nowhere:");
    remove_temporary_folder(folder);
}

/* A file of the right name that is no library, and one that is another library. */
static void wrong_files_are_named(void **state)
{
    (void)state;
    char *folder = make_temporary_folder(), *text = join_path(folder, "libcudnn.so.9"),
         *other = join_path(folder, "libcublasLt.so.12");
    write_text_file(text, "no library");
    cuda_api api;
    setenv("NEAP_CUDA_PATH", folder, 1);
    unsetenv("NEAP_NVRTC");
    bool linked = false;
    static const char *const LIBRARIES[] = {"/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6",
                                            "/lib/aarch64-linux-gnu/libm.so.6"};
    for (size_t i = 0; i < sizeof LIBRARIES / sizeof *LIBRARIES && !linked; i++)
        linked = access(LIBRARIES[i], R_OK) == 0 && symlink(LIBRARIES[i], other) == 0;
    neap_cuda_api_load(&api);
    assert_null(api.handles[CUDA_LIBRARY_CUDNN]);
    assert_non_null(strstr(api.problems[CUDA_LIBRARY_CUDNN], "libcudnn.so.9"));
    assert_null(strstr(api.problems[CUDA_LIBRARY_CUDNN], "there is no"));
    assert_null(api.handles[CUDA_LIBRARY_CUBLASLT]);
    if (linked) {
        assert_non_null(strstr(api.problems[CUDA_LIBRARY_CUBLASLT], "lacks cublasLt"));
        assert_non_null(strstr(api.problems[CUDA_LIBRARY_CUBLASLT], "too old"));
    }
    neap_cuda_api_unload(&api);
    unlink(other);
    free(other);
    free(text);
    remove_temporary_folder(folder);
}

static void the_backend_says_what_is_missing(void **state)
{
    (void)state;
    neap_backend *backend = NULL;
    neap_diag diag;
    setenv("NEAP_CUDA_PATH", "none", 1);
    assert_int_equal(neap_backend_open(NULL, "cuda", 1, &backend, &diag), NEAP_UNSUPPORTED);
    assert_non_null(strstr(diag.message, "libcuda.so.1"));
    assert_non_null(strstr(diag.message, "install NVIDIA's driver"));
    assert_null(backend);
}

static void descriptions_say_what_is_missing(void **state)
{
    (void)state;
    neap_cuda_machine machine;
    neap_gpu gpu;
    neap_diag diag;
    setenv("NEAP_CUDA_PATH", "none", 1);
    neap_cuda_describe(&machine);
    assert_int_equal(machine.gpus, 0);
    assert_non_null(strstr(machine.problem, "libcuda.so.1"));
    for (int i = 0; i < NEAP_CUDA_LIBRARIES; i++) {
        assert_string_equal(machine.libraries[i].name, neap_cuda_library_name((cuda_library)i));
        assert_string_equal(machine.libraries[i].file, "");
        assert_non_null(strstr(machine.libraries[i].problem, REMEDIES[i]));
    }
    assert_int_equal(neap_cuda_describe_gpu(0, &gpu, &diag), NEAP_UNSUPPORTED);
}

/* Where libraries are, they have a version and a place. */
static void what_is_there_has_a_version(void **state)
{
    (void)state;
    cuda_api api;
    char version[16];
    bool any = false;
    unsetenv("NEAP_CUDA_PATH");
    neap_cuda_api_load(&api);
    for (int i = 0; i < CUDA_LIBRARY_COUNT; i++) {
        if (!api.handles[i])
            continue;
        neap_cuda_library_version(&api, (cuda_library)i, version, sizeof version);
        print_message("%s %s: %s\n", neap_cuda_library_name((cuda_library)i), version,
                      api.files[i]);
        assert_true(version[0] >= '1' && version[0] <= '9' && strchr(version, '.'));
        assert_non_null(strstr(api.files[i], "lib"));
        assert_string_equal(api.problems[i], "");
        any = true;
    }
    neap_cuda_api_unload(&api);
    if (!any)
        skip_because("none of NVIDIA's libraries is here");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_there),
        cmocka_unit_test(wrong_files_are_named),
        cmocka_unit_test(the_backend_says_what_is_missing),
        cmocka_unit_test(descriptions_say_what_is_missing),
        cmocka_unit_test(what_is_there_has_a_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
