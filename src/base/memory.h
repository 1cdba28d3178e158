/*
 * Allocation for the library's own use: sizes are checked, failures come as a status.
 *
 * Two shapes cover nearly everything: a fixed array (neap_new_array / neap_delete_array) and a
 * growing one (neap_reserve, in a struct that keeps items, count and capacity). A NULL allocator is
 * the system's.
 */
#ifndef NEAP_BASE_MEMORY_H
#define NEAP_BASE_MEMORY_H

#include <neap/allocator.h>
#include <neap/status.h>

static inline neap_allocator *neap_allocator_or_system(neap_allocator *allocator)
{
    return allocator ? allocator : neap_allocator_system();
}

/* A zeroed array of count items into *(T **)array. A count of 0 gives NULL. */
neap_status neap_new_array(neap_allocator *allocator, size_t count, size_t item_size, void *array,
                           neap_diag *diag);
/* Releases an array of neap_new_array, with the same count and size. `array` may be NULL. */
void neap_delete_array(neap_allocator *allocator, size_t count, size_t item_size, void *array);

/*
 * Makes room for `needed` items in the growing array *(T **)array of *capacity items; grows by half
 * at least, new room is zeroed. On failure nothing changes. Release with
 * neap_delete_array(capacity).
 */
neap_status neap_reserve(neap_allocator *allocator, size_t needed, size_t item_size, void *array,
                         size_t *capacity, neap_diag *diag);

/* Typed forms: the size cannot be wrong. */
#define NEAP_NEW(allocator, count, array, diag)                                                    \
    neap_new_array((allocator), (count), sizeof **(array), (array), (diag))
#define NEAP_DELETE(allocator, count, array)                                                       \
    neap_delete_array((allocator), (count), sizeof *(array), (array))
#define NEAP_RESERVE(allocator, needed, array, capacity, diag)                                     \
    neap_reserve((allocator), (needed), sizeof **(array), (array), (capacity), (diag))

#endif
