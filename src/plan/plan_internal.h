/* The definition of neap_plan. */
#ifndef NEAP_PLAN_INTERNAL_H
#define NEAP_PLAN_INTERNAL_H

#include <neap/plan.h>

struct neap_plan {
    neap_allocator *allocator;
    char *graph_name, *method; /* owned, NUL-terminated */
    int64_t budget;            /* -1: none */
    neap_step *steps;
    size_t n_steps, step_capacity;
    uint32_t *host_at_start; /* ascending */
    size_t n_host;
    int64_t *offsets;
    size_t n_offsets;
    int64_t arena_bytes; /* -1 without offsets */
};

#endif
