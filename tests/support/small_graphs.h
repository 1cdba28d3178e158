/* Graphs and plans small enough to compute by hand, each written in one line. */
#ifndef NEAP_TESTS_SMALL_GRAPHS_H
#define NEAP_TESTS_SMALL_GRAPHS_H

#include <neap/plan.h>

/* The example of the file contract. 4096 fixed; x 100 (input), h 200, hT (a view of h), loss 4, dh
 * 200. */
extern const char tiny_graph[];
#define TINY_PLAN "c0.1 c1 c2 f1 c3 f2"

/* x 10 (input) -> a 100 -> b 200; a and b -> c 50. Each op takes a second. Values 0 to 3. */
extern const char abc_graph[];

/* Reads JSON in which ' stands for ". The test fails if it is not a graph. */
neap_graph *graph_from(const char *json);

/* The model `chain` with so many layers: every op takes a second, every value a byte but the data
 * none. */
neap_graph *unit_chain(int64_t layers);

/* Steps such as "c0.1 f3 o2 p2 c1!": compute op 0 by variant 1, free value 3, offload, prefetch
 * value 2, compute op 1 in place. "h4" at the beginning: state value 4 is on the host at the start.
 */
neap_plan *plan_from(const char *steps);

#endif
