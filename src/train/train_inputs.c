/*
 * Fills the inputs of a graph. The ops that read an input determine its contents.
 *
 *     f32, rank 4           images, one sample after another
 *     i64, read by a loss   labels: one per image or per pixel; for tokens, the next token; random
 *                           where there are as many labels as neither of them
 *     i64, read by an embedding   tokens; positions and token types by their names
 *     f32, one element, named after the loss      its gradient, 1 / micro-batches
 *     f32, named h0 or c0   zeros (the initial state of a recurrent network)
 *     any other f32         random numbers from -1 to 1
 *
 * Inputs that the source of the options knows get their contents once.
 */
#include "base/fail.h"
#include "base/half.h"
#include "base/memory.h"
#include "run/backend.h"
#include "train/trainer_internal.h"

#include <string.h>

typedef enum input_role {
    ROLE_IMAGES,
    ROLE_LABELS,
    ROLE_TOKENS,
    ROLE_POSITIONS,
    ROLE_TYPES,
    ROLE_LOSS_GRADIENT,
    ROLE_ZEROS,
    ROLE_NUMBERS,
    ROLE_GIVEN, /* by the source */
    ROLE_OTHER, /* not data: state, and what the optimizer reads */
    ROLE_UNKNOWN
} input_role;

/* Through views of it. */
static const neap_op *first_reader(const neap_graph *graph, uint32_t value)
{
    uint32_t count;
    const uint32_t *readers = neap_graph_readers(graph, value, &count);
    const neap_op *op = count ? neap_graph_op(graph, readers[0]) : NULL;
    bool is_view = op && op->n_outputs == 1 && strcmp(op->type, "reshape") == 0;
    return is_view ? first_reader(graph, op->outputs[0]) : op;
}

static bool is_loss_gradient(const neap_graph *graph, const char *name)
{
    uint32_t count;
    const char *loss = neap_graph_value(graph, neap_graph_outputs(graph, &count)[0])->name;
    size_t length = strlen(loss);
    return strncmp(name, loss, length) == 0 && strcmp(name + length, ".grad") == 0;
}

static input_role integer_role(const neap_graph *graph, uint32_t id)
{
    const neap_value *value = neap_graph_value(graph, id);
    const neap_op *reader = first_reader(graph, id);
    if (!reader || value->dtype != NEAP_I64)
        return ROLE_UNKNOWN;
    if (strcmp(reader->type, "xent") == 0 || strcmp(reader->type, "nll") == 0)
        return ROLE_LABELS;
    if (strcmp(reader->type, "embedding") != 0)
        return ROLE_UNKNOWN;
    if (strstr(value->name, "position"))
        return ROLE_POSITIONS;
    return strstr(value->name, "type") ? ROLE_TYPES : ROLE_TOKENS;
}

bool neap_train_is_data(const neap_graph *graph, uint32_t id)
{
    const neap_value *value = neap_graph_value(graph, id);
    return value->producer == NEAP_NONE && !value->state &&
           strcmp(value->kind, NEAP_KIND_PARAMETER) != 0 &&
           strcmp(value->name, NEAP_STEP_INPUT) != 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static input_role role_of(const neap_trainer *t, uint32_t id)
{
    const neap_graph *graph = t->graph;
    const neap_value *value = neap_graph_value(graph, id);
    if (!neap_train_is_data(graph, id))
        return ROLE_OTHER;
    if (t->given && t->given[id])
        return ROLE_GIVEN;
    if (value->dtype != NEAP_F32 && value->dtype != NEAP_BF16)
        return integer_role(graph, id);
    if (value->rank == 1 && value->shape[0] == 1 && is_loss_gradient(graph, value->name))
        return ROLE_LOSS_GRADIENT;
    if (value->rank == 4)
        return ROLE_IMAGES;
    return ends_with(value->name, "h0") || ends_with(value->name, "c0") ? ROLE_ZEROS : ROLE_NUMBERS;
}

/* The exclusive upper limit of labels and tokens. */
static int64_t limit_of(const neap_graph *graph, uint32_t id)
{
    const neap_op *reader = first_reader(graph, id);
    if (strcmp(reader->type, "embedding") == 0)
        return neap_graph_value(graph, reader->inputs[1])->shape[0];
    return neap_graph_value(graph, reader->inputs[0])->shape[1]; /* logits N x K x ... */
}

static uint32_t find_role(const neap_trainer *t, input_role role)
{
    for (uint32_t v = 0; v < neap_graph_value_count(t->graph); v++)
        if (neap_graph_value(t->graph, v)->producer == NEAP_NONE && role_of(t, v) == role)
            return v;
    return NEAP_NONE;
}

static int64_t elements_of(const neap_value *value)
{
    int64_t elements = 1;
    for (uint32_t d = 0; d < value->rank; d++)
        elements *= value->shape[d];
    return elements;
}

/* ---- Opening ---- */

static neap_status open_images(neap_trainer *t, uint32_t images, uint32_t labels, neap_diag *diag)
{
    const neap_value *v = neap_graph_value(t->graph, images);
    neap_dataset_shape wanted = {
        .channels = v->shape[1], .height = v->shape[2], .width = v->shape[3], .classes = 2};
    if (labels != NEAP_NONE) {
        wanted.classes = limit_of(t->graph, labels);
        const neap_value *l = neap_graph_value(t->graph, labels);
        bool one_each = l->rank == 1 && l->shape[0] == v->shape[0];
        if (!one_each && strcmp(t->options.data, "synthetic") != 0)
            return neap_fail(diag, NEAP_UNSUPPORTED,
                             "\"%s\" needs a label for every pixel; only synthetic data has them",
                             neap_graph_name(t->graph));
    }
    neap_status status =
        neap_dataset_open(t->allocator, t->options.data, &wanted, &t->dataset, diag);
    t->sample_count = elements_of(v) / v->shape[0];
    if (status == NEAP_OK)
        status = NEAP_NEW(t->allocator, (size_t)t->sample_count, &t->sample, diag);
    return status;
}

/* Asks the source which inputs it knows. */
static neap_status find_given(neap_trainer *t, neap_diag *diag)
{
    neap_train_source *source = t->options.source;
    uint32_t n_values = neap_graph_value_count(t->graph);
    if (!source)
        return NEAP_OK;
    neap_status status = NEAP_NEW(t->allocator, n_values, &t->given, diag);
    t->n_given = status == NEAP_OK ? n_values : 0;
    for (uint32_t v = 0; v < n_values && status == NEAP_OK; v++) {
        const neap_value *value = neap_graph_value(t->graph, v);
        if (neap_train_is_data(t->graph, v))
            status = source->fill(source, value->name, value->dtype, NULL, elements_of(value),
                                  &t->given[v], diag);
    }
    return status;
}

static neap_status write_one_given(neap_trainer *t, uint32_t id, neap_diag *diag)
{
    const neap_value *value = neap_graph_value(t->graph, id);
    size_t bytes = (size_t)(elements_of(value) * neap_dtype_bytes(value->dtype));
    unsigned char *data;
    bool found;
    neap_status status = NEAP_NEW(t->allocator, bytes, &data, diag);
    if (status != NEAP_OK)
        return status;
    status = t->options.source->fill(t->options.source, value->name, value->dtype, data,
                                     elements_of(value), &found, diag);
    if (status == NEAP_OK)
        status = neap_runner_write(t->runner, id, data, diag);
    NEAP_DELETE(t->allocator, bytes, data);
    return status;
}

neap_status neap_train_inputs_write_given(neap_trainer *t, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    for (uint32_t v = 0; v < t->n_given && status == NEAP_OK; v++)
        if (t->given[v])
            status = write_one_given(t, v, diag);
    return status;
}

neap_status neap_train_inputs_open(neap_trainer *t, neap_diag *diag)
{
    neap_status status = find_given(t, diag);
    if (status != NEAP_OK)
        return status;
    uint32_t unknown = find_role(t, ROLE_UNKNOWN);
    if (unknown != NEAP_NONE)
        return neap_fail(diag, NEAP_UNSUPPORTED, "input \"%s\": neap does not know how to fill it",
                         neap_graph_value(t->graph, unknown)->name);
    uint32_t images = find_role(t, ROLE_IMAGES), tokens = find_role(t, ROLE_TOKENS);
    if (tokens != NEAP_NONE) {
        if (strcmp(t->options.data, "synthetic") != 0)
            return neap_fail(diag, NEAP_UNSUPPORTED,
                             "\"%s\" reads tokens; only synthetic data has them",
                             neap_graph_name(t->graph));
        t->token_count = elements_of(neap_graph_value(t->graph, tokens));
        return NEAP_NEW(t->allocator, 2 * (size_t)t->token_count, &t->tokens, diag);
    }
    return images == NEAP_NONE ? NEAP_OK : open_images(t, images, find_role(t, ROLE_LABELS), diag);
}

void neap_train_inputs_close(neap_trainer *t)
{
    neap_dataset_close(t->dataset);
    NEAP_DELETE(t->allocator, (size_t)t->sample_count, t->sample);
    NEAP_DELETE(t->allocator, 2 * (size_t)t->token_count, t->tokens);
    NEAP_DELETE(t->allocator, t->n_given, t->given);
}

/* ---- Filling ---- */

/* Copies one sample into its place, for any strides. */
static void write_sample(const neap_array *array, int64_t n, const float *sample)
{
    const int64_t *s = array->strides;
    float *base = (float *)array->data + n * s[0];
    uint16_t *halves = (uint16_t *)array->data + n * s[0];
    for (int64_t c = 0; c < array->shape[1]; c++)
        for (int64_t h = 0; h < array->shape[2]; h++)
            for (int64_t w = 0; w < array->shape[3]; w++, sample++) {
                int64_t at = c * s[1] + h * s[2] + w * s[3];
                if (array->dtype == NEAP_F32)
                    base[at] = *sample;
                else
                    halves[at] = neap_to_bf16(*sample);
            }
}

/* A label for an image, or for every pixel: the four quarters of an image have four classes. */
static void write_label(const neap_array *labels, int64_t n, int64_t batch, int64_t classes,
                        int64_t label)
{
    int64_t each = labels->elements / batch, *at = (int64_t *)labels->data + n * each;
    int64_t height = labels->rank == 3 ? labels->shape[1] : 1, width = each / height;
    if (labels->rank != 3) {
        for (int64_t i = 0; i < each; i++)
            at[i] = label;
        return;
    }
    for (int64_t h = 0; h < height; h++)
        for (int64_t w = 0; w < width; w++)
            at[h * width + w] = (label + 2 * (2 * h / height) + 2 * w / width) % classes;
}

static neap_status fill_images(neap_trainer *t, uint32_t images, uint32_t labels, int64_t number,
                               neap_diag *diag)
{
    neap_array pictures, classes = {.elements = 0};
    neap_status status = neap_runner_stage(t->runner, images, &pictures, diag);
    if (status == NEAP_OK && labels != NEAP_NONE)
        status = neap_runner_stage(t->runner, labels, &classes, diag);
    int64_t batch = status == NEAP_OK ? pictures.shape[0] : 0;
    for (int64_t n = 0; n < batch && status == NEAP_OK; n++) {
        int64_t label = 0;
        status = neap_dataset_batch(t->dataset, t->options.seed, number * batch + n, 1, t->sample,
                                    &label, diag);
        if (status != NEAP_OK)
            return status;
        write_sample(&pictures, n, t->sample);
        if (labels != NEAP_NONE)
            write_label(&classes, n, batch, limit_of(t->graph, labels), label);
    }
    if (status == NEAP_OK)
        status = neap_runner_commit(t->runner, images, diag);
    if (status == NEAP_OK && labels != NEAP_NONE)
        status = neap_runner_commit(t->runner, labels, diag);
    return status;
}

static neap_status fill_labels(neap_trainer *t, uint32_t labels, int64_t batch, neap_diag *diag)
{
    neap_array array;
    uint64_t seed = run_random(run_random(t->options.seed, (uint64_t)batch), labels);
    uint64_t limit = (uint64_t)limit_of(t->graph, labels);
    neap_status status = neap_runner_stage(t->runner, labels, &array, diag);
    if (status != NEAP_OK)
        return status;
    for (int64_t i = 0; i < array.elements; i++)
        ((int64_t *)array.data)[i] = (int64_t)(run_random(seed, (uint64_t)i) % limit);
    return neap_runner_commit(t->runner, labels, diag);
}

static neap_status fill_tokens(neap_trainer *t, uint32_t tokens, uint32_t labels, int64_t batch,
                               neap_diag *diag)
{
    const neap_value *v = neap_graph_value(t->graph, tokens);
    int64_t rows = v->shape[0], limit = limit_of(t->graph, tokens);
    if (labels != NEAP_NONE && limit_of(t->graph, labels) < limit)
        limit = limit_of(t->graph, labels);
    neap_status status = neap_synthetic_ids(t->options.seed, batch, rows, t->token_count / rows,
                                            limit, t->tokens, t->tokens + t->token_count, diag);
    if (status == NEAP_OK)
        status = neap_runner_write(t->runner, tokens, t->tokens, diag);
    if (status != NEAP_OK || labels == NEAP_NONE)
        return status;
    if (elements_of(neap_graph_value(t->graph, labels)) != t->token_count)
        return fill_labels(t, labels, batch, diag);
    return neap_runner_write(t->runner, labels, t->tokens + t->token_count, diag);
}

/* Fills the inputs that are the same in every step. */
static neap_status fill_constant(neap_trainer *t, uint32_t value, input_role role, neap_diag *diag)
{
    neap_array array;
    neap_status status = neap_runner_stage(t->runner, value, &array, diag);
    if (status != NEAP_OK)
        return status;
    float number = role == ROLE_LOSS_GRADIENT ? 1 / (float)t->accumulate : 0;
    for (int64_t i = 0; i < array.elements; i++)
        if (role == ROLE_POSITIONS)
            ((int64_t *)array.data)[i] = i % limit_of(t->graph, value);
        else if (role == ROLE_TYPES)
            ((int64_t *)array.data)[i] = 0;
        else if (array.dtype == NEAP_F32)
            ((float *)array.data)[i] = number;
        else
            ((uint16_t *)array.data)[i] = neap_to_bf16(number);
    return neap_runner_commit(t->runner, value, diag);
}

static neap_status fill_numbers(neap_trainer *t, uint32_t value, int64_t batch, neap_diag *diag)
{
    neap_array array;
    uint64_t seed = run_random(run_random(t->options.seed, (uint64_t)batch), value);
    neap_status status = neap_runner_stage(t->runner, value, &array, diag);
    if (status != NEAP_OK)
        return status;
    for (int64_t i = 0; i < array.elements; i++) {
        float number = 2 * (float)run_random_real(seed, (uint64_t)i) - 1;
        if (array.dtype == NEAP_F32)
            ((float *)array.data)[i] = number;
        else
            ((uint16_t *)array.data)[i] = neap_to_bf16(number);
    }
    return neap_runner_commit(t->runner, value, diag);
}

neap_status neap_train_inputs_fill(neap_trainer *t, int64_t batch, neap_diag *diag)
{
    uint32_t labels = find_role(t, ROLE_LABELS);
    bool alone = find_role(t, ROLE_IMAGES) == NEAP_NONE && find_role(t, ROLE_TOKENS) == NEAP_NONE;
    neap_status status = NEAP_OK;
    for (uint32_t v = 0; v < neap_graph_value_count(t->graph) && status == NEAP_OK; v++) {
        if (neap_graph_value(t->graph, v)->producer != NEAP_NONE)
            continue;
        input_role role = role_of(t, v);
        if (role == ROLE_IMAGES)
            status = fill_images(t, v, labels, batch, diag);
        else if (role == ROLE_TOKENS)
            status = fill_tokens(t, v, labels, batch, diag);
        else if (role == ROLE_LABELS && alone)
            status = fill_labels(t, v, batch, diag);
        else if (role == ROLE_NUMBERS)
            status = fill_numbers(t, v, batch, diag);
        else if (role != ROLE_LABELS && role != ROLE_OTHER && role != ROLE_GIVEN)
            status = fill_constant(t, v, role, diag);
    }
    return status;
}
