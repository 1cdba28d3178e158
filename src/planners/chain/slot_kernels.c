/* Built with -O3 (CMakeLists.txt) so that the loops become vector code. The results do not depend
 * on the vector width. */
#include "planners/chain/slot_table.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#define HAS_AVX2_KERNELS 1
#else
#define HAS_AVX2_KERNELS 0
#endif

#define KERNELS(suffix, attributes)                                                                \
    attributes static void two_##suffix(double *restrict best, const double *restrict right,       \
                                        const double *restrict left, double constant,              \
                                        int32_t count)                                             \
    {                                                                                              \
        for (int32_t m = 0; m < count; m++) {                                                      \
            double time = constant + right[m] + left[m];                                           \
            best[m] = time < best[m] ? time : best[m];                                             \
        }                                                                                          \
    }                                                                                              \
    attributes static void one_##suffix(double *restrict best, const double *restrict part,        \
                                        double constant, int32_t count)                            \
    {                                                                                              \
        for (int32_t m = 0; m < count; m++) {                                                      \
            double time = constant + part[m];                                                      \
            best[m] = time < best[m] ? time : best[m];                                             \
        }                                                                                          \
    }                                                                                              \
    attributes static void filter_##suffix(uint8_t *restrict pass, const float *restrict a,        \
                                           const float *restrict b, const float *restrict c,       \
                                           float limit, int32_t count)                             \
    {                                                                                              \
        for (int32_t k = 0; k < count; k++)                                                        \
            pass[k] = a[k] + b[k] + c[k] < limit;                                                  \
    }

KERNELS(plain, )
#if HAS_AVX2_KERNELS
KERNELS(avx2, __attribute__((target("avx2"))))

/* As __builtin_cpu_supports("avx2"), which needs a run-time library that some compilers lack: the
 * processor has the instructions, and the system saves their registers. */
static bool has_avx2(void)
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
#endif

slot_kernels neap_slot_kernels_choose(void)
{
#if HAS_AVX2_KERNELS
    if (has_avx2())
        return (slot_kernels){two_avx2, one_avx2, filter_avx2};
#endif
    return (slot_kernels){two_plain, one_plain, filter_plain};
}
