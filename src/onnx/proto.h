/*
 * The contents of an ONNX file as plain structs. proto.c makes them with protobuf-c and is the only
 * file that knows it.
 */
#ifndef NEAP_ONNX_PROTO_H
#define NEAP_ONNX_PROTO_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

/* TensorProto.DataType; the types that neap computes with. */
typedef enum onnx_type {
    ONNX_UNDEFINED = 0,
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT8 = 3,
    ONNX_UINT16 = 4,
    ONNX_INT16 = 5,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_STRING = 8,
    ONNX_BOOL = 9,
    ONNX_FLOAT16 = 10,
    ONNX_DOUBLE = 11,
    ONNX_UINT32 = 12,
    ONNX_UINT64 = 13,
    ONNX_BFLOAT16 = 16
} onnx_type;

/* protobuf-c's version at run time; "" without it. */
const char *neap_onnx_protobuf_version(void);

/* Bytes of an element in raw data; 0 for types that neap does not read. */
int64_t neap_onnx_type_bytes(int32_t type);
/* "float", "int64"; "type 20" is not among them: "" then. */
const char *neap_onnx_type_name(int32_t type);
bool neap_onnx_type_is_float(int32_t type);

/* Where the elements of a tensor are. */
typedef enum onnx_form {
    FORM_NONE,     /* nowhere: it has none */
    FORM_RAW,      /* little-endian, in the file or in an external one */
    FORM_EXTERNAL, /* in another file, not yet mapped */
    FORM_FLOATS,
    FORM_INT32S, /* also of 8 and 16 bits, bools, f16 and bf16 as their bits */
    FORM_INT64S,
    FORM_DOUBLES,
    FORM_UINT64S
} onnx_form;

typedef struct onnx_tensor {
    const char *name;
    int32_t type; /* an onnx_type, or another number of the file */
    uint32_t rank;
    const int64_t *dims;
    int64_t elements; /* the product of dims */
    onnx_form form;
    const void *data;       /* not aligned where it is raw */
    uint64_t count;         /* bytes of raw data, else elements */
    const char *location;   /* of external data, relative to the model's folder */
    int64_t offset, length; /* there; a length of -1 is not given */
} onnx_tensor;

typedef enum onnx_attribute_kind {
    ATTRIBUTE_OTHER, /* a graph, a type: nothing that neap reads */
    ATTRIBUTE_FLOAT,
    ATTRIBUTE_INT,
    ATTRIBUTE_STRING,
    ATTRIBUTE_TENSOR,
    ATTRIBUTE_FLOATS,
    ATTRIBUTE_INTS,
    ATTRIBUTE_STRINGS
} onnx_attribute_kind;

typedef struct onnx_attribute {
    const char *name;
    const char *ref; /* in a function: it is the call's of this name; NULL: it is its own */
    onnx_attribute_kind kind;
    float real;
    int64_t integer;
    const char *string;
    const onnx_tensor *tensor;
    const float *reals;
    const int64_t *integers;
    const char *const *strings;
    size_t count; /* of reals, integers or strings */
} onnx_attribute;

typedef struct onnx_proto_node onnx_proto_node;
struct onnx_proto_node {
    const char *name, *type, *domain, *overload; /* never NULL */
    const char *const *inputs, *const *outputs;
    size_t n_inputs, n_outputs;
    const onnx_attribute *attributes;
    size_t n_attributes;
    const onnx_proto_node *call; /* of the function that it was in; NULL: it is the graph's own */
};

/* Nodes that a file gives a name, which other nodes call. */
typedef struct onnx_function {
    const char *name, *domain, *overload; /* never NULL */
    int64_t opset;                        /* of the default domain; 0: it imports none */
    const char *const *inputs, *const *outputs;
    size_t n_inputs, n_outputs;
    const onnx_proto_node *nodes;
    size_t n_nodes;
    const onnx_attribute *defaults; /* of attributes that calls may leave out */
    size_t n_defaults;
} onnx_function;

/* A dimension of an input: a number, a name, or neither. */
typedef struct onnx_dim {
    int64_t value;    /* -1: open */
    const char *name; /* NULL: it has none */
} onnx_dim;

typedef struct onnx_port {
    const char *name;
    bool is_tensor, has_shape;
    int32_t type;
    uint32_t rank;
    const onnx_dim *dims;
} onnx_port;

typedef struct onnx_proto {
    int64_t ir_version, opset; /* of the default domain */
    const char *name, *producer;
    const onnx_proto_node *nodes;
    const onnx_tensor *initializers;
    const onnx_port *inputs, *outputs;
    size_t n_nodes, n_initializers, n_inputs, n_outputs;
    size_t n_constant_weights; /* the last initializers: in the file, they are Constant nodes */
    const onnx_function *functions;
    size_t n_functions;
} onnx_proto;

/*
 * Unpacks a digest (wire.h) of `file`. Everything lives in the arena and in `file`. NEAP_INVALID,
 * with the tensor's name, for a size that is negative or overflows, or data of another length than
 * the shape says; for a file without a graph; for an opset that neap does not read.
 */
neap_status neap_onnx_proto_read(neap_arena *arena, const char *source, const uint8_t *digest,
                                 size_t length, const uint8_t *file, size_t file_length,
                                 onnx_proto *proto, neap_diag *diag);

#endif
