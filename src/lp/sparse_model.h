/*
 * A linear or mixed-integer program that grows: columns with bounds and costs, sparse rows.
 *
 * It knows nothing of a solver; highs_model.h hands it to one. Rows are written one at a time:
 *
 *     neap_sparse_row_begin(&m);
 *     neap_sparse_row_add(&m, column, coefficient);      as often as needed, the same column too
 *     neap_sparse_row_end(&m, lower, upper);
 *
 * Allocation failures are sticky: a row or column that could not be stored sets `failed`, every
 * later call does nothing, and neap_sparse_model_status tells.
 */
#ifndef NEAP_LP_SPARSE_MODEL_H
#define NEAP_LP_SPARSE_MODEL_H

#include "base/columns.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct sparse_model {
    neap_allocator *allocator;
    bool failed; /* out of memory, or more entries than 32-bit indices reach */

    /* Columns. */
    size_t n_columns;
    double *cost, *lower, *upper;
    bool *is_integer;

    /* Rows: entries row_start[r] .. row_start[r + 1] - 1. */
    size_t n_rows, n_entries;
    double *row_lower, *row_upper;
    int32_t *row_start, *entry_column;
    double *entry_value;

    /* Its own. */
    int32_t *last_entry; /* per column: where it last stood in an unfinished row, plus 1 */
    neap_columns columns, rows, entries;
} sparse_model;

void neap_sparse_model_init(sparse_model *m, neap_allocator *allocator);
void neap_sparse_model_clear(sparse_model *m);
/* NEAP_OK, or NEAP_NO_MEMORY where something could not be stored. */
neap_status neap_sparse_model_status(const sparse_model *m, neap_diag *diag);

/* The new column's number; 0 after a failure. */
int32_t neap_sparse_column(sparse_model *m, double lower, double upper, double cost,
                           bool is_integer);

void neap_sparse_row_begin(sparse_model *m);
/* Coefficients of one column add up. */
void neap_sparse_row_add(sparse_model *m, int32_t column, double coefficient);
/* An empty row is dropped, unless it says that there is no solution: 0 is not within its sides. */
void neap_sparse_row_end(sparse_model *m, double lower, double upper);

#endif
