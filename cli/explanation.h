/*
 * explanation.h - what neap explain finds out, and who prints it.
 *
 * Every figure comes from a plan that was made and judged, or is proven; one that was not found in
 * time is marked as missing. explain.c does the work in the order of the fields, explain_changes.c
 * tries what would help, explain_text.c and explain_json.c print.
 */
#ifndef NEAP_CLI_EXPLANATION_H
#define NEAP_CLI_EXPLANATION_H

#include "layers.h"
#include "output.h"
#include "solve.h"

#include <neap/text.h>

enum { EXPLAIN_TENSORS = 5, EXPLAIN_POINTS = 9 };

/* What sets the peak of a step without a plan. */
typedef struct explain_peak {
    uint32_t op; /* that runs then; NEAP_NONE: none */
    neap_memory_parts parts;
    uint32_t n_tensors;
    uint32_t tensors[EXPLAIN_TENSORS]; /* the largest storages then, the largest first */
    cli_top_layers layers; /* bytes that belong to them: parameters, state, results of their ops */
} explain_peak;

/* What the plan for the budget does. */
typedef struct explain_plan {
    uint64_t in_place;       /* runs in place */
    uint32_t other_kernels;  /* ops that do not run with their first variant */
    int64_t host_state;      /* bytes of state on the host between steps */
    int64_t recompute_ticks; /* of all recomputations */
    cli_top_layers layers;   /* ticks of recomputations of their ops */
} explain_plan;

/* One point of the curve of overhead against budget. */
typedef struct explain_point {
    int64_t budget;
    bool feasible;
    double overhead;
} explain_point;

typedef struct explain_curve {
    uint32_t count; /* 0: not known */
    explain_point points[EXPLAIN_POINTS];
    bool cut_short; /* some plans are not the best: the time was up */
    /*
     * The knee: the feasible point that is farthest below the straight line from the first feasible
     * point to the last, with both axes scaled to 1. -1: there is none, because fewer than three
     * points are feasible or none is below the line by LEAST_BEND.
     */
    int knee;
    int first; /* the smallest feasible point; -1: none */
} explain_curve;

/* What could help. */
typedef enum explain_kind {
    EXPLAIN_BATCH_FREE,  /* the largest batch at which the budget costs nothing */
    EXPLAIN_BATCH_CHEAP, /* the same at which it costs less than EXPLAIN_CHEAP */
    EXPLAIN_LINK,        /* copies to the host */
    EXPLAIN_STATE,       /* state on the host, where there is a link already */
    EXPLAIN_IN_PLACE,
    EXPLAIN_OPTIMIZER, /* updates in the step, so that gradients do not stay to the end */
    EXPLAIN_DTYPE,
    EXPLAIN_CHANGES
} explain_kind;

#define EXPLAIN_CHEAP 0.05
/* An overhead below this is printed as nothing. */
#define EXPLAIN_NOTHING 5e-5

typedef enum explain_state {
    EXPLAIN_NOT_APPLICABLE = 0,
    EXPLAIN_NOT_REACHED, /* interrupted, or out of time */
    EXPLAIN_TRIED
} explain_state;

typedef struct explain_change {
    explain_state state;
    cli_text option; /* to type: "--batch 40" */
    cli_text note;   /* what it means here; may be empty */
    bool feasible;
    double overhead; /* if feasible */
    int64_t peak;
    int64_t moved, host_state; /* bytes copied to the host, and of state that is there */
    int64_t batch;             /* for the batches: 0: none is small enough */
    int64_t next_batch;        /* the smallest that is too large; and whether it fits, at what */
    bool next_feasible;
    double next_overhead;
} explain_change;

/* Kernels with the least workspace, each op once, without a plan. */
typedef struct explain_kernels {
    uint32_t choices; /* ops with several kernels; 0: there is nothing to choose */
    int64_t peak;
    double overhead;
} explain_kernels;

typedef struct explanation {
    const cli_settings *settings;
    cli_loaded model;    /* its natural_peak is known */
    neap_layers *layers; /* of its graph */
    const char *method;
    int64_t budget; /* -1: none */
    double begin;   /* when the work began */
    cli_run run;

    double base_time;
    explain_peak peak;
    explain_kernels kernels;
    cli_result result; /* for the budget; all zero without one */
    explain_plan plan;
    cli_result least; /* if the budget is infeasible: the plan of the least peak; or all zero */
    explain_curve curve;
    explain_change changes[EXPLAIN_CHANGES];
    bool stopped; /* by Ctrl-C */
} explanation;

/* Seconds that a part of the work may take: a share of what is left of the time limit, which is 0
   if there is no limit. */
double explain_seconds(const explanation *e, double share);

/* Plans a model that may differ from the explained one, with settings that may, too. */
int explain_solve(explanation *e, const cli_settings *settings, const cli_loaded *model,
                  int64_t budget, double seconds, cli_result *result);
/* Bytes of state that a plan has on the host between steps. */
int64_t explain_host_state(const neap_graph *graph, const neap_plan *plan);

/* Tries everything that applies. Returns an exit code; what was not reached is marked. */
int explain_try_changes(explanation *e);
/* Whether a change is better than the plan without it. */
bool explain_helps(const explanation *e, const explain_change *change);

void explain_add_text(const explanation *e, neap_text *out);
void explain_add_json(const explanation *e, neap_text *out);

#endif
