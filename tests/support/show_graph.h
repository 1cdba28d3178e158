/* Failures that print the graph on which they occurred. */
#ifndef NEAP_TESTS_SHOW_GRAPH_H
#define NEAP_TESTS_SHOW_GRAPH_H

#include <neap/graph.h>

/* The graph as JSON on one line of stderr. */
void show_graph(const neap_graph *graph);

/* Unless the condition holds, shows the graph and fails with a message. For files that include
   cmocka.h. */
#define NEED(graph, condition, ...)                                                                \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            show_graph(graph);                                                                     \
            fail_msg(__VA_ARGS__);                                                                 \
        }                                                                                          \
    } while (0)

#endif
