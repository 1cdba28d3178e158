#include "planners/checkmate/stage_profile.h"

#include "base/memory.h"

static size_t n_slots(uint32_t n_stages)
{
    return (size_t)n_stages * ((size_t)n_stages + 1) / 2;
}

static int64_t *stage_slots(const stage_profile *x, uint32_t stage)
{
    return x->bytes + n_slots(stage);
}

neap_status neap_stage_profile_init(stage_profile *x, neap_allocator *allocator, uint32_t n_stages,
                                    neap_diag *diag)
{
    *x = (stage_profile){.allocator = allocator, .n_stages = n_stages};
    neap_status status = NEAP_NEW(allocator, n_slots(n_stages), &x->bytes, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_stages, &x->whole, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_stages, &x->most, diag);
    return status;
}

void neap_stage_profile_clear(stage_profile *x)
{
    NEAP_DELETE(x->allocator, n_slots(x->n_stages), x->bytes);
    NEAP_DELETE(x->allocator, x->n_stages, x->whole);
    NEAP_DELETE(x->allocator, x->n_stages, x->most);
}

static int64_t most_of(const int64_t *bytes, uint32_t from, uint32_t to)
{
    int64_t most = INT64_MIN;
    for (uint32_t k = from; k <= to; k++)
        most = bytes[k] > most ? bytes[k] : most;
    return most;
}

static void add_in_stage(stage_profile *x, uint32_t stage, uint32_t from, uint32_t to,
                         int64_t added)
{
    int64_t *bytes = stage_slots(x, stage);
    for (uint32_t k = from; k <= to; k++)
        bytes[k] += added;
    x->most[stage] = x->whole[stage] + most_of(bytes, 0, stage);
}

void neap_stage_profile_add(stage_profile *x, slot from, slot to, int64_t bytes)
{
    if (slot_before(to, from) || bytes == 0)
        return;
    if (from.stage == to.stage) {
        add_in_stage(x, from.stage, from.op, to.op, bytes);
        return;
    }
    add_in_stage(x, from.stage, from.op, from.stage, bytes);
    for (uint32_t t = from.stage + 1; t < to.stage; t++) {
        x->whole[t] += bytes;
        x->most[t] += bytes;
    }
    add_in_stage(x, to.stage, 0, to.op, bytes);
}

int64_t neap_stage_profile_most(const stage_profile *x, slot from, slot to)
{
    if (slot_before(to, from))
        return 0;
    if (from.stage == to.stage)
        return x->whole[from.stage] + most_of(stage_slots(x, from.stage), from.op, to.op);
    int64_t most = x->whole[from.stage] + most_of(stage_slots(x, from.stage), from.op, from.stage);
    int64_t last = x->whole[to.stage] + most_of(stage_slots(x, to.stage), 0, to.op);
    most = last > most ? last : most;
    for (uint32_t t = from.stage + 1; t < to.stage; t++)
        most = x->most[t] > most ? x->most[t] : most;
    return most;
}

slot neap_stage_profile_peak(const stage_profile *x, uint32_t stage)
{
    const int64_t *bytes = stage_slots(x, stage);
    uint32_t best = 0;
    for (uint32_t k = 1; k <= stage; k++)
        if (bytes[k] > bytes[best])
            best = k;
    return (slot){stage, best};
}
