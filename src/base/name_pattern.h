/* Names that users select by patterns. */
#ifndef NEAP_BASE_NAME_PATTERN_H
#define NEAP_BASE_NAME_PATTERN_H

#include <stdbool.h>

/* `*` matches any characters, `?` one. O(length of both) but for patterns of many stars. */
bool neap_name_matches(const char *pattern, const char *name);

#endif
