/* A scale that a few values far from all others do not set. */
#ifndef NEAP_REPORT_ROBUST_SCALE_H
#define NEAP_REPORT_ROBUST_SCALE_H

#include <stddef.h>

/*
 * The largest value that is drawn to scale. It is the largest of all, unless that lies beyond the
 * upper quartile by more than three times the distance between the quartiles (Tukey's outer fence)
 * and is at least half as much again as the largest value within; then it is that one. Sorts the
 * values. 0 for none.
 */
double neap_robust_most(double *values, size_t count);

#endif
