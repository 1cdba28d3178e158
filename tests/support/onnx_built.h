/* onnx_built.h - graphs built from ONNX files that tests write. */
#ifndef NEAP_TEST_ONNX_BUILT_H
#define NEAP_TEST_ONNX_BUILT_H

#include <neap/onnx.h>
#include <neap/text.h>

typedef struct onnx_built {
    neap_onnx *file;
    neap_graph *graph;
    neap_onnx_binding *binding;
    neap_status status;
    neap_diag diag;
} onnx_built;

/* `status` and `diag` say how it went. */
onnx_built onnx_build_file(const char *path, const neap_onnx_options *options);
/* Builds a graph, which is cleared, in a file of its own. */
onnx_built onnx_build_graph(const char *folder, neap_text *graph, const neap_onnx_options *options);
void onnx_clear(onnx_built *b);

void onnx_assert_built(const onnx_built *b);
/* Clears it, too. */
void onnx_assert_refused(onnx_built *b, neap_status status, const char *words);

#endif
