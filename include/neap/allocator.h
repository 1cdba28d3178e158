/*
 * neap/allocator.h - where neap's own memory comes from.
 *
 * Calls that create an object take an allocator, which may be NULL for the system's; the object
 * keeps it for its whole life. An allocator of your own is a struct that begins with a
 * neap_allocator:
 *
 *     typedef struct { neap_allocator base; size_t in_use; } counting_allocator;
 *
 * It must outlive every object made with it. One object is used by one thread at a time; an
 * allocator shared by objects of several threads must be thread-safe itself (the system's is).
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
     * Resizes `block` from `old_size` to `new_size` bytes and returns it, perhaps at a new address
     * with the old contents. A NULL block is a new one (old_size 0); new_size 0 releases it and
     * returns NULL. NULL for new_size > 0 means out of memory, and `block` is as it was. Blocks are
     * aligned for any C type.
     */
    void *(*resize)(neap_allocator *self, void *block, size_t old_size, size_t new_size);
};

/* The C library's allocator. What a NULL allocator stands for. */
NEAP_API neap_allocator *neap_allocator_system(void);

/* Releases a block that a call handed over (a text, an array). `allocator` is the one given to that
 * call. */
NEAP_API void neap_release(neap_allocator *allocator, void *block, size_t size);

#ifdef __cplusplus
}
#endif
#endif
