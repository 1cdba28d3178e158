/* The internals of neap_onnx: a mapped file and what was unpacked of it. */
#ifndef NEAP_ONNX_FILE_H
#define NEAP_ONNX_FILE_H

#include "base/arena.h"
#include "onnx/proto.h"

#include <neap/onnx.h>

typedef struct onnx_mapping onnx_mapping;

struct neap_onnx {
    neap_allocator *allocator;
    neap_arena arena;
    char *path;
    onnx_mapping *model;    /* the file itself */
    onnx_mapping *external; /* a list */
    onnx_proto proto;
    const char **open_sizes; /* names of sizes that have no default, each once */
    size_t n_open_sizes;
    bool *is_external; /* of each initializer; all are mapped: FORM_RAW */
};

/* The bytes of the file itself. */
const uint8_t *neap_onnx_file_bytes(const neap_onnx *file, size_t *length);

/* Constant nodes that hold the weights of a file without any become its initializers. */
neap_status neap_onnx_take_constant_weights(neap_arena *arena, onnx_proto *proto, neap_diag *diag);

/* Fills in open_sizes. */
neap_status neap_onnx_find_open_sizes(neap_onnx *file, neap_diag *diag);

#endif
