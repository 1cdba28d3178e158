/*
 * Functions that a file defines itself: every call becomes the nodes of its function.
 *
 * The values inside get names of their own, "call/value", that no other value has; those that the
 * call names keep its names. An input that a call leaves out is left out by the nodes that read it.
 * An attribute that refers to one of the function's is that of the call, or has its default, or is
 * left out.
 */
#ifndef NEAP_ONNX_FUNCTIONS_H
#define NEAP_ONNX_FUNCTIONS_H

#include "onnx/proto.h"

/*
 * Replaces the nodes of `proto`, in the arena, unless it has no functions. NEAP_INVALID, with the
 * names of the node and of the call that leads to it, for functions that call themselves, read what
 * nothing computes, or get more inputs or outputs than they have. NEAP_UNSUPPORTED for functions of
 * another opset, and where more would be inlined than neap takes: a file of a kilobyte can ask for
 * any number of nodes.
 */
neap_status neap_onnx_functions_inline(neap_arena *arena, const char *source, onnx_proto *proto,
                                       neap_diag *diag);

#endif
