/* Reads the data block of a report (docs/report.md) back, for tests. */
#ifndef NEAP_TESTS_REPORT_BLOCK_H
#define NEAP_TESTS_REPORT_BLOCK_H

#include <stddef.h>
#include <stdint.h>

/* Part of a JSON text: a value. */
typedef struct block_value {
    const char *text;
    size_t length;
} block_value;

/*
 * The value at a path of keys and positions, such as "plans.1.steps.grow"; the test fails if there
 * is none, or the text is not JSON.
 */
block_value block_at(const char *json, const char *path);

/* A number, or the fallback for null. */
double block_number(const char *json, const char *path, double fallback);
/* A string, which the caller frees; NULL for null. */
char *block_string(const char *json, const char *path);

/* A column of whole numbers, which the caller frees. */
typedef struct block_column {
    size_t count;
    int64_t *items;
} block_column;

block_column block_integers(const char *json, const char *path);
/* How many items an array has. */
size_t block_count(const char *json, const char *path);

/* The data block of a page, which the caller frees; the test fails if there is not exactly one. */
char *block_of_page(const char *html);

#endif
