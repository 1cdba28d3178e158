#include "planners/checkmate/two_phase.h"

#include "base/fail.h"
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

static neap_status round_rows(const frontier_model *m, const double *values, const rounding *how,
                              neap_arena *arena, frontier_rows *rows, neap_diag *diag)
{
    uint32_t n_values = neap_graph_value_count(m->graph), *wanted;
    bool *kept, *next;
    if (!NEAP_TAKE(arena, n_values, kept) || !NEAP_TAKE(arena, n_values, next) ||
        !NEAP_TAKE(arena, n_values, wanted))
        return neap_fail_no_memory(diag);
    for (uint32_t t = 0; t < m->n_ops; t++) {
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
        NEAP_TRY(neap_frontier_rows_append(rows, &row, diag));
        memcpy(kept, next, n_values * sizeof *kept);
    }
    return NEAP_OK;
}

neap_status neap_two_phase_round(const frontier_model *m, const double *values, const rounding *how,
                                 frontier_rows *rows, neap_diag *diag)
{
    neap_arena arena;
    neap_arena_init(&arena, m->allocator);
    neap_status status = round_rows(m, values, how, &arena, rows, diag);
    neap_arena_clear(&arena);
    return status;
}
