/* What the processor can do beyond the instructions that every one of its kind has. */
#ifndef NEAP_BASE_PROCESSOR_H
#define NEAP_BASE_PROCESSOR_H

#include <stdbool.h>

/* Code for AVX2 may be compiled in: a function with NEAP_AVX2, to be called if neap_has_avx2(). */
#if defined(__x86_64__) && defined(__GNUC__)
#define NEAP_CAN_HAVE_AVX2 1
#define NEAP_AVX2          __attribute__((target("avx2")))
#else
#define NEAP_CAN_HAVE_AVX2 0
#endif

bool neap_has_avx2(void);

#endif
