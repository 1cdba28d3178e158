/* Lists of cuDNN's algorithms in files: they come back as they were, or not at all. */
#include "run/backends/cuda/cudnn_conv.h"
#include "run_command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *folder;

static cuda_libraries libraries;
static cuda_backend backend = {.base = {.machine = "a GPU, cuDNN 9"}, .libraries = &libraries};
static char sign[] = "conv2d f32[2,3,4,5] -> f32[2,3,4,5]";

static int set_up(void **state)
{
    (void)state;
    folder = make_temporary_folder();
    libraries.allocator = neap_allocator_system();
    return setenv("NEAP_CACHE_DIR", folder, 1);
}

static int tear_down(void **state)
{
    (void)state;
    char command[4200];
    snprintf(command, sizeof command, "rm -rf '%s'/convolutions", folder);
    assert_int_equal(system(command), 0);
    remove_temporary_folder(folder);
    return 0;
}

static cudnn_engine engine_of(int64_t index)
{
    cudnn_engine engine = {.index = index, .n_knobs = index % 4, .notes = 5, .behaviour = 2};
    for (int i = 0; i < (int)engine.n_knobs; i++) {
        engine.knob_types[i] = i + 3;
        engine.knob_values[i] = INT64_C(-7) * i;
    }
    return engine;
}

/* Three algorithms, one in parts whose first is another engine's. */
static void fill(cudnn_conv_list *list, cudnn_candidate items[3])
{
    static const char origins[] = "ABE";
    for (int i = 0; i < 3; i++)
        items[i] = (cudnn_candidate){.engine = engine_of(30 + i),
                                     .first = engine_of(30 + 2 * i),
                                     .workspace = INT64_C(5000000000) * i,
                                     .parts = i + 1,
                                     .fused = i == 1,
                                     .origin = origins[i],
                                     .build_seconds = -1};
    *list = (cudnn_conv_list){.sign = sign, .items = items, .count = 3};
    neap_cudnn_bag_init(&list->bag, &libraries);
}

static bool read_list(cudnn_conv_list *list)
{
    bool found = false;
    *list = (cudnn_conv_list){.sign = sign};
    neap_cudnn_bag_init(&list->bag, &libraries);
    assert_int_equal(neap_cudnn_list_read(&backend, list, &found, NULL), NEAP_OK);
    return found;
}

static void clear(cudnn_conv_list *list)
{
    neap_allocator *allocator = libraries.allocator;
    allocator->resize(allocator, list->items, list->capacity * sizeof *list->items, 0);
}

/* The only file of the folder. */
static char *path_of_file(void)
{
    char name[4200];
    snprintf(name, sizeof name, "%s/convolutions", folder);
    DIR *dir = opendir(name);
    assert_non_null(dir);
    struct dirent *entry;
    char *path = NULL;
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.') {
            assert_null(path);
            path = join_path(name, entry->d_name);
        }
    closedir(dir);
    assert_non_null(path);
    return path;
}

/* Field by field: the bytes between fields are anything. */
static void assert_same_engine(const cudnn_engine *a, const cudnn_engine *b)
{
    assert_int_equal(a->index, b->index);
    assert_int_equal(a->notes, b->notes);
    assert_int_equal(a->behaviour, b->behaviour);
    assert_int_equal(a->n_knobs, b->n_knobs);
    for (int i = 0; i < (int)a->n_knobs; i++) {
        assert_int_equal(a->knob_types[i], b->knob_types[i]);
        assert_int_equal(a->knob_values[i], b->knob_values[i]);
    }
}

static void assert_same_candidate(const cudnn_candidate *a, const cudnn_candidate *b)
{
    assert_same_engine(&a->engine, &b->engine);
    assert_same_engine(&a->first, &b->first);
    assert_int_equal(a->workspace, b->workspace);
    assert_int_equal(a->parts, b->parts);
    assert_int_equal(a->fused, b->fused);
    assert_int_equal(a->origin, b->origin);
    assert_true(a->build_seconds < 0 && b->build_seconds < 0);
    assert_null(a->plan);
    assert_null(a->next_plan);
}

static void comes_back(void **state)
{
    (void)state;
    cudnn_conv_list list, again;
    cudnn_candidate items[3];
    assert_false(read_list(&again));
    fill(&list, items);
    neap_cudnn_list_write(&backend, &list);
    assert_true(read_list(&again));
    assert_int_equal(again.count, 3);
    for (int i = 0; i < 3; i++)
        assert_same_candidate(&again.items[i], &items[i]);
    clear(&again);
}

static void is_of_one_machine_and_problem(void **state)
{
    (void)state;
    cudnn_conv_list list, again;
    cudnn_candidate items[3];
    fill(&list, items);
    neap_cudnn_list_write(&backend, &list);
    backend.base.machine[0] = 'A';
    assert_false(read_list(&again));
    backend.base.machine[0] = 'a';
    sign[3] = 'w';
    assert_false(read_list(&again));
    sign[3] = 'v';
    assert_true(read_list(&again));
    clear(&again);
}

/* Damaged anywhere, or cut off anywhere, it counts as not there. */
static void damage_shows(void **state)
{
    (void)state;
    cudnn_conv_list list, again;
    cudnn_candidate items[3];
    fill(&list, items);
    neap_cudnn_list_write(&backend, &list);
    char *path = path_of_file(), *text = read_text_file(path);
    size_t length = strlen(text);
    char *changed = malloc(length + 1);
    assert_non_null(changed);
    for (size_t i = 0; i < length; i++) {
        memcpy(changed, text, length + 1);
        changed[i] = text[i] == '7' ? '8' : '7';
        write_text_file(path, changed);
        assert_false(read_list(&again));
        clear(&again);
        changed[i] = '\0';
        write_text_file(path, changed);
        assert_false(read_list(&again));
        clear(&again);
    }
    free(changed);
    free(text);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(is_of_one_machine_and_problem, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_shows, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
