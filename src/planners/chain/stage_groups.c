/*
 * A group runs its stages in a row: `save` and `again` save all of them (the last one only as far
 * as `again` does), `backward` runs their backward ops from the last to the first. The sums below
 * are those of the recursion in schedule.h when it saves every stage of the group.
 */
#include "planners/chain/slot_table.h"

#include "base/fail.h"
#include "base/memory.h"

static void add_sums(const stage_cost *first, const stage_cost *last, stage_cost *group)
{
    *group = (stage_cost){.input = first->input,
                          .output = last->output,
                          .output_saved = last->output_saved,
                          .gradient = last->gradient};
    for (const stage_cost *s = first; s <= last; s++) {
        group->forward_ticks += s->forward_ticks;
        group->again_ticks += s == last ? s->again_ticks : s->forward_ticks;
        group->backward_ticks += s->backward_ticks;
        group->results += s->results;
        group->drop_peak = larger(group->drop_peak, s->drop_peak);
    }
}

/* carried_until: of the costs, from the first stage on. */
static void add_mode(const stage_cost *first, const stage_cost *last, const int64_t *carried_until,
                     int mode, stage_cost *group)
{
    int64_t held = 0; /* saved by the stages before s, without A(s-1) if s owns it */
    int64_t later = group->results, hold = mode == OWNED ? first->input : 0;
    int64_t carried = carried_until[last - first + 1];
    int own = mode;
    group->forward_peak[mode] = first->forward_peak[mode];
    for (const stage_cost *s = first; s <= last; s++) {
        later -= s->results;
        if (s > first)
            group->forward_peak[mode] = larger(group->forward_peak[mode], hold + s->drop_peak);
        int64_t again = s == last ? s->again_peak[own] : s->save_peak[own];
        int64_t before = held + carried - carried_until[s - first + 1]; /* with E of later stages */
        group->save_peak[mode] = larger(group->save_peak[mode], before + s->save_peak[own]);
        group->again_peak[mode] = larger(group->again_peak[mode], before + again);
        group->backward_peak[mode] =
            larger(group->backward_peak[mode], held + later + s->backward_peak[own]);
        group->kept[mode] = held + s->kept[own];
        own = s->output_saved ? HELD : OWNED;
        held = group->kept[mode] - (own == OWNED ? s->output : 0);
    }
}

neap_status neap_stage_groups_build(const stage_costs *costs, uint32_t size, stage_costs *groups,
                                    neap_diag *diag)
{
    *groups = (stage_costs){.n = (costs->n + size - 1) / size, .pinned_bytes = costs->pinned_bytes};
    size_t n = groups->n;
    neap_arena_init(&groups->arena, costs->arena.allocator);
    if (!NEAP_TAKE(&groups->arena, n, groups->stage) ||
        !NEAP_TAKE(&groups->arena, n + 1, groups->results_from) ||
        !NEAP_TAKE(&groups->arena, n + 1, groups->forward_until) ||
        !NEAP_TAKE(&groups->arena, n + 1, groups->carried_until) ||
        !NEAP_TAKE(&groups->arena, n + 1, groups->least_until))
        return neap_fail_no_memory(diag);
    for (uint32_t g = 0; g < groups->n; g++) {
        uint32_t end = (g + 1) * size < costs->n ? (g + 1) * size : costs->n;
        const stage_cost *first = &costs->stage[g * size], *last = &costs->stage[end - 1];
        add_sums(first, last, &groups->stage[g]);
        for (int mode = 0; mode < N_MODES; mode++)
            add_mode(first, last, costs->carried_until + g * size, mode, &groups->stage[g]);
        groups->results_from[g] = costs->results_from[g * size];
        groups->forward_until[g + 1] = costs->forward_until[end];
        groups->carried_until[g + 1] = costs->carried_until[end];
        groups->least_until[g + 1] = costs->least_until[end];
    }
    return NEAP_OK;
}

neap_status neap_stage_groups_expand(uint32_t n_stages, uint32_t size, schedule *s, neap_diag *diag)
{
    stage_run *runs;
    size_t n_runs = 0, capacity = s->n_runs * size;
    NEAP_TRY(NEAP_NEW(s->allocator, capacity, &runs, diag));
    for (size_t r = 0; r < s->n_runs; r++) {
        uint32_t begin = s->runs[r].stage * size;
        uint32_t end = begin + size < n_stages ? begin + size : n_stages;
        for (uint32_t l = begin; l < end; l++) {
            run_kind kind = s->runs[r].kind;
            if (kind == RUN_AGAIN && l + 1 < end)
                kind = RUN_FORWARD;
            uint32_t stage = kind == RUN_BACKWARD ? begin + (end - 1 - l) : l;
            runs[n_runs++] = (stage_run){kind, stage};
        }
    }
    NEAP_DELETE(s->allocator, s->capacity, s->runs);
    s->runs = runs;
    s->n_runs = n_runs;
    s->capacity = capacity;
    return NEAP_OK;
}
