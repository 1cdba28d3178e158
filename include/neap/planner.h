/*
 * neap/planner.h - the planning methods, and requests to them. neap/solve.h runs a request.
 *
 *     for (uint32_t i = 0; i < neap_methods_count(); i++)
 *         puts(neap_method_summary(neap_methods_at(i)));
 *
 * Every method and every option has a description.
 */
#ifndef NEAP_PLANNER_H
#define NEAP_PLANNER_H

#include <neap/plan.h>
#include <neap/progress.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The methods ---- */

typedef enum neap_option_type {
    NEAP_OPTION_INTEGER = 0,
    NEAP_OPTION_REAL,
    NEAP_OPTION_CHOICE,
    NEAP_OPTION_LIST /* of whole numbers: "3,6,24" or "[3, 6, 24]"; empty by default */
} neap_option_type;

/* An option of a method. */
typedef struct neap_option {
    const char *name;
    const char *meaning;
    neap_option_type type;
    double least, most, default_value; /* for numbers; least and most also for those of a list */
    const char *choices;               /* for choices: "first|second"; the first is the default */
} neap_option;

typedef struct neap_method neap_method;

NEAP_API uint32_t neap_methods_count(void);
NEAP_API const neap_method *neap_methods_at(uint32_t index);
NEAP_API const neap_method *neap_methods_find(const char *name); /* NULL: none */
/* The known name most similar to a misspelt one; NULL if none is similar. */
NEAP_API const char *neap_methods_nearest(const char *name);
NEAP_API const char *neap_method_name(const neap_method *method);
NEAP_API const char *neap_method_summary(const neap_method *method); /* one line */
NEAP_API const char *neap_method_source(const neap_method *method);  /* the paper */
/* Whether it offloads values to host memory. Such a method returns NEAP_UNSUPPORTED unless the link
   (neap_request.link) has bandwidth in both directions. */
NEAP_API bool neap_method_needs_link(const neap_method *method);
/* Whether it supports objectives other than time, pins, and plans to start from. */
NEAP_API bool neap_method_takes_constraints(const neap_method *method);
/* The method that starts from this one's plan and is therefore never worse; NULL: none. */
NEAP_API const char *neap_method_part_of(const neap_method *method);
NEAP_API uint32_t neap_method_option_count(const neap_method *method);
NEAP_API const neap_option *neap_method_option_at(const neap_method *method, uint32_t index);

/* ---- Requests ---- */

typedef struct neap_option_setting {
    const char *name;
    const char *value; /* as text */
} neap_option_setting;

typedef enum neap_objective {
    NEAP_LEAST_TIME = 0, /* within the budget */
    NEAP_LEAST_PEAK      /* regardless of time; within the budget, if there is one */
} neap_objective;

/* A constraint on values, by name. */
typedef enum neap_pin_kind {
    NEAP_PIN_KEEP = 0,     /* resident from its production to its last use */
    NEAP_PIN_NO_RECOMPUTE, /* computed once */
    NEAP_PIN_NO_OFFLOAD    /* never copied to the host */
} neap_pin_kind;

typedef struct neap_pin {
    neap_pin_kind kind;
    const char
        *pattern; /* matches names of values, or names of ops for all their outputs; `*`, `?` */
} neap_pin;

/* Where state (neap_value.state) is between its uses, and when the step begins and ends. */
typedef enum neap_state_place {
    NEAP_STATE_AUTO = 0, /* wherever the plan is faster; on the device without a link */
    NEAP_STATE_DEVICE,   /* on the device throughout: it never travels */
    NEAP_STATE_HOST      /* all of it on the host when the step begins and ends */
} neap_state_place;

/* "auto", "device", "host". */
NEAP_API const char *neap_state_place_name(neap_state_place place);
/* The inverse; false for an unknown name. */
NEAP_API bool neap_state_place_from_name(const char *name, neap_state_place *place);

typedef struct neap_request {
    const neap_graph *graph;
    const char *method;
    int64_t budget;     /* bytes; -1: none */
    neap_link link;     /* all zero: no transfers */
    double time_limit;  /* seconds; 0: none */
    double target_time; /* seconds; 0: none. A method may stop at the first plan this fast; slower
                           plans are of no use to the caller. With NEAP_LEAST_PEAK: the first plan
                           this fast that has the least peak found */
    int threads;        /* 0: one per processor */
    uint64_t seed;
    int64_t alignment; /* of addresses; default 1 */
    uint32_t n_options;
    const neap_option_setting *options; /* of the method */
    neap_progress *progress;            /* may be NULL */
    double gap; /* stop once the plan is proven within this fraction of the optimum: 0.01 is 1% */
    /* Only methods with neap_method_takes_constraints support the fields below; the others return
       NEAP_UNSUPPORTED. */
    neap_objective objective;
    uint32_t n_pins;
    const neap_pin *pins;
    const neap_plan *start; /* a plan for this graph, of any budget, to start from; or NULL */
    /* NEAP_STATE_HOST needs a link with bandwidth both ways (else NEAP_INVALID). The methods that
       return NEAP_UNSUPPORTED for it keep all state on the device. */
    neap_state_place state;
} neap_request;

NEAP_API void neap_request_init(neap_request *request, const neap_graph *graph, const char *method);

/* An additional result of a method: its own objective, its checkpoints. */
typedef struct neap_extra {
    const char *name;
    bool is_list;
    bool is_bound; /* on what a plan within the budget can do: it does not describe this plan */
    double number; /* if not a list */
    size_t n_items;
    const int64_t *items; /* if a list */
} neap_extra;

/* The set of plans for which a bound on time is proven. */
typedef enum neap_scope {
    NEAP_SCOPE_ANY = 0,  /* all plans */
    NEAP_SCOPE_ORDER,    /* plans whose first runs, updates excepted, follow the natural order */
    NEAP_SCOPE_FRONTIER, /* the same; recomputations between two first runs also follow it */
    NEAP_SCOPE_PASSES,   /* as many passes in the natural order as there are ops */
    NEAP_SCOPE_ONCE      /* plans that run each op once, in the natural order, and transfer only
                            values that the forward pass wrote */
} neap_scope;

/* "any", "order", "frontier", "passes", "once". */
NEAP_API const char *neap_scope_name(neap_scope scope);
/* Whether a bound for plans of `scope` holds for all plans of `other`. */
NEAP_API bool neap_scope_covers(neap_scope scope, neap_scope other);

#ifdef __cplusplus
}
#endif
#endif
