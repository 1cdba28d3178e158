/* What a run of the tests may change, and what a build may lack. */
#ifndef NEAP_TESTS_SETTINGS_H
#define NEAP_TESTS_SETTINGS_H

#include <stdint.h>

/* A number from the environment: NEAP_TEST_SEED and NEAP_TEST_COUNT change what random tests draw,
   and how much. */
uint64_t setting(const char *name, uint64_t fallback);

/* Skips the test where neap is built without HiGHS. */
void need_highs(void);

#endif
