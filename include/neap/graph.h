/*
 * neap/graph.h - the training graph: values, and the ops that produce and read them.
 *
 * A neap_graph holds one training step, forward and backward, as ops in an execution order (the
 * *natural order*). Planners take a graph, and plans refer to its ops and values. A graph comes
 * from a file (neap_graph_read_file), from the network builder with its autodiff (neap/network.h),
 * from a built-in model (neap/models.h), or is built op by op with a neap_graph_builder.
 *
 * A graph is immutable except for its costs, which neap/cost.h replaces, and for its marks of ops
 * that can run in place (neap_graph_clear_in_place). Several threads may read it at once. Pointers
 * obtained from it are valid as long as the graph exists.
 *
 * Ids are zero-based positions: op 0 runs first, value 0 is the first in the file. Sizes are bytes.
 *
 * Values, storages, inputs. A value that no op produces is an *input* (data, parameters); it is
 * always resident, unless it is *state*, which persists from one step to the next (parameters,
 * moments) and which a plan may keep on the host between its uses. A value with `view_of` owns no
 * bytes: it shares the storage of another value. The value at the end of that chain of views is its
 * `storage`. A storage is live while any value on it is resident.
 *
 * Updates. An op with `updates` overwrites state that it reads: a step of an optimizer. It runs
 * exactly once, after every op that reads what was there before.
 *
 * Time. Files give seconds as decimal numbers. neap counts time in *ticks*, which are integers, so
 * that sums are exact and do not depend on the order of summation. `ticks_per_second` is a power of
 * ten chosen for each graph so that one execution of all ops takes at most 10^15 ticks (and a tick
 * is never below 10^-15 s).
 */
#ifndef NEAP_GRAPH_H
#define NEAP_GRAPH_H

#include <neap/allocator.h>
#include <neap/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* No op, no value. */
#define NEAP_NONE UINT32_MAX

typedef enum neap_dtype {
    NEAP_DTYPE_UNKNOWN = 0, /* optional in graph files */
    NEAP_F32,
    NEAP_F16,
    NEAP_BF16,
    NEAP_F64,
    NEAP_I64,
    NEAP_I32,
    NEAP_U8
} neap_dtype;

/* "f32", "f16", "bf16", "f64", "i64", "i32", "u8"; "" for NEAP_DTYPE_UNKNOWN. */
NEAP_API const char *neap_dtype_name(neap_dtype dtype);
/* The inverse; NEAP_DTYPE_UNKNOWN for an unknown name. */
NEAP_API neap_dtype neap_dtype_from_name(const char *name);
/* Bytes of one element; 0 for NEAP_DTYPE_UNKNOWN. */
NEAP_API int64_t neap_dtype_bytes(neap_dtype dtype);

typedef enum neap_pass { NEAP_FORWARD = 0, NEAP_BACKWARD = 1 } neap_pass;

/* The kinds that neap knows. A file may use others; they are kept as text and have no effect. */
#define NEAP_KIND_INPUT      "input"      /* data, labels */
#define NEAP_KIND_PARAMETER  "parameter"  /* an input that is trained */
#define NEAP_KIND_ACTIVATION "activation" /* written by the forward pass */
#define NEAP_KIND_GRADIENT   "gradient"   /* written by the backward pass */
#define NEAP_KIND_STATE      "state"      /* of the optimizer: moments, master weights */

typedef struct neap_value {
    const char *name;
    const char *kind;     /* NEAP_KIND_* or another word from the file */
    int64_t bytes;        /* that it owns: 0 for a view */
    uint32_t view_of;     /* the value whose storage it shares, or NEAP_NONE */
    uint32_t storage;     /* the value that owns the storage: itself unless it is a view */
    uint32_t producer;    /* the op that computes it; NEAP_NONE: an input */
    uint32_t updater;     /* the op that overwrites it; NEAP_NONE: none */
    bool state;           /* an input that persists from one step to the next */
    neap_dtype dtype;     /* NEAP_DTYPE_UNKNOWN if not given */
    uint32_t rank;        /* 0 if not given */
    const int64_t *shape; /* rank extents, outermost first; NULL when rank is 0 */
    const char *extra;    /* unknown fields of the file, as JSON members; or NULL */
} neap_value;

/* One of the kernels that can run an op. */
typedef struct neap_variant {
    double seconds;
    int64_t ticks;     /* the same in the graph's ticks; set by the graph */
    int64_t workspace; /* scratch bytes while it runs */
    uint32_t kernel;   /* the backend's number for it, from 1 on; 0: its place among the variants */
} neap_variant;

/* A named number that the kernel of an op needs: a stride, a probability. */
typedef struct neap_attr {
    const char *name;
    bool is_real; /* whether the number is in `real` or in `integer` */
    int64_t integer;
    double real;
} neap_attr;

typedef struct neap_op {
    const char *name;
    const char *type; /* a type of neap/network.h, or any other word */
    neap_pass pass;
    uint32_t n_inputs, n_outputs;
    const uint32_t *inputs;       /* values read; a value may occur twice */
    const uint32_t *outputs;      /* values produced */
    uint32_t n_updates;           /* 0: an ordinary op */
    const uint32_t *updates;      /* state values, among the inputs, that it overwrites */
    uint32_t n_variants;          /* at least 1 */
    const neap_variant *variants; /* variants[0] is the default */
    bool lists_variants;          /* the file had a list, even with a single entry */
    bool random;                  /* uses random numbers, which a recomputation must replay */
    bool inside_layer;            /* part of the same layer as the next op: chain methods do not cut
                                     between them (neap/chain.h) */
    uint32_t in_place_input;      /* value whose storage in_place_output may reuse; or NEAP_NONE */
    uint32_t in_place_output;
    int64_t flops;       /* floating-point operations; -1: not known */
    int64_t bytes_moved; /* bytes of device memory read and written; -1: not known */
    uint32_t n_attrs;
    const neap_attr *attrs;
    const char *extra; /* as for values */
} neap_op;

typedef struct neap_graph neap_graph;

NEAP_API const char *neap_graph_name(const neap_graph *graph);
NEAP_API uint32_t neap_graph_op_count(const neap_graph *graph);
NEAP_API uint32_t neap_graph_value_count(const neap_graph *graph);
/* The op or value with this id, which must be below the count. */
NEAP_API const neap_op *neap_graph_op(const neap_graph *graph, uint32_t id);
NEAP_API const neap_value *neap_graph_value(const neap_graph *graph, uint32_t id);
/* The machine whose kernels the variants are, as neap_backend_machine has it (neap/run.h); NULL if
   they were not measured. */
NEAP_API const char *neap_graph_measured_on(const neap_graph *graph);
/* Memory that is always in use and belongs to no value. */
NEAP_API int64_t neap_graph_fixed_bytes(const neap_graph *graph);
/* Fixed bytes plus all input storages: the memory in use before the first op runs. */
NEAP_API int64_t neap_graph_base_bytes(const neap_graph *graph);
/*
 * The floor: no plan with all state on the device needs less memory. It is the maximum over all ops
 * of the base bytes, the storages that the op touches (one that it can take over in place counts
 * once), and its smallest workspace. *op, if not NULL, gets that op, or NEAP_NONE if the outputs at
 * the end need more.
 */
NEAP_API int64_t neap_graph_floor_bytes(const neap_graph *graph, uint32_t *op);
/* The same for plans that move state between device and host: state counts at the ops that read it
   only. No plan at all needs less. */
NEAP_API int64_t neap_graph_travel_floor_bytes(const neap_graph *graph, uint32_t *op);
/* Whether the op runs in place in some plan: it has a mark, input and output have storages of the
   same size, and the op itself does not need the input's storage for anything else. */
NEAP_API bool neap_graph_can_run_in_place(const neap_graph *graph, uint32_t op);
/* The values that must be resident at the end; their number goes to *count. */
NEAP_API const uint32_t *neap_graph_outputs(const neap_graph *graph, uint32_t *count);
NEAP_API bool neap_graph_is_output(const neap_graph *graph, uint32_t value);
/* The ops that read a value, in order, each once; their number goes to *count. */
NEAP_API const uint32_t *neap_graph_readers(const neap_graph *graph, uint32_t value,
                                            uint32_t *count);
/* The ops in the order of the ordinary step: the natural order, except that ops with updates, side
   updates excepted, and ops that need their results come last. One entry per op. */
NEAP_API const uint32_t *neap_graph_ordinary_order(const neap_graph *graph);
/* Whether an op with updates can follow the op whose results it reads at once, whatever else is
   planned: it reads results of one op, which is not late itself, and overwrites what no other op
   reads, makes nothing, and has a variant without workspace. Running statistics are such. */
NEAP_API bool neap_graph_is_side_update(const neap_graph *graph, uint32_t op);
NEAP_API int64_t neap_graph_ticks_per_second(const neap_graph *graph);
/* The sum of all op times with variant 0, in ticks: the time of a plan without recomputation. */
NEAP_API int64_t neap_graph_base_ticks(const neap_graph *graph);
/* The same with the fastest variant of each op: no plan is faster. */
NEAP_API int64_t neap_graph_least_ticks(const neap_graph *graph);
NEAP_API double neap_graph_seconds(const neap_graph *graph, int64_t ticks);

/* Number of elements in values of kind "parameter" (views not counted). */
NEAP_API int64_t neap_graph_parameter_count(const neap_graph *graph);

/* Removes all marks of ops that can run in place, so that every plan runs all ops out of place: the
   setting of most papers. Nothing else may use the graph meanwhile. */
NEAP_API void neap_graph_clear_in_place(neap_graph *graph);

NEAP_API void neap_graph_destroy(neap_graph *graph); /* may be NULL */

/* ---- Files (docs/formats.md) ---- */

/*
 * Reads a graph file; "-" is standard input. All rules of docs/formats.md are enforced. The message
 * for an invalid file is one line that starts with the path and, for JSON errors, line and column.
 */
NEAP_API neap_status neap_graph_read_file(neap_allocator *allocator, const char *path,
                                          neap_graph **graph, neap_diag *diag);
/* The same from memory; messages name `source` instead of a path. */
NEAP_API neap_status neap_graph_read_text(neap_allocator *allocator, const char *text,
                                          size_t length, const char *source, neap_graph **graph,
                                          neap_diag *diag);
/*
 * Writes a graph file, replacing an old one atomically; "-" is standard output. Reading it back
 * gives an equal graph, and writing that one gives the same bytes.
 */
NEAP_API neap_status neap_graph_write_file(const neap_graph *graph, const char *path,
                                           neap_diag *diag);
/* The same into memory: *text gets *length bytes and a NUL. Release it as *length + 1 bytes. */
NEAP_API neap_status neap_graph_write_text(const neap_graph *graph, neap_allocator *allocator,
                                           char **text, size_t *length, neap_diag *diag);

/* ---- Building a graph op by op ---- */

typedef struct neap_value_desc {
    const char *name; /* NULL: "v<id>" */
    const char *kind; /* NULL: "activation" */
    int64_t bytes;
    uint32_t view_of; /* NEAP_NONE for a value with its own storage */
    bool state;
    neap_dtype dtype;
    uint32_t rank;
    const int64_t *shape;
    const char *extra;
} neap_value_desc;

typedef struct neap_op_desc {
    const char *name; /* NULL: "op<id>" */
    const char *type; /* NULL: "op" */
    neap_pass pass;
    uint32_t n_inputs, n_outputs;
    const uint32_t *inputs, *outputs;
    uint32_t n_updates;
    const uint32_t *updates;
    uint32_t n_variants;          /* 0: one variant of time 0 and no workspace */
    const neap_variant *variants; /* ticks are ignored */
    bool lists_variants;
    bool random;
    bool inside_layer;
    uint32_t in_place_input, in_place_output; /* both NEAP_NONE if not in place */
    int64_t flops, bytes_moved;               /* -1: not known */
    uint32_t n_attrs;
    const neap_attr *attrs;
    const char *extra;
} neap_op_desc;

/* Sets the defaults: not a view, no shape; forward pass, not in place, costs unknown. */
NEAP_API void neap_value_desc_init(neap_value_desc *desc);
NEAP_API void neap_op_desc_init(neap_op_desc *desc);
/* The description of a graph's value or op, to add a copy of it to another graph. It points into
   the graph. */
NEAP_API void neap_value_describe(const neap_value *value, neap_value_desc *desc);
NEAP_API void neap_op_describe(const neap_op *op, neap_op_desc *desc);

typedef struct neap_graph_builder neap_graph_builder;

NEAP_API neap_status neap_graph_builder_create(neap_allocator *allocator, const char *name,
                                               neap_graph_builder **builder, neap_diag *diag);
/* Both copy their arguments. Ids need not exist yet: neap_graph_builder_finish checks them. */
NEAP_API neap_status neap_graph_builder_add_value(neap_graph_builder *builder,
                                                  const neap_value_desc *desc, uint32_t *id,
                                                  neap_diag *diag);
NEAP_API neap_status neap_graph_builder_add_op(neap_graph_builder *builder,
                                               const neap_op_desc *desc, uint32_t *id,
                                               neap_diag *diag);
NEAP_API neap_status neap_graph_builder_add_output(neap_graph_builder *builder, uint32_t value,
                                                   neap_diag *diag);
NEAP_API void neap_graph_builder_set_fixed_bytes(neap_graph_builder *builder, int64_t bytes);
/*
 * Checks everything and returns the graph. After that the builder is empty and can only be
 * destroyed. NEAP_INVALID, with the op or value in the message, for an unknown id, a value with two
 * producers, an op that reads the output of a later op (the message lists the cycle, if any), a
 * view that owns bytes or whose storage its op does not touch, an update of what is no state or of
 * what a later op reads, a negative size or time, or a sum of sizes or times that overflows.
 */
NEAP_API neap_status neap_graph_builder_finish(neap_graph_builder *builder, neap_graph **graph,
                                               neap_diag *diag);
NEAP_API void neap_graph_builder_destroy(neap_graph_builder *builder);

#ifdef __cplusplus
}
#endif
#endif
