/*
 * Exhaustive search over the lists of steps, best first.
 *
 * A node is what a list of steps leads to: the next op, where each movable value is, and times. A
 * list goes on with an offload, a prefetch or a computation; a movable value is freed only as part
 * of the step that needs its room. Under OFFLOAD_CONTINUOUS a computation is two steps, its begin
 * and its end, with transfers between them, and the clock is that of the events of memory instead
 * of the compute stream's: a schedule of Problem 1 is a list of its events by time, and a list in
 * turn gives a schedule that needs no more memory at any time than the list counts.
 *
 * Which lists suffice. All times are maxima and sums of earlier ones, so that a step that comes
 * earlier makes none later. From any list the moves below lead to one that takes no longer; each
 * brings a transfer forward or a free back, so that they come to an end.
 *
 * - A value that nothing reads any more is freed at once: such a free waits for nothing, unless an
 *   offload of it is under way, which then was of no use. Lists with useless transfers are left
 *   out: an offload of a value that is not freed before its last reader.
 * - An offload moves before the step in front of it unless that made the value or is a transfer of
 *   the same engine. With duplex, offloads stand in front of the prefetches beside them.
 * - A free moves behind the step after it unless that does not fit without. So what is freed for
 *   a step is a set of which nothing can be left out.
 * - A prefetch moves before the step in front of it unless that is a transfer of the same engine,
 *   or an op during which it does not fit, or a free that it needs. The begin of an op is no
 *   obstacle: what fits during an op fits before it.
 *
 * Dominance. Where a list may go on depends on the next op, on where the values are and on `last`.
 * If of two nodes that agree in these one has no time later than the other, every list that goes on
 * from the other goes on from the one and ends no later: the other is dropped.
 *
 * Bound. See bound_of. A node is expanded by least bound, so the first complete list is the best.
 *
 * With every_list any legal step may follow any other, frees come by themselves, and the bound is
 * the clock: of the above, only dominance is left.
 */
#include "offload_oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define NOWHERE UINT32_MAX /* no node */

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- The problem ---- */

static bool is_movable(const neap_graph *graph, const neap_link *link, uint32_t id)
{
    const neap_value *v = neap_graph_value(graph, id);
    return v->producer != NEAP_NONE && neap_graph_op(graph, v->producer)->pass == NEAP_FORWARD &&
           strcmp(v->kind, NEAP_KIND_ACTIVATION) == 0 && v->bytes > 0 && link->out_bandwidth > 0 &&
           link->in_bandwidth > 0;
}

/* The op after which a value leaves if it is not transferred. */
static uint32_t last_use(const neap_graph *graph, uint32_t id)
{
    uint32_t n_readers;
    const uint32_t *readers = neap_graph_readers(graph, id, &n_readers);
    if (neap_graph_is_output(graph, id))
        return neap_graph_op_count(graph) - 1;
    return n_readers ? readers[n_readers - 1] : neap_graph_value(graph, id)->producer;
}

static void add_movable(offload_problem *p, uint32_t id)
{
    const neap_value *v = neap_graph_value(p->graph, id);
    uint32_t n_readers;
    const uint32_t *readers = neap_graph_readers(p->graph, id, &n_readers);
    assert_true(p->n_movable < MOST_MOVABLE);
    movable *m = &p->movables[p->n_movable++];
    *m = (movable){.value = id,
                   .bytes = v->bytes,
                   .made = v->producer,
                   .last = last_use(p->graph, id),
                   .out_ticks = neap_link_ticks(&p->link, p->graph, true, v->bytes),
                   .in_ticks = neap_link_ticks(&p->link, p->graph, false, v->bytes)};
    for (uint32_t r = 0; r < n_readers; r++)
        m->readers |= UINT64_C(1) << readers[r];
}

offload_problem offload_problem_of(const neap_graph *graph, const neap_link *link)
{
    offload_problem p = {.graph = graph, .link = *link, .n_ops = neap_graph_op_count(graph)};
    assert_true(p.n_ops > 0 && p.n_ops <= MOST_OFFLOAD_OPS);
    for (uint32_t k = 0; k < p.n_ops; k++) {
        const neap_op *op = neap_graph_op(graph, k);
        p.ticks[k] = op->variants[0].ticks;
        p.between[k] = neap_graph_base_bytes(graph);
        p.rest[k] = p.between[k] + op->variants[0].workspace;
        for (uint32_t o = 0; o < op->n_outputs; o++)
            if (is_movable(graph, link, op->outputs[o]))
                add_movable(&p, op->outputs[o]);
    }
    for (uint32_t id = 0; id < neap_graph_value_count(graph); id++) {
        const neap_value *v = neap_graph_value(graph, id);
        assert_true(v->view_of == NEAP_NONE);
        if (v->producer == NEAP_NONE || is_movable(graph, link, id))
            continue;
        for (uint32_t k = v->producer; k <= last_use(graph, id); k++) {
            p.rest[k] += v->bytes;
            p.between[k] += k > v->producer ? v->bytes : 0;
        }
    }
    for (uint32_t k = 0; k < p.n_ops; k++) {
        p.all[k] = p.rest[k];
        for (uint32_t i = 0; i < p.n_movable; i++)
            if (p.movables[i].made <= k && k <= p.movables[i].last)
                p.all[k] += p.movables[i].bytes;
    }
    return p;
}

static bool reads(const movable *m, uint32_t op)
{
    return m->readers >> op & 1;
}

int64_t offload_natural_peak(const offload_problem *p)
{
    int64_t peak = 0;
    for (uint32_t k = 0; k < p->n_ops; k++)
        peak = most(peak, p->all[k]);
    return peak;
}

int64_t offload_floor(const offload_problem *p)
{
    int64_t peak = 0;
    for (uint32_t k = 0; k < p->n_ops; k++) {
        int64_t bytes = p->rest[k];
        for (uint32_t i = 0; i < p->n_movable; i++)
            if (p->movables[i].made == k || reads(&p->movables[i], k))
                bytes += p->movables[i].bytes;
        peak = most(peak, bytes);
    }
    return peak;
}

/* ---- Nodes ---- */

typedef enum place {
    HOME = 0, /* not made yet, never transferred, or of no more use */
    COPIED,   /* it is on the host or on the way there, and resident */
    AWAY,     /* freed */
    BACK      /* resident again, or on the way */
} place;

/* What the list ends with, as far as it matters for how it may go on. */
typedef enum last_step {
    AFTER_OP = 0,   /* the end of a computation, or nothing at all */
    AFTER_BEGIN,    /* the begin of one */
    AFTER_TRANSFER, /* of the only engine */
    AFTER_OUT,      /* with two engines: an offload, with no prefetch since the last computation */
    AFTER_IN,       /* a prefetch */
    AFTER_ANYTHING  /* no rule about which lists suffice */
} last_step;

typedef enum step_kind { NO_STEP = 0, OFFLOAD, PREFETCH, COMPUTE, BEGIN, END, FREE } step_kind;

typedef struct node {
    /* Times before the clock are the same as the clock, and stand as it. */
    int64_t clock;
    int64_t engine[2];          /* when the one out and the one in are free */
    int64_t run_end;            /* of the op that runs; 0 if none does */
    int64_t copy[MOST_MOVABLE]; /* when the copy of a value COPIED or BACK is done; else 0 */
    int64_t bound;              /* no list that begins like this ends before */
    uint32_t parent, twin;      /* twin: another node of the same op and places */
    uint8_t op;                 /* the one that runs or is next */
    bool running, dropped;
    uint8_t last;
    uint8_t where[MOST_MOVABLE];
    uint8_t step, of; /* how it follows from its parent: a kind, and a movable for a transfer */
    uint16_t freed;   /* and the movables freed before that, as bits */
} node;

typedef struct search {
    const offload_problem *problem;
    int64_t budget;
    offload_search_options options;
    node *nodes;
    uint32_t n_nodes, capacity;
    uint32_t *heap; /* by bound, then by how far the list has come */
    uint32_t n_heap, heap_capacity;
    uint32_t *table; /* by op and places; first of its twins */
    uint32_t table_size;
    offload_answer answer;
} search;

static bool is_split(const search *s)
{
    return s->options.rules == OFFLOAD_CONTINUOUS;
}

static bool is_live(const movable *m, uint32_t op)
{
    return m->made <= op && op <= m->last;
}

/* What an op finds taken when it runs now, its outputs and scratch included. */
static int64_t bytes_during(const search *s, const node *n, uint32_t op)
{
    const offload_problem *p = s->problem;
    int64_t bytes = p->rest[op];
    for (uint32_t i = 0; i < p->n_movable; i++)
        if (is_live(&p->movables[i], op) && n->where[i] != AWAY)
            bytes += p->movables[i].bytes;
    return bytes;
}

/* What is taken where the list stands: by the op that runs, or between two. */
static int64_t bytes_now(const search *s, const node *n)
{
    const offload_problem *p = s->problem;
    if (n->running)
        return bytes_during(s, n, n->op);
    int64_t bytes = p->between[n->op];
    for (uint32_t i = 0; i < p->n_movable; i++) {
        const movable *m = &p->movables[i];
        if (m->made < n->op && n->op <= m->last && n->where[i] != AWAY)
            bytes += m->bytes;
    }
    return bytes;
}

/* ---- Bound ---- */

/* So many bytes take at least this, in however many transfers, each rounded. */
static int64_t least_ticks(const offload_problem *p, bool out, int64_t bytes)
{
    double bandwidth = out ? p->link.out_bandwidth : p->link.in_bandwidth;
    double ticks = (double)bytes / bandwidth * (double)neap_graph_ticks_per_second(p->graph);
    return most(0, (int64_t)ticks - MOST_MOVABLE);
}

/* Whether a movable may still be, or be taken, away while an op runs, by transfers begun so far. */
static bool may_be_away(const movable *m, const node *n, uint32_t i, uint32_t op)
{
    if (n->where[i] == COPIED)
        return is_live(m, op) && !reads(m, op);
    return n->where[i] == AWAY && (m->readers >> n->op & ((UINT64_C(2) << (op - n->op)) - 1)) == 0;
}

/*
 * Ops begin one after the other. Op q begins after all that it or an op before it reads has come
 * back, and after enough has left: of what is live at q, all but the budget is away, and for what
 * the transfers so far do not account, others will have to be made. What is away at q comes back
 * after q has begun.
 */
static int64_t bound_of(const search *s, const node *n)
{
    const offload_problem *p = s->problem;
    int64_t end = 0, fetch = 0, begin = n->running ? most(n->clock, n->run_end) : n->clock;
    for (uint32_t q = n->op + n->running; q < p->n_ops; q++) {
        int64_t missing = p->all[q] - s->budget, leave = 0;
        for (uint32_t i = 0; i < p->n_movable; i++) {
            const movable *m = &p->movables[i];
            bool first = (m->readers >> n->op & ((UINT64_C(1) << (q - n->op)) - 1)) == 0;
            if (reads(m, q) && n->where[i] == BACK)
                begin = most(begin, n->copy[i]);
            if (reads(m, q) && n->where[i] == AWAY && first)
                fetch += m->in_ticks;
            if (may_be_away(m, n, i, q))
                leave -= m->bytes;
        }
        leave = missing > 0 ? missing + leave : 0;
        int64_t out = leave > 0 ? least_ticks(p, true, leave) : 0;
        if (fetch > 0)
            begin = most(begin, n->engine[1] + fetch + (p->link.duplex ? 0 : out));
        if (leave > 0)
            begin = most(begin, n->engine[0] + out);
        if (missing > 0)
            end = most(end, begin + least_ticks(p, false, missing));
        begin += p->ticks[q];
    }
    return most(begin, end);
}

/* ---- The store of nodes ---- */

static void *grown(void *array, uint32_t *capacity, size_t element)
{
    *capacity = *capacity ? 2 * *capacity : 1024;
    array = realloc(array, *capacity * element);
    assert_non_null(array);
    return array;
}

static bool comes_first(const search *s, uint32_t a, uint32_t b)
{
    const node *left = &s->nodes[a], *right = &s->nodes[b];
    if (left->bound != right->bound)
        return left->bound < right->bound;
    if (left->op != right->op)
        return left->op > right->op;
    return a > b;
}

static void heap_push(search *s, uint32_t id)
{
    if (s->n_heap == s->heap_capacity)
        s->heap = grown(s->heap, &s->heap_capacity, sizeof *s->heap);
    uint32_t at = s->n_heap++;
    for (; at > 0 && comes_first(s, id, s->heap[(at - 1) / 2]); at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = id;
}

static uint32_t heap_pop(search *s)
{
    uint32_t first = s->heap[0], id = s->heap[--s->n_heap], at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < s->n_heap && comes_first(s, s->heap[child + 1], s->heap[child]))
            child++;
        if (child >= s->n_heap || !comes_first(s, s->heap[child], id))
            break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = id;
    return first;
}

static bool same_places(const node *a, const node *b)
{
    return a->op == b->op && a->running == b->running &&
           memcmp(a->where, b->where, sizeof a->where) == 0;
}

static uint32_t *slot_of(search *s, const node *n)
{
    uint64_t hash = UINT64_C(1469598103934665603) ^ (n->op * 2u + n->running);
    for (uint32_t i = 0; i < MOST_MOVABLE; i++)
        hash = (hash ^ n->where[i]) * UINT64_C(1099511628211);
    uint32_t at = (uint32_t)(hash >> 20) & (s->table_size - 1);
    while (s->table[at] != NOWHERE && !same_places(&s->nodes[s->table[at]], n))
        at = (at + 1) & (s->table_size - 1);
    return &s->table[at];
}

static void grow_table(search *s)
{
    uint32_t *old = s->table, old_size = s->table_size;
    s->table_size = old_size ? 2 * old_size : 4096;
    s->table = malloc(s->table_size * sizeof *s->table);
    assert_non_null(s->table);
    for (uint32_t i = 0; i < s->table_size; i++)
        s->table[i] = NOWHERE;
    for (uint32_t i = 0; i < old_size; i++)
        if (old[i] != NOWHERE)
            *slot_of(s, &s->nodes[old[i]]) = old[i];
    free(old);
}

/* Whether a list that ends with a may go on wherever one that ends with b may. */
static bool allows_all_of(uint8_t a, uint8_t b)
{
    return a == b || (a == AFTER_TRANSFER && (b == AFTER_OP || b == AFTER_BEGIN)) ||
           (a == AFTER_OUT && b == AFTER_OP);
}

static bool dominates(const search *s, const node *a, const node *b)
{
    if (!allows_all_of(a->last, b->last) || a->clock > b->clock || a->run_end > b->run_end ||
        a->engine[0] > b->engine[0] || a->engine[1] > b->engine[1])
        return false;
    for (uint32_t i = 0; i < s->problem->n_movable; i++)
        if (a->copy[i] > b->copy[i])
            return false;
    return true;
}

/* Brings a node into its one form: times that no longer matter are all set to the same. */
static void settle(const search *s, node *n)
{
    for (int e = 0; e < 2; e++)
        n->engine[e] = most(n->engine[e], n->clock);
    for (uint32_t i = 0; i < s->problem->n_movable; i++) {
        bool matters = n->where[i] == COPIED || n->where[i] == BACK;
        n->copy[i] = matters ? most(n->copy[i], n->clock) : 0;
    }
}

static void add_node(search *s, node *n)
{
    settle(s, n);
    n->bound = s->options.every_list ? n->clock : bound_of(s, n);
    if (n->parent != NOWHERE)
        n->bound = most(n->bound, s->nodes[n->parent].bound);
    uint32_t *slot = slot_of(s, n);
    for (uint32_t t = *slot; t != NOWHERE; t = s->nodes[t].twin)
        if (!s->nodes[t].dropped && dominates(s, &s->nodes[t], n))
            return;
    for (uint32_t *t = slot; *t != NOWHERE;) {
        node *twin = &s->nodes[*t];
        if (dominates(s, n, twin)) {
            twin->dropped = true;
            *t = twin->twin;
        } else {
            t = &twin->twin;
        }
    }
    if (s->n_nodes == s->capacity)
        s->nodes = grown(s->nodes, &s->capacity, sizeof *s->nodes);
    n->twin = *slot;
    *slot = s->n_nodes;
    s->nodes[s->n_nodes] = *n;
    heap_push(s, s->n_nodes++);
    if (2 * s->n_nodes > s->table_size)
        grow_table(s);
}

/* ---- Steps ---- */

static node follow(const search *s, uint32_t id, step_kind step)
{
    node n = s->nodes[id];
    n.parent = id;
    n.step = (uint8_t)step;
    n.of = 0;
    n.freed = 0;
    n.dropped = false;
    return n;
}

static void free_all(const search *s, node *n, uint32_t set)
{
    n->freed = (uint16_t)set;
    for (uint32_t i = 0; i < s->problem->n_movable; i++)
        if (set >> i & 1) {
            n->clock = most(n->clock, n->copy[i]);
            n->where[i] = AWAY;
        }
    settle(s, n);
}

/* The movables that are on the host, or about to be, and that the op does not read. */
static uint32_t candidates(const search *s, const node *n, uint32_t but_for_op)
{
    const offload_problem *p = s->problem;
    uint32_t set = 0;
    for (uint32_t i = 0; i < p->n_movable; i++)
        if (n->where[i] == COPIED &&
            (but_for_op >= p->n_ops || !reads(&p->movables[i], but_for_op)))
            set |= 1u << i;
    return set;
}

/* Whether freeing the set makes up for `missing` bytes, and no part of it does. */
static bool just_enough(const offload_problem *p, uint32_t set, int64_t missing)
{
    int64_t bytes = 0, least = INT64_MAX;
    for (uint32_t i = 0; i < p->n_movable; i++)
        if (set >> i & 1) {
            bytes += p->movables[i].bytes;
            least = least < p->movables[i].bytes ? least : p->movables[i].bytes;
        }
    return set == 0 ? missing <= 0 : bytes >= missing && bytes - least < missing;
}

static uint8_t after_transfer(const search *s, bool out)
{
    if (s->options.every_list)
        return AFTER_ANYTHING;
    return !s->problem->link.duplex ? AFTER_TRANSFER : out ? AFTER_OUT : AFTER_IN;
}

static void start_copy(const search *s, node *n, uint32_t i, bool out)
{
    const movable *m = &s->problem->movables[i];
    int64_t end = most(n->clock, n->engine[!out]) + (out ? m->out_ticks : m->in_ticks);
    n->engine[!out] = end;
    if (!s->problem->link.duplex)
        n->engine[out] = end;
    n->copy[i] = end;
    n->where[i] = out ? COPIED : BACK;
    n->of = (uint8_t)i;
    n->last = after_transfer(s, out);
}

static void try_offloads(search *s, uint32_t id)
{
    const offload_problem *p = s->problem;
    for (uint32_t i = 0; i < p->n_movable; i++) {
        node n = follow(s, id, OFFLOAD);
        const movable *m = &p->movables[i];
        bool just_made = m->made + 1u == n.op && !n.running;
        if (n.where[i] != HOME || m->made >= n.op || m->last < n.op ||
            (m->last == n.op && n.running))
            continue;
        if (n.last == AFTER_BEGIN || n.last == AFTER_IN || (n.last == AFTER_OP && !just_made))
            continue;
        start_copy(s, &n, i, true);
        add_node(s, &n);
    }
}

/* Whether the list may have this prefetch, with nothing freed for it, where it stands. */
static bool prefetch_belongs_here(const search *s, const node *n, const movable *m)
{
    switch (n->last) {
    case AFTER_BEGIN:
        return false;
    case AFTER_OP:
    case AFTER_OUT: /* that is after offloads after an op; there are none while an op runs */
        return n->op > 0 && bytes_during(s, n, n->op - 1u) + m->bytes > s->budget;
    default:
        return true;
    }
}

static void try_prefetches(search *s, uint32_t id)
{
    const offload_problem *p = s->problem;
    uint32_t running = s->nodes[id].running ? s->nodes[id].op : p->n_ops;
    uint32_t free_able = candidates(s, &s->nodes[id], running);
    int64_t room = s->budget - bytes_now(s, &s->nodes[id]);
    for (uint32_t i = 0; i < p->n_movable; i++) {
        const movable *m = &p->movables[i];
        if (s->nodes[id].where[i] != AWAY)
            continue;
        for (uint32_t set = free_able;; set = (set - 1) & free_able) {
            bool belongs = set != 0 || prefetch_belongs_here(s, &s->nodes[id], m);
            if (belongs && just_enough(p, set, m->bytes - room)) {
                node n = follow(s, id, PREFETCH);
                free_all(s, &n, set);
                start_copy(s, &n, i, false);
                add_node(s, &n);
            }
            if (set == 0)
                break;
        }
    }
}

static void end_op(const search *s, node *n)
{
    n->clock = most(n->clock, n->run_end);
    n->run_end = 0;
    n->running = false;
    n->op++;
    n->last = s->options.every_list ? AFTER_ANYTHING : AFTER_OP;
    for (uint32_t i = 0; i < s->problem->n_movable; i++)
        if (s->problem->movables[i].last < n->op)
            n->where[i] = HOME;
}

/* Whether the op finds what it reads, and is not the last reader of a value offloaded to no use. */
static bool may_compute(const offload_problem *p, const node *n)
{
    for (uint32_t i = 0; i < p->n_movable; i++) {
        const movable *m = &p->movables[i];
        if (reads(m, n->op) && (n->where[i] == AWAY || (n->where[i] == COPIED && m->last == n->op)))
            return false;
    }
    return true;
}

static void try_compute(search *s, uint32_t id)
{
    const offload_problem *p = s->problem;
    uint32_t op = s->nodes[id].op, free_able = candidates(s, &s->nodes[id], op);
    int64_t missing = bytes_during(s, &s->nodes[id], op) - s->budget;
    if (!may_compute(p, &s->nodes[id]))
        return;
    for (uint32_t set = free_able;; set = (set - 1) & free_able) {
        if (just_enough(p, set, missing)) {
            node n = follow(s, id, is_split(s) ? BEGIN : COMPUTE);
            free_all(s, &n, set);
            for (uint32_t i = 0; i < p->n_movable; i++)
                if (reads(&p->movables[i], op) && n.where[i] == BACK)
                    n.clock = most(n.clock, n.copy[i]);
            n.run_end = n.clock + p->ticks[op];
            n.running = true;
            n.last = s->options.every_list ? AFTER_ANYTHING : AFTER_BEGIN;
            if (!is_split(s))
                end_op(s, &n);
            add_node(s, &n);
        }
        if (set == 0)
            break;
    }
}

/* For every_list: a free by itself. */
static void try_frees(search *s, uint32_t id)
{
    const offload_problem *p = s->problem;
    uint32_t set = candidates(s, &s->nodes[id], s->nodes[id].running ? s->nodes[id].op : p->n_ops);
    for (uint32_t i = 0; i < p->n_movable; i++)
        if (set >> i & 1) {
            node n = follow(s, id, FREE);
            free_all(s, &n, 1u << i);
            add_node(s, &n);
        }
}

static void expand(search *s, uint32_t id)
{
    try_offloads(s, id);
    try_prefetches(s, id);
    if (s->options.every_list)
        try_frees(s, id);
    if (s->nodes[id].running) {
        node n = follow(s, id, END);
        end_op(s, &n);
        add_node(s, &n);
    } else {
        try_compute(s, id);
    }
}

/* ---- The plan ---- */

static void append(neap_plan *plan, neap_step_kind kind, uint32_t id)
{
    neap_step step = {.kind = kind, .id = id};
    assert_int_equal(neap_plan_append(plan, step, NULL), NEAP_OK);
}

static void append_compute(const offload_problem *p, uint32_t op, neap_plan *plan)
{
    append(plan, NEAP_COMPUTE, op);
    for (uint32_t id = 0; id < neap_graph_value_count(p->graph); id++) {
        const neap_value *v = neap_graph_value(p->graph, id);
        if (v->producer != NEAP_NONE && last_use(p->graph, id) == op &&
            !neap_graph_is_output(p->graph, id))
            append(plan, NEAP_FREE, id);
    }
}

static neap_plan *plan_of(const search *s, uint32_t goal)
{
    const offload_problem *p = s->problem;
    neap_plan *plan;
    uint32_t length = 0, at = 0;
    for (uint32_t id = goal; id != NOWHERE; id = s->nodes[id].parent)
        length++;
    uint32_t *path = malloc(length * sizeof *path);
    assert_non_null(path);
    for (uint32_t id = goal; id != NOWHERE; id = s->nodes[id].parent)
        path[length - ++at] = id;
    assert_int_equal(
        neap_plan_create(NULL, neap_graph_name(p->graph), "oracle", s->budget, &plan, NULL),
        NEAP_OK);
    for (at = 0; at < length; at++) {
        const node *n = &s->nodes[path[at]];
        for (uint32_t i = 0; i < p->n_movable; i++)
            if (n->freed >> i & 1)
                append(plan, NEAP_FREE, p->movables[i].value);
        if (n->step == OFFLOAD || n->step == PREFETCH)
            append(plan, n->step == OFFLOAD ? NEAP_OFFLOAD : NEAP_PREFETCH,
                   p->movables[n->of].value);
        if (n->step == COMPUTE)
            append_compute(p, n->op - 1u, plan);
    }
    free(path);
    return plan;
}

offload_answer offload_search(const offload_problem *problem, int64_t budget,
                              const offload_search_options *options, neap_plan **plan)
{
    search s = {.problem = problem, .budget = budget, .options = *options};
    node root = {.parent = NOWHERE, .last = options->every_list ? AFTER_ANYTHING : AFTER_OP};
    if (plan)
        *plan = NULL;
    if (budget < offload_floor(problem))
        return s.answer;
    grow_table(&s);
    add_node(&s, &root);
    while (s.n_heap > 0 && !s.answer.found && !s.answer.gave_up) {
        uint32_t id = heap_pop(&s);
        if (s.nodes[id].dropped)
            continue;
        s.answer.found = s.nodes[id].op == problem->n_ops;
        s.answer.gave_up = options->most_nodes > 0 && s.n_nodes > options->most_nodes;
        if (s.answer.found) {
            s.answer.ticks = s.nodes[id].clock;
            if (plan && !is_split(&s))
                *plan = plan_of(&s, id);
        } else {
            expand(&s, id);
        }
    }
    s.answer.nodes = s.n_nodes;
    free(s.nodes);
    free(s.heap);
    free(s.table);
    return s.answer;
}
