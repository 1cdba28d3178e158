/*
 * An interpreter that runs graphs on the ref backend in double precision.
 *
 * A kernel sees only the values that its op lists and the op's attributes, so a graph with correct
 * results lists everything its kernels need. Every value holds doubles, whatever its type; views
 * are copies.
 */
#ifndef NEAP_TESTS_REFERENCE_OPS_H
#define NEAP_TESTS_REFERENCE_OPS_H

#include "random_plan.h"
#include "run/backends/ref/ref.h"

#include <neap/network.h>

typedef struct ref_run {
    const neap_graph *graph;
    ref_tensor *values; /* per value of the graph */
    neap_backend *backend;
    run_kernel **kernels; /* per op */
    uint64_t seed;        /* of the step: random ops draw from it and their names, as a runner's */
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
