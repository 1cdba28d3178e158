#include "run/slow_algorithms.h"

#include "base/fail.h"
#include "base/memory.h"
#include "graph/network_internal.h"

void neap_slow_algorithms_clear(slow_algorithms *all)
{
    NEAP_DELETE(all->allocator, all->capacity, all->items);
    *all = (slow_algorithms){.allocator = all->allocator};
}

/* NULL if it is not there. */
static slow_algorithm *find(const slow_algorithms *all, size_t type, uint32_t number)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].type == type && all->items[i].number == number)
            return &all->items[i];
    return NULL;
}

neap_status neap_slow_algorithms_ask(const slow_algorithms *all, neap_backend *backend,
                                     const run_spec *spec, bool *slow, neap_diag *diag)
{
    uint32_t number;
    *slow = false;
    NEAP_TRY(neap_run_ops_algorithm(backend, spec, &number, diag));
    if (number == 0)
        return NEAP_OK;
    const slow_algorithm *known = find(all, neap_op_def_index(spec->op->type), number);
    *slow = known && known->slow;
    return NEAP_OK;
}

neap_status neap_slow_algorithms_note(slow_algorithms *all, neap_backend *backend,
                                      const run_spec *spec, bool slow, neap_diag *diag)
{
    uint32_t number;
    NEAP_TRY(neap_run_ops_algorithm(backend, spec, &number, diag));
    if (number == 0)
        return NEAP_OK;
    size_t type = neap_op_def_index(spec->op->type);
    slow_algorithm *known = find(all, type, number);
    if (known) {
        known->slow &= slow;
        return NEAP_OK;
    }
    NEAP_TRY(NEAP_RESERVE(all->allocator, all->count + 1, &all->items, &all->capacity, diag));
    all->items[all->count++] = (slow_algorithm){type, number, slow};
    return NEAP_OK;
}
