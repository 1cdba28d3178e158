/* The element types of tensors. */
#include "onnx/proto.h"

#include <stddef.h>

static const struct type_row {
    int32_t type;
    const char *name;
    int64_t bytes;
    bool is_float;
} types[] = {
    {ONNX_FLOAT, "float", 4, true},       {ONNX_UINT8, "uint8", 1, false},
    {ONNX_INT8, "int8", 1, false},        {ONNX_UINT16, "uint16", 2, false},
    {ONNX_INT16, "int16", 2, false},      {ONNX_INT32, "int32", 4, false},
    {ONNX_INT64, "int64", 8, false},      {ONNX_BOOL, "bool", 1, false},
    {ONNX_FLOAT16, "float16", 2, true},   {ONNX_DOUBLE, "double", 8, true},
    {ONNX_UINT32, "uint32", 4, false},    {ONNX_UINT64, "uint64", 8, false},
    {ONNX_BFLOAT16, "bfloat16", 2, true},
};

static const struct type_row *find_type(int32_t type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type)
            return &types[i];
    return NULL;
}

int64_t neap_onnx_type_bytes(int32_t type)
{
    const struct type_row *row = find_type(type);
    return row ? row->bytes : 0;
}

const char *neap_onnx_type_name(int32_t type)
{
    const struct type_row *row = find_type(type);
    return row ? row->name : "";
}

bool neap_onnx_type_is_float(int32_t type)
{
    const struct type_row *row = find_type(type);
    return row && row->is_float;
}
