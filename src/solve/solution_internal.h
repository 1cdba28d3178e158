/* The definition of neap_solution, and functions that neap_solve and neap_curve_solve share. */
#ifndef NEAP_SOLVE_SOLUTION_INTERNAL_H
#define NEAP_SOLVE_SOLUTION_INTERNAL_H

#include "planners/common/planner.h"

#include <neap/check.h>
#include <neap/solve.h>

struct neap_solution {
    neap_allocator *allocator;
    neap_figures figures;
    draft draft;
    bool by_peak;       /* the objective was the least peak */
    int64_t live_floor; /* neap_request_live_floor: figures.floor_bytes counts the alignment, too */
    char message[768];
};

/* A budget as a number of bytes: INT64_MAX if there is none. */
static inline int64_t neap_budget_bytes(int64_t budget)
{
    return budget < 0 ? INT64_MAX : budget;
}

/* Finds the method and checks that neap_solve can handle the request. */
neap_status neap_request_check(const neap_request *request, const neap_method **method,
                               neap_diag *diag);
/* The options of a method, one number each: the defaults, then the settings. The caller deletes
   them, whatever the status. */
neap_status neap_method_options(neap_allocator *allocator, const neap_method *method,
                                const neap_option_setting *settings, uint32_t n_settings,
                                double **values, neap_diag *diag);

/* Judges a plan with the graph and link of the request and a budget. */
neap_status neap_request_judge(neap_allocator *allocator, const neap_request *request,
                               const neap_plan *plan, int64_t budget, neap_verdict *verdict,
                               neap_diag *diag);
/* Assigns addresses to a plan, in at most so many seconds (0: with a fixed effort). *fits: the
   arena is within the budget. */
neap_status neap_request_lay_out(neap_allocator *allocator, const neap_request *request,
                                 int64_t budget, double seconds, neap_plan *plan, bool *fits,
                                 neap_diag *diag);

/* The fastest plan so far whose addresses fit the budget, of those that a method has placed. */
typedef struct neap_keeper {
    neap_trial base;
    const planner *p; /* with the whole time limit */
} neap_keeper;

void neap_keeper_init(neap_keeper *keeper, const planner *p);
void neap_keeper_clear(neap_keeper *keeper);

/* The draft takes the plan that was kept, with its addresses; its extras remain. */
void neap_adopt_kept(draft *d, neap_keeper *kept);

/* Assigns addresses that fit the budget, planning again if needed, or takes the plan that was kept.
   If all that fails, the plan has no addresses and the message says so. p->budget is that of the
   request. */
neap_status neap_give_addresses(const planner *p, neap_solution *solution, neap_keeper *kept,
                                neap_diag *diag);
/* For a draft that has no plan within the budget: the bytes, addresses included, that its own plan
   needs, or the plan within d->least_budget. If there is none, or the time is over, addresses are
   not included. */
neap_status neap_find_least_budget(const planner *p, draft *d, int64_t *bytes, neap_diag *diag);
/* The floor (neap_request_live_floor) with every address a multiple of the request's alignment. */
neap_status neap_request_floor(neap_allocator *allocator, const neap_request *request,
                               int64_t *bytes, uint32_t *op, neap_diag *diag);
/* Judges the plan of a draft without a budget, and checks the method's predictions. */
neap_status neap_judge_draft(const planner *p, const draft *d, neap_verdict *verdict,
                             neap_diag *diag);

void neap_draft_init(draft *d, neap_allocator *allocator);
/* Sets the figures from a verdict, then the gap, and the outcome if the plan is optimal. */
void neap_solution_set_verdict(neap_solution *solution, const neap_verdict *verdict);

#endif
