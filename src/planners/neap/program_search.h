/*
 * Which programs over several moments (cut_program.h) are solved, one after the other.
 *
 * A search begins with one moment. The solution of a program holds too much between its moments:
 * where it exceeds the budget most, there are the moments that are added. Linear relaxations come
 * first: they are fast, so many moments can be tried. Integer programs follow: the first has the
 * fewest moments whose relaxation proves nearly as much as the best one, then one is added each
 * time.
 *
 * In any order, the moments are tasks of one chain of ancestors and descendants: the heaviest one
 * through the first moment. In the graph's order updates may run anywhere, so that only the first
 * moment may be one.
 */
#ifndef NEAP_PLANNERS_NEAP_PROGRAM_SEARCH_H
#define NEAP_PLANNERS_NEAP_PROGRAM_SEARCH_H

#include "planners/neap/cut_program.h"

enum { MOST_MOMENTS = 40 };

typedef struct program_search {
    const problem *x;
    cut_scope scope;
    int64_t budget;
    const cut_choices *choices;
    const int64_t *natural; /* by task: bytes in the natural order */
    uint32_t moments[MOST_MOMENTS], n_moments;
    uint32_t few[MOST_MOMENTS], n_few; /* few moments that prove nearly as much as many */
    int64_t few_ticks;                 /* what their relaxation proves */
    bool *allowed;                     /* by task: it may be a moment */
    int64_t *excess;                   /* by task: in the last solution */
    uint8_t *fates;                    /* by tensor: in the last solution */
    double *weight;                    /* by task: scratch */
    uint32_t *next;                    /* likewise */
    uint8_t *role;                     /* likewise */
    int64_t best_ticks;                /* of the linear relaxations */
    uint32_t n_in_vain;                /* relaxations since that */
    uint64_t effort;                   /* of one program */
    bool relaxed, started, done;
} program_search;

/* Everything is in the arena; false: out of memory. */
bool neap_program_search_init(program_search *p, neap_arena *arena, const problem *x,
                              cut_scope scope, int64_t budget, const cut_choices *choices,
                              const int64_t *natural);

/*
 * Solves the next program, if there is one (`done` otherwise). first: the first moment.
 * seconds: that are left; 0: no limit.
 */
neap_status neap_program_search_step(program_search *p, neap_allocator *allocator, uint32_t first,
                                     double seconds, const cut_watch *watch, program_answer *answer,
                                     neap_diag *diag);

#endif
