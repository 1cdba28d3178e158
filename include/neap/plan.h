/*
 * neap/plan.h - a plan: the program that runs one training step in bounded memory.
 *
 * A plan is a list of steps for one compute stream and a copy engine. docs/formats.md has the file
 * format, docs/memory-model.md the exact rules for memory and time.
 *
 *     compute op [variant]   runs the op: its inputs must be resident; its outputs become resident
 *       ... in place         the same, with one output written over one input, which is gone then
 *     free value             removes it from device memory, after any copy of it in progress
 *     offload value          starts a copy to the host; the value stays resident until it is freed
 *     prefetch value         allocates it and starts the copy back; readers wait for the copy
 *
 * State values may be on the host when the step begins and ends: the plan lists them
 * (neap_plan_host_at_start), fetches them where they are needed, and moves back what was updated.
 *
 * A plan does not own or point to its graph; calls that need both take both.
 */
#ifndef NEAP_PLAN_H
#define NEAP_PLAN_H

#include <neap/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum neap_step_kind {
    NEAP_COMPUTE = 0,
    NEAP_FREE,
    NEAP_OFFLOAD,
    NEAP_PREFETCH
} neap_step_kind;

/* "compute", "free", "offload", "prefetch". */
NEAP_API const char *neap_step_kind_name(neap_step_kind kind);

typedef struct neap_step {
    neap_step_kind kind;
    uint32_t id;      /* an op for compute, else a value */
    uint32_t variant; /* compute only; 0 otherwise */
    bool in_place;    /* compute only: the op's in_place_output takes over the storage of its
                         in_place_input, which leaves memory */
} neap_step;

/* The link to host memory. All zero: there is no link, and plans must not have transfers. */
typedef struct neap_link {
    double out_bandwidth; /* device to host, bytes per second */
    double in_bandwidth;  /* host to device */
    double latency;       /* seconds added to each transfer */
    bool duplex;          /* one transfer in each direction at a time; else one in total */
    int64_t host_memory;  /* most bytes held on the host; 0 or less: no limit */
} neap_link;

/* Ticks of a transfer of `bytes`, rounded to the nearest; INT64_MAX for a bandwidth of 0. */
NEAP_API int64_t neap_link_ticks(const neap_link *link, const neap_graph *graph, bool out,
                                 int64_t bytes);

typedef struct neap_plan neap_plan;

/* An empty plan. `budget` in bytes, or -1 for none. Names are copied. */
NEAP_API neap_status neap_plan_create(neap_allocator *allocator, const char *graph_name,
                                      const char *method, int64_t budget, neap_plan **plan,
                                      neap_diag *diag);
NEAP_API void neap_plan_destroy(neap_plan *plan);
NEAP_API neap_status neap_plan_append(neap_plan *plan, neap_step step, neap_diag *diag);

NEAP_API const char *neap_plan_graph_name(const neap_plan *plan);
NEAP_API const char *neap_plan_method(const neap_plan *plan);
NEAP_API int64_t neap_plan_budget(const neap_plan *plan); /* -1: none */
NEAP_API size_t neap_plan_step_count(const neap_plan *plan);
NEAP_API const neap_step *neap_plan_steps(const neap_plan *plan);

/* The state values that are on the host, and not on the device, when the step begins and when it
 * ends, in ascending order. */
NEAP_API const uint32_t *neap_plan_host_at_start(const neap_plan *plan, size_t *count);
/* Copies `count` value ids into the plan, in any order. */
NEAP_API neap_status neap_plan_set_host_at_start(neap_plan *plan, const uint32_t *values,
                                                 size_t count, neap_diag *diag);

/* The addresses: *count offsets, one for each storage instance (docs/formats.md). NULL if the plan
 * has none. */
NEAP_API const int64_t *neap_plan_offsets(const neap_plan *plan, size_t *count);
/* The size of the arena; -1 without offsets. */
NEAP_API int64_t neap_plan_arena_bytes(const neap_plan *plan);
/* Copies `count` offsets into the plan. A count of 0 removes them. */
NEAP_API neap_status neap_plan_set_offsets(neap_plan *plan, const int64_t *offsets, size_t count,
                                           int64_t arena_bytes, neap_diag *diag);

/*
 * Makes a plan from a *sequence*: the ops in the order in which they run, each as often as it runs.
 * The free steps are derived from it: a value is freed after its last use before its op runs again
 * (immediately if nothing reads it). `variants` has one entry per op of the graph, or is NULL for
 * variant 0 throughout. NEAP_INVALID if an input of an op would not be resident.
 */
NEAP_API neap_status neap_plan_from_sequence(neap_allocator *allocator, const neap_graph *graph,
                                             const uint32_t *sequence, size_t length,
                                             const uint32_t *variants, const char *method,
                                             int64_t budget, neap_plan **plan, neap_diag *diag);

/* ---- Files ---- */

/* "-" is standard input. Only the format is checked; neap/check.h checks a plan on its graph. */
NEAP_API neap_status neap_plan_read_file(neap_allocator *allocator, const char *path,
                                         neap_plan **plan, neap_diag *diag);
NEAP_API neap_status neap_plan_read_text(neap_allocator *allocator, const char *text, size_t length,
                                         const char *source, neap_plan **plan, neap_diag *diag);
/* Replaces an old file atomically; "-" is standard output. */
NEAP_API neap_status neap_plan_write_file(const neap_plan *plan, const char *path, neap_diag *diag);
NEAP_API neap_status neap_plan_write_text(const neap_plan *plan, neap_allocator *allocator,
                                          char **text, size_t *length, neap_diag *diag);

/* ---- Timeline: memory, compute stream and copy engines over time ---- */

typedef struct neap_timeline_step {
    int64_t begin, end;  /* ticks: of the computation or transfer; for a free, of its wait */
    int64_t live_bytes;  /* while the step runs: fixed + inputs + live storages, outputs and
                            workspace included */
    int64_t after_bytes; /* when the step has ended */
} neap_timeline_step;

/* When a step of a plan ran, in seconds since the plan began. */
typedef struct neap_step_time {
    double begin, end;
} neap_step_time;

typedef struct neap_timeline {
    size_t n_steps;
    const neap_timeline_step *steps;
    int64_t peak_bytes;
    size_t peak_step;            /* the first step that reaches it */
    int64_t compute_ticks;       /* the compute stream is busy */
    int64_t idle_ticks;          /* the compute stream waits for copies */
    int64_t out_ticks, in_ticks; /* the copy engines are busy */
    int64_t makespan_ticks;      /* the end of the last computation or transfer */
    neap_allocator *allocator;
} neap_timeline;

/* Computes the timeline of a plan. NEAP_INVALID for a plan that the judge would reject; the message
 * names the first step that cannot run. `link` may be NULL. */
NEAP_API neap_status neap_timeline_build(neap_allocator *allocator, const neap_graph *graph,
                                         const neap_plan *plan, const neap_link *link,
                                         neap_timeline *timeline, neap_diag *diag);
NEAP_API void neap_timeline_clear(neap_timeline *timeline);

/* What the peak is made of: bytes of storages in memory at the first step that reaches it, by the
 * kind of the value that owns them. They add up to the timeline's peak_bytes. */
typedef struct neap_memory_parts {
    int64_t parameters;
    int64_t gradients;   /* of parameters: outputs of the graph, or read by an update */
    int64_t state;       /* of the optimizer: moments, master weights */
    int64_t activations; /* all other values that ops make: activations and their gradients */
    int64_t workspace;
    int64_t other; /* other inputs, such as data, and the fixed bytes */
} neap_memory_parts;

/* NEAP_INVALID for a plan that cannot be run. */
NEAP_API neap_status neap_plan_peak_parts(neap_allocator *allocator, const neap_graph *graph,
                                          const neap_plan *plan, neap_memory_parts *parts,
                                          neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
