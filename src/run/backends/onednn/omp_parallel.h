/*
 * Loops over OpenMP's threads.
 *
 * A kernel has a *chunk* function, static and marked OMP_CLONES, that does a range of the work on
 * plain pointers; the region around it gives each thread its range:
 *
 *     #pragma omp parallel num_threads(kernel->base.threads)
 *     {
 *         omp_range r = omp_my_range(rows, 1);
 *         relu_chunk(y + r.begin * n, x + r.begin * n, (r.end - r.begin) * n);
 *     }
 *
 * Which thread gets what depends on the number of threads alone, never on timing: sums over
 * threads' partial results, added in order of threads, are the same to the bit whenever they run.
 */
#ifndef NEAP_RUN_OMP_PARALLEL_H
#define NEAP_RUN_OMP_PARALLEL_H

#include <omp.h>
#include <stdint.h>

/*
 * Compiled for several generations of processors, the best chosen at load time. The sanitizers'
 * run-time is not up when that choice is made, so not under them. clang makes symbols of the whole
 * program of such functions, also of static ones: no two may have one name.
 */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OMP_SANITIZED 1
#endif
#endif
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) &&             \
    !defined(OMP_SANITIZED)
#define OMP_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define OMP_CLONES
#endif

typedef struct omp_range {
    int64_t begin, end;
} omp_range;

/* This thread's share of `count` items, in whole multiples of `grain`; the last takes the rest. */
static inline omp_range omp_my_range(int64_t count, int64_t grain)
{
    int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    int64_t grains = (count + grain - 1) / grain;
    int64_t begin = grains * me / team * grain, end = grains * (me + 1) / team * grain;
    return (omp_range){begin, end < count ? end : count};
}

#endif
