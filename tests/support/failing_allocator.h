/*
 * An allocator that fails when it is told to, counts what is live, and notices what the library
 * does wrong: a size that is not the block's, a block that is none, a read of what was never
 * written (new memory is filled with rubbish) or of what was given back (blocks always move).
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
