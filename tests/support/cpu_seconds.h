/* How long something takes: CPU time, so that a busy machine does not fail a test. */
#ifndef NEAP_TESTS_CPU_SECONDS_H
#define NEAP_TESTS_CPU_SECONDS_H

#include <time.h>

/* How many times slower a build may be than a plain one. */
#if defined(__SANITIZE_ADDRESS__)
#define SLOWNESS 8
#else
#define SLOWNESS 1
#endif

/* The CPU time of this process so far, all threads together. */
static inline double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
