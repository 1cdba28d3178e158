/*
 * set: the checkpoints that the caller names, and no others.
 *
 * The counterpart of `checkpoint_sequential` with segments of one's own choice, and the way to try
 * a set from a paper's table: Hong et al., "GPU Memory Usage Optimization for Backward Propagation
 * in Deep Network Training", Tables 2 and 3, name the sets whose memory and time they measured.
 * Stages have the numbers that other chain methods report: d_i leaves stage i, 1 to n, and d_n, in
 * front of the loss, is a checkpoint whether it is named or not. Reported lists end with n, which
 * tells the two chain views apart (chain_views.h). Both formulas of the paper are reported:
 *
 *     equation 6:  sum of the checkpoints + the largest segment
 *     equation 9:  the largest m(i) over checkpoints i, with h the checkpoint before i:
 *                  m(i) = (checkpoints up to i) + (sum of d_k, h < k < i) + max(d_k, h <= k < i)
 */
#include "base/fail.h"
#include "planners/chain/least_peak.h"
#include "planners/common/option_list.h"

#include <inttypes.h>

enum { AT, CUTS };

/* The choices of `cuts`. */
enum { AS_LISTED, SINGLE, SEVERAL };

static const neap_option options[] = {
    [AT] = NEAP_LIST_OPTION("at", 1, 4294967294.0,
                            "stages whose output is kept, such as 3,6,24, numbered as in the "
                            "checkpoints that other chain methods report"),
    [CUTS] = NEAP_CHOICE_OPTION("cuts", "as-listed|single|several",
                                "stages between single tensors, or also between sets of several; "
                                "as-listed: those whose last one `at` names, else single"),
};

/* Whether the list is one of stages between several tensors. */
static neap_status is_fine(const planner *p, bool *fine, neap_diag *diag)
{
    neap_arena arena;
    neap_chain single = {0}, several = {0};
    int64_t *items, last = 0;
    size_t count;
    neap_arena_init(&arena, p->allocator);
    neap_status status = neap_planner_read_list(p, &options[AT], AT, &arena, &items, &count, diag);
    for (size_t i = 0; i < count && status == NEAP_OK; i++)
        last = items[i] > last ? items[i] : last;
    if (status == NEAP_OK)
        status = neap_chain_build(p->allocator, p->graph, &single, diag);
    if (status == NEAP_OK)
        status = neap_chain_build_fine(p->allocator, p->graph, 0, &several, diag);
    *fine = status == NEAP_OK && last + 1 == several.n_stages && last + 1 != single.n_stages;
    neap_chain_clear(&several);
    neap_chain_clear(&single);
    neap_arena_clear(&arena);
    return status;
}

static neap_status choose(const planner *p, least_peak_view *view, bool *chosen, neap_diag *diag)
{
    int64_t *items;
    size_t count;
    NEAP_TRY(neap_planner_read_list(p, &options[AT], AT, &view->arena, &items, &count, diag));
    chosen[view->n] = true;
    for (size_t i = 0; i < count; i++) {
        if (items[i] > view->n && view->n == 0)
            return neap_fail(diag, NEAP_INVALID,
                             "option at names stage %" PRId64
                             ", but no storage separates this graph into stages; a method for any "
                             "graph, such as neap, can plan it",
                             items[i]);
        if (items[i] > view->n)
            return neap_fail(diag, NEAP_INVALID,
                             "option at names stage %" PRId64
                             ", but the stages before the loss are 1 to %" PRIu32
                             " here; use numbers in that range",
                             items[i], view->n);
        chosen[items[i]] = true;
    }
    return NEAP_OK;
}

typedef struct peaks {
    uint64_t static_peak, dynamic_peak; /* equations 6 and 9 */
} peaks;

static peaks formulas(const least_peak_view *view, const bool *chosen)
{
    const int64_t *d = view->d;
    uint64_t stored = (uint64_t)d[0], segment = 0, largest = (uint64_t)d[0], longest = 0;
    peaks result = {.dynamic_peak = stored};
    for (uint32_t i = 1; i <= view->n; i++) {
        uint64_t size = (uint64_t)d[i];
        if (chosen[i]) {
            uint64_t m = stored + size + segment + largest;
            result.dynamic_peak = m > result.dynamic_peak ? m : result.dynamic_peak;
            longest = segment > longest ? segment : longest;
            stored += size;
            segment = 0;
            largest = size;
        } else {
            segment += size;
            largest = size > largest ? size : largest;
        }
    }
    result.static_peak = stored + longest;
    return result;
}

static neap_status use(const planner *p, draft *d, least_peak_view *view, neap_diag *diag)
{
    bool *chosen;
    if (!NEAP_TAKE(&view->arena, (size_t)view->n + 1, chosen))
        return neap_fail_no_memory(diag);
    NEAP_TRY(choose(p, view, chosen, diag));
    NEAP_TRY(neap_planner_use_segments(p, d, &view->chain, chosen, NULL, diag));
    const peaks found = formulas(view, chosen);
    NEAP_TRY(neap_draft_add_number(p, d, "equation_6", (double)found.static_peak, diag));
    NEAP_TRY(neap_draft_add_number(p, d, "equation_9", (double)found.dynamic_peak, diag));
    return neap_planner_view_list(p, d, view, chosen, diag);
}

static neap_status plan_set(const planner *p, draft *d, neap_diag *diag)
{
    least_peak_view view;
    chain_view which = {.fine = p->options[CUTS] == SEVERAL};
    if (p->options[CUTS] == AS_LISTED)
        NEAP_TRY(is_fine(p, &which.fine, diag));
    neap_status status = neap_planner_view_build(p, which, &view, diag);
    if (status == NEAP_OK)
        status = use(p, d, &view, diag);
    neap_planner_view_clear(&view);
    return status;
}

const neap_method neap_method_set = {
    .name = "set",
    .summary = "the checkpoints that you name, the rest computed again",
    .source = "what torch.utils.checkpoint does with segments of one's own",
    NEAP_METHOD_OPTIONS(options),
    .plan = plan_set,
};
