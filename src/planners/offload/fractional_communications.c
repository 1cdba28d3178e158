/*
 * Algorithm 1: a dynamic program over the units that processes the forward pass from its start and
 * the backward pass from its end, and keeps, in a hash table per unit, the least idle time for each
 * state (M_F, Delta_F, Delta_B).
 *
 * M_F is given by the bytes selected so far, q: what is resident is what the natural order needs,
 * less the q - Delta_F that are gone. All ops between two units are passed in one step: if op k
 * needs c_k bytes gone after a time U_k, the wait is the amount by which the largest c_k - beta U_k
 * exceeds the bytes that are gone.
 */
#include "base/fail.h"
#include "base/memory.h"
#include "planners/offload/fractional.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The course: the ops between units, with memory in slots ---- */

/* Consecutive ops without a unit between them. */
typedef struct reach {
    double span; /* what the link moves while they run */
    double wait; /* the most of c_k less the span before op k; -HUGE_VAL: no op */
    double most; /* the most of c_k */
} reach;

typedef struct course_unit {
    double size;
    uint32_t left, needed; /* ops; by descending `needed`, as the dynamic program requires */
    double before;         /* c of the op `left`, which the unit itself cannot help */
    reach forward;         /* from the op `left` to the next unit's */
    reach backward;        /* from the unit before down to the op `needed` */
    double forward_ahead, backward_ahead; /* `wait` over all ops ahead */
    double most_ahead;                    /* the most that must be gone, of all ops ahead */
    double ticks_ahead;                   /* of all ops ahead */
} course_unit;

typedef struct course {
    const offload_problem *problem;
    neap_arena arena;
    double slot;    /* bytes */
    double out, in; /* slots per tick */
    uint32_t n;     /* units */
    course_unit *units;
    ranked *shortfalls;   /* scratch, per unit: slots by which its size is below the real one */
    reach first, last;    /* before the first unit; after the last one, backward */
    double *gone;         /* per op: c_k, what must be gone, in slots */
    double *span;         /* per op: what the link moves while it runs */
    double limit;         /* the budget in slots */
    double price;         /* ticks for the square of a size */
    size_t *first_parent; /* scratch, per unit and one more: of program.parents */
} course;

static double real_size(const course *c, uint32_t u)
{
    return (double)c->problem->units[u].bytes / c->slot;
}

/*
 * Section 5.3.2: spans are rounded down in their partial sums, sizes at first up in theirs, and
 * what can never leave up. Without slots nothing is rounded.
 */
static void set_sizes(course *c, bool rounded)
{
    double sum = 0, before = 0;
    for (uint32_t u = 0; u < c->n; u++) {
        sum += real_size(c, u);
        double now = ceil(sum - 1e-9);
        c->units[u].size = rounded ? now - before : real_size(c, u);
        before = now;
    }
}

static void set_spans(course *c, uint32_t begin, uint32_t end, double rate, bool rounded)
{
    double sum = 0, before = 0;
    for (uint32_t k = begin; k < end; k++) {
        double span = rate * (double)c->problem->ticks[k];
        sum += span;
        double now = floor(sum + 1e-9);
        c->span[k] = rounded ? now - before : span;
        before = now;
    }
}

/* c_k, from the current rounded sizes. */
static void set_gone(course *c, bool rounded)
{
    const offload_problem *problem = c->problem;
    double *slots = c->gone, *bytes = problem->excess, slots_sum = 0, bytes_sum = 0;
    for (uint32_t k = 0; k <= problem->n_ops; k++)
        slots[k] = bytes[k] = 0;
    for (uint32_t u = 0; u < c->n; u++) {
        const course_unit *unit = &c->units[u];
        if (unit->left + 1 >= unit->needed)
            continue;
        slots[unit->left + 1] += unit->size;
        slots[unit->needed] -= unit->size;
        bytes[unit->left + 1] += (double)problem->units[u].bytes;
        bytes[unit->needed] -= (double)problem->units[u].bytes;
    }
    for (uint32_t k = 0; k < problem->n_ops; k++) {
        slots_sum += slots[k];
        bytes_sum += bytes[k];
        double rest = (double)problem->need[k] - bytes_sum;
        slots[k] = (double)problem->need[k] - (double)problem->budget;
        if (rounded) {
            slots[k] = slots_sum + ceil(rest / c->slot - 1e-9) - c->limit;
            /* An op that really fits with all units away must fit after rounding. */
            if (rest <= (double)problem->budget && slots[k] > slots_sum)
                slots[k] = slots_sum;
        }
    }
}

/* The op `left` of unit u; after the last unit, the turn. */
static uint32_t left_of(const course *c, uint32_t u)
{
    return u < c->n ? c->units[u].left : c->problem->turn;
}

/* The op `needed` of the unit before u; before the first unit, the end. */
static uint32_t needed_before(const course *c, uint32_t u)
{
    return u > 0 ? c->units[u - 1].needed : c->problem->n_ops;
}

static void reach_add(const course *c, reach *r, uint32_t k)
{
    r->wait = fmax(r->wait, c->gone[k] - r->span);
    r->most = fmax(r->most, c->gone[k]);
    r->span += c->span[k];
}

static reach reach_forward(const course *c, reach r, uint32_t begin, uint32_t end)
{
    for (uint32_t k = begin; k < end; k++)
        reach_add(c, &r, k);
    return r;
}

static reach reach_backward(const course *c, uint32_t begin, uint32_t end)
{
    reach r = {0, -HUGE_VAL, -HUGE_VAL};
    for (uint32_t k = end; k-- > begin;)
        reach_add(c, &r, k);
    return r;
}

static double sum_ticks(const course *c, uint32_t begin, uint32_t end)
{
    double ticks = 0;
    for (uint32_t k = begin; k < end; k++)
        ticks += (double)c->problem->ticks[k];
    return ticks;
}

static void set_reaches(course *c)
{
    const reach none = {0, -HUGE_VAL, -HUGE_VAL};
    uint32_t turn = c->problem->turn;
    c->first = reach_forward(c, none, 0, left_of(c, 0));
    c->last = reach_backward(c, turn, needed_before(c, c->n));
    double forward = -HUGE_VAL, backward = c->last.wait, most = c->last.most;
    double ticks = sum_ticks(c, turn, needed_before(c, c->n));
    for (uint32_t u = c->n; u-- > 0;) {
        course_unit *unit = &c->units[u];
        uint32_t left = unit->left, end = left_of(c, u + 1);
        bool opens = u == 0 || c->units[u - 1].left < left;
        unit->before = opens ? c->gone[left] : -HUGE_VAL;
        unit->forward = none;
        if (left < end) {
            unit->forward.span = c->span[left];
            unit->forward = reach_forward(c, unit->forward, left + 1, end);
        }
        unit->backward = reach_backward(c, unit->needed, needed_before(c, u));
        forward = fmax(unit->before, fmax(unit->forward.wait, forward - unit->forward.span));
        backward = fmax(unit->backward.wait, backward - unit->backward.span);
        most = fmax(most, fmax(unit->before, fmax(unit->forward.most, unit->backward.most)));
        ticks += sum_ticks(c, left, end) + sum_ticks(c, unit->needed, needed_before(c, u));
        unit->forward_ahead = forward;
        unit->backward_ahead = backward;
        unit->most_ahead = most;
        unit->ticks_ahead = ticks;
    }
}

static neap_status course_build(const offload_problem *problem,
                                const communications_options *options, course *c, neap_diag *diag)
{
    uint32_t slots = options->slots, needed = problem->n_ops;
    double largest = 0;
    *c = (course){.problem = problem, .n = problem->n_units, .slot = 1};
    neap_arena_init(&c->arena, problem->planner->allocator);
    if (!NEAP_TAKE(&c->arena, c->n, c->units) || !NEAP_TAKE(&c->arena, c->n, c->shortfalls) ||
        !NEAP_TAKE(&c->arena, (size_t)problem->n_ops + 1, c->gone) ||
        !NEAP_TAKE(&c->arena, problem->n_ops, c->span) ||
        !NEAP_TAKE(&c->arena, (size_t)c->n + 1, c->first_parent)) {
        neap_arena_clear(&c->arena);
        return neap_fail_no_memory(diag);
    }
    /* The paper's slot is a share of the budget. If far more than the budget must leave, it is a
       share of that, for the same number of states. */
    double scale = fmax((double)problem->budget, (double)(problem->peak - problem->budget));
    if (slots > 0)
        c->slot = scale / slots;
    c->limit = floor((double)problem->budget / c->slot + 1e-9);
    c->out = neap_offload_rate(problem, true) / c->slot;
    c->in = neap_offload_rate(problem, false) / c->slot;
    set_sizes(c, slots > 0);
    for (uint32_t u = 0; u < c->n; u++) {
        const offload_unit *unit = &problem->units[u];
        needed = unit->needed < needed ? unit->needed : needed;
        c->units[u].left = unit->left;
        c->units[u].needed = needed;
        largest = fmax(largest, c->units[u].size);
    }
    c->price = largest > 0 ? options->price / c->out / largest : 0;
    set_spans(c, 0, problem->turn, c->out, slots > 0);
    set_spans(c, problem->turn, problem->n_ops, c->in, slots > 0);
    set_gone(c, slots > 0);
    set_reaches(c);
    return NEAP_OK;
}

/* ---- States ---- */

typedef struct state {
    double q;        /* selected so far */
    double out, in;  /* Delta_F and Delta_B: to move, or less than 0: what could have been */
    double idle;     /* ticks, and the price of what leaves */
    double bound;    /* of the idle ticks of any completion */
    uint32_t parent; /* in the table before, shifted by one; the lowest bit: the unit left */
} state;

/* Passes the ops of a reach; false if they need more gone than is selected. */
static bool pass(const reach *r, double q, double *delta, double rate, double *idle)
{
    if (r->most > q)
        return false;
    double backlog = fmax(*delta, 0), wait = fmax(0, r->wait - (q - backlog));
    *idle += wait / rate;
    *delta = (wait > 0 ? backlog : *delta) - wait - r->span;
    return true;
}

/* The state after a unit; false if there is none. */
static bool step(const course *c, const course_unit *unit, const state *from, bool leaves,
                 state *to)
{
    *to = *from;
    double short_of = unit->before - (from->q - fmax(from->out, 0));
    if (unit->before > from->q)
        return false;
    if (short_of > 0) {
        to->idle += short_of / c->out;
        to->out = fmax(from->out, 0) - short_of;
    }
    if (!pass(&unit->backward, from->q, &to->in, c->in, &to->idle))
        return false;
    if (leaves) {
        to->q += unit->size;
        to->idle += c->price * unit->size * unit->size;
        to->out = fmax(to->out, 0) + unit->size;
        to->in = fmax(to->in, 0) + unit->size;
    }
    return pass(&unit->forward, to->q, &to->out, c->out, &to->idle);
}

/* A lower bound on the idle ticks of any completion; `ahead` is the unit to decide on next. */
static double bound_of(const course *c, const course_unit *ahead, const state *s)
{
    double out = fmax(s->out, 0), in = fmax(s->in, 0);
    double more = fmax(0, ahead->most_ahead - s->q);
    double away = (out + more) / c->out, back = (in + more) / c->in;
    double work = c->problem->link.duplex ? fmax(away, back) : away + back;
    double waits = fmax(0, ahead->forward_ahead - (s->q - out)) / c->out +
                   fmax(0, ahead->backward_ahead - (s->q - in)) / c->in;
    /* Transfers can also use the time in which the link had nothing to do, on either side. */
    double room = ahead->ticks_ahead + fmax(0, -s->out) / c->out + fmax(0, -s->in) / c->in;
    return s->idle + fmax(waits, work - room);
}

/* ---- How the two passes meet ---- */

static offload_flow_end flow_end(double rate, double q, double delta)
{
    double backlog = fmax(delta, 0);
    return (offload_flow_end){rate, q - backlog, backlog, fmax(0, -delta) / rate};
}

/* The idle ticks of a state after all units; HUGE_VAL if the ops at the turn do not fit. */
static double finish(const course *c, const state *s)
{
    state end = *s;
    if (!pass(&c->last, end.q, &end.in, c->in, &end.idle))
        return HUGE_VAL;
    offload_flow_end out = flow_end(c->out, end.q, end.out), in = flow_end(c->in, end.q, end.in);
    return end.idle + neap_offload_meeting_idle(c->problem, c->gone, &out, &in);
}

/* The idle ticks of one selection; HUGE_VAL if it does not fit. */
static double selection_idle(const course *c, const bool *away)
{
    state s = {.out = -c->first.span}, next;
    if (c->first.most > 0)
        return HUGE_VAL;
    for (uint32_t u = 0; u < c->n; u++) {
        if (!step(c, &c->units[u], &s, away[u], &next))
            return HUGE_VAL;
        s = next;
    }
    return finish(c, &s);
}

/* ---- Tables ---- */

typedef struct table {
    state *states;
    size_t n, capacity;
    uint32_t *slots; /* by hash: a state's number plus one; 0: free */
    size_t n_slots;  /* a power of two */
} table;

enum { MOST_STATES = 20000000 }; /* about 2 GB of them */

typedef struct program {
    const course *c;
    const communications_options *options;
    neap_allocator *allocator;
    table now, next;
    uint32_t *parents; /* of all tables, one after the other */
    size_t n_parents, parent_capacity;
    double cutoff; /* idle ticks that a selection is known to reach */
    bool exact;
    neap_diag *diag;
} program;

static size_t hash_state(const state *s)
{
    uint64_t h = 0, bits[3];
    double keys[3] = {s->q + 0.0, s->out + 0.0, s->in + 0.0};
    memcpy(bits, keys, sizeof bits);
    for (int i = 0; i < 3; i++) {
        h = (h ^ bits[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return (size_t)h;
}

static neap_status table_rehash(program *g, table *t)
{
    size_t n = t->n_slots ? 2 * t->n_slots : 1024;
    uint32_t *slots;
    NEAP_TRY(NEAP_NEW(g->allocator, n, &slots, g->diag));
    NEAP_DELETE(g->allocator, t->n_slots, t->slots);
    t->slots = slots;
    t->n_slots = n;
    for (size_t i = 0; i < t->n; i++) {
        size_t at = hash_state(&t->states[i]) & (n - 1);
        while (slots[at])
            at = (at + 1) & (n - 1);
        slots[at] = (uint32_t)i + 1;
    }
    return NEAP_OK;
}

static int compare(double a, double b)
{
    return (a > b) - (a < b);
}

/* Idle_{i+1}(M_F, Delta_F, Delta_B) <- min(...) */
static neap_status table_put(program *g, table *t, const state *s)
{
    if (2 * (t->n + 1) > t->n_slots)
        NEAP_TRY(table_rehash(g, t));
    size_t at = hash_state(s) & (t->n_slots - 1);
    for (; t->slots[at]; at = (at + 1) & (t->n_slots - 1)) {
        state *old = &t->states[t->slots[at] - 1];
        if (compare(old->q, s->q) || compare(old->out, s->out) || compare(old->in, s->in))
            continue;
        if (s->idle < old->idle)
            *old = *s;
        return NEAP_OK;
    }
    if (t->n >= MOST_STATES)
        return neap_fail(g->diag, NEAP_UNSUPPORTED,
                         "%s: more than %d states after one tensor; count memory in slots "
                         "(option slots=500) or keep fewer (option states=4000)",
                         g->c->problem->planner->request->method, (int)MOST_STATES);
    NEAP_TRY(NEAP_RESERVE(g->allocator, t->n + 1, &t->states, &t->capacity, g->diag));
    t->states[t->n++] = *s;
    t->slots[at] = (uint32_t)t->n;
    return NEAP_OK;
}

static void table_free(table *t, neap_allocator *allocator)
{
    NEAP_DELETE(allocator, t->capacity, t->states);
    NEAP_DELETE(allocator, t->n_slots, t->slots);
}

static int by_size(const void *a, const void *b)
{
    const state *x = a, *y = b;
    int order = compare(y->q, x->q);
    order = order ? order : compare(x->out, y->out);
    order = order ? order : compare(x->in, y->in);
    return order ? order : compare(x->idle, y->idle);
}

static int by_bound(const void *a, const void *b)
{
    const state *x = a, *y = b;
    int order = compare(x->bound, y->bound);
    return order ? order : by_size(a, b);
}

/*
 * A state that has as much selected as another, no more to move either way and no more idle time
 * dominates it. Only a few states with the same or a larger q are compared.
 */
static void drop_dominated(table *t)
{
    enum { LOOK = 64 };
    if (t->n > 0)
        qsort(t->states, t->n, sizeof *t->states, by_size);
    size_t kept = 0;
    for (size_t i = 0; i < t->n; i++) {
        const state *s = &t->states[i];
        bool dominated = false;
        for (size_t j = kept; j-- > 0 && kept - j <= LOOK && !dominated;) {
            const state *o = &t->states[j];
            dominated = o->out <= s->out && o->in <= s->in && o->idle <= s->idle;
        }
        if (!dominated)
            t->states[kept++] = *s;
    }
    t->n = kept;
}

/* One unit: Idle_i into Idle_{i+1}. */
static neap_status pass_unit(program *g, uint32_t u)
{
    const course *c = g->c;
    table *next = &g->next;
    next->n = 0;
    if (next->n_slots > 0)
        memset(next->slots, 0, next->n_slots * sizeof *next->slots);
    for (size_t i = 0; i < g->now.n; i++) {
        if (i % 65536 == 65535 && neap_planner_stopped(c->problem->planner))
            break; /* the caller stops too */
        for (uint32_t leaves = 0; leaves < 2; leaves++) {
            state to;
            if (!step(c, &c->units[u], &g->now.states[i], leaves, &to))
                continue;
            to.parent = (uint32_t)i << 1 | leaves;
            to.bound = u + 1 < c->n ? bound_of(c, &c->units[u + 1], &to) : to.idle;
            if (to.bound < g->cutoff)
                NEAP_TRY(table_put(g, next, &to));
        }
    }
    drop_dominated(next);
    size_t most = g->options->most_states;
    if (most > 0 && next->n > most) {
        qsort(next->states, next->n, sizeof *next->states, by_bound);
        next->n = most;
        g->exact = false;
    }
    NEAP_TRY(NEAP_RESERVE(g->allocator, g->n_parents + next->n, &g->parents, &g->parent_capacity,
                          g->diag));
    c->first_parent[u] = g->n_parents;
    for (size_t i = 0; i < next->n; i++)
        g->parents[g->n_parents++] = next->states[i].parent;
    return NEAP_OK;
}

static neap_status run_program(program *g, bool *away, communications_answer *answer)
{
    const course *c = g->c;
    const planner *p = c->problem->planner;
    state begin = {.out = -c->first.span};
    NEAP_TRY(table_put(g, &g->now, &begin));
    for (uint32_t u = 0; u < c->n; u++) {
        NEAP_TRY(pass_unit(g, u));
        table swap = g->now;
        g->now = g->next;
        g->next = swap;
        answer->n_states += g->now.n;
        neap_planner_report(p, (double)(u + 1) / c->n);
        if (neap_planner_stopped(p)) {
            answer->stopped = true;
            return NEAP_OK;
        }
    }
    uint32_t best = NEAP_NONE;
    for (size_t i = 0; i < g->now.n; i++) {
        double idle = finish(c, &g->now.states[i]);
        if (idle < g->cutoff) {
            g->cutoff = idle;
            best = (uint32_t)i;
        }
    }
    for (uint32_t u = c->n; u-- > 0 && best != NEAP_NONE;) {
        uint32_t parent = g->parents[c->first_parent[u] + best];
        away[u] = parent & 1;
        best = parent >> 1;
    }
    answer->exact = g->exact;
    return NEAP_OK;
}

/*
 * A first selection, for the cutoff: as few of the first units as are enough, less those whose
 * absence is not needed. `away` has a flag per unit.
 */
static double start_selection(const course *c, bool *away)
{
    uint32_t few = 0, enough = c->n;
    while (enough - few > 1) {
        uint32_t middle = few + (enough - few) / 2;
        for (uint32_t u = 0; u < c->n; u++)
            away[u] = u < middle;
        *(selection_idle(c, away) < HUGE_VAL ? &enough : &few) = middle;
    }
    for (uint32_t u = 0; u < c->n; u++)
        away[u] = u < enough;
    double best = selection_idle(c, away);
    uint32_t tries = 1 + 4000000 / (c->n + 1); /* each reads all units */
    for (uint32_t u = enough; u-- > 0 && best < HUGE_VAL && tries-- > 0;) {
        away[u] = false;
        double idle = selection_idle(c, away);
        if (idle <= best)
            best = idle;
        else
            away[u] = true;
    }
    return best;
}

static neap_status solve_course(const course *c, const communications_options *options, bool *away,
                                communications_answer *answer, neap_diag *diag)
{
    program g = {.c = c,
                 .options = options,
                 .allocator = c->problem->planner->allocator,
                 .exact = true,
                 .diag = diag};
    neap_status status = NEAP_OK;
    answer->found = false;
    if (c->first.most > 0)
        return NEAP_OK;
    g.cutoff = start_selection(c, away);
    answer->exact = true;
    if (g.cutoff > 0)
        status = run_program(&g, away, answer);
    answer->found = g.cutoff < HUGE_VAL;
    answer->ticks = (double)c->problem->total_ticks + g.cutoff;
    table_free(&g.now, g.allocator);
    table_free(&g.next, g.allocator);
    NEAP_DELETE(g.allocator, g.parent_capacity, g.parents);
    return status;
}

/* ---- Rounding ---- */

/*
 * Section 5.3.2's step, for the units that stay at an op that lacks memory: the size that is below
 * the real one, but closest to it, becomes one slot more, until the rounded sizes show the lack.
 */
static bool raise_sizes(course *c, const bool *away, uint32_t op)
{
    double short_of = 0;
    uint32_t n = 0, raised = 0;
    for (uint32_t u = 0; u < c->n; u++) {
        if (away[u] || c->units[u].left >= op || op >= c->units[u].needed)
            continue;
        double below = real_size(c, u) - c->units[u].size;
        short_of += below;
        if (below > 1e-9)
            c->shortfalls[n++] = (ranked){below, u};
    }
    if (n > 0)
        qsort(c->shortfalls, n, sizeof *c->shortfalls, neap_ranked_up);
    for (; raised < n && (short_of > 0 || raised == 0); raised++, short_of--)
        c->units[c->shortfalls[raised].item].size++;
    return raised > 0;
}

neap_status neap_fractional_communications_solve(offload_search *s,
                                                 const communications_options *options, bool *away,
                                                 communications_answer *answer, neap_diag *diag)
{
    enum { ROUNDS = 8 };
    course c;
    *answer = (communications_answer){0};
    NEAP_TRY(course_build(&s->problem, options, &c, diag));
    neap_status status = NEAP_OK;
    uint32_t most = options->most_rounds ? options->most_rounds : ROUNDS;
    while (status == NEAP_OK) {
        status = solve_course(&c, options, away, answer, diag);
        for (uint32_t u = 0; u < c.n; u++)
            neap_offload_set_unit(s, u, away[u]);
        uint32_t op = status == NEAP_OK && answer->found ? neap_offload_search_short(s) : NEAP_NONE;
        if (op == NEAP_NONE || options->slots == 0 || answer->stopped ||
            ++answer->n_rounds >= most || !raise_sizes(&c, away, op))
            break;
        /* In the last round every size is rounded up: what fits then always fits. */
        for (uint32_t u = 0; answer->n_rounds + 1 == ROUNDS && u < c.n; u++)
            c.units[u].size = ceil(real_size(&c, u) - 1e-9);
        set_gone(&c, true);
        set_reaches(&c);
    }
    neap_arena_clear(&c.arena);
    return status;
}
