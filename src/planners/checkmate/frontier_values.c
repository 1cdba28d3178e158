/* Between solutions of frontier_model.h and compute sequences. */
#include "planners/checkmate/frontier_model.h"

#include <math.h>

static bool runs(const frontier_model *m, const double *values, uint32_t slot)
{
    int32_t run = m->run[(size_t)m->slot_frontier[slot] * m->n_ops + m->slot_op[slot]];
    return run == FRONTIER_ONE || (run >= 0 && values[run] > 0.5);
}

size_t neap_frontier_model_length(const frontier_model *m, const double *values)
{
    size_t length = 0;
    for (uint32_t s = 0; s < m->n_slots; s++)
        length += runs(m, values, s);
    return length;
}

void neap_frontier_model_sequence(const frontier_model *m, const double *values, uint32_t *sequence)
{
    for (uint32_t s = 0; s < m->n_slots; s++)
        if (runs(m, values, s))
            *sequence++ = m->slot_op[s];
}

/* Sets R from the sequence: frontiers end with first runs, or where the order goes back. */
static bool set_runs(const frontier_model *m, const uint32_t *sequence, size_t length,
                     double *values)
{
    bool partitioned = m->form == FRONTIER_PARTITIONED;
    uint32_t frontier = 0;
    int64_t last = -1; /* the op before, in the same frontier */
    for (size_t i = 0; i < length; i++) {
        uint32_t op = sequence[i];
        if (op <= last && !partitioned) {
            frontier++;
            last = -1;
        }
        if (op <= last || frontier >= m->n_frontiers)
            return false;
        int32_t run = m->run[(size_t)frontier * m->n_ops + op];
        if (run == FRONTIER_ZERO || (run >= 0 && m->lp.upper[run] <= 0))
            return false;
        if (run >= 0)
            values[run] = 1;
        last = op;
        if (partitioned && op == frontier) {
            frontier++;
            last = -1;
        }
    }
    return true;
}

/*
 * What one row asks of the gaps, given the runs: x <= y and x <= y + run raise y, and
 * before + run = 1 raises what stood before. True where something changed.
 */
static bool raise_in_row(const sparse_model *lp, size_t r, double *values)
{
    int32_t begin = lp->row_start[r], n = lp->row_start[r + 1] - begin;
    const int32_t *column = &lp->entry_column[begin];
    const double *factor = &lp->entry_value[begin];
    double run = 0;
    int32_t raised = FRONTIER_ZERO;
    if (n == 2 && lp->row_lower[r] == 1 && lp->row_upper[r] == 1 && factor[0] == factor[1]) {
        if (values[column[0]] + values[column[1]] < 1)
            raised = column[0];
    } else if ((n == 2 || n == 3) && lp->row_lower[r] < 0 && lp->row_upper[r] == 0 &&
               factor[0] == 1 && factor[1] == -1) {
        run = n == 3 ? values[column[2]] : 0;
        if (values[column[0]] > values[column[1]] + run)
            raised = column[1];
    }
    if (raised == FRONTIER_ZERO)
        return false;
    values[raised] = 1;
    return true;
}

/* Gaps and shared storages become as large as needed. A value's rows ascend in time and needs
   go back in it, so that few passes do. */
static void raise_gaps(const frontier_model *m, double *values)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t r = m->lp.n_rows; r-- > 0;)
            changed = raise_in_row(&m->lp, r, values) || changed;
    }
}

static void set_variants(const frontier_model *m, const uint32_t *variants, double *values)
{
    for (uint32_t k = 0; k < m->n_ops; k++) {
        uint32_t begin = m->variant_start[k], end = m->variant_start[k + 1];
        const neap_op *op = neap_graph_op(m->graph, k);
        uint32_t chosen = begin;
        for (uint32_t i = begin; i < end && end - begin > 1; i++) {
            bool faster =
                op->variants[m->variants[i]].ticks < op->variants[m->variants[chosen]].ticks;
            if (variants ? m->variants[i] == variants[k] : faster)
                chosen = i;
        }
        if (end - begin > 1)
            values[m->variant_chosen[chosen]] = 1;
        for (uint32_t t = 0; t < m->n_frontiers && end - begin > 1; t++) {
            uint32_t slot = m->slot_of[(size_t)t * m->n_ops + k];
            if (slot != NEAP_NONE && runs(m, values, slot))
                values[m->variant_run[slot] + (int32_t)(chosen - begin)] = 1;
        }
    }
}

bool neap_frontier_model_values(const frontier_model *m, const uint32_t *sequence, size_t length,
                                const uint32_t *variants, double *values)
{
    for (size_t j = 0; j < m->lp.n_columns; j++)
        values[j] = m->lp.lower[j] > 0 ? m->lp.lower[j] : 0;
    if (!set_runs(m, sequence, length, values))
        return false;
    set_variants(m, variants, values);
    raise_gaps(m, values);
    return neap_frontier_model_satisfied(m, values, 1e-9);
}

bool neap_frontier_model_satisfied(const frontier_model *m, const double *values, double tolerance)
{
    const sparse_model *lp = &m->lp;
    for (size_t j = 0; j < lp->n_columns; j++)
        if (values[j] < lp->lower[j] - tolerance || values[j] > lp->upper[j] + tolerance)
            return false;
    for (size_t r = 0; r < lp->n_rows; r++) {
        double sum = 0, scale = 1;
        for (int32_t e = lp->row_start[r]; e < lp->row_start[r + 1]; e++) {
            sum += lp->entry_value[e] * values[lp->entry_column[e]];
            scale += fabs(lp->entry_value[e]);
        }
        if (sum < lp->row_lower[r] - tolerance * scale ||
            sum > lp->row_upper[r] + tolerance * scale)
            return false;
    }
    return true;
}
