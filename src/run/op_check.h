/*
 * Whether the operands of an op are those that its type takes: their number, types and shapes, and
 * the attributes that say how the shapes belong together. Graphs that neap builds are always right;
 * one from a file may be anything, and a kernel that trusted it would read where nothing is.
 */
#ifndef NEAP_RUN_OP_CHECK_H
#define NEAP_RUN_OP_CHECK_H

#include "run/backend.h"

/*
 * NEAP_OK, or NEAP_UNSUPPORTED with what does not fit. Floats may be of any floating type, each
 * operand of its own: which ones a backend has kernels for is its own affair.
 */
neap_status neap_run_check_op(const run_spec *spec, neap_diag *diag);

#endif
