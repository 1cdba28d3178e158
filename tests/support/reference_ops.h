/*
 * Naive kernels of every op type in double precision, and an interpreter that runs graphs with
 * them.
 *
 * A kernel sees the values its op lists, the op's attributes and nothing else: a graph that comes
 * out right lists all that its kernels need. Every value holds doubles, whatever its type says;
 * views are copies.
 */
#ifndef NEAP_TESTS_REFERENCE_OPS_H
#define NEAP_TESTS_REFERENCE_OPS_H

#include "random_plan.h"

#include <neap/network.h>

typedef struct ref_tensor {
    neap_dtype dtype;
    uint32_t rank;
    int64_t shape[NEAP_MAX_RANK];
    int64_t n;  /* elements */
    double *at; /* n of them, row-major */
} ref_tensor;

typedef struct ref_call {
    const neap_op *op;
    const ref_tensor *in; /* op->n_inputs */
    ref_tensor *out;      /* op->n_outputs, all zeros */
    uint64_t seed;        /* of the random state that an op marked random draws from */
} ref_call;

/* ---- For kernels ---- */

typedef void ref_kernel(const ref_call *call);

#define X(type) ref_kernel ref_##type;
#include "graph/ops.def"
#undef X

/* An attribute; the test fails if the op does not carry it. */
int64_t ref_int(const ref_call *call, const char *name);
double ref_real(const ref_call *call, const char *name);
/* A number in [0, 1) from the op's random state; the test fails if the op is not marked random. */
double ref_random(const ref_call *call, int64_t index);
/* Fails the test unless the op has so many operands. */
void ref_operands(const ref_call *call, uint32_t n_inputs, uint32_t n_outputs);
/* Product of the extents from dimension `first` up to but not including `last`. */
int64_t ref_extent(const ref_tensor *x, uint32_t first, uint32_t last);

/* ---- For tests ---- */

typedef struct ref_run {
    const neap_graph *graph;
    ref_tensor *values; /* per value of the graph */
} ref_run;

/*
 * Inputs get random numbers from the seed: floats from -1.5 to 1.5, labels and ids within their
 * range. The gradient of the loss gets 1.25. Everything else is not a number until an op produces
 * it.
 */
void ref_run_init(ref_run *run, const neap_graph *graph, uint64_t seed);
void ref_run_clear(ref_run *run);
/* Runs all ops of a pass, in order. */
void ref_run_pass(ref_run *run, neap_pass pass);

/* A copy of a value, for an op that is run by hand. */
ref_tensor ref_copy(const ref_tensor *x);
void ref_clear(ref_tensor *x);
/* Runs one op on these inputs instead of the run's values; `out` gets new tensors. */
void ref_run_op(const ref_run *run, uint32_t op, const ref_tensor *in, ref_tensor *out);
/* Other contents of the same kind for what the op reads as input i: at least one element differs.
 */
void ref_scramble(const ref_run *run, uint32_t op, uint32_t i, ref_tensor *x,
                  random_source *random);

#endif
