#include "planners/checkmate/two_phase.h"

#include "base/memory.h"
#include "base/random.h"

#include <string.h>

/* Row t of S. */
static void round_row(const frontier_model *m, const double *values, const rounding *how,
                      uint32_t t, bool *kept)
{
    uint32_t n_values = neap_graph_value_count(m->graph);
    for (uint32_t v = 0; v < n_values; v++) {
        int32_t column = t < m->n_frontiers ? m->kept[(size_t)t * n_values + v] : FRONTIER_ZERO;
        double threshold =
            how->random && column >= 0 ? neap_random_real(how->random) : how->threshold;
        kept[v] = column == FRONTIER_ONE || (column >= 0 && values[column] > threshold);
    }
}

neap_status neap_two_phase_round(const frontier_model *m, const double *values, const rounding *how,
                                 frontier_rows *rows, neap_diag *diag)
{
    uint32_t n_values = neap_graph_value_count(m->graph), *wanted = NULL;
    bool *kept = NULL, *next = NULL;
    neap_status status = NEAP_NEW(m->allocator, n_values, &kept, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(m->allocator, n_values, &next, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(m->allocator, n_values, &wanted, diag);
    for (uint32_t t = 0; t < m->n_ops && status == NEAP_OK; t++) {
        frontier_row row = {.op = t,
                            .is_resident = neap_frontier_residence_of_bools,
                            .context = kept,
                            .wanted = wanted};
        round_row(m, values, how, t + 1, next);
        for (uint32_t v = 0; v < n_values; v++) {
            bool made = neap_graph_value(m->graph, v)->producer <= t; /* inputs: NEAP_NONE */
            bool output = t + 1 == m->n_ops && neap_graph_is_output(m->graph, v);
            if (made && (next[v] || output))
                wanted[row.n_wanted++] = v;
        }
        status = neap_frontier_rows_append(rows, &row, diag);
        if (n_values > 0)
            memcpy(kept, next, n_values * sizeof *kept);
    }
    NEAP_DELETE(m->allocator, n_values, kept);
    NEAP_DELETE(m->allocator, n_values, next);
    NEAP_DELETE(m->allocator, n_values, wanted);
    return status;
}
