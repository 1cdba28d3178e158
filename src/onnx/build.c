/* neap_onnx_build: the passes in their order, the loss, and the binding. */
#include "onnx/import.h"

#include "base/fail.h"
#include "base/half.h"
#include "base/memory.h"

#include <neap/text.h>

#include <string.h>

void neap_onnx_options_init(neap_onnx_options *options)
{
    *options = (neap_onnx_options){.dtype = NEAP_F32, .kernels = NEAP_KERNELS_LEAN};
    neap_training_init(&options->training);
}

/* ---- The output and its loss ---- */

static neap_status fail_output(const onnx_import *im, const char *name)
{
    neap_suggestion suggestion;
    neap_suggestion_begin(&suggestion, name);
    for (size_t i = 0; i < im->proto->n_outputs; i++)
        neap_suggestion_offer(&suggestion, im->proto->outputs[i].name);
    if (suggestion.best)
        return neap_fail(im->diag, NEAP_INVALID, "%s: no output is named \"%s\"; did you mean %s?",
                         im->source, name, suggestion.best);
    return neap_fail(im->diag, NEAP_INVALID, "%s: no output is named \"%s\"; the first is \"%s\"",
                     im->source, name, im->proto->outputs[0].name);
}

/* The first output that a loss can be put on: classifiers may have the label before its
   probabilities. */
static const char *first_output(const onnx_proto *proto)
{
    for (size_t i = 0; i < proto->n_outputs; i++) {
        const onnx_port *port = &proto->outputs[i];
        if (!port->is_tensor || port->type == 0 || neap_onnx_type_is_float(port->type))
            return port->name;
    }
    return proto->outputs[0].name;
}

static neap_status find_output(onnx_import *im)
{
    const char *name = im->options->loss_output;
    if (im->proto->n_outputs == 0)
        return neap_fail(im->diag, NEAP_INVALID, "%s: the model has no outputs", im->source);
    im->output = neap_onnx_graph_find(im, name ? name : first_output(im->proto));
    if (im->output != NEAP_NONE)
        return NEAP_OK;
    if (name)
        return fail_output(im, name);
    return neap_fail(im->diag, NEAP_INVALID, "%s: no node computes the output \"%s\"", im->source,
                     first_output(im->proto));
}

static const onnx_node *maker(const onnx_import *im, uint32_t value)
{
    uint32_t node = im->values[value].node;
    if (node == NEAP_NONE || im->nodes[node].n_inputs == 0 ||
        im->nodes[node].inputs[0] == NEAP_NONE)
        return NULL;
    return &im->nodes[node];
}

/* Skips nodes after the output that only pass it on: scikit-learn's ZipMap gives every probability
   the name of its class. */
static uint32_t skip_copies(const onnx_import *im, uint32_t value)
{
    const onnx_node *node = maker(im, value);
    for (size_t i = 0; node && i < im->n_nodes; i++, node = maker(im, value)) {
        bool names = strcmp(node->type, "ZipMap") == 0 && strcmp(node->domain, "ai.onnx.ml") == 0;
        if (!names && (strcmp(node->type, "Identity") != 0 || *node->domain))
            break;
        value = node->inputs[0];
    }
    return value;
}

/* Probabilities are for inference: the loss takes what a last softmax was given. */
static neap_status undo_softmax(onnx_import *im)
{
    if (im->options->loss != NEAP_ONNX_NO_LOSS)
        im->output = skip_copies(im, im->output);
    const onnx_node *node = maker(im, im->output);
    if (im->options->loss != NEAP_ONNX_CROSS_ENTROPY || !node || *node->domain ||
        (strcmp(node->type, "Softmax") != 0 && strcmp(node->type, "LogSoftmax") != 0))
        return NEAP_OK;
    im->output = node->inputs[0];
    return neap_onnx_note(im, "the last %s is part of the loss", node->type);
}

static neap_status fail_loss(const onnx_import *im, const char *why)
{
    return neap_fail(im->diag, NEAP_INVALID,
                     "%s: output \"%s\" has rank %u: %s; choose another output or another loss",
                     im->source, im->values[im->output].name, im->values[im->output].shape.rank,
                     why);
}

/* Rows of logits: the classes are the last dimension of N x K and N x T x K, the second one of
   images. */
static neap_status add_cross_entropy(onnx_import *im, neap_tensor x, neap_tensor *loss)
{
    const onnx_shape *shape = &im->values[im->output].shape;
    int64_t labels[NEAP_MAX_RANK] = {shape->dims[0]};
    uint32_t rank = 1;
    if (shape->rank == 3) {
        int64_t rows[] = {shape->dims[0] * shape->dims[1], shape->dims[2]};
        labels[0] = rows[0];
        x = neap_net_reshape(im->net, "flatten", x, 2, rows);
    } else if (shape->rank == 4) {
        labels[1] = shape->dims[2];
        labels[2] = shape->dims[3];
        rank = 3;
    } else if (shape->rank != 2) {
        return fail_loss(im, "cross-entropy takes N x K, N x T x K or N x K x H x W");
    }
    neap_tensor classes = neap_net_input(im->net, "labels", NEAP_I64, rank, labels);
    *loss = neap_net_cross_entropy(im->net, "loss", x, classes);
    return NEAP_OK;
}

/* Only the forward pass, and no loss: the graph's output is the model's. */
static bool is_inference(const onnx_import *im)
{
    return im->options->training.forward_only && im->options->loss == NEAP_ONNX_NO_LOSS;
}

static neap_status add_loss(onnx_import *im, neap_tensor *loss)
{
    const onnx_value *value = &im->values[im->output];
    const onnx_node last = {.name = value->name, .type = "output", .domain = ""};
    int64_t elements = 0;
    neap_tensor x;
    NEAP_TRY(neap_onnx_tensor(im, &last, im->output, &x));
    if (is_inference(im)) {
        *loss = x;
        return neap_onnx_check_net(im, &last);
    }
    neap_onnx_shape_elements(&value->shape, &elements);
    if (!neap_onnx_type_is_float(value->shape.type))
        return fail_loss(im, "its elements are not floats");
    if (elements == 1) {
        *loss = neap_net_rank(im->net, x) == 1
                    ? x
                    : neap_net_reshape(im->net, "loss", x, 1, (int64_t[]){1});
    } else if (im->options->loss == NEAP_ONNX_NO_LOSS) {
        return fail_loss(im, "it is not one number");
    } else if (im->options->loss == NEAP_ONNX_CROSS_ENTROPY) {
        NEAP_TRY(add_cross_entropy(im, x, loss));
    } else {
        neap_tensor targets = neap_net_input(im->net, "targets", im->options->dtype,
                                             value->shape.rank, value->shape.dims);
        *loss = neap_net_mse(im->net, "loss", x, targets);
    }
    return neap_onnx_check_net(im, &last);
}

/* ---- Notes ---- */

static neap_status add_notes(onnx_import *im)
{
    if (im->proto->n_constant_weights > 0)
        NEAP_TRY(neap_onnx_note(im, "the weights of the file are in %zu Constant nodes",
                                im->proto->n_constant_weights));
    if (im->batch_norms[0] > 0)
        NEAP_TRY(neap_onnx_note(im, "%u batch normalizations use the statistics of the batch%s",
                                im->batch_norms[0],
                                im->running_norms > 0 ? " and advance those of the file" : ""));
    if (im->stale_norms > 0)
        NEAP_TRY(neap_onnx_note(im,
                                "%u of them leave the statistics of the file as they are: these "
                                "are computed, or nodes advance them by different rules",
                                im->stale_norms));
    if (im->batch_norms[1] > 0)
        NEAP_TRY(neap_onnx_note(im, "%u batch normalizations keep the statistics of the file",
                                im->batch_norms[1]));
    if (im->dropouts[0] > 0)
        NEAP_TRY(neap_onnx_note(im, "%u dropouts do nothing", im->dropouts[0]));
    return neap_onnx_note_folded(im);
}

/* ---- The passes ---- */

/* What a step advances must not be a parameter, too. */
static neap_status check_statistics(const onnx_import *im)
{
    for (size_t i = 0; i < im->n_parameters; i++) {
        const onnx_parameter *p = &im->parameters[i];
        if (p->running && im->parameter_of[p->initializer] != NEAP_NONE)
            return neap_fail(im->diag, NEAP_UNSUPPORTED,
                             "%s: the running statistics \"%s\" are also trained", im->source,
                             p->name);
    }
    return NEAP_OK;
}

static neap_status run_passes(onnx_import *im, neap_tensor *loss)
{
    NEAP_TRY(neap_onnx_graph_build(im));
    NEAP_TRY(find_output(im));
    NEAP_TRY(undo_softmax(im));
    NEAP_TRY(neap_onnx_remove_masks(im));
    NEAP_TRY(neap_onnx_find_buffers(im));
    NEAP_TRY(neap_onnx_freeze(im));
    NEAP_TRY(neap_onnx_graph_mark(im, im->output));
    NEAP_TRY(neap_onnx_infer(im));
    NEAP_TRY(neap_onnx_graph_mark(im, im->output));
    NEAP_TRY(neap_onnx_fuse(im));
    NEAP_TRY(neap_onnx_graph_mark(im, im->output));
    if (!NEAP_TAKE(im->arena, im->proto->n_initializers, im->parameter_of))
        return neap_fail_no_memory(im->diag);
    for (size_t i = 0; i < im->proto->n_initializers; i++)
        im->parameter_of[i] = NEAP_NONE;
    NEAP_TRY(neap_onnx_find_ties(im));
    NEAP_TRY(neap_onnx_lower(im));
    NEAP_TRY(check_statistics(im));
    NEAP_TRY(add_loss(im, loss));
    return add_notes(im);
}

/* "resnet50_b32", after the file. */
static neap_status name_network(const onnx_import *im, neap_text *name)
{
    const char *slash = strrchr(im->source, '/'), *file = slash ? slash + 1 : im->source;
    size_t length = strlen(file);
    if (length > 5 && strcmp(file + length - 5, ".onnx") == 0)
        length -= 5;
    neap_text_append(name, file, length);
    if (im->options->batch > 0)
        neap_text_printf(name, "_b%lld", (long long)im->options->batch);
    return name->status == NEAP_OK ? NEAP_OK : neap_fail_no_memory(im->diag);
}

static neap_status finish(onnx_import *im, neap_tensor loss, neap_graph **graph)
{
    neap_diag cause = {0};
    neap_status status = neap_network_finish(im->net, loss, &im->options->training, graph, &cause);
    if (status == NEAP_OK)
        return NEAP_OK;
    return status == NEAP_NO_MEMORY
               ? neap_fail_no_memory(im->diag)
               : neap_fail(im->diag, status, "%s: %s", im->source, cause.message);
}

/* Copies of the lists that grew. */
static neap_status keep_lists(const onnx_import *im, neap_onnx_binding *binding)
{
    neap_arena *arena = &binding->arena;
    binding->parameters =
        neap_arena_copy(arena, im->parameters, im->n_parameters, sizeof *im->parameters);
    binding->fixed = neap_arena_copy(arena, im->fixed, im->n_fixed, sizeof *im->fixed);
    binding->notes = neap_arena_copy(arena, im->notes, im->n_notes, sizeof *im->notes);
    binding->ties = im->ties;
    binding->n_parameters = im->n_parameters;
    binding->n_fixed = im->n_fixed;
    binding->n_notes = im->n_notes;
    return binding->parameters && binding->fixed && binding->notes ? NEAP_OK
                                                                   : neap_fail_no_memory(im->diag);
}

static neap_status build(onnx_import *im, neap_onnx_binding *binding, neap_graph **graph)
{
    neap_tensor loss = NEAP_NONE;
    neap_text name;
    neap_text_init(&name, im->allocator);
    neap_status status = name_network(im, &name);
    if (status == NEAP_OK)
        status =
            neap_network_create(im->allocator, name.text, im->options->dtype, &im->net, im->diag);
    neap_text_clear(&name);
    if (status != NEAP_OK)
        return status;
    neap_network_set_kernels(im->net, im->options->kernels);
    NEAP_TRY(run_passes(im, &loss));
    NEAP_TRY(keep_lists(im, binding));
    return finish(im, loss, graph);
}

neap_status neap_onnx_build(const neap_onnx *file, const neap_onnx_options *options,
                            neap_graph **graph, neap_onnx_binding **result, neap_diag *diag)
{
    neap_onnx_options defaults;
    neap_onnx_binding *binding;
    neap_onnx_options_init(&defaults);
    *graph = NULL;
    if (result)
        *result = NULL;
    NEAP_TRY(NEAP_NEW(file->allocator, 1, &binding, diag));
    binding->allocator = file->allocator;
    binding->file = file;
    neap_arena_init(&binding->arena, file->allocator);
    onnx_import im = {.allocator = file->allocator,
                      .arena = &binding->arena,
                      .file = file,
                      .proto = &file->proto,
                      .source = file->path,
                      .options = options ? options : &defaults,
                      .diag = diag};
    neap_status status = build(&im, binding, graph);
    neap_network_destroy(im.net);
    NEAP_DELETE(im.allocator, im.node_capacity, im.nodes);
    NEAP_DELETE(im.allocator, im.value_capacity, im.values);
    NEAP_DELETE(im.allocator, im.parameter_capacity, im.parameters);
    NEAP_DELETE(im.allocator, im.fixed_capacity, im.fixed);
    NEAP_DELETE(im.allocator, im.note_capacity, im.notes);
    if (status == NEAP_OK && result)
        *result = binding;
    else
        neap_onnx_binding_destroy(binding);
    return status;
}

void neap_onnx_binding_destroy(neap_onnx_binding *binding)
{
    if (!binding)
        return;
    neap_arena_clear(&binding->arena);
    NEAP_DELETE(binding->allocator, 1, binding);
}

size_t neap_onnx_note_count(const neap_onnx_binding *binding)
{
    return binding->n_notes;
}

const char *neap_onnx_note_at(const neap_onnx_binding *binding, size_t index)
{
    return index < binding->n_notes ? binding->notes[index] : NULL;
}
