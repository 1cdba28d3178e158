/*
 * Data sets and safetensors files when each allocation fails once, in turn, and then that one and
 * all later ones fail: a status, no leak, no change.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_allocator.h"
#include "picture_files.h"
#include "run_command.h"

#include <neap/data.h>
#include <neap/safetensors.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int make_folder(void **state)
{
    *state = make_temporary_folder();
    return 0;
}

static int remove_folder(void **state)
{
    remove_folder_tree(*state);
    return 0;
}

/* Does it with this allocator, and cleans up after itself. */
typedef neap_status operation(neap_allocator *allocator, const char *subject, neap_diag *diag);

static void torture(operation *run, const char *subject)
{
    static const size_t counts[] = {1, SIZE_MAX / 2};
    size_t allocations = 0;
    for (int c = 0; c < 2; c++)
        for (size_t i = 0;; i++) {
            failing_allocator allocator;
            neap_diag diag = {0};
            failing_allocator_init(&allocator);
            allocator.fail_from = i;
            allocator.fail_end = i + counts[c];
            neap_status status = run(&allocator.base, subject, &diag);
            if (allocator.fault || allocator.live_blocks)
                fail_msg("%s, allocation %zu: %s, %zu blocks leaked", subject, i,
                         allocator.fault ? allocator.fault : "", allocator.live_blocks);
            if (status != (allocator.failed ? NEAP_NO_MEMORY : NEAP_OK))
                fail_msg("%s, allocation %zu: %s, \"%s\"", subject, i, neap_status_name(status),
                         diag.message);
            if (status == NEAP_OK) {
                allocations = allocator.calls;
                break;
            }
            assert_int_equal(diag.status, NEAP_NO_MEMORY);
        }
    print_message("%s: %zu allocations\n", subject, allocations);
    assert_true(allocations > 0);
}

/* ---- Data sets ---- */

static neap_status use_dataset(neap_allocator *allocator, const char *spec, neap_diag *diag)
{
    const neap_dataset_shape wanted = {1, 3, 3, 10};
    neap_dataset *dataset;
    float images[7 * 9];
    int64_t labels[7];
    neap_status status = neap_dataset_open(allocator, spec, &wanted, &dataset, diag);
    assert_true((dataset != NULL) == (status == NEAP_OK));
    if (status == NEAP_OK)
        status = neap_dataset_batch(dataset, 1, 0, 7, images, labels, diag);
    neap_dataset_close(dataset);
    return status;
}

static void torture_folder(const char *kind, const char *folder)
{
    char *spec = malloc(strlen(kind) + strlen(folder) + 2);
    assert_non_null(spec);
    sprintf(spec, "%s:%s", kind, folder);
    torture(use_dataset, spec);
    free(spec);
}

static void test_synthetic(void **state)
{
    (void)state;
    torture(use_dataset, "synthetic");
}

static void test_mnist(void **state)
{
    write_mnist(*state, 5, 4, 4, 10);
    torture_folder("mnist", *state);
}

static void test_cifar10(void **state)
{
    write_cifar10(*state, 2);
    torture_folder("cifar10", *state);
}

static void test_images(void **state)
{
    write_image_folders(*state);
    torture_folder("images", *state);
}

/* ---- safetensors ---- */

static const int64_t shape[] = {1, 2};
static const float weights[] = {1, 2};
static const neap_safetensor tensors[] = {{"a\n", NEAP_F32, 2, shape, weights},
                                          {"b", NEAP_F32, 0, NULL, weights}};
static const neap_metadata note = {"k", "v"}, old_note = {"old", "yes"};

static int count_entries(const char *folder)
{
    int count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count - 2;
}

static neap_status write_tensors(neap_allocator *allocator, const char *path, neap_diag *diag)
{
    assert_int_equal(neap_safetensors_write(NULL, path, NULL, 0, &old_note, 1, NULL), NEAP_OK);
    neap_status status = neap_safetensors_write(allocator, path, tensors, 2, &note, 1, diag);
    neap_safetensors *file;
    assert_int_equal(neap_safetensors_open(NULL, path, &file, NULL), NEAP_OK);
    assert_int_equal(neap_safetensors_count(file), status == NEAP_OK ? 2 : 0);
    assert_true((neap_safetensors_metadata(file, "old") != NULL) == (status != NEAP_OK));
    neap_safetensors_close(file);
    return status;
}

static neap_status read_tensors(neap_allocator *allocator, const char *path, neap_diag *diag)
{
    neap_safetensors *file;
    neap_status status = neap_safetensors_open(allocator, path, &file, diag);
    assert_true((file != NULL) == (status == NEAP_OK));
    neap_safetensors_close(file);
    return status;
}

static void test_safetensors(void **state)
{
    char *path = join_path(*state, "f");
    torture(write_tensors, path);
    torture(read_tensors, path);
    assert_int_equal(count_entries(*state), 1);
    free(path);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_synthetic), IN_FOLDER(test_mnist),       IN_FOLDER(test_cifar10),
        IN_FOLDER(test_images),           IN_FOLDER(test_safetensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
