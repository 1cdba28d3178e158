/*
 * What a backend is: kernels for ops, behind one table of functions.
 *
 * A backend is asked for a *kernel* of an op: the op's type and attributes and what its operands
 * look like (a run_spec). Preparing may be slow (a library compiles code, looks algorithms up);
 * running a kernel is told addresses only. A kernel keeps no state between runs: from the same
 * bytes in the operands it makes the same bytes in the results, whatever stood there or in the
 * workspace before. That is what lets a plan recompute.
 *
 * Operands have strides. An array's elements are addressed by strides counted in elements, so that
 * a view (a slice of channels, a reshape) is an array like any other, and so that images may lie
 * channels-last in memory (N x H x W x C) while their shape says N x C x H x W. A backend says
 * which of the two it prefers for images; parameters and their gradients are always row-major.
 * Kernels must take whatever strides come, if slowly; results are never views that overlap
 * themselves.
 *
 * Workspace. Scratch that a kernel needs is asked for before planning (`variants`) and is part of
 * the plan's arena; a kernel may not allocate while it runs. Variants are other algorithms for the
 * same op, numbered from 0, which is the one to take where nobody chooses. The numbers must be the
 * same whenever the same backend is asked about the same spec: a plan names them.
 *
 * Randomness. An op marked random gets a seed for this execution, the same at every recomputation
 * within a step, and the same for a forward op and its backward op. Element i of the op's random
 * draws (i counts row-major positions of the array they belong to, as docs/ops.md says) is
 * run_random(seed, i), so that all backends draw the same.
 *
 * To add one: a folder with its file, one line in backends.def, and the conformance test runs it.
 * It has one run_op for each op type of graph/ops.def; a type without a kernel is RUN_NO_KERNEL.
 */
#ifndef NEAP_RUN_BACKEND_H
#define NEAP_RUN_BACKEND_H

#include <neap/network.h>
#include <neap/run.h>

/* What an operand looks like; not where it is. */
typedef struct run_array {
    neap_dtype dtype;
    uint32_t rank; /* at least 1 */
    int64_t shape[NEAP_MAX_RANK];
    int64_t strides[NEAP_MAX_RANK]; /* in elements; of an extent of 1, any */
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
/* Strides for a shape: row-major, or channels-last where the rank is 4. */
void neap_run_array_set_plain(run_array *array);
void neap_run_array_set_channels_last(run_array *array);

/* Which kernel is wanted. Valid during the call only. */
typedef struct run_spec {
    const neap_op *op;    /* for its type, attributes, operand counts */
    const run_array *in;  /* op->n_inputs */
    const run_array *out; /* op->n_outputs */
    uint32_t variant;
} run_spec;

/* NEAP_OK, or NEAP_UNSUPPORTED with what does not fit: graph/op_form.h. */
neap_status neap_run_check_op(const run_spec *spec, neap_diag *diag);
/* The integers of an input must be below this. */
int64_t neap_run_integer_limit(const run_spec *spec, uint32_t input);
/* An attribute of the op, or `otherwise` where it has none of that name. */
int64_t neap_run_spec_int(const run_spec *spec, const char *name, int64_t otherwise);
double neap_run_spec_real(const run_spec *spec, const char *name, double otherwise);

/* Where the operands are, for one run. Each address is that of the element 0, 0, ... */
typedef struct run_args {
    const void *const *in;
    void *const *out;
    void *workspace; /* 64-byte aligned, as many bytes as the variant asked for; or NULL */
    uint64_t seed;   /* of ops marked random */
} run_args;

typedef struct run_kernel run_kernel;

/* Embedded at the start of a backend's own struct. */
struct run_kernel {
    neap_status (*run)(const run_kernel *self, const run_args *args, neap_diag *diag);
    void (*destroy)(run_kernel *self);
};

typedef struct run_op run_op;
typedef struct run_backend_type run_backend_type;

/* An open backend; embedded at the start of its own struct. */
struct neap_backend {
    const run_backend_type *type;
    neap_allocator *allocator;
    int threads;       /* that kernels use */
    char machine[160]; /* what times depend on: library and version, processor, threads */
};

struct run_backend_type {
    const char *name;
    const char *summary;
    bool channels_last; /* how images should lie in memory */

    /* `threads` is at least 1. Fills in nothing of the base but `machine`. */
    neap_status (*open)(neap_allocator *allocator, int threads, neap_backend **backend,
                        neap_diag *diag);
    void (*close)(neap_backend *backend);

    /* Whether there is a kernel for it. If not, diag names the op and says why. */
    bool (*supports_op)(neap_backend *backend, const run_spec *spec, neap_diag *diag);
    /*
     * The workspace of each variant in bytes: *count of them, at most RUN_MOST_VARIANTS, at least
     * 1. The spec's own variant is ignored.
     */
    neap_status (*variants)(neap_backend *backend, const run_spec *spec, int64_t *workspaces,
                            uint32_t *count, neap_diag *diag);
    neap_status (*prepare)(neap_backend *backend, const run_spec *spec, run_kernel **kernel,
                           neap_diag *diag);
    /* By op type, in the order of graph/ops.def, where these are neap_run_ops_*; or NULL. */
    const run_op *const *ops;
    neap_dtype floats; /* the floating type that those kernels compute in */
};

#define RUN_MOST_VARIANTS 8

/* ---- Backends whose kernels are a table by op type ---- */

/* How a backend does one op type: the functions of run_backend_type, for specs that were checked.
 */
struct run_op {
    /* NULL: one variant that needs no workspace. */
    neap_status (*variants)(neap_backend *backend, const run_spec *spec, int64_t *workspaces,
                            uint32_t *count, neap_diag *diag);
    /* NULL: there is no kernel. */
    neap_status (*prepare)(neap_backend *backend, const run_spec *spec, run_kernel **kernel,
                           neap_diag *diag);
};

#define RUN_NO_KERNEL(backend, type) const run_op neap_##backend##_op_##type = {NULL, NULL};

/* The functions of a run_backend_type that has `ops`. */
bool neap_run_ops_support(neap_backend *backend, const run_spec *spec, neap_diag *diag);
neap_status neap_run_ops_variants(neap_backend *backend, const run_spec *spec, int64_t *workspaces,
                                  uint32_t *count, neap_diag *diag);
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
