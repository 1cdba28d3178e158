/*
 * HiGHS, the solver of linear and mixed-integer programs, behind the few calls that neap needs.
 *
 * This is the only place that includes HiGHS. Without it (NEAP_HIGHS=OFF) every call fails with
 * NEAP_UNSUPPORTED and says what to do.
 *
 * What HiGHS says is true up to its tolerances. Bounds that neap calls proven are therefore
 * computed again from the dual values (neap_sparse_model_dual_bound), and plans by the judge.
 */
#ifndef NEAP_PLANNERS_HIGHS_MODEL_H
#define NEAP_PLANNERS_HIGHS_MODEL_H

#include "lp/sparse_model.h"

typedef struct highs_model highs_model;

/* Of the library at run time: "1.15.1"; "" without it. */
const char *neap_highs_version(void);

/* What the caller hears of and decides while HiGHS works; each may be NULL. */
typedef struct highs_watch {
    void *context;
    bool (*stop)(void *context);
    /* Whether the time is over for good. HiGHS does not ask `stop` in all of its phases, so with
       this it works on a thread of its own (as `progress` and `found` then do), and is left behind
       if it does not end soon after. That thread ends when HiGHS notices; the model cannot be
       solved again. */
    bool (*is_over)(void *context);
    /* Objectives; an infinite `best` where there is none yet. Never from two threads at once. */
    void (*progress)(void *context, double best, double bound);
    /* A better solution of the integer program: one value a column. */
    void (*found)(void *context, const double *values);
} highs_watch;

typedef enum highs_outcome {
    HIGHS_SOLVED = 0,
    HIGHS_INFEASIBLE, /* nothing satisfies the rows */
    HIGHS_STOPPED,    /* by the watch or the time limit */
    HIGHS_GAVE_UP     /* numerical trouble: nothing is known */
} highs_outcome;

typedef struct highs_answer {
    highs_outcome outcome;
    bool has_solution;
    double objective; /* of the solution */
    double bound;     /* integer programs: what HiGHS has proven; -infinity if nothing */
} highs_answer;

typedef struct highs_settings {
    double seconds; /* 0: no limit */
    int threads;    /* 0: HiGHS's own choice */
    uint64_t seed;
    double absolute_gap; /* integer programs: good enough */
    const double *start; /* integer programs: a solution to begin with, or NULL */
} highs_settings;

/* Copies the model into HiGHS; without `integers` it is the linear relaxation. */
neap_status neap_highs_model_create(neap_allocator *allocator, const sparse_model *m, bool integers,
                                    const highs_watch *watch, highs_model **h, neap_diag *diag);
void neap_highs_model_destroy(highs_model *h);

/* Hands over the rows that `m` has beyond those HiGHS has already, and all column bounds. */
neap_status neap_highs_model_update(highs_model *h, const sparse_model *m, neap_diag *diag);

/* A second solve of a relaxation goes on from where the last one ended. A model without columns is
   solved if 0 lies within every row. NEAP_INTERNAL, with HiGHS's own words, if it refuses. */
neap_status neap_highs_model_solve(highs_model *h, const highs_settings *settings,
                                   highs_answer *answer, neap_diag *diag);

/* Of the last solve: one value a column; one dual value a row (linear programs only). */
const double *neap_highs_model_values(const highs_model *h);
const double *neap_highs_model_duals(const highs_model *h);

/*
 * What any multipliers of the rows prove about the least objective of a linear program, by weak
 * duality in this code's own arithmetic, lowered by a bound on its rounding errors: valid however
 * wrong the multipliers are. `reduced` gets each column's reduced cost. Columns lie in [0, 1].
 */
double neap_sparse_model_dual_bound(const sparse_model *m, const double *duals, double *reduced);

#endif
