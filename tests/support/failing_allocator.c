#include "failing_allocator.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIVE UINT32_C(0x6e656170)
#define DEAD  UINT32_C(0xdeadbeef)

/* Stands before each block. */
typedef struct header {
    alignas(max_align_t) size_t size;
    uint32_t state;
} header;

static void note(failing_allocator *self, const char *fault)
{
    if (!self->fault)
        self->fault = fault;
}

static void check_block(failing_allocator *self, const header *old, size_t old_size)
{
    if (!old && old_size != 0)
        note(self, "a new block with an old size");
    else if (old && old->state == DEAD)
        note(self, "a block that was given back already");
    else if (old && old->state != ALIVE)
        note(self, "a block of somebody else's");
    else if (old && old->size != old_size)
        note(self, "a block with a size that is not its own");
}

static void give_back(failing_allocator *self, header *old)
{
    if (!old)
        return;
    self->live_bytes -= old->size;
    self->live_blocks--;
    old->state = DEAD;
    memset(old + 1, 0xdd, old->size);
    free(old);
}

static void *failing_resize(neap_allocator *base, void *block, size_t old_size, size_t new_size)
{
    failing_allocator *self = (failing_allocator *)base;
    header *old = block ? (header *)block - 1 : NULL;
    check_block(self, old, old_size);
    if (new_size == 0) {
        give_back(self, old);
        return NULL;
    }
    size_t call = self->calls++;
    if (call >= self->fail_from && call < self->fail_end) {
        self->failed = true;
        return NULL;
    }
    header *fresh = new_size < SIZE_MAX / 2 ? malloc(sizeof *fresh + new_size) : NULL;
    if (!fresh)
        return NULL;
    fresh->size = new_size;
    fresh->state = ALIVE;
    memset(fresh + 1, 0xa5, new_size);
    if (old)
        memcpy(fresh + 1, block, old->size < new_size ? old->size : new_size);
    self->live_bytes += new_size;
    self->live_blocks++;
    give_back(self, old);
    return fresh + 1;
}

void failing_allocator_init(failing_allocator *allocator)
{
    *allocator =
        (failing_allocator){.base = {failing_resize}, .fail_from = SIZE_MAX, .fail_end = SIZE_MAX};
}
