/* peak_ops.h - the ops whose results take the most memory when a step without a plan takes most. */
#ifndef NEAP_CLI_PEAK_OPS_H
#define NEAP_CLI_PEAK_OPS_H

#include <neap/graph.h>

enum { CLI_PEAK_OPS = 5 };

typedef struct cli_peak_op {
    uint32_t op;
    int64_t bytes; /* of its results that are in memory then */
} cli_peak_op;

typedef struct cli_peak_ops {
    cli_peak_op items[CLI_PEAK_OPS]; /* the largest first */
    uint32_t count;
} cli_peak_ops;

/*
 * What is in memory when a step without a plan takes most: live[v], zero at first, becomes the
 * number of resident values on storage v. *op is the op that runs then; NEAP_NONE: none does.
 */
neap_status cli_peak_live(const neap_graph *graph, uint32_t *live, uint32_t *op, neap_diag *diag);

neap_status cli_peak_ops_find(const neap_graph *graph, cli_peak_ops *ops, neap_diag *diag);

#endif
