#include "planners/common/batch_sizes.h"

#include <string.h>

void neap_batch_mark_fixed(const neap_graph *graph, bool *is_fixed)
{
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        const neap_value *value = neap_graph_value(graph, v);
        bool parameter = strcmp(value->kind, NEAP_KIND_PARAMETER) == 0;
        bool gradient = strcmp(value->kind, NEAP_KIND_GRADIENT) == 0;
        if (parameter || (gradient && neap_graph_is_output(graph, v)))
            is_fixed[value->storage] = true;
    }
}
