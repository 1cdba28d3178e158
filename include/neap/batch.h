/*
 * neap/batch.h - the largest batch that trains within a budget, and at what cost.
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
 * The question of Jain et al., "Checkmate" (2020), section 6.4: a plan must fit the budget and take
 * at most one forward pass longer than every op once (their eq. 10). They let the batch be a
 * variable of the program, with sizes proportional to it, and estimate heuristics from their peak
 * at batch 1 (eq. 11). Here the graph of each batch that is tried is built, solved and judged.
 *
 * The search tries store-all's own largest batch, then the last of which no single op needs more
 * than the budget (no plan can do more, and good methods often reach it), then what the memory
 * needed there lets expect, and else the middle between the largest that fits and the least that
 * does not. What the answer b says: there is a judged plan at b, and none was found at b + 1;
 * `proof` says how sure the second half is.
 * A plan of a batch is one of every smaller batch too, for sizes grow with it, so what is proven of
 * all plans at b + 1 holds above. A method need not be that regular: it may fail at a batch and
 * have a plan for a larger one. `beyond` tries further batches, INT64_MAX all that no proof
 * excludes; no method of neap has yet given another answer by it (docs/max-batch.md).
 */
#ifndef NEAP_BATCH_H
#define NEAP_BATCH_H

#include <neap/solve.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Builds the graph of one batch, with times; the search destroys it. An error ends the search. */
typedef neap_status neap_batch_graph(void *context, int64_t batch, neap_graph **graph,
                                     neap_diag *diag);

typedef struct neap_batch_request {
    neap_batch_graph *graph_of;
    void *context;        /* of graph_of */
    neap_request solve;   /* how to plan each batch: its graph and target_time are ignored, its
                             time_limit is that of one batch, and it needs a budget */
    double extra_forward; /* how much longer than every op once, in forward passes; default 1.
                             Negative: no limit */
    int64_t least, most;  /* of the batch; default 1 and 2^20 */
    double time_limit;    /* seconds for all batches together; 0: none */
    int64_t beyond;       /* so many batches past the first that fails are tried too, as long as
                             they might work by some method; default 0 */
} neap_batch_request;

NEAP_API void neap_batch_request_init(neap_batch_request *request, neap_batch_graph *graph_of,
                                      void *context, const char *method);

/* Why a batch will not do. */
typedef enum neap_batch_verdict {
    NEAP_BATCH_FITS = 0,
    NEAP_BATCH_NO_MEMORY, /* no plan within the budget */
    NEAP_BATCH_TOO_SLOW,  /* none within the budget that is fast enough */
    NEAP_BATCH_STOPPED    /* time was up, or the caller cancelled, before there was one */
} neap_batch_verdict;

/* "fits", "no_memory", "too_slow", "stopped". */
NEAP_API const char *neap_batch_verdict_name(neap_batch_verdict verdict);

/* Of whom that is certain. */
typedef enum neap_batch_proof {
    NEAP_BATCH_UNPROVEN = 0, /* nobody: it was stopped, or not tried */
    NEAP_BATCH_OF_METHOD,    /* the method: it ended by itself and has no such plan, or there is a
                                bound on the time of plans of its kind (neap_figures.bound_scope) */
    NEAP_BATCH_OF_ALL        /* every method: one op alone needs more than the budget, or a bound on
                                the time of any plan (neap_figures.bound_time) exceeds the limit */
} neap_batch_proof;

/* "no", "method", "all". */
NEAP_API const char *neap_batch_proof_name(neap_batch_proof proof);

/* One batch that was tried. What does not exist is negative. */
typedef struct neap_batch_trial {
    int64_t batch;
    neap_batch_verdict verdict;
    neap_batch_proof proof; /* of a batch that does not fit */
    bool solved;            /* false: ruled out by neap_graph_floor_bytes alone */
    neap_outcome outcome;   /* of the solve */
    int64_t peak_bytes;     /* these of the plan, if there is one, slow or not */
    double time, overhead;
    double target_time;   /* the limit, in seconds; 0: none */
    int64_t least_budget; /* the least bytes the method can do; where there is no plan */
    double seconds;       /* that it took */
    double time_limit;    /* that it was given; 0: none */
} neap_batch_trial;

typedef struct neap_batch_result {
    int64_t batch;           /* the largest that fits; 0: none, not even the least */
    neap_solution *solution; /* its plan and figures; NULL: none. Put NULL here to keep it. */
    neap_batch_proof proof;  /* that batch + 1 (the least, where none fits) does not; unproven also
                                where `batch` is the most */
    neap_batch_verdict next; /* why not; NEAP_BATCH_STOPPED if it was not tried */
    int64_t store_all;       /* store-all's largest batch, within the same limits; 0: none */
    bool interrupted;        /* by the caller */
    uint32_t n_solved;       /* trials that were solved */
    double seconds;
    size_t n_trials, trial_capacity;
    neap_batch_trial *trials; /* in the order they were tried */
    neap_allocator *allocator;
} neap_batch_result;

/*
 * Searches. The time limit is divided among the trials still to come, as far as bisection tells
 * how many; what a trial leaves over goes to the next ones, and at the end to the batch above the
 * answer if that was stopped. At least one batch is tried.
 *
 * NEAP_INVALID for a range that is empty or begins below 1, a missing budget, or what neap_solve
 * refuses; NEAP_UNSUPPORTED where the method does not do such graphs. On failure the result is
 * empty. Clear it in any case.
 */
NEAP_API neap_status neap_batch_search(neap_allocator *allocator, const neap_batch_request *request,
                                       neap_batch_result *result, neap_diag *diag);
NEAP_API void neap_batch_result_clear(neap_batch_result *result);

/*
 * A graph made for a batch of `from`, as it would be for a batch of `to`, where nothing but its
 * file is known. Kept are parameters (values of that kind), gradients that are outputs of the
 * graph, the storages these lie on, and the fixed bytes; the bytes of all other values and
 * workspaces, times, FLOPs and bytes moved are multiplied by to / from, bytes and counts rounded
 * up. Values that change lose their shape. NEAP_INVALID for batches below 1 and sizes past 2^63.
 */
NEAP_API neap_status neap_batch_scale(neap_allocator *allocator, const neap_graph *graph,
                                      int64_t from, int64_t to, neap_graph **scaled,
                                      neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
