/*
 * The program of cut_program.h while it is built and read. For its own files only.
 */
#ifndef NEAP_PLANNERS_NEAP_CUT_PROGRAM_MODEL_H
#define NEAP_PLANNERS_NEAP_CUT_PROGRAM_MODEL_H

#include "lp/sparse_model.h"
#include "planners/neap/cut_program.h"

enum { FREE = -1, ALWAYS = -2 }; /* instead of a column: available at no cost; always resident */

/* Consecutive windows. */
typedef struct span {
    uint32_t begin, last;
} span;

/* Moving state that is read and updated in the same windows. */
typedef struct program_bundle {
    uint32_t state; /* one of them */
    int64_t bytes;
    double in_rate, out_rate; /* ticks a byte, of the fastest copy */
} program_bundle;

typedef struct cut_program {
    neap_arena arena;
    const problem *x;
    const cut_choices *choices;
    const bool *can_recompute;
    const int64_t *in, *out; /* by tensor: ticks of copies; NULL without a link */
    int64_t budget;
    bool relaxed;
    sparse_model lp;
    int bytes_shift, ticks_shift; /* coefficients are bytes * 2^bytes_shift: exact */
    uint32_t n_windows;
    const uint32_t *moments;
    int64_t tiny;  /* smaller tensors are kept at no cost */
    uint8_t *role; /* [window][task] */
    bool *is_over; /* [window][task]: it cannot run in the window, because of an update */
    bool *wanted;  /* [window][tensor] */
    size_t n_wanted;
    int32_t *resident; /* [window][tensor]: column, FREE, ALWAYS */
    uint32_t n_levels; /* spans of 1, 2, 4, ... windows that do not reach the end */
    uint32_t n_spans;
    span *spans;
    uint32_t *span; /* [first window][level]; the last level: all windows to the end */
    int32_t *again; /* [span][task]: column, FREE: it does not run again */
    uint32_t *stack;
    /* The variants of the tasks of the moments, by window. */
    uint32_t *fastest; /* the fastest one that fits */
    int32_t *leaner; /* the first column for those behind it, which follow; FREE: there are none */
    int32_t *forced; /* always 1: ticks of `fastest` beyond those of the first; FREE: none */
    /* With a link: columns or FREE. */
    int32_t *fetched;  /* [window][tensor]: it comes back in the window */
    int32_t *away;     /* [window][tensor]: it is on the host, and comes back unmade */
    int32_t *returned; /* [span][tensor]: it is away at the beginning, and comes back in the span */
    int32_t more;      /* ticks beyond all first runs, as a part of `most_more` */
    double most_more;
    /* With state that moves: columns, FREE or ALWAYS. */
    uint32_t n_bundles;
    program_bundle *bundles;
    uint32_t *bundle_of; /* by moving state */
    bool whole_states;   /* each is a bundle of its own, and its columns are integer */
    int32_t *home;       /* [bundle]: it is on the device when the step begins and ends */
    int32_t *here;       /* [window][bundle]: it is there when the task of the moment has run */
    int32_t *gone;       /* [window][bundle]: it has been copied to the host before that task */
    int32_t *arrives;    /* [1 + window][bundle]: fetched in the window, or before all of them */
} cut_program;

static inline uint8_t *program_roles(const cut_program *g, uint32_t w)
{
    return g->role + (size_t)w * g->x->n_tasks;
}

/* The tensor that the task of a moment may write over. */
static inline uint32_t program_over(const cut_program *g, uint32_t w)
{
    return cut_tensor_over(g->choices, g->x, g->moments[w]);
}

static inline size_t program_cell(const cut_program *g, uint32_t w, uint32_t tensor)
{
    return (size_t)w * g->x->n_tensors + tensor;
}

static inline int32_t *program_again(const cut_program *g, uint32_t i)
{
    return g->again + (size_t)i * g->x->n_tasks;
}

/* The smallest span that begins with a window and contains another. */
static inline uint32_t program_span(const cut_program *g, uint32_t begin, uint32_t last)
{
    const uint32_t *spans = g->span + (size_t)begin * (g->n_levels + 1);
    uint32_t level = 0;
    while (g->spans[spans[level]].last < last)
        level++;
    return spans[level];
}

/* The column for a tensor that is away at the beginning of a span and comes back in it. */
static inline int32_t program_returned(const cut_program *g, uint32_t i, uint32_t tensor)
{
    return g->returned ? g->returned[(size_t)i * g->x->n_tensors + tensor] : FREE;
}

static inline size_t program_bundle_cell(const cut_program *g, uint32_t w, uint32_t bundle)
{
    return (size_t)w * g->n_bundles + bundle;
}

/* For a task that has not run before window w: the first window by whose end it certainly has. */
uint32_t neap_program_last_window(const cut_program *g, uint32_t task, uint32_t w);

/* What may be resident beside what the task of a moment reads and makes, and its workspace. */
static inline int64_t program_room(const cut_program *g, uint32_t w)
{
    uint32_t task = g->moments[w], over = program_over(g, w);
    return g->budget - g->choices->fixed_bytes - g->x->made_bytes[task] - g->x->read_bytes[task] +
           (over == NEAP_NONE ? 0 : g->x->bytes[over]);
}

static inline uint32_t program_n_leaner(const cut_program *g, uint32_t w, uint32_t variant)
{
    return g->x->variant_start[g->moments[w] + 1] - variant - 1;
}

/* The variants of the tasks of the moments: their columns, after most_more is known; those in the
   row of a moment's memory (returns the workspace of the fastest); and in a row of times, those of
   windows begin to end - 1. */
bool neap_program_allocate_variants(cut_program *g);
void neap_program_add_variant_columns(cut_program *g);
int64_t neap_program_add_workspace(cut_program *g, uint32_t w);
void neap_program_subtract_variants(cut_program *g, uint32_t begin, uint32_t end);

/* With a link: its columns, after all others, and its rows. */
bool neap_program_allocate_link(cut_program *g);
void neap_program_add_link_columns(cut_program *g);
void neap_program_add_link_rows(cut_program *g);

/* With state that moves. Columns come after all others. */
bool neap_program_allocate_state(cut_program *g);
void neap_program_add_state_columns(cut_program *g);
void neap_program_add_state_rows(cut_program *g);
/* Adds state to the row of a moment's memory; returns the bytes of what must be there. */
int64_t neap_program_add_state_bytes(cut_program *g, uint32_t w);
/* More than all copies take. */
double neap_program_state_ticks(const cut_program *g);
/* These subtract copies from a row of times: those that end before the task of a moment starts,
   those that start after it has ended, or all of them. They return ticks to add to the row's side
   (scaled). */
double neap_program_state_before(cut_program *g, uint32_t w, bool in, bool out);
double neap_program_state_after(cut_program *g, uint32_t w, bool in, bool out);
double neap_program_state_in_all(cut_program *g, bool in, bool out);

/* By task: bytes by which the solution, read as a plan in the graph's order, exceeds the budget
   during the first run. */
neap_status neap_program_excess(cut_program *g, const double *values, int64_t *excess,
                                neap_diag *diag);

#endif
