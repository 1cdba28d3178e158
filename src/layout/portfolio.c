/* Rounds of searches on several threads (portfolio.h). */
#include "layout/portfolio.h"

#include "base/fail.h"
#include "base/memory.h"

#include <string.h>

enum { ROUNDS = 5, LESSON = 300 /* failures from which to learn before starting again */ };

/* Work of the lessons for one of each walk. */
#define LESSON_SHARE 6
/* Sections of all instances together: above, one thread must do. */
static const size_t MANY_LIVES = 2000000;

/* Cancels a search when the caller does, or when one before it has decided. */
typedef struct watch {
    neap_progress base;
    neap_portfolio *portfolio;
    unsigned entry;
} watch;

static bool is_over(neap_progress *self)
{
    watch *w = (watch *)self; /* base is its first member */
    return atomic_load(&w->portfolio->winner) < w->entry ||
           neap_placement_cancelled(w->portfolio->problem);
}

neap_status neap_portfolio_init(neap_portfolio *f, const neap_placement_problem *problem,
                                const neap_sections *sections, neap_diag *diag)
{
    unsigned most = sections->n_lives > MANY_LIVES ? 1 : NEAP_PORTFOLIO_THREADS;
    memset(f, 0, sizeof *f);
    f->problem = problem;
    f->sections = sections;
    f->n_threads = neap_team_size(problem->threads, most);
    if (!neap_shared_allocator_init(&f->allocator, neap_allocator_or_system(problem->allocator)))
        return neap_fail_no_memory(diag);
    if (pthread_mutex_init(&f->lock, NULL) != 0) {
        neap_shared_allocator_clear(&f->allocator);
        return neap_fail_no_memory(diag);
    }
    f->has_locks = true;
    neap_status status = NEAP_NEW(&f->allocator.base, sections->n_items, &f->offsets, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(&f->allocator.base, sections->n_items, &f->weight, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(&f->allocator.base, sections->n_items, &f->weight_before, diag);
    for (unsigned i = 0; i < f->n_threads && status == NEAP_OK; i++)
        status = neap_offset_search_init(&f->searches[i], &f->allocator.base, sections, diag);
    return status;
}

void neap_portfolio_clear(neap_portfolio *f)
{
    if (!f->has_locks)
        return;
    for (unsigned i = 0; i < f->n_threads; i++)
        neap_offset_search_clear(&f->searches[i]);
    NEAP_DELETE(&f->allocator.base, f->sections->n_items, f->weight_before);
    NEAP_DELETE(&f->allocator.base, f->sections->n_items, f->weight);
    NEAP_DELETE(&f->allocator.base, f->sections->n_items, f->offsets);
    pthread_mutex_destroy(&f->lock);
    neap_shared_allocator_clear(&f->allocator);
    f->has_locks = false;
}

/* ---- One search ---- */

static neap_offset_search_way way_of(neap_portfolio *f, unsigned entry)
{
    neap_offset_search_way way = {.seed = f->seed, .most_failures = INT64_MAX};
    if (entry == NEAP_PORTFOLIO_LESSONS) {
        way.order = (neap_offset_search_order)(f->n_lessons++ % NEAP_OFFSET_SEARCH_ORDERS);
        way.weight = f->weight;
        way.most_failures = LESSON;
    } else {
        way.order = (neap_offset_search_order)(entry % NEAP_OFFSET_SEARCH_ORDERS);
        way.by_section = entry >= NEAP_OFFSET_SEARCH_ORDERS;
    }
    return way;
}

/* Notes that a search has decided; keeps where it has placed the items. */
static void note(neap_portfolio *f, unsigned entry, const neap_offset_search *search)
{
    pthread_mutex_lock(&f->lock);
    if (entry < atomic_load(&f->winner)) {
        atomic_store(&f->winner, entry);
        if (f->entries[entry].outcome == NEAP_PLACED)
            memcpy(f->offsets, search->bounds.top, f->sections->n_items * sizeof *f->offsets);
    }
    pthread_mutex_unlock(&f->lock);
}

/* A walk, or as many lessons as the work allows. */
static void run_entry(neap_portfolio *f, unsigned entry, neap_offset_search *search,
                      int64_t most_failures)
{
    neap_portfolio_entry *e = &f->entries[entry];
    watch w = {{.cancelled = is_over}, f, entry};
    neap_placement_problem problem = *f->problem;
    bool teaches = entry == NEAP_PORTFOLIO_LESSONS;
    int64_t most = teaches ? LESSON_SHARE * f->share : f->share;
    problem.progress = &w.base;
    e->work = 0;
    do {
        neap_offset_search_way way = way_of(f, entry);
        if (way.most_failures > most_failures)
            way.most_failures = most_failures;
        e->status = neap_offset_search_run(search, f->capacity, way, most - e->work, &problem,
                                           &e->outcome, &e->diag);
        e->work += search->bounds.work;
    } while (e->status == NEAP_OK && e->outcome == NEAP_SPENT && teaches && e->work < most &&
             !is_over(&w.base));
    if (e->status == NEAP_OK && e->outcome != NEAP_SPENT)
        note(f, entry, search);
}

/* The lessons take longest, so they begin first. */
static void take_entries(neap_job *self, neap_team *team, unsigned member)
{
    neap_portfolio *f = (neap_portfolio *)self; /* job is its first member */
    unsigned turn;
    (void)team;
    while ((turn = atomic_fetch_add(&f->next, 1)) < NEAP_PORTFOLIO_SIZE)
        run_entry(f, (turn + NEAP_PORTFOLIO_LESSONS) % NEAP_PORTFOLIO_SIZE, &f->searches[member],
                  INT64_MAX);
}

/* ---- Rounds ---- */

/* The result of the entries up to the winner, which have all been completed. */
static neap_status sum_up(neap_portfolio *f, unsigned n_entries, int64_t *work,
                          neap_offset_search_outcome *outcome, neap_diag *diag)
{
    unsigned winner = atomic_load(&f->winner);
    *outcome = winner < NEAP_PORTFOLIO_SIZE ? f->entries[winner].outcome : NEAP_SPENT;
    for (unsigned i = 0; i < n_entries && i <= winner; i++) {
        *work += f->entries[i].work;
        if (f->entries[i].status != NEAP_OK) {
            if (diag)
                *diag = f->entries[i].diag;
            return f->entries[i].status;
        }
    }
    return NEAP_OK;
}

/* One round on all threads. If a walk decides, the lessons are cut short, at a moment that depends
   on the threads: what they have taught is forgotten. */
static void do_round(neap_portfolio *f)
{
    size_t bytes = f->sections->n_items * sizeof *f->weight;
    uint64_t n_lessons = f->n_lessons;
    memcpy(f->weight_before, f->weight, bytes);
    atomic_store(&f->next, 0);
    neap_team_run(&f->job, f->n_threads);
    if (atomic_load(&f->winner) < NEAP_PORTFOLIO_LESSONS) {
        memcpy(f->weight, f->weight_before, bytes);
        f->n_lessons = n_lessons;
    }
}

neap_status neap_portfolio_try(neap_portfolio *f, int64_t capacity, int64_t *effort,
                               neap_offset_search_outcome *outcome, neap_diag *diag)
{
    int64_t most = *effort, n = (int64_t)f->sections->n_items;
    f->job.run = take_entries;
    f->capacity = capacity;
    f->seed = 0;
    f->share = most + 4 * n * n;
    *effort = 0;
    atomic_store(&f->winner, NEAP_PORTFOLIO_SIZE);
    /* Most plans are placed by the first walk, almost without failures. */
    run_entry(f, 0, &f->searches[0], n);
    neap_status status = sum_up(f, 1, effort, outcome, diag);
    f->share = most / (NEAP_PORTFOLIO_WALKS + LESSON_SHARE) / ((1 << ROUNDS) - 1);
    while (status == NEAP_OK && *outcome == NEAP_SPENT && *effort < most &&
           !neap_placement_cancelled(f->problem)) {
        do_round(f);
        status = sum_up(f, NEAP_PORTFOLIO_SIZE, effort, outcome, diag);
        f->share *= 2;
        f->seed = ++f->n_rounds;
    }
    return status;
}
