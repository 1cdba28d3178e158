/*
 * The reference backend: every op as its definition reads, in double precision, one loop after the
 * other. All other backends are compared with it, and it with finite differences and with PyTorch.
 *
 * A kernel sees its operands as dense row-major arrays of doubles, whatever their type and strides:
 * ref.c gathers inputs before it and rounds results after it. So kernels know nothing of memory,
 * and a result may lie where an input lay.
 */
#ifndef NEAP_RUN_REF_H
#define NEAP_RUN_REF_H

#include "run/backend.h"

typedef struct ref_tensor {
    neap_dtype dtype;
    uint32_t rank;
    int64_t shape[NEAP_MAX_RANK];
    int64_t n;  /* elements */
    double *at; /* n of them, row-major */
} ref_tensor;

typedef struct ref_call {
    const neap_op *op;    /* attributes and operand counts */
    const ref_tensor *in; /* op->n_inputs; integers among them are in range */
    ref_tensor *out;      /* op->n_outputs, all zeros */
    uint64_t seed;        /* of an op marked random */
} ref_call;

typedef void ref_function(const ref_call *call);

/* `ref_<type>` for every op type. */
#define X(type) ref_function neap_ref_##type;
#include "graph/ops.def"
#undef X

/* An attribute that the op has: ref.c checks that before. */
int64_t neap_ref_int(const ref_call *call, const char *name);
double neap_ref_real(const ref_call *call, const char *name);
/* Product of the extents from dimension `first` up to but not including `last`. */
int64_t neap_ref_extent(const ref_tensor *x, uint32_t first, uint32_t last);

#endif
