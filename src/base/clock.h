/* The time, for measuring. */
#ifndef NEAP_BASE_CLOCK_H
#define NEAP_BASE_CLOCK_H

#include <time.h>

/* Seconds since some moment in the past; never goes back. */
static inline double neap_clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#endif
