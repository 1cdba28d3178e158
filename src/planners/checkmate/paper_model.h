/*
 * Checkmate's program as Jain et al. 2020 print it, to compare with frontier_model.h's.
 *
 * Columns R, S, FREE and U; rows (1b), (1c), (2), (3), (4) with the elimination of section 4.8,
 * (7b), (7c); bounds (1f), (7a), U <= budget. Partitioned: (8a) to (8c), where what is zero gets no
 * column. Unpartitioned: (1d) and (1e). Kappa in (7c) is the most that num_hazards can be.
 * Frontiers and ops are numbered from 0 here.
 *
 * Fixed bytes and inputs are the constants of (2). For a graph of the paper's kind, whose ops make
 * one value each and lead to one last node v_n, the program is the printed one. Our graphs ask for
 * more, and get the least that says it in the paper's terms (paper_graph.h):
 *
 * - every op runs at least once: (1e) for each of them;
 * - outputs are resident at the end: S of a frontier behind the last is 1 for them;
 * - an op that makes several values has an S for each, and keeps FREE[t][k][k], which 4.8 leaves
 *   out because a better plan would not run k. For a value that nothing reads it is R[t][k];
 * - workspace is added to U while the op runs: U[t][k] + W[k] R[t][k] <= budget;
 * - a storage with views on it has its own S, at least that of each of its values, and its own
 *   FREE behind every op that touches it. Made again while one of its values is kept, it takes no
 *   second place: a column at least R - S stands for R in (3);
 * - of several variants one is chosen for all runs of the op, and R is the sum of runs by each.
 *
 * Otherwise U counts a value twice that is kept and made again, and a kept one that is not read in
 * a frontier to the frontier's end. Neither helps, so the best plans are those of frontier_model.h
 * and the judge. The relaxations differ, and by how much is what Appendix A is about
 * (bench/checkmate_appendix_a).
 *
 * The largest batch (section 6.4). The paper makes the batch B a variable, with B M[i] for M[i],
 * and adds (10); it calls the result quadratic and hard to solve. But all of the memory that is not
 * constant is proportional to B. Divided by B, U <= budget says that the bytes of one image are at
 * most the room beside the constants over B: the largest B is the room over the least peak of one
 * image, rounded down, as in (11), and that peak is linear. With `by_batch` the program minimises
 * it, a column P with U <= P, within the ticks of (10).
 */
#ifndef NEAP_PLANNERS_PAPER_MODEL_H
#define NEAP_PLANNERS_PAPER_MODEL_H

#include "lp/sparse_model.h"
#include "planners/checkmate/paper_graph.h"

/* In the place of a column. */
#define PAPER_ZERO (-1)

typedef struct paper_options {
    bool partitioned;
    int64_t budget;     /* bytes; with `by_batch` ignored */
    bool by_batch;      /* minimise the bytes that grow with the batch ... */
    int64_t most_ticks; /* ... in plans that take no longer than this */
} paper_options;

typedef struct paper_model {
    neap_arena arena;
    const neap_graph *graph;
    bool partitioned;
    uint32_t n, n_values; /* ops, which is also the number of frontiers; values */
    sparse_model lp;
    int32_t *R;         /* n x n, by frontier: a column or PAPER_ZERO */
    int32_t *S;         /* n x n_values, likewise */
    double ticks_scale; /* the objective counts thousandths of every op's time once */
    double bytes_scale; /* with `by_batch` the objective is the peak in bytes, times this */
    paper_graph nodes;

    /* The variants worth having: of op k variants[variant_start[k] ...]. */
    uint32_t *variant_start, *variants;
    int32_t *chosen; /* parallel: the column "this one", or PAPER_ZERO where there is one only */
} paper_model;

/* Columns by an upper bound: to refuse before building. */
uint64_t neap_paper_model_columns(const neap_graph *graph, bool partitioned);

/* Builds the program. neap_paper_model_clear is needed after a failure too. */
neap_status neap_paper_model_build(paper_model *m, neap_allocator *allocator,
                                   const neap_graph *graph, const paper_options *options,
                                   neap_diag *diag);
void neap_paper_model_clear(paper_model *m);

/* The compute sequence of a solution, a row-major scan of R (Algorithm 1), and its time. `sequence`
   may be NULL; else it has room for as many entries as the call without it returned. */
size_t neap_paper_model_sequence(const paper_model *m, const double *values, uint32_t *sequence,
                                 int64_t *ticks);

/* The variant that the solution chooses for an op. */
uint32_t neap_paper_model_variant(const paper_model *m, const double *values, uint32_t op);

#endif
