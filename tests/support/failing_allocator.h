/*
 * An allocator that fails on request, counts live blocks, and detects errors of the library: a size
 * that is not the block's, an invalid block, a read of uninitialized memory (new memory is filled
 * with garbage) or of freed memory (blocks always move).
 */
#ifndef NEAP_TESTS_FAILING_ALLOCATOR_H
#define NEAP_TESTS_FAILING_ALLOCATOR_H

#include <neap/allocator.h>
#include <stdbool.h>

typedef struct failing_allocator {
    neap_allocator base;
    size_t calls;     /* for memory, so far */
    size_t fail_from; /* the first call that fails, counted from 0; SIZE_MAX: none */
    size_t fail_end;  /* the first after it that does not */
    bool failed;      /* some call did */
    size_t live_bytes, live_blocks;
    const char *fault; /* the first wrong use, or NULL */
} failing_allocator;

/* One that does not fail. */
void failing_allocator_init(failing_allocator *allocator);

#endif
