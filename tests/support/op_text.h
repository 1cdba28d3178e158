/*
 * An op in one line, as tables of tests write it:
 *
 *     linear_bw_weight(dy, x) -> dw f32[5,4], db f32[5] {bias=1}: 120 MACs, 270 FLOPs, 316 bytes
 *
 * Values of the op under test, called "op", lose that prefix, and its output is y: "op" is y,
 * "op.mask" mask.
 * "<value>.grad" is d<value>, the second one d<value>.1. Attributes that are those of `like` are
 * "{same}". An op that is marked in place ends with "(dx over dy)".
 */
#ifndef NEAP_TESTS_OP_TEXT_H
#define NEAP_TESTS_OP_TEXT_H

#include <neap/graph.h>
#include <stdio.h>

/* Writes the line, with its newline. */
void op_text(FILE *out, const neap_graph *graph, const neap_op *op, const neap_op *like);

#endif
