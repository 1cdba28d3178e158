#include "planners/checkmate/two_phase.h"

#include "base/fail.h"
#include "base/random.h"

#include <string.h>

/* Row t of S. */
static void round_row(const lp_schedule *s, const rounding *how, uint32_t t, bool *kept)
{
    for (uint32_t v = 0; v < s->n_values; v++) {
        double fraction = t < s->n ? s->S[(size_t)t * s->n_values + v] : 0;
        bool by_chance = how->random && fraction > 0 && fraction < 1;
        double threshold = by_chance     ? neap_random_real(how->random)
                           : how->random ? 0.5
                                         : how->threshold;
        kept[v] = fraction > threshold;
    }
}

static neap_status round_rows(const lp_schedule *s, const rounding *how, neap_arena *arena,
                              frontier_rows *rows, neap_diag *diag)
{
    uint32_t *wanted;
    bool *kept, *next;
    if (!NEAP_TAKE(arena, s->n_values, kept) || !NEAP_TAKE(arena, s->n_values, next) ||
        !NEAP_TAKE(arena, s->n_values, wanted))
        return neap_fail_no_memory(diag);
    for (uint32_t t = 0; t < s->n; t++) {
        frontier_row row = {.op = t,
                            .is_resident = neap_frontier_residence_of_bools,
                            .context = kept,
                            .wanted = wanted};
        round_row(s, how, t + 1, next);
        for (uint32_t v = 0; v < s->n_values; v++) {
            bool made = neap_graph_value(s->graph, v)->producer <= t; /* inputs: NEAP_NONE */
            bool output = t + 1 == s->n && neap_graph_is_output(s->graph, v);
            if (made && (next[v] || output))
                wanted[row.n_wanted++] = v;
        }
        NEAP_TRY(neap_frontier_rows_append(rows, &row, diag));
        memcpy(kept, next, s->n_values * sizeof *kept);
    }
    return NEAP_OK;
}

neap_status neap_two_phase_round(const lp_schedule *s, const rounding *how, frontier_rows *rows,
                                 neap_diag *diag)
{
    neap_arena arena;
    neap_arena_init(&arena, rows->allocator);
    neap_status status = round_rows(s, how, &arena, rows, diag);
    neap_arena_clear(&arena);
    return status;
}
