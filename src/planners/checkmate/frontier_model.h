/*
 * Checkmate's problem (Jain et al. 2020, eq. 9) as a program that an open solver can solve.
 *
 * Time is cut into frontiers, which the paper calls stages; here a stage is a piece of a chain. In
 * a frontier each op runs at most once, in the graph's order; R[t][k] says whether op k runs in
 * frontier t. Partitioned, frontier t ends with the first run of op t (section 4.6); unpartitioned,
 * there are as many frontiers as ops and every op runs in some of them.
 *
 * The paper follows memory with S (kept from frontier to frontier), FREE (freed behind a reader)
 * and U (bytes in use). Here the same schedules are written with *gaps*. The runs that could touch
 * a value in time order - its own op's, which makes it, and its readers' - are its refs. Between
 * two refs that follow each other the value is either resident or not: one column. At a reader R <=
 * before and after <= before; at the maker after <= before + R and before + R <= 1 (a value that is
 * made again need not have been kept). S and FREE are differences of gaps, so nothing is lost, but
 * all rows are now short and their coefficients are 1, the products of (5) are gone without a big
 * constant, and the relaxation is tighter. A *slot* is a (frontier, op) where R may be 1; its
 * memory row adds up the gaps that cover it, what the op makes, and its workspace. There are n^2/2
 * of those rows and few matter, so they are added when they are violated
 * (neap_frontier_model_add_memory).
 *
 * What the graph tells beforehand:
 * - an op slower than what is left to the best known plan is never run again (`cutoff`);
 * - an op is not run again when nothing that could still run reads what it makes;
 * - a frontier that has room for everything that could be resident in it needs no memory rows, and
 *   nothing is dropped at a reader in it; in a run of such frontiers only the first recomputes, for
 *   what a later one makes can as well be made there and kept;
 * - what a certain reader needs, and can no longer be made again, is kept: a constant.
 * Each keeps at least one of the best plans.
 *
 * Real memory: several outputs are several values; a storage with views on it is resident while one
 * of its values is (a column at least each of them); workspace counts in the op's slot; of several
 * variants of an op one is chosen for all its runs.
 */
#ifndef NEAP_PLANNERS_FRONTIER_MODEL_H
#define NEAP_PLANNERS_FRONTIER_MODEL_H

#include "base/arena.h"
#include "lp/sparse_model.h"

#include <neap/graph.h>

typedef enum frontier_form { FRONTIER_PARTITIONED = 0, FRONTIER_UNPARTITIONED } frontier_form;

/* Columns, and the constants that may stand in their place. */
#define FRONTIER_ZERO (-1)
#define FRONTIER_ONE  (-2)

/* `bytes` are taken in the slots from .. to while the column is 1. */
typedef struct frontier_item {
    int32_t column;
    uint32_t from, to;
    int64_t bytes;
} frontier_item;

typedef struct frontier_model {
    neap_allocator *allocator;
    neap_arena arena; /* of the arrays, except `items` */
    const neap_graph *graph;
    frontier_form form;
    sparse_model lp;
    uint32_t n_ops, n_frontiers;
    int64_t room;                    /* of the budget, beyond inputs and fixed bytes */
    int64_t certain_ticks;           /* of every plan; the objective counts what comes on top */
    double ticks_scale, bytes_scale; /* objective and memory rows count thousandths */

    int32_t *run; /* n_frontiers x n_ops: R, a column or a constant */
    uint32_t n_slots;
    uint32_t *slot_op, *slot_frontier;
    uint32_t *slot_of; /* n_frontiers x n_ops: the slot; NEAP_NONE where R is zero */
    bool *has_row;     /* per slot: its memory row is in the program */
    int32_t *kept;     /* n_frontiers x values of the graph: S, resident when the frontier begins */

    frontier_item *items;
    size_t n_items, item_capacity;

    /* Of ops with several variants worth having: for op k, columns variant_run[...]. */
    uint32_t *variant_start; /* per op: into `variants`; [k + 1] is the end */
    uint32_t *variants;      /* the variants worth having */
    int32_t *variant_chosen; /* parallel to `variants`: this one is the op's */
    int32_t
        *variant_run; /* per slot, FRONTIER_ZERO or the first of the columns "runs by variant" */
} frontier_model;

typedef struct frontier_options {
    frontier_form form;
    int64_t budget;
    int64_t cutoff_ticks; /* only plans faster than this matter; INT64_MAX: all */
} frontier_options;

/* Whether another variant of the op is at least as good in time and workspace (of equals the first
   is the better): no plan needs it. */
bool neap_frontier_variant_is_dominated(const neap_op *op, uint32_t variant);

/* Columns and rows without those of memory, by an upper bound: to refuse before building. */
typedef struct frontier_size {
    uint64_t columns, rows;
} frontier_size;
frontier_size neap_frontier_model_size(const neap_graph *graph, frontier_form form);

/*
 * Builds the program without memory rows. The budget must be at least the base bytes.
 * neap_frontier_model_clear is needed after a failure too.
 */
neap_status neap_frontier_model_build(frontier_model *m, neap_allocator *allocator,
                                      const neap_graph *graph, const frontier_options *options,
                                      neap_diag *diag);
void neap_frontier_model_clear(frontier_model *m);

/*
 * Adds memory rows of slots that `values` fill beyond the room: the worst of each frontier. *added
 * tells how many; 0: none is violated by more than `tolerance` of the room.
 */
neap_status neap_frontier_model_add_memory(frontier_model *m, const double *values,
                                           double tolerance, size_t *added, neap_diag *diag);
/* Adds the rows of every slot that could be overfull within the columns' bounds, unless these
   have more than `most_entries` entries; *complete tells whether all are in. */
neap_status neap_frontier_model_add_all_memory(frontier_model *m, size_t most_entries,
                                               bool *complete, neap_diag *diag);

/*
 * For 0-1 values that satisfy the rows within a solver's tolerance but not exactly: adds a row that
 * excludes what overfills the first such slot (not all of it at once). *added false: none is
 * overfull.
 */
neap_status neap_frontier_model_add_cover(frontier_model *m, const double *values, bool *added,
                                          neap_diag *diag);

/* Adds the row that only objectives up to `most` satisfy. */
neap_status neap_frontier_model_add_cutoff(frontier_model *m, double most, neap_diag *diag);

/* The compute sequence of a solution (columns above one half are 1); `sequence` has room for
   n_frontiers x n_ops entries at most, neap_frontier_model_length tells how many. */
size_t neap_frontier_model_length(const frontier_model *m, const double *values);
void neap_frontier_model_sequence(const frontier_model *m, const double *values,
                                  uint32_t *sequence);

/*
 * The other way: the columns' values of a compute sequence by the given variants (NULL: each op's
 * fastest). False where the sequence is not one of this program (an order that the frontiers do not
 * have, a run that was ruled out): then `values` means nothing.
 */
bool neap_frontier_model_values(const frontier_model *m, const uint32_t *sequence, size_t length,
                                const uint32_t *variants, double *values);

/* Whether a row is violated by `values` by more than `tolerance`: for tests of the above. */
bool neap_frontier_model_satisfied(const frontier_model *m, const double *values, double tolerance);

/* The objective value of a plan that takes so many ticks. */
double neap_frontier_model_objective(const frontier_model *m, int64_t ticks);

#endif
