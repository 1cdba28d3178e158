#include "base/processor.h"

#if NEAP_CAN_HAVE_AVX2
#include <cpuid.h>

/* As __builtin_cpu_supports("avx2"), which needs a run-time library that some compilers lack: the
   processor has the instructions, and the system saves their registers. */
bool neap_has_avx2(void)
{
    static const unsigned XMM_AND_YMM = 6;
    unsigned a, b, c, d, saved, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX))
        return false;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    if ((saved & XMM_AND_YMM) != XMM_AND_YMM)
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}
#else
bool neap_has_avx2(void)
{
    return false;
}
#endif
