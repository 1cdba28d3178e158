/* The one file that calls the C library's allocator. */
#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static void *system_resize(neap_allocator *self, void *block, size_t old_size, size_t new_size)
{
    (void)self;
    (void)old_size;
    if (new_size == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, new_size);
}

neap_allocator *neap_allocator_system(void)
{
    static neap_allocator allocator = {system_resize};
    return &allocator;
}

void neap_release(neap_allocator *allocator, void *block, size_t size)
{
    allocator = neap_allocator_or_system(allocator);
    if (block)
        allocator->resize(allocator, block, size, 0);
}

/* The arguments named `array` are the addresses of typed pointers; memcpy keeps to the aliasing
 * rules. */
static void *load_pointer(const void *array)
{
    void *pointer;
    memcpy(&pointer, array, sizeof pointer);
    return pointer;
}

static void store_pointer(void *array, void *pointer)
{
    memcpy(array, &pointer, sizeof pointer);
}

neap_status neap_new_array(neap_allocator *allocator, size_t count, size_t item_size, void *array,
                           neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    store_pointer(array, NULL);
    if (count == 0)
        return NEAP_OK;
    size_t size;
    if (!neap_mul_size(count, item_size, &size))
        return neap_fail_no_memory(diag);
    void *block = allocator->resize(allocator, NULL, 0, size);
    if (!block)
        return neap_fail_no_memory(diag);
    memset(block, 0, size);
    store_pointer(array, block);
    return NEAP_OK;
}

void neap_delete_array(neap_allocator *allocator, size_t count, size_t item_size, void *array)
{
    neap_release(allocator, array, count * item_size);
}

neap_status neap_reserve(neap_allocator *allocator, size_t needed, size_t item_size, void *array,
                         size_t *capacity, neap_diag *diag)
{
    if (needed <= *capacity)
        return NEAP_OK;
    allocator = neap_allocator_or_system(allocator);
    size_t wanted = *capacity + *capacity / 2;
    if (wanted < needed)
        wanted = needed;
    if (wanted < 8)
        wanted = 8;
    size_t size;
    if (!neap_mul_size(wanted, item_size, &size))
        return neap_fail_no_memory(diag);
    size_t old_size = *capacity * item_size;
    char *block = allocator->resize(allocator, load_pointer(array), old_size, size);
    if (!block)
        return neap_fail_no_memory(diag);
    memset(block + old_size, 0, size - old_size);
    store_pointer(array, block);
    *capacity = wanted;
    return NEAP_OK;
}
