/* Settings of a test run, and skipping tests when something is missing. */
#ifndef NEAP_TESTS_SETTINGS_H
#define NEAP_TESTS_SETTINGS_H

#include <stdint.h>

/* A number from the environment: NEAP_TEST_SEED and NEAP_TEST_COUNT change what random tests draw,
   and how much. */
uint64_t setting(const char *name, uint64_t fallback);

/* Which share of its cases a long test runs: all of them in a full build, one in n in a reduced one
   (CMake's NEAP_TEST_REDUCED: clang and the sanitizers in `make test` without NEAP_TEST_FULL). */
#if NEAP_TEST_REDUCED
#define ONE_IN(n) (n)
#else
#define ONE_IN(n) 1
#endif

/* The same for random tests that take longest: one in `usual` also in a full build, unless
   NEAP_TEST_FULL asks for all. */
#if NEAP_TEST_FULL
#define ONE_IN_OR(usual, reduced) 1
#elif NEAP_TEST_REDUCED
#define ONE_IN_OR(usual, reduced) (reduced)
#else
#define ONE_IN_OR(usual, reduced) (usual)
#endif

/* Skips the test and says why: a line "skipped: ..." that tools/run_tests.sh shows. */
void skip_because(const char *reason);

/* Skips the test where neap is built without HiGHS. */
void need_highs(void);

/* Skips the test if there is no python3, which runs the oracles. */
void need_python(void);

/* The folder of planning instances that several projects share, next to the repository. Skips the
   test where it is not there. */
const char *need_instances(void);

#endif
