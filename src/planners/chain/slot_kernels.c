/* Built with -O3 (CMakeLists.txt) so that the loops become vector code. The results do not depend
 * on the vector width. */
#include "base/processor.h"
#include "planners/chain/slot_table.h"

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
#if NEAP_CAN_HAVE_AVX2
KERNELS(avx2, NEAP_AVX2)
#endif

slot_kernels neap_slot_kernels_choose(void)
{
#if NEAP_CAN_HAVE_AVX2
    if (neap_has_avx2())
        return (slot_kernels){two_avx2, one_avx2, filter_avx2};
#endif
    return (slot_kernels){two_plain, one_plain, filter_plain};
}
