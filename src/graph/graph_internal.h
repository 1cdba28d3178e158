/* The definition of neap_graph, for code that builds or re-costs graphs. Readers use neap/graph.h.
 */
#ifndef NEAP_GRAPH_INTERNAL_H
#define NEAP_GRAPH_INTERNAL_H

#include "base/arena.h"

#include <neap/graph.h>

typedef struct neap_floor {
    int64_t bytes;
    uint32_t op; /* that needs as much; NEAP_NONE: the outputs do */
} neap_floor;

struct neap_graph {
    neap_allocator *allocator;
    neap_arena arena; /* names, shapes, id lists, variants, and all that is derived below */
    const char *name;
    const char *extra;       /* unknown fields of the file, as JSON members; or NULL */
    const char *measured_on; /* or NULL */
    int64_t fixed_bytes;

    neap_value *values;
    size_t n_values, value_capacity;
    neap_op *ops;
    size_t n_ops, op_capacity;
    uint32_t *outputs;
    size_t n_outputs, output_capacity;

    /* Derived by neap_graph_derive. */
    bool *is_output;        /* per value */
    uint32_t *reader_start; /* n_values + 1: the readers of v are readers[reader_start[v] ...] */
    uint32_t *readers;
    uint32_t *ordinary_order; /* n_ops */
    bool *is_side_update;     /* per op */
    int64_t base_bytes;
    neap_floor floor, floor_with_travel; /* state on the device; state that travels */
    uint32_t *seen;                      /* per value: marks while floors are derived */
    int64_t ticks_per_second, base_ticks, least_ticks;

    /* Of a graph in pieces (neap/split.h); NULL for others. */
    neap_graph *whole;     /* owned */
    uint32_t *whole_value; /* per value */
    uint32_t *whole_op;    /* per op */
    uint32_t *first_piece; /* per value of the whole graph, and one past the last */
};

struct neap_graph_builder {
    neap_allocator *allocator;
    neap_graph *graph; /* under construction; NULL once handed over */
};

/* Enforces every rule of docs/formats.md on a graph whose lists are complete, and derives its
 * storages. */
neap_status neap_graph_validate(neap_graph *graph, neap_diag *diag);

/* Finds the storage of every value; view_of ids are valid and without cycles. */
void neap_graph_derive_storages(neap_graph *graph);

/* Producers, readers, ticks of a valid graph. */
neap_status neap_graph_derive(neap_graph *graph, neap_diag *diag);

/*
 * Replaces every op's variants: counts[o] of them for op o, one after the other in `variants`, of
 * which seconds and workspace are read. NULL counts: one each. NEAP_INVALID, and nothing changed,
 * where a time is negative or not finite.
 */
neap_status neap_graph_set_variants(neap_graph *graph, const neap_variant *variants,
                                    const uint32_t *counts, neap_diag *diag);

/* Says whose kernels the variants are, after neap_graph_set_variants, which takes it back. */
neap_status neap_graph_set_measured_on(neap_graph *graph, const char *machine, neap_diag *diag);

/* Both floors (floor.c), from variants and marks of runs in place. */
void neap_graph_derive_floors(neap_graph *graph);

int64_t neap_attr_int(const neap_attr *attr);
/* The attribute of an op, or the fallback where it has none of that name. */
int64_t neap_op_attr_int(const neap_op *op, const char *name, int64_t fallback);
double neap_op_attr_real(const neap_op *op, const char *name, double fallback);

#endif
