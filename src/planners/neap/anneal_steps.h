/*
 * The steps of annealing (anneal.h): single changes of a flat sequence that can be undone.
 *
 * A recomputation may take others with it: inputs that would have to be held for long are made
 * again just before it, and go with it when it is removed. One by one such runs would first cost
 * time or memory and only then save any.
 */
#ifndef NEAP_PLANNERS_NEAP_ANNEAL_STEPS_H
#define NEAP_PLANNERS_NEAP_ANNEAL_STEPS_H

#include "planners/neap/flat_sequence.h"

typedef struct anneal_steps {
    flat_sequence *q;
    uint64_t random;
    uint32_t *flexible, n_flexible; /* tasks with several variants */
    bool *repeatable;               /* by task: it may run again */
} anneal_steps;

typedef enum anneal_change_kind {
    ANNEAL_MOVE,
    ANNEAL_INSERT,
    ANNEAL_REMOVE,
    ANNEAL_VARIANT
} anneal_change_kind;

/* A change of one run and its inverse. */
typedef struct anneal_change {
    anneal_change_kind kind;
    uint32_t run, task; /* what it changes */
    uint32_t before;    /* the place of a run, or the variant of a task, before the change */
} anneal_change;

enum { ANNEAL_MOST_CHANGES = 24 };

typedef struct anneal_step {
    anneal_change changes[ANNEAL_MOST_CHANGES];
    uint32_t n; /* 0: nothing was changed */
} anneal_step;

/* Steps of a sequence; takes its arrays from the sequence's arena. */
neap_status neap_anneal_steps_init(anneal_steps *s, flat_sequence *q, uint64_t seed,
                                   neap_diag *diag);
/* Changes the sequence. */
void neap_anneal_step_take(anneal_steps *s, anneal_step *step);
void neap_anneal_step_undo(anneal_steps *s, const anneal_step *step);

#endif
