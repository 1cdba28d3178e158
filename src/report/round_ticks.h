/* Round numbers for axes. */
#ifndef NEAP_REPORT_ROUND_TICKS_H
#define NEAP_REPORT_ROUND_TICKS_H

#include <stdint.h>

/* A distance between ticks: 1, 2, 2.5 or 5 times a power of ten. */
typedef struct neap_round {
    double step;
    int decimals; /* that its multiples need */
} neap_round;

/* The smallest round step of at least `least` (which is above 0). */
neap_round neap_round_up(double least);

/* The unit to write sizes up to `most` bytes in: the largest of which that is at least two. */
typedef struct neap_byte_unit {
    const char *name; /* "B", "KiB", "MiB", ... */
    double bytes;
} neap_byte_unit;

neap_byte_unit neap_byte_unit_for(double most);

#endif
