#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "onnx_built.h"

#include "onnx_bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

onnx_built onnx_build_file(const char *path, const neap_onnx_options *options)
{
    onnx_built b = {0};
    b.status = neap_onnx_open(NULL, path, &b.file, &b.diag);
    if (b.status == NEAP_OK)
        b.status = neap_onnx_build(b.file, options, &b.graph, &b.binding, &b.diag);
    return b;
}

void onnx_clear(onnx_built *b)
{
    neap_graph_destroy(b->graph);
    neap_onnx_binding_destroy(b->binding);
    neap_onnx_close(b->file);
}

onnx_built onnx_build_graph(const char *folder, neap_text *graph, const neap_onnx_options *options)
{
    neap_text model = {0};
    onnx_make_model(&model, graph, 0);
    char *path = onnx_write(&model, folder, "model.onnx");
    onnx_built b = onnx_build_file(path, options);
    remove(path);
    free(path);
    return b;
}

void onnx_assert_built(const onnx_built *b)
{
    if (b->status != NEAP_OK)
        fail_msg("%s", b->diag.message);
}

void onnx_assert_refused(onnx_built *b, neap_status status, const char *words)
{
    if (b->status != status || !strstr(b->diag.message, words))
        fail_msg("%s: \"%s\", not \"%s\"", neap_status_name(b->status), b->diag.message, words);
    assert_null(b->graph);
    onnx_clear(b);
}
