/* Arrays of numbers for tests of kernels, and copies of them in memory that a kernel may misuse:
   with any strides, with garbage around, and up to a guard page. */
#ifndef NEAP_TESTS_PLACED_ARRAYS_H
#define NEAP_TESTS_PLACED_ARRAYS_H

#include "random_plan.h"
#include "run/backend.h"
#include "run/block.h"

/* ---- Arrays ---- */

typedef struct tensor {
    run_array array; /* plain */
    int64_t n;
    void *data;
} tensor;

/* Fails the test where there is no memory. */
void *allocate(size_t bytes);

size_t item_bytes(const run_array *array);
bool is_float(neap_dtype dtype);
/* With the shape of a value. The numbers are anything; free `data`. */
tensor new_tensor(const neap_value *value, neap_dtype dtype);
double number_at(const tensor *t, int64_t i);
void set_number(tensor *t, int64_t i, double number);

/* ---- Operands somewhere in memory ---- */

/* Bytes before what a kernel may touch; behind it there is a guard page. */
#define RED_ZONE 192

typedef struct placed {
    run_array array;
    run_block memory;
    unsigned char *block, *before; /* all of it, and what stood there */
    size_t bytes;
    unsigned char *first; /* element 0, 0, ... */
} placed;

/* Calls for every row of elements that lie one behind the other: its first element, its offset. */
typedef void row_visit(placed *p, int64_t offset, int64_t element, int64_t count, void *other);

void visit_rows(placed *p, row_visit *visit, void *other);
void put_row(placed *p, int64_t offset, int64_t element, int64_t count, void *other); /* a tensor */
void get_row(placed *p, int64_t offset, int64_t element, int64_t count, void *other); /* bytes */

/* Ends where a guard page begins, up to alignment. */
run_block new_block(size_t bytes);
/* 0xFF throughout, or anything. */
void fill_garbage(unsigned char *bytes, size_t count, random_source *garbage);

/*
 * Strides for an array, and how many elements the array that it is a view of has, how many before
 * it. Parameters and their gradients are plain.
 */
run_array some_layout(const run_array *plain, bool keep_plain, random_source *random,
                      int64_t *elements, int64_t *begin);
/* A block for an operand with garbage in and around it. Aligned as an arena's are, where it is no
   view. */
void place(placed *p, random_source *layout, random_source *garbage, const run_array *plain,
           bool keep_plain);
/* Whether all bytes are as they were; those of elements too, unless they are results. */
bool untouched(placed *p, bool result);
void clear_placed(placed *p);

#endif
