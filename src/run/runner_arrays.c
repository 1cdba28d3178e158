/* Access to the arrays of inputs and outputs: where they lie, or by way of the host. */
#include "base/fail.h"
#include "run/runner_internal.h"

#include <string.h>

/* The bytes from the first element of an array to past its last. */
static size_t span_of(const run_array *array)
{
    int64_t last = 0;
    for (uint32_t d = 0; d < array->rank; d++)
        last += (array->shape[d] - 1) * array->strides[d];
    return (size_t)((last + 1) * neap_dtype_bytes(array->dtype));
}

/* Where the array is: on the device, or in host memory (state that the plan keeps there). */
static neap_status find_array(neap_runner *runner, uint32_t value, neap_array *array, bool *remote,
                              neap_diag *diag)
{
    const neap_graph *graph = runner->specs.graph; /* the whole one */
    if (value >= neap_graph_value_count(graph))
        return neap_fail(diag, NEAP_INVALID, "there is no value %lu", (unsigned long)value);
    const neap_value *v = neap_graph_value(graph, value);
    if (v->producer != NEAP_NONE && !neap_graph_is_output(graph, value))
        return neap_fail(diag, NEAP_INVALID, "value \"%s\" is neither an input nor an output",
                         v->name);
    const run_array *like = &runner->specs.arrays.items[value];
    int64_t home = runner->program.homes[value];
    *remote = home < 0 && runner->backend->type->device;
    *array =
        (neap_array){.data = home < 0 ? runner->program.finals[value] : runner->host.data + home,
                     .dtype = like->dtype,
                     .rank = like->rank,
                     .shape = like->shape,
                     .strides = like->strides,
                     .elements = neap_run_array_elements(like),
                     .plain = neap_run_array_is_plain(like)};
    return NEAP_OK;
}

/* Replaces the device's address by that of the mirror. */
static neap_status mirror(neap_runner *runner, uint32_t value, bool with_contents,
                          neap_array *array, neap_diag *diag)
{
    run_block *block = &runner->mirrors[value];
    size_t bytes = span_of(&runner->specs.arrays.items[value]);
    neap_status status = NEAP_OK;
    if (!block->data && neap_graph_value(runner->specs.graph, value)->state)
        status = neap_run_block_create((int64_t)bytes, block, diag); /* copied once in a while */
    else if (!block->data)
        status = neap_run_block_create_for(runner->backend, true, (int64_t)bytes, block, diag);
    if (status == NEAP_OK && with_contents)
        status = runner->backend->type->device->copy(runner->backend, false, block->data,
                                                     array->data, bytes, diag);
    array->data = block->data;
    return status;
}

neap_status neap_runner_array(neap_runner *runner, uint32_t value, neap_array *array,
                              neap_diag *diag)
{
    bool remote = false;
    neap_status status = find_array(runner, value, array, &remote, diag);
    return status == NEAP_OK && remote ? mirror(runner, value, true, array, diag) : status;
}

static neap_status check_input(const neap_runner *runner, uint32_t value, neap_diag *diag)
{
    const neap_value *v = neap_graph_value(runner->specs.graph, value);
    return v->producer == NEAP_NONE
               ? NEAP_OK
               : neap_fail(diag, NEAP_INVALID, "value \"%s\" is not an input", v->name);
}

neap_status neap_runner_stage(neap_runner *runner, uint32_t value, neap_array *array,
                              neap_diag *diag)
{
    bool remote = false;
    neap_status status = find_array(runner, value, array, &remote, diag);
    if (status == NEAP_OK)
        status = check_input(runner, value, diag);
    return status == NEAP_OK && remote ? mirror(runner, value, false, array, diag) : status;
}

neap_status neap_runner_commit(neap_runner *runner, uint32_t value, neap_diag *diag)
{
    neap_array array = {.data = NULL};
    bool remote = false;
    neap_status status = find_array(runner, value, &array, &remote, diag);
    if (status != NEAP_OK || !remote)
        return status;
    if (!runner->mirrors[value].data)
        return neap_fail(diag, NEAP_INVALID, "value \"%s\" was not staged",
                         neap_graph_value(runner->specs.graph, value)->name);
    return runner->backend->type->device->copy(runner->backend, true, array.data,
                                               runner->mirrors[value].data,
                                               span_of(&runner->specs.arrays.items[value]), diag);
}

/* Copies the elements in row-major order: one by one, or all at once if the array is row-major. */
static void copy_elements(const neap_array *array, unsigned char *plain, bool in)
{
    size_t size = (size_t)neap_dtype_bytes(array->dtype);
    unsigned char *data = array->data;
    int64_t at[NEAP_MAX_RANK] = {0}, place = 0;
    if (array->plain) {
        memcpy(in ? data : plain, in ? plain : data, size * (size_t)array->elements);
        return;
    }
    for (int64_t i = 0; i < array->elements; i++, plain += size) {
        unsigned char *element = data + (size_t)place * size;
        memcpy(in ? element : plain, in ? plain : element, size);
        for (uint32_t d = array->rank; d-- > 0;) {
            place += array->strides[d];
            if (++at[d] < array->shape[d])
                break;
            place -= array->strides[d] * array->shape[d];
            at[d] = 0;
        }
    }
}

neap_status neap_runner_write(neap_runner *runner, uint32_t value, const void *elements,
                              neap_diag *diag)
{
    neap_array array;
    neap_status status = neap_runner_stage(runner, value, &array, diag);
    if (status != NEAP_OK)
        return status;
    copy_elements(&array, (unsigned char *)(uintptr_t)elements, true);
    return neap_runner_commit(runner, value, diag);
}

neap_status neap_runner_read(neap_runner *runner, uint32_t value, void *elements, neap_diag *diag)
{
    neap_array array;
    neap_status status = neap_runner_array(runner, value, &array, diag);
    if (status == NEAP_OK)
        copy_elements(&array, elements, false);
    return status;
}
