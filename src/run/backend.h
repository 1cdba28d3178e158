/*
 * The backend interface: kernels for ops, behind one table of functions.
 *
 * The caller asks a backend for a *kernel* of an op and passes the op's type, its attributes and
 * the layout of its operands (a run_spec). Preparing a kernel may be slow (a library compiles code
 * or looks up algorithms); running it takes only addresses. A kernel keeps no state between runs:
 * the same bytes in the operands give the same bytes in the results, whatever the results and the
 * workspace contained before. Recomputation depends on this.
 *
 * Operands have strides, counted in elements. A view (a slice of channels, a reshape) is therefore
 * an array like any other, and images can be channels-last in memory (N x H x W x C) while their
 * shape is N x C x H x W. A backend declares which of the two it prefers for images and for
 * filters; all other parameters and their gradients are row-major. Kernels must accept any strides,
 * even if they are slow for some; results are never views that overlap themselves.
 *
 * In place. If the type of the op allows it (op_def.in_place), a result may have the address of an
 * operand; both then have the same strides. The bits are those of two addresses.
 *
 * Workspace. The scratch memory of a kernel is determined before planning (`variants`) and is part
 * of the plan's arena; a kernel must not allocate while it runs. Variants are different algorithms
 * for the same op, numbered from 0; variant 0 is the default. The numbers must be the same each
 * time the same backend is asked about the same spec, because plans refer to them.
 *
 * Randomness. An op marked random gets a seed for each execution. The seed is the same for every
 * recomputation within a step, and the same for a forward op and its backward op. Random number i
 * of the op (i counts row-major positions of the array, see docs/ops.md) is run_random(seed, i), so
 * that all backends draw the same numbers.
 *
 * To add a backend, write a folder with its file and add one line to backends.def; the conformance
 * test then includes it. A backend has one run_op for each op type of graph/ops.def; a type without
 * a kernel is RUN_NO_KERNEL.
 */
#ifndef NEAP_RUN_BACKEND_H
#define NEAP_RUN_BACKEND_H

#include <neap/network.h>
#include <neap/run.h>

/* The type and layout of an operand, without its address. */
typedef struct run_array {
    neap_dtype dtype;
    uint32_t rank; /* at least 1 */
    int64_t shape[NEAP_MAX_RANK];
    int64_t strides[NEAP_MAX_RANK]; /* in elements; arbitrary where the extent is 1 */
} run_array;

int64_t neap_run_array_elements(const run_array *array);
/* Row-major without gaps. */
bool neap_run_array_is_plain(const run_array *array);
/* Rank 4, channels innermost without gaps: N x H x W x C in memory. */
bool neap_run_array_is_channels_last(const run_array *array);
/* Every element of a block of memory once, in whatever order: elementwise kernels may then walk
   both arrays flat if neap_run_array_same_strides too. */
bool neap_run_array_is_dense(const run_array *array);
bool neap_run_array_same_strides(const run_array *a, const run_array *b);
/* Strides for a shape: row-major, or channels-last if the rank is 4. */
void neap_run_array_set_plain(run_array *array);
void neap_run_array_set_channels_last(run_array *array);
/* The array repeated along leading dimensions, to the shape of another that ends in its own. */
run_array neap_run_array_repeat(const run_array *array, const run_array *like);
/* The array without a dimension: its elements stand for rows along that. */
run_array neap_run_array_without(const run_array *array, uint32_t axis);
/* `extent` elements along an axis. */
run_array neap_run_array_cut(const run_array *array, uint32_t axis, int64_t extent);
/* Counts the elements of a shape in row-major order. */
run_array neap_run_array_counter(const run_array *like);

/* The kernel to prepare. Valid only during the call. */
typedef struct run_spec {
    const neap_op *op;    /* for its type, attributes, operand counts */
    const run_array *in;  /* op->n_inputs */
    const run_array *out; /* op->n_outputs */
    uint32_t variant;
} run_spec;

/* NEAP_OK, or NEAP_UNSUPPORTED with the reason (graph/op_form.h). */
neap_status neap_run_check_op(const run_spec *spec, neap_diag *diag);
/* The exclusive upper limit of an input's integers. */
int64_t neap_run_integer_limit(const run_spec *spec, uint32_t input);
/* An attribute of the op, or `otherwise` if the op does not have it. */
int64_t neap_run_spec_int(const run_spec *spec, const char *name, int64_t otherwise);
double neap_run_spec_real(const run_spec *spec, const char *name, double otherwise);

/* The addresses of the operands, for one run. Each is the address of element (0, 0, ...). */
typedef struct run_args {
    void *const *in; /* a kernel writes only to those that its op updates */
    void *const *out;
    void *workspace; /* 64-byte aligned, of the size that the variant needs; or NULL */
    uint64_t seed;   /* for ops marked random */
    /* On a device, where a step may be recorded once and replayed: the seed of the step, in the
       device's memory. The op's seed is then run_random(*step_seed, seed). Otherwise NULL. */
    const uint64_t *step_seed;
} run_args;

typedef struct run_kernel run_kernel;

/* Embedded at the start of a backend's own struct. */
struct run_kernel {
    neap_status (*run)(const run_kernel *self, const run_args *args, neap_diag *diag);
    void (*destroy)(run_kernel *self);
};

typedef struct run_op run_op;
typedef struct run_backend_type run_backend_type;

/*
 * A device with memory of its own. Kernels of such a backend get addresses of that memory, and
 * `run` only queues their work.
 */
typedef enum run_memory { RUN_DEVICE, RUN_PINNED } run_memory; /* PINNED: of the host, for copies */

typedef struct run_queue run_queue;
typedef struct run_queue_options run_queue_options;

typedef struct run_device_type {
    /* Zeroed. On NEAP_NO_MEMORY the message says how much is free. */
    neap_status (*allocate)(neap_backend *backend, run_memory kind, int64_t bytes,
                            unsigned char **data, neap_diag *diag);
    void (*release)(neap_backend *backend, run_memory kind, unsigned char *data);
    /* Between host and device; all that was queued ends first. */
    neap_status (*copy)(neap_backend *backend, bool to_device, void *to, const void *from,
                        size_t bytes, neap_diag *diag);
    neap_status (*measure_link)(neap_backend *backend, neap_link *link, neap_contention *contention,
                                neap_diag *diag);
    neap_status (*memory)(neap_backend *backend, neap_device_memory *memory, neap_diag *diag);
    neap_status (*create_queue)(neap_backend *backend, const run_queue_options *options,
                                run_queue **queue, neap_diag *diag);
    /* For measuring: queues filling memory with ordinary numbers of a type, as profile.c describes
       them. */
    neap_status (*prime)(neap_backend *backend, neap_dtype dtype, void *data, size_t bytes,
                         neap_diag *diag);
    /* For measuring: queues mark 0 or 1; waits for both, and gives the seconds between them. Before
       mark 0 the device is kept busy for a moment, in which what follows is queued. */
    neap_status (*mark)(neap_backend *backend, size_t k, neap_diag *diag);
    neap_status (*elapsed)(neap_backend *backend, double *seconds, neap_diag *diag);
} run_device_type;

/* An open backend; embedded at the start of its own struct. */
struct neap_backend {
    const run_backend_type *type;
    neap_allocator *allocator;
    int threads;                /* used by kernels */
    bool channels_last;         /* the preferred layout of images */
    bool channels_last_filters; /* and of parameters of rank 4, their gradients and state */
    char machine[240];          /* what times depend on: library and version, processor, threads */
};

struct run_backend_type {
    const char *name;
    const char *summary;
    const run_device_type *device; /* NULL: kernels work on memory of the host, at once */
    bool needs_device;             /* it is not there on every machine, and never the default */

    /* `options->threads` is at least 1. Of the base, this sets `machine` and `channels_last`. */
    neap_status (*open)(neap_allocator *allocator, const neap_backend_options *options,
                        neap_backend **backend, neap_diag *diag);
    void (*close)(neap_backend *backend);

    /* Whether there is a kernel for the spec. If not, diag names the op and the reason. */
    bool (*supports_op)(neap_backend *backend, const run_spec *spec, neap_diag *diag);
    /*
     * The workspace of each variant in bytes, and in *count the number of variants: 1 to
     * RUN_MOST_VARIANTS. The variant in the spec is ignored.
     */
    neap_status (*variants)(neap_backend *backend, const run_spec *spec, int64_t *workspaces,
                            uint32_t *count, neap_diag *diag);
    neap_status (*prepare)(neap_backend *backend, const run_spec *spec, run_kernel **kernel,
                           neap_diag *diag);
    /*
     * Where finding variants takes long: finds those of all specs that were announced
     * (run_op.announce), on all processors. NULL: not needed. The caller announces all specs of a
     * graph before it asks for their variants. Once `progress`, which may be NULL, is cancelled, it
     * ends soon, without failing.
     */
    neap_status (*find_announced)(neap_backend *backend, neap_progress *progress, neap_diag *diag);
    /*
     * By op type, in the order of graph/ops.def; neap_run_ops_* then implement the functions above.
     * Or NULL.
     */
    const run_op *const *ops;
    neap_dtype floats; /* the floating type that those kernels compute in, updates excepted;
                          NEAP_DTYPE_UNKNOWN: each op checks its operands itself */
};

#define RUN_MOST_VARIANTS 64

/* ---- Backends whose kernels are a table by op type ---- */

/*
 * How a backend implements one op type: the functions of run_backend_type, for specs that are
 * already checked.
 */
struct run_op {
    /* NULL: one variant that needs no workspace. */
    neap_status (*variants)(neap_backend *backend, const run_spec *spec, int64_t *workspaces,
                            uint32_t *count, neap_diag *diag);
    /* NULL: there is no kernel. */
    neap_status (*prepare)(neap_backend *backend, const run_spec *spec, run_kernel **kernel,
                           neap_diag *diag);
    /* NEAP_UNSUPPORTED with the reason if no kernel takes operands of such types. NULL: all fit. */
    neap_status (*check)(const run_spec *spec, neap_diag *diag);
    /* A number that variants by the same algorithm share, whatever their sizes; 0: unknown. NULL:
       all are unknown. */
    neap_status (*algorithm)(neap_backend *backend, const run_spec *spec, uint32_t *number,
                             neap_diag *diag);
    /* Notes the spec for `find_announced`. NULL: finding variants takes no time. */
    neap_status (*announce)(neap_backend *backend, const run_spec *spec, neap_diag *diag);
};

#define RUN_NO_KERNEL(backend, type) const run_op neap_##backend##_op_##type = {.prepare = NULL};

/* The functions of a run_backend_type that has `ops`. */
bool neap_run_ops_support(neap_backend *backend, const run_spec *spec, neap_diag *diag);
neap_status neap_run_ops_variants(neap_backend *backend, const run_spec *spec, int64_t *workspaces,
                                  uint32_t *count, neap_diag *diag);
/* The number of a variant's algorithm, or 0. */
neap_status neap_run_ops_algorithm(neap_backend *backend, const run_spec *spec, uint32_t *number,
                                   neap_diag *diag);
/* Announces a spec to a backend with such a table. */
neap_status neap_run_ops_announce(neap_backend *backend, const run_spec *spec, neap_diag *diag);
neap_status neap_run_ops_prepare(neap_backend *backend, const run_spec *spec, run_kernel **kernel,
                                 neap_diag *diag);

/* 64 random bits for draw `index` of an execution (SplitMix64's finisher). */
static inline uint64_t run_random(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The same as a number from 0 to just below 1 of 24 bits, exact in a float. An element is dropped
   where it is below the probability. */
static inline float run_random_real(uint64_t seed, uint64_t index)
{
    return (float)(run_random(seed, index) >> 40) * 0x1p-24f;
}

#define X(name) extern const run_backend_type neap_run_backend_##name;
#include "run/backends.def"
#undef X

#endif
