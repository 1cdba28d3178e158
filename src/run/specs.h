/*
 * The kernels that a graph needs: the spec of every op, and which ops share a kernel.
 *
 * Two ops share a kernel, and a measured time, if their signatures are equal: type, attributes, and
 * the type, shape and strides of every operand.
 */
#ifndef NEAP_RUN_SPECS_H
#define NEAP_RUN_SPECS_H

#include "run/arrays.h"

#include <neap/text.h>

typedef struct run_specs {
    const neap_graph *graph;
    run_arrays arrays;
    run_array *operands; /* of the most recent spec */
    size_t n_operands;
    uint32_t *alike; /* by op: the first op with the same signature */
    neap_allocator *allocator;
} run_specs;

/* Clear `specs` after a failure too. */
neap_status neap_run_specs_init(neap_allocator *allocator, const neap_graph *graph,
                                const neap_backend *backend, run_specs *specs, neap_diag *diag);
void neap_run_specs_clear(run_specs *specs);

/* Valid until the next call. */
run_spec neap_run_specs_at(run_specs *specs, uint32_t op, uint32_t variant);
/* Whether the op only renames elements: it has no kernel and takes no time. */
bool neap_run_specs_is_view(const run_specs *specs, uint32_t op);
/* Whether the op is marked in place and kernels can do it: by its type, and by the strides. */
bool neap_run_specs_write_over(const run_specs *specs, uint32_t op);
/* Appends "conv2d pad_h=1 ... f32[16,3,224,224] ... -> ...", without the variant. */
void neap_run_spec_sign(const run_spec *spec, neap_text *text);
/* NEAP_UNSUPPORTED names the op that the backend has no kernel for. */
neap_status neap_run_specs_check(run_specs *specs, neap_backend *backend, neap_diag *diag);

#endif
