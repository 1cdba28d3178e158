#include "planners/checkmate/lp_schedule.h"

#include "base/fail.h"

static neap_status init(lp_schedule *s, neap_allocator *allocator, const neap_graph *graph,
                        neap_diag *diag)
{
    *s = (lp_schedule){
        .graph = graph, .n = neap_graph_op_count(graph), .n_values = neap_graph_value_count(graph)};
    neap_arena_init(&s->arena, allocator);
    if (!NEAP_TAKE(&s->arena, (size_t)s->n * s->n, s->R) ||
        !NEAP_TAKE(&s->arena, (size_t)s->n * s->n_values, s->S))
        return neap_fail_no_memory(diag);
    return NEAP_OK;
}

static double fraction_of(int32_t column, const double *values)
{
    return column == FRONTIER_ONE ? LP_CERTAIN : column >= 0 ? values[column] : 0;
}

neap_status neap_lp_schedule_of_gaps(lp_schedule *s, neap_allocator *allocator,
                                     const frontier_model *m, const double *values, neap_diag *diag)
{
    NEAP_TRY(init(s, allocator, m->graph, diag));
    for (size_t cell = 0; cell < (size_t)s->n * s->n; cell++)
        s->R[cell] = fraction_of(m->run[cell], values);
    for (size_t cell = 0; cell < (size_t)s->n * s->n_values; cell++)
        s->S[cell] = fraction_of(m->kept[cell], values);
    return NEAP_OK;
}

neap_status neap_lp_schedule_of_paper(lp_schedule *s, neap_allocator *allocator,
                                      const paper_model *m, const double *values, neap_diag *diag)
{
    NEAP_TRY(init(s, allocator, m->graph, diag));
    for (size_t cell = 0; cell < (size_t)s->n * s->n; cell++)
        s->R[cell] = m->R[cell] == PAPER_ZERO ? 0 : values[m->R[cell]];
    for (uint32_t t = 0; t < s->n; t++)
        s->R[(size_t)t * s->n + t] = LP_CERTAIN; /* (8a) */
    for (size_t cell = 0; cell < (size_t)s->n * s->n_values; cell++)
        s->S[cell] = m->S[cell] == PAPER_ZERO ? 0 : values[m->S[cell]];
    return NEAP_OK;
}

void neap_lp_schedule_clear(lp_schedule *s)
{
    if (s->graph)
        neap_arena_clear(&s->arena);
    *s = (lp_schedule){0};
}
