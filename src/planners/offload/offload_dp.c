/*
 * offload-dp: which activations leave, by dynamic programming.
 *
 * Beaumont, Eyraud-Dubois and Shilova, "Optimal GPU-CPU Offloading Strategies for Deep Neural
 * Network Training" (2020), section 5: the optimal selection for fractional communications by
 * Algorithm 1 (fractional.h), with memory in slots, then the no-wait, ordered
 * schedule that moves exactly those, whole. With slots=0 nothing is rounded, and
 * `fractional_communications_time` is the relaxation's optimum.
 */
#include "base/fail.h"
#include "planners/offload/fractional.h"

enum { GRAIN, SLOTS, STATES, PRICES };

static const neap_option options[] = {
    [GRAIN] = OFFLOAD_GRAIN_OPTION,
    [SLOTS] =
        NEAP_INTEGER_OPTION("slots", 0, 1000000, 500,
                            "parts that memory is counted in; 0 counts bytes, which takes long"),
    [STATES] = NEAP_INTEGER_OPTION("states", 0, 100000000, 4000,
                                   "most states kept after each activation; 0 keeps all"),
    [PRICES] = NEAP_CHOICE_OPTION("small", "yes|no",
                                  "also tries selections that prefer small tensors, which are "
                                  "better for whole transfers; no: the paper's alone"),
};

/* Adds units in order if the rounding left the selection a little short. */
static void try_selection(offload_search *s)
{
    uint32_t n = s->problem.n_units;
    for (uint32_t u = 0; !neap_offload_search_try(s).fits; u++) {
        while (u < n && s->away[s->problem.units[u].first])
            u++;
        if (u >= n)
            return;
        neap_offload_set_unit(s, u, true);
    }
}

/* The paper's selection, and those with a price on large units; `answer` is the paper's. */
static neap_status choose(const planner *p, offload_search *s, communications_answer *answer,
                          neap_diag *diag)
{
    static const double prices[] = {0, 0.01, 0.1, 0.5};
    enum { FEW_STATES = 300, FEW_ROUNDS = 2 }; /* with a price bounds prune little */
    size_t n_prices = p->options[PRICES] > 0 ? 1 : sizeof prices / sizeof *prices;
    bool *away;
    if (!NEAP_TAKE(&s->problem.arena, s->problem.n_units, away))
        return neap_fail_no_memory(diag);
    for (size_t i = 0; i < n_prices && !s->stopped; i++) {
        if (s->result.fits && s->result.ticks - s->bound <= s->bound / 1000)
            break; /* little is left to gain */
        communications_options how = {.price = prices[i],
                                      .slots = (uint32_t)p->options[SLOTS],
                                      .most_rounds = i > 0 ? FEW_ROUNDS : 0,
                                      .most_states = (size_t)p->options[STATES]};
        if (i > 0 && (how.most_states == 0 || how.most_states > FEW_STATES))
            how.most_states = FEW_STATES;
        communications_answer other;
        NEAP_TRY(neap_fractional_communications_solve(s, &how, away, &other, diag));
        try_selection(s);
        s->stopped = other.stopped;
        if (i == 0)
            *answer = other;
    }
    return NEAP_OK;
}

static neap_status plan_offload_dp(const planner *p, draft *d, neap_diag *diag)
{
    offload_search s;
    communications_answer answer = {0};
    NEAP_TRY(neap_offload_search_begin(p, (offload_grain)p->options[GRAIN], &s, diag));
    bool needed = neap_offload_search_needed(&s);
    neap_status status = needed ? choose(p, &s, &answer, diag) : NEAP_OK;
    if (status == NEAP_OK)
        status = neap_offload_search_finish(&s, d, diag);
    double ticks = needed ? answer.ticks : (double)s.problem.total_ticks;
    bool optimal = !needed || (answer.found && answer.exact && p->options[SLOTS] <= 0);
    if (status == NEAP_OK && optimal && s.problem.floor <= s.problem.budget)
        status = neap_draft_add_bound(p, d, "fractional_communications_time",
                                      ticks / (double)neap_graph_ticks_per_second(p->graph), diag);
    if (status == NEAP_OK && needed)
        status = neap_draft_add_number(p, d, "states", (double)answer.n_states, diag);
    if (status == NEAP_OK && needed)
        status = neap_draft_add_number(p, d, "rounds", answer.n_rounds + 1.0, diag);
    neap_offload_search_end(&s);
    return status;
}

const neap_method neap_method_offload_dp = {
    .name = "offload-dp",
    .summary = "choose the activations that move to the host by dynamic programming",
    .source = "Beaumont, Eyraud-Dubois and Shilova 2020, Algorithm 1",
    NEAP_METHOD_OPTIONS(options),
    .needs_link = true,
    .part_of = "offload",
    .plan = plan_offload_dp,
};
