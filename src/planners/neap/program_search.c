#include "planners/neap/program_search.h"

#include "base/fail.h"

#include <string.h>

enum {
    MOST_IN_VAIN = 2, /* relaxations, one after the other, that hardly prove more */
    WORTHWHILE = 200, /* more by this part of the overhead proven so far */
    NEARLY = 25,      /* less than this part of the overhead is missing */
    MOMENTS_A_ROUND = 3,
    FIRST_EFFORT = 400,
    MOST_EFFORT = 20000,
    RELAXED_EFFORT = 1000000,
    NEIGHBOURS = 25 /* moments of one round are at least 1/25 of the tasks apart */
};

bool neap_program_search_init(program_search *p, neap_arena *arena, const problem *x,
                              cut_scope scope, int64_t budget, const cut_choices *choices,
                              const int64_t *natural)
{
    *p = (program_search){.x = x,
                          .scope = scope,
                          .budget = budget,
                          .choices = choices,
                          .natural = natural,
                          .effort = FIRST_EFFORT,
                          .relaxed = true};
    return NEAP_TAKE(arena, x->n_tasks, p->allowed) && NEAP_TAKE(arena, x->n_tasks, p->excess) &&
           NEAP_TAKE(arena, x->n_tensors, p->fates) && NEAP_TAKE(arena, x->n_tasks, p->weight) &&
           NEAP_TAKE(arena, x->n_tasks, p->next) && NEAP_TAKE(arena, x->n_tasks, p->role);
}

/* ---- The chain ---- */

/* The path through `from` that ends with `to`, if it is heavier than those known. */
static void extend_path(program_search *p, uint32_t from, uint32_t to)
{
    int64_t over = p->natural[to] - p->budget;
    double weight = p->weight[from] + (over > 0 ? (double)over : 0);
    if (p->weight[from] > 0 && weight > p->weight[to]) {
        p->weight[to] = weight;
        p->next[to] = from;
    }
}

/* From the end of the heaviest path back to the first moment. */
static void mark_path(program_search *p, uint32_t begin, uint32_t end, uint32_t first)
{
    uint32_t heaviest = first;
    for (uint32_t k = begin; k < end; k++)
        heaviest = p->weight[k] > p->weight[heaviest] ? k : heaviest;
    for (uint32_t k = heaviest; k != first; k = p->next[k])
        p->allowed[k] = true;
    p->allowed[first] = true;
}

/* Tasks weigh what the natural order has above the budget during them. */
static void mark_chain(program_search *p, uint32_t first)
{
    const problem *x = p->x;
    p->weight[first] = 1;
    for (uint32_t k = first + 1; k < x->n_tasks; k++) /* descendants */
        for (uint32_t i = x->reads.start[k]; i < x->reads.start[k + 1]; i++)
            if (x->producer[x->reads.items[i]] >= first)
                extend_path(p, x->producer[x->reads.items[i]], k);
    for (uint32_t k = first + 1; k-- > 0;) /* ancestors: all readers of k come before */
        for (uint32_t i = x->reads.start[k]; i < x->reads.start[k + 1]; i++)
            extend_path(p, k, x->producer[x->reads.items[i]]);
    mark_path(p, first, x->n_tasks, first);
    mark_path(p, 0, first, first);
}

/* In the graph's order: all tasks but the updates, if they certainly come before or after the
   first. */
static void mark_order(program_search *p, uint32_t first)
{
    neap_problem_mark_roles(p->x, first, p->scope, p->role);
    for (uint32_t k = 0; k < p->x->n_tasks; k++)
        p->allowed[k] = !p->x->is_update[k] && p->role[k] != ROLE_UNKNOWN;
    p->allowed[first] = true;
}

/* ---- Moments ---- */

static void insert(program_search *p, uint32_t task)
{
    uint32_t i = p->n_moments++;
    for (; i > 0 && p->moments[i - 1] > task; i--)
        p->moments[i] = p->moments[i - 1];
    p->moments[i] = task;
}

/* Adds the tasks with the largest excess, which are far from each other. Returns how many. */
static uint32_t add_moments(program_search *p, uint32_t most)
{
    const problem *x = p->x;
    uint32_t apart = x->n_tasks / NEIGHBOURS, added = 0;
    for (uint32_t i = 0; i < p->n_moments; i++)
        p->excess[p->moments[i]] = 0;
    for (; added < most && p->n_moments < MOST_MOMENTS; added++) {
        uint32_t worst = 0;
        for (uint32_t k = 0; k < x->n_tasks; k++) {
            p->excess[k] = p->allowed[k] ? p->excess[k] : 0;
            worst = p->excess[k] > p->excess[worst] ? k : worst;
        }
        if (p->excess[worst] == 0)
            break;
        insert(p, worst);
        for (uint32_t k = worst - (worst < apart ? worst : apart);
             k <= worst + apart && k < x->n_tasks; k++)
            p->excess[k] = 0;
    }
    return added;
}

static void start(program_search *p, uint32_t first)
{
    p->started = true;
    if (p->scope == CUT_ANY_ORDER)
        mark_chain(p, first);
    else
        mark_order(p, first);
    insert(p, first);
    p->best_ticks = p->x->least_ticks;
}

/* ---- Programs ---- */

/* Whether a bound exceeds another by more than a part of the overhead that the other proves. */
static bool is_larger(const program_search *p, int64_t ticks, int64_t other, int64_t part)
{
    return ticks > other + (other - p->x->least_ticks) / part;
}

/* Integer programs begin with few moments. */
static void end_relaxations(program_search *p)
{
    p->relaxed = false;
    memcpy(p->moments, p->few, p->n_few * sizeof *p->few);
    p->n_moments = p->n_few;
}

static void after_relaxation(program_search *p, const program_answer *answer)
{
    bool solved = !answer->too_large && !answer->stopped && answer->has_solution;
    p->n_in_vain = is_larger(p, answer->ticks, p->best_ticks, WORTHWHILE) ? 0 : p->n_in_vain + 1;
    p->best_ticks = answer->ticks > p->best_ticks ? answer->ticks : p->best_ticks;
    if (p->n_few == 0 || (solved && is_larger(p, answer->ticks, p->few_ticks, NEARLY))) {
        p->n_few = p->n_moments;
        p->few_ticks = answer->ticks;
        memcpy(p->few, p->moments, p->n_few * sizeof *p->few);
    }
    if (!solved || p->n_in_vain == MOST_IN_VAIN || add_moments(p, MOMENTS_A_ROUND) == 0)
        end_relaxations(p);
}

/* After an integer program: adds a moment, raises the effort, or ends. */
static void after_program(program_search *p, const program_answer *answer)
{
    if (!answer->too_large && answer->stopped) {
        p->effort *= 4;
        p->done = p->effort > MOST_EFFORT;
    } else if (answer->too_large || !answer->has_solution || add_moments(p, 1) == 0) {
        p->done = true;
    }
}

neap_status neap_program_search_step(program_search *p, neap_allocator *allocator, uint32_t first,
                                     double seconds, const cut_watch *watch, program_answer *answer,
                                     neap_diag *diag)
{
    if (!p->started)
        start(p, first);
    const program_request request = {.x = p->x,
                                     .budget = p->budget,
                                     .choices = p->choices,
                                     .scope = p->scope,
                                     .moments = p->moments,
                                     .n_moments = p->n_moments,
                                     .relaxed = p->relaxed,
                                     .effort = p->relaxed ? RELAXED_EFFORT : p->effort,
                                     .seconds = seconds,
                                     .watch = watch};
    const program_results results = {p->fates, p->excess};
    NEAP_TRY(neap_cut_program_solve(allocator, &request, &results, answer, diag));
    if (p->relaxed)
        after_relaxation(p, answer);
    else
        after_program(p, answer);
    return NEAP_OK;
}
