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

typedef struct slot_kernels {
    slot_minimum_two two;
    slot_minimum_one one;
} slot_kernels;

slot_kernels slot_kernels_choose(void);

#endif
