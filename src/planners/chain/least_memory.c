/*
 * The least memory that the recursion of schedule.h can reach: need(i, j) for every subchain.
 * O(n^3) time, O(n^2) space.
 */
#include "base/fail.h"
#include "planners/chain/schedule.h"

typedef struct least_table {
    run_chooser base;
    const stage_costs *costs;
    int64_t *need;    /* by stage_costs_place */
    uint32_t *choice; /* likewise: k as in schedule.h */
} least_table;

static size_t place(const least_table *t, int mode, uint32_t i, uint32_t j)
{
    return stage_costs_place(t->costs, mode, i, j);
}

static void fill(least_table *t, int mode, uint32_t i, uint32_t j)
{
    int64_t best = INT64_MAX, forward_peak = 0;
    uint32_t choice = i;
    for (uint32_t k = i; k <= j; k++) {
        forward_peak = stage_costs_extend_peak(t->costs, mode, i, k, forward_peak);
        chain_split s = stage_costs_split(t->costs, mode, i, j, k, forward_peak);
        if (s.peak >= best)
            break; /* later checkpoints have no lower peak */
        int64_t need = larger(s.peak, s.right_held + t->need[place(t, s.right_mode, s.right, j)]);
        if (k > i)
            need = larger(need, s.left_held + t->need[place(t, mode, i, k - 1)]);
        if (need < best) {
            best = need;
            choice = k;
        }
    }
    t->need[place(t, mode, i, j)] = best;
    t->choice[place(t, mode, i, j)] = choice;
}

static uint32_t choose(run_chooser *self, subchain whole, int64_t *right_memory,
                       int64_t *left_memory)
{
    const least_table *t = (const least_table *)self;
    *right_memory = *left_memory = 0;
    return t->choice[place(t, whole.mode, whole.i, whole.j)];
}

neap_status neap_least_memory_schedule(const planner *p, const stage_costs *costs, schedule *s,
                                       int64_t *bytes, neap_diag *diag)
{
    least_table t = {.base = {choose}, .costs = costs};
    size_t n = costs->n, n_places = N_MODES * (n * (n + 1) / 2);
    neap_arena arena;
    neap_status status = NEAP_OK;
    *s = (schedule){.allocator = p->allocator};
    *bytes = costs->pinned_bytes;
    neap_arena_init(&arena, p->allocator);
    if (!NEAP_TAKE(&arena, n_places, t.need) || !NEAP_TAKE(&arena, n_places, t.choice)) {
        status = neap_fail_no_memory(diag);
        goto done;
    }
    for (uint32_t i = costs->n; i-- > 0;)
        for (int mode = 0; mode < N_MODES; mode++) {
            const stage_cost *one = &costs->stage[i];
            t.need[place(&t, mode, i, i)] =
                larger(one->gradient + one->again_peak[mode], one->backward_peak[mode]);
            for (uint32_t j = i + 1; j < costs->n; j++)
                fill(&t, mode, i, j);
        }
    if (n > 0)
        *bytes += t.need[place(&t, HELD, 0, costs->n - 1)];
    status = neap_schedule_build(p, costs, &t.base, 0, s, diag);
done:
    neap_arena_clear(&arena);
    return status;
}
