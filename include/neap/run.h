/*
 * neap/run.h - execute a plan with real kernels.
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
 * A runner has one arena of exactly the size in the plan: the fixed bytes first, then everything
 * that the plan places. No other memory grows with the network during a run. Values are at the
 * addresses of the plan from the step that makes them live to the step that frees them. Inputs
 * (parameters, data) keep their addresses throughout; outputs (the loss, gradients) are available
 * after a step. Offloaded values go to a second arena in host memory, and so does state that the
 * plan keeps there between steps; one thread (two with a duplex link) does the copies.
 *
 * Reproducibility. For a given backend, number of threads and choice of variants, the results do
 * not depend on the plan: recomputed values are equal to the bit, and random ops are replayed.
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

/* Every address in an arena is a multiple of this. */
#define NEAP_RUN_ALIGNMENT 64

/*
 * What the addresses of a plan for this graph must be multiples of: NEAP_RUN_ALIGNMENT or, for a
 * graph with values in pieces (neap/split.h), a memory page, 4096 bytes on most machines. The arena
 * of such a plan is mapped into memory several times, so that kernels see the pieces of a value as
 * one array; for that all pieces of a value but the last must be multiples of a page, too.
 */
NEAP_API int64_t neap_run_alignment(const neap_graph *graph);

/* ---- Backends ---- */

typedef struct neap_backend neap_backend;

NEAP_API uint32_t neap_backends_count(void);
/* Name and one-line summary of a backend in this build. */
NEAP_API const char *neap_backends_name(uint32_t index);
NEAP_API const char *neap_backends_summary(uint32_t index);
/* The name of the fastest backend in this build that runs kernels. */
NEAP_API const char *neap_backends_default(void);

typedef struct neap_backend_options {
    int threads;           /* of kernels on the processor; default 0: one per processor */
    int device;            /* cuda: which GPU, from 0 */
    bool tf32;             /* cuda: products of f32 on tensor cores, rounded to tf32 */
    bool nondeterministic; /* cuda: library kernels too whose bits vary from run to run */
} neap_backend_options;

NEAP_API void neap_backend_options_init(neap_backend_options *options);
/* NEAP_INVALID for an unknown name; the message lists the names. NEAP_UNSUPPORTED if the machine
   lacks what the backend needs; the message says what. */
NEAP_API neap_status neap_backend_open_with(neap_allocator *allocator, const char *name,
                                            const neap_backend_options *options,
                                            neap_backend **backend, neap_diag *diag);
/* The same with default options but for the number of threads. */
NEAP_API neap_status neap_backend_open(neap_allocator *allocator, const char *name, int threads,
                                       neap_backend **backend, neap_diag *diag);
NEAP_API void neap_backend_close(neap_backend *backend); /* may be NULL */
NEAP_API const char *neap_backend_name(const neap_backend *backend);
/* One line that says what measured times depend on: libraries, processor or GPU, threads. */
NEAP_API const char *neap_backend_machine(const neap_backend *backend);
NEAP_API int neap_backend_threads(const neap_backend *backend);

/* The memory of a backend's device, in bytes, as the driver counts it. */
typedef struct neap_device_memory {
    int64_t total;
    int64_t used;        /* now, by all programs */
    int64_t used_before; /* when the backend was opened: by its context and other programs */
    int64_t context;     /* of that by the context; -1: unknown, for lack of NVML */
} neap_device_memory;

/* NEAP_UNSUPPORTED for a backend without a device. */
NEAP_API neap_status neap_backend_memory(neap_backend *backend, neap_device_memory *memory,
                                         neap_diag *diag);

/* What kernels and copies cost each other when they run together. Rates are bytes per second. */
typedef struct neap_contention {
    double slowdown;  /* of a kernel that does nothing but move memory, beside copies one way: 0.02
                         is 2% */
    double bandwidth; /* of such a kernel alone */
    double out_bandwidth, in_bandwidth; /* of copies while both directions and kernels run */
} neap_contention;

/*
 * Measures the link between the backend's device and pinned host memory, beside kernels: the
 * bandwidth of each direction while the other is idle, and the latency; and, unless `contention` is
 * NULL, what copies and kernels cost each other. NEAP_UNSUPPORTED for a backend without a device.
 */
NEAP_API neap_status neap_backend_measure_link(neap_backend *backend, neap_link *link,
                                               neap_contention *contention, neap_diag *diag);

/*
 * Checks that the backend can run every op of a graph. NEAP_UNSUPPORTED otherwise; the message
 * names the first op without a kernel, and the reason.
 */
NEAP_API neap_status neap_backend_check(neap_backend *backend, const neap_graph *graph,
                                        neap_diag *diag);
/*
 * Replaces the variants and workspaces of every op by those of the backend's kernels, each with the
 * time of the old variant 0, and removes in_place marks that kernels cannot do. Before planning for
 * a backend, the graph must be fitted or profiled (profiling includes fitting).
 */
NEAP_API neap_status neap_backend_fit(neap_backend *backend, neap_graph *graph, neap_diag *diag);

/* ---- GPUs: what backend cuda finds on this machine ---- */

#define NEAP_CUDA_LIBRARIES 5

typedef struct neap_cuda_library {
    const char *name;    /* driver, NVRTC, cuDNN, cuBLASLt, NVML */
    const char *purpose; /* a few words */
    char version[16];    /* the driver's is that of CUDA */
    char file[256];      /* where it was found; "": it is missing */
    char problem[256];   /* if it is missing: why, and how to get it */
} neap_cuda_library;

typedef struct neap_cuda_machine {
    int gpus;
    char problem[NEAP_DIAG_CAPACITY]; /* why there is none; else "" */
    neap_cuda_library libraries[NEAP_CUDA_LIBRARIES];
} neap_cuda_machine;

typedef struct neap_gpu {
    char name[128];
    int64_t memory;   /* bytes */
    int major, minor; /* compute capability */
    int multiprocessors;
} neap_gpu;

/*
 * Looks for NVIDIA's libraries and GPUs. Libraries are searched in the system's folders, those of
 * CUDA_PATH and /usr/local/cuda, and in the packages of Python's environments; with NEAP_CUDA_PATH
 * in the process's environment, only in the folders it names, separated by colons ("none":
 * nowhere).
 */
NEAP_API void neap_cuda_describe(neap_cuda_machine *machine);
/* GPU `index`, from 0. NEAP_INVALID if there are fewer, NEAP_UNSUPPORTED if there are none. */
NEAP_API neap_status neap_cuda_describe_gpu(int index, neap_gpu *gpu, neap_diag *diag);

/* ---- Measuring ---- */

typedef struct neap_profile_options {
    int warmups;             /* unmeasured runs at the start; default 1 */
    int repetitions;         /* measured runs, whose median is taken; default 5 */
    double seconds_per_op;   /* a slower kernel is run at most 3 times; default 0.5 */
    const char *cache;       /* a file of measured times, to read and to add to; NULL: none */
    bool refresh;            /* ignore cached times and measure again */
    int64_t most_workspace;  /* on a device, kernels that need more are left out, except the
                                leanest of each op; default 0: those that nine tenths of what is
                                free have no room for */
    neap_contention beside;  /* times are for kernels beside copies: a kernel that moves memory at
                                a share of the bandwidth is slower by that share of the slowdown;
                                default: all zero, alone. The cache has times alone. */
    neap_progress *progress; /* may be NULL */
} neap_profile_options;

NEAP_API void neap_profile_options_init(neap_profile_options *options);

typedef struct neap_profile_report {
    uint32_t kernels;    /* distinct ops and variants in the graph */
    uint32_t measured;   /* in this call; the others came from the cache */
    double seconds;      /* spent */
    bool interrupted;    /* cancelled by the caller */
    double worst_spread; /* the largest (75th - 25th percentile) / median among the measured
                            kernels that take at least 1% of the step */
    char cache_damage[NEAP_DIAG_CAPACITY];  /* a message if the cache was empty or damaged, and was
                                               therefore replaced; else "" */
    char cache_trouble[NEAP_DIAG_CAPACITY]; /* a message if the cache could not be read or written;
                                               else "" */
} neap_profile_report;

/*
 * Measures every variant of every distinct op of a graph on a backend, and stores the times and
 * workspaces in the graph. Kernels are run in turn, so that CPU caches are in the same state as in
 * a training step. A kernel whose times vary a lot is run more often, up to 31 times, and its time
 * is the lower quartile.
 *
 * The key in the cache file is the signature of the op (type, attributes, shapes, strides) and the
 * machine line of the backend. A time that varied by half or more expires after an hour. Entries
 * that other processes add meanwhile are kept. An empty or damaged file is replaced; a file of
 * another kind is left unchanged. If the call is cancelled, the report says so, the graph is
 * unchanged, and the cache has the times measured so far. options and report may be NULL.
 */
NEAP_API neap_status neap_profile(neap_allocator *allocator, neap_graph *graph,
                                  neap_backend *backend, const neap_profile_options *options,
                                  neap_profile_report *report, neap_diag *diag);
/*
 * Marks the cached times of a graph's ops on a backend as wrong, because a real step took a
 * different time. The next neap_profile measures them again.
 */
NEAP_API neap_status neap_profile_doubt(neap_allocator *allocator, const neap_graph *graph,
                                        neap_backend *backend, const char *cache, neap_diag *diag);

/* ---- Running ---- */

typedef struct neap_run_options {
    bool poison;       /* fill memory with NaNs when it is freed; default in debug builds */
    bool duplex;       /* copy in both directions at the same time */
    neap_link pace;    /* copies take as long as on this link, unless the machine takes longer;
                          default: all zero, as fast as it can */
    uint64_t stress;   /* not 0: delays kernels of a device, and copies, by random times from this
                          seed, to show that results do not depend on timing */
    bool measure;      /* record when every step of the plan runs (neap_runner_step_times). A device
                          then gets its work call by call, which costs many small ops time */
    bool trace_memory; /* record what of the arena is resident at every step
                          (neap_runner_step_memory). Freed memory then goes back to the system at
                          once, which makes steps slower */
} neap_run_options;

NEAP_API void neap_run_options_init(neap_run_options *options);

typedef struct neap_runner neap_runner;

/*
 * Prepares the kernels and the arena. The judge must accept the plan; this call also checks
 * whatever could make a run unsafe. If addresses are missing or not aligned to neap_run_alignment,
 * new ones are assigned, and the arena may become larger than in the plan. graph, plan and backend
 * must outlive the runner.
 *
 * For a split graph (neap/split.h) the values in all calls below are those of the whole graph.
 */
NEAP_API neap_status neap_runner_create(neap_allocator *allocator, const neap_graph *graph,
                                        const neap_plan *plan, neap_backend *backend,
                                        const neap_run_options *options, neap_runner **runner,
                                        neap_diag *diag);
NEAP_API void neap_runner_destroy(neap_runner *runner); /* may be NULL */

/* The sizes of the device arena and of the host arena, in bytes. */
NEAP_API int64_t neap_runner_arena_bytes(const neap_runner *runner);
NEAP_API int64_t neap_runner_host_bytes(const neap_runner *runner);

/*
 * The array of a value: of an input at any time between steps, of an output after a step. It is in
 * the arena, or in host memory if it is state that the plan keeps there. On a device it is a copy
 * in host memory, which later calls for the same value renew. Strides are in elements; images may
 * be stored channels-last.
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
/*
 * To write an input in place: the array as neap_runner_array gives it, but on a device without the
 * contents, and the call after which all that was written into it counts.
 */
NEAP_API neap_status neap_runner_stage(neap_runner *runner, uint32_t value, neap_array *array,
                                       neap_diag *diag);
NEAP_API neap_status neap_runner_commit(neap_runner *runner, uint32_t value, neap_diag *diag);
/* Copies all elements of an input in, or of an input or output out, in row-major order. */
NEAP_API neap_status neap_runner_write(neap_runner *runner, uint32_t value, const void *elements,
                                       neap_diag *diag);
NEAP_API neap_status neap_runner_read(neap_runner *runner, uint32_t value, void *elements,
                                      neap_diag *diag);

typedef struct neap_run_report {
    double seconds;       /* of the whole step */
    double wait_seconds;  /* part of it: waiting for copies */
    uint64_t computed;    /* kernels run */
    uint64_t transferred; /* bytes, in both directions */
    bool state_changed; /* state was updated, or freed on the device, so that after a failure it is
                             not that before the step */
} neap_run_report;

/*
 * Runs the plan once. `seed` seeds the random ops of the step. report may be NULL. If a kernel
 * fails (NEAP_INTERNAL), the outputs are undefined and the inputs unchanged, except for state where
 * the report says `state_changed`.
 */
NEAP_API neap_status neap_runner_step(neap_runner *runner, uint64_t seed, neap_run_report *report,
                                      neap_diag *diag);
/*
 * With options.measure: when each step of the plan ran in the last run, in seconds from its begin,
 * computations without their waiting for copies; else NULL. On a device the times are the device's.
 */
NEAP_API const neap_step_time *neap_runner_step_times(const neap_runner *runner);

/* Bytes of the arena that are in physical memory, to a page at either end of a storage. */
typedef struct neap_step_memory {
    int64_t during; /* at the end of the step, with its workspace */
    int64_t after;  /* without the workspace */
} neap_step_memory;

/*
 * With options.trace_memory: the resident memory at each step of the plan in the last run; else
 * NULL. Fixed bytes count once they have been written.
 */
NEAP_API const neap_step_memory *neap_runner_step_memory(const neap_runner *runner);

#ifdef __cplusplus
}
#endif
#endif
