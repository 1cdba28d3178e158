/* Sizes that cannot overflow unseen. Each returns false, and leaves *result alone, on overflow. */
#ifndef NEAP_BASE_CHECKED_H
#define NEAP_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool neap_add_i64(int64_t a, int64_t b, int64_t *result)
{
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b)
        return false;
    *result = a + b;
    return true;
}

/* For factors of 0 and more. */
static inline bool neap_mul_i64(int64_t a, int64_t b, int64_t *result)
{
    if (a < 0 || b < 0 || (a > 0 && b > INT64_MAX / a))
        return false;
    *result = a * b;
    return true;
}

static inline bool neap_mul_size(size_t a, size_t b, size_t *result)
{
    if (a > 0 && b > SIZE_MAX / a)
        return false;
    *result = a * b;
    return true;
}

#endif
