/*
 * neap/planner.h - the methods, and the one call that plans, judges and lays out.
 *
 *     neap_request request;
 *     neap_request_init(&request, graph, "sqrt");
 *     request.budget = 8LL << 30;
 *     neap_solution *solution;
 *     if (neap_solve(NULL, &request, &solution, &diag) == NEAP_OK && neap_solution_plan(solution))
 * ...
 *
 * Outcome apart from status: the status says whether the call worked, the outcome what was found.
 * Every plan that comes out has passed the judge, and what the method predicted equals the judge's
 * figures exactly; if not, the call fails with NEAP_INTERNAL.
 *
 * Methods are listed by neap_methods_at; each describes itself and its options.
 */
#ifndef NEAP_PLANNER_H
#define NEAP_PLANNER_H

#include <neap/check.h>
#include <neap/plan.h>
#include <neap/progress.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum neap_outcome {
    NEAP_OPTIMAL = 0, /* proven: no plan within the budget and of bound_scope is faster; with the
                         objective NEAP_LEAST_PEAK: none has a lower peak */
    NEAP_FEASIBLE,    /* a plan within the budget */
    NEAP_INFEASIBLE,  /* this method has none; see least_budget */
    NEAP_TIME_LIMIT,  /* stopped by the time limit; the best plan so far, if any */
    NEAP_INTERRUPTED  /* stopped by the caller; likewise */
} neap_outcome;

/* "optimal", "feasible", "infeasible", "time_limit", "interrupted". */
NEAP_API const char *neap_outcome_name(neap_outcome outcome);

/* ---- The methods ---- */

typedef enum neap_option_type {
    NEAP_OPTION_INTEGER = 0,
    NEAP_OPTION_REAL,
    NEAP_OPTION_CHOICE
} neap_option_type;

/* An option describes itself. */
typedef struct neap_option {
    const char *name;
    const char *meaning;
    neap_option_type type;
    double least, most, default_value; /* of a number */
    const char *choices;               /* of a choice: "first|second"; the first is the default */
} neap_option;

typedef struct neap_method neap_method;

NEAP_API uint32_t neap_methods_count(void);
NEAP_API const neap_method *neap_methods_at(uint32_t index);
NEAP_API const neap_method *neap_methods_find(const char *name); /* NULL: none */
/* The known name nearest to a misspelt one, or NULL where none is near. */
NEAP_API const char *neap_methods_nearest(const char *name);
NEAP_API const char *neap_method_name(const neap_method *method);
NEAP_API const char *neap_method_summary(const neap_method *method); /* one line */
NEAP_API const char *neap_method_source(const neap_method *method);  /* the paper */
/* Whether it moves values to host memory: without a link (neap_request.link) with bandwidth both
   ways it is NEAP_UNSUPPORTED. */
NEAP_API bool neap_method_needs_link(const neap_method *method);
/* Whether it knows objectives other than time, pins, and plans to start from. */
NEAP_API bool neap_method_takes_constraints(const neap_method *method);
/* The method that begins with this one's plan and so is never worse; NULL: none. */
NEAP_API const char *neap_method_part_of(const neap_method *method);
NEAP_API uint32_t neap_method_option_count(const neap_method *method);
NEAP_API const neap_option *neap_method_option_at(const neap_method *method, uint32_t index);

/* ---- Asking ---- */

typedef struct neap_option_setting {
    const char *name;
    const char *value; /* as text */
} neap_option_setting;

typedef enum neap_objective {
    NEAP_LEAST_TIME = 0, /* within the budget */
    NEAP_LEAST_PEAK      /* whatever the time; within the budget, if there is one */
} neap_objective;

/* A wish about tensors, by name. */
typedef enum neap_pin_kind {
    NEAP_PIN_KEEP = 0,     /* resident from its making to its last use */
    NEAP_PIN_NO_RECOMPUTE, /* made once */
    NEAP_PIN_NO_OFFLOAD    /* never copied to the host */
} neap_pin_kind;

typedef struct neap_pin {
    neap_pin_kind kind;
    const char *pattern; /* of names of values, or of ops for all that they make; `*` and `?` */
} neap_pin;

typedef struct neap_request {
    const neap_graph *graph;
    const char *method;
    int64_t budget;     /* bytes; -1: none */
    neap_link link;     /* all zero: no transfers */
    double time_limit;  /* seconds; 0: none */
    double target_time; /* seconds: a plan this fast is good enough and slower ones are of no use;
                           0: none. A method may stop at the first such plan. */
    int threads;        /* 0: as many as the machine has */
    uint64_t seed;
    int64_t alignment; /* of addresses; default 1 */
    uint32_t n_options;
    const neap_option_setting *options; /* of the method */
    neap_progress *progress;            /* may be NULL */
    double gap; /* a plan proven to be within this of the best is good enough: 0.01 is 1% */
    /* Of methods that take wishes (neap_method_takes_constraints); others are NEAP_UNSUPPORTED. */
    neap_objective objective;
    uint32_t n_pins;
    const neap_pin *pins;
    const neap_plan *start; /* a plan for this graph, of any budget, to begin with; or NULL */
} neap_request;

NEAP_API void neap_request_init(neap_request *request, const neap_graph *graph, const char *method);

typedef struct neap_solution neap_solution;

/* Something a method tells besides: its own objective, its checkpoints. */
typedef struct neap_extra {
    const char *name;
    bool is_list;
    double number; /* if not a list */
    size_t n_items;
    const int64_t *items; /* if a list */
} neap_extra;

typedef struct neap_figures {
    neap_outcome outcome;
    int64_t budget_bytes; /* -1: none */
    int64_t peak_bytes;   /* these by the judge; -1 (or negative) where there is no plan */
    int64_t arena_bytes;
    double time;
    double base_time;  /* every op once, variant 0 */
    double overhead;   /* time / base_time - 1 */
    double bound_time; /* proven: no plan in this budget and of bound_scope is faster; the sum of
                          fastest variants at least */
    const char *bound_scope; /* "any": all plans; "order": those whose ops run for the first time in
                                the graph's order; "staged": those whose recomputations between two
                                first runs follow the graph's order, and first runs too;
                                "passes": as many passes in the graph's order as there are ops;
                                "once": those that run each op once, in the graph's order, and move
                                only what the forward pass made */
    double gap;              /* time / bound_time - 1 */
    double solve_seconds;
    uint64_t recomputed_ops;
    int64_t offloaded_bytes;
    int64_t floor_bytes;  /* no plan of any method needs less (neap_graph_floor_bytes) */
    uint32_t floor_op;    /* the op that touches so much by itself; NEAP_NONE: the outputs do */
    int64_t least_budget; /* when infeasible: the least this method can do; -1 unknown */
    uint32_t blocking_op; /* when infeasible: the op that sets that peak; NEAP_NONE unknown */
} neap_figures;

/*
 * Plans. NEAP_INVALID for an unknown method or option, a value out of bounds, or a budget of 0 or
 * less other than -1. The solution is the caller's to destroy.
 */
NEAP_API neap_status neap_solve(neap_allocator *allocator, const neap_request *request,
                                neap_solution **solution, neap_diag *diag);
NEAP_API void neap_solution_destroy(neap_solution *solution);
NEAP_API const neap_figures *neap_solution_figures(const neap_solution *solution);
/* NULL where there is no plan. It belongs to the solution. */
NEAP_API const neap_plan *neap_solution_plan(const neap_solution *solution);
NEAP_API uint32_t neap_solution_extra_count(const neap_solution *solution);
NEAP_API const neap_extra *neap_solution_extra_at(const neap_solution *solution, uint32_t index);
/* Without a plan: what is short, if it is not the budget alone; "" otherwise. */
NEAP_API const char *neap_solution_shortage(const neap_solution *solution);
/* One line for a person on why there is no plan, or on what else is worth knowing; "" otherwise. */
NEAP_API const char *neap_solution_message(const neap_solution *solution);

/* The peak of the natural order, each value freed after its last use, by the judge: what training
   needs without a plan. Budgets in percent refer to it. */
NEAP_API neap_status neap_natural_peak(neap_allocator *allocator, const neap_graph *graph,
                                       int64_t *peak, neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
