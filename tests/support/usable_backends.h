/* Which backends tests can run: one for a device only where there is one, or with
   NEAP_TEST_FAKE_GPU=1 in the environment on a stand-in (fake_device.h). */
#ifndef NEAP_TESTS_USABLE_BACKENDS_H
#define NEAP_TESTS_USABLE_BACKENDS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the backend can be opened here. If it lacks its device, prints "skipped: ..." with the
   reason the first time. Any other failure fails the test. */
bool backend_is_usable(const char *name);
/* The same, and it has kernels that compute: all but null. */
bool backend_computes(const char *name);
/* Whether case `index` of a long test is for the backend: emulated kernels are slow, so that one
   case in two runs on them, in a reduced build one in twelve. */
bool backend_is_for_case(const char *name, size_t index);

#endif
