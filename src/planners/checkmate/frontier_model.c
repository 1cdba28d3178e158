/* Building the program of frontier_model.h: which ops may run where, then every value's gaps. */
#include "planners/checkmate/frontier_model.h"

#include "base/fail.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One possible touch of a value. */
typedef struct ref {
    uint32_t slot; /* n_slots: the end, where outputs are read */
    int32_t run;   /* the column of the op that makes or reads it */
    bool makes;
} ref;

/* A value is resident in the slots from .. to while the column is 1. */
typedef struct cover {
    int32_t column;
    uint32_t from, to;
} cover;

typedef struct event {
    uint32_t slot;
    int32_t column;
    bool begins;
} event;

typedef struct builder {
    frontier_model *m;
    const neap_graph *graph;
    sparse_model *lp;
    neap_diag *diag;
    neap_arena arena;     /* of what is needed only while building, except what grows */
    bool integer_gaps;    /* they are whole if R is; saying so gives HiGHS more to work with, which
                             pays on all but small graphs */
    int64_t spare_ticks;  /* what a plan may take beyond the certain ticks */
    int64_t *least_ticks; /* per op, over its variants */
    bool *can_repeat;     /* per op */
    uint32_t *latest;     /* per op: the last frontier in which running it again can be of use */
    bool *frontier_is_ample; /* per frontier: everything that could be resident in it fits */
    ref *refs;
    int32_t *gaps; /* behind each ref */
    neap_columns ref_columns;
    cover *covers; /* of one storage */
    size_t n_covers, cover_capacity;
    event *events;
    size_t event_capacity;
    int32_t *active; /* columns that are resident at the sweep's position, with repetitions */
    size_t n_active, active_capacity;
} builder;

/* ---- Size ---- */

frontier_size neap_frontier_model_size(const neap_graph *graph, frontier_form form)
{
    frontier_size size = {0, 0};
    uint64_t n = neap_graph_op_count(graph);
    bool whole = form == FRONTIER_UNPARTITIONED;
    for (uint64_t k = 0; k < n; k++) {
        const neap_op *op = neap_graph_op(graph, (uint32_t)k);
        uint64_t frontiers = whole ? n : n - k;
        size.columns += frontiers;
        for (uint32_t i = 0; i < op->n_outputs; i++) {
            uint32_t n_readers;
            const uint32_t *readers = neap_graph_readers(graph, op->outputs[i], &n_readers);
            uint64_t refs = frontiers;
            for (uint32_t r = 0; r < n_readers; r++)
                refs += whole ? n : n - readers[r];
            size.columns += refs;
            size.rows += 2 * refs;
        }
    }
    return size;
}

/* ---- Which ops may run where ---- */

/* The last frontier in which a run that reads `value` could happen; 0 where nothing reads it. */
static uint32_t last_use(const builder *b, uint32_t value)
{
    uint32_t n_readers, last = 0;
    const uint32_t *readers = neap_graph_readers(b->graph, value, &n_readers);
    if (neap_graph_is_output(b->graph, value))
        return b->m->n_frontiers - 1;
    for (uint32_t r = 0; r < n_readers; r++)
        if (b->latest[readers[r]] > last)
            last = b->latest[readers[r]];
    return last;
}

static void find_repeatable(builder *b)
{
    for (uint32_t k = b->m->n_ops; k-- > 0;) {
        const neap_op *op = neap_graph_op(b->graph, k);
        b->latest[k] = k;
        if (b->least_ticks[k] > b->spare_ticks)
            continue;
        for (uint32_t i = 0; i < op->n_outputs; i++) {
            uint32_t last = last_use(b, op->outputs[i]);
            if (last > b->latest[k])
                b->latest[k] = last;
        }
        b->can_repeat[k] = b->latest[k] > k;
    }
}

/*
 * The most scratch bytes of an op: its workspace, and outputs that nothing could use any more when
 * it runs for the sake of others (`last`: per storage, the last frontier of a use).
 */
static int64_t passing_bytes(const builder *b, uint32_t k, const uint32_t *last)
{
    const neap_op *op = neap_graph_op(b->graph, k);
    int64_t workspace = 0, unused = 0;
    for (uint32_t q = 0; q < op->n_variants; q++)
        if (op->variants[q].workspace > workspace)
            workspace = op->variants[q].workspace;
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        uint32_t s = neap_graph_value(b->graph, op->outputs[i])->storage;
        const neap_value *storage = neap_graph_value(b->graph, s);
        if (storage->producer != NEAP_NONE && last[s] < b->latest[k])
            unused += storage->bytes;
    }
    return workspace + unused;
}

/* A frontier is ample if all storages that could be live in it fit, and the worst op's scratch. */
static neap_status find_ample_frontiers(builder *b)
{
    frontier_model *m = b->m;
    uint32_t n_values = neap_graph_value_count(b->graph);
    uint32_t *first, *last;
    int64_t *change;
    if (!NEAP_TAKE(&b->arena, n_values, first) || !NEAP_TAKE(&b->arena, n_values, last) ||
        !NEAP_TAKE(&b->arena, m->n_frontiers + (size_t)1, change))
        return neap_fail_no_memory(b->diag);
    for (uint32_t v = 0; v < n_values; v++)
        first[v] = UINT32_MAX;
    for (uint32_t v = 0; v < n_values; v++) {
        const neap_value *value = neap_graph_value(b->graph, v);
        if (value->producer == NEAP_NONE)
            continue;
        uint32_t end = last_use(b, v), s = value->storage;
        if (end < value->producer)
            end = value->producer;
        first[s] = value->producer < first[s] ? value->producer : first[s];
        last[s] = end > last[s] ? end : last[s];
    }
    for (uint32_t s = 0; s < n_values; s++) {
        const neap_value *value = neap_graph_value(b->graph, s);
        if (value->storage != s || value->producer == NEAP_NONE || first[s] == UINT32_MAX)
            continue;
        change[first[s]] += value->bytes;
        change[last[s] + 1] -= value->bytes;
    }
    int64_t live = 0, passing = 0;
    for (uint32_t t = 0; t < m->n_frontiers; t++) {
        int64_t own = passing_bytes(b, t, last);
        passing = own > passing ? own : passing;
        live += change[t];
        b->frontier_is_ample[t] = live + passing <= m->room;
    }
    return NEAP_OK;
}

static bool may_run(const builder *b, uint32_t t, uint32_t k)
{
    if (b->m->form == FRONTIER_UNPARTITIONED)
        return true;
    if (k >= t)
        return k == t;
    bool as_before = t > 0 && b->frontier_is_ample[t] && b->frontier_is_ample[t - 1];
    return b->can_repeat[k] && t <= b->latest[k] && !as_before;
}

static double run_cost(const builder *b, uint32_t k)
{
    const frontier_model *m = b->m;
    uint32_t first = m->variant_start[k];
    if (m->variant_start[k + 1] - first > 1)
        return 0; /* counted at the variant's own column */
    return (double)neap_graph_op(b->graph, k)->variants[m->variants[first]].ticks * m->ticks_scale;
}

static neap_status add_runs(builder *b)
{
    frontier_model *m = b->m;
    size_t n = m->n_ops, cells = (size_t)m->n_frontiers * n, slots = 0;
    for (uint32_t t = 0; t < m->n_frontiers; t++)
        for (uint32_t k = 0; k < n; k++) {
            int32_t *run = &m->run[t * n + k];
            if (!may_run(b, t, k))
                *run = FRONTIER_ZERO;
            else if (m->form == FRONTIER_PARTITIONED && t == k)
                *run = FRONTIER_ONE;
            else
                *run = neap_sparse_column(b->lp, 0, 1, run_cost(b, k), true);
            m->slot_of[t * n + k] = *run == FRONTIER_ZERO ? NEAP_NONE : (uint32_t)slots++;
        }
    m->n_slots = (uint32_t)slots;
    if (!NEAP_TAKE(&m->arena, slots, m->slot_op) ||
        !NEAP_TAKE(&m->arena, slots, m->slot_frontier) ||
        !NEAP_TAKE(&m->arena, slots, m->has_row) || !NEAP_TAKE(&m->arena, slots, m->variant_run))
        return neap_fail_no_memory(b->diag);
    for (size_t c = 0; c < cells; c++)
        if (m->slot_of[c] != NEAP_NONE) {
            m->slot_op[m->slot_of[c]] = (uint32_t)(c % n);
            m->slot_frontier[m->slot_of[c]] = (uint32_t)(c / n);
        }
    return NEAP_OK;
}

/* Unpartitioned: every op runs at least once. */
static void add_coverage(builder *b)
{
    frontier_model *m = b->m;
    for (uint32_t k = 0; k < m->n_ops && m->form == FRONTIER_UNPARTITIONED; k++) {
        neap_sparse_row_begin(b->lp);
        for (uint32_t t = 0; t < m->n_frontiers; t++)
            neap_sparse_row_add(b->lp, m->run[(size_t)t * m->n_ops + k], 1);
        neap_sparse_row_end(b->lp, 1, HUGE_VAL);
    }
}

/* ---- Items ---- */

static neap_status add_item(builder *b, int32_t column, uint32_t from, uint32_t to, int64_t bytes)
{
    frontier_model *m = b->m;
    if (column == FRONTIER_ZERO || bytes == 0 || from > to || from >= m->n_slots)
        return NEAP_OK;
    NEAP_TRY(NEAP_RESERVE(m->allocator, m->n_items + 1, &m->items, &m->item_capacity, b->diag));
    m->items[m->n_items++] =
        (frontier_item){column, from, to < m->n_slots ? to : m->n_slots - 1, bytes};
    return NEAP_OK;
}

static neap_status add_cover(builder *b, int32_t column, uint32_t from, uint32_t to)
{
    if (column == FRONTIER_ZERO || from > to)
        return NEAP_OK;
    if (b->n_covers > 0) { /* a gap that goes on across a reader */
        cover *last = &b->covers[b->n_covers - 1];
        if (last->column == column && last->to + 1 == from) {
            last->to = to;
            return NEAP_OK;
        }
    }
    NEAP_TRY(
        NEAP_RESERVE(b->m->allocator, b->n_covers + 1, &b->covers, &b->cover_capacity, b->diag));
    b->covers[b->n_covers++] = (cover){column, from, to};
    return NEAP_OK;
}

/* ---- The gaps of a value ---- */

/* x <= y for columns or constants; nothing where it holds anyway. */
static void add_at_most(builder *b, int32_t x, int32_t y)
{
    if (x == FRONTIER_ZERO || y == FRONTIER_ONE || x == y || b->lp->failed)
        return;
    if (y == FRONTIER_ZERO) {
        b->lp->upper[x] = 0;
        return;
    }
    if (x == FRONTIER_ONE) {
        b->lp->lower[y] = 1;
        return;
    }
    neap_sparse_row_begin(b->lp);
    neap_sparse_row_add(b->lp, x, 1);
    neap_sparse_row_add(b->lp, y, -1);
    neap_sparse_row_end(b->lp, -HUGE_VAL, 0);
}

/* after <= before + run, and before + run <= 1. */
static void add_making(builder *b, int32_t before, int32_t run, int32_t after)
{
    if (run == FRONTIER_ONE)
        return; /* the first run of a frontier: nothing was there before */
    if (before == FRONTIER_ZERO) {
        add_at_most(b, after, run);
        return;
    }
    if (before == FRONTIER_ONE) {
        add_at_most(b, run, FRONTIER_ZERO);
        return;
    }
    bool kept = after == FRONTIER_ONE;
    neap_sparse_row_begin(b->lp);
    neap_sparse_row_add(b->lp, before, 1);
    neap_sparse_row_add(b->lp, run, 1);
    neap_sparse_row_end(b->lp, kept ? 1 : -HUGE_VAL, 1);
    if (kept || after == FRONTIER_ZERO)
        return;
    neap_sparse_row_begin(b->lp);
    neap_sparse_row_add(b->lp, after, 1);
    neap_sparse_row_add(b->lp, before, -1);
    neap_sparse_row_add(b->lp, run, -1);
    neap_sparse_row_end(b->lp, -HUGE_VAL, 0);
}

static neap_status collect_refs(builder *b, uint32_t v, size_t *count)
{
    frontier_model *m = b->m;
    uint32_t n_readers, producer = neap_graph_value(b->graph, v)->producer;
    const uint32_t *readers = neap_graph_readers(b->graph, v, &n_readers);
    size_t n = 0, most = (size_t)m->n_frontiers * (1 + n_readers) + 1;
    NEAP_TRY(NEAP_RESERVE_COLUMNS(&b->ref_columns, m->allocator, most, b->diag,
                                  NEAP_COLUMN(&b->refs), NEAP_COLUMN(&b->gaps)));
    uint32_t first = m->form == FRONTIER_PARTITIONED ? producer : 0;
    for (uint32_t t = first; t < m->n_frontiers; t++) {
        const int32_t *run = &m->run[(size_t)t * m->n_ops];
        const uint32_t *slot = &m->slot_of[(size_t)t * m->n_ops];
        if (run[producer] != FRONTIER_ZERO)
            b->refs[n++] = (ref){slot[producer], run[producer], true};
        for (uint32_t r = 0; r < n_readers; r++)
            if (run[readers[r]] != FRONTIER_ZERO)
                b->refs[n++] = (ref){slot[readers[r]], run[readers[r]], false};
    }
    if (neap_graph_is_output(b->graph, v))
        b->refs[n++] = (ref){m->n_slots, FRONTIER_ONE, false};
    *count = n;
    return NEAP_OK;
}

/* Whether all slots behind one ref up to the next lie in frontiers with room for everything. */
static bool is_ample(const builder *b, const ref *from, const ref *to)
{
    const frontier_model *m = b->m;
    if (m->form == FRONTIER_UNPARTITIONED || from->slot + 1 >= m->n_slots)
        return false;
    uint32_t end = to->slot < m->n_slots ? to->slot : m->n_slots - 1;
    uint32_t begin = from->slot + 1 < end ? from->slot + 1 : end;
    for (uint32_t t = m->slot_frontier[begin]; t <= m->slot_frontier[end]; t++)
        if (!b->frontier_is_ample[t])
            return false;
    return true;
}

/* Columns for the gaps, constants where it is certain; a gap that costs nothing goes on. */
static void choose_gaps(builder *b, size_t n, bool single_output)
{
    for (size_t i = n; i-- > 0;) {
        const ref *next = i + 1 < n ? &b->refs[i + 1] : NULL;
        bool used_later = next && (!next->makes || b->gaps[i + 1] != FRONTIER_ZERO);
        bool certain =
            next && !next->makes && (next->run == FRONTIER_ONE || b->gaps[i + 1] == FRONTIER_ONE);
        b->gaps[i] = certain ? FRONTIER_ONE : used_later ? 0 : FRONTIER_ZERO;
    }
    for (size_t i = 0; i < n; i++) {
        if (b->gaps[i] < 0)
            continue;
        bool goes_on = i > 0 && !b->refs[i].makes && single_output && i + 1 < n &&
                       is_ample(b, &b->refs[i], &b->refs[i + 1]);
        b->gaps[i] = goes_on ? b->gaps[i - 1] : neap_sparse_column(b->lp, 0, 1, 0, b->integer_gaps);
    }
}

/* The value is resident at the beginning of the frontiers between two refs while the gap is 1. */
static void note_kept(builder *b, uint32_t v, const ref *from, const ref *to, int32_t gap)
{
    frontier_model *m = b->m;
    size_t n_values = neap_graph_value_count(b->graph);
    uint32_t last = to->slot < m->n_slots ? m->slot_frontier[to->slot] : m->n_frontiers - 1;
    for (uint32_t t = m->slot_frontier[from->slot] + 1; t <= last; t++)
        m->kept[t * n_values + v] = gap;
}

/* Gaps, their rows, and what the value covers. */
static neap_status add_value(builder *b, uint32_t v)
{
    const neap_op *producer = neap_graph_op(b->graph, neap_graph_value(b->graph, v)->producer);
    size_t n;
    NEAP_TRY(collect_refs(b, v, &n));
    choose_gaps(b, n, producer->n_outputs == 1);
    int32_t before = FRONTIER_ZERO;
    for (size_t i = 0; i < n; i++) {
        const ref *at = &b->refs[i];
        int32_t after = b->gaps[i];
        if (at->makes) {
            add_making(b, before, at->run, after);
            NEAP_TRY(add_cover(b, at->run, at->slot, at->slot));
        } else {
            add_at_most(b, at->run, before);
            add_at_most(b, after, before);
        }
        if (i + 1 < n) {
            note_kept(b, v, at, &b->refs[i + 1], after);
            NEAP_TRY(add_cover(b, after, at->slot + 1, b->refs[i + 1].slot));
        }
        before = after;
    }
    return NEAP_OK;
}

/* ---- Storages ---- */

static int compare_events(const void *left, const void *right)
{
    const event *x = left, *y = right;
    if (x->slot != y->slot)
        return x->slot < y->slot ? -1 : 1;
    if (x->begins != y->begins)
        return x->begins ? 1 : -1;
    return x->column < y->column ? -1 : x->column > y->column;
}

static neap_status update_active(builder *b, const event *e)
{
    if (e->begins) {
        NEAP_TRY(NEAP_RESERVE(b->m->allocator, b->n_active + 1, &b->active, &b->active_capacity,
                              b->diag));
        b->active[b->n_active++] = e->column;
        return NEAP_OK;
    }
    for (size_t i = 0; i < b->n_active; i++)
        if (b->active[i] == e->column) {
            b->active[i] = b->active[--b->n_active];
            break;
        }
    return NEAP_OK;
}

/* The column that is 1 whenever one of the active ones is. */
static int32_t any_active(builder *b)
{
    bool same = true;
    for (size_t i = 0; i < b->n_active; i++) {
        if (b->active[i] == FRONTIER_ONE)
            return FRONTIER_ONE;
        same = same && b->active[i] == b->active[0];
    }
    if (same)
        return b->n_active ? b->active[0] : FRONTIER_ZERO;
    int32_t any = neap_sparse_column(b->lp, 0, 1, 0, false);
    for (size_t i = 0; i < b->n_active; i++)
        add_at_most(b, b->active[i], any);
    return any;
}

/* A storage that several values share: live where one of them is. */
static neap_status add_shared_items(builder *b, int64_t bytes)
{
    size_t n = 0;
    NEAP_TRY(
        NEAP_RESERVE(b->m->allocator, 2 * b->n_covers, &b->events, &b->event_capacity, b->diag));
    for (size_t i = 0; i < b->n_covers; i++) {
        b->events[n++] = (event){b->covers[i].from, b->covers[i].column, true};
        b->events[n++] = (event){b->covers[i].to + 1, b->covers[i].column, false};
    }
    if (n > 0)
        qsort(b->events, n, sizeof *b->events, compare_events);
    b->n_active = 0;
    for (size_t i = 0; i < n;) {
        uint32_t slot = b->events[i].slot;
        for (; i < n && b->events[i].slot == slot; i++)
            NEAP_TRY(update_active(b, &b->events[i]));
        if (i < n && slot < b->m->n_slots)
            NEAP_TRY(add_item(b, any_active(b), slot, b->events[i].slot - 1, bytes));
    }
    return NEAP_OK;
}

static neap_status add_storage(builder *b, const uint32_t *values, size_t n_values, int64_t bytes)
{
    b->n_covers = 0;
    for (size_t i = 0; i < n_values; i++)
        NEAP_TRY(add_value(b, values[i]));
    if (n_values > 1 && bytes > 0)
        return add_shared_items(b, bytes);
    for (size_t i = 0; i < b->n_covers; i++)
        NEAP_TRY(add_item(b, b->covers[i].column, b->covers[i].from, b->covers[i].to, bytes));
    return NEAP_OK;
}

/* All values that ops make, storage by storage. Those on an input's storage take nothing. */
static neap_status add_storages(builder *b)
{
    uint32_t n_values = neap_graph_value_count(b->graph), *next, *chain, *first;
    if (!NEAP_TAKE(&b->arena, n_values, next) || !NEAP_TAKE(&b->arena, n_values, chain) ||
        !NEAP_TAKE(&b->arena, n_values, first))
        return neap_fail_no_memory(b->diag);
    for (uint32_t v = 0; v < n_values; v++)
        first[v] = NEAP_NONE;
    for (uint32_t v = n_values; v-- > 0;) {
        const neap_value *value = neap_graph_value(b->graph, v);
        if (value->producer == NEAP_NONE)
            continue;
        next[v] = first[value->storage];
        first[value->storage] = v;
    }
    for (uint32_t s = 0; s < n_values; s++) {
        const neap_value *storage = neap_graph_value(b->graph, s);
        size_t n_chain = 0;
        for (uint32_t v = first[s]; v != NEAP_NONE; v = next[v])
            chain[n_chain++] = v;
        int64_t bytes = storage->producer == NEAP_NONE ? 0 : storage->bytes;
        NEAP_TRY(add_storage(b, chain, n_chain, bytes));
    }
    return NEAP_OK;
}

/* ---- Variants and workspaces ---- */

bool neap_frontier_variant_is_dominated(const neap_op *op, uint32_t variant)
{
    const neap_variant *own = &op->variants[variant];
    for (uint32_t o = 0; o < op->n_variants; o++) {
        const neap_variant *other = &op->variants[o];
        bool better = other->ticks < own->ticks || other->workspace < own->workspace || o < variant;
        if (o != variant && other->ticks <= own->ticks && other->workspace <= own->workspace &&
            better)
            return true;
    }
    return false;
}

static neap_status choose_variants(builder *b)
{
    frontier_model *m = b->m;
    size_t total = 0, kept = 0;
    for (uint32_t k = 0; k < m->n_ops; k++)
        total += neap_graph_op(b->graph, k)->n_variants;
    if (!NEAP_TAKE(&m->arena, total, m->variants) ||
        !NEAP_TAKE(&m->arena, total, m->variant_chosen))
        return neap_fail_no_memory(b->diag);
    for (uint32_t k = 0; k < m->n_ops; k++) {
        const neap_op *op = neap_graph_op(b->graph, k);
        m->variant_start[k] = (uint32_t)kept;
        b->least_ticks[k] = INT64_MAX;
        for (uint32_t q = 0; q < op->n_variants; q++) {
            if (op->variants[q].ticks < b->least_ticks[k])
                b->least_ticks[k] = op->variants[q].ticks;
            if (!neap_frontier_variant_is_dominated(op, q))
                m->variants[kept++] = q;
        }
    }
    m->variant_start[m->n_ops] = (uint32_t)kept;
    return NEAP_OK;
}

/* One of the variants is chosen; the partitioned form's certain run counts its time there. */
static void add_choice(builder *b, uint32_t k)
{
    frontier_model *m = b->m;
    const neap_op *op = neap_graph_op(b->graph, k);
    bool certain = m->form == FRONTIER_PARTITIONED;
    for (uint32_t i = m->variant_start[k]; i < m->variant_start[k + 1]; i++) {
        double ticks = (double)op->variants[m->variants[i]].ticks;
        m->variant_chosen[i] =
            neap_sparse_column(b->lp, 0, 1, certain ? ticks * m->ticks_scale : 0, true);
    }
    neap_sparse_row_begin(b->lp);
    for (uint32_t i = m->variant_start[k]; i < m->variant_start[k + 1]; i++)
        neap_sparse_row_add(b->lp, m->variant_chosen[i], 1);
    neap_sparse_row_end(b->lp, 1, 1);
}

/* A run of an op with several variants: one of them, the chosen one. */
static void add_variant_runs(builder *b, uint32_t slot, uint32_t k, int32_t run)
{
    frontier_model *m = b->m;
    const neap_op *op = neap_graph_op(b->graph, k);
    uint32_t begin = m->variant_start[k], end = m->variant_start[k + 1];
    int32_t first = FRONTIER_ZERO;
    for (uint32_t i = begin; i < end; i++) {
        double ticks = (double)op->variants[m->variants[i]].ticks;
        int32_t column = neap_sparse_column(b->lp, 0, 1, ticks * m->ticks_scale, false);
        first = i == begin ? column : first;
    }
    m->variant_run[slot] = first;
    neap_sparse_row_begin(b->lp);
    neap_sparse_row_add(b->lp, run, -1);
    for (uint32_t i = begin; i < end; i++)
        neap_sparse_row_add(b->lp, first + (int32_t)(i - begin), 1);
    neap_sparse_row_end(b->lp, 0, 0);
    for (uint32_t i = begin; i < end; i++)
        add_at_most(b, first + (int32_t)(i - begin), m->variant_chosen[i]);
}

static neap_status add_workspaces(builder *b)
{
    frontier_model *m = b->m;
    for (uint32_t k = 0; k < m->n_ops; k++)
        if (m->variant_start[k + 1] - m->variant_start[k] > 1)
            add_choice(b, k);
    for (uint32_t slot = 0; slot < m->n_slots; slot++) {
        uint32_t k = m->slot_op[slot], begin = m->variant_start[k], end = m->variant_start[k + 1];
        const neap_op *op = neap_graph_op(b->graph, k);
        int32_t run = m->run[(size_t)m->slot_frontier[slot] * m->n_ops + k], by = run;
        m->variant_run[slot] = FRONTIER_ZERO;
        if (end - begin > 1 && run == FRONTIER_ONE)
            m->variant_run[slot] = m->variant_chosen[begin];
        else if (end - begin > 1)
            add_variant_runs(b, slot, k, run);
        for (uint32_t i = begin; i < end && !b->lp->failed; i++) {
            by = end - begin > 1 ? m->variant_run[slot] + (int32_t)(i - begin) : run;
            NEAP_TRY(add_item(b, by, slot, slot, op->variants[m->variants[i]].workspace));
        }
    }
    return NEAP_OK;
}

/* ---- All together ---- */

static neap_status allocate(builder *b)
{
    frontier_model *m = b->m;
    size_t n = m->n_ops, n_frontiers = m->n_frontiers, cells = n_frontiers * n;
    size_t kept_cells = n_frontiers * neap_graph_value_count(m->graph);
    if (!NEAP_TAKE(&m->arena, cells, m->run) || !NEAP_TAKE(&m->arena, cells, m->slot_of) ||
        !NEAP_TAKE(&m->arena, kept_cells, m->kept) ||
        !NEAP_TAKE(&m->arena, n + 1, m->variant_start) ||
        !NEAP_TAKE(&b->arena, n, b->least_ticks) || !NEAP_TAKE(&b->arena, n, b->can_repeat) ||
        !NEAP_TAKE(&b->arena, n, b->latest) ||
        !NEAP_TAKE(&b->arena, n_frontiers, b->frontier_is_ample))
        return neap_fail_no_memory(b->diag);
    for (size_t i = 0; i < kept_cells; i++)
        m->kept[i] = FRONTIER_ZERO;
    return NEAP_OK;
}

static void release(builder *b)
{
    neap_allocator *a = b->m->allocator;
    neap_arena_clear(&b->arena);
    neap_columns_clear(&b->ref_columns, a);
    NEAP_DELETE(a, b->cover_capacity, b->covers);
    NEAP_DELETE(a, b->event_capacity, b->events);
    NEAP_DELETE(a, b->active_capacity, b->active);
}

/* Of all variants worth having. Where it is far above the least ticks, it sets the scale, so that
   costs stay within what a solver takes. */
static int64_t slowest_ticks(const builder *b)
{
    const frontier_model *m = b->m;
    int64_t slowest = 0;
    for (uint32_t k = 0; k < m->n_ops; k++)
        for (uint32_t i = m->variant_start[k]; i < m->variant_start[k + 1]; i++) {
            int64_t ticks = neap_graph_op(b->graph, k)->variants[m->variants[i]].ticks;
            slowest = ticks > slowest ? ticks : slowest;
        }
    return slowest;
}

static void set_scales(builder *b, const frontier_options *options)
{
    frontier_model *m = b->m;
    int64_t base = neap_graph_least_ticks(b->graph), certain = 0;
    m->ticks_scale = 1000.0 / fmax((double)base, fmax(1e-6 * (double)slowest_ticks(b), 1));
    m->bytes_scale = m->room > 0 ? 1000.0 / (double)m->room : 1;
    for (uint32_t k = 0; k < m->n_ops && m->form == FRONTIER_PARTITIONED; k++)
        if (m->variant_start[k + 1] - m->variant_start[k] == 1)
            certain += neap_graph_op(b->graph, k)->variants[m->variants[m->variant_start[k]]].ticks;
    m->certain_ticks = certain;
    b->spare_ticks =
        options->cutoff_ticks == INT64_MAX ? INT64_MAX : options->cutoff_ticks - 1 - base;
}

static neap_status build(builder *b, const frontier_options *options)
{
    NEAP_TRY(allocate(b));
    NEAP_TRY(choose_variants(b));
    set_scales(b, options);
    find_repeatable(b);
    NEAP_TRY(find_ample_frontiers(b));
    NEAP_TRY(add_runs(b));
    add_coverage(b);
    NEAP_TRY(add_storages(b));
    NEAP_TRY(add_workspaces(b));
    return neap_sparse_model_status(b->lp, b->diag);
}

neap_status neap_frontier_model_build(frontier_model *m, neap_allocator *allocator,
                                      const neap_graph *graph, const frontier_options *options,
                                      neap_diag *diag)
{
    uint32_t n = neap_graph_op_count(graph);
    *m = (frontier_model){.allocator = allocator,
                          .graph = graph,
                          .form = options->form,
                          .n_ops = n,
                          .n_frontiers = n,
                          .room = options->budget - neap_graph_base_bytes(graph)};
    neap_sparse_model_init(&m->lp, allocator);
    builder b = {.m = m, .graph = graph, .lp = &m->lp, .diag = diag, .integer_gaps = n > 40};
    neap_arena_init(&m->arena, allocator);
    neap_arena_init(&b.arena, allocator);
    neap_status status = build(&b, options);
    release(&b);
    return status;
}

void neap_frontier_model_clear(frontier_model *m)
{
    if (!m->graph)
        return;
    neap_sparse_model_clear(&m->lp);
    neap_arena_clear(&m->arena);
    NEAP_DELETE(m->allocator, m->item_capacity, m->items);
    *m = (frontier_model){0};
}

double neap_frontier_model_objective(const frontier_model *m, int64_t ticks)
{
    return (double)(ticks - m->certain_ticks) * m->ticks_scale;
}
