/* The name a person may have meant. */
#ifndef NEAP_BASE_NEAREST_H
#define NEAP_BASE_NEAREST_H

#include <stddef.h>

/* Edits (insert, delete, replace, swap neighbours) that turn a into b, counted up to 64 characters
 * of each. */
size_t neap_edit_distance(const char *a, const char *b);

/* Whether b is near enough to a to be suggested for it: a third of its letters may differ, or it
 * begins with a. */
int neap_is_near(const char *a, const char *b, size_t distance);

#endif
