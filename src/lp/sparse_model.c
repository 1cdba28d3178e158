#include "lp/sparse_model.h"

#include "base/fail.h"

void neap_sparse_model_init(sparse_model *m, neap_allocator *allocator)
{
    *m = (sparse_model){.allocator = allocator};
}

void neap_sparse_model_clear(sparse_model *m)
{
    neap_allocator *a = m->allocator;
    neap_columns_clear(&m->columns, a);
    neap_columns_clear(&m->rows, a);
    neap_columns_clear(&m->entries, a);
    neap_sparse_model_init(m, a);
}

neap_status neap_sparse_model_status(const sparse_model *m, neap_diag *diag)
{
    return m->failed ? neap_fail_no_memory(diag) : NEAP_OK;
}

/* Room for `needed` items in each of the arrays; false, once and for all, where there is none. */
#define ROOM(m, needed, group, ...)                                                                \
    ((m)->failed = (m)->failed || (needed) > INT32_MAX ||                                          \
                   NEAP_RESERVE_COLUMNS(&(m)->group, (m)->allocator, (needed), NULL,               \
                                        __VA_ARGS__) != NEAP_OK,                                   \
     !(m)->failed)

int32_t neap_sparse_column(sparse_model *m, double lower, double upper, double cost,
                           bool is_integer)
{
    size_t j = m->n_columns;
    if (!ROOM(m, j + 1, columns, NEAP_COLUMN(&m->cost), NEAP_COLUMN(&m->lower),
              NEAP_COLUMN(&m->upper), NEAP_COLUMN(&m->is_integer), NEAP_COLUMN(&m->last_entry)))
        return 0;
    m->cost[j] = cost;
    m->lower[j] = lower;
    m->upper[j] = upper;
    m->is_integer[j] = is_integer;
    m->last_entry[j] = 0;
    m->n_columns++;
    return (int32_t)j;
}

void neap_sparse_row_begin(sparse_model *m)
{
    if (ROOM(m, m->n_rows + 2, rows, NEAP_COLUMN(&m->row_start), NEAP_COLUMN(&m->row_lower),
             NEAP_COLUMN(&m->row_upper)))
        m->row_start[m->n_rows] = (int32_t)m->n_entries;
}

void neap_sparse_row_add(sparse_model *m, int32_t column, double coefficient)
{
    size_t at = m->n_entries;
    if (m->failed || coefficient == 0)
        return;
    int32_t last = m->last_entry[column] - 1;
    if (last >= m->row_start[m->n_rows] && (size_t)last < at && m->entry_column[last] == column) {
        m->entry_value[last] += coefficient;
        return;
    }
    if (!ROOM(m, at + 1, entries, NEAP_COLUMN(&m->entry_column), NEAP_COLUMN(&m->entry_value)))
        return;
    m->entry_column[at] = column;
    m->entry_value[at] = coefficient;
    m->n_entries++;
    m->last_entry[column] = (int32_t)m->n_entries;
}

void neap_sparse_row_end(sparse_model *m, double lower, double upper)
{
    size_t r = m->n_rows;
    bool idle = lower <= 0 && upper >= 0; /* without entries: what holds anyway */
    if (m->failed || (idle && (size_t)m->row_start[r] == m->n_entries))
        return;
    m->row_lower[r] = lower;
    m->row_upper[r] = upper;
    m->row_start[r + 1] = (int32_t)m->n_entries;
    m->n_rows++;
}
