/*
 * Addresses for plans with copies, by moving copies in time.
 *
 * A method fetches a value as early as there is room for it, and frees one that leaves when the
 * room is needed: memory is full all the time, and then addresses leave gaps that are too small for
 * anything. Most of that is of no use, because the link, or the computations, are late anyway. So a
 * plan is changed before it gets addresses, by the order of its steps alone:
 *
 * 1. Lives become as short as the makespan permits (retime.c): values are fetched later and freed
 *    earlier, which then waits for the copy out. That takes no time, and nearly all plans can then
 *    be placed in their live peak.
 * 2. What still lies above the capacity goes below it, to where less is in its way, and what is in
 *    its way, or itself, has an even shorter life (retime_place.c). That may take time.
 * 3. Lives become as long again as the addresses permit (retime.c), so that a copy that is slower
 *    than predicted delays nothing.
 */
#ifndef NEAP_LAYOUT_RETIME_H
#define NEAP_LAYOUT_RETIME_H

#include "base/arena.h"

#include <neap/layout.h>

/* Whether a plan moves anything between host and device. */
bool neap_retime_applies(const neap_plan *plan);

/*
 * The plan, which moves values, with its steps in another order and addresses, as *placed. It takes
 * longer only if the arena exceeds the options' target otherwise, and then at most by the fraction
 * `most_loss`; if that is not enough, the arena exceeds the target.
 */
neap_status neap_retime_assign(neap_allocator *allocator, const neap_graph *graph,
                               const neap_link *link, const neap_plan *plan,
                               const neap_layout_options *options, double most_loss,
                               neap_plan **placed, neap_diag *diag);

/* ---- What the files of this part share ---- */

/* A storage from the step of its birth to that of its death, or the workspace of a computation. */
typedef struct neap_life {
    int64_t size, offset;  /* size: rounded up to the alignment */
    uint32_t birth, death; /* steps; death NEAP_NONE: it lives to the end */
    uint32_t use, touch; /* the first step after its birth that needs it, or NEAP_NONE; the last */
    uint32_t weight;     /* how often another one took its place */
    bool is_workspace, placed;
    bool from_start; /* an input: born before the first step */
} neap_life;

/* The state of the timeline just before a step. */
typedef struct neap_moment {
    int64_t clock, engine[2], makespan; /* engine: from when it is free */
} neap_moment;

/* A place for a life. */
typedef struct neap_spot {
    int64_t offset;
    double cost; /* ticks in conflict; with lives that cannot be kept apart, more */
} neap_spot;

/* A plan in another order. Steps keep their first numbers. */
typedef struct neap_retimer {
    const neap_graph *graph;
    const neap_link *link;
    const neap_plan *plan;
    const neap_layout_options *options;
    const neap_step *steps;
    uint32_t n_steps;
    int64_t *ticks;          /* per step: how long it takes */
    uint32_t *order, *at;    /* steps by position; per step: its position */
    uint32_t *before;        /* per free: the one before it on the same life, or NEAP_NONE */
    int64_t *begin, *end_of; /* per step: a copy may wait for the engine in between */
    neap_moment *moments;    /* by position, and one more */
    uint32_t valid;          /* the first position whose moment may be out of date */
    uint32_t *first_copy;    /* per step, and one more: into copies */
    uint32_t *copies;        /* the copies that it waits for */
    neap_life *lives;        /* the inputs first, then by birth in the plan */
    uint32_t n_lives, n_inputs;
    uint32_t *near;    /* lives that meet another one in time: scratch */
    uint32_t *queue;   /* lives to be placed: scratch */
    neap_spot *spots;  /* scratch */
    uint32_t *marked;  /* an order to go back to, */
    uint32_t changed;  /* and the first position that differs from it */
    uint32_t *scratch; /* per step */
    int64_t base;      /* where the permanent inputs end */
    int64_t makespan;  /* of the order */
    int64_t work;      /* steps traced, for a limit on the effort */
    double end;        /* of neap_clock_seconds: the end of the time; 0: none */
    neap_arena arena;
    neap_allocator *allocator;
    neap_diag *diag;
} neap_retimer;

/* retime_lives.c: reads the plan. Clear it in any case. */
neap_status neap_retimer_init(neap_retimer *r, neap_allocator *allocator, const neap_graph *graph,
                              const neap_link *link, const neap_plan *plan,
                              const neap_layout_options *options, neap_diag *diag);
void neap_retimer_clear(neap_retimer *r);

/* The makespan of the present order, as the timeline has it (plan/timeline.c). */
int64_t neap_retimer_trace(neap_retimer *r);
/* Whether the time or the effort of one pass is spent. */
bool neap_retimer_spent(const neap_retimer *r);

/* The plan in the present order, without addresses. */
neap_status neap_retimer_write(neap_retimer *r, neap_plan **result);
/* The addresses of that plan become those of the lives, and the other way round. */
void neap_retimer_read_offsets(neap_retimer *r, const neap_plan *plan);
neap_status neap_retimer_write_offsets(neap_retimer *r, neap_plan *plan);

/* The positions from which it is live, and no longer. */
static inline uint32_t neap_life_begin(const neap_retimer *r, const neap_life *x)
{
    return x->from_start ? 0 : r->at[x->birth];
}

/* It stays where the layout puts it, below everything else. */
static inline bool neap_life_is_permanent(const neap_life *x)
{
    return x->from_start && x->death == NEAP_NONE;
}

static inline uint32_t neap_life_end(const neap_retimer *r, const neap_life *x)
{
    if (x->is_workspace)
        return r->at[x->birth] + 1;
    return x->death == NEAP_NONE ? r->n_steps : r->at[x->death];
}

static inline bool neap_life_is_fetched(const neap_retimer *r, const neap_life *x)
{
    return !x->from_start && r->steps[x->birth].kind == NEAP_PREFETCH && x->use != NEAP_NONE;
}

/* Moves a step to another position. */
void neap_retimer_put(neap_retimer *r, uint32_t from, uint32_t to);
/* All frees of x that come after a step go to just before it. */
void neap_retimer_free_before(neap_retimer *r, const neap_life *x, uint32_t step);
/* Remembers the order, and goes back to it. */
void neap_retimer_mark(neap_retimer *r);
void neap_retimer_undo(neap_retimer *r);
/* Takes another order. */
void neap_retimer_set_order(neap_retimer *r, const uint32_t *order);

/* retime_place.c: places all lives, whose offsets may lie above the capacity. False if it gives up.
 */
bool neap_retimer_place(neap_retimer *r);

#endif
