/*
 * oneDNN behind functions of our own, the same for its releases 2 and 3.
 *
 * Only dnnl_api.c sees the library. A *problem* is a computation on operands of given layouts; the
 * library has several implementations of it, in its own order of preference. A primitive is one of
 * them: first described (its layouts and the scratch it needs can be asked for), then compiled,
 * then run at addresses. Primitives never allocate scratch themselves.
 */
#ifndef NEAP_RUN_DNNL_API_H
#define NEAP_RUN_DNNL_API_H

#include "run/backends/onednn/onednn.h"

neap_status neap_dnnl_api_open(neap_allocator *allocator, int threads, dnnl_api **api,
                               neap_diag *diag);
void neap_dnnl_api_close(dnnl_api *api); /* NULL is fine */

/* Of the library at run time: "2.6.3". */
void neap_dnnl_version(char *buffer, size_t capacity);
const char *neap_dnnl_api_version(const dnnl_api *api);
/* What of the processor the library uses: "avx512". */
const char *neap_dnnl_api_isa(void);

#define DNNL_LAYOUT_RANK 12 /* of the library's own arrays */

/* How an f32 operand lies in memory. */
typedef struct dnnl_layout {
    int rank;  /* 0: there is no such operand */
    bool free; /* as the implementation likes it; strides do not matter */
    int64_t shape[DNNL_LAYOUT_RANK];
    int64_t strides[DNNL_LAYOUT_RANK]; /* in elements */
} dnnl_layout;

/* Backward, an operand or its gradient: the one that the direction has. */
typedef enum dnnl_operand {
    DNNL_OPERAND_SRC,
    DNNL_OPERAND_WEIGHTS,
    DNNL_OPERAND_BIAS,
    DNNL_OPERAND_DST,
    DNNL_OPERAND_SCRATCH,
    DNNL_OPERANDS
} dnnl_operand;

typedef enum dnnl_problem_kind {
    DNNL_CONV,
    DNNL_CONV_BW_DATA,
    DNNL_CONV_BW_WEIGHTS,
    DNNL_MATMUL /* dst = src weights + bias */
} dnnl_problem_kind;

typedef struct dnnl_problem {
    dnnl_problem_kind kind;
    const char *name; /* for messages; must live as long as the call */
    bool winograd;
    bool relu; /* of a forward convolution's result */
    dnnl_layout operands[DNNL_OPERAND_SCRATCH];
    int64_t strides[2], dilations[2], pads_begin[2], pads_end[2]; /* height, width */
} dnnl_problem;

typedef struct dnnl_api_primitive dnnl_api_primitive;

/*
 * Describes implementation number `index` of a problem; *primitive is NULL after the last one, or
 * where the library has none at all.
 */
neap_status neap_dnnl_api_describe(dnnl_api *api, const dnnl_problem *problem, int index,
                                   dnnl_api_primitive **primitive, neap_diag *diag);
typedef enum dnnl_copy_way {
    DNNL_COPY_IN,  /* from a layout of ours into that of a primitive's operand */
    DNNL_COPY_OUT, /* back */
    DNNL_COPY_ADD  /* back, added to what is there */
} dnnl_copy_way;

/* Describes a copy. Its operands are SRC and DST. */
neap_status neap_dnnl_api_describe_reorder(const dnnl_api_primitive *of, dnnl_operand operand,
                                           const dnnl_layout *ours, dnnl_copy_way way,
                                           dnnl_api_primitive **primitive, neap_diag *diag);
void neap_dnnl_api_destroy(dnnl_api_primitive *primitive); /* NULL is fine */

/* "brgconv:avx512_core" */
const char *neap_dnnl_api_implementation(const dnnl_api_primitive *primitive);
/* Of an operand as the primitive has it, or of its scratch. */
int64_t neap_dnnl_api_bytes(const dnnl_api_primitive *primitive, dnnl_operand operand);
/* Whether an operand lies as `ours` says. */
bool neap_dnnl_api_lies(const dnnl_api_primitive *primitive, dnnl_operand operand,
                        const dnnl_layout *ours);

neap_status neap_dnnl_api_compile(dnnl_api_primitive *primitive, neap_diag *diag);
/* addresses by dnnl_operand; of those there are not, any. */
neap_status neap_dnnl_api_run(const dnnl_api_primitive *primitive,
                              void *const addresses[DNNL_OPERANDS], neap_diag *diag);

#endif
