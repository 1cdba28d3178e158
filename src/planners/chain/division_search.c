#include "planners/chain/division.h"

#include "base/fail.h"
#include "planners/chain/term_sweep.h"

typedef struct search {
    const division_problem *problem;
    int64_t least; /* no term below it: what cannot be divided */
    /* Of a LINEAR division, per vertex with both ends: */
    int64_t *through; /* bytes from its source up to and including the vertex */
    int64_t *path;    /* least sum of checkpoints up to the vertex, itself among them */
    uint32_t *from;   /* the checkpoint before it on that path */
    uint32_t *queue;  /* candidates for `from`, their `path` rising */
    int64_t term;
} search;

/* What vertex k of a LINEAR division adds as a checkpoint, and inside a segment; 0 for the ends. */
static int64_t kept_bytes(const search *s, const division *d, uint32_t k)
{
    return k == 0 || k == d->n_parts ? 0 : s->problem->bytes[d->vertices[k - 1]];
}

static int64_t inner_bytes(const search *s, const division *d, uint32_t k)
{
    return k == 0 || k == d->n_parts ? 0 : s->problem->list->weight[d->vertices[k - 1]];
}

/* Bytes strictly between vertices i < j. */
static int64_t between(const search *s, const division *d, uint32_t i, uint32_t j)
{
    return s->through[j] - inner_bytes(s, d, j) - s->through[i];
}

/*
 * The shortest path through a LINEAR division: as in segment_term.c, except that a part larger than
 * the term is divided, between checkpoints.
 */
static void find_path(search *s, const division *d)
{
    uint32_t head = 0, tail = 0;
    s->path[0] = s->through[0] = 0;
    for (uint32_t j = 1; j <= d->n_parts; j++) {
        const division *part = d->parts[j - 1];
        int64_t divided = 0;
        s->through[j] = s->through[j - 1] + part->total + inner_bytes(s, d, j);
        while (tail > head && s->path[s->queue[tail - 1]] >= s->path[j - 1])
            tail--;
        s->queue[tail++] = j - 1;
        if (part->total > s->term) {
            divided = part->stored;
            s->queue[head = 0] = j - 1;
            tail = 1;
        }
        while (part->total <= s->term && between(s, d, s->queue[head], j) > s->term)
            head++;
        s->from[j] = s->queue[head];
        s->path[j] = s->path[s->queue[head]] + divided + kept_bytes(s, d, j);
        if (part->total > s->term) /* nothing reaches across it */
            head = tail = 0;
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void solve_linear(search *s, division *d)
{
    find_path(s, d);
    d->stored = s->path[d->n_parts];
    for (uint32_t j = d->n_parts; j > 0; j = s->from[j]) {
        bool divided = d->parts[j - 1]->total > s->term;
        int64_t size = divided ? d->parts[j - 1]->largest : between(s, d, s->from[j], j);
        d->largest = larger(d->largest, size);
    }
}

static void solve_parts(search *s, division *d)
{
    for (uint32_t i = 0; i < d->n_parts; i++) {
        const division *part = d->parts[i];
        bool divided = part->total > s->term;
        d->stored += divided ? part->stored : 0;
        d->largest = larger(d->largest, divided ? part->largest : part->total);
    }
    for (uint32_t i = 0; i < d->n_vertices; i++)
        d->stored += s->problem->bytes[d->vertices[i]];
}

static int64_t stored_within(void *context, int64_t most, int64_t *largest)
{
    search *s = context;
    const division_problem *p = s->problem;
    int64_t stored = p->fixed;
    s->term = most;
    for (size_t i = 0; i < p->list->count; i++) {
        division *d = p->list->items[i];
        d->stored = 0;
        d->largest = s->least;
        if (d->total > most && d->kind == DIVISION_LINEAR)
            solve_linear(s, d);
        else if (d->total > most)
            solve_parts(s, d);
    }
    *largest = s->least;
    for (uint32_t i = 0; i < p->n_sets; i++) {
        bool divided = p->sets[i]->total > most;
        stored += divided ? p->sets[i]->stored : 0;
        *largest = larger(*largest, divided ? p->sets[i]->largest : p->sets[i]->total);
    }
    return stored;
}

/* Marks the checkpoints inside a division for the term that was solved last. */
static void choose(search *s, const division *d, bool *chosen)
{
    if (d->total <= s->term)
        return;
    if (d->kind == DIVISION_LINEAR) {
        find_path(s, d);
        for (uint32_t j = s->from[d->n_parts]; j > 0; j = s->from[j])
            chosen[d->vertices[j - 1]] = true;
    }
    for (uint32_t i = 0; d->kind == DIVISION_SPLIT && i < d->n_vertices; i++)
        chosen[d->vertices[i]] = true;
    for (uint32_t i = 0; i < d->n_parts; i++)
        choose(s, d->parts[i], chosen);
}

static bool prepare(search *s, neap_arena *arena)
{
    const division_problem *p = s->problem;
    size_t longest = 0;
    for (size_t i = 0; i < p->list->count; i++) {
        const division *d = p->list->items[i];
        if (d->kind == DIVISION_WHOLE)
            s->least = larger(s->least, d->total);
        longest = d->n_parts > longest ? d->n_parts : longest;
    }
    for (uint32_t v = 0; v < p->n_names; v++)
        s->least = larger(s->least, p->beside[v]);
    return NEAP_TAKE(arena, longest + 1, s->through) && NEAP_TAKE(arena, longest + 1, s->path) &&
           NEAP_TAKE(arena, longest + 1, s->from) && NEAP_TAKE(arena, longest + 1, s->queue);
}

neap_status neap_division_search(const division_problem *problem, division_answer *answer,
                                 neap_allocator *allocator, neap_diag *diag)
{
    search s = {.problem = problem};
    term_sweep sweep = {.stored = stored_within, .context = &s, .planner = problem->list->planner};
    neap_arena arena;
    int64_t largest;
    neap_arena_init(&arena, allocator);
    bool taken = prepare(&s, &arena);
    if (taken) {
        sweep.least = s.least;
        for (uint32_t i = 0; i < problem->n_sets; i++)
            sweep.most = larger(sweep.most, problem->sets[i]->total);
        neap_term_sweep_run(&sweep);
        stored_within(&s, sweep.best_term, &largest);
        for (uint32_t i = 0; i < problem->n_sets; i++)
            choose(&s, problem->sets[i], answer->chosen);
    }
    neap_arena_clear(&arena);
    answer->objective = sweep.best;
    answer->stopped = sweep.stopped || problem->list->stopped;
    answer->terms = sweep.tried;
    return taken ? NEAP_OK : neap_fail_no_memory(diag);
}
