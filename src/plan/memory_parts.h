/* The classes of memory: which part of a peak (neap_memory_parts) a storage belongs to. */
#ifndef NEAP_PLAN_MEMORY_PARTS_H
#define NEAP_PLAN_MEMORY_PARTS_H

#include <neap/plan.h>

/* In the order of the fields of neap_memory_parts. */
typedef enum neap_memory_class {
    NEAP_MEMORY_PARAMETERS = 0,
    NEAP_MEMORY_GRADIENTS,
    NEAP_MEMORY_STATE,
    NEAP_MEMORY_ACTIVATIONS,
    NEAP_MEMORY_WORKSPACE,
    NEAP_MEMORY_OTHER,
    NEAP_MEMORY_CLASSES
} neap_memory_class;

/* The class of a storage, by the value that owns it. Never workspace. */
neap_memory_class neap_memory_class_of(const neap_graph *graph, uint32_t storage);

int64_t *neap_memory_part(neap_memory_parts *parts, neap_memory_class part);

#endif
