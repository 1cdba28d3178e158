/*
 * What plans may do, as far as it does not depend on the moment: for bounds (docs/bounds.md).
 *
 * Plans of other methods may do more than those of `neap`: drop what lies under a view with a cost,
 * and write over it; offload what an op makes together with a view of it. Bounds hold for them too.
 */
#ifndef NEAP_PLANNERS_NEAP_CUT_CHOICES_H
#define NEAP_PLANNERS_NEAP_CUT_CHOICES_H

#include "planners/neap/moving_state.h"

typedef struct cut_choices {
    bool has_link, duplex;
    int64_t fixed_bytes; /* always in memory */
    /* by tensor */
    bool *can_recompute; /* some plan may drop it and make it again */
    int64_t *in, *out; /* ticks of its copy from the host, and to it; -1: it may not be offloaded */
    /* by task */
    uint32_t *over; /* the storage that it may write over; NEAP_NONE: none */
    moving_state moving;
} cut_choices;

/*
 * An inequality that bounds the time with a link: what happens before the task, the task, and what
 * happens after it. Before and after, it counts computation, copies in, copies out, or all copies,
 * where one engine makes them. The first inequality is that of all computation.
 */
typedef enum busy { COMPUTING = 0, COPYING_IN, COPYING_OUT, COPYING } busy;

typedef struct time_row {
    busy before, after;
} time_row;

static inline bool busy_with_in(busy what)
{
    return what == COPYING_IN || what == COPYING;
}

static inline bool busy_with_out(busy what)
{
    return what == COPYING_OUT || what == COPYING;
}

/* Everything is in the arena; false: out of memory. */
bool neap_cut_choices_init(cut_choices *c, neap_arena *arena, const problem *x,
                           const neap_link *link);

/* The inequalities that can bind. */
const time_row *neap_cut_time_rows(const cut_choices *c, int *n);

/* The tensor that a task may write over, so that it is gone when the task has run; NEAP_NONE. */
static inline uint32_t cut_tensor_over(const cut_choices *c, const problem *x, uint32_t task)
{
    return c->over[task] == NEAP_NONE ? NEAP_NONE : x->tensor_of_value[c->over[task]];
}

#endif
