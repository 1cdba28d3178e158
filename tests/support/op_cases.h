/*
 * Small networks: every op type alone, in all its forms, and whole networks. A case is all that a
 * new op type needs: its ops, shapes, attributes and counts are compared with the table, gradients
 * with finite differences, broken operands must be refused, and every backend runs it.
 *
 * Every input of an op under test is a parameter, so that its gradient is wanted, unless the case
 * is about that.
 */
#ifndef NEAP_TESTS_OP_CASES_H
#define NEAP_TESTS_OP_CASES_H

#include <neap/network.h>

typedef struct op_case {
    const char *name; /* begins with the type of the op under test, which is called "op" */
    neap_tensor (*build)(neap_network *net);
    neap_kernels kernels;
    neap_dtype dtype;
    const char *ops; /* all that the case must give, but for the probe, as op_text.h writes it */
} op_case;

/* Cases of one op each. */
size_t op_case_count(void);
const op_case *op_case_at(size_t index);

/* What they are made of, a list a file. */
typedef struct op_case_list {
    const op_case *cases;
    size_t count;
} op_case_list;

extern const op_case_list layer_cases, function_cases, array_cases;

extern const op_case network_cases[];
extern const size_t n_network_cases;

/* A case with an optimizer: its ops are those behind the backward pass, and running statistics. */
typedef struct update_case {
    op_case base;
    neap_training training;
} update_case;

extern const update_case update_cases[];
extern const size_t n_update_cases;

/*
 * The training graph of a case. What the builder returns becomes a scalar, if it is not one, by the
 * product with a parameter "probe.weight", after a reshape "flat"; so its gradient is that
 * parameter.
 */
neap_graph *op_case_graph(const op_case *c);
neap_graph *update_case_graph(const update_case *c);

/* Rank and shape as two arguments. */
#define SHAPE(...)                                                                                 \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                    \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

#endif
