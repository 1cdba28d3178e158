#include "report/robust_scale.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* The quantile of sorted values, interpolated. */
static double quantile(const double *values, size_t count, double share)
{
    double place = share * (double)(count - 1);
    size_t below = (size_t)floor(place);
    double part = place - (double)below;
    return part > 0 ? values[below] + part * (values[below + 1] - values[below]) : values[below];
}

double neap_robust_most(double *values, size_t count)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, ascending);
    double upper = quantile(values, count, 0.75), lower = quantile(values, count, 0.25);
    /* Where most values are the same, what differs a little is not far away. */
    double distance = fmax(upper - lower, 0.25 * fabs(upper));
    size_t inside = count;
    while (values[inside - 1] > upper + 3 * distance)
        inside--;
    double most = values[count - 1];
    return most > 1.5 * values[inside - 1] ? values[inside - 1] : most;
}
