/*
 * Simulated annealing of a compute sequence: the order of all runs, recomputations and variants.
 *
 * One step (anneal_steps.h) moves a run, first runs included, adds a recomputation, removes one, or
 * changes a variant. Bytes above the budget are allowed at a price that rises; a step that makes
 * time plus price worse is accepted with a probability that falls. In graphs without regular
 * structure, where the order decides as much as what is recomputed, that is far better than ruin
 * and recreate (search.h), which repairs a schedule as a whole: a step takes a microsecond.
 *
 * Nothing is offloaded.
 */
#ifndef NEAP_PLANNERS_NEAP_ANNEAL_H
#define NEAP_PLANNERS_NEAP_ANNEAL_H

#include "planners/neap/anneal_steps.h"
#include "planners/neap/search.h"

typedef struct anneal {
    flat_sequence q;
    anneal_steps steps;
    double mean_ticks;         /* of a task */
    double unit_price;         /* ticks that a byte costs at one place */
    double temperature, price; /* in ticks; ticks for a byte above the budget at one place */
    uint64_t n_steps;          /* so far */
    search_plan best;          /* the fastest within the budget */
} anneal;

/* Which sequences of steps are annealed, and until when. */
typedef struct anneal_cycle {
    const compute_list *from;    /* NULL: every task once, in the graph's order */
    double heat;                 /* of the start: 1 forgets where it starts, 0.1 hardly does */
    uint64_t steps;              /* of the cycle, if `end` is 0 */
    double end;                  /* the clock when the cycle ends; 0: no matter */
    bool (*stop)(void *context); /* polled often */
    void *context;
} anneal_cycle;

/* Clear also after a failure. budget: all bytes. */
neap_status neap_anneal_init(anneal *a, neap_allocator *allocator, const problem *x, int64_t budget,
                             uint64_t seed, neap_diag *diag);
void neap_anneal_clear(anneal *a);

/* Runs a cycle, from hot to cold. `best` is the fastest schedule within the budget, if there was
   one; otherwise the last one, which may be a little above. */
neap_status neap_anneal_run(anneal *a, const anneal_cycle *cycle, neap_diag *diag);

/* Cycles side by side, which differ in their random numbers only. */
typedef struct anneal_team {
    neap_allocator *allocator; /* safe for all threads */
    const problem *x;
    int64_t budget; /* all bytes */
    uint64_t seed;
    unsigned cycles, threads; /* the cycles with an end should have a thread each */
    anneal_cycle cycle;
} anneal_team;

/* The best of the cycles: the fastest schedule within the budget or, if there is none, that with
   the least peak. *best owns its list. */
neap_status neap_anneal_best_of(const anneal_team *team, search_plan *best, neap_diag *diag);

#endif
