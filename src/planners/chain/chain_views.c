#include "planners/chain/chain_views.h"

neap_status neap_chain_view_build(const planner *p, chain_view view, neap_chain *chain,
                                  neap_diag *diag)
{
    if (view.fine)
        return neap_chain_build_fine(p->allocator, p->graph, view.most_stages, chain, diag);
    return neap_chain_build(p->allocator, p->graph, chain, diag);
}

/* Stages that are divided make more of them; if some are merged then, something is carried. */
static neap_status compare_views(const planner *p, uint32_t most_stages, bool *differ,
                                 neap_diag *diag)
{
    neap_chain single = {0}, fine = {0};
    neap_status status = neap_chain_build(p->allocator, p->graph, &single, diag);
    if (status == NEAP_OK)
        status = neap_chain_build_fine(p->allocator, p->graph, most_stages, &fine, diag);
    *differ = status == NEAP_OK && (single.n_stages != fine.n_stages || fine.carried_bytes > 0);
    neap_chain_clear(&fine);
    neap_chain_clear(&single);
    return status;
}

static bool is_better(const planner *p, const draft *a, const draft *b)
{
    if (!a->plan || !b->plan)
        return a->plan && !b->plan;
    bool fits = a->predicted_peak <= p->budget, other_fits = b->predicted_peak <= p->budget;
    if (fits != other_fits)
        return fits;
    if (!fits || p->budget == INT64_MAX)
        return a->predicted_peak != b->predicted_peak ? a->predicted_peak < b->predicted_peak
                                                      : a->predicted_ticks < b->predicted_ticks;
    return a->predicted_ticks < b->predicted_ticks;
}

neap_status neap_planner_use_views(const planner *p, draft *d, int cuts, uint32_t most_stages,
                                   view_planner plan, void *context, neap_diag *diag)
{
    const chain_view single = {0}, fine = {.fine = true, .most_stages = most_stages};
    bool differ = false;
    if (cuts != CUTS_BEST)
        return plan(p, d, cuts == CUTS_SEVERAL ? fine : single, context, diag);
    draft other = *d;
    neap_arena_init(&other.arena, p->allocator);
    neap_status status = plan(p, d, single, context, diag);
    if (status == NEAP_OK && !d->stopped)
        status = compare_views(p, most_stages, &differ, diag);
    if (status == NEAP_OK && differ) {
        status = plan(p, &other, fine, context, diag);
        bool stopped = other.stopped;
        if (status == NEAP_OK && is_better(p, &other, d)) {
            draft worse = *d;
            *d = other;
            other = worse;
        }
        d->stopped = d->stopped || stopped;
        if (status == NEAP_UNSUPPORTED) /* too many stages: the other view has fewer */
            status = NEAP_OK;
    }
    neap_planner_clear_draft(p, &other);
    return status;
}
