/*
 * The least time of tiny graphs, over all plans of docs/memory-model.md: any number of
 * recomputations, ops in any order that their inputs and updates allow, in place or not, any frees
 * and, with a link, any transfers. An exhaustive search that shares nothing with the methods of
 * neap: those are tested against it.
 *
 * For graphs of up to MOST_TIMED_OPS ops that make up to MOST_TIMED_VALUES values (with state that
 * moves, of both together); a test that asks about a larger one fails.
 */
#ifndef NEAP_TESTS_LEAST_TIME_H
#define NEAP_TESTS_LEAST_TIME_H

#include <neap/plan.h>

enum { MOST_TIMED_OPS = 8, MOST_TIMED_VALUES = 16, MOST_TIMED_VARIANTS = 4 };

typedef struct least_time_options {
    neap_link link;       /* all zero: no transfers. Its host_memory is kept to */
    bool fixed_order;     /* first runs in the graph's order, but updates anywhere */
    bool mixed_variants;  /* each run of an op by any variant; else all of them by the same */
    bool out_of_place;    /* no run in place, whatever the graph says */
    bool state_moves;     /* with a link: state may be on the host; the link's host_memory is 0 */
    bool state_on_host;   /* with state_moves: all of it is, at the start and at the end */
    bool want_plan;       /* and not the time alone */
    bool every_place;     /* no rule about where transfers stand: slower, to test those rules */
    bool equals_only;     /* no state is left out but for an equal one: likewise */
    uint32_t most_states; /* it gives up past these; 0: two million */
} least_time_options;

typedef struct least_time_answer {
    bool found;
    bool gave_up;    /* then nothing is known */
    int64_t ticks;   /* the makespan; -1 where none was found */
    uint32_t states; /* that were kept: what the search cost */
    neap_plan *plan; /* the caller's; NULL unless wanted and found */
} least_time_answer;

/* options may be NULL: all zero. */
least_time_answer least_time_search(const neap_graph *graph, int64_t budget,
                                    const least_time_options *options);

#endif
