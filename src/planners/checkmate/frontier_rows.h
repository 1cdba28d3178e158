/*
 * The fewest computations for given checkpoints: "the optimal R for a given S".
 *
 * Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization" (2020),
 * Algorithm 2, second phase. Frontier t runs op t for the first time. Row t of S says what is
 * resident when the frontier begins; row t of R, the ops that the frontier runs, is then the least
 * set that holds op t and is closed: every value that one of its ops reads, or that must be
 * resident when the frontier ends, is there or is made by an op of the set. A value has one maker,
 * so this set is unique, and one search backwards from op t and the wanted values finds it.
 *
 * Rows are made one at a time and appended to a compute sequence, which neap_planner_use_sequence
 * turns into a plan; no matrix is kept. A row costs time in what it looks at: the reads of the ops
 * it runs and the values wanted, and the sort of those ops.
 *
 * Residence is of values, not ops: an op may make several, and a view is a value of its own (that
 * its storage is live does not make it resident). An op that runs makes all its outputs, those too
 * that were resident.
 */
#ifndef NEAP_PLANNERS_FRONTIER_ROWS_H
#define NEAP_PLANNERS_FRONTIER_ROWS_H

#include <neap/graph.h>

/* Whether a value is resident when the frontier begins. Not asked of inputs: they always are. */
typedef bool frontier_residence(const void *context, uint32_t value);

/* One frontier: a row of S, and what the next row takes over. */
typedef struct frontier_row {
    uint32_t op; /* t: it runs in any case; the others of the row come before it */
    frontier_residence *is_resident;
    const void *context;    /* handed to is_resident */
    const uint32_t *wanted; /* n_wanted values, made by ops up to t, that must be resident when
                               the frontier ends; those that its own ops read or make need not
                               stand here, and one may stand twice */
    size_t n_wanted;
} frontier_row;

typedef struct frontier_rows {
    uint32_t *sequence; /* all rows so far; each in ascending order, an op once */
    size_t length;
    size_t last_row; /* where the last row begins: sequence[last_row .. length - 1] */
    /* Its own. */
    neap_allocator *allocator;
    const neap_graph *graph;
    size_t capacity;
    uint64_t epoch;  /* of the current row, so that marks need no clearing */
    uint64_t *marks; /* per op: the last row that ran it */
} frontier_rows;

neap_status neap_frontier_rows_init(frontier_rows *rows, neap_allocator *allocator,
                                    const neap_graph *graph, neap_diag *diag);
/* Fine after a failed init, and twice. */
void neap_frontier_rows_clear(frontier_rows *rows);
/* Begins a new, empty sequence in the same memory. */
void neap_frontier_rows_restart(frontier_rows *rows);
/*
 * Appends a row. NEAP_INVALID for a wanted value that only a later op than t makes; then, and when
 * memory runs out, the sequence is as before.
 */
neap_status neap_frontier_rows_append(frontier_rows *rows, const frontier_row *row,
                                      neap_diag *diag);

/* A frontier_residence for rows given as arrays: `context` is a bool per value. */
bool neap_frontier_residence_of_bools(const void *context, uint32_t value);

#endif
