/*
 * A* over the states of a device: what is resident, what has run and by which variant, what has a
 * copy on the host, and when each copy in flight ends.
 *
 * A move is one compute, offload or prefetch step, and the frees that it needs, just before it. Of
 * all fastest plans take those of the fewest steps; of these, those whose transfers have the fewest
 * computations before them; then those whose frees have the most computations and prefetches before
 * them; then those whose offloads have the fewest frees before them; and then, with a duplex link,
 * those whose offloads have the most prefetches before them. What is left obeys the rules below,
 * because a plan that breaks one has another of at most its time, as legal and within the same
 * budget, that is better by that order. (Every moment is a maximum or sum of earlier ones: dropping
 * a transfer, or beginning one earlier, delays nothing, and neither does a later free.)
 *
 * Frees. The set of frees before a step is one of which none can be left out: that one could follow
 * the step. Nothing is freed at the end.
 *
 * Computations. An op that has run is not run again while all of its outputs are resident: leave
 * out the run, and the frees of its outputs before it.
 *
 * Offloads. A value that has a copy gets no second one: the first stays valid. A value is
 * prefetched after its offload at some time (it is *due* until then), or the offload is of no use.
 * Nor is it where the storage holds no bytes or is an input's: the value may as well stay, until
 * its op runs again. So every copy starts at the clock or at its engine, whichever is later: a
 * value that is prefetched was freed, and the free waited for its last copy. An offload stands
 * right after the run that made its value, or after another transfer of the same engine: else it
 * could stand before what it follows, be it a compute, frees, or a transfer of the other engine
 * (but see the next rule). The values that may be offloaded next are called *fresh*.
 *
 * Prefetches. One that needs no frees does not follow a compute that would have had the room for
 * it too, and in a duplex link no offload: they could change places. Values that may not be
 * prefetched next, unless with frees, are called *stale*. A prefetch whose own value is freed just
 * before it is left out together with that free.
 *
 * Fresh, stale and due values are part of a state, so that what may follow depends on the state
 * alone. Then a state is of no use beside another with the same resident values, ops run, variants
 * and copies if all its clocks are as late or later, its fresh values among the other's, and the
 * other's stale and due ones among its own: whatever follows the one may follow the other, no
 * later.
 *
 * Runs in place. A move of its own: the input is gone by the step, and what else lies on its
 * storage is freed before. It waits for copies of the input, as a free does. No value on that
 * storage could have been fetched before the step: none is stale after it.
 *
 * State. Updates run once, and nothing that reads what they have overwritten runs after them. State
 * that moves is searched for each set of values that are on the host at the start. It is fresh at
 * the start and after its update, which makes its copy on the host worthless; its offload need not
 * be followed by a prefetch; it is freed only while the host has it. Those on the host at the start
 * are there again at the end, the others are outputs.
 *
 * The bound of a state: the clock and the times of the ops that must still run; the engine that
 * fetches and all that is due; the ends of the transfers. No plan that goes on from there is
 * faster, and for a complete state it is the makespan; so the first that comes up is a fastest.
 */
#include "least_time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

enum { OUT = 0, IN = 1, MOST_STATES = 2000000, MOST_FREES = 12870 };

#define NOWHERE UINT32_MAX

/* ---- The graph as bit sets ---- */

typedef uint16_t set; /* of values that ops make, or of ops */

typedef struct choice {
    uint32_t variant;
    int64_t ticks, workspace;
} choice;

typedef struct space {
    const neap_graph *graph;
    least_time_options options;
    int64_t budget, most_ticks;      /* slower plans are of no use */
    uint32_t n_ops, n_values;        /* only those that ops make */
    uint32_t ids[MOST_TIMED_VALUES]; /* their values in the graph */
    int64_t base;                    /* bytes live throughout */
    uint32_t n_storages;             /* that are not live throughout */
    set on[MOST_TIMED_VALUES];       /* each storage's values */
    int64_t bytes[MOST_TIMED_VALUES];
    set reads[MOST_TIMED_OPS], writes[MOST_TIMED_OPS], all_ops, outputs;
    set too_late[MOST_TIMED_OPS]; /* ops after which it may not run: updates of what it reads */
    bool once[MOST_TIMED_OPS];    /* it updates state */
    set updates;                  /* the ops that do */
    set outdates[MOST_TIMED_OPS]; /* values on the storages that it updates */
    uint32_t over[MOST_TIMED_OPS], into[MOST_TIMED_OPS]; /* in place; or NOWHERE */
    set beside[MOST_TIMED_OPS];         /* what else lies on that storage, or on the output's */
    set state, host_at_start;           /* state that moves */
    uint32_t n_choices[MOST_TIMED_OPS]; /* no variant is as slow and as large as another */
    choice choices[MOST_TIMED_OPS][MOST_TIMED_VARIANTS];
    int64_t fastest[MOST_TIMED_OPS];
    set sizeable; /* values on a storage of more than 0 bytes that is not live throughout */
    set movable;  /* those of them with a link both ways */
    int64_t moved[MOST_TIMED_VALUES]; /* bytes, of a movable value */
    int64_t ticks[2][MOST_TIMED_VALUES];
} space;

static set bit(uint32_t i)
{
    return (set)(1u << i);
}

static set without(set a, set b)
{
    return (set)(a & ~b);
}

static set join(set a, set b)
{
    return (set)(a | b);
}

static set set_of(const space *p, const uint32_t *values, uint32_t count)
{
    set s = 0;
    for (uint32_t i = 0; i < p->n_values; i++)
        for (uint32_t k = 0; k < count; k++)
            if (p->ids[i] == values[k])
                s = join(s, bit(i));
    return s;
}

/* Variants that are neither slower nor larger than this one, or the first of equals. */
static bool is_beaten(const neap_op *op, uint32_t variant, bool timeless)
{
    const neap_variant *v = &op->variants[variant];
    for (uint32_t i = 0; i < op->n_variants; i++) {
        const neap_variant *w = &op->variants[i];
        bool as_fast = timeless || w->ticks <= v->ticks;
        bool better = (!timeless && w->ticks < v->ticks) || w->workspace < v->workspace;
        if (as_fast && w->workspace <= v->workspace && (better || i < variant))
            return true;
    }
    return false;
}

static uint32_t index_of(const space *p, uint32_t value)
{
    for (uint32_t i = 0; i < p->n_values; i++)
        if (p->ids[i] == value)
            return i;
    return NOWHERE;
}

static set values_on(const space *p, uint32_t storage)
{
    set on = 0;
    for (uint32_t i = 0; i < p->n_values; i++)
        if (neap_graph_value(p->graph, p->ids[i])->storage == storage)
            on = join(on, bit(i));
    return on;
}

static void add_in_place(space *p, uint32_t id)
{
    const neap_op *op = neap_graph_op(p->graph, id);
    p->over[id] = p->into[id] = NOWHERE;
    if (op->in_place_input == NEAP_NONE || p->options.out_of_place)
        return;
    const neap_value *input = neap_graph_value(p->graph, op->in_place_input);
    const neap_value *output = neap_graph_value(p->graph, op->in_place_output);
    if (input->producer == NEAP_NONE || output->view_of != NEAP_NONE ||
        neap_graph_value(p->graph, input->storage)->bytes != output->bytes)
        return;
    p->over[id] = index_of(p, op->in_place_input);
    p->into[id] = index_of(p, op->in_place_output);
    p->beside[id] = without(join(values_on(p, input->storage), values_on(p, op->in_place_output)),
                            bit(p->over[id]));
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (neap_graph_value(p->graph, op->outputs[i])->storage == input->storage)
            p->over[id] = NOWHERE;
    if (neap_graph_value(p->graph, input->storage)->producer == NEAP_NONE &&
        index_of(p, input->storage) == NOWHERE)
        p->over[id] = NOWHERE; /* an input that stays is on that storage */
}

static void add_updates(space *p, uint32_t id)
{
    const neap_op *op = neap_graph_op(p->graph, id);
    p->once[id] = op->n_updates > 0;
    p->updates = join(p->updates, p->once[id] ? bit(id) : 0);
    for (uint32_t i = 0; i < op->n_updates; i++)
        p->outdates[id] = join(p->outdates[id],
                               values_on(p, neap_graph_value(p->graph, op->updates[i])->storage));
    for (uint32_t i = 0; i < op->n_inputs && !p->once[id]; i++)
        for (uint32_t o = 0; o < p->n_ops; o++) {
            const neap_op *other = neap_graph_op(p->graph, o);
            for (uint32_t k = 0; k < other->n_updates; k++)
                if (neap_graph_value(p->graph, other->updates[k])->storage ==
                    neap_graph_value(p->graph, op->inputs[i])->storage)
                    p->too_late[id] = join(p->too_late[id], bit(o));
        }
}

static void add_op(space *p, uint32_t id, bool timeless)
{
    const neap_op *op = neap_graph_op(p->graph, id);
    p->all_ops = join(p->all_ops, bit(id));
    p->reads[id] = set_of(p, op->inputs, op->n_inputs);
    p->writes[id] = set_of(p, op->outputs, op->n_outputs);
    add_in_place(p, id);
    add_updates(p, id);
    p->fastest[id] = INT64_MAX;
    for (uint32_t i = 0; i < op->n_variants; i++) {
        if (is_beaten(op, i, timeless))
            continue;
        assert_true(p->n_choices[id] < MOST_TIMED_VARIANTS);
        int64_t ticks = timeless ? 0 : op->variants[i].ticks;
        p->choices[id][p->n_choices[id]++] = (choice){i, ticks, op->variants[i].workspace};
        p->fastest[id] = ticks < p->fastest[id] ? ticks : p->fastest[id];
    }
}

/* Live throughout: the storage of an input, or of its root, unless it is state that moves. */
static bool is_throughout(const space *p, uint32_t storage)
{
    return neap_graph_value(p->graph, storage)->producer == NEAP_NONE &&
           index_of(p, storage) == NOWHERE;
}

static void add_storage(space *p, uint32_t storage, bool timeless)
{
    set on = values_on(p, storage);
    int64_t bytes = neap_graph_value(p->graph, storage)->bytes;
    p->on[p->n_storages] = on;
    p->bytes[p->n_storages++] = bytes;
    if (bytes == 0)
        return;
    const neap_link *link = &p->options.link;
    p->sizeable = join(p->sizeable, on);
    if (link->out_bandwidth > 0 && link->in_bandwidth > 0)
        p->movable = join(p->movable, on);
    for (uint32_t i = 0; i < p->n_values; i++) {
        if (!(p->movable & on & bit(i)))
            continue;
        p->moved[i] = bytes;
        p->ticks[OUT][i] = timeless ? 0 : neap_link_ticks(link, p->graph, true, bytes);
        p->ticks[IN][i] = timeless ? 0 : neap_link_ticks(link, p->graph, false, bytes);
    }
}

static bool may_move(const space *p, uint32_t value)
{
    const neap_value *v = neap_graph_value(p->graph, value);
    return v->state && v->bytes > 0 && p->options.state_moves &&
           p->options.link.out_bandwidth > 0 && p->options.link.in_bandwidth > 0;
}

/* With `timeless`, no op and no transfer takes any time. */
static space space_of(const neap_graph *graph, int64_t budget, const least_time_options *options,
                      bool timeless)
{
    space p = {.graph = graph, .options = *options, .budget = budget, .most_ticks = INT64_MAX};
    p.n_ops = neap_graph_op_count(graph);
    p.base = neap_graph_base_bytes(graph);
    assert_true(p.n_ops <= MOST_TIMED_OPS);
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        if (neap_graph_value(graph, v)->producer == NEAP_NONE && !may_move(&p, v))
            continue;
        assert_true(p.n_values < MOST_TIMED_VALUES);
        if (may_move(&p, v)) {
            p.state = join(p.state, bit(p.n_values));
            p.base -= neap_graph_value(graph, v)->bytes;
        }
        p.ids[p.n_values++] = v;
    }
    assert_true(p.state == 0 || options->link.host_memory <= 0);
    for (uint32_t i = 0; i < p.n_values; i++) {
        uint32_t storage = neap_graph_value(graph, p.ids[i])->storage;
        if (storage == p.ids[i] && !is_throughout(&p, storage))
            add_storage(&p, storage, timeless);
    }
    for (uint32_t o = 0; o < p.n_ops; o++)
        add_op(&p, o, timeless);
    uint32_t n_outputs;
    const uint32_t *outputs = neap_graph_outputs(graph, &n_outputs);
    p.outputs = set_of(&p, outputs, n_outputs);
    return p;
}

static int64_t live_bytes(const space *p, set resident)
{
    int64_t sum = p->base;
    for (uint32_t s = 0; s < p->n_storages; s++)
        if (p->on[s] & resident)
            sum += p->bytes[s];
    return sum;
}

/* ---- States ---- */

typedef struct state {
    set resident, done, host; /* host: has a copy there */
    uint16_t chosen;          /* two bits an op: which of its choices */
    set arriving;             /* being fetched; other copies in flight leave */
    set fresh, stale, due;
    int64_t clock, engine[2];       /* of the engines: when they are free */
    int64_t end[MOST_TIMED_VALUES]; /* of the last copy; 0 where it has ended */
    int64_t bound;
    uint32_t before; /* the state it came from */
    set freed;       /* and the move that led here */
    neap_step step;
    bool useless;   /* another one is as good */
    uint32_t alike; /* the next of the same resident values, ops, variants and copies */
} state;

typedef struct search {
    const space *p;
    state *states;
    uint32_t count, capacity, most;
    bool gave_up;
    uint32_t *heap; /* by is_sooner */
    uint32_t n_heap;
    uint32_t *buckets; /* as many as the capacity, a power of two: the first state in each */
    uint32_t n_frees;
    set frees[MOST_FREES]; /* of what a move might free; of 16 values, no more sets are minimal */
} search;

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool is_complete(const space *p, const state *s)
{
    return s->done == p->all_ops && without(p->outputs, s->resident) == 0 && s->due == 0 &&
           without(p->state, join(p->host_at_start, s->resident)) == 0 &&
           without(p->host_at_start, s->host) == 0;
}

/* What no plan can do without from here: the ops that have not run, and those to run again for
 * what they or the outputs need, which is neither resident nor on the host. */
static set missing_ops(const space *p, const state *s)
{
    set missing = without(p->all_ops, s->done), needed = p->outputs;
    for (uint32_t o = p->n_ops; o-- > 0;) { /* readers come before what they read */
        set gone = without(without(p->writes[o], s->resident), s->host);
        if (needed & gone)
            missing = join(missing, bit(o));
        if (missing & bit(o))
            needed = join(needed, p->reads[o]);
    }
    return missing;
}

static int64_t bound_of(const space *p, const state *s)
{
    int64_t computed = s->clock, fetched = later(s->clock, s->engine[IN]);
    set missing = missing_ops(p, s);
    for (uint32_t o = 0; o < p->n_ops; o++) {
        bool is_chosen = (s->done & bit(o)) && !p->options.mixed_variants;
        int64_t ticks = p->choices[o][(s->chosen >> (2 * o)) & 3].ticks;
        if (missing & bit(o))
            computed += is_chosen ? ticks : p->fastest[o];
    }
    for (uint32_t v = 0; v < p->n_values; v++)
        if (s->due & bit(v))
            fetched += p->ticks[IN][v];
    return later(later(computed, fetched), s->engine[OUT]);
}

static bool is_alike(const state *a, const state *b)
{
    return a->resident == b->resident && a->done == b->done && a->host == b->host &&
           a->chosen == b->chosen;
}

/* Whether `a` is as good as `b`, which is alike. What ended before b's clock delays nothing. */
static bool is_no_later(const space *p, const state *a, const state *b)
{
    if (a->clock > b->clock || without(b->fresh, a->fresh) || without(a->stale, b->stale) ||
        without(a->due, b->due))
        return false;
    for (int e = OUT; e <= IN; e++)
        if (a->engine[e] > later(b->engine[e], b->clock))
            return false;
    for (uint32_t v = 0; v < p->n_values; v++) {
        bool arrives_in_b_too = (b->arriving & bit(v)) != 0 || !(a->arriving & bit(v));
        if (a->end[v] > (arrives_in_b_too ? later(b->end[v], b->clock) : b->clock))
            return false;
    }
    return true;
}

static bool is_as_good(const space *p, const state *a, const state *b)
{
    return is_no_later(p, a, b) && (!p->options.equals_only || is_no_later(p, b, a));
}

static uint32_t *bucket_of(const search *all, const state *s)
{
    uint64_t key =
        s->resident | (uint64_t)s->host << 16 | (uint64_t)s->chosen << 32 | (uint64_t)s->done << 48;
    uint64_t mixed = (key * UINT64_C(0x9E3779B97F4A7C15)) >> 32;
    return &all->buckets[mixed & (all->capacity - 1)];
}

/* Of equal bounds the newest: the search then goes for the end. */
static bool is_sooner(const search *s, uint32_t a, uint32_t b)
{
    int64_t x = s->states[a].bound, y = s->states[b].bound;
    return x < y || (x == y && a > b);
}

static void swap_in_heap(search *s, uint32_t i, uint32_t k)
{
    uint32_t kept = s->heap[i];
    s->heap[i] = s->heap[k];
    s->heap[k] = kept;
}

static void push(search *s, uint32_t index)
{
    uint32_t i = s->n_heap++;
    s->heap[i] = index;
    for (; i > 0 && is_sooner(s, s->heap[i], s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap_in_heap(s, i, (i - 1) / 2);
}

static uint32_t pop(search *s)
{
    uint32_t top = s->heap[0], i = 0;
    s->heap[0] = s->heap[--s->n_heap];
    for (;;) {
        uint32_t least = i;
        for (uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child < s->n_heap; child++)
            if (is_sooner(s, s->heap[child], s->heap[least]))
                least = child;
        if (least == i)
            return top;
        swap_in_heap(s, i, least);
        i = least;
    }
}

static void make_room(search *s)
{
    if (s->count < s->capacity)
        return;
    s->capacity = s->capacity ? 2 * s->capacity : 256;
    s->states = realloc(s->states, s->capacity * sizeof *s->states);
    s->heap = realloc(s->heap, s->capacity * sizeof *s->heap);
    s->buckets = realloc(s->buckets, s->capacity * sizeof *s->buckets);
    assert_true(s->states && s->heap && s->buckets);
    for (uint32_t i = 0; i < s->capacity; i++)
        s->buckets[i] = NOWHERE;
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t *head = bucket_of(s, &s->states[i]);
        s->states[i].alike = *head;
        *head = i;
    }
}

/* Keeps a state unless one there is as good, and marks those it is as good as. */
static void offer(search *s, state *new)
{
    new->bound = bound_of(s->p, new);
    if (new->bound > s->p->most_ticks)
        return;
    make_room(s);
    uint32_t *head = bucket_of(s, new);
    for (uint32_t i = *head; i != NOWHERE; i = s->states[i].alike) {
        state *old = &s->states[i];
        if (old->useless || !is_alike(old, new))
            continue;
        if (is_as_good(s->p, old, new))
            return;
        old->useless = is_as_good(s->p, new, old);
    }
    if (s->count == s->most) {
        s->gave_up = true;
        return;
    }
    new->alike = *head;
    new->useless = false;
    *head = s->count;
    s->states[s->count] = *new;
    push(s, s->count++);
}

/* ---- Moves ---- */

/* What the state before, of that index, becomes by some frees. They wait for copies under way. */
static state after_frees(const search *s, uint32_t before, set freed)
{
    state next = s->states[before];
    next.before = before;
    next.freed = freed;
    next.resident = without(next.resident, freed);
    for (uint32_t v = 0; v < s->p->n_values; v++)
        if (freed & bit(v))
            next.clock = later(next.clock, next.end[v]);
    return next;
}

/* Forgets copies that have ended, and what is not to be offloaded or fetched anyway. */
static void settle(const space *p, state *s)
{
    if (p->options.every_place) {
        s->fresh = p->movable;
        s->stale = s->due = 0;
    }
    s->fresh = (set)(s->fresh & without(s->resident, s->host));
    s->stale = (set)(s->stale & without(s->host, s->resident));
    for (uint32_t v = 0; v < p->n_values; v++)
        if (s->end[v] <= s->clock) {
            s->end[v] = 0;
            s->arriving = without(s->arriving, bit(v));
        }
}

/* Values with a copy that are not resident and would have fitted next to that many bytes. */
static set fitting_beside(const space *p, set resident, set host, int64_t room)
{
    set fitting = 0;
    for (uint32_t v = 0; v < p->n_values; v++)
        if ((host & ~resident & bit(v)) && live_bytes(p, join(resident, bit(v))) <= room)
            fitting = join(fitting, bit(v));
    return fitting;
}

static void compute(search *s, uint32_t before, uint32_t op, uint32_t choice_index, set freed,
                    bool in_place)
{
    const space *p = s->p;
    const choice *c = &p->choices[op][choice_index];
    state next = after_frees(s, before, freed);
    set waited = join((set)(p->reads[op] & next.arriving), (set)(p->outdates[op] & p->state));
    if (in_place)
        waited = join(waited, bit(p->over[op]));
    for (uint32_t v = 0; v < p->n_values; v++)
        if (waited & bit(v))
            next.clock = later(next.clock, next.end[v]);
    next.clock += c->ticks;
    next.host = without(next.host, p->outdates[op]);
    next.resident = join(next.resident, p->writes[op]);
    if (in_place)
        next.resident = without(next.resident, bit(p->over[op]));
    next.done = join(next.done, bit(op));
    if (!p->options.mixed_variants)
        next.chosen |= (uint16_t)(choice_index << (2 * op));
    next.step = (neap_step){NEAP_COMPUTE, op, c->variant, in_place};
    set made = join(p->writes[op], (set)(p->outdates[op] & p->state));
    next.fresh = without((set)(made & p->movable), next.host);
    next.stale = fitting_beside(p, next.resident, next.host, p->budget - c->workspace);
    if (in_place)
        next.stale = without(next.stale, join(bit(p->over[op]), p->beside[op]));
    settle(p, &next);
    offer(s, &next);
}

static void offload(search *s, uint32_t before, uint32_t value)
{
    const space *p = s->p;
    bool duplex = p->options.link.duplex;
    state next = after_frees(s, before, 0);
    int64_t end = later(next.clock, next.engine[OUT]) + p->ticks[OUT][value];
    next.engine[OUT] = next.end[value] = end;
    if (!duplex)
        next.engine[IN] = end;
    next.host = join(next.host, bit(value));
    next.due = join(next.due, without(bit(value), p->state));
    next.step = (neap_step){NEAP_OFFLOAD, p->ids[value], 0, false};
    next.fresh = p->movable;
    next.stale = duplex ? p->movable : 0;
    settle(p, &next);
    offer(s, &next);
}

static void prefetch(search *s, uint32_t before, uint32_t value, set freed)
{
    const space *p = s->p;
    bool duplex = p->options.link.duplex;
    state next = after_frees(s, before, freed);
    int64_t end = later(next.clock, next.engine[IN]) + p->ticks[IN][value];
    next.engine[IN] = next.end[value] = end;
    if (!duplex)
        next.engine[OUT] = end;
    next.resident = join(next.resident, bit(value));
    next.arriving = join(next.arriving, bit(value));
    next.due = without(next.due, bit(value));
    next.step = (neap_step){NEAP_PREFETCH, p->ids[value], 0, false};
    if (!duplex)
        next.fresh = p->movable;
    else if (freed)
        next.fresh = 0;
    next.stale = 0;
    settle(p, &next);
    offer(s, &next);
}

/* Whether at most `room` bytes stay live after these frees, and would not without one of them. */
static bool are_minimal(const space *p, set resident, set freed, int64_t room)
{
    set left = without(resident, freed);
    if (live_bytes(p, left) > room)
        return false;
    for (uint32_t v = 0; v < p->n_values; v++)
        if ((freed & bit(v)) && live_bytes(p, join(left, bit(v))) <= room)
            return false;
    return true;
}

/* Lists in s->frees the minimal sets, of candidates, that leave at most `room` bytes live. */
static void list_frees(search *s, set resident, set candidates, int64_t room)
{
    const space *p = s->p;
    set all = (set)(candidates & p->sizeable), freed = 0;
    s->n_frees = 0;
    if (live_bytes(p, without(resident, all)) > room)
        return;
    if (live_bytes(p, resident) <= room)
        all = 0;
    do { /* every subset of all, the empty one first */
        if (are_minimal(p, resident, freed, room)) {
            assert_true(s->n_frees < MOST_FREES);
            s->frees[s->n_frees++] = freed;
        }
        freed = (set)((freed - all) & all);
    } while (freed != 0);
}

/* What may be freed: state only while the host has it. */
static set freeable(const space *p, const state *s)
{
    return without(s->resident, without(p->state, s->host));
}

/* The runs of an op by one choice that write over its input. `remade` is freed before. */
static void try_in_place(search *s, uint32_t before, uint32_t op, uint32_t choice_index, set remade)
{
    const space *p = s->p;
    set resident = s->states[before].resident, forced = (set)(p->beside[op] & resident);
    set may_go = freeable(p, &s->states[before]);
    if (p->over[op] == NOWHERE || (forced & p->reads[op]) || without(forced, may_go))
        return;
    set after = join(without(resident, join(forced, bit(p->over[op]))), p->writes[op]);
    list_frees(s, after, without((set)(after & may_go), join(p->reads[op], p->writes[op])),
               p->budget - p->choices[op][choice_index].workspace);
    for (uint32_t i = 0; i < s->n_frees; i++)
        compute(s, before, op, choice_index, join(s->frees[i], join(remade, forced)), true);
}

static void try_op(search *s, uint32_t before, uint32_t op)
{
    const space *p = s->p;
    set resident = s->states[before].resident, done = s->states[before].done;
    bool again = (done & bit(op)) != 0;
    if (without(p->reads[op], resident) || (again && without(p->writes[op], resident) == 0))
        return;
    if (!again && p->options.fixed_order && !p->once[op] &&
        without(without((set)(bit(op) - 1), done), p->updates))
        return;
    if ((again && p->once[op]) || (p->too_late[op] & done))
        return;
    set remade = (set)(resident & p->writes[op]);
    uint32_t first = 0, last = p->n_choices[op] - 1;
    if (again && !p->options.mixed_variants)
        first = last = (s->states[before].chosen >> (2 * op)) & 3;
    for (uint32_t c = first; c <= last; c++) {
        list_frees(s, join(resident, p->writes[op]),
                   without(freeable(p, &s->states[before]), join(p->reads[op], p->writes[op])),
                   p->budget - p->choices[op][c].workspace);
        for (uint32_t i = 0; i < s->n_frees; i++)
            compute(s, before, op, c, join(s->frees[i], remade), false);
        try_in_place(s, before, op, c, remade);
    }
}

static bool host_has_room(const space *p, set host, uint32_t value)
{
    int64_t sum = p->moved[value];
    for (uint32_t v = 0; v < p->n_values; v++)
        if (host & bit(v))
            sum += p->moved[v];
    return p->options.link.host_memory <= 0 || sum <= p->options.link.host_memory;
}

static void try_transfer(search *s, uint32_t before, uint32_t value)
{
    const space *p = s->p;
    set resident = s->states[before].resident, host = s->states[before].host;
    if (!(host & bit(value))) {
        if ((s->states[before].fresh & bit(value)) && host_has_room(p, host, value))
            offload(s, before, value);
        return;
    }
    if (resident & bit(value))
        return;
    bool is_stale = (s->states[before].stale & bit(value)) != 0;
    list_frees(s, join(resident, bit(value)), freeable(p, &s->states[before]), p->budget);
    for (uint32_t i = 0; i < s->n_frees; i++)
        if (s->frees[i] || !is_stale)
            prefetch(s, before, value, s->frees[i]);
}

/* ---- The search ---- */

static void write_steps(const search *s, uint32_t index, neap_plan *plan)
{
    const state *at = &s->states[index];
    if (at->before == NOWHERE)
        return;
    write_steps(s, at->before, plan);
    for (uint32_t v = 0; v < s->p->n_values; v++)
        if (at->freed & bit(v))
            assert_int_equal(
                neap_plan_append(plan, (neap_step){NEAP_FREE, s->p->ids[v], 0, false}, NULL),
                NEAP_OK);
    assert_int_equal(neap_plan_append(plan, at->step, NULL), NEAP_OK);
}

static void write_answer(const search *s, uint32_t index, least_time_answer *answer)
{
    const space *p = s->p;
    answer->found = true;
    answer->ticks = s->states[index].bound;
    if (!p->options.want_plan)
        return;
    assert_int_equal(neap_plan_create(NULL, neap_graph_name(p->graph), "least-time", p->budget,
                                      &answer->plan, NULL),
                     NEAP_OK);
    write_steps(s, index, answer->plan);
    uint32_t host[MOST_TIMED_VALUES];
    size_t n_host = 0;
    for (uint32_t v = 0; v < p->n_values; v++) {
        if (!(p->host_at_start & bit(v)))
            continue;
        host[n_host++] = p->ids[v];
        if (s->states[index].resident & bit(v))
            assert_int_equal(
                neap_plan_append(answer->plan, (neap_step){NEAP_FREE, p->ids[v], 0, false}, NULL),
                NEAP_OK);
    }
    assert_int_equal(neap_plan_set_host_at_start(answer->plan, host, n_host, NULL), NEAP_OK);
}

static least_time_answer explore(const space *p)
{
    least_time_answer answer = {.ticks = -1};
    search *s = calloc(1, sizeof *s);
    state start = {.before = NOWHERE,
                   .resident = without(p->state, p->host_at_start),
                   .host = p->host_at_start};
    start.fresh = start.resident;
    assert_non_null(s);
    s->p = p;
    s->most = p->options.most_states ? p->options.most_states : MOST_STATES;
    if (live_bytes(p, start.resident) <= p->budget)
        offer(s, &start);
    while (s->n_heap > 0 && !s->gave_up && !answer.found) {
        uint32_t best = pop(s);
        if (s->states[best].useless)
            continue;
        if (is_complete(p, &s->states[best])) {
            write_answer(s, best, &answer);
            break;
        }
        for (uint32_t o = 0; o < p->n_ops; o++)
            try_op(s, best, o);
        for (uint32_t v = 0; v < p->n_values; v++)
            if (p->movable & bit(v))
                try_transfer(s, best, v);
    }
    answer.gave_up = s->gave_up;
    answer.states = s->count;
    free(s->states);
    free(s->heap);
    free(s->buckets);
    free(s);
    return answer;
}

/*
 * Where nothing takes time all clocks are 0, and few states are to be seen: whether there is a plan
 * at all is asked there, before the clocks of a link multiply them. And the best plan that moves
 * nothing, which is soon found, limits how late a state with transfers may be; `most` does, too.
 */
static least_time_answer search_from(const neap_graph *graph, int64_t budget,
                                     least_time_options asked, set host_at_start, int64_t most)
{
    least_time_options unmoved = asked;
    unmoved.want_plan = false;
    space timeless = space_of(graph, budget, &unmoved, true);
    timeless.host_at_start = host_at_start;
    least_time_answer answer = explore(&timeless);
    if (!answer.found)
        return answer;
    space timed = space_of(graph, budget, &asked, false);
    timed.host_at_start = host_at_start;
    timed.most_ticks = most;
    if (timed.movable && host_at_start == 0) {
        unmoved.link = (neap_link){0};
        space still = space_of(graph, budget, &unmoved, false);
        answer = explore(&still);
        if (answer.gave_up)
            return answer;
        if (answer.found && answer.ticks < most)
            timed.most_ticks = answer.ticks;
    }
    return explore(&timed);
}

/* For each set of state that may be on the host at the start; the empty one first. */
least_time_answer least_time_search(const neap_graph *graph, int64_t budget,
                                    const least_time_options *options)
{
    least_time_options asked = options ? *options : (least_time_options){0};
    set movable = space_of(graph, budget, &asked, false).state, on_host = 0;
    least_time_answer best = {.ticks = -1};
    uint32_t states = 0;
    if (asked.state_on_host)
        on_host = movable;
    do {
        least_time_answer answer =
            search_from(graph, budget, asked, on_host, best.found ? best.ticks - 1 : INT64_MAX);
        states += answer.states;
        if (answer.gave_up) {
            neap_plan_destroy(best.plan);
            return answer;
        }
        if (answer.found) {
            neap_plan_destroy(best.plan);
            best = answer;
        }
        on_host = (set)((on_host - movable) & movable);
    } while (on_host != 0);
    best.states = states;
    return best;
}
