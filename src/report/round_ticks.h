/* Round numbers for axes. */
#ifndef NEAP_REPORT_ROUND_TICKS_H
#define NEAP_REPORT_ROUND_TICKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A distance between ticks: 1, 2, 2.5 or 5 times a power of ten. */
typedef struct neap_round {
    double step;
    int decimals; /* needed by its multiples */
} neap_round;

/* The smallest round step of at least `least` (which is above 0). */
neap_round neap_round_up(double least);

/* An axis from `first` to `last`, with n_steps + 1 ticks at multiples of its step. */
typedef struct neap_axis {
    double first, last;
    double first_tick;
    neap_round step;
    int n_steps;
} neap_axis;

/* An axis with round ends around [least, most], in about `wanted` steps. */
neap_axis neap_axis_around(double least, double most, int wanted);
/* The same, but it begins and ends exactly there, which may be between two ticks. */
neap_axis neap_axis_within(double least, double most, int wanted);
/* The value at a tick, 0 to n_steps. */
double neap_axis_tick(const neap_axis *axis, int tick);

/* The unit for sizes up to `most` bytes: the largest unit of which `most` is at least two. */
typedef struct neap_byte_unit {
    const char *name; /* "B", "KiB", "MiB", ... */
    double bytes;
} neap_byte_unit;

neap_byte_unit neap_byte_unit_for(double most);

/* The unit for durations up to `most` seconds: the largest unit of which `most` is at least one. */
typedef struct neap_time_unit {
    const char *name; /* "s", "ms", "us", "ns" */
    double seconds;
} neap_time_unit;

neap_time_unit neap_time_unit_for(double most);

#endif
