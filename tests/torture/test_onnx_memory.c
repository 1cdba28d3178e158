/* ONNX files when each allocation fails once: opening, building, filling and writing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "onnx_bytes.h"
#include "run_command.h"
#include "settings.h"
#include "torture.h"

#include <neap/onnx.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct subject {
    const char *path, *copy;
} subject;

static neap_status read_zeros(neap_onnx_weights *self, const char *name, float *numbers,
                              int64_t count, neap_diag *diag)
{
    (void)self;
    (void)name;
    (void)diag;
    memset(numbers, 0, (size_t)count * sizeof *numbers);
    return NEAP_OK;
}

static neap_status use_file(const void *context, neap_allocator *allocator, neap_diag *diag)
{
    const subject *s = context;
    neap_onnx *file;
    neap_graph *graph = NULL;
    neap_onnx_binding *binding = NULL;
    neap_onnx_weights weights = {read_zeros};
    neap_onnx_options options;
    neap_onnx_options_init(&options);
    options.training.optimizer = NEAP_OPTIMIZER_SGD;
    options.batch = 2;
    remove(s->copy);
    neap_status status = neap_onnx_open(allocator, s->path, &file, diag);
    assert_true((file != NULL) == (status == NEAP_OK));
    if (status == NEAP_OK)
        status = neap_onnx_build(file, &options, &graph, &binding, diag);
    if (status == NEAP_OK)
        status = neap_onnx_write(binding, s->copy, &weights, diag);
    neap_graph_destroy(graph);
    neap_onnx_binding_destroy(binding);
    neap_onnx_close(file);
    return status;
}

static void whole_files(void **state)
{
    (void)state;
    char *folder = make_temporary_folder(), *copy = join_path(folder, "copy.onnx");
    static void (*const graphs[])(neap_text *) = {onnx_small_graph, onnx_large_graph,
                                                  onnx_normed_graph, onnx_called_graph};
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        neap_text graph = {0}, model = {0};
        graphs[i](&graph);
        onnx_make_model(&model, &graph, 0);
        onnx_add_called(&model);
        char *path = onnx_write(&model, folder, "model.onnx");
        subject s = {path, copy};
        print_message("%zu allocations\n", torture_memory(use_file, &s, ONE_IN(4) * 50));
        remove(path);
        free(path);
    }
    remove(copy);
    free(copy);
    remove_temporary_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_files)};
    if (!neap_onnx_available())
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
