/*
 * From a digest to plain structs, by protobuf-c. The unpacked messages live in the caller's arena:
 * protobuf-c's own releases do nothing, and a failed unpacking leaks nothing.
 */
#include "onnx/proto.h"

#include "base/checked.h"
#include "base/fail.h"
#include "onnx/wire.h"

#include <neap/network.h>

#include <onnx.pb-c.h>

#include <stdlib.h>
#include <string.h>

const char *neap_onnx_protobuf_version(void)
{
    return protobuf_c_version();
}

/* ---- Memory ---- */

typedef struct arena_use {
    neap_arena *arena;
    bool exhausted;
} arena_use;

static void *take(void *data, size_t size)
{
    arena_use *use = data;
    void *block = neap_arena_alloc(use->arena, size, 1);
    use->exhausted = use->exhausted || !block;
    return block;
}

static void leave(void *data, void *block)
{
    (void)data;
    (void)block;
}

/* ---- The parts ---- */

typedef struct reader {
    neap_arena *arena;
    const char *source;
    const uint8_t *file;
    size_t file_length;
    neap_diag *diag;
} reader;

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* The texts of external_data. */
static void read_place(const NeapOnnx__TensorProto *t, onnx_tensor *tensor)
{
    tensor->form = FORM_EXTERNAL;
    tensor->length = -1;
    for (size_t i = 0; i < t->n_external_data; i++) {
        const char *key = or_empty(t->external_data[i]->key);
        const char *value = or_empty(t->external_data[i]->value);
        if (strcmp(key, "location") == 0)
            tensor->location = value;
        else if (strcmp(key, "offset") == 0)
            tensor->offset = strtoll(value, NULL, 10);
        else if (strcmp(key, "length") == 0)
            tensor->length = strtoll(value, NULL, 10);
    }
}

static void set_form(onnx_tensor *tensor, onnx_form form, const void *data, size_t count)
{
    tensor->form = form;
    tensor->data = data;
    tensor->count = count;
}

static neap_status find_elements(const reader *r, const NeapOnnx__TensorProto *t,
                                 onnx_tensor *tensor)
{
    bool external = t->has_data_location &&
                    t->data_location == NEAP_ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    wire_place place;
    if (external) {
        read_place(t, tensor);
    } else if (t->has_raw_data) {
        if (t->raw_data.len != sizeof place)
            return neap_fail(r->diag, NEAP_INTERNAL, "%s: a digest without its places", r->source);
        memcpy(&place, t->raw_data.data, sizeof place);
        set_form(tensor, FORM_RAW, r->file + place.offset, (size_t)place.length);
    } else if (t->n_float_data > 0) {
        set_form(tensor, FORM_FLOATS, t->float_data, t->n_float_data);
    } else if (t->n_int64_data > 0) {
        set_form(tensor, FORM_INT64S, t->int64_data, t->n_int64_data);
    } else if (t->n_int32_data > 0) {
        set_form(tensor, FORM_INT32S, t->int32_data, t->n_int32_data);
    } else if (t->n_double_data > 0) {
        set_form(tensor, FORM_DOUBLES, t->double_data, t->n_double_data);
    } else if (t->n_uint64_data > 0) {
        set_form(tensor, FORM_UINT64S, t->uint64_data, t->n_uint64_data);
    }
    return NEAP_OK;
}

/* Whether a list of this form may hold elements of this type. */
static bool form_fits(onnx_form form, int32_t type)
{
    switch (form) {
    case FORM_FLOATS:
        return type == ONNX_FLOAT;
    case FORM_DOUBLES:
        return type == ONNX_DOUBLE;
    case FORM_INT64S:
        return type == ONNX_INT64;
    case FORM_UINT64S:
        return type == ONNX_UINT64 || type == ONNX_UINT32;
    case FORM_INT32S:
        return type != ONNX_FLOAT && type != ONNX_DOUBLE && type != ONNX_INT64 &&
               type != ONNX_UINT64 && type != ONNX_UINT32;
    default:
        return true;
    }
}

static neap_status check_elements(const reader *r, const onnx_tensor *tensor)
{
    int64_t width = neap_onnx_type_bytes(tensor->type), bytes;
    if (width == 0)
        return NEAP_OK; /* an error only for who reads it */
    if (!neap_mul_i64(tensor->elements, width, &bytes))
        return neap_fail(r->diag, NEAP_INVALID, "%s: tensor \"%s\": its size overflows 63 bits",
                         r->source, tensor->name);
    if (!form_fits(tensor->form, tensor->type))
        return neap_fail(r->diag, NEAP_INVALID,
                         "%s: tensor \"%s\" of type %s has its elements in a list of another type",
                         r->source, tensor->name, neap_onnx_type_name(tensor->type));
    bool counted = tensor->form == FORM_NONE || tensor->form == FORM_EXTERNAL;
    int64_t wanted = tensor->form == FORM_RAW ? bytes : tensor->elements;
    if (tensor->form == FORM_NONE && tensor->elements > 0)
        return neap_fail(r->diag, NEAP_INVALID, "%s: tensor \"%s\" has a shape but no data",
                         r->source, tensor->name);
    if (!counted && tensor->count != (uint64_t)wanted)
        return neap_fail(r->diag, NEAP_INVALID,
                         "%s: tensor \"%s\" has %llu %s, its shape needs %lld; the file is damaged",
                         r->source, tensor->name, (unsigned long long)tensor->count,
                         tensor->form == FORM_RAW ? "bytes" : "elements", (long long)wanted);
    return NEAP_OK;
}

static neap_status read_tensor(const reader *r, const NeapOnnx__TensorProto *t, const char *owner,
                               onnx_tensor *tensor)
{
    *tensor = (onnx_tensor){.name = t->name && *t->name ? t->name : owner,
                            .type = t->data_type,
                            .dims = t->dims,
                            .elements = 1};
    if (t->n_dims > NEAP_MAX_RANK)
        return neap_fail(r->diag, NEAP_INVALID,
                         "%s: tensor \"%s\" has %zu dimensions; neap takes up to %d", r->source,
                         tensor->name, t->n_dims, NEAP_MAX_RANK);
    tensor->rank = (uint32_t)t->n_dims;
    for (size_t d = 0; d < t->n_dims; d++)
        if (!neap_mul_i64(tensor->elements, t->dims[d], &tensor->elements))
            return neap_fail(r->diag, NEAP_INVALID,
                             "%s: tensor \"%s\": dimension %zu, %lld, is negative or too large",
                             r->source, tensor->name, d, (long long)t->dims[d]);
    NEAP_TRY(find_elements(r, t, tensor));
    return check_elements(r, tensor);
}

static neap_status read_strings(const reader *r, const NeapOnnx__AttributeProto *a,
                                onnx_attribute *attribute)
{
    const char **strings;
    if (!NEAP_TAKE(r->arena, a->n_strings, strings))
        return neap_fail_no_memory(r->diag);
    for (size_t i = 0; i < a->n_strings; i++) {
        strings[i] = neap_arena_text(r->arena, (const char *)a->strings[i].data, a->strings[i].len);
        if (!strings[i])
            return neap_fail_no_memory(r->diag);
    }
    attribute->strings = strings;
    return NEAP_OK;
}

static neap_status read_attribute(const reader *r, const NeapOnnx__AttributeProto *a,
                                  const char *owner, onnx_attribute *attribute)
{
    *attribute = (onnx_attribute){.name = or_empty(a->name)};
    if (a->ref_attr_name && *a->ref_attr_name)
        attribute->ref = a->ref_attr_name;
    if (a->t) {
        onnx_tensor *tensor;
        if (!NEAP_TAKE(r->arena, 1, tensor))
            return neap_fail_no_memory(r->diag);
        attribute->kind = ATTRIBUTE_TENSOR;
        attribute->tensor = tensor;
        return read_tensor(r, a->t, owner, tensor);
    }
    if (a->n_ints > 0) {
        attribute->kind = ATTRIBUTE_INTS;
        attribute->integers = a->ints;
        attribute->count = a->n_ints;
    } else if (a->n_floats > 0) {
        attribute->kind = ATTRIBUTE_FLOATS;
        attribute->reals = a->floats;
        attribute->count = a->n_floats;
    } else if (a->n_strings > 0) {
        attribute->kind = ATTRIBUTE_STRINGS;
        attribute->count = a->n_strings;
        return read_strings(r, a, attribute);
    } else if (a->has_s) {
        attribute->kind = ATTRIBUTE_STRING;
        attribute->string = neap_arena_text(r->arena, (const char *)a->s.data, a->s.len);
        if (!attribute->string)
            return neap_fail_no_memory(r->diag);
    } else if (a->has_f) {
        attribute->kind = ATTRIBUTE_FLOAT;
        attribute->real = a->f;
    } else if (a->has_i) {
        attribute->kind = ATTRIBUTE_INT;
        attribute->integer = a->i;
    }
    return NEAP_OK;
}

/* The default domain has two names. */
static const char *domain_of(const char *domain)
{
    return !domain || strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

static neap_status read_node(const reader *r, const NeapOnnx__NodeProto *n, onnx_proto_node *node)
{
    onnx_attribute *attributes;
    if (!NEAP_TAKE(r->arena, n->n_attribute, attributes))
        return neap_fail_no_memory(r->diag);
    *node = (onnx_proto_node){.name = or_empty(n->name),
                              .type = or_empty(n->op_type),
                              .domain = domain_of(n->domain),
                              .overload = or_empty(n->overload),
                              .inputs = (const char *const *)n->input,
                              .outputs = (const char *const *)n->output,
                              .n_inputs = n->n_input,
                              .n_outputs = n->n_output,
                              .attributes = attributes,
                              .n_attributes = n->n_attribute};
    if (!*node->name && n->n_output > 0)
        node->name = n->output[0];
    for (size_t i = 0; i < n->n_attribute; i++)
        NEAP_TRY(read_attribute(r, n->attribute[i], node->name, &attributes[i]));
    return NEAP_OK;
}

static neap_status read_port(const reader *r, const NeapOnnx__ValueInfoProto *v, onnx_port *port)
{
    *port = (onnx_port){.name = or_empty(v->name)};
    if (!v->type || v->type->value_case != NEAP_ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
        return NEAP_OK;
    const NeapOnnx__TypeProto__Tensor *type = v->type->tensor_type;
    port->is_tensor = true;
    port->type = type->elem_type;
    if (!type->shape)
        return NEAP_OK;
    onnx_dim *dims;
    size_t rank = type->shape->n_dim;
    if (rank > NEAP_MAX_RANK)
        return neap_fail(r->diag, NEAP_INVALID,
                         "%s: \"%s\" has %zu dimensions; neap takes up to %d", r->source,
                         port->name, rank, NEAP_MAX_RANK);
    if (!NEAP_TAKE(r->arena, rank, dims))
        return neap_fail_no_memory(r->diag);
    for (size_t d = 0; d < rank; d++) {
        const NeapOnnx__TensorShapeProto__Dimension *dim = type->shape->dim[d];
        dims[d].value = -1;
        if (dim->value_case == NEAP_ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
            dims[d].value = dim->dim_value;
        else if (dim->value_case == NEAP_ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
                 *dim->dim_param)
            dims[d].name = dim->dim_param;
        if (dims[d].value < -1)
            return neap_fail(r->diag, NEAP_INVALID, "%s: \"%s\": dimension %zu is %lld", r->source,
                             port->name, d, (long long)dims[d].value);
    }
    port->has_shape = true;
    port->rank = (uint32_t)rank;
    port->dims = dims;
    return NEAP_OK;
}

/* ---- The whole ---- */

static neap_status read_graph(const reader *r, const NeapOnnx__GraphProto *g, onnx_proto *proto)
{
    onnx_proto_node *nodes;
    onnx_tensor *initializers;
    onnx_port *inputs, *outputs;
    if (!NEAP_TAKE(r->arena, g->n_node, nodes) ||
        !NEAP_TAKE(r->arena, g->n_initializer, initializers) ||
        !NEAP_TAKE(r->arena, g->n_input, inputs) || !NEAP_TAKE(r->arena, g->n_output, outputs))
        return neap_fail_no_memory(r->diag);
    proto->name = or_empty(g->name);
    proto->nodes = nodes;
    proto->initializers = initializers;
    proto->inputs = inputs;
    proto->outputs = outputs;
    proto->n_nodes = g->n_node;
    proto->n_initializers = g->n_initializer;
    proto->n_inputs = g->n_input;
    proto->n_outputs = g->n_output;
    for (size_t i = 0; i < g->n_node; i++)
        NEAP_TRY(read_node(r, g->node[i], &nodes[i]));
    for (size_t i = 0; i < g->n_initializer; i++)
        NEAP_TRY(read_tensor(r, g->initializer[i], "", &initializers[i]));
    for (size_t i = 0; i < g->n_input; i++)
        NEAP_TRY(read_port(r, g->input[i], &inputs[i]));
    for (size_t i = 0; i < g->n_output; i++)
        NEAP_TRY(read_port(r, g->output[i], &outputs[i]));
    return NEAP_OK;
}

/* The version of the default domain; 0: it is not imported. */
static int64_t default_opset(size_t count, NeapOnnx__OperatorSetIdProto *const *imports)
{
    int64_t version = 0;
    for (size_t i = 0; i < count; i++)
        if (!*domain_of(imports[i]->domain))
            version = imports[i]->version;
    return version;
}

static neap_status read_function(const reader *r, const NeapOnnx__FunctionProto *f,
                                 onnx_function *function)
{
    onnx_proto_node *nodes;
    onnx_attribute *defaults;
    if (!NEAP_TAKE(r->arena, f->n_node, nodes) ||
        !NEAP_TAKE(r->arena, f->n_attribute_proto, defaults))
        return neap_fail_no_memory(r->diag);
    *function = (onnx_function){.name = or_empty(f->name),
                                .domain = domain_of(f->domain),
                                .overload = or_empty(f->overload),
                                .opset = default_opset(f->n_opset_import, f->opset_import),
                                .inputs = (const char *const *)f->input,
                                .outputs = (const char *const *)f->output,
                                .n_inputs = f->n_input,
                                .n_outputs = f->n_output,
                                .nodes = nodes,
                                .n_nodes = f->n_node,
                                .defaults = defaults,
                                .n_defaults = f->n_attribute_proto};
    for (size_t i = 0; i < f->n_node; i++)
        NEAP_TRY(read_node(r, f->node[i], &nodes[i]));
    for (size_t i = 0; i < f->n_attribute_proto; i++)
        NEAP_TRY(read_attribute(r, f->attribute_proto[i], function->name, &defaults[i]));
    return NEAP_OK;
}

static neap_status read_functions(const reader *r, const NeapOnnx__ModelProto *m, onnx_proto *proto)
{
    onnx_function *functions;
    if (!NEAP_TAKE(r->arena, m->n_functions, functions))
        return neap_fail_no_memory(r->diag);
    proto->functions = functions;
    proto->n_functions = m->n_functions;
    for (size_t i = 0; i < m->n_functions; i++)
        NEAP_TRY(read_function(r, m->functions[i], &functions[i]));
    return NEAP_OK;
}

/* The oldest that neap reads: before it, axes of Squeeze and its like were attributes. */
enum { OLDEST_OPSET = 13 };

static neap_status read_versions(const reader *r, const NeapOnnx__ModelProto *m, onnx_proto *proto)
{
    proto->ir_version = m->ir_version;
    proto->producer = or_empty(m->producer_name);
    proto->opset = default_opset(m->n_opset_import, m->opset_import);
    /* a graph of calls alone needs none of its own */
    for (size_t i = 0; i < m->n_functions && proto->opset == 0; i++)
        proto->opset =
            default_opset(m->functions[i]->n_opset_import, m->functions[i]->opset_import);
    if (!m->graph || (m->n_opset_import == 0 && m->graph->n_node == 0))
        return neap_fail(r->diag, NEAP_INVALID, "%s: not an ONNX file: it has no graph", r->source);
    if (proto->opset < OLDEST_OPSET)
        return neap_fail(r->diag, NEAP_UNSUPPORTED,
                         "%s: opset %lld; neap reads %d and later: export it again, or convert it "
                         "with onnx.version_converter",
                         r->source, (long long)proto->opset, OLDEST_OPSET);
    return NEAP_OK;
}

neap_status neap_onnx_proto_read(neap_arena *arena, const char *source, const uint8_t *digest,
                                 size_t length, const uint8_t *file, size_t file_length,
                                 onnx_proto *proto, neap_diag *diag)
{
    const reader r = {arena, source, file, file_length, diag};
    arena_use use = {arena, false};
    ProtobufCAllocator allocator = {take, leave, &use};
    *proto = (onnx_proto){.name = ""};
    const NeapOnnx__ModelProto *model =
        neap_onnx__model_proto__unpack(&allocator, length, digest ? digest : (const uint8_t *)"");
    if (!model && use.exhausted)
        return neap_fail_no_memory(diag);
    if (!model)
        return neap_fail(diag, NEAP_INVALID,
                         "%s: not an ONNX file, or a damaged one: protobuf cannot unpack it",
                         source);
    NEAP_TRY(read_versions(&r, model, proto));
    NEAP_TRY(read_functions(&r, model, proto));
    return read_graph(&r, model->graph, proto);
}
