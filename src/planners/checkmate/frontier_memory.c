/* Rows of frontier_model.h that come later: memory where it is or could be violated, cutoffs. */
#include "base/fail.h"
#include "base/memory.h"
#include "planners/checkmate/frontier_model.h"

#include <math.h>

/* What a column is worth: its value, or the constant that stands in its place. */
static double worth(const double *values, int32_t column)
{
    return column == FRONTIER_ONE ? 1 : column == FRONTIER_ZERO ? 0 : values[column];
}

/* Bytes taken in every slot when columns have these values. */
static bool fill_profile(const frontier_model *m, const double *values, neap_arena *scratch,
                         double **profile)
{
    if (!NEAP_TAKE(scratch, (size_t)m->n_slots + 1, *profile))
        return false;
    for (size_t i = 0; i < m->n_items; i++) {
        const frontier_item *item = &m->items[i];
        double bytes = (double)item->bytes * worth(values, item->column);
        (*profile)[item->from] += bytes;
        (*profile)[item->to + 1] -= bytes;
    }
    for (uint32_t s = 1; s < m->n_slots; s++)
        (*profile)[s] += (*profile)[s - 1];
    return true;
}

/* The first of the sorted slots that is at least `slot`. */
static size_t first_at_least(const uint32_t *slots, size_t n, uint32_t slot)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (slots[middle] < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Entries of the rows of these slots, per row or in all (`counts` NULL). */
static size_t count_entries(const frontier_model *m, const uint32_t *slots, size_t n,
                            size_t *counts)
{
    size_t total = 0;
    for (size_t i = 0; i < m->n_items; i++) {
        const frontier_item *item = &m->items[i];
        if (item->column >= 0 && m->lp.upper[item->column] <= 0)
            continue;
        for (size_t s = first_at_least(slots, n, item->from); s < n && slots[s] <= item->to; s++) {
            total++;
            if (counts)
                counts[s]++;
        }
    }
    return total;
}

static void write_row(frontier_model *m, const size_t *items, size_t n)
{
    int64_t left = m->room;
    neap_sparse_row_begin(&m->lp);
    for (size_t i = 0; i < n; i++) {
        const frontier_item *item = &m->items[items[i]];
        if (item->column == FRONTIER_ONE || m->lp.lower[item->column] >= 1)
            left -= item->bytes;
        else
            neap_sparse_row_add(&m->lp, item->column, (double)item->bytes * m->bytes_scale);
    }
    neap_sparse_row_end(&m->lp, -HUGE_VAL, (double)left * m->bytes_scale);
}

/* Adds the rows of the given slots, which ascend. */
static neap_status add_rows(frontier_model *m, const uint32_t *slots, size_t n, neap_arena *scratch,
                            neap_diag *diag)
{
    size_t *ends, *members;
    if (!NEAP_TAKE(scratch, n, ends) ||
        !NEAP_TAKE(scratch, count_entries(m, slots, n, ends), members))
        return neap_fail_no_memory(diag);
    for (size_t s = 0, begin = 0; s < n; s++) { /* ends becomes where each row begins, and grows */
        size_t count = ends[s];
        ends[s] = begin;
        begin += count;
    }
    for (size_t i = 0; i < m->n_items; i++) {
        const frontier_item *item = &m->items[i];
        if (item->column >= 0 && m->lp.upper[item->column] <= 0)
            continue;
        for (size_t s = first_at_least(slots, n, item->from); s < n && slots[s] <= item->to; s++)
            members[ends[s]++] = i;
    }
    for (size_t s = 0, begin = 0; s < n; begin = ends[s++]) {
        write_row(m, members + begin, ends[s] - begin);
        m->has_row[slots[s]] = true;
    }
    return neap_sparse_model_status(&m->lp, diag);
}

neap_status neap_frontier_model_add_memory(frontier_model *m, const double *values,
                                           double tolerance, size_t *added, neap_diag *diag)
{
    double *profile;
    uint32_t *slots;
    size_t n = 0;
    neap_arena scratch;
    neap_arena_init(&scratch, m->allocator);
    bool ready =
        fill_profile(m, values, &scratch, &profile) && NEAP_TAKE(&scratch, m->n_frontiers, slots);
    for (uint32_t s = 0, end; s < m->n_slots && ready; s = end) {
        uint32_t worst = NEAP_NONE;
        for (end = s; end < m->n_slots && m->slot_frontier[end] == m->slot_frontier[s]; end++)
            if (!m->has_row[end] && (worst == NEAP_NONE || profile[end] > profile[worst]))
                worst = end;
        if (worst != NEAP_NONE && profile[worst] > (double)m->room * (1 + tolerance))
            slots[n++] = worst;
    }
    *added = n;
    neap_status status = ready ? add_rows(m, slots, n, &scratch, diag) : neap_fail_no_memory(diag);
    neap_arena_clear(&scratch);
    return status;
}

neap_status neap_frontier_model_add_all_memory(frontier_model *m, size_t most_entries,
                                               bool *complete, neap_diag *diag)
{
    double *profile;
    uint32_t *slots;
    size_t n = 0;
    neap_arena scratch;
    neap_arena_init(&scratch, m->allocator);
    bool ready =
        fill_profile(m, m->lp.upper, &scratch, &profile) && NEAP_TAKE(&scratch, m->n_slots, slots);
    neap_status status = ready ? NEAP_OK : neap_fail_no_memory(diag);
    for (uint32_t s = 0; s < m->n_slots && ready; s++)
        if (!m->has_row[s] && profile[s] > (double)m->room)
            slots[n++] = s;
    *complete = ready && count_entries(m, slots, n, NULL) <= most_entries;
    if (*complete)
        status = add_rows(m, slots, n, &scratch, diag);
    neap_arena_clear(&scratch);
    return status;
}

neap_status neap_frontier_model_add_cover(frontier_model *m, const double *values, bool *added,
                                          neap_diag *diag)
{
    int64_t *change = NULL;
    uint32_t slot = 0;
    *added = false;
    NEAP_TRY(NEAP_NEW(m->allocator, (size_t)m->n_slots + 1, &change, diag));
    for (size_t i = 0; i < m->n_items; i++) {
        const frontier_item *item = &m->items[i];
        int64_t bytes = worth(values, item->column) > 0.5 ? item->bytes : 0;
        change[item->from] += bytes;
        change[item->to + 1] -= bytes;
    }
    for (int64_t live = 0; slot < m->n_slots; slot++) {
        live += change[slot];
        if (live > m->room)
            break;
    }
    NEAP_DELETE(m->allocator, (size_t)m->n_slots + 1, change);
    if (slot == m->n_slots)
        return NEAP_OK;
    neap_sparse_row_begin(&m->lp);
    for (size_t i = 0; i < m->n_items; i++) {
        const frontier_item *item = &m->items[i];
        if (item->from <= slot && slot <= item->to && item->column >= 0 &&
            values[item->column] > 0.5)
            neap_sparse_row_add(&m->lp, item->column, 1);
    }
    if (m->lp.failed)
        return neap_sparse_model_status(&m->lp, diag);
    size_t begin = (size_t)m->lp.row_start[m->lp.n_rows], n = m->lp.n_entries - begin;
    for (size_t e = begin; e < m->lp.n_entries; e++)
        m->lp.entry_value[e] = 1; /* a column that stood there twice is one column */
    neap_sparse_row_end(&m->lp, -HUGE_VAL, (double)n - 1);
    *added = true;
    return neap_sparse_model_status(&m->lp, diag);
}

neap_status neap_frontier_model_add_cutoff(frontier_model *m, double most, neap_diag *diag)
{
    neap_sparse_row_begin(&m->lp);
    for (size_t j = 0; j < m->lp.n_columns; j++)
        neap_sparse_row_add(&m->lp, (int32_t)j, m->lp.cost[j]);
    neap_sparse_row_end(&m->lp, -HUGE_VAL, most);
    return neap_sparse_model_status(&m->lp, diag);
}
