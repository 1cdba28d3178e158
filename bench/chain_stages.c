/*
 * The stages of a graph's chain view.
 *
 *     chain_stages GRAPH
 *
 * Prints JSON, one list per stage: [[first forward op, end, first backward op, end], ...].
 */
#include <neap/chain.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    neap_graph *graph;
    neap_chain chain;
    neap_diag diag;
    if (argc != 2) {
        fprintf(stderr, "usage: chain_stages GRAPH\n");
        return 2;
    }
    if (neap_graph_read_file(NULL, argv[1], &graph, &diag) != NEAP_OK ||
        neap_chain_build(NULL, graph, &chain, &diag) != NEAP_OK) {
        fprintf(stderr, "%s\n", diag.message);
        return 1;
    }
    printf("[");
    for (uint32_t i = 0; i < chain.n_stages; i++) {
        const neap_stage *s = &chain.stages[i];
        printf("%s[%u, %u, %u, %u]", i ? ", " : "", s->first_op, s->end_op, s->first_backward,
               s->end_backward);
    }
    printf("]\n");
    neap_chain_clear(&chain);
    neap_graph_destroy(graph);
    return 0;
}
