/*
 * memory.h - the command's own memory: zeroed arrays from neap's system allocator.
 *
 * A block is given back with the counts it was made with. NULL means out of memory (or a count of
 * 0).
 */
#ifndef NEAP_CLI_MEMORY_H
#define NEAP_CLI_MEMORY_H

#include <stddef.h>

void *cli_memory_new(size_t count, size_t item_size);
void cli_memory_release(void *block, size_t count, size_t item_size);
/* Changes a block of bytes; NULL and the block as it was when there is no memory. */
void *cli_memory_resize(void *block, size_t old_size, size_t new_size);

#endif
