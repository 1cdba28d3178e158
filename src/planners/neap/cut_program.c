#include "planners/neap/cut_program.h"

#include "lp/highs_model.h"

#include "base/fail.h"

#include <math.h>
#include <string.h>

enum { MOST_RESIDENT = 8000 };     /* columns of that kind: HiGHS takes seconds */
enum { ENTRIES_A_SECOND = 10000 }; /* of a program that HiGHS simplifies */
enum { FREE = -1, ALWAYS = -2 };   /* instead of a column: available at no cost; always resident */

/* Consecutive windows. */
typedef struct span {
    uint32_t begin, last;
} span;

typedef struct cut_program {
    neap_arena arena;
    const problem *x;
    const bool *can_recompute;
    int64_t budget;
    sparse_model lp;
    int bytes_shift, ticks_shift; /* coefficients are bytes * 2^bytes_shift: exact */
    uint32_t n_windows;
    const uint32_t *moments;
    int64_t tiny;  /* smaller tensors are kept at no cost */
    uint8_t *role; /* [window][task] */
    bool *wanted;  /* [window][tensor] */
    size_t n_wanted;
    int32_t *resident; /* [window][tensor]: column, FREE, ALWAYS */
    uint32_t n_spans;
    span *spans;
    uint32_t *span; /* [first window][last window] */
    int32_t *again; /* [span][task]: column, FREE: it does not run again */
    uint32_t *stack;
} cut_program;

/* ---- Roles and wanted tensors ---- */

static uint8_t *roles_at(const cut_program *g, uint32_t w)
{
    return g->role + (size_t)w * g->x->n_tasks;
}

/* For a task that has not run before window w: the first window by whose end it certainly has. */
static uint32_t last_window(const cut_program *g, uint32_t task, uint32_t w)
{
    while (w + 1 < g->n_windows && roles_at(g, w + 1)[task] != ROLE_PAST)
        w++;
    return w;
}

static size_t cell(const cut_program *g, uint32_t w, uint32_t tensor)
{
    return (size_t)w * g->x->n_tensors + tensor;
}

static void push_wanted(cut_program *g, uint32_t w, uint32_t tensor, uint32_t *depth)
{
    bool *wanted = &g->wanted[cell(g, w, tensor)];
    if (*wanted || g->x->bytes[tensor] <= g->tiny)
        return;
    *wanted = true;
    g->n_wanted++;
    g->stack[(*depth)++] = tensor;
}

/* Marks a tensor of the past as wanted in a window, and what its recomputation would read. */
static void want(cut_program *g, uint32_t w, uint32_t tensor)
{
    const problem *x = g->x;
    uint32_t depth = 0;
    if (roles_at(g, w)[x->producer[tensor]] == ROLE_PAST)
        push_wanted(g, w, tensor, &depth);
    while (depth > 0) {
        uint32_t s = g->stack[--depth], p = x->producer[s];
        for (uint32_t i = x->reads.start[p]; i < x->reads.start[p + 1] && g->can_recompute[s]; i++)
            push_wanted(g, w, x->reads.items[i], &depth);
    }
}

static void mark_wanted(cut_program *g)
{
    const problem *x = g->x;
    for (uint32_t w = g->n_windows; w-- > 0;) {
        for (uint32_t k = 0; k < x->n_tasks; k++)
            for (uint32_t i = x->reads.start[k];
                 i < x->reads.start[k + 1] && roles_at(g, w)[k] == ROLE_FUTURE; i++)
                want(g, w, x->reads.items[i]);
        for (uint32_t s = 0; s < x->n_tensors; s++)
            if (x->is_output[s] || (w + 1 < g->n_windows && g->wanted[cell(g, w + 1, s)]))
                want(g, w, s);
    }
}

/* ---- The program ---- */

static uint32_t span_of(const cut_program *g, uint32_t begin, uint32_t last)
{
    return g->span[(size_t)begin * g->n_windows + last];
}

static void add_span(cut_program *g, uint32_t begin, uint32_t last)
{
    g->spans[g->n_spans] = (span){begin, last};
    g->span[(size_t)begin * g->n_windows + last] = g->n_spans++;
}

/* Single windows, and all windows from one to the end. Other ranges are represented by the smallest
   of these that contains them. */
static void list_spans(cut_program *g)
{
    uint32_t n = g->n_windows;
    g->n_spans = 0;
    for (uint32_t i = 0; i < n; i++) {
        add_span(g, i, n - 1);
        for (uint32_t j = i; j + 1 < n; j++)
            g->span[(size_t)i * n + j] = span_of(g, i, n - 1);
        if (i + 1 < n)
            add_span(g, i, i);
    }
}

static int32_t *again_in(const cut_program *g, uint32_t i)
{
    return g->again + (size_t)i * g->x->n_tasks;
}

static void add_columns(cut_program *g)
{
    const problem *x = g->x;
    for (uint32_t w = 0; w < g->n_windows; w++) {
        for (uint32_t s = 0; s < x->n_tensors; s++)
            g->resident[cell(g, w, s)] =
                g->wanted[cell(g, w, s)] ? neap_sparse_column(&g->lp, 0, 1, 0, true) : FREE;
        uint32_t task = g->moments[w];
        for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++)
            if (g->wanted[cell(g, w, x->reads.items[i])])
                g->resident[cell(g, w, x->reads.items[i])] = ALWAYS;
    }
    for (uint32_t i = 0; i < g->n_spans; i++) {
        const span *run = &g->spans[i];
        for (uint32_t k = 0; k < x->n_tasks; k++)
            again_in(g, i)[k] = FREE;
        for (uint32_t s = 0; s < x->n_tensors; s++) {
            uint32_t p = x->producer[s];
            double ticks = ldexp((double)task_ticks(x, p), g->ticks_shift);
            if (g->wanted[cell(g, run->begin, s)] && g->can_recompute[s] &&
                again_in(g, i)[p] == FREE)
                again_in(g, i)[p] =
                    neap_sparse_column(&g->lp, 0, 1, run->begin == run->last ? ticks : 0, true);
        }
    }
}

/* resident(s, first window) + again(producer of s, span) >= column, or >= 1. */
static void row_available(cut_program *g, uint32_t i, uint32_t s, int32_t column)
{
    int32_t resident = g->resident[cell(g, g->spans[i].begin, s)];
    int32_t again = again_in(g, i)[g->x->producer[s]];
    if (resident < 0)
        return;
    neap_sparse_row_begin(&g->lp);
    neap_sparse_row_add(&g->lp, resident, 1);
    if (again >= 0 && g->can_recompute[s])
        neap_sparse_row_add(&g->lp, again, 1);
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
        if (roles_at(g, w)[k] != ROLE_FUTURE)
            continue;
        uint32_t last = last_window(g, k, w);
        for (uint32_t i = x->reads.start[k]; i < x->reads.start[k + 1]; i++)
            if (until[x->reads.items[i]] == NEAP_NONE || until[x->reads.items[i]] > last)
                until[x->reads.items[i]] = last;
    }
    for (uint32_t s = 0; s < x->n_tensors; s++)
        if (until[s] != NEAP_NONE && g->resident[cell(g, w, s)] >= 0)
            row_available(g, span_of(g, w, until[s]), s, FREE);
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

/* A task that runs again in a span runs again in a part of it, and conversely. */
static void add_parts(cut_program *g, uint32_t i)
{
    const span *run = &g->spans[i];
    if (run->begin == run->last)
        return;
    const int32_t *whole = again_in(g, i);
    const int32_t *first = again_in(g, span_of(g, run->begin, run->begin));
    const int32_t *later = again_in(g, span_of(g, run->begin + 1, run->last));
    for (uint32_t k = 0; k < g->x->n_tasks; k++) {
        row_at_most(g, whole[k], first[k], later[k]);
        row_at_most(g, later[k], whole[k], FREE);
        row_at_most(g, first[k], whole[k], FREE);
    }
}

static void add_span_rows(cut_program *g, uint32_t i)
{
    const problem *x = g->x;
    uint32_t next = g->spans[i].last + 1;
    for (uint32_t k = 0; k < x->n_tasks; k++)
        for (uint32_t j = x->reads.start[k]; j < x->reads.start[k + 1] && again_in(g, i)[k] >= 0;
             j++)
            row_available(g, i, x->reads.items[j], again_in(g, i)[k]);
    for (uint32_t s = 0; s < x->n_tensors && next < g->n_windows; s++) {
        int32_t after = g->resident[cell(g, next, s)];
        if (after != FREE)
            row_available(g, i, s, after == ALWAYS ? FREE : after);
    }
    add_parts(g, i);
}

static void add_memory_row(cut_program *g, uint32_t w)
{
    const problem *x = g->x;
    uint32_t task = g->moments[w];
    int64_t room = g->budget - x->base_bytes - x->made_bytes[task] - x->read_bytes[task] -
                   task_workspace(x, task);
    neap_sparse_row_begin(&g->lp);
    for (uint32_t s = 0; s < x->n_tensors; s++)
        if (g->resident[cell(g, w, s)] >= 0)
            neap_sparse_row_add(&g->lp, g->resident[cell(g, w, s)],
                                ldexp((double)x->bytes[s], g->bytes_shift));
    /* Slightly more than the room, so that HiGHS's tolerances do not exclude an exact fit. */
    neap_sparse_row_end(&g->lp, -HUGE_VAL, ldexp((double)room, g->bytes_shift) + 1e-5);
}

/* Adds no columns if there would be too many. */
static neap_status build(cut_program *g, cut_scope scope, neap_diag *diag)
{
    const problem *x = g->x;
    size_t windows = g->n_windows, most_spans = 2 * windows;
    if (!NEAP_TAKE(&g->arena, windows * x->n_tasks, g->role) ||
        !NEAP_TAKE(&g->arena, windows * x->n_tensors, g->wanted) ||
        !NEAP_TAKE(&g->arena, windows * x->n_tensors, g->resident) ||
        !NEAP_TAKE(&g->arena, windows * windows, g->span) ||
        !NEAP_TAKE(&g->arena, most_spans, g->spans) ||
        !NEAP_TAKE(&g->arena, most_spans * x->n_tasks, g->again) ||
        !NEAP_TAKE(&g->arena, x->n_tensors, g->stack))
        return neap_fail_no_memory(diag);
    list_spans(g);
    g->tiny = g->budget / 20000;
    g->bytes_shift = 8 - ilogb((double)g->budget + 1);
    g->ticks_shift = 10 - ilogb((double)x->least_ticks + 1);
    for (uint32_t w = 0; w < g->n_windows; w++)
        neap_problem_mark_roles(x, g->moments[w], scope, roles_at(g, w));
    mark_wanted(g);
    if (g->n_wanted > MOST_RESIDENT)
        return NEAP_OK;
    add_columns(g);
    for (uint32_t w = 0; w < g->n_windows; w++) {
        add_memory_row(g, w);
        add_needs(g, w);
    }
    for (uint32_t i = 0; i < g->n_spans; i++)
        add_span_rows(g, i);
    return neap_sparse_model_status(&g->lp, diag);
}

/* ---- The solution ---- */

/* Converts HiGHS's bound to ticks. It holds up to HiGHS's tolerances. */
static int64_t proven_ticks(const cut_program *g, double objective)
{
    double ticks = ceil(ldexp(objective - 1e-5 * (1 + objective), -g->ticks_shift));
    return g->x->least_ticks + (ticks > 0 && ticks < 0x1p62 ? (int64_t)ticks : 0);
}

/*
 * The solution as a plan in the graph's order: a task that runs again in a window does so just
 * before its result is first needed there. Time 2k is just before the first run of task k, 2k + 1
 * is that run.
 */
typedef struct lazy_plan {
    const double *values;
    uint32_t w, begin, end; /* tasks of window w - 1 or, for w = 0, before the first moment */
    uint32_t *again_at;     /* by task: when it runs again in the window; NEAP_NONE: it does not */
    int64_t *load;          /* by time: change of the live bytes */
} lazy_plan;

static bool is_resident(const cut_program *g, const lazy_plan *z, uint32_t w, uint32_t s)
{
    int32_t column = g->resident[cell(g, w, s)];
    return column == ALWAYS || (column >= 0 && z->values[column] > 0.5);
}

static bool runs_again(const cut_program *g, const lazy_plan *z, uint32_t task)
{
    if (z->w == 0 || task >= z->begin)
        return false;
    int32_t column = again_in(g, span_of(g, z->w - 1, z->w - 1))[task];
    return column >= 0 && z->values[column] > 0.5;
}

/* When the tensor is first and last needed in the window: by runs in it, or at its end. */
static void find_uses(const cut_program *g, const lazy_plan *z, uint32_t s, uint32_t *first,
                      uint32_t *last)
{
    const problem *x = g->x;
    *first = NEAP_NONE;
    *last = 0;
    for (uint32_t i = x->readers.start[s]; i < x->readers.start[s + 1]; i++) {
        uint32_t k = x->readers.items[i], at = NEAP_NONE;
        if (k < z->begin)
            at = z->again_at[k];
        else if (k < z->end)
            at = 2 * k + 1;
        if (at == NEAP_NONE)
            continue;
        *first = at < *first ? at : *first;
        *last = at > *last ? at : *last;
    }
    if (z->w < g->n_windows ? is_resident(g, z, z->w, s) : x->is_output[s]) {
        *last = 2 * z->end;
        *first = *first < *last ? *first : *last;
    }
}

static void add_window_load(const cut_program *g, lazy_plan *z)
{
    const problem *x = g->x;
    for (uint32_t k = z->end; k-- > 0;) { /* readers before producers */
        z->again_at[k] = NEAP_NONE;
        bool again = runs_again(g, z, k);
        uint32_t first, last, at = 2 * z->end;
        for (uint32_t i = x->makes.start[k]; i < x->makes.start[k + 1] && again; i++) {
            find_uses(g, z, x->makes.items[i], &first, &last);
            at = first < at && !is_resident(g, z, z->w - 1, x->makes.items[i]) ? first : at;
        }
        if (again)
            z->again_at[k] = at & ~UINT32_C(1);
        for (uint32_t i = x->makes.start[k]; i < x->makes.start[k + 1]; i++) {
            uint32_t s = x->makes.items[i], from = 2 * z->begin;
            find_uses(g, z, s, &first, &last);
            if (k >= z->begin)
                from = 2 * k + 1;
            else if (!is_resident(g, z, z->w - 1, s))
                from = z->again_at[k];
            if (x->bytes[s] <= g->tiny || from == NEAP_NONE || last < from)
                continue;
            z->load[from] += x->bytes[s];
            z->load[last + 1] -= x->bytes[s];
        }
    }
}

static bool is_moment(const cut_program *g, uint32_t task)
{
    for (uint32_t w = 0; w < g->n_windows; w++)
        if (g->moments[w] == task)
            return true;
    return false;
}

/* The task whose first run exceeds the budget most in the solution; NEAP_NONE: none does. */
static neap_status find_overfull(cut_program *g, const double *values, uint32_t *task,
                                 neap_diag *diag)
{
    const problem *x = g->x;
    lazy_plan z = {.values = values};
    int64_t level = x->base_bytes, most = 0;
    *task = NEAP_NONE;
    if (!NEAP_TAKE(&g->arena, x->n_tasks, z.again_at) ||
        !NEAP_TAKE(&g->arena, 2 * (size_t)x->n_tasks + 2, z.load))
        return neap_fail_no_memory(diag);
    for (z.w = 0; z.w <= g->n_windows; z.w++) {
        z.begin = z.w > 0 ? g->moments[z.w - 1] : 0;
        z.end = z.w < g->n_windows ? g->moments[z.w] : x->n_tasks;
        add_window_load(g, &z);
    }
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        level += z.load[2 * (size_t)k] + z.load[2 * (size_t)k + 1];
        int64_t over = level + task_workspace(x, k) - g->budget;
        if (over > most && !is_moment(g, k)) {
            most = over;
            *task = k;
        }
    }
    return NEAP_OK;
}

static void note_fates(const cut_program *g, const double *values, uint8_t *fates)
{
    const problem *x = g->x;
    memset(fates, FATE_KEEP, x->n_tensors);
    for (uint32_t i = 0; i < g->n_spans; i++)
        for (uint32_t s = 0; s < x->n_tensors; s++) {
            int32_t column = again_in(g, i)[x->producer[s]];
            if (column >= 0 && values[column] > 0.5)
                fates[s] = FATE_RECOMPUTE;
        }
}

/* ---- Solving ---- */

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

/* Solves the program with HiGHS. */
static neap_status solve(cut_program *g, neap_allocator *allocator, const program_request *request,
                         uint8_t *fates, program_answer *answer, neap_diag *diag)
{
    highs_model *h = NULL;
    patience patient = {request->watch, request->effort};
    const highs_watch watch = {.context = &patient, .stop = lost_patience};
    const highs_settings settings = {.seconds = request->seconds, .threads = 1};
    highs_answer found;
    NEAP_TRY(neap_highs_model_create(allocator, &g->lp, true, &watch, &h, diag));
    neap_status status = neap_highs_model_solve(h, &settings, &found, diag);
    if (status == NEAP_OK) {
        answer->ticks = proven_ticks(g, found.bound);
        answer->stopped = found.outcome == HIGHS_STOPPED;
        answer->has_fates = request->scope == CUT_GRAPH_ORDER && found.has_solution;
    }
    if (answer->has_fates) {
        status = find_overfull(g, neap_highs_model_values(h), &answer->overfull, diag);
        note_fates(g, neap_highs_model_values(h), fates);
    }
    neap_highs_model_destroy(h);
    return status;
}

/* HiGHS simplifies a program first, and does not look at its clock before that is done. */
static bool is_too_slow(const cut_program *g, double seconds)
{
    return seconds > 0 && (double)g->lp.n_entries > ENTRIES_A_SECOND * seconds;
}

neap_status neap_cut_program_solve(neap_allocator *allocator, const program_request *request,
                                   uint8_t *fates, program_answer *answer, neap_diag *diag)
{
    cut_program g = {.x = request->x,
                     .budget = request->budget,
                     .can_recompute = request->can_recompute,
                     .moments = request->moments,
                     .n_windows = request->n_moments};
    *answer = (program_answer){.ticks = g.x->least_ticks, .overfull = NEAP_NONE};
    neap_arena_init(&g.arena, allocator);
    neap_sparse_model_init(&g.lp, allocator);
    neap_status status = build(&g, request->scope, diag);
    answer->too_large = g.lp.n_columns == 0 || is_too_slow(&g, request->seconds);
    if (status == NEAP_OK && !answer->too_large)
        status = solve(&g, allocator, request, fates, answer, diag);
    neap_sparse_model_clear(&g.lp);
    neap_arena_clear(&g.arena);
    return status;
}
