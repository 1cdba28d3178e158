/* An arena: many small blocks that live and die together. */
#ifndef NEAP_BASE_ARENA_H
#define NEAP_BASE_ARENA_H

#include <neap/allocator.h>
#include <neap/status.h>

typedef struct neap_arena_chunk neap_arena_chunk;

typedef struct neap_arena {
    neap_allocator *allocator;
    neap_arena_chunk *chunks; /* newest first; blocks are cut from the newest */
} neap_arena;

void neap_arena_init(neap_arena *arena, neap_allocator *allocator);
void neap_arena_clear(neap_arena *arena);

/* A zeroed block, aligned for any type, or NULL when out of memory. Size 0 gives a valid address.
 */
void *neap_arena_alloc(neap_arena *arena, size_t count, size_t item_size);
/* A copy of an array. */
void *neap_arena_copy(neap_arena *arena, const void *items, size_t count, size_t item_size);
/* A copy of `length` bytes, followed by a NUL. */
char *neap_arena_text(neap_arena *arena, const char *text, size_t length);

/* The typed form: sets `array` to a zeroed array; false when out of memory. */
#define NEAP_TAKE(arena, count, array)                                                             \
    (((array) = neap_arena_alloc((arena), (count), sizeof *(array))) != NULL)

#endif
