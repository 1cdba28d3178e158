/*
 * gruslys: the dynamic program for n equal steps and m memory slots.
 *
 * Gruslys, Munos, Danihelka, Lanctot and Graves, "Memory-efficient backpropagation through time"
 * (2016); Butt's Algorithm 2.1. C(t, m) is the least number of forward steps that backpropagation
 * over t steps takes with m slots, one of which holds the first state:
 *
 *     C(1, m) = 1,   C(t, 1) = t (t + 1) / 2
 *     C(t, m) = min( min over 1 <= y < t of  y + C(t - y, m - 1) + C(y, m),
 *                    1 + C(t - 1, m - alpha) )
 *
 * The first line of the minimum keeps a hidden state after y steps, the second the internal state
 * of the first step. A hidden state is what one step passes on (a checkpoint). An internal state is
 * all that its backward step needs (a saved stage), alpha times as large: here the average of the
 * chain, in whole slots. The first line alone is the paper's BPTT-HSM, where every step runs once
 * more before it is reversed; both lines are BPTT-MSM. There an internal state may be anywhere;
 * here it is the first step's, so one in the middle has a checkpoint before it.
 *
 * With hidden states only, C(., m) is convex, with revolve's numbers of repetitions as slopes. Then
 * the best y stays or grows by one when t does, and a table entry takes O(1). With internal states
 * the split is searched as far as it can win: y steps run twice, so the sum is at least t + y. The
 * whole table takes about t^2 m / 6; chains of more than MOST_MIXED steps have hidden states only.
 *
 * Slots are not bytes: their number is found by trying (equal_steps.h).
 */
#include "base/fail.h"
#include "planners/chain/equal_steps.h"

#include <inttypes.h>

enum { SLOTS, STATES, CUTS };
enum { MIXED, HIDDEN };

static const neap_option options[] = {
    [SLOTS] = NEAP_INTEGER_OPTION("slots", 0, 4294967294.0, 0,
                                  "states kept at a time, the data included; 0 takes the best in "
                                  "the budget, or log2(n) + 1 without one"),
    [STATES] = NEAP_CHOICE_OPTION("states", "mixed|hidden",
                                  "what a slot may keep: checkpoints and, in several slots, whole "
                                  "stages; or checkpoints only"),
    [CUTS] = NEAP_CUTS_OPTION,
};

#define MOST_MIXED   4096
#define MOST_ALPHA   64
#define MOST_ENTRIES (UINT64_C(1) << 24) /* of the table */
#define MOST_WORK    1e10                /* of the search for splits, about */
#define SAVE         0                   /* as a split: keep the first step's internal state */

typedef struct slot_policy {
    run_chooser base;
    uint32_t n;
    int64_t alpha; /* 0: hidden states only */
    int64_t rows;  /* m = 1 .. rows */
    uint32_t *y;   /* rows x (n + 1): the split, or SAVE */
    int64_t *cost; /* ring x (n + 1): C(., m) for the last few m */
    int64_t ring;
    int64_t *whole; /* rows: C(n, m) */
} slot_policy;

static int64_t *costs_of(const slot_policy *t, int64_t m)
{
    return t->cost + (m % t->ring) * ((int64_t)t->n + 1);
}

static uint32_t *splits_of(const slot_policy *t, int64_t m)
{
    return t->y + (m - 1) * ((int64_t)t->n + 1);
}

static bool can_save_all(const slot_policy *t, uint32_t steps, int64_t m)
{
    return t->alpha > 0 && m > t->alpha * ((int64_t)steps - 1);
}

static void fill_first(slot_policy *t)
{
    int64_t *cost = costs_of(t, 1);
    uint32_t *y = splits_of(t, 1);
    for (uint32_t steps = 1; steps <= t->n; steps++) {
        cost[steps] = (int64_t)steps * (steps + 1) / 2;
        y[steps] = steps - 1;
    }
}

/* The best split of `steps`, given that of one step less. */
static uint32_t follow_split(const int64_t *cost, const int64_t *fewer, uint32_t steps, uint32_t y)
{
    if (y == 0)
        return 1;
    if (y + 1 < steps && 1 + cost[y + 1] + fewer[steps - y - 1] < cost[y] + fewer[steps - y])
        return y + 1;
    return y;
}

/* The least y for which the part after it may repeat fewer than `repeated` steps. */
static uint32_t first_split(const int64_t *fewer, uint32_t steps, int64_t repeated)
{
    uint32_t low = 1, high = steps;
    while (low < high) {
        uint32_t y = low + (high - low) / 2;
        if (fewer[steps - y] - (steps - y) < repeated)
            high = y;
        else
            low = y + 1;
    }
    return low;
}

/* The same by search, if better than `best`; else SAVE. `guess` is tried first. */
static uint32_t search_split(const int64_t *cost, const int64_t *fewer, uint32_t steps,
                             uint32_t guess, int64_t best)
{
    uint32_t found = SAVE;
    if (guess != SAVE && guess + cost[guess] + fewer[steps - guess] < best) {
        best = guess + cost[guess] + fewer[steps - guess];
        found = guess;
    }
    uint32_t first = first_split(fewer, steps, best - steps);
    for (uint32_t y = first; y < steps && cost[y] + steps < best; y++) {
        int64_t sum = y + cost[y] + fewer[steps - y];
        if (sum < best) {
            best = sum;
            found = y;
        }
    }
    return found;
}

static void fill(slot_policy *t, int64_t m)
{
    int64_t *cost = costs_of(t, m);
    const int64_t *fewer = costs_of(t, m - 1);
    const int64_t *saved = t->alpha > 0 && m > t->alpha ? costs_of(t, m - t->alpha) : NULL;
    uint32_t *y = splits_of(t, m);
    cost[1] = 1;
    for (uint32_t steps = 2; steps <= t->n; steps++) {
        if (can_save_all(t, steps, m)) {
            cost[steps] = steps;
            continue;
        }
        int64_t save = saved ? 1 + saved[steps - 1] : INT64_MAX;
        y[steps] = t->alpha > 0 ? search_split(cost, fewer, steps, y[steps - 1], save)
                                : follow_split(cost, fewer, steps, y[steps - 1]);
        cost[steps] = y[steps] == SAVE ? save : y[steps] + cost[y[steps]] + fewer[steps - y[steps]];
    }
}

static uint32_t choose(run_chooser *self, subchain whole, int64_t *right_memory,
                       int64_t *left_memory)
{
    const slot_policy *t = (const slot_policy *)self;
    uint32_t steps = whole.j - whole.i + 1;
    int64_t m = whole.memory;
    uint32_t y = can_save_all(t, steps, m) ? SAVE : splits_of(t, m < t->rows ? m : t->rows)[steps];
    int64_t taken = y == SAVE ? t->alpha : 1;
    *right_memory = m > taken ? m - taken : 1; /* at 1 the right part is one stage */
    *left_memory = m;
    return whole.i + y;
}

/* ---- The method ---- */

/* Bytes that a stage passes on and its backward ops read, divided by those it passes on. */
static int64_t internal_slots(const neap_chain *chain)
{
    double passed = 0, saved = 0;
    for (uint32_t i = 0; i + 1 < chain->n_stages; i++) {
        passed += (double)chain->stages[i].output_bytes;
        saved += (double)chain->stages[i].saved_bytes;
    }
    double alpha = passed > 0 ? 1 + saved / passed : 1;
    return alpha < MOST_ALPHA ? (int64_t)(alpha + 0.5) : MOST_ALPHA;
}

/* More slots than this change nothing, or need too large a table. */
static int64_t useful_rows(const slot_policy *t)
{
    int64_t n = t->n, rows = t->alpha > 0 ? t->alpha * (n - 1) + 1 : n;
    int64_t most = (int64_t)(MOST_ENTRIES / (uint64_t)(n + 1));
    int64_t most_work = (int64_t)(MOST_WORK / (double)n / (double)n);
    rows = rows < most ? rows : most;
    if (t->alpha > 0 && rows > most_work)
        rows = most_work;
    return rows > 1 ? rows : 1;
}

static void fill_all(const planner *p, draft *d, slot_policy *t)
{
    for (int64_t m = 1; m <= t->rows && !d->stopped; m++) {
        if (m == 1)
            fill_first(t);
        else
            fill(t, m);
        t->whole[m - 1] = costs_of(t, m)[t->n];
        d->stopped = neap_planner_stopped(p);
        neap_planner_report(p, (double)m / (double)t->rows);
    }
}

/* Which numbers of slots to try, once the table is filled. */
static neap_status choose_range(const planner *p, const slot_policy *t, equal_steps *steps,
                                neap_diag *diag)
{
    int64_t given = (int64_t)p->options[SLOTS], all = t->alpha * ((int64_t)t->n - 1) + 1;
    steps->least = 1;
    steps->most = t->rows;
    while (steps->least < t->rows && t->whole[steps->least - 1] > EQUAL_STEPS_LONGEST)
        steps->least++;
    if (given > 0 && given < steps->least)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "%u stages in %" PRId64 " slots are too many steps for a plan; take "
                         "%" PRId64 " slots or more",
                         t->n, given, steps->least);
    if (given == 0 && p->budget == INT64_MAX)
        given = neap_equal_steps_default(t->n) + 1;
    if (given > 0) {
        bool whole = t->alpha > 0 && given >= all;
        steps->least = steps->most = whole ? all : given < t->rows ? given : t->rows;
    } else if (t->alpha > 0 && all > t->rows) {
        steps->extra = all;
    }
    return NEAP_OK;
}

static neap_status plan_chain(const planner *p, draft *d, stage_costs *costs, neap_diag *diag)
{
    slot_policy t = {.base = {choose}, .n = costs->n ? costs->n : 1};
    equal_steps steps = {.chooser = &t.base};
    int64_t slots = 0;
    if (p->options[STATES] == MIXED && t.n <= MOST_MIXED)
        t.alpha = internal_slots(&costs->chain);
    t.ring = t.alpha > 0 ? t.alpha + 1 : 2;
    t.rows = useful_rows(&t);
    size_t width = (size_t)t.n + 1, rows = (size_t)t.rows;
    if (!NEAP_TAKE(&costs->arena, rows * width, t.y) ||
        !NEAP_TAKE(&costs->arena, (size_t)t.ring * width, t.cost) ||
        !NEAP_TAKE(&costs->arena, rows, t.whole))
        return neap_fail_no_memory(diag);
    fill_all(p, d, &t);
    if (d->stopped)
        return NEAP_OK;
    NEAP_TRY(choose_range(p, &t, &steps, diag));
    NEAP_TRY(neap_equal_steps_try(p, d, costs, &steps, &slots, diag));
    if (!d->plan)
        return NEAP_OK;
    NEAP_TRY(neap_draft_add_number(p, d, "slots", (double)slots, diag));
    int64_t forward = slots > t.rows ? t.n : t.whole[slots - 1];
    return neap_draft_add_number(p, d, "steps_forward", (double)forward, diag);
}

static neap_status plan_gruslys(const planner *p, draft *d, neap_diag *diag)
{
    return neap_planner_use_equal_steps(p, d, (int)p->options[CUTS], plan_chain, diag);
}

const neap_method neap_method_gruslys = {
    .name = "gruslys",
    .summary = "least number of forward steps in a number of slots, if all stages were equal",
    .source = "Gruslys et al. 2016, Memory-Efficient Backpropagation Through Time",
    NEAP_METHOD_OPTIONS(options),
    .plan = plan_gruslys,
};
