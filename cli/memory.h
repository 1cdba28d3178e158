/*
 * memory.h - the command's own memory: zeroed arrays from neap's system allocator.
 *
 * A block is released with the counts it was allocated with. NULL means out of memory (or a count
 * of 0).
 */
#ifndef NEAP_CLI_MEMORY_H
#define NEAP_CLI_MEMORY_H

#include <stddef.h>

void *cli_memory_new(size_t count, size_t item_size);
void cli_memory_release(void *block, size_t count, size_t item_size);
/* Resizes a block of bytes; if there is no memory, returns NULL and leaves the block unchanged. */
void *cli_memory_resize(void *block, size_t old_size, size_t new_size);

#endif
