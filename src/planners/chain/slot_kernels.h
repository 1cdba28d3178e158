/* The inner loops of slot_table.c, in the widest vectors the processor has. */
#ifndef NEAP_PLANNERS_SLOT_KERNELS_H
#define NEAP_PLANNERS_SLOT_KERNELS_H

#include <stdint.h>

/* best[m] = min(best[m], constant + right[m] + left[m]) for m < count. */
typedef void (*slot_minimum_two)(double *restrict best, const double *restrict right,
                                 const double *restrict left, double constant, int32_t count);
/* best[m] = min(best[m], constant + part[m]) for m < count. */
typedef void (*slot_minimum_one)(double *restrict best, const double *restrict part,
                                 double constant, int32_t count);

/* pass[k] = a[k] + b[k] + c[k] < limit, for k < count. */
typedef void (*slot_filter)(uint8_t *restrict pass, const float *restrict a,
                            const float *restrict b, const float *restrict c, float limit,
                            int32_t count);

typedef struct slot_kernels {
    slot_minimum_two two;
    slot_minimum_one one;
    slot_filter filter;
} slot_kernels;

slot_kernels neap_slot_kernels_choose(void);

#endif
