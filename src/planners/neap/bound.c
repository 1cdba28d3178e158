#include "planners/neap/bound.h"

#include "planners/neap/cut_program.h"

#include "base/fail.h"
#include "base/memory.h"

#include <string.h>

enum {
    MOST_MOMENTS = 40, /* of a program */
    FIRST_EFFORT = 400,
    MOST_EFFORT = 20000,
    FIRST_BLOCKS = 16,
    SLICE_WORK = 2000000, /* some hundredths of a second */
    LEAST_POSITIONS = 6,
    MOST_POSITIONS = 200,         /* of one scope */
    MOST_POSITION_WORK = 60000000 /* half a second or so */
};

/* A run of positions in the list of tight ones. Its heaviest has been tried. */
typedef struct block {
    uint32_t begin, end;
    uint32_t heaviest; /* in the list */
    double estimate;
    double price;
    bool tried;
} block;

/* Best-first search for the position of the best cut: where a cut proves much, its neighbours are
   tried next. */
typedef struct position_search {
    cut_scope scope;
    block *blocks;
    size_t n_blocks, capacity;
    int64_t best_ticks;
    double best_price;
    uint32_t best_position;
    uint32_t n_tried;
    uint64_t work;
    bool done;
} position_search;

/* Programs of more and more moments: each where the last one's solution holds too much. */
typedef struct program_search {
    cut_program *program;
    uint32_t moments[MOST_MOMENTS], n_moments;
    uint32_t chain[MOST_MOMENTS + 1], n_chain; /* those that follow each other in any order */
    uint32_t n_solved;                         /* n_chain of the last program in any order */
    uint64_t effort;                           /* of one program */
    bool any_next; /* the order of the graph has been solved, any is next */
    bool done;
} program_search;

struct bound {
    neap_allocator *allocator;
    neap_arena arena;
    const problem *x;
    int64_t budget;
    cut *cut;
    uint32_t n_tight;
    uint32_t *tight;  /* tasks during which the natural order exceeds the budget, ascending */
    int64_t *natural; /* by task: bytes in the natural order */
    position_search search[2]; /* by scope */
    program_search programs;
    int64_t grain; /* the times of all plans are multiples of it */
    uint8_t *role; /* by task: scratch */
    uint8_t *fates, *loose;
    bound_figures figures;
};

/* ---- Positions ---- */

/* Every tensor from its making to its last use. */
static void natural_bytes(const problem *x, int64_t *bytes)
{
    for (uint32_t s = 0; s < x->n_tensors; s++) {
        uint32_t last = x->producer[s];
        if (x->readers.start[s + 1] > x->readers.start[s])
            last = x->readers.items[x->readers.start[s + 1] - 1];
        bytes[x->producer[s]] += x->bytes[s];
        if (!x->is_output[s] && last + 1 < x->n_tasks)
            bytes[last + 1] -= x->bytes[s];
    }
    for (uint32_t k = 1; k < x->n_tasks; k++)
        bytes[k] += bytes[k - 1];
}

static void list_tight(bound *b)
{
    const problem *x = b->x;
    natural_bytes(x, b->natural);
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        b->natural[k] += x->base_bytes + x->variants[x->variant_start[k]].workspace;
        if (b->natural[k] > b->budget)
            b->tight[b->n_tight++] = k;
    }
}

static neap_status add_block(bound *b, position_search *s, uint32_t begin, uint32_t end,
                             double estimate, double price, neap_diag *diag)
{
    if (begin >= end)
        return NEAP_OK;
    NEAP_TRY(NEAP_RESERVE(b->allocator, s->n_blocks + 1, &s->blocks, &s->capacity, diag));
    block new = {begin, end, begin, estimate, price, false};
    for (uint32_t i = begin; i < end; i++)
        if (b->natural[b->tight[i]] > b->natural[b->tight[new.heaviest]])
            new.heaviest = i;
    s->blocks[s->n_blocks++] = new;
    return NEAP_OK;
}

/* They all come before what has been tried, the heaviest first. */
static neap_status add_first_blocks(bound *b, position_search *s, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    uint64_t n = b->n_tight;
    for (uint64_t i = 0; i < FIRST_BLOCKS && status == NEAP_OK; i++)
        status = add_block(b, s, (uint32_t)(n * i / FIRST_BLOCKS),
                           (uint32_t)(n * (i + 1) / FIRST_BLOCKS), 0, 0, diag);
    for (size_t i = 0; i < s->n_blocks; i++)
        s->blocks[i].estimate = 1e30 * (double)b->natural[b->tight[s->blocks[i].heaviest]];
    s->best_ticks = b->figures.any_ticks;
    s->best_position = NEAP_NONE;
    s->done = n == 0;
    return status;
}

/* The greatest common divisor of all times. */
static int64_t find_grain(const problem *x)
{
    int64_t grain = 0;
    for (uint32_t v = 0; v < x->variant_start[x->n_tasks]; v++)
        for (int64_t rest = x->variants[v].ticks; rest != 0;) {
            int64_t next = grain % rest;
            grain = rest;
            rest = next;
        }
    return grain > 0 ? grain : 1;
}

/* ---- Whole life ---- */

static neap_status set_up(bound *b, const neap_link *link, neap_diag *diag)
{
    const problem *x = b->x;
    if (!NEAP_TAKE(&b->arena, x->n_tasks, b->tight) ||
        !NEAP_TAKE(&b->arena, x->n_tasks, b->natural) ||
        !NEAP_TAKE(&b->arena, x->n_tasks, b->role) ||
        !NEAP_TAKE(&b->arena, x->n_tensors, b->fates) ||
        !NEAP_TAKE(&b->arena, x->n_tensors, b->loose))
        return neap_fail_no_memory(diag);
    list_tight(b);
    if (link && link->out_bandwidth > 0 && link->in_bandwidth > 0)
        b->programs.done = true; /* they know nothing of transfers */
    b->figures = (bound_figures){.any_ticks = x->least_ticks,
                                 .order_ticks = x->least_ticks,
                                 .done = b->n_tight == 0,
                                 .position = NEAP_NONE,
                                 .fates = b->fates,
                                 .loose = b->loose};
    NEAP_TRY(neap_cut_create(b->allocator, x, b->budget, link, &b->cut, diag));
    NEAP_TRY(neap_cut_program_create(b->allocator, x, b->budget, neap_cut_recomputable(b->cut),
                                     &b->programs.program, diag));
    b->programs.effort = FIRST_EFFORT;
    b->grain = b->programs.done ? 1 : find_grain(x);
    for (int i = 0; i < 2; i++) {
        b->search[i].scope = (cut_scope)i;
        NEAP_TRY(add_first_blocks(b, &b->search[i], diag));
    }
    return NEAP_OK;
}

neap_status neap_bound_create(neap_allocator *allocator, const problem *x, int64_t budget,
                              const neap_link *link, bound **result, neap_diag *diag)
{
    bound *b;
    *result = NULL;
    neap_status status = NEAP_NEW(allocator, 1, &b, diag);
    if (status != NEAP_OK)
        return status;
    b->allocator = allocator;
    b->x = x;
    b->budget = budget;
    neap_arena_init(&b->arena, allocator);
    status = set_up(b, link, diag);
    if (status == NEAP_OK)
        *result = b;
    else
        neap_bound_destroy(b);
    return status;
}

void neap_bound_destroy(bound *b)
{
    if (!b)
        return;
    neap_cut_program_destroy(b->programs.program);
    neap_cut_destroy(b->cut);
    for (int i = 0; i < 2; i++)
        NEAP_DELETE(b->allocator, b->search[i].capacity, b->search[i].blocks);
    neap_arena_clear(&b->arena);
    NEAP_DELETE(b->allocator, 1, b);
}

const bound_figures *neap_bound_state(const bound *b)
{
    return &b->figures;
}

/* ---- Improving ---- */

/* The first multiple of the grain. */
static int64_t whole_ticks(const bound *b, int64_t ticks)
{
    int64_t more = (b->grain - ticks % b->grain) % b->grain;
    return ticks < INT64_MAX - b->grain ? ticks + more : ticks;
}

/* Whether it is more than what was known of plans in the graph's order. */
static bool take_ticks(bound *b, cut_scope scope, int64_t ticks)
{
    ticks = whole_ticks(b, ticks);
    if (scope == CUT_ANY_ORDER && ticks > b->figures.any_ticks)
        b->figures.any_ticks = ticks;
    if (ticks <= b->figures.order_ticks)
        return false;
    b->figures.order_ticks = ticks;
    return true;
}

static void take_answer(bound *b, position_search *s, uint32_t task, const cut_answer *answer)
{
    if (answer->infeasible) {
        b->figures.infeasible = true;
        b->figures.none_fits |= s->scope == CUT_ANY_ORDER;
        b->figures.done = true;
        return;
    }
    if (answer->ticks <= s->best_ticks)
        return;
    s->best_ticks = answer->ticks;
    s->best_price = answer->price;
    s->best_position = task;
    if (take_ticks(b, s->scope, answer->ticks)) {
        b->figures.position = task;
        neap_cut_fates(b->cut, b->fates, b->loose);
    }
}

/* Index of the most promising block that is untried or can be split; n_blocks: none. */
static size_t best_block(const position_search *s)
{
    size_t best = s->n_blocks;
    for (size_t i = 0; i < s->n_blocks; i++) {
        const block *k = &s->blocks[i];
        if (k->tried && k->end - k->begin <= 1)
            continue;
        if (best == s->n_blocks || k->estimate > s->blocks[best].estimate)
            best = i;
    }
    return best;
}

/* The heaviest position is known: what lies on both sides of it becomes two blocks each. */
static neap_status split_block(bound *b, position_search *s, size_t index, neap_diag *diag)
{
    block k = s->blocks[index];
    s->blocks[index] = s->blocks[--s->n_blocks];
    uint32_t left = k.begin + (k.heaviest - k.begin) / 2;
    uint32_t right = k.heaviest + 1 + (k.end - k.heaviest - 1) / 2;
    const uint32_t ends[] = {k.begin, left, k.heaviest, k.heaviest + 1, right, k.end};
    for (int i = 0; i < 5; i++)
        if (i != 2)
            NEAP_TRY(add_block(b, s, ends[i], ends[i + 1], k.estimate, k.price, diag));
    return NEAP_OK;
}

/* One position, or one block more. */
static neap_status step_positions(bound *b, position_search *s, const cut_watch *watch,
                                  neap_diag *diag)
{
    size_t index = best_block(s);
    bool enough = s->n_tried >= LEAST_POSITIONS && s->work > MOST_POSITION_WORK;
    if (index == s->n_blocks || s->n_tried >= MOST_POSITIONS || enough) {
        s->done = true;
        return NEAP_OK;
    }
    block *k = &s->blocks[index];
    if (k->tried)
        return split_block(b, s, index, diag);
    uint32_t task = b->tight[k->heaviest];
    uint64_t before = neap_cut_work(b->cut);
    double price = k->price > 0 ? k->price : s->best_price;
    cut_answer answer;
    NEAP_TRY(neap_cut_solve(b->cut, task, s->scope, price, s->best_ticks, watch, &answer, diag));
    take_answer(b, s, task, &answer);
    k->tried = !answer.stopped;
    k->estimate = answer.estimate;
    k->price = answer.price;
    s->n_tried++;
    s->work += neap_cut_work(b->cut) - before;
    return NEAP_OK;
}

static bool is_stopped(const cut_watch *watch)
{
    return watch->stop && watch->stop(watch->context);
}

/* ---- Programs ---- */

static void insert(uint32_t *sorted, uint32_t *n, uint32_t task)
{
    uint32_t i = (*n)++;
    for (; i > 0 && sorted[i - 1] > task; i--)
        sorted[i] = sorted[i - 1];
    sorted[i] = task;
}

/* Into the moments; into the chain too, if it is comparable with all of it. */
static void add_moment(const bound *b, program_search *p, uint32_t task, bool to_moments)
{
    bool fits = true;
    neap_problem_mark_roles(b->x, task, CUT_ANY_ORDER, b->role);
    for (uint32_t i = 0; i < p->n_chain && fits; i++)
        fits = p->chain[i] != task && b->role[p->chain[i]] != ROLE_UNKNOWN;
    if (fits)
        insert(p->chain, &p->n_chain, task);
    if (to_moments)
        insert(p->moments, &p->n_moments, task);
}

static void first_moments(bound *b)
{
    program_search *p = &b->programs;
    uint32_t any = b->search[CUT_ANY_ORDER].best_position, order = b->figures.position;
    if (any != NEAP_NONE && any != order)
        add_moment(b, p, any, false);
    if (order != NEAP_NONE)
        add_moment(b, p, order, true);
}

/* After a program in the graph's order: one moment more, or more effort, or the end. */
static void next_program(bound *b, const program_answer *answer)
{
    program_search *p = &b->programs;
    if (answer->columns == 0) {
        p->done = true;
    } else if (answer->stopped) {
        p->effort *= 4;
        p->done = p->effort > MOST_EFFORT;
    } else if (answer->overfull == NEAP_NONE || p->n_moments == MOST_MOMENTS) {
        p->done = true;
    } else {
        add_moment(b, p, answer->overfull, true);
    }
}

static neap_status step_programs(bound *b, const cut_watch *watch, neap_diag *diag)
{
    program_search *p = &b->programs;
    program_answer answer;
    if (p->n_moments + p->n_chain == 0)
        first_moments(b);
    cut_scope scope = p->any_next ? CUT_ANY_ORDER : CUT_GRAPH_ORDER;
    const uint32_t *tasks = p->any_next ? p->chain : p->moments;
    uint32_t n = p->any_next ? p->n_chain : p->n_moments;
    p->done = p->done || p->n_moments == 0;
    if (n == 0)
        return NEAP_OK;
    neap_status status =
        neap_cut_program_solve(p->program, scope, tasks, n, p->effort, watch, &answer, diag);
    if (status == NEAP_UNSUPPORTED || status == NEAP_INTERNAL) {
        p->done = true; /* without HiGHS, or if it refuses, single cuts are all there is */
        p->any_next = false;
        return NEAP_OK;
    }
    if (status != NEAP_OK)
        return status;
    if (take_ticks(b, scope, answer.ticks) && answer.fates) {
        memcpy(b->fates, answer.fates, b->x->n_tensors);
        memcpy(b->loose, answer.fates, b->x->n_tensors);
    }
    if (is_stopped(watch))
        return NEAP_OK;
    p->n_solved = scope == CUT_ANY_ORDER ? n : p->n_solved;
    if (scope == CUT_GRAPH_ORDER)
        next_program(b, &answer);
    p->any_next = scope == CUT_GRAPH_ORDER && p->n_chain > p->n_solved;
    return status;
}

/* ---- A slice ---- */

static neap_status step(bound *b, const cut_watch *watch, neap_diag *diag)
{
    position_search *order = &b->search[CUT_GRAPH_ORDER], *any = &b->search[CUT_ANY_ORDER];
    if (!order->done && (any->done || order->work <= any->work))
        return step_positions(b, order, watch, diag);
    if (!any->done)
        return step_positions(b, any, watch, diag);
    NEAP_TRY(b->programs.done && !b->programs.any_next ? NEAP_OK : step_programs(b, watch, diag));
    b->figures.done = b->programs.done && !b->programs.any_next;
    return NEAP_OK;
}

neap_status neap_bound_improve(bound *b, bool (*stop)(void *context), void *context,
                               neap_diag *diag)
{
    const cut_watch watch = {stop, context};
    uint64_t end = neap_cut_work(b->cut) + SLICE_WORK;
    bool cuts = true;
    while (cuts && !b->figures.done && neap_cut_work(b->cut) < end && !is_stopped(&watch)) {
        cuts = !b->search[0].done || !b->search[1].done;
        NEAP_TRY(step(b, &watch, diag));
    }
    return NEAP_OK;
}
