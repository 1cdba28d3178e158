/*
 * Ruin and recreate on a compute sequence: one stream of the search, on its own thread.
 *
 * Repair (repair.c): while an item is overfull, a tensor that it does not use is dropped: its task
 * runs again before the next use, together with what that needs. Prune (prune.c): removes runs that
 * the budget does not require, slow ones first. An iteration ruins a part of the schedule, repairs
 * and prunes, and continues from the result if it is not much worse (search.c).
 */
#ifndef NEAP_PLANNERS_NEAP_SEARCH_H
#define NEAP_PLANNERS_NEAP_SEARCH_H

#include "planners/common/ranked.h"
#include "planners/neap/bound.h"
#include "planners/neap/sequence.h"

enum { MOST_SAMPLES = 32 };

/* An item that uses more than the budget. */
typedef struct overfull {
    uint32_t item, place;
    int64_t bytes; /* above the budget */
} overfull;

/* Ways to relieve an overfull item. */
typedef enum drop_kind {
    DROP_REMAKE = 0, /* the tensor is recomputed before its use */
    DROP_AWAY,       /* it is on the host until its use */
    DROP_OVER,       /* the same, and the run before the gap writes over it */
    DROP_HOST,       /* state is on the host at the start and at the end */
    DROP_MOVE,       /* a run moves before `use` */
    DROP_LEAN        /* a task switches to its next leaner variant */
} drop_kind;

typedef struct drop {
    drop_kind kind;
    uint32_t tensor, use; /* the item after the gap; or the one before which the run moves */
    uint32_t moved;       /* item; or the task of a variant */
    double noise;         /* factor of the score */
    double extra;         /* ticks that it counts for in addition to those of the compute stream */
    double score;         /* overflow removed per tick: an estimate until it has been tried */
    bool tried;
} drop;

/* Which overfull items a repair considers. */
typedef enum search_focus { FOCUS_ALL = 0, FOCUS_WORST, FOCUS_FIRST, FOCUS_LAST } search_focus;

/* A saved schedule. */
typedef struct search_plan {
    bool found;
    int64_t ticks; /* the makespan */
    int64_t peak;  /* all bytes */
    compute_list list;
} search_plan;

typedef struct search {
    neap_allocator *allocator;
    const problem *x;
    const neap_link *link; /* NULL: nothing goes to the host */
    transfer_scratch *scratch;
    bool (*stop)(void *context); /* polled often */
    void *stop_context;
    sequence q;
    bool in_order; /* first runs keep the graph's order; between two of them each task runs again at
                      most once, also in that order */
    int64_t budget; /* for tensors and workspaces only */
    uint64_t random;
    /* parameters of an iteration */
    double noise; /* of scores: 0 is none */
    uint64_t noise_seed;
    bool fresh_noise;  /* new noise each time, not one value per tensor */
    bool moving;       /* runs may move */
    double move_cost;  /* ticks that a move counts for */
    bool sending;      /* tensors may be offloaded */
    double send_price; /* compute ticks that a tick of a copy counts for */
    search_focus focus;
    bool partial_prune; /* prune considers only a part of a long sequence */
    int64_t most_ticks; /* a repair that takes longer is given up */
    /* candidates and scratch */
    uint32_t *droppable, n_droppable; /* tensors, largest first */
    uint32_t n_large;                 /* of these, all but the smallest 0.1% of the bytes */
    uint32_t *flexible, n_flexible;   /* tasks with several variants */
    overfull *all;                    /* sorted by place */
    uint32_t n_overfull;
    size_t all_capacity;
    overfull samples[MOST_SAMPLES]; /* of these */
    uint32_t n_samples;
    drop *drops;
    uint32_t n_drops;
    size_t drop_capacity;
    ranked *ranks;
    size_t rank_capacity;
    neap_columns item_columns;
    uint32_t *place_of; /* by item: its position in the list */
    int64_t *room;      /* by position */
    uint8_t *fates;     /* of a start from a cut, by tensor */
    uint32_t moment;    /* of that cut: an item */
    search_plan trial;  /* the current schedule as a list */
    int64_t current_ticks;
    search_plan best;
    bool until_fits; /* iterations end as soon as a schedule fits */
    bool restarts;   /* if there is no improvement for long */
    uint64_t n_restarts;
    uint64_t attempts;          /* to fit a level */
    int64_t local_ticks;        /* the best since the last restart */
    uint64_t iterations;        /* so far */
    uint64_t improved, renewed; /* the iteration of the last `best`, and `local_ticks` */
} search;

/* Clear also after a failure. budget: all bytes. */
neap_status neap_search_init(search *s, neap_allocator *allocator, const problem *x, int64_t budget,
                             const neap_link *link, uint64_t seed, neap_diag *diag);
/* Sets the function that tells whether to stop. Without one the search does not stop early. */
void neap_search_set_stop(search *s, bool (*stop)(void *context), void *context);
void neap_search_clear(search *s);

/* Makes the current sequence fit by repair and prune. If that fails, the schedule with the least
   peak found is saved in `best`. */
neap_status neap_search_construct(search *s, neap_diag *diag);
/* Runs this many iterations, or fewer if it is stopped. */
neap_status neap_search_iterate(search *s, uint32_t iterations, neap_diag *diag);

/* Two cuts just before a task's first run: one fits, `loose` keeps too much (bound_figures). */
typedef struct search_cut {
    uint32_t position;
    uint8_t *fates, *loose;
} search_cut;

/* How to mix them: in each of the parts, the loose cut for tensors that are made early, or late. */
typedef struct search_mixture {
    uint32_t parts;
    bool early;
} search_mixture;

/* Loads the schedule that the cuts suggest; neap_search_construct makes it fit. */
neap_status neap_search_start_from_cut(search *s, const search_cut *cut,
                                       const search_mixture *mixture, neap_diag *diag);
/* Continues from a schedule. */
neap_status neap_search_start_from(search *s, const search_plan *plan, neap_diag *diag);
/* Saves the current sequence in `best` if it is the fastest within the budget or, as long as none
   is, has the least peak. */
neap_status neap_search_keep(search *s, neap_diag *diag);

neap_status neap_search_plan_copy(neap_allocator *allocator, const problem *x, search_plan *to,
                                  const search_plan *from, neap_diag *diag);

/* ---- Parts of the search ---- */

/* Computes the makespan of the sequence, with copies to the host scheduled (evaluate.c), into
   s->trial. */
neap_status neap_search_evaluate(search *s, neap_diag *diag);

/* False: it is stuck, out of memory or exceeds most_ticks. */
bool neap_search_repair(search *s);
/* Removes runs that are not needed. */
void neap_search_prune(search *s);
/* Whether a run may move to just before an item; moves it there and returns its new id. */
bool neap_search_can_move(const search *s, uint32_t id, uint32_t before);
uint32_t neap_search_move(search *s, uint32_t id, uint32_t before);
/* Adds a run before an item. Updates that it must precede move behind it; NEAP_NONE: they cannot,
   or out of memory. */
uint32_t neap_search_insert(search *s, uint32_t task, uint32_t before);
/* Moves updates to their earliest places, where that fits. */
void neap_search_advance_updates(search *s);
uint32_t neap_search_random_item(search *s);
/* State that is on the host is on the device at the start and at the end, if that may be; whether
   it is. Half: it is still away until its first use. */
bool neap_search_bring_state(search *s, uint32_t state, bool half);
/* If the sequence is far above the budget, puts state on the host that is used only once. */
void neap_search_send_states(search *s);
/* Moves some runs around an item. */
void neap_search_shuffle(search *s, uint32_t center);
/* Loads every task once, in a random order. */
neap_status neap_search_load_random(search *s, neap_diag *diag);
/* Brings tensors back in the gaps in which they fit. */
void neap_search_bring_back(search *s);

#endif
