/* neap/text.h: the name that was probably meant. */
#include <neap/text.h>

#include <string.h>

enum { LONGEST = 40 }; /* a longer name is not a slip of the finger */

/*
 * The edit distance of Damerau and Levenshtein, restricted: insertions, deletions, replacements and
 * exchanges of neighbours count 1 each. Both texts are at most LONGEST characters.
 */
static unsigned edit_distance(const char *a, const char *b)
{
    unsigned rows[3][LONGEST + 1]; /* of a's prefixes i-2, i-1 and i, in turn */
    size_t n = strlen(a), m = strlen(b);
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned least = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < least)
                least = above[j] + 1;
            if (row[j - 1] + 1 < least)
                least = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                two_above[j - 2] + 1 < least)
                least = two_above[j - 2] + 1;
            row[j] = least;
        }
    }
    return rows[n % 3][m];
}

void neap_suggestion_begin(neap_suggestion *suggestion, const char *wrong)
{
    *suggestion = (neap_suggestion){.wrong = wrong};
}

void neap_suggestion_offer(neap_suggestion *suggestion, const char *candidate)
{
    size_t length = strlen(suggestion->wrong), other = strlen(candidate);
    if (length > LONGEST || other > LONGEST)
        return;
    unsigned distance = edit_distance(suggestion->wrong, candidate);
    unsigned allowed = length <= 3 ? 1 : 1 + (unsigned)length / 4;
    if (distance > 0 && length >= 3 && strncmp(candidate, suggestion->wrong, length) == 0)
        distance = 1; /* an abbreviation */
    if (distance <= allowed && (!suggestion->best || distance < suggestion->distance)) {
        suggestion->best = candidate;
        suggestion->distance = distance;
    }
}
