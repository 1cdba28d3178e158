/*
 * Columns: arrays of one length that grow together, in one block of memory.
 *
 * Reserving is all or nothing: where it fails, no array has moved. One call releases all of them.
 *
 *     status = NEAP_RESERVE_COLUMNS(&table->columns, allocator, count + 1, diag,
 *                                   NEAP_COLUMN(&table->names), NEAP_COLUMN(&table->sizes));
 *     ...
 *     neap_columns_clear(&table->columns, allocator);
 */
#ifndef NEAP_BASE_COLUMNS_H
#define NEAP_BASE_COLUMNS_H

#include <neap/allocator.h>
#include <neap/status.h>

typedef struct neap_columns {
    void *block;
    size_t capacity; /* items of each array */
    size_t size;     /* of the block, in bytes */
} neap_columns;

typedef struct neap_column {
    void *array; /* T ** */
    size_t item_size;
} neap_column;

#define NEAP_COLUMN(array)                                                                         \
    {                                                                                              \
        (array), sizeof **(array)                                                                  \
    }

/* Use the functions below. */
neap_status neap_columns_grow(neap_columns *columns, neap_allocator *allocator, size_t needed,
                              const neap_column *arrays, size_t n_arrays, neap_diag *diag);

/* Makes room for `needed` items in each array, the same arrays in every call; grows by half at
   least, new room is zeroed. */
static inline neap_status neap_columns_reserve(neap_columns *columns, neap_allocator *allocator,
                                               size_t needed, const neap_column *arrays,
                                               size_t n_arrays, neap_diag *diag)
{
    if (needed <= columns->capacity)
        return NEAP_OK;
    return neap_columns_grow(columns, allocator, needed, arrays, n_arrays, diag);
}

#define NEAP_RESERVE_COLUMNS(columns, allocator, needed, diag, ...)                                \
    neap_columns_reserve((columns), (allocator), (needed), (const neap_column[]){__VA_ARGS__},     \
                         sizeof((const neap_column[]){__VA_ARGS__}) / sizeof(neap_column), (diag))

/* Releases all arrays. Their pointers are the caller's to forget. */
void neap_columns_clear(neap_columns *columns, neap_allocator *allocator);

#endif
