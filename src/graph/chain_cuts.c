/*
 * Cuts of several storages: which boundaries inside a stage of the one-storage view are worth it?
 *
 * Any boundary between two ops is a separator; the question is which set of them makes a good
 * chain. A storage that crosses one boundary of the set belongs to that cut. One that crosses two
 * or more would be kept twice by a method that keeps both cuts, so it is carried instead: it stays
 * in memory from its first computation to its last use. Carrying costs memory at all times, so a
 * set of boundaries is good if little is carried and no part between two of them makes much.
 *
 * The candidates are sets by scale. At scale L storages that live for at most L ops are *short*.
 * From a boundary q the next one is not before all short storages that cross q are dead: short
 * storages cross one boundary at most, and what is carried is long. Of the boundaries from there
 * to where the same rule would lead next, the one is taken that the fewest bytes of short storages
 * cross. (On an unrolled LSTM that finds the end of a step, wherever it starts.) A boundary is left
 * out if the part behind it makes less than twice the bytes of its cut: it would keep about as much
 * as it lets go.
 *
 * L doubles from 1 to the length of the stage. The scale with the least sum of carried bytes and
 * largest part is taken, if that sum is at most a third of what the stage makes; else the stage
 * stays whole. That is why blocks of a ResNet are not divided (the skip is carried, and the rest of
 * a block is hardly larger), and a U-Net, a dense block or a recurrence is. O(ops + storages) for
 * each scale. If the stages are then too many for the caller, neighbours are merged.
 */
#include "base/memory.h"
#include "graph/chain_internal.h"

#define LEAST_OPS  4 /* of a stage that may be divided */
#define SHARE      3 /* carried and largest part: at most 1/SHARE of the stage */
#define CUT_FACTOR 2 /* a part makes at least this many times the bytes of its cut besides */

typedef struct divider {
    chain_builder *b;
    uint32_t first, end; /* ops of the stage */
    uint32_t entering;   /* the storage that enters it; NEAP_NONE */
    int64_t *crossing;   /* per forward op: bytes of short storages across the boundary after it */
    uint32_t *death;     /* per forward op: the last use of short storages made up to it */
    uint32_t *number;    /* per forward op and one more: boundaries before it */
} divider;

static int64_t bytes_of(const divider *d, uint32_t storage)
{
    return d->b->graph->values[storage].bytes;
}

static bool is_short(const divider *d, uint32_t storage, uint32_t scale)
{
    const reach *r = &d->b->reaches[storage];
    return chain_may_cross(d->b, storage) && r->last - r->first <= scale;
}

/* Calls `visit` for the entering storage and for each that the stage's ops make. */
static void for_storages(divider *d, uint32_t scale,
                         void (*visit)(divider *d, uint32_t storage, uint32_t scale))
{
    if (d->entering != NEAP_NONE)
        visit(d, d->entering, scale);
    for (uint32_t o = d->first; o < d->end; o++) {
        const neap_op *op = &d->b->graph->ops[o];
        for (uint32_t k = 0; k < op->n_outputs; k++)
            if (d->b->graph->values[op->outputs[k]].storage == op->outputs[k] &&
                d->b->reaches[op->outputs[k]].forward)
                visit(d, op->outputs[k], scale);
    }
}

static void add_short(divider *d, uint32_t storage, uint32_t scale)
{
    const reach *r = &d->b->reaches[storage];
    if (!is_short(d, storage, scale))
        return;
    uint32_t from = r->first < d->first ? d->first : r->first;
    d->crossing[from] += bytes_of(d, storage);
    if (r->last < d->end)
        d->crossing[r->last] -= bytes_of(d, storage);
    if (r->last > d->death[from])
        d->death[from] = r->last;
}

static void find_short(divider *d, uint32_t scale)
{
    for (uint32_t o = d->first; o < d->end; o++) {
        d->crossing[o] = 0;
        d->death[o] = o + 1;
    }
    for_storages(d, scale, add_short);
    for (uint32_t o = d->first + 1; o < d->end; o++) {
        d->crossing[o] += d->crossing[o - 1];
        if (d->death[o - 1] > d->death[o])
            d->death[o] = d->death[o - 1];
    }
}

/* The boundary with the least crossing of those at which all that crosses q has died. Returns
 * d->end - 1 or more if there is none inside. */
static uint32_t next_boundary(const divider *d, uint32_t q)
{
    uint32_t begin = d->death[q], best = begin;
    if (begin + 1 >= d->end)
        return d->end;
    for (uint32_t p = begin; p < d->death[begin] && p + 1 < d->end; p++)
        if (d->crossing[p] < d->crossing[best])
            best = p;
    return best;
}

static int64_t made_by(const divider *d, uint32_t o)
{
    const neap_op *op = &d->b->graph->ops[o];
    int64_t bytes = 0;
    for (uint32_t k = 0; k < op->n_outputs; k++)
        if (!d->b->chain->is_side[op->outputs[k]])
            bytes += bytes_of(d, op->outputs[k]); /* 0 for a view */
    return bytes;
}

/* Divides the stage at a scale: sets is_boundary inside it. Returns the bytes of the largest part.
 */
static int64_t divide(divider *d, uint32_t scale)
{
    bool *is_boundary = d->b->is_boundary;
    int64_t largest = 0, part = 0;
    find_short(d, scale);
    /* Where the rule leads from the last boundary; at first, from the one that enters the stage. */
    uint32_t next = d->first;
    if (d->entering != NEAP_NONE && is_short(d, d->entering, scale))
        next = d->b->reaches[d->entering].last;
    for (uint32_t o = d->first; o + 1 < d->end; o++) {
        is_boundary[o] = false;
        part += made_by(d, o);
        if (o < next || d->b->graph->ops[o].inside_layer)
            continue;
        next = next_boundary(d, o);
        if (part - d->crossing[o] < CUT_FACTOR * d->crossing[o] || part == 0)
            continue;
        is_boundary[o] = true;
        largest = part > largest ? part : largest;
        part = 0;
    }
    part += made_by(d, d->end - 1);
    return part > largest ? part : largest;
}

/* Boundaries that a storage crosses; d->number is that of the whole forward part or of the stage.
 */
static uint32_t times_crossed(const divider *d, uint32_t storage)
{
    const reach *r = &d->b->reaches[storage];
    uint32_t from = r->first < d->first ? d->first : r->first;
    uint32_t to = r->last < d->end ? r->last : d->end;
    uint32_t outside = r->first < d->first; /* the boundary by which it entered */
    return outside + d->number[to] - d->number[from];
}

static void number_boundaries(divider *d)
{
    d->number[d->first] = 0;
    for (uint32_t o = d->first; o < d->end; o++)
        d->number[o + 1] = d->number[o] + d->b->is_boundary[o];
}

static int64_t carried_bytes(divider *d)
{
    int64_t bytes = 0;
    number_boundaries(d);
    if (d->entering != NEAP_NONE && times_crossed(d, d->entering) > 1)
        bytes += bytes_of(d, d->entering);
    for (uint32_t o = d->first; o < d->end; o++) {
        const neap_op *op = &d->b->graph->ops[o];
        for (uint32_t k = 0; k < op->n_outputs; k++) {
            uint32_t v = op->outputs[k];
            if (d->b->graph->values[v].storage == v && chain_may_cross(d->b, v) &&
                times_crossed(d, v) > 1)
                bytes += bytes_of(d, v);
        }
    }
    return bytes;
}

/* Divides a stage at the best scale, if that is good enough. */
static void divide_stage(divider *d)
{
    int64_t whole = 0, best = INT64_MAX;
    uint32_t best_scale = 0;
    for (uint32_t o = d->first; o < d->end; o++)
        whole += made_by(d, o);
    for (uint32_t scale = 1; scale < d->end - d->first; scale *= 2) {
        int64_t largest = divide(d, scale), sum = largest + carried_bytes(d);
        if (sum < best) {
            best = sum;
            best_scale = scale;
        }
    }
    if (best <= whole / SHARE)
        divide(d, best_scale);
    else
        for (uint32_t o = d->first; o + 1 < d->end; o++)
            d->b->is_boundary[o] = false;
}

/* Side storages are carried ones, too: where the view carries, it says who needs them. */
static void carry_sides(chain_builder *b)
{
    neap_chain *chain = b->chain;
    for (uint32_t v = 0; v < b->graph->n_values; v++)
        if (chain->is_side[v] && b->reaches[b->graph->values[v].storage].forward) {
            chain->is_side[v] = false;
            chain->is_carried[v] = true;
        }
    chain->side_bytes = 0;
}

static void mark_carried(divider *d)
{
    const neap_graph *graph = d->b->graph;
    d->first = 0;
    d->end = d->b->n_forward;
    number_boundaries(d);
    for (uint32_t v = 0; v < graph->n_values; v++) {
        uint32_t storage = graph->values[v].storage;
        d->b->chain->is_carried[v] =
            chain_may_cross(d->b, storage) && times_crossed(d, storage) > 1;
    }
}

/* crossing[p]: bytes of all storages across the boundary after op p. */
static void find_crossing_bytes(divider *d)
{
    for (uint32_t o = 0; o < d->b->n_forward; o++)
        d->crossing[o] = 0;
    for (uint32_t v = 0; v < d->b->graph->n_values; v++)
        if (chain_may_cross(d->b, v)) {
            d->crossing[d->b->reaches[v].first] += bytes_of(d, v);
            d->crossing[d->b->reaches[v].last] -= bytes_of(d, v);
        }
    for (uint32_t o = 1; o < d->b->n_forward; o++)
        d->crossing[o] += d->crossing[o - 1];
}

/*
 * Merges neighbouring stages until there are about `most_stages`, so that none makes much more than
 * its share of all bytes: a group has between one and three shares, and ends where the fewest bytes
 * cross.
 */
static void merge_stages(divider *d, uint32_t most_stages)
{
    bool *is_boundary = d->b->is_boundary;
    int64_t all = 0, group = 0, before = 0;
    uint32_t best = NEAP_NONE;
    find_crossing_bytes(d);
    for (uint32_t o = 0; o < d->b->n_forward; o++)
        all += made_by(d, o);
    int64_t share = all / most_stages + 1;
    for (uint32_t o = 0; o < d->b->n_forward; o++) {
        group += made_by(d, o);
        if (!is_boundary[o])
            continue;
        if (best != NEAP_NONE && group > 3 * share) { /* the group ends at `best` */
            is_boundary[best] = true;
            group -= before;
            best = NEAP_NONE;
        }
        is_boundary[o] = false;
        if (group >= share && (best == NEAP_NONE || d->crossing[o] <= d->crossing[best])) {
            best = o;
            before = group;
        }
    }
    if (best != NEAP_NONE)
        is_boundary[best] = true;
}

static uint32_t count_boundaries(const chain_builder *b)
{
    uint32_t count = 0;
    for (uint32_t o = 0; o < b->n_forward; o++)
        count += b->is_boundary[o];
    return count;
}

neap_status neap_chain_add_boundaries(chain_builder *b, uint32_t most_stages, neap_diag *diag)
{
    divider d = {.b = b, .entering = NEAP_NONE};
    size_t n = b->n_forward;
    uint32_t begin = 0;
    uint32_t before = count_boundaries(b);
    neap_status status = NEAP_NEW(b->allocator, n, &d.crossing, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(b->allocator, n, &d.death, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(b->allocator, n + 1, &d.number, diag);
    for (uint32_t p = 0; p < b->n_forward && status == NEAP_OK; p++) {
        if (!b->is_boundary[p] && p + 1 < b->n_forward)
            continue;
        d.first = begin;
        d.end = p + 1;
        if (d.end - d.first >= LEAST_OPS)
            divide_stage(&d);
        d.entering = (uint32_t)b->crossings[p].id_sum;
        begin = p + 1;
    }
    uint32_t after = count_boundaries(b);
    if (status == NEAP_OK && after > before && after >= most_stages)
        merge_stages(&d, most_stages);
    if (status == NEAP_OK && after > before) {
        mark_carried(&d);
        carry_sides(b);
    }
    NEAP_DELETE(b->allocator, n, d.crossing);
    NEAP_DELETE(b->allocator, n, d.death);
    NEAP_DELETE(b->allocator, n + 1, d.number);
    return status;
}
