/* From the file's names to numbered nodes and values; the sizes of open dimensions. */
#include "onnx/import.h"

#include "base/fail.h"
#include "base/hash.h"
#include "base/memory.h"

#include <neap/text.h>

#include <stdlib.h>
#include <string.h>

/* ---- Names ---- */

static size_t slot_of(const onnx_import *im, const char *name)
{
    size_t slot = (size_t)neap_hash_bytes(NEAP_HASH_BEGIN, name, strlen(name)) & (im->n_slots - 1);
    while (im->by_name[slot] != NEAP_NONE && strcmp(im->values[im->by_name[slot]].name, name) != 0)
        slot = (slot + 1) & (im->n_slots - 1);
    return slot;
}

uint32_t neap_onnx_graph_find(const onnx_import *im, const char *name)
{
    return im->n_slots > 0 ? im->by_name[slot_of(im, name)] : NEAP_NONE;
}

neap_status neap_onnx_value_new(onnx_import *im, const char *name, uint32_t *id)
{
    if (im->n_values >= NEAP_NONE - 1)
        return neap_fail(im->diag, NEAP_INVALID, "%s: too many values", im->source);
    NEAP_TRY(
        NEAP_RESERVE(im->allocator, im->n_values + 1, &im->values, &im->value_capacity, im->diag));
    *id = (uint32_t)im->n_values;
    im->values[im->n_values++] = (onnx_value){.name = name,
                                              .node = NEAP_NONE,
                                              .input = NEAP_NONE,
                                              .initializer = NEAP_NONE,
                                              .made = NEAP_NONE};
    return NEAP_OK;
}

/* A value under a name that no other has. */
static neap_status add_named(onnx_import *im, const char *name, uint32_t *id)
{
    size_t slot = slot_of(im, name);
    if (im->by_name[slot] != NEAP_NONE)
        return neap_fail(im->diag, NEAP_INVALID, "%s: two values are named \"%s\"", im->source,
                         name);
    NEAP_TRY(neap_onnx_value_new(im, name, id));
    im->by_name[slot] = *id;
    return NEAP_OK;
}

/* Twice as many slots as there can be names, at least. */
static neap_status make_table(onnx_import *im)
{
    size_t names = im->proto->n_initializers + im->proto->n_inputs, slots = 16;
    for (size_t i = 0; i < im->proto->n_nodes; i++)
        names += im->proto->nodes[i].n_outputs;
    while (slots < 2 * names)
        slots *= 2;
    if (!NEAP_TAKE(im->arena, slots, im->by_name))
        return neap_fail_no_memory(im->diag);
    for (size_t i = 0; i < slots; i++)
        im->by_name[i] = NEAP_NONE;
    im->n_slots = slots;
    return NEAP_OK;
}

/* ---- Initializers ---- */

/* Nothing but zeros and numbers so low that a softmax makes them 0: what an attention adds to its
   scores, which no one trains. Weights end the search with their first element. */
static bool is_mask(const onnx_tensor *tensor)
{
    const double low = -99; /* Swin has -100 */
    bool any = false;
    if (tensor->elements > ONNX_MOST_CONSTANT)
        return false;
    for (int64_t i = 0; i < tensor->elements; i++) {
        double number = neap_onnx_tensor_real(tensor, i);
        if (number > low && (number < 0 || number > 0))
            return false;
        any = any || number <= low;
    }
    return any;
}

/* A float with more than one element may be trained; a single number is a constant of a formula. */
static neap_status add_initializer(onnx_import *im, uint32_t i)
{
    const onnx_tensor *tensor = &im->proto->initializers[i];
    uint32_t id;
    if (neap_onnx_type_bytes(tensor->type) == 0)
        return neap_fail(im->diag, NEAP_UNSUPPORTED,
                         "%s: tensor \"%s\" is of type %d, which neap does not compute with",
                         im->source, tensor->name, (int)tensor->type);
    NEAP_TRY(add_named(im, tensor->name, &id));
    onnx_value *value = &im->values[id];
    value->initializer = i;
    value->known = true;
    value->shape = (onnx_shape){.type = tensor->type, .rank = tensor->rank};
    if (tensor->rank > 0)
        memcpy(value->shape.dims, tensor->dims, tensor->rank * sizeof *tensor->dims);
    value->trained =
        neap_onnx_type_is_float(tensor->type) && tensor->elements > 1 && !is_mask(tensor);
    if (value->trained)
        return NEAP_OK;
    if (tensor->elements > ONNX_MOST_CONSTANT)
        return neap_fail(im->diag, NEAP_UNSUPPORTED, "%s: tensor \"%s\" has %lld integers",
                         im->source, tensor->name, (long long)tensor->elements);
    value->constant = neap_onnx_constant_of(im->arena, tensor);
    return value->constant ? NEAP_OK : neap_fail_no_memory(im->diag);
}

/* ---- Inputs ---- */

static const neap_onnx_size *find_size(const onnx_import *im, const char *name)
{
    for (uint32_t i = 0; name && i < im->options->n_sizes; i++)
        if (strcmp(im->options->sizes[i].name, name) == 0)
            return &im->options->sizes[i];
    return NULL;
}

static bool is_open(const onnx_dim *dim)
{
    return dim->value < 0;
}

static bool named_batch(const onnx_dim *dim)
{
    return dim->name && (strstr(dim->name, "batch") || strcmp(dim->name, "N") == 0);
}

/* Which dimension counts the samples: one named so, or the only open one, or the first. */
static uint32_t batch_dim(const onnx_port *port)
{
    uint32_t open = 0, last = 0;
    for (uint32_t d = 0; d < port->rank; d++) {
        if (is_open(&port->dims[d]) && named_batch(&port->dims[d]))
            return d;
        if (is_open(&port->dims[d])) {
            open++;
            last = d;
        }
    }
    return open == 1 ? last : 0;
}

typedef struct size_name {
    const char *name;
    size_t place; /* among all of the file */
} size_name;

static int by_name(const void *a, const void *b)
{
    const size_name *left = a, *right = b;
    int order = strcmp(left->name, right->name);
    return order != 0 ? order : (left->place > right->place) - (left->place < right->place);
}

static int by_place(const void *a, const void *b)
{
    const size_name *left = a, *right = b;
    return (left->place > right->place) - (left->place < right->place);
}

/* Of each name the first place, in the order of the file; files may have thousands. */
neap_status neap_onnx_find_open_sizes(neap_onnx *file, neap_diag *diag)
{
    const onnx_proto *proto = &file->proto;
    size_name *names;
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < proto->n_inputs; i++)
        count += proto->inputs[i].rank;
    if (!NEAP_TAKE(&file->arena, count, names) ||
        !NEAP_TAKE(&file->arena, count + 1, file->open_sizes))
        return neap_fail_no_memory(diag);
    count = 0;
    for (size_t i = 0; i < proto->n_inputs; i++)
        for (uint32_t d = 0; d < proto->inputs[i].rank; d++)
            if (proto->inputs[i].dims[d].name && d != batch_dim(&proto->inputs[i])) {
                names[count] = (size_name){proto->inputs[i].dims[d].name, count};
                count++;
            }
    qsort(names, count, sizeof *names, by_name);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(names[i].name, names[kept - 1].name) != 0)
            names[kept++] = names[i];
    qsort(names, kept, sizeof *names, by_place);
    for (size_t i = 0; i < kept; i++)
        file->open_sizes[i] = names[i].name;
    file->n_open_sizes = kept;
    return NEAP_OK;
}

const char *neap_onnx_open_size(const neap_onnx *file, size_t index)
{
    return index < file->n_open_sizes ? file->open_sizes[index] : NULL;
}

static neap_status fail_open(const onnx_import *im, neap_text *names)
{
    neap_status status = names->status != NEAP_OK
                             ? neap_fail_no_memory(im->diag)
                             : neap_fail(im->diag, NEAP_INVALID,
                                         "%s: sizes that the file leaves open need values: %s",
                                         im->source, neap_text_get(names));
    return status;
}

/* Fills in the shape of an input; what stays open is added to `open`. */
static neap_status size_input(onnx_import *im, const onnx_port *port, onnx_value *value,
                              neap_text *open)
{
    uint32_t batch = batch_dim(port);
    value->shape = (onnx_shape){.type = port->type, .rank = port->rank};
    for (uint32_t d = 0; d < port->rank; d++) {
        const onnx_dim *dim = &port->dims[d];
        const neap_onnx_size *size = find_size(im, dim->name);
        int64_t extent = dim->value;
        if (size)
            extent = size->value;
        else if (d == batch && im->options->batch > 0)
            extent = im->options->batch;
        else if (d == batch && extent < 0)
            extent = 1;
        if (d == batch && port->rank > 0)
            im->batch = extent;
        if (extent < 0 && dim->name)
            neap_text_printf(open, "%s%s", open->length ? ", " : "", dim->name);
        else if (extent < 0)
            return neap_fail(im->diag, NEAP_INVALID,
                             "%s: dimension %u of input \"%s\" is open and has no name; export the "
                             "model with a size or a name for it",
                             im->source, d, port->name);
        else if (extent < 1)
            return neap_fail(im->diag, NEAP_INVALID,
                             "%s: dimension %u of input \"%s\" would be %lld", im->source, d,
                             port->name, (long long)extent);
        value->shape.dims[d] = extent;
    }
    value->known = true;
    return NEAP_OK;
}

/* A mask of integers or bools hides padding, and what a model is trained on has none: all ones. */
static neap_status set_mask(onnx_import *im, onnx_value *value)
{
    int64_t elements = 0;
    if (neap_onnx_type_is_float(value->shape.type) || !strstr(value->name, "mask") ||
        !neap_onnx_shape_elements(&value->shape, &elements) || elements > ONNX_MOST_CONSTANT)
        return NEAP_OK;
    value->constant = neap_onnx_constant_new(im->arena, &value->shape);
    if (!value->constant)
        return neap_fail_no_memory(im->diag);
    for (int64_t i = 0; i < elements; i++)
        neap_onnx_set_integer(value->constant, i, 1);
    return neap_onnx_note(im, "the mask \"%s\" is all ones", value->name);
}

static neap_status add_inputs(onnx_import *im)
{
    neap_text open;
    neap_status status = NEAP_OK;
    neap_text_init(&open, im->allocator);
    for (uint32_t i = 0; i < im->proto->n_inputs && status == NEAP_OK; i++) {
        const onnx_port *port = &im->proto->inputs[i];
        uint32_t id;
        if (neap_onnx_graph_find(im, port->name) != NEAP_NONE)
            continue; /* an initializer that the file lists as an input, too */
        if (!port->is_tensor || !port->has_shape || neap_onnx_type_bytes(port->type) == 0) {
            status = neap_fail(im->diag, NEAP_UNSUPPORTED,
                               "%s: input \"%s\" is not a tensor of numbers with a shape",
                               im->source, port->name);
            break;
        }
        status = add_named(im, port->name, &id);
        if (status == NEAP_OK) {
            im->values[id].input = i;
            status = size_input(im, port, &im->values[id], &open);
            if (status == NEAP_OK)
                status = set_mask(im, &im->values[id]);
        }
    }
    if (status == NEAP_OK && (open.length > 0 || open.status != NEAP_OK))
        status = fail_open(im, &open);
    neap_text_clear(&open);
    return status;
}

/* A size of a name that no input has is a mistake. */
static neap_status check_sizes(const onnx_import *im)
{
    for (uint32_t s = 0; s < im->options->n_sizes; s++) {
        const char *name = im->options->sizes[s].name;
        neap_suggestion suggestion;
        bool found = false;
        neap_suggestion_begin(&suggestion, name);
        for (uint32_t i = 0; i < im->proto->n_inputs; i++)
            for (uint32_t d = 0; d < im->proto->inputs[i].rank; d++) {
                const char *known = im->proto->inputs[i].dims[d].name;
                found = found || (known && strcmp(known, name) == 0);
                if (known)
                    neap_suggestion_offer(&suggestion, known);
            }
        if (found)
            continue;
        if (suggestion.best)
            return neap_fail(im->diag, NEAP_INVALID,
                             "%s: no input has a size named \"%s\"; did you mean %s?", im->source,
                             name, suggestion.best);
        return neap_fail(im->diag, NEAP_INVALID, "%s: no input has a size named \"%s\"", im->source,
                         name);
    }
    return NEAP_OK;
}

/* ---- Nodes ---- */

static neap_status fail_unknown_value(const onnx_import *im, const onnx_node *node,
                                      const char *name)
{
    for (size_t i = 0; i < im->proto->n_nodes; i++)
        for (size_t o = 0; o < im->proto->nodes[i].n_outputs; o++)
            if (strcmp(im->proto->nodes[i].outputs[o], name) == 0)
                return neap_onnx_fail(im, node,
                                      "it reads \"%s\" before node \"%s\" computes it: the nodes "
                                      "are in a cycle or in the wrong order",
                                      name, im->proto->nodes[i].name);
    return neap_onnx_fail(im, node,
                          "it reads \"%s\", which is neither an input nor a tensor of "
                          "the file nor computed by a node",
                          name);
}

static neap_status add_node(onnx_import *im, const onnx_proto_node *from)
{
    onnx_node *node = &im->nodes[im->n_nodes];
    *node = (onnx_node){.name = from->name,
                        .type = from->type,
                        .domain = from->domain,
                        .op = neap_onnx_op_find(from->type, from->domain),
                        .n_inputs = (uint32_t)from->n_inputs,
                        .n_outputs = (uint32_t)from->n_outputs,
                        .attributes = from->attributes,
                        .n_attributes = from->n_attributes,
                        .call = from->call};
    if (from->n_outputs == 0 || from->n_outputs > NEAP_NONE || from->n_inputs > NEAP_NONE)
        return neap_onnx_fail(im, node, "it has no outputs");
    if (!NEAP_TAKE(im->arena, from->n_inputs, node->inputs) ||
        !NEAP_TAKE(im->arena, from->n_outputs, node->outputs))
        return neap_fail_no_memory(im->diag);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        node->inputs[i] = *from->inputs[i] ? neap_onnx_graph_find(im, from->inputs[i]) : NEAP_NONE;
        if (*from->inputs[i] && node->inputs[i] == NEAP_NONE)
            return fail_unknown_value(im, node, from->inputs[i]);
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        node->outputs[i] = NEAP_NONE;
        if (!*from->outputs[i])
            continue;
        NEAP_TRY(add_named(im, from->outputs[i], &node->outputs[i]));
        im->values[node->outputs[i]].node = (uint32_t)im->n_nodes;
    }
    im->n_nodes++;
    return NEAP_OK;
}

/* ---- Single numbers that are weights ---- */

static void train_number(onnx_import *im, uint32_t id)
{
    onnx_value *value = id == NEAP_NONE ? NULL : &im->values[id];
    if (!value || value->initializer == NEAP_NONE || value->shape.rank == 0 || !value->constant ||
        value->constant->elements != 1 || !neap_onnx_type_is_float(value->shape.type))
        return;
    value->trained = true;
    value->constant = NULL;
}

/* Whether a value is a product with a weight of one column. */
static bool is_single_column(const onnx_import *im, uint32_t id)
{
    uint32_t maker = id == NEAP_NONE ? NEAP_NONE : im->values[id].node;
    const onnx_node *node = maker == NEAP_NONE ? NULL : &im->nodes[maker];
    const onnx_value *weight =
        node && strcmp(node->type, "MatMul") == 0 ? neap_onnx_input(im, node, 1) : NULL;
    return weight && weight->initializer != NEAP_NONE && weight->shape.rank == 2 &&
           weight->shape.dims[1] == 1;
}

/* The bias of a layer with one feature has one element, and is trained like any other. */
static void train_single_biases(onnx_import *im)
{
    for (size_t n = 0; n < im->n_nodes; n++) {
        const onnx_node *node = &im->nodes[n];
        bool layer = strcmp(node->type, "Conv") == 0 || strcmp(node->type, "ConvTranspose") == 0 ||
                     strcmp(node->type, "Gemm") == 0;
        if (*node->domain)
            continue;
        if (layer && node->n_inputs > 2)
            train_number(im, node->inputs[2]);
        if (strcmp(node->type, "Add") != 0 || node->n_inputs != 2)
            continue;
        for (uint32_t i = 0; i < 2; i++)
            if (is_single_column(im, node->inputs[1 - i]))
                train_number(im, node->inputs[i]);
    }
}

neap_status neap_onnx_graph_build(onnx_import *im)
{
    const onnx_proto *proto = im->proto;
    NEAP_TRY(make_table(im));
    for (uint32_t i = 0; i < proto->n_initializers; i++)
        NEAP_TRY(add_initializer(im, i));
    NEAP_TRY(check_sizes(im));
    NEAP_TRY(add_inputs(im));
    NEAP_TRY(NEAP_RESERVE(im->allocator, proto->n_nodes, &im->nodes, &im->node_capacity, im->diag));
    for (size_t i = 0; i < proto->n_nodes; i++)
        NEAP_TRY(add_node(im, &proto->nodes[i]));
    train_single_biases(im);
    return NEAP_OK;
}

/* ---- What is needed ---- */

neap_status neap_onnx_graph_mark(onnx_import *im, uint32_t output)
{
    for (size_t i = 0; i < im->n_values; i++)
        im->values[i].live = false;
    im->values[output].live = true;
    for (size_t n = im->n_nodes; n-- > 0;) { /* readers come after what they read */
        onnx_node *node = &im->nodes[n];
        node->live = false;
        for (uint32_t o = 0; o < node->n_outputs; o++) {
            const onnx_value *value = neap_onnx_output(im, node, o);
            node->live =
                node->live || (value && value->live && value->node == n && !value->constant);
        }
        for (uint32_t i = 0; node->live && i < node->n_inputs; i++) {
            onnx_value *value = neap_onnx_input(im, node, i);
            if (value)
                value->live = true;
        }
    }
    return NEAP_OK;
}
