/*
 * The least memory that the recursion of schedule.h can do with: need(i, j) for every subchain,
 * smallest first. O(n^3) time, O(n^2) space, both small beside the methods that ask for it when a
 * budget is too tight.
 */
#include "base/fail.h"
#include "planners/chain/schedule.h"

typedef struct least_table {
    run_chooser base;
    const stage_costs *costs;
    size_t n;
    int64_t *need;    /* modes x n x n, row i */
    uint32_t *choice; /* likewise: k as in schedule.h */
} least_table;

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static size_t place(const least_table *t, int mode, uint32_t i, uint32_t j)
{
    return ((size_t)mode * t->n + i) * t->n + j;
}

static int64_t need_at(const least_table *t, int mode, uint32_t i, uint32_t j)
{
    return t->need[place(t, mode, i, j)];
}

static void fill(least_table *t, int mode, uint32_t i, uint32_t j)
{
    const stage_cost *stage = t->costs->stage, *first = &stage[i];
    int64_t gradient = stage[j].gradient, hold = stage_costs_held_input(t->costs, mode, i);
    int64_t forward_peak = first->forward_peak[mode];
    int right_mode = first->output_saved ? HELD : OWNED;
    int64_t kept = first->kept[mode] - (right_mode == OWNED ? first->output : 0);
    int64_t best = most(gradient + first->save_peak[mode],
                        most(kept + need_at(t, right_mode, i + 1, j),
                             stage_costs_results(t->costs, i + 1, j) + first->backward_peak[mode]));
    uint32_t choice = i;
    for (uint32_t k = i + 1; k <= j && gradient + forward_peak < best; k++) {
        forward_peak = stage_costs_extend_peak(t->costs, mode, i, k, forward_peak);
        int64_t need = most(gradient + forward_peak,
                            most(hold + need_at(t, OWNED, k, j),
                                 stage_costs_results(t->costs, k, j) + need_at(t, mode, i, k - 1)));
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
    least_table t = {.base = {choose}, .costs = costs, .n = costs->n};
    *s = (schedule){.allocator = p->allocator};
    *bytes = costs->pinned_bytes;
    if (t.n == 0)
        return NEAP_OK;
    neap_arena arena;
    neap_arena_init(&arena, p->allocator);
    neap_status status = NEAP_OK;
    if (NEAP_TAKE(&arena, N_MODES * t.n * t.n, t.need) &&
        NEAP_TAKE(&arena, N_MODES * t.n * t.n, t.choice)) {
        for (uint32_t i = costs->n; i-- > 0;)
            for (int mode = 0; mode < N_MODES; mode++) {
                const stage_cost *one = &costs->stage[i];
                t.need[place(&t, mode, i, i)] =
                    most(one->gradient + one->again_peak[mode], one->backward_peak[mode]);
                for (uint32_t j = i + 1; j < costs->n; j++)
                    fill(&t, mode, i, j);
            }
        *bytes += need_at(&t, HELD, 0, costs->n - 1);
        status = neap_schedule_build(p, costs, &t.base, 0, s, diag);
    } else {
        status = neap_fail_no_memory(diag);
    }
    neap_arena_clear(&arena);
    return status;
}
