/*
 * The least time in which a small training graph runs within a budget when activations may leave
 * for the host, by exhaustive search and by linear programming. It shares nothing with the methods
 * of neap that answer the same question: those are tested against it.
 *
 * Every op runs once, in the graph's order. What may be transferred, at most once out and once in,
 * are the values of kind "activation" that forward ops make. Four questions:
 *
 * - OFFLOAD_PLAN: over the plans of docs/memory-model.md, where memory is counted in the order of
 *   the list and nothing is freed or reserved while an op runs;
 * - OFFLOAD_CONTINUOUS: over the schedules of Problem 1 (Beaumont, Eyraud-Dubois and Shilova),
 *   where a copy to the host releases its memory when it ends and a copy from the host reserves it
 *   when it begins, also in the middle of an op. Every plan is such a schedule;
 * - offload_fractional_time: any part of a value may be away (section 4 of that paper);
 * - offload_interrupted_time: all of a value or nothing, but transfers may be interrupted, and
 *   memory is released and reserved byte by byte (section 5).
 *
 * Times are ticks of the graph for the first two, seconds for the last two.
 */
#ifndef NEAP_TESTS_OFFLOAD_ORACLE_H
#define NEAP_TESTS_OFFLOAD_ORACLE_H

#include <neap/plan.h>

enum { MOST_OFFLOAD_OPS = 40, MOST_MOVABLE = 12 };

/* A value that may be transferred: not empty, and with a link both ways. */
typedef struct movable {
    uint32_t value;
    int64_t bytes;
    uint32_t made, last; /* the op that makes it and the last that reads it */
    uint64_t readers;    /* bit k: op k reads it */
    int64_t out_ticks, in_ticks;
} movable;

typedef struct offload_problem {
    const neap_graph *graph;
    neap_link link;
    uint32_t n_ops, n_movable;
    movable movables[MOST_MOVABLE]; /* in the order they are made */
    int64_t ticks[MOST_OFFLOAD_OPS];
    int64_t rest[MOST_OFFLOAD_OPS];        /* bytes live while the op runs, but for the movables */
    int64_t all[MOST_OFFLOAD_OPS];         /* and with those that are made and still to be read */
    int64_t between[MOST_OFFLOAD_OPS + 1]; /* as rest, before the op and after the one before it */
} offload_problem;

/* The problem points to the graph. */
offload_problem offload_problem_of(const neap_graph *graph, const neap_link *link);

/* The peak if nothing is transferred, and the least budget that can do at all: the op that needs
 * most beside it, with all that it does not read away. */
int64_t offload_natural_peak(const offload_problem *problem);
int64_t offload_floor(const offload_problem *problem);

typedef enum offload_rules { OFFLOAD_PLAN = 0, OFFLOAD_CONTINUOUS } offload_rules;

typedef struct offload_search_options {
    offload_rules rules;
    bool every_list;     /* no rule about which lists suffice: slow, to test those rules */
    uint32_t most_nodes; /* 0: no limit */
} offload_search_options;

typedef struct offload_answer {
    bool found;
    bool gave_up; /* past most_nodes */
    int64_t ticks;
    uint32_t nodes;
} offload_answer;

/*
 * plan, if not NULL and the rules are OFFLOAD_PLAN, gets a plan that takes that time, or NULL if
 * there is none.
 */
offload_answer offload_search(const offload_problem *problem, int64_t budget,
                              const offload_search_options *options, neap_plan **plan);

/* Below 0: there is no schedule. For links without latency and with one copy at a time. */
double offload_fractional_time(const offload_problem *problem, int64_t budget);
double offload_interrupted_time(const offload_problem *problem, int64_t budget);

/*
 * The same as offload_interrupted_time among schedules where values leave in the order they are
 * made and come back in the reverse order, and all that ever leaves has left before anything
 * returns: those that the paper's dynamic program chooses from. Lemma 3 says that they suffice, but
 * its proof may have a value return before it has left, and so this time may be longer.
 *
 * With `overlap`, as in the paper's equation 10, a value begins to come back when its copy to the
 * host is done, even if it is not released yet because the next layer's forward op still reads it.
 * What came back by then was never released; and this time may be shorter.
 */
double offload_ordered_time(const offload_problem *problem, int64_t budget, bool overlap);

#endif
