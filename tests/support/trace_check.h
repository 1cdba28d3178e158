/*
 * trace_check.h - a strict reader of the JSON trace event format, for what neap writes.
 *
 * It knows the phases M, X, C, s and f, and fails the test for an event without the fields that its
 * phase needs or with others, for events that are not sorted, slices that overlap without one being
 * inside the other, arrows that do not lead from a slice to a later one, tracks without a name,
 * counters that are not numbers, and names that neap_string_clean would change.
 */
#ifndef NEAP_TESTS_TRACE_CHECK_H
#define NEAP_TESTS_TRACE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct trace_slice {
    int64_t thread;
    double begin, duration; /* microseconds */
    char *name, *category;
    bool recomputation;
} trace_slice;

typedef struct trace_facts {
    trace_slice *slices; /* in the order of the file */
    size_t n_slices, n_counters, n_flows;
    double most_live;    /* of the counter of live memory */
    double arena;        /* of the counter of the arena; -1: none */
    char times[16];      /* "planned" or "measured" */
    size_t longest_name; /* bytes */
} trace_facts;

void trace_check(const char *text, trace_facts *facts);
void trace_facts_clear(trace_facts *facts);
/* The slices of a thread. */
size_t trace_count(const trace_facts *facts, int64_t thread);

#endif
