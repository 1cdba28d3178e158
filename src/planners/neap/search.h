/*
 * Ruin and recreate on a compute sequence: one stream of it, alone on its thread.
 *
 * Repair (repair.c): while an item is overfull, some tensor that only waits there is dropped: its
 * task runs again before the next use, together with what that needs. Prune (prune.c): runs that
 * the budget does not need go, slow ones first. An iteration ruins a part of the schedule, repairs
 * and prunes, and goes on from the result if it is not much worse (search.c).
 */
#ifndef NEAP_PLANNERS_NEAP_SEARCH_H
#define NEAP_PLANNERS_NEAP_SEARCH_H

#include "planners/common/ranked.h"
#include "planners/neap/bound.h"
#include "planners/neap/sequence.h"

enum { MOST_SAMPLES = 32 };

/* An overfull item; places ascend. */
typedef struct overfull {
    uint32_t item, place;
    int64_t bytes; /* too many */
} overfull;

/* Ways to relieve an overfull item. */
typedef enum drop_kind {
    DROP_REMAKE = 0, /* the tensor is made again before its use */
    DROP_AWAY,       /* it goes to the host until its use */
    DROP_MOVE,       /* a run moves before `use` */
    DROP_LEAN        /* a task takes its next leaner variant */
} drop_kind;

typedef struct drop {
    drop_kind kind;
    uint32_t tensor, use; /* the item behind the gap; or before which the moved one comes */
    uint32_t moved;       /* item; or the task of a variant */
    double noise;         /* noise */
    double score;         /* overflow removed for the time: an estimate until it has been tried */
    bool tried;
} drop;

/* Which overfull items a repair looks at. */
typedef enum search_focus { FOCUS_ALL = 0, FOCUS_WORST, FOCUS_FIRST, FOCUS_LAST } search_focus;

/* A schedule put by. */
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
    bool (*stop)(void *context); /* asked often */
    void *stop_context;
    sequence q;
    bool in_order; /* first runs keep the graph's order; between two of them each task runs again at
                      most once, in that order, too */
    int64_t budget; /* for tensors and workspaces alone */
    uint64_t random;
    /* of an iteration */
    double noise;        /* of scores: 0 is none */
    uint64_t noise_seed; /* which noise */
    bool fresh_noise;    /* new noise each time, not one a tensor */
    bool moving;         /* runs may change their places */
    double move_cost;    /* ticks that a move counts for */
    bool sending;        /* tensors may go to the host */
    double send_price;   /* ticks of the compute stream that a tick of a copy counts for */
    search_focus focus;
    bool partial_prune; /* prune looks at a part of a long sequence only */
    int64_t most_ticks; /* a repair that takes more is given up */
    /* candidates and scratch */
    uint32_t *droppable, n_droppable; /* tensors, largest first */
    uint32_t *flexible, n_flexible;   /* tasks that have variants */
    uint32_t n_large; /* of these, without the small ones that make up a thousandth of all bytes */
    overfull samples[MOST_SAMPLES];
    uint32_t n_samples;
    uint32_t n_overfull; /* all of them */
    overfull *all;
    size_t all_capacity;
    drop *drops;
    uint32_t n_drops;
    size_t drop_capacity;
    ranked *ranks; /* of prune */
    size_t rank_capacity;
    uint32_t *place_of; /* by item: its position in the list */
    size_t place_capacity;
    int64_t *room;
    size_t room_capacity;
    search_plan trial; /* the schedule at hand, as a list */
    int64_t current_ticks;
    search_plan best;
    bool restarts; /* begins anew when it does not get on */
    uint64_t n_restarts;
    uint64_t attempts;                      /* to fit a level */
    int64_t local_ticks;                    /* the best since then */
    uint64_t iterations, improved, renewed; /* the last two: when it last got on */
} search;

/* Clear also after a failure. budget: all bytes. */
neap_status neap_search_init(search *s, neap_allocator *allocator, const problem *x, int64_t budget,
                             const neap_link *link, uint64_t seed, neap_diag *diag);
/* Whom to ask whether to stop; before any of the rest. */
void neap_search_set_stop(search *s, bool (*stop)(void *context), void *context);
void neap_search_clear(search *s);

/* The first schedule, by repair and prune from what the sequence holds; where it cannot be made to
   fit, the least peak found, in `best`. */
neap_status neap_search_construct(search *s, neap_diag *diag);
/* So many iterations, or until told to stop. */
neap_status neap_search_iterate(search *s, uint32_t iterations, neap_diag *diag);

/* Two cuts just before a task's first run: one fits, one keeps too much (bound_figures). */
typedef struct search_cut {
    uint32_t position;
    uint8_t *fates, *loose;
} search_cut;

/* How to mix them: in each of so many parts the second one for what is made early, or late. */
typedef struct search_mixture {
    uint32_t parts;
    bool early;
} search_mixture;

/* Loads the schedule that the cuts suggest (follow.c); neap_search_construct makes it fit. */
neap_status neap_search_start_from_cut(search *s, const search_cut *cut,
                                       const search_mixture *mixture, neap_diag *diag);
/* Goes on from a schedule. */
neap_status neap_search_start_from(search *s, const search_plan *plan, neap_diag *diag);
/* Keeps what the sequence holds if it is the best within the budget or, before there is any, at
   all. */
neap_status neap_search_keep(search *s, neap_diag *diag);

neap_status neap_search_plan_copy(neap_allocator *allocator, const problem *x, search_plan *to,
                                  const search_plan *from, neap_diag *diag);

/* ---- Its parts ---- */

/* The makespan of what the sequence holds, with copies to the host scheduled (evaluate.c), into
   s->trial. */
neap_status neap_search_evaluate(search *s, neap_diag *diag);

/* False: it got stuck, ran out of memory or takes too long. */
bool neap_search_repair(search *s);
/* Takes out runs that are not needed, of the given items or (NULL) of all. */
void neap_search_prune(search *s);
/* Whether a run may stand just before an item instead; and puts it there: its new id. */
bool neap_search_can_move(const search *s, uint32_t id, uint32_t before);
uint32_t neap_search_move(search *s, uint32_t id, uint32_t before);
uint32_t neap_search_random_item(search *s);
/* Gives some runs around an item other places. */
void neap_search_shuffle(search *s, uint32_t center);
/* Loads each task once, in a random order. */
neap_status neap_search_load_random(search *s, neap_diag *diag);
/* Tensors that are away stay on the device where they fit. */
void neap_search_bring_back(search *s);

#endif
