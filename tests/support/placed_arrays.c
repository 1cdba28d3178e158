#include "placed_arrays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/half.h"
#include "run/arrays.h"

#include <stdlib.h>
#include <string.h>

/* ---- Arrays ---- */

void *allocate(size_t bytes)
{
    void *block = malloc(bytes ? bytes : 1);
    assert_non_null(block);
    return block;
}

size_t item_bytes(const run_array *array)
{
    return (size_t)neap_dtype_bytes(array->dtype);
}

bool is_float(neap_dtype dtype)
{
    return dtype == NEAP_F32 || dtype == NEAP_F64 || dtype == NEAP_BF16;
}

tensor new_tensor(const neap_value *value, neap_dtype dtype)
{
    tensor t = {.array = {.dtype = dtype, .rank = value->rank}};
    memcpy(t.array.shape, value->shape, value->rank * sizeof *value->shape);
    neap_run_array_set_plain(&t.array);
    t.n = neap_run_array_elements(&t.array);
    t.data = allocate((size_t)t.n * item_bytes(&t.array));
    return t;
}

double number_at(const tensor *t, int64_t i)
{
    switch (t->array.dtype) {
    case NEAP_F32:
        return (double)((const float *)t->data)[i];
    case NEAP_F64:
        return ((const double *)t->data)[i];
    case NEAP_BF16:
        return (double)neap_from_bf16(((const uint16_t *)t->data)[i]);
    case NEAP_I64:
        return (double)((const int64_t *)t->data)[i];
    case NEAP_I32:
        return ((const int32_t *)t->data)[i];
    default:
        return ((const uint8_t *)t->data)[i];
    }
}

void set_number(tensor *t, int64_t i, double number)
{
    switch (t->array.dtype) {
    case NEAP_F32:
        ((float *)t->data)[i] = (float)number;
        break;
    case NEAP_F64:
        ((double *)t->data)[i] = number;
        break;
    case NEAP_BF16:
        ((uint16_t *)t->data)[i] = neap_to_bf16((float)number);
        break;
    case NEAP_I64:
        ((int64_t *)t->data)[i] = (int64_t)number;
        break;
    case NEAP_I32:
        ((int32_t *)t->data)[i] = (int32_t)number;
        break;
    default:
        ((uint8_t *)t->data)[i] = (uint8_t)number;
    }
}

/* ---- Operands somewhere in memory ---- */

void visit_rows(placed *p, row_visit *visit, void *other)
{
    const run_array *array = &p->array;
    int64_t n = neap_run_array_elements(array), row = array->shape[array->rank - 1];
    if (neap_run_array_is_plain(array))
        row = n;
    else if (array->strides[array->rank - 1] != 1)
        row = 1;
    for (int64_t element = 0; element < n; element += row) {
        int64_t offset = 0, rest = element;
        for (uint32_t d = array->rank; d-- > 0; rest /= array->shape[d])
            offset += rest % array->shape[d] * array->strides[d];
        visit(p, offset, element, row, other);
    }
}

run_block new_block(size_t bytes)
{
    run_block block = {0};
    neap_diag diag = {0};
    if (neap_run_block_create((int64_t)bytes, &block, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    return block;
}

void fill_garbage(unsigned char *bytes, size_t count, random_source *garbage)
{
    uint64_t word = 0;
    if (!garbage)
        memset(bytes, 0xFF, count);
    for (size_t i = 0; garbage && i < count; i++) {
        if (i % 8 == 0)
            word = run_random(garbage->state, i);
        bytes[i] = (unsigned char)(word >> i % 8 * 8);
    }
    if (garbage)
        random_below(garbage, 2);
}

run_array some_layout(const run_array *plain, bool keep_plain, random_source *random,
                      int64_t *elements, int64_t *begin)
{
    run_array array = *plain, whole = *plain;
    bool part = !keep_plain && random_below(random, 3) == 0;
    *begin = 0;
    for (uint32_t d = 0; part && d < whole.rank; d++)
        whole.shape[d] += random_below(random, 2) * random_below(random, 4);
    if (!keep_plain && random_below(random, 2))
        neap_run_array_set_channels_last(&whole);
    else
        neap_run_array_set_plain(&whole);
    for (uint32_t d = 0; d < whole.rank; d++)
        *begin += random_below(random, (uint32_t)(whole.shape[d] - array.shape[d] + 1)) *
                  whole.strides[d];
    memcpy(array.strides, whole.strides, sizeof array.strides);
    *elements = neap_run_array_elements(&whole);
    return array;
}

void place(placed *p, random_source *layout, random_source *garbage, const run_array *plain,
           bool keep_plain)
{
    int64_t elements, begin;
    p->array = some_layout(plain, keep_plain, layout, &elements, &begin);
    p->bytes = RED_ZONE + (size_t)elements * item_bytes(plain);
    p->memory = new_block(p->bytes);
    p->block = p->memory.data;
    p->before = allocate(p->bytes);
    fill_garbage(p->block, p->bytes, garbage);
    p->first = p->block + RED_ZONE + (size_t)begin * item_bytes(plain);
}

void put_row(placed *p, int64_t offset, int64_t element, int64_t count, void *other)
{
    size_t size = item_bytes(&p->array);
    const tensor *t = other;
    memcpy(p->first + (size_t)offset * size,
           (const unsigned char *)t->data + (size_t)element * size, (size_t)count * size);
}

void get_row(placed *p, int64_t offset, int64_t element, int64_t count, void *other)
{
    size_t size = item_bytes(&p->array);
    memcpy((unsigned char *)other + (size_t)element * size, p->first + (size_t)offset * size,
           (size_t)count * size);
}

/* What stands there now is what stood there before. */
static void accept_row(placed *p, int64_t offset, int64_t element, int64_t count, void *other)
{
    (void)element;
    (void)other;
    size_t size = item_bytes(&p->array);
    size_t at = (size_t)(p->first - p->block) + (size_t)offset * size;
    memcpy(p->before + at, p->block + at, (size_t)count * size);
}

bool untouched(placed *p, bool result)
{
    if (result)
        visit_rows(p, accept_row, NULL);
    return memcmp(p->before, p->block, p->bytes) == 0;
}

void clear_placed(placed *p)
{
    neap_run_block_destroy(&p->memory);
    free(p->before);
}
