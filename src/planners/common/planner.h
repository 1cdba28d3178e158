/*
 * How a method is written (docs/adding-a-method.md).
 *
 * A method is a file with one `const neap_method neap_method_<name>` and a line in
 * src/solve/methods.def. Its `plan` function gets a planner and fills in a draft. neap_solve does
 * the rest: it checks the options first, then judges the plan and assigns addresses. A method that
 * ends in a compute sequence calls neap_planner_use_sequence and is done.
 */
#ifndef NEAP_PLANNER_INTERNAL_H
#define NEAP_PLANNER_INTERNAL_H

#include "base/arena.h"

#include <neap/planner.h>

typedef struct neap_trial neap_trial;

/* Addresses for plans while the method still searches: a plan counts only if it can be placed. */
struct neap_trial {
    /* Judges a plan, looks for addresses within the budget in a share of the time that is left, and
       keeps the plan if they fit and it is the fastest such. Takes the plan over. *arena is what
       its addresses need. If they do not fit, copies are moved in time until they do, and that plan
       is kept, if possible. */
    neap_status (*place)(neap_trial *self, neap_plan *plan, double share, int64_t *arena,
                         neap_diag *diag);
    /* The fastest kept so far; NULL: none. */
    neap_plan *plan;
    int64_t peak, ticks;
};

typedef struct planner {
    neap_allocator *allocator;
    const neap_request *request;
    const neap_graph *graph;
    int64_t budget;        /* INT64_MAX: none */
    const double *options; /* one a method's option: the number, the index of the choice, or where
                              the list is (option_list.h) */
    double started;        /* neap_clock_seconds at the beginning */
    double *reported;      /* when progress was last told */
    neap_trial *trial;     /* may be NULL: a method need not use it */
    bool as_part;          /* another method asks: where there is no plan, it does not matter why */
} planner;

/* What a method found. */
typedef struct draft {
    neap_arena arena; /* of the extras */
    neap_plan *plan;  /* NULL: none found at all */
    int64_t predicted_peak, predicted_ticks;
    int64_t bound_ticks;  /* proven; -1: nothing beyond what neap_solve knows */
    neap_scope scope;     /* of the bound and the proof */
    bool stopped;         /* cancelled or out of time: `plan` is the best so far */
    bool proven_optimal;  /* no plan within the budget is faster, or has a lower peak if that is the
                             request's objective */
    int64_t least_budget; /* where known better than the plan's own peak; -1 */
    uint32_t blocking_op; /* without a plan: the op that sets the least budget, */
    bool has_blocking_op; /* if the method knows */
    const char *reason;   /* without a plan: what is short if not the budget; or NULL */
    neap_extra *extras;
    uint32_t n_extras;
    size_t extra_capacity;
} draft;

struct neap_method {
    const char *name;
    const char *summary;
    const char *source;
    uint32_t n_options;
    const neap_option *options;
    bool needs_link;        /* neap_solve sees to it that there is one, both ways */
    bool takes_constraints; /* neap_method_takes_constraints */
    bool places_plans;      /* it uses the trial, and nearly all of the time limit is its own */
    const char *part_of;    /* neap_method_part_of */
    neap_status (*plan)(const planner *p, draft *d, neap_diag *diag);
};

/* The options of a method: a whole number, a real one, a choice ("first|second"), or a list. */
#define NEAP_INTEGER_OPTION(option_name, least_, most_, default_, what)                            \
    {                                                                                              \
        .name = option_name, .meaning = what, .type = NEAP_OPTION_INTEGER, .least = least_,        \
        .most = most_, .default_value = default_                                                   \
    }
#define NEAP_REAL_OPTION(option_name, least_, most_, default_, what)                               \
    {                                                                                              \
        .name = option_name, .meaning = what, .type = NEAP_OPTION_REAL, .least = least_,           \
        .most = most_, .default_value = default_                                                   \
    }
#define NEAP_CHOICE_OPTION(option_name, words, what)                                               \
    {                                                                                              \
        .name = option_name, .meaning = what, .type = NEAP_OPTION_CHOICE, .choices = words         \
    }
#define NEAP_LIST_OPTION(option_name, least_, most_, what)                                         \
    {                                                                                              \
        .name = option_name, .meaning = what, .type = NEAP_OPTION_LIST, .least = least_,           \
        .most = most_                                                                              \
    }

/* In a neap_method: its array of options. */
#define NEAP_METHOD_OPTIONS(array) .n_options = sizeof(array) / sizeof *(array), .options = (array)

/*
 * Makes the draft's plan from a compute sequence: frees are placed, each op gets the fastest
 * variant that fits the budget wherever it runs (one for all its executions, so that a
 * recomputation repeats its bits), and peak and time are predicted by the timeline.
 */
neap_status neap_planner_use_sequence(const planner *p, draft *d, const uint32_t *sequence,
                                      size_t length, neap_diag *diag);
/* The same, with every run in place that can be. */
neap_status neap_planner_use_sequence_in_place(const planner *p, draft *d, const uint32_t *sequence,
                                               size_t length, neap_diag *diag);

/* The ops that a plan computes, in order, into *sequence, which is reserved as needed. */
neap_status neap_planner_list_computes(const planner *p, const neap_plan *plan, uint32_t **sequence,
                                       size_t *length, size_t *capacity, neap_diag *diag);

/* The fastest variant whose workspace fits into `room`; if none does, the one with the least. */
uint32_t neap_planner_choose_variant(const neap_op *op, int64_t room);

/* Adds to what the method tells besides. The list is copied. */
neap_status neap_draft_add_number(const planner *p, draft *d, const char *name, double number,
                                  neap_diag *diag);
/* A bound for the planner's budget. It stays if addresses force a plan within less. */
neap_status neap_draft_add_bound(const planner *p, draft *d, const char *name, double number,
                                 neap_diag *diag);
neap_status neap_draft_add_list(const planner *p, draft *d, const char *name, const int64_t *items,
                                size_t count, neap_diag *diag);

/* Gives the bounds of a draft the values that the same bounds have in another. */
void neap_draft_take_bounds(draft *d, const draft *other);
/* Removes them. */
void neap_draft_drop_bounds(draft *d);

/* Another method with its defaults, on the same graph and budget, as a part of this one. */
neap_status neap_planner_run_method(const planner *p, const char *name, draft *d, neap_diag *diag);
/* Takes over another draft's plan and prediction if it is better. Releases the plan that goes. */
void neap_draft_take_plan(draft *d, draft *other, bool better);
/* Releases a draft that goes no further. */
void neap_planner_clear_draft(const planner *p, draft *d);

/* Whether plans for the request may move state: there is a link both ways, and state need not stay
   on the device. */
bool neap_request_moves_state(const neap_request *request);
/* No plan for the request has fewer live bytes: the floor of the graph with state on the device or
   with state that travels. *op as of neap_graph_floor_bytes; may be NULL. */
int64_t neap_request_live_floor(const neap_request *request, uint32_t *op);

/* Tells the caller how far the work is, 0 to 1 (negative: not known); a few times a second at most.
 */
void neap_planner_report(const planner *p, double fraction);
/* Reports that another phase begins. Phases other than planning are in src/solve. */
void neap_planner_report_phase(const planner *p, const char *phase);
/* The same of a search: the best plan's ticks and those no plan can beat; negative if unknown. */
void neap_planner_report_search(const planner *p, int64_t best_ticks, int64_t bound_ticks);
/* Whether to stop: the caller cancelled, or the time limit is over. */
bool neap_planner_stopped(const planner *p);
/* Ticks of the request's target_time; INT64_MAX without one. */
int64_t neap_planner_target_ticks(const planner *p);
/* Of the time limit, a little at least; 0: there is none. */
double neap_planner_seconds_left(const planner *p);

#endif
