/*
 * vdnn: moves the inputs of long computations.
 *
 * Rhu et al., "vDNN" (2016), and Shriram, Garg and Kulkarni, "Dynamic memory management for
 * GPU-based training of deep neural networks" (vDNN++, 2019), move the inputs of all convolutions,
 * or of every other one, because a convolution takes long enough to hide the transfers. This
 * is the version of section 6.1 of Beaumont, Eyraud-Dubois and Shilova, "Optimal GPU-CPU Offloading
 * Strategies" (2020), which does not depend on layer types. u_F / |x| is the time of the forward op
 * that reads an activation over its bytes. For every threshold on it, one no-wait, ordered schedule
 * moves all activations at or above the threshold, and another one half of them. The best is kept.
 *
 * Half is every other one in the order of the network. The paper does not say which: the first,
 * third, ... and the second, fourth, ... are both tried.
 */
#include "base/fail.h"
#include "planners/offload/offload_method.h"

#include <stdlib.h>

enum { GRAIN };

/* Selections to simulate at most; if there are more, thresholds are thinned out evenly. The largest
 * networks have about 1,200 activations, and each simulation takes tens of microseconds. */
enum { MOST_SIMULATIONS = 6000 };

static const neap_option options[] = {[GRAIN] = OFFLOAD_GRAIN_OPTION};

/* A unit of one parcel is read by the op `left`; the ops of a stage's unit are those from its first
 * parcel's to its last's. */
static double ratio_of(const offload_problem *problem, uint32_t unit)
{
    const offload_unit *x = &problem->units[unit];
    int64_t ticks = 0;
    for (uint32_t k = problem->parcels[x->first].left; k <= x->left; k++)
        ticks += problem->ticks[k];
    return (double)ticks / (double)x->bytes;
}

typedef enum share { ALL = 0, ODD, EVEN, N_SHARES } share;

/* Marks the share of the selected units and simulates it, if it is enough. */
static void try_share(offload_search *s, const bool *selected, share which)
{
    uint32_t rank = 0;
    for (uint32_t u = 0; u < s->problem.n_units; u++) {
        bool away = selected[u];
        if (selected[u] && which != ALL)
            away = (rank++ % 2 == 0) == (which == ODD);
        neap_offload_set_unit(s, u, away);
    }
    if (neap_offload_search_short(s) == NEAP_NONE)
        neap_offload_search_try(s);
}

/* Each group of equal ratios ends with a threshold. */
static bool is_threshold(const ranked *order, uint32_t n, uint32_t c)
{
    return c + 1 == n || order[c + 1].rank != order[c].rank;
}

static void sweep(offload_search *s, const ranked *order, bool *selected)
{
    const planner *p = s->problem.planner;
    uint32_t n = s->problem.n_units, n_thresholds = 0, rank = 0;
    for (uint32_t c = 0; c < n; c++)
        n_thresholds += is_threshold(order, n, c);
    uint32_t step = 1 + n_thresholds * N_SHARES / MOST_SIMULATIONS;
    for (uint32_t c = 0; c < n && !s->stopped; c++) {
        selected[order[c].item] = true;
        if (!is_threshold(order, n, c))
            continue;
        bool skipped =
            rank++ % step != 0 && c + 1 < n; /* the last one, all units, is always tried */
        for (share which = ALL; which < N_SHARES && !skipped; which++)
            try_share(s, selected, which);
        neap_planner_report(p, (double)(c + 1) / n);
        s->stopped = neap_planner_stopped(p) && c + 1 < n;
    }
}

static neap_status choose(offload_search *s, neap_diag *diag)
{
    uint32_t n = s->problem.n_units;
    ranked *order;
    bool *selected;
    if (!NEAP_TAKE(&s->problem.arena, n, order) || !NEAP_TAKE(&s->problem.arena, n, selected))
        return neap_fail_no_memory(diag);
    for (uint32_t u = 0; u < n; u++)
        order[u] = (ranked){ratio_of(&s->problem, u), u};
    qsort(order, n, sizeof *order, neap_ranked_down);
    sweep(s, order, selected);
    return NEAP_OK;
}

static neap_status plan_vdnn(const planner *p, draft *d, neap_diag *diag)
{
    offload_search s;
    NEAP_TRY(neap_offload_search_begin(p, (offload_grain)p->options[GRAIN], &s, diag));
    neap_status status = neap_offload_search_needed(&s) ? choose(&s, diag) : NEAP_OK;
    if (status == NEAP_OK)
        status = neap_offload_search_finish(&s, d, diag);
    neap_offload_search_end(&s);
    return status;
}

const neap_method neap_method_vdnn = {
    .name = "vdnn",
    .summary = "move the activations that long computations read, all or every other one",
    .source = "Rhu et al. 2016; Shriram, Garg and Kulkarni 2019; as in Beaumont et al. 2020",
    NEAP_METHOD_OPTIONS(options),
    .needs_link = true,
    .part_of = "offload",
    .plan = plan_vdnn,
};
