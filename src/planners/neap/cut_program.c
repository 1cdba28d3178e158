#include "planners/neap/cut_program.h"

#include "lp/highs_model.h"
#include "planners/neap/cut_program_model.h"

#include "base/fail.h"

#include <math.h>
#include <string.h>

enum { MOST_RESIDENT = 8000 };     /* columns of that kind: HiGHS takes seconds */
enum { MOST_RELAXED = 50000 };     /* entries of a relaxation: HiGHS takes a second */
enum { ENTRIES_A_SECOND = 10000 }; /* of a program that HiGHS simplifies */

/* ---- Roles and wanted tensors ---- */

uint32_t neap_program_last_window(const cut_program *g, uint32_t task, uint32_t w)
{
    while (w + 1 < g->n_windows && program_roles(g, w + 1)[task] != ROLE_PAST)
        w++;
    return w;
}

/* Whether the task of a tensor, if it does not certainly run after the beginning of window w, may:
   it ran before and may run again, or it is not known whether it ran. */
static bool may_run(const cut_program *g, uint32_t w, uint32_t tensor)
{
    uint32_t p = g->x->producer[tensor];
    uint8_t role = program_roles(g, w)[p];
    bool is_over = g->is_over[(size_t)w * g->x->n_tasks + p];
    return role == ROLE_UNKNOWN || (role == ROLE_PAST && g->can_recompute[tensor] && !is_over);
}

/* Nothing that reads what an update overwrites runs after the update. */
static void mark_over(cut_program *g, uint32_t w)
{
    const problem *x = g->x;
    for (uint32_t k = 0; k < x->n_tasks; k++)
        for (uint32_t i = x->before.start[k]; i < x->before.start[k + 1]; i++)
            if (k == g->moments[w] || program_roles(g, w)[k] == ROLE_PAST)
                g->is_over[(size_t)w * x->n_tasks + x->before.items[i]] = true;
}

/* Whether a task reads a tensor in window w or later; the task of the moment itself does not, if it
   may write over it. */
static bool reads_after(const cut_program *g, uint32_t w, uint32_t task, uint32_t tensor)
{
    return program_roles(g, w)[task] == ROLE_FUTURE &&
           (task != g->moments[w] || tensor != program_over(g, w));
}

static void push_wanted(cut_program *g, uint32_t w, uint32_t tensor, uint32_t *depth)
{
    bool *wanted = &g->wanted[program_cell(g, w, tensor)];
    if (*wanted || g->x->bytes[tensor] <= g->tiny)
        return;
    *wanted = true;
    g->n_wanted++;
    g->stack[(*depth)++] = tensor;
}

/* Marks a tensor as wanted in a window, unless the window or a later one makes it first, and what
   making it there would read. */
static void want(cut_program *g, uint32_t w, uint32_t tensor)
{
    const problem *x = g->x;
    uint32_t depth = 0;
    if (program_roles(g, w)[x->producer[tensor]] != ROLE_FUTURE)
        push_wanted(g, w, tensor, &depth);
    while (depth > 0) {
        uint32_t s = g->stack[--depth], p = x->producer[s];
        for (uint32_t i = x->reads.start[p]; i < x->reads.start[p + 1] && may_run(g, w, s); i++)
            push_wanted(g, w, x->reads.items[i], &depth);
    }
}

/* Whether a task that certainly runs for the first time after an earlier moment may do so in window
   w. */
static bool may_be_late(const cut_program *g, uint32_t w, uint32_t task)
{
    bool is_later = false;
    for (uint32_t j = 0; j < w && program_roles(g, w)[task] == ROLE_UNKNOWN; j++)
        is_later |= program_roles(g, j)[task] == ROLE_FUTURE;
    return is_later;
}

static void mark_wanted(cut_program *g)
{
    const problem *x = g->x;
    for (uint32_t w = g->n_windows; w-- > 0;) {
        for (uint32_t k = 0; k < x->n_tasks; k++) {
            bool is_late = may_be_late(g, w, k);
            for (uint32_t i = x->reads.start[k]; i < x->reads.start[k + 1]; i++)
                if (is_late || reads_after(g, w, k, x->reads.items[i]))
                    want(g, w, x->reads.items[i]);
        }
        for (uint32_t s = 0; s < x->n_tensors; s++)
            if (x->is_output[s] || (w + 1 < g->n_windows && g->wanted[program_cell(g, w + 1, s)]))
                want(g, w, s);
    }
}

/* ---- Columns ---- */

/* From every window on: 1, 2, 4, ... windows, and all to the end. Other ranges are represented by
   the smallest of these that contains them. */
static void list_spans(cut_program *g)
{
    uint32_t n = g->n_windows;
    g->n_spans = 0;
    for (uint32_t w = 0; w < n; w++)
        for (uint32_t level = 0; level <= g->n_levels; level++) {
            uint64_t last = w + (UINT64_C(1) << level) - 1;
            bool to_end = level == g->n_levels || last + 1 >= n;
            g->spans[g->n_spans] = (span){w, to_end ? n - 1 : (uint32_t)last};
            g->span[(size_t)w * (g->n_levels + 1) + level] = g->n_spans;
            for (; to_end && level < g->n_levels; level++)
                g->span[(size_t)w * (g->n_levels + 1) + level + 1] = g->n_spans;
            g->n_spans++;
        }
}

static void add_resident_columns(cut_program *g, uint32_t w)
{
    const problem *x = g->x;
    uint32_t task = g->moments[w];
    int32_t *resident = g->resident + program_cell(g, w, 0);
    const bool *wanted = g->wanted + program_cell(g, w, 0);
    for (uint32_t s = 0; s < x->n_tensors; s++)
        resident[s] = wanted[s] ? neap_sparse_column(&g->lp, 0, 1, 0, true) : FREE;
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++)
        if (wanted[x->reads.items[i]] && x->reads.items[i] != program_over(g, w))
            resident[x->reads.items[i]] = ALWAYS;
}

/* A run in a single window costs its ticks, if it is certainly not the first. */
static void add_again_columns(cut_program *g, uint32_t i)
{
    const problem *x = g->x;
    const span *run = &g->spans[i];
    int32_t *again = program_again(g, i);
    for (uint32_t k = 0; k < x->n_tasks; k++)
        again[k] = FREE;
    for (uint32_t s = 0; s < x->n_tensors; s++) {
        uint32_t p = x->producer[s];
        bool costs =
            run->begin == run->last && program_roles(g, run->begin)[p] == ROLE_PAST && !g->in;
        double ticks = costs ? ldexp((double)task_ticks(x, p), g->ticks_shift) : 0;
        if (g->wanted[program_cell(g, run->begin, s)] && may_run(g, run->begin, s) &&
            again[p] == FREE)
            again[p] = neap_sparse_column(&g->lp, 0, 1, ticks, true);
    }
}

/* The column of a run in window w that may be the first; FREE: there is none. */
static int32_t first_run(const cut_program *g, uint32_t w, uint32_t task)
{
    bool unknown = program_roles(g, w)[task] == ROLE_UNKNOWN;
    return unknown ? program_again(g, program_span(g, w, w))[task] : FREE;
}

/* Of the windows in which a task may run for the first time, it runs at no cost in one only. */
static void add_first_run(cut_program *g, uint32_t task)
{
    uint32_t n = 0;
    for (uint32_t w = 0; w < g->n_windows; w++)
        n += first_run(g, w, task) >= 0;
    if (n < 2)
        return;
    double most = n - 1, ticks = ldexp((double)task_ticks(g->x, task), g->ticks_shift);
    int32_t others = neap_sparse_column(&g->lp, 0, 1, most * ticks, false); /* part of `most` */
    neap_sparse_row_begin(&g->lp);
    neap_sparse_row_add(&g->lp, others, most);
    for (uint32_t w = 0; w < g->n_windows; w++)
        if (first_run(g, w, task) >= 0)
            neap_sparse_row_add(&g->lp, first_run(g, w, task), -1);
    neap_sparse_row_end(&g->lp, -1, HUGE_VAL);
}

/* ---- Rows ---- */

/* resident(s, first window) + again(producer of s, span) >= column, or >= 1. With a link, s may
   also come back in the span. */
static void row_available(cut_program *g, uint32_t i, uint32_t s, int32_t column)
{
    uint32_t begin = g->spans[i].begin;
    int32_t resident = g->resident[program_cell(g, begin, s)];
    int32_t again = program_again(g, i)[g->x->producer[s]];
    if (resident < 0)
        return;
    neap_sparse_row_begin(&g->lp);
    neap_sparse_row_add(&g->lp, resident, 1);
    if (again >= 0 && may_run(g, begin, s))
        neap_sparse_row_add(&g->lp, again, 1);
    if (program_returned(g, i, s) >= 0)
        neap_sparse_row_add(&g->lp, program_returned(g, i, s), 1);
    if (column >= 0)
        neap_sparse_row_add(&g->lp, column, -1);
    neap_sparse_row_end(&g->lp, column >= 0 ? 0 : 1, HUGE_VAL);
}

/* Tensors that first runs read, and outputs. */
static void add_needs(cut_program *g, uint32_t w)
{
    const problem *x = g->x;
    uint32_t *until = g->stack; /* by tensor: the first window by whose end it is read */
    for (uint32_t s = 0; s < x->n_tensors; s++)
        until[s] = x->is_output[s] ? g->n_windows - 1 : NEAP_NONE;
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        if (program_roles(g, w)[k] != ROLE_FUTURE)
            continue;
        uint32_t last = neap_program_last_window(g, k, w);
        for (uint32_t i = x->reads.start[k]; i < x->reads.start[k + 1]; i++)
            if (reads_after(g, w, k, x->reads.items[i]) &&
                (until[x->reads.items[i]] == NEAP_NONE || until[x->reads.items[i]] > last))
                until[x->reads.items[i]] = last;
    }
    for (uint32_t s = 0; s < x->n_tensors; s++)
        if (until[s] != NEAP_NONE && g->resident[program_cell(g, w, s)] >= 0)
            row_available(g, program_span(g, w, until[s]), s, FREE);
}

/* small <= large + more, if there are such columns. */
static void row_at_most(cut_program *g, int32_t small, int32_t large, int32_t more)
{
    if (small < 0 || large < 0)
        return;
    neap_sparse_row_begin(&g->lp);
    neap_sparse_row_add(&g->lp, large, 1);
    if (more >= 0)
        neap_sparse_row_add(&g->lp, more, 1);
    neap_sparse_row_add(&g->lp, small, -1);
    neap_sparse_row_end(&g->lp, 0, HUGE_VAL);
}

/* A task that runs again in a span runs again in one of two parts of it, and conversely. */
static void add_parts(cut_program *g, uint32_t whole, uint32_t first, uint32_t rest)
{
    for (uint32_t k = 0; k < g->x->n_tasks; k++) {
        row_at_most(g, program_again(g, whole)[k], program_again(g, first)[k],
                    program_again(g, rest)[k]);
        row_at_most(g, program_again(g, rest)[k], program_again(g, whole)[k], FREE);
        row_at_most(g, program_again(g, first)[k], program_again(g, whole)[k], FREE);
    }
}

/* A span that reaches the end has a first part of every length, another one two halves. */
static void add_divisions(cut_program *g, uint32_t i)
{
    const span *whole = &g->spans[i];
    uint32_t n = whole->last - whole->begin + 1;
    bool to_end = whole->last + 1 == g->n_windows;
    for (uint32_t length = to_end ? 1 : n / 2; length > 0 && length < n; length *= 2)
        add_parts(g, i, program_span(g, whole->begin, whole->begin + length - 1),
                  program_span(g, whole->begin + length, whole->last));
}

static void add_span_rows(cut_program *g, uint32_t i)
{
    const problem *x = g->x;
    uint32_t next = g->spans[i].last + 1;
    const int32_t *again = program_again(g, i);
    for (uint32_t k = 0; k < x->n_tasks; k++)
        for (uint32_t j = x->reads.start[k]; j < x->reads.start[k + 1] && again[k] >= 0; j++)
            row_available(g, i, x->reads.items[j], again[k]);
    for (uint32_t s = 0; s < x->n_tensors && next < g->n_windows; s++) {
        int32_t after = g->resident[program_cell(g, next, s)];
        bool is_read = after == ALWAYS || s == program_over(g, next);
        if (after != FREE || is_read)
            row_available(g, i, s, is_read ? FREE : after);
    }
    add_divisions(g, i);
}

static void add_memory_row(cut_program *g, uint32_t w)
{
    const problem *x = g->x;
    int64_t room = program_room(g, w);
    neap_sparse_row_begin(&g->lp);
    for (uint32_t s = 0; s < x->n_tensors; s++)
        if (g->resident[program_cell(g, w, s)] >= 0)
            neap_sparse_row_add(&g->lp, g->resident[program_cell(g, w, s)],
                                ldexp((double)x->bytes[s], g->bytes_shift));
    room -= neap_program_add_workspace(g, w);
    room -= neap_program_add_state_bytes(g, w);
    /* Slightly more than the room, so that HiGHS's tolerances do not exclude an exact fit. */
    neap_sparse_row_end(&g->lp, -HUGE_VAL, ldexp((double)room, g->bytes_shift) + 1e-5);
}

static void add_all(cut_program *g)
{
    for (uint32_t w = 0; w < g->n_windows; w++)
        add_resident_columns(g, w);
    for (uint32_t i = 0; i < g->n_spans; i++)
        add_again_columns(g, i);
    if (g->in)
        neap_program_add_link_columns(g);
    neap_program_add_variant_columns(g);
    neap_program_add_state_columns(g);
    for (uint32_t w = 0; w < g->n_windows; w++) {
        add_memory_row(g, w);
        add_needs(g, w);
    }
    for (uint32_t i = 0; i < g->n_spans; i++)
        add_span_rows(g, i);
    if (g->in)
        neap_program_add_link_rows(g);
    neap_program_add_state_rows(g);
    for (uint32_t k = 0; k < g->x->n_tasks && !g->in; k++)
        add_first_run(g, k);
}

static bool allocate(cut_program *g)
{
    size_t windows = g->n_windows, tasks = g->x->n_tasks, tensors = g->x->n_tensors;
    while (UINT32_C(1) << g->n_levels < g->n_windows)
        g->n_levels++;
    size_t spans = windows * (g->n_levels + 1);
    return NEAP_TAKE(&g->arena, windows * tasks, g->role) &&
           NEAP_TAKE(&g->arena, windows * tasks, g->is_over) &&
           NEAP_TAKE(&g->arena, windows * tensors, g->wanted) &&
           NEAP_TAKE(&g->arena, windows * tensors, g->resident) &&
           NEAP_TAKE(&g->arena, spans, g->span) && NEAP_TAKE(&g->arena, spans, g->spans) &&
           NEAP_TAKE(&g->arena, spans * tasks, g->again) && NEAP_TAKE(&g->arena, tensors, g->stack);
}

/* Adds no columns if there would be too many. */
static neap_status build(cut_program *g, cut_scope scope, neap_diag *diag)
{
    const problem *x = g->x;
    if (!allocate(g))
        return neap_fail_no_memory(diag);
    list_spans(g);
    if (g->in && !neap_program_allocate_link(g))
        return neap_fail_no_memory(diag);
    g->tiny = g->budget / 20000;
    g->bytes_shift = 8 - ilogb((double)g->budget + 1);
    g->ticks_shift = 10 - ilogb((double)x->least_ticks + 1);
    for (uint32_t w = 0; w < g->n_windows; w++) {
        neap_problem_mark_roles(x, g->moments[w], scope, program_roles(g, w));
        mark_over(g, w);
    }
    if (!neap_program_allocate_variants(g) || !neap_program_allocate_state(g))
        return neap_fail_no_memory(diag);
    mark_wanted(g);
    if (g->n_wanted <= MOST_RESIDENT)
        add_all(g);
    return neap_sparse_model_status(&g->lp, diag);
}

/* ---- Solving ---- */

/* A lower bound of the objective, in ticks. */
static int64_t ticks_of(const cut_program *g, double objective)
{
    double ticks = ceil(ldexp(objective, -g->ticks_shift));
    return g->x->least_ticks + (ticks > 0 && ticks < 0x1p62 ? (int64_t)ticks : 0);
}

static void note_fates(const cut_program *g, const double *values, uint8_t *fates)
{
    const problem *x = g->x;
    memset(fates, FATE_KEEP, x->n_tensors);
    for (uint32_t i = 0; i < g->n_spans; i++)
        for (uint32_t s = 0; s < x->n_tensors; s++) {
            int32_t column = program_again(g, i)[x->producer[s]];
            if (column >= 0 && values[column] > 0.5)
                fates[s] = FATE_RECOMPUTE;
            else if (program_returned(g, i, s) >= 0 && values[program_returned(g, i, s)] > 0.5)
                fates[s] = FATE_OFFLOAD;
        }
}

typedef struct patience {
    const cut_watch *watch;
    uint64_t left; /* calls by HiGHS: their number is the same on every machine */
} patience;

static bool lost_patience(void *context)
{
    patience *p = context;
    if (p->left == 0 || (p->watch->stop && p->watch->stop(p->watch->context)))
        return true;
    p->left--;
    return false;
}

/* The bound of the linear program from its dual values, in our own arithmetic; that of an integer
   program holds up to HiGHS's tolerances. */
static neap_status prove(cut_program *g, highs_model *h, const highs_answer *found, bool relaxed,
                         program_answer *answer, neap_diag *diag)
{
    double objective = found->bound - 1e-5 * (1 + found->bound), *reduced;
    if (relaxed) {
        if (!NEAP_TAKE(&g->arena, g->lp.n_columns, reduced))
            return neap_fail_no_memory(diag);
        objective = neap_sparse_model_dual_bound(&g->lp, neap_highs_model_duals(h), reduced);
    }
    answer->ticks = ticks_of(g, objective);
    return NEAP_OK;
}

/* Solves the program with HiGHS. */
static neap_status solve(cut_program *g, const program_request *request, highs_model *h,
                         const program_results *results, program_answer *answer, neap_diag *diag)
{
    const highs_settings settings = {.seconds = request->seconds, .threads = 1};
    highs_answer found;
    NEAP_TRY(neap_highs_model_solve(h, &settings, &found, diag));
    NEAP_TRY(prove(g, h, &found, request->relaxed, answer, diag));
    answer->stopped = found.outcome == HIGHS_STOPPED;
    answer->has_solution = found.has_solution;
    answer->has_fates = found.has_solution && !request->relaxed;
    if (!found.has_solution)
        return NEAP_OK;
    note_fates(g, neap_highs_model_values(h), results->fates);
    return neap_program_excess(g, neap_highs_model_values(h), results->excess, diag);
}

/* HiGHS simplifies a program first, and does not look at its clock before that is done. */
static bool is_too_slow(const cut_program *g, double seconds)
{
    return seconds > 0 && (double)g->lp.n_entries > ENTRIES_A_SECOND * seconds;
}

neap_status neap_cut_program_solve(neap_allocator *allocator, const program_request *request,
                                   const program_results *results, program_answer *answer,
                                   neap_diag *diag)
{
    cut_program g = {.x = request->x,
                     .budget = request->budget,
                     .choices = request->choices,
                     .relaxed = request->relaxed,
                     .can_recompute = request->choices->can_recompute,
                     .in = request->choices->has_link ? request->choices->in : NULL,
                     .out = request->choices->has_link ? request->choices->out : NULL,
                     .moments = request->moments,
                     .n_windows = request->n_moments};
    patience patient = {request->watch, request->effort};
    const highs_watch watch = {.context = &patient, .stop = lost_patience};
    highs_model *h = NULL;
    *answer = (program_answer){.ticks = g.x->least_ticks};
    neap_arena_init(&g.arena, allocator);
    neap_sparse_model_init(&g.lp, allocator);
    neap_status status = build(&g, request->scope, diag);
    answer->too_large = g.lp.n_columns == 0 || is_too_slow(&g, request->seconds) ||
                        (request->relaxed && g.lp.n_entries > MOST_RELAXED);
    if (status == NEAP_OK && !answer->too_large)
        status = neap_highs_model_create(allocator, &g.lp, !request->relaxed, &watch, &h, diag);
    if (status == NEAP_OK && !answer->too_large)
        status = solve(&g, request, h, results, answer, diag);
    neap_highs_model_destroy(h);
    neap_sparse_model_clear(&g.lp);
    neap_arena_clear(&g.arena);
    return status;
}
