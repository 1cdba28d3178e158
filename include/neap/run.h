/*
 * neap/run.h - run a plan for real.
 *
 *     neap_backend *backend;
 *     neap_runner *runner;
 *     neap_backend_open(NULL, "onednn", 0, &backend, &diag);
 *     neap_profile(NULL, graph, backend, NULL, NULL, &diag);        measured times and workspaces
 *     ... neap_solve with request.alignment = NEAP_RUN_ALIGNMENT ...
 *     neap_runner_create(NULL, graph, plan, backend, NULL, &runner, &diag);
 *     neap_runner_write(runner, parameter, numbers, &diag);          inputs, once or before a step
 *     neap_runner_step(runner, seed, &report, &diag);                one training step
 *     neap_runner_read(runner, gradient, numbers, &diag);            outputs
 *
 * A runner holds one arena of exactly the plan's size: fixed bytes first, then everything the plan
 * places. Nothing else grows with the network while it runs. Values are where the plan says, from
 * the step that makes them live to the one that ends that; inputs (parameters, data) keep theirs
 * throughout, outputs (the loss, gradients) are there when a step has ended. On the host side of
 * offloading there is a second arena, and a thread (two with a duplex link) that copies.
 *
 * Bits. With one backend, one number of threads and one choice of variants, the results do not
 * depend on the plan: recomputed values are equal to the bit, random ops replayed.
 *
 * A backend and its runners belong to one thread at a time.
 */
#ifndef NEAP_RUN_H
#define NEAP_RUN_H

#include <neap/plan.h>
#include <neap/progress.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every address in an arena is a multiple. */
#define NEAP_RUN_ALIGNMENT 64

/* ---- Backends ---- */

typedef struct neap_backend neap_backend;

NEAP_API uint32_t neap_backends_count(void);
/* Name and one-line summary of a backend in this build. */
NEAP_API const char *neap_backends_name(uint32_t index);
NEAP_API const char *neap_backends_summary(uint32_t index);
/* The fastest one of this build that runs kernels. */
NEAP_API const char *neap_backends_default(void);

/* `threads` 0: as many as the machine has. NEAP_INVALID, with the names there are, for another. */
NEAP_API neap_status neap_backend_open(neap_allocator *allocator, const char *name, int threads,
                                       neap_backend **backend, neap_diag *diag);
NEAP_API void neap_backend_close(neap_backend *backend); /* NULL is fine */
NEAP_API const char *neap_backend_name(const neap_backend *backend);
/* What measured times depend on: library, processor, threads; one line. */
NEAP_API const char *neap_backend_machine(const neap_backend *backend);
NEAP_API int neap_backend_threads(const neap_backend *backend);

/*
 * Whether the backend can run every op of a graph: NEAP_OK, or NEAP_UNSUPPORTED with the first op
 * it has no kernel for and why.
 */
NEAP_API neap_status neap_backend_check(neap_backend *backend, const neap_graph *graph,
                                        neap_diag *diag);
/*
 * Gives every op the variants and workspaces that the backend's kernels have, each with the time of
 * the op's old variant 0. A graph must be fitted (or profiled, which does it) before it is planned
 * for a backend.
 */
NEAP_API neap_status neap_backend_fit(neap_backend *backend, neap_graph *graph, neap_diag *diag);

/* ---- Measuring ---- */

typedef struct neap_profile_options {
    int warmups;             /* runs before the first that counts; default 1 */
    int repetitions;         /* runs that count, of which the median is taken; default 5 */
    double seconds_per_op;   /* a kernel slower than that is not run more often than 3 times;
                                default 0.5 */
    const char *cache;       /* a file of measured ops to take times from and add to; NULL: none */
    bool refresh;            /* measure again what it has */
    neap_progress *progress; /* may be NULL */
} neap_profile_options;

NEAP_API void neap_profile_options_init(neap_profile_options *options);

typedef struct neap_profile_report {
    uint32_t kernels;    /* distinct ops and variants in the graph */
    uint32_t measured;   /* now; the others came from the cache */
    double seconds;      /* that it took */
    bool interrupted;    /* by the caller */
    double worst_spread; /* the largest (75th - 25th percentile) / median among the measured, of
                            those that take at least a hundredth of the step */
    char cache_damage[NEAP_DIAG_CAPACITY];  /* where the cache was empty or damaged, for a person;
                                               it is replaced; or "" */
    char cache_trouble[NEAP_DIAG_CAPACITY]; /* why the cache could not be read or written, for a
                                               person; or "" */
} neap_profile_report;

/*
 * Measures every distinct op of a graph on a backend, each variant, and gives the graph those
 * times and workspaces. Kernels take turns, so that caches are as in a training step. A kernel
 * whose times differ much is run more often, up to 31 times, and counts by its lower quartile.
 *
 * An op's signature (type, attributes, shapes, strides) and the backend's machine line are the key
 * in the cache. A time that varied by half or more is valid for an hour only. What others add to
 * the file meanwhile stays; an empty or damaged one is replaced, a file of another kind is left as
 * it is. When cancelled the report says so: the graph is as it was, the cache has what was
 * measured. options and report may be NULL.
 */
NEAP_API neap_status neap_profile(neap_allocator *allocator, neap_graph *graph,
                                  neap_backend *backend, const neap_profile_options *options,
                                  neap_profile_report *report, neap_diag *diag);
/*
 * Notes in a cache that the times of a graph's ops on a backend are wrong, as the time of a real
 * step showed: the next neap_profile measures them again.
 */
NEAP_API neap_status neap_profile_doubt(neap_allocator *allocator, const neap_graph *graph,
                                        neap_backend *backend, const char *cache, neap_diag *diag);

/* ---- Running ---- */

typedef struct neap_run_options {
    bool poison;  /* fill memory with NaNs when it is freed; default in debug builds */
    bool duplex;  /* copy to and from the host at the same time */
    bool measure; /* keep the time of every step (neap_runner_step_seconds) */
} neap_run_options;

NEAP_API void neap_run_options_init(neap_run_options *options);

typedef struct neap_runner neap_runner;

/*
 * Prepares kernels and the arena. The plan must be one that the judge accepts (it is checked here
 * too far as to be safe to run). Where its addresses are missing or not aligned to
 * NEAP_RUN_ALIGNMENT, new ones are found, and the arena may be larger than the plan's. graph, plan
 * and backend must outlive the runner.
 */
NEAP_API neap_status neap_runner_create(neap_allocator *allocator, const neap_graph *graph,
                                        const neap_plan *plan, neap_backend *backend,
                                        const neap_run_options *options, neap_runner **runner,
                                        neap_diag *diag);
NEAP_API void neap_runner_destroy(neap_runner *runner); /* NULL is fine */

/* Bytes of the arena; of the host's. */
NEAP_API int64_t neap_runner_arena_bytes(const neap_runner *runner);
NEAP_API int64_t neap_runner_host_bytes(const neap_runner *runner);
/* The fixed bytes at the start of the arena, for the caller's use (optimizer state); zeroed. */
NEAP_API void *neap_runner_fixed(neap_runner *runner, int64_t *bytes);

/*
 * An array as it lies in the arena: an input at any time, an output after a step. Strides are in
 * elements; images may lie channels-last.
 */
typedef struct neap_array {
    void *data;
    neap_dtype dtype;
    uint32_t rank;
    const int64_t *shape;
    const int64_t *strides;
    int64_t elements;
    bool plain; /* row-major without gaps */
} neap_array;

/* NEAP_INVALID for a value that is neither an input nor an output. */
NEAP_API neap_status neap_runner_array(neap_runner *runner, uint32_t value, neap_array *array,
                                       neap_diag *diag);
/* Copies all elements in (of an input) or out, in row-major order. */
NEAP_API neap_status neap_runner_write(neap_runner *runner, uint32_t value, const void *elements,
                                       neap_diag *diag);
NEAP_API neap_status neap_runner_read(neap_runner *runner, uint32_t value, void *elements,
                                      neap_diag *diag);

typedef struct neap_run_report {
    double seconds;       /* of the whole step */
    double wait_seconds;  /* of it, waiting for copies */
    uint64_t computed;    /* kernels run */
    uint64_t transferred; /* bytes, both ways */
} neap_run_report;

/*
 * Runs the plan once. `seed` is that of the step's random ops. report may be NULL. After a failure
 * of a kernel (NEAP_INTERNAL) outputs are undefined, inputs as they were.
 */
NEAP_API neap_status neap_runner_step(neap_runner *runner, uint64_t seed, neap_run_report *report,
                                      neap_diag *diag);
/* With options.measure: how long each step of the plan took in the last run; NULL without. */
NEAP_API const double *neap_runner_step_seconds(const neap_runner *runner);

#ifdef __cplusplus
}
#endif
#endif
