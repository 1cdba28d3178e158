/*
 * An address for every storage of a plan: from instances to offsets (neap/layout.h).
 *
 * The fixed bytes lie at the bottom and the inputs, which are never freed, above them. The placers
 * of place.h place all other instances above the inputs, and the best placement wins. With an
 * alignment, all sizes are rounded up first, so that every possible offset is aligned.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"
#include "layout/place.h"

#include <neap/layout.h>

#include <string.h>

/* The instances to be placed, all but the inputs, and their numbers in the plan. */
typedef struct movables {
    neap_instance *items;
    size_t *number;
    size_t count, capacity;
} movables;

void neap_layout_options_init(neap_layout_options *options)
{
    *options = (neap_layout_options){
        .alignment = 1, .target = -1, .seconds = 0, .threads = 0, .progress = NULL};
}

static bool round_up(int64_t size, int64_t alignment, int64_t *result)
{
    int64_t rest = size % alignment;
    return neap_add_i64(size, rest == 0 ? 0 : alignment - rest, result);
}

static neap_status fail_size(neap_diag *diag)
{
    return neap_fail(diag, NEAP_INVALID, "layout: the storages add up to more than 2^63 bytes");
}

/* An input that is there from the start to the end: all but state that travels. */
static bool is_permanent(const neap_instances *all, size_t i)
{
    return i < all->n_inputs && all->items[i].end == all->n_steps;
}

/* Stacks the permanent inputs on the fixed bytes; *base is then where the rest begins. */
static neap_status place_inputs(const neap_instances *all, int64_t alignment, int64_t *offsets,
                                int64_t *base, neap_diag *diag)
{
    for (size_t i = 0; i < all->n_inputs; i++) {
        int64_t size;
        if (!is_permanent(all, i))
            continue;
        offsets[i] = *base;
        if (!round_up(all->items[i].size, alignment, &size) || !neap_add_i64(*base, size, base))
            return fail_size(diag);
    }
    return NEAP_OK;
}

static neap_status find_movables(const neap_instances *all, int64_t alignment, int64_t base,
                                 int64_t *offsets, movables *m, neap_diag *diag)
{
    int64_t sum = base;
    for (size_t i = 0; i < all->count; i++) {
        neap_instance x = all->items[i];
        if (is_permanent(all, i))
            continue;
        offsets[i] = base; /* where something empty stays */
        if (x.size == 0)
            continue;
        if (!round_up(x.size, alignment, &x.size) || !neap_add_i64(sum, x.size, &sum))
            return fail_size(diag);
        m->items[m->count] = x;
        m->number[m->count++] = i;
    }
    return NEAP_OK;
}

/* The most bytes live together: changes by step, summed up. */
static neap_status find_least(const neap_placement_problem *p, size_t n_steps, int64_t *least,
                              neap_diag *diag)
{
    int64_t *change;
    neap_status status = NEAP_NEW(p->allocator, n_steps + 1, &change, diag);
    if (status != NEAP_OK)
        return status;
    for (size_t i = 0; i < p->count; i++) {
        change[p->instances[i].begin] += p->instances[i].size;
        change[p->instances[i].end] -= p->instances[i].size;
    }
    int64_t live = 0;
    *least = 0;
    for (size_t i = 0; i < n_steps; i++) {
        live += change[i];
        if (live > *least)
            *least = live;
    }
    NEAP_DELETE(p->allocator, n_steps + 1, change);
    return NEAP_OK;
}

/* The target is the whole arena's, the problem begins where the inputs end. */
static neap_status place_within(neap_placement_problem *problem, int64_t target, int64_t base,
                                neap_placement *best, neap_diag *diag)
{
    problem->target = problem->least;
    if (target >= base && target - base > problem->least)
        problem->target = target - base;
    return neap_place(problem, best, diag);
}

/* Combines the parts. The arena ends where its highest instance does, before rounding up. */
static neap_status store(const neap_instances *all, const movables *m, const neap_placement *best,
                         int64_t base, int64_t fixed, int64_t *offsets, neap_plan *plan,
                         neap_diag *diag)
{
    int64_t arena = fixed;
    for (size_t i = 0; i < m->count; i++)
        offsets[m->number[i]] = base + best->offsets[i];
    for (size_t i = 0; i < all->count; i++)
        if (offsets[i] + all->items[i].size > arena)
            arena = offsets[i] + all->items[i].size;
    return neap_plan_set_offsets(plan, offsets, all->count, arena, diag);
}

neap_status neap_layout_assign(neap_allocator *allocator, const neap_graph *graph, neap_plan *plan,
                               const neap_layout_options *options, neap_diag *diag)
{
    int64_t alignment = options ? options->alignment : 1;
    int64_t fixed = neap_graph_fixed_bytes(graph), base = 0;
    if (alignment < 1)
        return neap_fail(diag, NEAP_INVALID, "layout: the alignment is %lld; it must be 1 or more",
                         (long long)alignment);
    allocator = neap_allocator_or_system(allocator);
    neap_instances all;
    movables m = {0};
    neap_placement best = {0};
    int64_t *offsets = NULL;
    neap_placement_problem problem = {.allocator = allocator,
                                      .progress = options ? options->progress : NULL};
    problem.threads = options ? options->threads : 0;
    if (options && options->seconds > 0)
        problem.end = neap_clock_seconds() + options->seconds;
    problem.is_persistent = problem.end > 0 && options->target >= 0;
    neap_status status = neap_instances_collect(allocator, graph, plan, &all, diag);
    if (status != NEAP_OK)
        goto done;
    m.capacity = all.count;
    if ((status = NEAP_NEW(allocator, all.count, &offsets, diag)) != NEAP_OK ||
        (status = NEAP_NEW(allocator, m.capacity, &m.items, diag)) != NEAP_OK ||
        (status = NEAP_NEW(allocator, m.capacity, &m.number, diag)) != NEAP_OK ||
        (status = NEAP_NEW(allocator, m.capacity, &best.offsets, diag)) != NEAP_OK)
        goto done;
    if (!round_up(fixed, alignment, &base)) {
        status = fail_size(diag);
        goto done;
    }
    if ((status = place_inputs(&all, alignment, offsets, &base, diag)) != NEAP_OK ||
        (status = find_movables(&all, alignment, base, offsets, &m, diag)) != NEAP_OK)
        goto done;
    problem.instances = m.items;
    problem.count = m.count;
    status = find_least(&problem, neap_plan_step_count(plan), &problem.least, diag);
    if (status == NEAP_OK)
        status = place_within(&problem, options ? options->target : -1, base, &best, diag);
    if (status == NEAP_OK)
        status = store(&all, &m, &best, base, fixed, offsets, plan, diag);
done:
    NEAP_DELETE(allocator, m.capacity, best.offsets);
    NEAP_DELETE(allocator, m.capacity, m.number);
    NEAP_DELETE(allocator, m.capacity, m.items);
    NEAP_DELETE(allocator, all.count, offsets);
    neap_instances_clear(&all);
    return status;
}
