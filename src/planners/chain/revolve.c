/*
 * revolve: binomial checkpointing, optimal for n equal steps and a given number of checkpoints.
 *
 * Griewank and Walther, "Algorithm 799: revolve: an implementation of checkpointing for the reverse
 * or adjoint mode of computational differentiation" (2000). With s states kept (snapshots, the data
 * at the start of the chain included) and every step repeated at most r times, chains of up to
 *
 *     beta(s, r) = (s + r)! / (s! r!)
 *
 * steps can be reversed. For n steps r is the least with n <= beta(s, r), and the steps run forward
 * are
 *
 *     t(n, s) = r n - beta(s + 1, r - 1),
 *
 * in addition to the n that run once more just before they are reversed. A chain of l steps is
 * split into y, then l - y; every y with
 *
 *     beta(s, r-2) <= y <= beta(s, r-1)   and   beta(s-1, r-1) <= l - y <= beta(s-1, r)
 *
 * reaches the minimum. The rule below is the paper's: it takes the fewest snapshots of those. It
 * needs no table.
 *
 * A step is a stage of the chain view. The method ignores bytes and times: the number of states is
 * found by trying (equal_steps.h). Without a budget it is log2(n); Checkmate's
 * comparison lists the method as "log n".
 */
#include "base/fail.h"
#include "planners/chain/equal_steps.h"

#include <inttypes.h>

enum { CHECKPOINTS, CUTS };

static const neap_option options[] = {
    [CHECKPOINTS] = NEAP_INTEGER_OPTION("checkpoints", 0, 4294967294.0, 0,
                                        "states kept at a time besides the data; 0 takes the best "
                                        "in the budget, or log2(n) without one"),
    [CUTS] = NEAP_CUTS_OPTION,
};

/* The least r with l <= beta(s, r), and *range = beta(s, r). Below 2^64: range < l before the last
 * product. */
static uint64_t repetitions(uint64_t l, uint64_t s, uint64_t *range)
{
    uint64_t r = 0;
    *range = 1;
    while (*range < l) {
        r++;
        *range = *range * (s + r) / r;
    }
    return r;
}

/* t(n, s): one snapshot alone takes n (n - 1) / 2, without counting up to it. */
static int64_t steps_forward(uint64_t n, uint64_t s)
{
    if (n < 2)
        return 0;
    if (s == 1)
        return (int64_t)(n * (n - 1) / 2);
    uint64_t range, r = repetitions(n, s, &range);
    uint64_t last = range * r / (s + r); /* beta(s, r-1) */
    /* beta(s+1, r-1) = beta(s, r-1) (s + r) / (s + 1) */
    return (int64_t)(r * n - last * (s + r) / (s + 1));
}

/* y for l steps and s states. */
static uint64_t split(uint64_t l, uint64_t s)
{
    if (s == 1)
        return l - 1;
    uint64_t range, r = repetitions(l, s, &range);
    uint64_t s_less = range * r / (s + r);                      /* beta(s,   r-1) */
    uint64_t one = s_less * s / (s + r - 1);                    /* beta(s-1, r-1) */
    uint64_t two = s > 2 ? one * (s - 1) / (s + r - 2) : 1;     /* beta(s-2, r-1) */
    uint64_t three = s < 3 ? 0 : s > 3 ? two * (s - 2) / r : 1; /* beta(s-3, r)   */
    uint64_t least = one * (r - 1) / s;                         /* beta(s,   r-2) */
    uint64_t y = l <= s_less + two ? least : l >= range - three ? s_less : l - one - two;
    return y ? y : 1;
}

/* `memory` is s, the first state of the subchain included. */
static uint32_t choose(run_chooser *self, subchain whole, int64_t *right_memory,
                       int64_t *left_memory)
{
    (void)self;
    *right_memory = whole.memory > 1 ? whole.memory - 1 : 1; /* at 1 the right part is one stage */
    *left_memory = whole.memory;
    return whole.i + (uint32_t)split(whole.j - whole.i + 1, (uint64_t)whole.memory);
}

/* The fewest states at which the schedule is not too long. */
static int64_t least_states(uint32_t n)
{
    int64_t s = 1;
    while (steps_forward(n, (uint64_t)s) > EQUAL_STEPS_LONGEST)
        s++;
    return s;
}

static neap_status plan_chain(const planner *p, draft *d, stage_costs *costs, neap_diag *diag)
{
    run_chooser chooser = {choose};
    uint32_t n = costs->n;
    int64_t given = (int64_t)p->options[CHECKPOINTS] + 1, states = 0, least = least_states(n);
    equal_steps steps = {.chooser = &chooser, .least = least, .most = n > least ? n : least};
    if (given > 1 && given < least)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "%u stages with %" PRId64 " checkpoints are too many steps for a plan; "
                         "take %" PRId64 " checkpoints or more",
                         n, given - 1, least - 1);
    if (given == 1 && p->budget == INT64_MAX)
        given = neap_equal_steps_default(n) + 1;
    if (given > 1)
        steps.least = steps.most = given < steps.most ? given : steps.most;
    NEAP_TRY(neap_equal_steps_try(p, d, costs, &steps, &states, diag));
    if (!d->plan)
        return NEAP_OK;
    NEAP_TRY(neap_draft_add_number(p, d, "checkpoints", (double)(states - 1), diag));
    return neap_draft_add_number(p, d, "steps_forward", (double)steps_forward(n, (uint64_t)states),
                                 diag);
}

static neap_status plan_revolve(const planner *p, draft *d, neap_diag *diag)
{
    return neap_planner_use_equal_steps(p, d, (int)p->options[CUTS], plan_chain, diag);
}

const neap_method neap_method_revolve = {
    .name = "revolve",
    .summary = "binomial checkpointing: the fewest repeated steps if all stages were equal",
    .source = "Griewank and Walther 2000, Algorithm 799: revolve",
    NEAP_METHOD_OPTIONS(options),
    .plan = plan_revolve,
};
