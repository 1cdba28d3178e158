/*
 * neap/batch.h - the largest batch that can be trained within a budget at a bounded cost.
 *
 *     static neap_status graph_of(void *context, int64_t batch, neap_graph **graph,
 *                                 neap_diag *diag);
 *
 *     neap_batch_request request;
 *     neap_batch_request_init(&request, graph_of, &context, "rotor");
 *     request.solve.budget = 16000000000;
 *     neap_batch_result result;
 *     if (neap_batch_search(NULL, &request, &result, &diag) == NEAP_OK && result.solution)
 *         ... result.batch, neap_solution_figures(result.solution) ...
 *     neap_batch_result_clear(&result);
 *
 * This is the problem of Jain et al., "Checkmate" (2020), section 6.4: a plan must fit the budget
 * and take at most one forward pass longer than running every op once (their eq. 10). They make the
 * batch a variable of the program, with sizes proportional to it, and estimate heuristics from
 * their peak at batch 1 (eq. 11). neap instead builds, solves and judges the graph of every batch
 * that it tries. (Their way is the method checkmate with the option goal=batch.)
 *
 * The search first tries the largest batch of store-all, then the largest batch at which no single
 * op needs more than the budget. (No plan can do better than that, and good methods often reach
 * it.) It then tries the batch extrapolated from the memory that was needed, or else the midpoint
 * between the largest batch that fits and the smallest one that does not.
 *
 * The answer b means: there is a judged plan at b, and none was found at b + 1. `proof` says how
 * certain the second part is. Sizes grow with the batch, so a plan for one batch works for every
 * smaller one, and a proof about all plans at b + 1 holds for every larger batch. A single method
 * may be less regular: it may fail at one batch and find a plan for a larger one. `beyond` makes
 * the search try further batches; INT64_MAX tries all that no proof excludes. So far this has not
 * changed the answer of any method (docs/max-batch.md).
 */
#ifndef NEAP_BATCH_H
#define NEAP_BATCH_H

#include <neap/solve.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Builds the graph for one batch, with times. The search destroys it. An error ends the search. */
typedef neap_status neap_batch_graph(void *context, int64_t batch, neap_graph **graph,
                                     neap_diag *diag);

typedef struct neap_batch_request {
    neap_batch_graph *graph_of;
    void *context;        /* of graph_of */
    neap_request solve;   /* how to plan each batch. Needs a budget. graph and target_time are
                             ignored; time_limit applies to one batch */
    double extra_forward; /* allowed time beyond one run of every op, in forward passes; default 1;
                             negative: no limit */
    int64_t least, most;  /* smallest and largest batch to consider; default 1 and 2^20 */
    double time_limit;    /* seconds for all batches together; 0: none */
    int64_t beyond;       /* also try this many batches past the first failure, unless a proof
                             rules them out for every method; default 0 */
} neap_batch_request;

NEAP_API void neap_batch_request_init(neap_batch_request *request, neap_batch_graph *graph_of,
                                      void *context, const char *method);

/* Whether a batch fits and, if not, why. */
typedef enum neap_batch_verdict {
    NEAP_BATCH_FITS = 0,
    NEAP_BATCH_NO_MEMORY, /* no plan within the budget */
    NEAP_BATCH_TOO_SLOW,  /* no plan within the budget is fast enough */
    NEAP_BATCH_STOPPED    /* timed out or cancelled before a plan was found */
} neap_batch_verdict;

/* "fits", "no_memory", "too_slow", "stopped". */
NEAP_API const char *neap_batch_verdict_name(neap_batch_verdict verdict);

/* For which methods it is proven that a batch does not fit. */
typedef enum neap_batch_proof {
    NEAP_BATCH_UNPROVEN = 0, /* none: the solve was stopped, or the batch was not tried */
    NEAP_BATCH_OF_METHOD,    /* this method: it finished without such a plan, or a bound on the time
                                of plans of its kind exceeds the limit (neap_figures.bound_scope) */
    NEAP_BATCH_OF_ALL        /* every method: one op alone needs more than the budget, or the bound
                                on the time of any plan exceeds the limit */
} neap_batch_proof;

/* "no", "method", "all". */
NEAP_API const char *neap_batch_proof_name(neap_batch_proof proof);

/* One batch that was tried. Figures that do not exist are negative. */
typedef struct neap_batch_trial {
    int64_t batch;
    neap_batch_verdict verdict;
    neap_batch_proof proof; /* that the batch does not fit */
    bool solved;            /* false: ruled out by the floor alone */
    neap_outcome outcome;   /* of the solve */
    int64_t peak_bytes;     /* of the plan, if there is one, even if it is too slow */
    double time, overhead;
    double target_time;   /* the limit, in seconds; 0: none */
    int64_t least_budget; /* without a plan: the fewest bytes that the method needs */
    double seconds;       /* spent */
    double time_limit;    /* allowed; 0: none */
} neap_batch_trial;

typedef struct neap_batch_result {
    int64_t batch;           /* the largest that fits; 0: none */
    neap_solution *solution; /* its plan and figures, or NULL. Set it to NULL to keep them. */
    neap_batch_proof proof;  /* that batch + 1 (`least` if none fits) does not fit; unproven also if
                                `batch` is `most` */
    neap_batch_verdict next; /* why batch + 1 does not fit; NEAP_BATCH_STOPPED if not tried */
    int64_t store_all;       /* the largest batch of store-all within the same limits; 0: none */
    bool interrupted;        /* cancelled by the caller */
    uint32_t n_solved;       /* trials that were solved */
    double seconds;
    size_t n_trials, trial_capacity;
    neap_batch_trial *trials; /* in the order they were tried */
    neap_allocator *allocator;
} neap_batch_result;

/*
 * Searches for the largest batch. The time limit is divided among the remaining trials, as many as
 * bisection would take. Time that a trial does not use goes to later trials and, at the end, to a
 * second try of the batch above the answer if that one was stopped. At least one batch is tried.
 *
 * NEAP_INVALID if the range is empty or starts below 1, if there is no budget, or if neap_solve
 * refuses the request; NEAP_UNSUPPORTED if the method does not support such graphs. On failure the
 * result is empty. Clear it in any case.
 */
NEAP_API neap_status neap_batch_search(neap_allocator *allocator, const neap_batch_request *request,
                                       neap_batch_result *result, neap_diag *diag);
NEAP_API void neap_batch_result_clear(neap_batch_result *result);

/*
 * Rescales a graph made for a batch of `from` to a batch of `to`, for graphs of which only the file
 * is known. Values of kind "parameter", gradients that are outputs of the graph, the storages of
 * both, and the fixed bytes keep their sizes. The bytes of all other values, workspaces, times,
 * FLOPs and bytes moved are multiplied by to / from; bytes and counts are rounded up. Values that
 * change lose their shape. NEAP_INVALID for a batch below 1 or a size past 2^63.
 */
NEAP_API neap_status neap_batch_scale(neap_allocator *allocator, const neap_graph *graph,
                                      int64_t from, int64_t to, neap_graph **scaled,
                                      neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
