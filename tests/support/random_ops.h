/* Small random networks around one op each, with common and with unusual attributes and sizes. */
#ifndef NEAP_TESTS_RANDOM_OPS_H
#define NEAP_TESTS_RANDOM_OPS_H

#include "random_plan.h"

#include <neap/network.h>

typedef struct random_op {
    const char *name;
    neap_tensor (*build)(neap_network *net, random_source *random);
} random_op;

extern const random_op random_ops[];
extern const size_t n_random_ops;

/* The training graph of one in f32. What the op reads as data is an activation, so that it may lie
   in memory in any way, and its gradient is wanted. */
neap_graph *random_op_graph(const random_op *op, random_source *random);

#endif
