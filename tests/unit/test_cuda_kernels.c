/*
 * The kernels compile for real devices, with the code that the backend uses: NVRTC needs no GPU for
 * that. And compiled code is kept in files.
 */
#include "run/backends/cuda/code.h"
#include "run_command.h"
#include "settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cuda_api api;

/* Also takes the NVRTC that tools/setup.sh unpacks. */
static void need_nvrtc(void)
{
    if (!api.handles[CUDA_LIBRARY_NVRTC])
        neap_cuda_api_load(&api);
    if (!api.handles[CUDA_LIBRARY_NVRTC] && access(NEAP_TEST_NVRTC, R_OK) == 0) {
        setenv("NEAP_NVRTC", NEAP_TEST_NVRTC, 1);
        neap_cuda_api_unload(&api);
        neap_cuda_api_load(&api);
    }
    if (!api.handles[CUDA_LIBRARY_NVRTC])
        skip_because(api.problems[CUDA_LIBRARY_NVRTC]);
}

/* ---- Every kernel ---- */

static bool contains(const cuda_code *code, const char *text, size_t length)
{
    for (size_t i = 0; i + length <= code->bytes; i++)
        if (memcmp(code->data + i, text, length) == 0)
            return true;
    return false;
}

/* The section of a cubin with the kernel's instructions. */
static bool has_kernel(const cuda_code *code, const char *name)
{
    char section[128];
    int length = snprintf(section, sizeof section, ".text.%s", name);
    return contains(code, section, (size_t)length + 1);
}

static void compile_file(const char *file, neap_dtype type, int architecture)
{
    cuda_code_request request = {file, type, architecture, false};
    cuda_code code;
    neap_diag diag;
    if (neap_cuda_code_get(&api, NULL, &request, &code, &diag) != NEAP_OK)
        fail_msg("%s for sm_%d: %s", file, architecture, diag.message);
    for (size_t k = 0; k < CUDA_N_KERNELS; k++)
        if (strcmp(neap_cuda_kernels[k].file, file) == 0 &&
            !has_kernel(&code, neap_cuda_kernels[k].name))
            fail_msg("%s.cu has no kernel %s", file, neap_cuda_kernels[k].name);
    neap_cuda_code_clear(NULL, &code);
}

static bool is_first_of_file(size_t kernel)
{
    for (size_t i = 0; i < kernel; i++)
        if (strcmp(neap_cuda_kernels[i].file, neap_cuda_kernels[kernel].file) == 0)
            return false;
    return true;
}

/* Compiling takes minutes: what was compiled from the same sources by the same NVRTC is kept in
   ~/.cache/neap-test, or where NEAP_TEST_CACHE says ("none": nowhere). */
static void use_test_cache(void)
{
    const char *given = getenv("NEAP_TEST_CACHE"), *home = getenv("HOME");
    char path[4200] = "none";
    if (given && *given)
        snprintf(path, sizeof path, "%s", given);
    else if (home && *home)
        snprintf(path, sizeof path, "%s/.cache/neap-test", home);
    setenv("NEAP_CACHE_DIR", path, 1);
}

/* What NVRTC makes of kernels does not depend on how the library was built: one build tries it. */
static void every_kernel_compiles_for(int architecture)
{
    if (ONE_IN(2) > 1)
        skip_because("kernels are compiled in the build that is not reduced");
    need_nvrtc();
    use_test_cache();
    for (size_t k = 0; k < CUDA_N_KERNELS; k++) {
        if (!is_first_of_file(k))
            continue;
        compile_file(neap_cuda_kernels[k].file, NEAP_F32, architecture);
        compile_file(neap_cuda_kernels[k].file, NEAP_BF16, architecture);
    }
}

static void every_kernel_compiles_for_sm_80(void **state)
{
    (void)state;
    every_kernel_compiles_for(80);
}

static void every_kernel_compiles_for_sm_90(void **state)
{
    (void)state;
    every_kernel_compiles_for(90);
}

static void every_kernel_compiles_for_sm_100(void **state)
{
    (void)state;
    every_kernel_compiles_for(100);
}

/* The driver compiles PTX for what NVRTC does not know. */
static void later_devices_get_ptx(void **state)
{
    (void)state;
    need_nvrtc();
    setenv("NEAP_CACHE_DIR", "none", 1);
    cuda_code_request request = {"delay", NEAP_F32, 990, true};
    cuda_code code;
    neap_diag diag;
    assert_int_equal(neap_cuda_code_get(&api, NULL, &request, &code, &diag), NEAP_OK);
    assert_true(contains(&code, ".entry delay", strlen(".entry delay")));
    assert_int_equal(code.data[code.bytes - 1], '\0');
    neap_cuda_code_clear(NULL, &code);
    request.architecture = 10;
    assert_int_equal(neap_cuda_code_get(&api, NULL, &request, &code, &diag), NEAP_UNSUPPORTED);
    assert_non_null(strstr(diag.message, "compute capability 1.0 is too old"));
}

/* ---- Files ---- */

/* The only file of the folder kernels/ in the cache, or NULL; the caller frees it. */
static char *only_file(const char *cache)
{
    char *folder = join_path(cache, "kernels"), *found = NULL;
    DIR *open = opendir(folder);
    for (struct dirent *entry = open ? readdir(open) : NULL; entry; entry = readdir(open))
        if (entry->d_name[0] != '.') {
            assert_null(found);
            found = join_path(folder, entry->d_name);
        }
    if (open)
        closedir(open);
    free(folder);
    return found;
}

static void change_byte(const char *path, long offset)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, offset, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, offset, SEEK_SET);
    fputc(byte ^ 1, file);
    fclose(file);
}

static bool gets_kept_code(const cuda_api *with)
{
    cuda_code_request request = {"delay", NEAP_F32, 90, false};
    cuda_code code;
    neap_diag diag;
    if (neap_cuda_code_get(with, NULL, &request, &code, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_true(has_kernel(&code, "delay"));
    bool kept = code.kept;
    neap_cuda_code_clear(NULL, &code);
    return kept;
}

static void compiled_code_is_kept(void **state)
{
    (void)state;
    need_nvrtc();
    char *cache = make_temporary_folder();
    setenv("NEAP_CACHE_DIR", cache, 1);
    assert_false(gets_kept_code(&api));
    assert_true(gets_kept_code(&api));

    cuda_api without = {.problems[CUDA_LIBRARY_NVRTC] = "no compiler"};
    assert_true(gets_kept_code(&without));

    char *file = only_file(cache);
    static const long DAMAGED[] = {0, 20, 200, 3000};
    for (size_t i = 0; i < sizeof DAMAGED / sizeof *DAMAGED; i++) {
        change_byte(file, DAMAGED[i]);
        assert_false(gets_kept_code(&api));
        assert_true(gets_kept_code(&api));
    }
    assert_int_equal(truncate(file, 100), 0);
    assert_false(gets_kept_code(&api));
    assert_int_equal(truncate(file, 0), 0);
    assert_false(gets_kept_code(&api));

    assert_int_equal(unlink(file), 0);
    cuda_code_request request = {"delay", NEAP_F32, 90, false};
    cuda_code code;
    neap_diag diag;
    assert_int_equal(neap_cuda_code_get(&without, NULL, &request, &code, &diag), NEAP_UNSUPPORTED);
    assert_non_null(strstr(diag.message, "no compiler"));

    char *folder = join_path(cache, "kernels");
    rmdir(folder);
    free(folder);
    free(file);
    remove_temporary_folder(cache);
}

static void a_folder_that_cannot_be_written_is_no_error(void **state)
{
    (void)state;
    need_nvrtc();
    setenv("NEAP_CACHE_DIR", "/dev/null/nowhere", 1);
    assert_false(gets_kept_code(&api));
    assert_false(gets_kept_code(&api));
}

static void unknown_sources_are_refused(void **state)
{
    (void)state;
    cuda_code_request request = {"abacus", NEAP_F32, 90, false};
    cuda_code code;
    neap_diag diag;
    assert_int_equal(neap_cuda_code_get(&api, NULL, &request, &code, &diag), NEAP_INTERNAL);
    assert_non_null(strstr(diag.message, "abacus.cu"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_compiles_for_sm_80),
        cmocka_unit_test(every_kernel_compiles_for_sm_90),
        cmocka_unit_test(every_kernel_compiles_for_sm_100),
        cmocka_unit_test(later_devices_get_ptx),
        cmocka_unit_test(compiled_code_is_kept),
        cmocka_unit_test(a_folder_that_cannot_be_written_is_no_error),
        cmocka_unit_test(unknown_sources_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
