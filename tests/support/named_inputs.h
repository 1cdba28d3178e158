/*
 * Numbers for the inputs of a graph that are derived from their names, as in tools/torch_values.py,
 * which explains how.
 */
#ifndef NEAP_TESTS_NAMED_INPUTS_H
#define NEAP_TESTS_NAMED_INPUTS_H

#include <neap/graph.h>

/* The step's seed that goes with them. */
#define NAMED_STEP_SEED 1

typedef struct named_input {
    uint64_t key;
    uint64_t limit; /* of integers; 0 for floats */
    double factor, offset;
} named_input;

/* `value` is an input of the graph, f32 or i64 or i32. */
named_input named_input_of(const neap_graph *graph, uint32_t value);
/* Element i, row-major: an f32, or an integer. */
double named_input_at(const named_input *input, int64_t i);
/* All elements, in the value's type. */
void named_input_fill(const neap_graph *graph, uint32_t value, void *elements);

/* What element i of a parameter's gradient counts in its projection. */
double named_weight(const char *parameter, int64_t i);

#endif
