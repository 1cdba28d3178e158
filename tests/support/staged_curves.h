/* The trade-off curves that tests/oracle/staged.py finds by trying everything, for tiny graphs. */
#ifndef NEAP_TESTS_STAGED_CURVES_H
#define NEAP_TESTS_STAGED_CURVES_H

#include <neap/graph.h>

typedef struct staged_point {
    int64_t peak, ticks; /* the least time within this peak, in the graph's ticks */
} staged_point;

/* By ascending peak. Below the first nothing fits; between two the time is that of the lower. */
typedef struct staged_curve {
    size_t count;
    staged_point *points;
} staged_curve;

/* Skips the test where there is no python3. */
void need_staged_oracle(void);

/* The curves of one form ("partitioned", "unpartitioned", "any"), one a graph, in one process. */
staged_curve *staged_curves(neap_graph *const *graphs, size_t count, const char *form);
void staged_curves_free(staged_curve *curves, size_t count);

/* The least ticks within a budget; -1 where nothing fits. */
int64_t staged_ticks(const staged_curve *curve, int64_t budget);

#endif
