#include "show_graph.h"

#include <stdio.h>

void show_graph(const neap_graph *graph)
{
    char *text;
    size_t length;
    if (neap_graph_write_text(graph, NULL, &text, &length, NULL) != NEAP_OK)
        return;
    for (char *c = text; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    fprintf(stderr, "%s\n", text); /* longer than what cmocka's print_error prints */
    neap_release(NULL, text, length + 1);
}
