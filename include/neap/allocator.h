/*
 * neap/allocator.h - how neap allocates its own memory.
 *
 * Calls that create an object take an allocator; NULL means the system allocator. The object keeps
 * the allocator for its whole life. To write your own, embed a neap_allocator as the first member
 * of a struct:
 *
 *     typedef struct { neap_allocator base; size_t in_use; } counting_allocator;
 *
 * It must outlive every object made with it. An object may be used by one thread at a time. An
 * allocator shared by objects on several threads must be thread-safe (the system allocator is).
 */
#ifndef NEAP_ALLOCATOR_H
#define NEAP_ALLOCATOR_H

#include <neap/version.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_allocator neap_allocator;

struct neap_allocator {
    /*
     * Resizes `block` from `old_size` to `new_size` bytes and returns it. The block may move; its
     * contents move with it. If `block` is NULL (old_size 0), allocates a new block. If new_size is
     * 0, releases the block and returns NULL. If it returns NULL for new_size > 0, memory is
     * exhausted and `block` is unchanged. Blocks are aligned for any C type.
     */
    void *(*resize)(neap_allocator *self, void *block, size_t old_size, size_t new_size);
};

/* The system allocator: malloc and its relatives. Used wherever an allocator is NULL. */
NEAP_API neap_allocator *neap_allocator_system(void);

/* Releases a block that a call returned (a text, an array). `allocator` must be the one passed to
 * that call. */
NEAP_API void neap_release(neap_allocator *allocator, void *block, size_t size);

#ifdef __cplusplus
}
#endif
#endif
