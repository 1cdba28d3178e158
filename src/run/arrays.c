/* Strides of every value of a graph. */
#include "run/arrays.h"

#include "base/fail.h"
#include "base/memory.h"
#include "graph/strides.h"

#include <string.h>

/* ---- One array ---- */

int64_t neap_run_array_elements(const run_array *array)
{
    int64_t elements = 1;
    for (uint32_t d = 0; d < array->rank; d++)
        elements *= array->shape[d];
    return elements;
}

/* Strides of an array whose dimensions are stored in the given order, innermost last. */
static void set_strides(run_array *array, const uint32_t *order)
{
    int64_t stride = 1;
    for (uint32_t i = array->rank; i-- > 0;) {
        array->strides[order[i]] = stride;
        stride *= array->shape[order[i]];
    }
}

static const uint32_t plain_order[NEAP_MAX_RANK] = {0, 1, 2, 3, 4, 5};
static const uint32_t channels_last_order[NEAP_MAX_RANK] = {0, 2, 3, 1, 4, 5};

void neap_run_array_set_plain(run_array *array)
{
    set_strides(array, plain_order);
}

void neap_run_array_set_channels_last(run_array *array)
{
    set_strides(array, array->rank == 4 ? channels_last_order : plain_order);
}

run_array neap_run_array_repeat(const run_array *array, const run_array *like)
{
    run_array repeated = *like;
    uint32_t lead = like->rank - array->rank;
    repeated.dtype = array->dtype;
    for (uint32_t d = 0; d < like->rank; d++)
        repeated.strides[d] = d < lead ? 0 : array->strides[d - lead];
    return repeated;
}

run_array neap_run_array_without(const run_array *array, uint32_t axis)
{
    run_array rows = *array;
    if (array->rank == 1) {
        rows.shape[0] = 1;
        return rows;
    }
    rows.rank--;
    for (uint32_t d = axis; d < rows.rank; d++) {
        rows.shape[d] = array->shape[d + 1];
        rows.strides[d] = array->strides[d + 1];
    }
    return rows;
}

run_array neap_run_array_cut(const run_array *array, uint32_t axis, int64_t extent)
{
    run_array part = *array;
    part.shape[axis] = extent;
    return part;
}

run_array neap_run_array_counter(const run_array *like)
{
    run_array counter = *like;
    neap_run_array_set_plain(&counter);
    return counter;
}

bool neap_run_array_same_strides(const run_array *a, const run_array *b)
{
    if (a->rank != b->rank)
        return false;
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->shape[d] != b->shape[d] || (a->shape[d] > 1 && a->strides[d] != b->strides[d]))
            return false;
    return true;
}

bool neap_run_array_is_plain(const run_array *array)
{
    run_array plain = *array;
    neap_run_array_set_plain(&plain);
    return neap_run_array_same_strides(array, &plain);
}

bool neap_run_array_is_channels_last(const run_array *array)
{
    run_array like = *array;
    neap_run_array_set_channels_last(&like);
    return array->rank == 4 && neap_run_array_same_strides(array, &like);
}

bool neap_run_array_is_dense(const run_array *array)
{
    bool used[NEAP_MAX_RANK] = {false};
    int64_t expected = 1;
    for (uint32_t placed = 0; placed < array->rank; placed++) {
        uint32_t next = array->rank;
        for (uint32_t d = 0; d < array->rank && next == array->rank; d++)
            if (!used[d] && (array->shape[d] == 1 || array->strides[d] == expected))
                next = d;
        if (next == array->rank)
            return false;
        used[next] = true;
        expected *= array->shape[next];
    }
    return true;
}

/* ---- Views ---- */

static bool reshape_strides(const run_array *old, run_array *view)
{
    return neap_strides_reshape(old->rank, old->shape, old->strides, view->rank, view->shape,
                                view->strides);
}

typedef struct shaper {
    const neap_graph *graph;
    run_arrays *arrays;
    bool *plain; /* by storage: must be row-major, not channels-last */
    const neap_backend *backend;
    neap_diag *diag;
} shaper;

static uint32_t output_index(const neap_op *op, uint32_t value)
{
    uint32_t i = 0;
    while (op->outputs[i] != value)
        i++;
    return i;
}

/* Part of an axis: the view has its own shape and the strides of the whole. */
static void set_part(const run_arrays *arrays, uint32_t whole, uint32_t value, int64_t axis,
                     int64_t begin)
{
    const run_array *from = &arrays->items[whole];
    run_array *view = &arrays->items[value];
    memcpy(view->strides, from->strides, sizeof view->strides);
    arrays->begins[value] =
        arrays->begins[whole] + begin * from->strides[axis] * neap_dtype_bytes(view->dtype);
}

/* False if no strides express the view. */
static bool set_view(const shaper *s, uint32_t value)
{
    const neap_value *v = neap_graph_value(s->graph, value);
    run_array *view = &s->arrays->items[value];
    if (v->producer ==
        NEAP_NONE) { /* an input that shares another input's storage: the same elements */
        s->arrays->begins[value] = s->arrays->begins[v->view_of];
        return reshape_strides(&s->arrays->items[v->view_of], view);
    }
    const neap_op *op = neap_graph_op(s->graph, v->producer);
    uint32_t whole = op->inputs[0];
    int64_t axis = neap_run_spec_int(&(run_spec){.op = op}, "axis", 0);
    if (strcmp(op->type, "slice") == 0) {
        set_part(s->arrays, whole, value, axis,
                 neap_run_spec_int(&(run_spec){.op = op}, "begin", 0));
        return true;
    }
    if (strcmp(op->type, "split") == 0) {
        set_part(s->arrays, whole, value, axis, output_index(op, value) * view->shape[axis]);
        return true;
    }
    s->arrays->begins[value] = s->arrays->begins[whole];
    return reshape_strides(&s->arrays->items[whole], view);
}

static neap_status check_value(const neap_value *value, neap_diag *diag)
{
    if (value->extra && strstr(value->extra, "\"piece_of\":"))
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "value \"%s\" is a piece, and kernels need whole values: run the graph "
                         "that was split, and split it when it is loaded",
                         value->name);
    if (value->dtype == NEAP_DTYPE_UNKNOWN || value->rank == 0 || value->rank > NEAP_MAX_RANK)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "value \"%s\" has no type or shape: a graph needs both to run",
                         value->name);
    int64_t bytes = neap_dtype_bytes(value->dtype);
    for (uint32_t d = 0; d < value->rank; d++)
        if (value->shape[d] < 1 || value->shape[d] > INT64_MAX / bytes)
            return neap_fail(diag, NEAP_UNSUPPORTED, "value \"%s\": its shape cannot be run",
                             value->name);
        else
            bytes *= value->shape[d];
    if (value->view_of == NEAP_NONE && value->bytes != bytes)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "value \"%s\" has %lld bytes, its shape takes %lld", value->name,
                         (long long)value->bytes, (long long)bytes);
    return NEAP_OK;
}

static bool reads_moments(const neap_graph *graph, const neap_op *op)
{
    for (uint32_t i = 0; i < op->n_inputs; i++)
        if (strcmp(neap_graph_value(graph, op->inputs[i])->kind, NEAP_KIND_STATE) == 0)
            return true;
    return false;
}

/* Whether a gradient is that of a parameter: an output of the graph, or what an update reads. */
static bool is_result(const neap_graph *graph, uint32_t value)
{
    uint32_t count;
    const uint32_t *readers = neap_graph_readers(graph, value, &count);
    for (uint32_t i = 0; i < count; i++) {
        const neap_op *op = neap_graph_op(graph, readers[i]);
        if (op->n_updates > 0 || reads_moments(graph, op))
            return true;
    }
    return neap_graph_is_output(graph, value);
}

static bool is_conv(const neap_op *op)
{
    return strncmp(op->type, "conv2d", strlen("conv2d")) == 0 ||
           strncmp(op->type, "conv_transpose2d", strlen("conv_transpose2d")) == 0;
}

/* Whether a value that is no parameter is the weight of a convolution, or the gradient of one. */
static bool is_filter(const neap_graph *graph, uint32_t value)
{
    uint32_t count, producer = neap_graph_value(graph, value)->producer;
    const uint32_t *readers = neap_graph_readers(graph, value, &count);
    const neap_op *maker = producer == NEAP_NONE ? NULL : neap_graph_op(graph, producer);
    if (maker && is_conv(maker) && strstr(maker->type, "_bw_weight"))
        return true;
    for (uint32_t i = 0; i < count; i++) {
        const neap_op *op = neap_graph_op(graph, readers[i]);
        if (is_conv(op) && !strstr(op->type, "_bw_weight") && op->n_inputs > 1 &&
            op->inputs[1] == value)
            return true;
    }
    return false;
}

/* Whether a value that is not a view is stored channels-last. */
static bool is_channels_last(const shaper *s, uint32_t value)
{
    const neap_value *v = neap_graph_value(s->graph, value);
    bool filter = strcmp(v->kind, NEAP_KIND_PARAMETER) == 0 ||
                  strcmp(v->kind, NEAP_KIND_STATE) == 0 || is_filter(s->graph, value) ||
                  (strcmp(v->kind, NEAP_KIND_GRADIENT) == 0 && is_result(s->graph, value));
    return v->rank == 4 && !s->plain[value] &&
           (filter ? s->backend->channels_last_filters : s->backend->channels_last);
}

static neap_status shape_value(const shaper *s, uint32_t value, bool *again)
{
    const neap_value *v = neap_graph_value(s->graph, value);
    run_array *array = &s->arrays->items[value];
    *array = (run_array){.dtype = v->dtype, .rank = v->rank};
    memcpy(array->shape, v->shape, v->rank * sizeof *v->shape);
    if (v->view_of == NEAP_NONE) {
        if (is_channels_last(s, value))
            neap_run_array_set_channels_last(array);
        else
            neap_run_array_set_plain(array);
        return NEAP_OK;
    }
    if (set_view(s, value))
        return NEAP_OK;
    /* another view of this storage may have asked for the same in this very pass */
    if (s->plain[v->storage] && !*again)
        return neap_fail(s->diag, NEAP_UNSUPPORTED,
                         "value \"%s\" is a view that cannot be expressed by strides", v->name);
    s->plain[v->storage] = *again = true;
    return NEAP_OK;
}

/*
 * Inputs first, then the results of ops in the graph's order, so that the base of a view precedes
 * it.
 */
static neap_status shape_all(const shaper *s, bool *again)
{
    neap_status status = NEAP_OK;
    *again = false;
    for (int views = 0; views < 2; views++)
        for (uint32_t v = 0; v < s->arrays->count && status == NEAP_OK; v++) {
            const neap_value *value = neap_graph_value(s->graph, v);
            if (value->producer == NEAP_NONE && (value->view_of != NEAP_NONE) == views)
                status = shape_value(s, v, again);
        }
    for (uint32_t o = 0; o < neap_graph_op_count(s->graph); o++)
        for (uint32_t i = 0; i < neap_graph_op(s->graph, o)->n_outputs && status == NEAP_OK; i++)
            status = shape_value(s, neap_graph_op(s->graph, o)->outputs[i], again);
    return status;
}

/* An op can run in place only if both arrays have the same strides: if not, both are row-major. */
static void align_in_place(const shaper *s, bool *again)
{
    for (uint32_t o = 0; o < neap_graph_op_count(s->graph); o++) {
        const neap_op *op = neap_graph_op(s->graph, o);
        if (op->in_place_input == NEAP_NONE ||
            neap_run_array_same_strides(&s->arrays->items[op->in_place_input],
                                        &s->arrays->items[op->in_place_output]))
            continue;
        uint32_t from = neap_graph_value(s->graph, op->in_place_input)->storage,
                 to = neap_graph_value(s->graph, op->in_place_output)->storage;
        *again = *again || !s->plain[from] || !s->plain[to];
        s->plain[from] = s->plain[to] = true;
    }
}

neap_status neap_run_arrays_init(neap_allocator *allocator, const neap_graph *graph,
                                 const neap_backend *backend, run_arrays *arrays, neap_diag *diag)
{
    uint32_t count = neap_graph_value_count(graph);
    *arrays = (run_arrays){.count = count, .allocator = allocator};
    shaper s = {.graph = graph, .arrays = arrays, .backend = backend, .diag = diag};
    neap_status status = NEAP_OK;
    for (uint32_t v = 0; v < count && status == NEAP_OK; v++)
        status = check_value(neap_graph_value(graph, v), diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, count, &arrays->items, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, count, &arrays->begins, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, count, &s.plain, diag);
    for (bool again = true; again && status == NEAP_OK;) {
        status = shape_all(&s, &again);
        if (status == NEAP_OK)
            align_in_place(&s, &again);
    }
    NEAP_DELETE(allocator, count, s.plain);
    return status;
}

void neap_run_arrays_clear(run_arrays *arrays)
{
    NEAP_DELETE(arrays->allocator, arrays->count, arrays->items);
    NEAP_DELETE(arrays->allocator, arrays->count, arrays->begins);
    memset(arrays, 0, sizeof *arrays);
}
