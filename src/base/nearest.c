#include "base/nearest.h"

#include <string.h>

#define LONGEST 64

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment, three rows of the usual table. */
size_t neap_edit_distance(const char *a, const char *b)
{
    size_t rows[3][LONGEST + 1];
    size_t length_a = least(strlen(a), LONGEST), length_b = least(strlen(b), LONGEST);
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= length_b; j++)
        above[j] = j;
    memset(rows[0], 0, sizeof rows[0]);
    for (size_t i = 1; i <= length_a; i++) {
        row[0] = i;
        for (size_t j = 1; j <= length_b; j++) {
            size_t replace = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least(replace, 1 + least(above[j], row[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[length_b];
}

int neap_is_near(const char *a, const char *b, size_t distance)
{
    size_t length = strlen(a);
    return distance <= 1 + length / 3 || (length >= 3 && strncmp(a, b, length) == 0);
}
