#include "memory.h"

#include <neap/allocator.h>
#include <stdint.h>
#include <string.h>

void *cli_memory_resize(void *block, size_t old_size, size_t new_size)
{
    neap_allocator *system = neap_allocator_system();
    return system->resize(system, block, old_size, new_size);
}

void *cli_memory_new(size_t count, size_t item_size)
{
    if (count == 0 || count > SIZE_MAX / item_size)
        return NULL;
    void *block = cli_memory_resize(NULL, 0, count * item_size);
    if (block)
        memset(block, 0, count * item_size);
    return block;
}

void cli_memory_release(void *block, size_t count, size_t item_size)
{
    if (block)
        cli_memory_resize(block, count * item_size, 0);
}
