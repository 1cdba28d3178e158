/*
 * A kernel that is one primitive of oneDNN: operands that do not lie as the primitive has them are
 * copied into the workspace before, or out of it after.
 */
#ifndef NEAP_RUN_DNNL_CALL_H
#define NEAP_RUN_DNNL_CALL_H

#include "run/backends/onednn/dnnl_api.h"
#include "run/backends/onednn/omp_rows.h"

/* Which operand of the op an operand of the problem is, and how it lies. */
typedef struct dnnl_source {
    bool is_result;
    uint32_t index;
    dnnl_layout ours;
    bool uneven;   /* no layout says how: the rows are copied to or from a matrix without gaps */
    omp_rows rows; /* if so */
} dnnl_source;

/* Done beside the primitive, for a bias that the library does not take. */
typedef enum dnnl_bias_work {
    DNNL_BIAS_NONE,
    DNNL_BIAS_ADD, /* result 0 += operand 2 */
    DNNL_BIAS_SUM  /* result 1 = operand 0 summed over all but the channels */
} dnnl_bias_work;

/* One way to do an op. */
typedef struct dnnl_choice {
    dnnl_problem problem;
    int implementation; /* number in the library's order */
    int64_t parts;      /* the problem is one of so many equal parts of the batch, done in turn, so
                           that copies of images take less room; sources are of the whole */
    dnnl_source sources[DNNL_OPERAND_SCRATCH];
    dnnl_bias_work bias_work;
    omp_rows bias_rows; /* of what the bias is added to, or summed from */
} dnnl_choice;

/* Its workspace in bytes. NEAP_UNSUPPORTED if the library has no such implementation. */
neap_status neap_dnnl_call_workspace(neap_backend *backend, const dnnl_choice *choice,
                                     int64_t *bytes, neap_diag *diag);
neap_status neap_dnnl_call_prepare(neap_backend *backend, const dnnl_choice *choice,
                                   run_kernel **kernel, neap_diag *diag);

#endif
