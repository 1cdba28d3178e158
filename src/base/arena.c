#include "base/arena.h"

#include "base/checked.h"
#include "base/memory.h"

#include <stdalign.h>
#include <string.h>

#define FIRST_CHUNK 4096
#define LAST_CHUNK  ((size_t)1 << 20)

struct neap_arena_chunk {
    neap_arena_chunk *next;
    size_t size; /* of the whole block, header included */
    size_t used;
};

static size_t align_up(size_t size)
{
    size_t mask = alignof(max_align_t) - 1;
    return (size + mask) & ~mask;
}

void neap_arena_init(neap_arena *arena, neap_allocator *allocator)
{
    arena->allocator = neap_allocator_or_system(allocator);
    arena->chunks = NULL;
}

void neap_arena_clear(neap_arena *arena)
{
    while (arena->chunks) {
        neap_arena_chunk *chunk = arena->chunks;
        arena->chunks = chunk->next;
        neap_release(arena->allocator, chunk, chunk->size);
    }
}

/* A new chunk with room for `size` bytes; chunks double up to LAST_CHUNK. */
static neap_arena_chunk *add_chunk(neap_arena *arena, size_t size)
{
    size_t header = align_up(sizeof(neap_arena_chunk));
    size_t chunk_size = arena->chunks ? arena->chunks->size * 2 : FIRST_CHUNK;
    if (chunk_size > LAST_CHUNK)
        chunk_size = LAST_CHUNK;
    if (size > SIZE_MAX - header)
        return NULL;
    if (chunk_size < size + header)
        chunk_size = size + header;
    neap_arena_chunk *chunk = arena->allocator->resize(arena->allocator, NULL, 0, chunk_size);
    if (!chunk)
        return NULL;
    chunk->next = arena->chunks;
    chunk->size = chunk_size;
    chunk->used = header;
    arena->chunks = chunk;
    return chunk;
}

void *neap_arena_alloc(neap_arena *arena, size_t count, size_t item_size)
{
    size_t size;
    if (!neap_mul_size(count, item_size, &size) || size > SIZE_MAX / 2)
        return NULL;
    size = align_up(size ? size : 1);
    neap_arena_chunk *chunk = arena->chunks;
    if (!chunk || chunk->size - chunk->used < size)
        chunk = add_chunk(arena, size);
    if (!chunk)
        return NULL;
    void *block = (char *)chunk + chunk->used;
    chunk->used += size;
    memset(block, 0, size);
    return block;
}

void *neap_arena_copy(neap_arena *arena, const void *items, size_t count, size_t item_size)
{
    void *block = neap_arena_alloc(arena, count, item_size);
    if (block && count && item_size)
        memcpy(block, items, count * item_size);
    return block;
}

char *neap_arena_text(neap_arena *arena, const char *text, size_t length)
{
    char *copy = neap_arena_alloc(arena, length + 1, 1);
    if (copy && length)
        memcpy(copy, text, length);
    return copy;
}
