#include "base/columns.h"

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"

#include <stdalign.h>
#include <string.h>

/* The offset of the array after one of `count` items at `offset`; false on overflow. */
static bool end_of(size_t offset, size_t count, size_t item_size, size_t *end)
{
    size_t size, mask = alignof(max_align_t) - 1;
    if (!neap_mul_size(count, item_size, &size) || size > SIZE_MAX / 2 - mask - offset)
        return false;
    *end = (offset + size + mask) & ~mask;
    return true;
}

neap_status neap_columns_grow(neap_columns *columns, neap_allocator *allocator, size_t needed,
                              const neap_column *arrays, size_t n_arrays, neap_diag *diag)
{
    size_t old = columns->capacity, capacity = old + old / 2, size = 0, offset = 0;
    capacity = capacity > needed ? capacity : needed;
    capacity = capacity > 8 ? capacity : 8;
    for (size_t i = 0; i < n_arrays; i++)
        if (!end_of(size, capacity, arrays[i].item_size, &size))
            return neap_fail_no_memory(diag);
    char *block;
    NEAP_TRY(NEAP_NEW(allocator, size, &block, diag));
    for (size_t i = 0; i < n_arrays; i++) {
        char *from, *to = block + offset;
        memcpy(&from, arrays[i].array, sizeof from);
        if (old > 0)
            memcpy(to, from, old * arrays[i].item_size);
        memcpy(arrays[i].array, &to, sizeof to);
        end_of(offset, capacity, arrays[i].item_size, &offset);
    }
    neap_columns_clear(columns, allocator);
    *columns = (neap_columns){block, capacity, size};
    return NEAP_OK;
}

void neap_columns_clear(neap_columns *columns, neap_allocator *allocator)
{
    neap_release(allocator, columns->block, columns->size);
    *columns = (neap_columns){0};
}
