/* Repeats one operation: the first allocation fails, then the second, and so on. */
#ifndef NEAP_TESTS_TORTURE_H
#define NEAP_TESTS_TORTURE_H

#include <neap/allocator.h>
#include <neap/status.h>

/* Does its work with the allocator, gives all of it back, and says how it went. */
typedef neap_status torture_operation(const void *subject, neap_allocator *allocator,
                                      neap_diag *diag);

/*
 * Lets each allocation fail once, and then all from one on: the first, the second, ... with steps
 * that grow by one in `every`. The test fails where something leaks or is misused, where the
 * operation does not fail with NEAP_NO_MEMORY and "out of memory", or fails without a reason.
 * Returns how many allocations there are; at least one.
 */
size_t torture_memory(torture_operation *run, const void *subject, size_t every);

#endif
