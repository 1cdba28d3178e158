/* The executor's struct, for the file that runs steps and the one that gives access to arrays. */
#ifndef NEAP_RUN_RUNNER_INTERNAL_H
#define NEAP_RUN_RUNNER_INTERNAL_H

#include "run/block.h"
#include "run/program.h"
#include "run/queue.h"
#include "run/resident.h"

/* Kernels by signature and variant. */
typedef struct kernel_table {
    run_kernels base;
    run_specs *specs;
    neap_backend *backend;
    run_kernel **items; /* by the first op with the same signature and the kernel's number */
    size_t count;
} kernel_table;

struct neap_runner {
    neap_allocator *allocator;
    const neap_graph *graph;
    neap_backend *backend;
    neap_run_options options;
    neap_plan *placed; /* the plan with addresses assigned here; NULL if it had its own */
    run_specs specs;
    kernel_table kernels;
    run_block arena, host;
    run_program program;
    run_queue *queue;
    run_ticket *copies_in, *copies_out; /* by storage: the latest ones; NULL without transfers */
    neap_run_report recorded;           /* of the step that the queue replays */
    run_block *mirrors; /* by value of the whole graph: arrays of a device in the host's memory */
    run_resident resident; /* with options.trace_memory */
    run_ticket *copies;    /* with options.measure, by step of the plan: the copy of a transfer */
};

#endif
