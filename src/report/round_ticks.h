/* Round numbers for axes. */
#ifndef NEAP_REPORT_ROUND_TICKS_H
#define NEAP_REPORT_ROUND_TICKS_H

#include <stdint.h>

/* A distance between ticks: 1, 2, 2.5 or 5 times a power of ten. */
typedef struct neap_round {
    double step;
    int decimals; /* needed by its multiples */
} neap_round;

/* The smallest round step of at least `least` (which is above 0). */
neap_round neap_round_up(double least);

/* The unit for sizes up to `most` bytes: the largest unit of which `most` is at least two. */
typedef struct neap_byte_unit {
    const char *name; /* "B", "KiB", "MiB", ... */
    double bytes;
} neap_byte_unit;

neap_byte_unit neap_byte_unit_for(double most);

#endif
