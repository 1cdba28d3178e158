/*
 * Trimming a compute sequence: every recomputation that the budget does not need goes.
 *
 * Taking a recomputation away never makes a sequence wrong: the value then stays resident from the
 * run before. It only costs memory. Recomputations are tried from the slowest to the fastest, and
 * those that then nothing reads go along.
 */
#ifndef NEAP_PLANNERS_TRIM_H
#define NEAP_PLANNERS_TRIM_H

#include <neap/graph.h>

/*
 * Trims sequence[0 .. *length - 1] in place to a peak of at most `budget` bytes, each op with its
 * leanest workspace. A sequence that takes more to begin with loses only what nothing reads.
 */
neap_status neap_trim_sequence(neap_allocator *allocator, const neap_graph *graph, int64_t budget,
                               uint32_t *sequence, size_t *length, neap_diag *diag);

/* The peak of a compute sequence, each op with its leanest workspace. */
neap_status neap_sequence_peak(neap_allocator *allocator, const neap_graph *graph,
                               const uint32_t *sequence, size_t length, int64_t *peak,
                               neap_diag *diag);

#endif
