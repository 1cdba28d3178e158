/* Building and solving the program of paper_model.h; names as in the paper, section 4. */
#include "planners/checkmate/paper_model.h"
#include "base/clock.h"

#include "base/fail.h"
#include "base/memory.h"
#include "planners/checkmate/relaxation.h"

#include <inttypes.h>
#include <math.h>

/* U is a share of the budget; its rows count thousandths, so that small values are not lost. */
#define ROW_SCALE 1000.0

typedef struct builder {
    paper_model *m;
    sparse_model *lp;
    const neap_graph *graph;
    uint32_t n;
    bool terminal;        /* one output, of the last op, and everything leads to it */
    double bytes_scale;   /* of the rows of memory */
    uint32_t *value;      /* per op: what it makes */
    uint32_t *deps_start; /* n + 1: DEPS[k] is deps[deps_start[k] ...], each once */
    uint32_t *deps;
    int32_t *FREE; /* parallel to deps: FREE[t][i][k] of the frontier at hand */
} builder;

/* ---- What the paper has ---- */

static neap_status unlike_paper(const neap_op *op, uint32_t k, const char *what, neap_diag *diag)
{
    return neap_fail(
        diag, NEAP_UNSUPPORTED,
        "op %" PRIu32 " \"%s\" %s: the program as printed has ops with one output of "
        "their own, one variant and no workspace; the default model handles this graph",
        k, op->name, what);
}

neap_status neap_paper_model_check(const neap_graph *graph, neap_diag *diag)
{
    for (uint32_t k = 0; k < neap_graph_op_count(graph); k++) {
        const neap_op *op = neap_graph_op(graph, k);
        if (op->n_outputs == 0)
            return unlike_paper(op, k, "has no output", diag);
        if (op->n_outputs > 1)
            return unlike_paper(op, k, "has several outputs", diag);
        if (neap_graph_value(graph, op->outputs[0])->storage != op->outputs[0])
            return unlike_paper(op, k, "makes a view", diag);
        if (op->n_variants > 1)
            return unlike_paper(op, k, "has several variants", diag);
        if (op->variants[0].workspace != 0)
            return unlike_paper(op, k, "takes workspace", diag);
    }
    return NEAP_OK;
}

uint64_t neap_paper_model_columns(const neap_graph *graph, bool partitioned)
{
    uint64_t n = neap_graph_op_count(graph), columns = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint64_t frontiers = partitioned ? n - k : n;
        columns += frontiers * (4 + neap_graph_op(graph, k)->n_inputs);
    }
    return columns + n;
}

static int32_t column_at(const int32_t *columns, const builder *b, uint32_t t, uint32_t k)
{
    return columns[(size_t)t * b->n + k];
}

static int32_t R(const builder *b, uint32_t t, uint32_t k)
{
    return column_at(b->m->R, b, t, k);
}

/* Of the frontier behind the last too, where nothing is kept but outputs. */
static int32_t S(const builder *b, uint32_t t, uint32_t i)
{
    return t < b->n ? column_at(b->m->S, b, t, i) : PAPER_ZERO;
}

/* Whether S is the constant 1: behind the last frontier, for an output. The paper's v_n is the last
   to run, and needs no word about that. */
static bool stays(const builder *b, uint32_t t, uint32_t i)
{
    return t == b->n && !b->terminal && neap_graph_is_output(b->graph, b->value[i]);
}

static void add(builder *b, int32_t column, double coefficient)
{
    if (column != PAPER_ZERO)
        neap_sparse_row_add(b->lp, column, coefficient);
}

static const uint32_t *users(const builder *b, uint32_t i, uint32_t *count)
{
    return neap_graph_readers(b->graph, b->value[i], count);
}

/* A value that nothing reads and nobody wants. */
static bool is_idle(const builder *b, uint32_t k)
{
    uint32_t n_users;
    users(b, k, &n_users);
    return n_users == 0 && !neap_graph_is_output(b->graph, b->value[k]);
}

/* ---- Edges ---- */

static bool has_dep(const builder *b, uint32_t k, size_t count, uint32_t i)
{
    for (size_t e = b->deps_start[k]; e < count; e++)
        if (b->deps[e] == i)
            return true;
    return false;
}

static neap_status collect_deps(builder *b, neap_arena *arena, neap_diag *diag)
{
    size_t count = 0, most = 0;
    for (uint32_t k = 0; k < b->n; k++)
        most += neap_graph_op(b->graph, k)->n_inputs;
    if (!NEAP_TAKE(arena, b->n, b->value) || !NEAP_TAKE(arena, b->n + (size_t)1, b->deps_start) ||
        !NEAP_TAKE(arena, most, b->deps) || !NEAP_TAKE(arena, most, b->FREE))
        return neap_fail_no_memory(diag);
    for (uint32_t k = 0; k < b->n; k++) {
        const neap_op *op = neap_graph_op(b->graph, k);
        b->value[k] = op->outputs[0];
        b->deps_start[k] = (uint32_t)count;
        for (uint32_t i = 0; i < op->n_inputs; i++) {
            uint32_t dep = neap_graph_value(b->graph, op->inputs[i])->producer;
            if (dep != NEAP_NONE && !has_dep(b, k, count, dep))
                b->deps[count++] = dep;
        }
    }
    b->deps_start[b->n] = (uint32_t)count;
    return NEAP_OK;
}

/* Everything leads to the last op if each other op has a reader: follow readers, and end there. */
static bool is_terminal(const builder *b)
{
    for (uint32_t k = 0; k < b->n; k++) {
        uint32_t n_users;
        users(b, k, &n_users);
        bool last = k + 1 == b->n;
        if (neap_graph_is_output(b->graph, b->value[k]) != last || (n_users == 0) != last)
            return false;
    }
    return true;
}

/* ---- Rows (1) and (8) ---- */

static void add_schedule_columns(builder *b)
{
    paper_model *m = b->m;
    for (uint32_t t = 0; t < b->n; t++)
        for (uint32_t k = 0; k < b->n; k++) {
            size_t cell = (size_t)t * b->n + k;
            double cost = (double)neap_graph_op(b->graph, k)->variants[0].ticks * m->ticks_scale;
            bool runs = !m->partitioned || k <= t;           /* (8c) */
            bool keeps = m->partitioned ? k < t : t > 0;     /* (8b), (1d) */
            double least = m->partitioned && k == t ? 1 : 0; /* (8a) */
            m->R[cell] = runs ? neap_sparse_column(b->lp, least, 1, cost, true) : PAPER_ZERO;
            m->S[cell] =
                keeps && !is_idle(b, k) ? neap_sparse_column(b->lp, 0, 1, 0, true) : PAPER_ZERO;
        }
}

/* What is there at an op, (1b), or kept into frontier t, (1c): `what` <= R + S of
   frontier `from`. */
static void add_presence(builder *b, int32_t what, uint32_t from, uint32_t i)
{
    neap_sparse_row_begin(b->lp);
    add(b, what, 1);
    add(b, R(b, from, i), -1);
    add(b, S(b, from, i), -1);
    neap_sparse_row_end(b->lp, -HUGE_VAL, 0);
}

static void add_presences(builder *b)
{
    for (uint32_t t = 0; t < b->n; t++)
        for (uint32_t k = 0; k < b->n; k++) {
            for (uint32_t e = b->deps_start[k];
                 R(b, t, k) != PAPER_ZERO && e < b->deps_start[k + 1]; e++)
                add_presence(b, R(b, t, k), t, b->deps[e]);
            if (S(b, t, k) != PAPER_ZERO)
                add_presence(b, S(b, t, k), t - 1, k);
        }
}

/* (1e), and what is resident at the end. */
static void add_completion(builder *b)
{
    uint32_t first = b->terminal ? b->n - 1 : 0;
    for (uint32_t k = first; k < b->n && !b->m->partitioned; k++) {
        neap_sparse_row_begin(b->lp);
        for (uint32_t t = 0; t < b->n; t++)
            add(b, R(b, t, k), 1);
        neap_sparse_row_end(b->lp, 1, HUGE_VAL);
    }
    for (uint32_t k = 0; k < b->n; k++) {
        if (!stays(b, b->n, k))
            continue;
        neap_sparse_row_begin(b->lp);
        add(b, R(b, b->n - 1, k), 1);
        add(b, S(b, b->n - 1, k), 1);
        neap_sparse_row_end(b->lp, 1, HUGE_VAL);
    }
}

/* ---- FREE: (7a) to (7c) ---- */

/* Adds num_hazards(t, i, k) to the row, without its constant; *most is kappa. Returns the constant.
 */
static double add_hazards(builder *b, uint32_t t, uint32_t i, uint32_t k, double *most)
{
    bool certain = b->m->partitioned && k == t;
    bool kept = stays(b, t + 1, i);
    uint32_t n_users;
    const uint32_t *user = users(b, i, &n_users);
    *most = certain ? 0 : 1;
    add(b, R(b, t, k), -1);
    if (kept || S(b, t + 1, i) != PAPER_ZERO)
        ++*most;
    add(b, S(b, t + 1, i), 1);
    for (uint32_t u = 0; u < n_users; u++)
        if (user[u] > k && R(b, t, user[u]) != PAPER_ZERO) {
            add(b, R(b, t, user[u]), 1);
            ++*most;
        }
    return kept ? 2 : 1;
}

static int32_t add_free(builder *b, uint32_t t, uint32_t i, uint32_t k)
{
    int32_t freed = neap_sparse_column(b->lp, 0, 1, 0, true);
    double kappa, constant;
    neap_sparse_row_begin(b->lp); /* 1 - FREE <= num_hazards */
    constant = add_hazards(b, t, i, k, &kappa);
    add(b, freed, 1);
    neap_sparse_row_end(b->lp, 1 - constant, HUGE_VAL);
    neap_sparse_row_begin(b->lp); /* num_hazards <= kappa (1 - FREE) */
    add_hazards(b, t, i, k, &kappa);
    add(b, freed, kappa);
    neap_sparse_row_end(b->lp, -HUGE_VAL, kappa - constant);
    return freed;
}

/* ---- U: (2) to (4) ---- */

static double bytes_of(const builder *b, uint32_t k)
{
    return (double)neap_graph_value(b->graph, b->value[k])->bytes * b->bytes_scale;
}

/* U[t][0] of the paper: what a frontier begins with. */
static int32_t add_first_use(builder *b, uint32_t t)
{
    int32_t use = neap_sparse_column(b->lp, 0, 1, 0, false);
    neap_sparse_row_begin(b->lp);
    add(b, use, ROW_SCALE);
    for (uint32_t i = 0; i < b->n; i++)
        add(b, S(b, t, i), -bytes_of(b, i));
    double constant = (double)neap_graph_base_bytes(b->graph) * b->bytes_scale;
    neap_sparse_row_end(b->lp, constant, constant);
    return use;
}

/* mem_freed of op k, added to a row that has U before it with -1. */
static void add_freed(builder *b, uint32_t t, uint32_t k)
{
    for (uint32_t e = b->deps_start[k]; e < b->deps_start[k + 1]; e++)
        add(b, b->FREE[e], bytes_of(b, b->deps[e]));
    if (is_idle(b, k))
        add(b, R(b, t, k), bytes_of(b, k));
}

static void add_frontier(builder *b, uint32_t t)
{
    uint32_t end = b->m->partitioned ? t + 1 : b->n; /* of the ops that may run */
    for (uint32_t k = 0; k < end; k++)
        for (uint32_t e = b->deps_start[k]; e < b->deps_start[k + 1]; e++)
            b->FREE[e] = add_free(b, t, b->deps[e], k);
    int32_t before = add_first_use(b, t);
    /* Partitioned, U is the same for all ops that the frontier has not: one of them will do. */
    for (uint32_t k = 0; k < end + (end < b->n ? 1 : 0); k++) {
        int32_t use = neap_sparse_column(b->lp, 0, 1, 0, false);
        neap_sparse_row_begin(b->lp);
        add(b, use, ROW_SCALE);
        add(b, before, -ROW_SCALE);
        if (k > 0)
            add_freed(b, t, k - 1);
        add(b, R(b, t, k), -bytes_of(b, k));
        neap_sparse_row_end(b->lp, 0, 0);
        before = use;
    }
}

/* ---- All together ---- */

static void set_scales(builder *b, int64_t budget)
{
    int64_t base = neap_graph_base_bytes(b->graph), all = base;
    int64_t ticks = neap_graph_least_ticks(b->graph);
    for (uint32_t k = 0; k < b->n; k++)
        all += neap_graph_value(b->graph, b->value[k])->bytes;
    if (budget > all) /* more is of no use */
        budget = all > 0 ? all : 1;
    b->bytes_scale = ROW_SCALE / (double)budget;
    b->m->ticks_scale = ticks > 0 ? 1000.0 / (double)ticks : 1;
}

static neap_status build(builder *b, int64_t budget, neap_arena *scratch, neap_diag *diag)
{
    paper_model *m = b->m;
    size_t cells = (size_t)b->n * b->n;
    NEAP_TRY(neap_paper_model_check(b->graph, diag));
    if (!NEAP_TAKE(&m->arena, cells, m->R) || !NEAP_TAKE(&m->arena, cells, m->S))
        return neap_fail_no_memory(diag);
    NEAP_TRY(collect_deps(b, scratch, diag));
    b->terminal = is_terminal(b);
    set_scales(b, budget);
    add_schedule_columns(b);
    add_presences(b);
    add_completion(b);
    for (uint32_t t = 0; t < b->n && !m->lp.failed; t++)
        add_frontier(b, t);
    return neap_sparse_model_status(&m->lp, diag);
}

neap_status neap_paper_model_build(paper_model *m, neap_allocator *allocator,
                                   const neap_graph *graph, int64_t budget, bool partitioned,
                                   neap_diag *diag)
{
    uint32_t n = neap_graph_op_count(graph);
    *m = (paper_model){.graph = graph, .partitioned = partitioned, .n = n};
    builder b = {.m = m, .lp = &m->lp, .graph = graph, .n = n};
    neap_arena scratch;
    neap_arena_init(&scratch, allocator);
    neap_arena_init(&m->arena, allocator);
    neap_sparse_model_init(&m->lp, allocator);
    neap_status status = build(&b, budget, &scratch, diag);
    neap_arena_clear(&scratch);
    return status;
}

void neap_paper_model_clear(paper_model *m)
{
    if (!m->graph)
        return;
    neap_sparse_model_clear(&m->lp);
    neap_arena_clear(&m->arena);
    *m = (paper_model){0};
}

size_t neap_paper_model_sequence(const paper_model *m, const double *values, uint32_t *sequence,
                                 int64_t *ticks)
{
    size_t length = 0;
    *ticks = 0;
    for (size_t cell = 0; cell < (size_t)m->n * m->n; cell++) {
        if (m->R[cell] == PAPER_ZERO || values[m->R[cell]] <= 0.5)
            continue;
        uint32_t k = (uint32_t)(cell % m->n);
        *ticks += neap_graph_op(m->graph, k)->variants[0].ticks;
        if (sequence)
            sequence[length] = k;
        length++;
    }
    return length;
}

/* ---- Solving ---- */

typedef struct search {
    const planner *p;
    paper_model model;
    incumbent *best;
    paper_answer *answer;
    neap_status status; /* of what callbacks did */
    neap_diag *diag;
} search;

static double ticks_of(const search *s, double objective)
{
    return objective / s->model.ticks_scale;
}

/* A lower bound in ticks as what a sum of the ops' times can be. */
static int64_t whole_ticks(const search *s, double bound)
{
    int64_t least = neap_graph_least_ticks(s->p->graph), step = neap_graph_tick_step(s->p->graph);
    double whole = floor(bound - 1e-6 * fabs(bound));
    if (!(whole > (double)least) || whole > 1e18)
        return least;
    return ((int64_t)whole + step - 1) / step * step;
}

/* *fits (may be NULL) tells whether the solution, as it is, keeps the budget; *ticks its time. */
static neap_status offer(search *s, const double *values, bool *fits, int64_t *ticks,
                         neap_diag *diag)
{
    const planner *p = s->p;
    size_t length = neap_paper_model_sequence(&s->model, values, NULL, ticks);
    uint32_t *sequence;
    NEAP_TRY(NEAP_NEW(p->allocator, length, &sequence, diag));
    neap_paper_model_sequence(&s->model, values, sequence, ticks);
    neap_status status = neap_incumbent_offer(s->best, p, sequence, length, diag);
    if (status == NEAP_OK && fits)
        *fits = s->best->ticks <= *ticks;
    if (status == NEAP_OK)
        status = neap_incumbent_offer_trimmed(s->best, p, sequence, length, diag);
    NEAP_DELETE(p->allocator, length, sequence);
    return status;
}

static bool stop(void *context)
{
    const search *s = context;
    return s->status != NEAP_OK || neap_planner_stopped(s->p);
}

static void show_progress(void *context, double best, double bound)
{
    const search *s = context;
    (void)best;
    double proven = fmax(ticks_of(s, bound), s->answer->lp_bound);
    neap_planner_report_search(s->p, s->best->ticks == INT64_MAX ? -1 : s->best->ticks,
                               whole_ticks(s, isfinite(bound) ? proven : s->answer->lp_bound));
}

static void take_found(void *context, const double *values)
{
    search *s = context;
    int64_t ticks;
    if (s->status == NEAP_OK)
        s->status = offer(s, values, NULL, &ticks, s->diag);
}

static neap_status solve_relaxation(search *s, neap_diag *diag)
{
    const planner *p = s->p;
    highs_watch watch = {.context = s, .stop = stop};
    highs_settings settings = {.seconds = neap_planner_seconds_left(p), .seed = p->request->seed};
    highs_model *highs = NULL;
    highs_answer answer = {0};
    double *reduced = NULL, started = neap_clock_seconds();
    neap_status status = NEAP_NEW(p->allocator, s->model.lp.n_columns, &reduced, diag);
    if (status == NEAP_OK)
        status = neap_highs_model_create(p->allocator, &s->model.lp, false, &watch, &highs, diag);
    if (status == NEAP_OK)
        status = neap_highs_model_solve(highs, &settings, &answer, diag);
    if (status == NEAP_OK) {
        s->answer->relaxed = answer.outcome;
        s->answer->lp_seconds = neap_clock_seconds() - started;
        if (answer.outcome == HIGHS_SOLVED) {
            double bound =
                neap_sparse_model_dual_bound(&s->model.lp, neap_highs_model_duals(highs), reduced);
            s->answer->lp_ticks = ticks_of(s, answer.objective);
            s->answer->lp_bound = fmax(0, ticks_of(s, bound));
        }
    }
    neap_highs_model_destroy(highs);
    NEAP_DELETE(p->allocator, s->model.lp.n_columns, reduced);
    return status;
}

/* Holds the solution against the judge's arithmetic. */
static neap_status take_solution(search *s, const double *values, neap_diag *diag)
{
    bool fits;
    int64_t ticks;
    NEAP_TRY(offer(s, values, &fits, &ticks, diag));
    if (fits)
        s->answer->ticks = ticks;
    else
        s->answer->outcome = HIGHS_GAVE_UP;
    return NEAP_OK;
}

static neap_status solve_program(search *s, neap_diag *diag)
{
    const planner *p = s->p;
    highs_watch watch = {s, stop, show_progress, take_found};
    highs_model *highs = NULL;
    highs_answer answer = {0};
    double started = neap_clock_seconds();
    double half_step = 0.5 * (double)neap_graph_tick_step(p->graph) * s->model.ticks_scale;
    neap_status status =
        neap_highs_model_create(p->allocator, &s->model.lp, true, &watch, &highs, diag);
    if (status == NEAP_OK) {
        highs_settings settings = {.seconds = neap_planner_seconds_left(p),
                                   .seed = p->request->seed,
                                   .absolute_gap = fmax(half_step, 0.5e-4)};
        status = neap_highs_model_solve(highs, &settings, &answer, diag);
    }
    if (status == NEAP_OK)
        status = s->status;
    if (status == NEAP_OK) {
        s->answer->outcome = answer.outcome;
        s->answer->seconds = neap_clock_seconds() - started;
        if (isfinite(answer.bound))
            s->answer->bound = fmax(s->answer->bound, ticks_of(s, answer.bound));
        if (answer.outcome == HIGHS_SOLVED)
            status = take_solution(s, neap_highs_model_values(highs), diag);
    }
    neap_highs_model_destroy(highs);
    return status;
}

/* Builds and relaxes. neap_paper_model_clear is needed in any case. */
static neap_status relax(search *s, bool partitioned)
{
    const planner *p = s->p;
    paper_answer *answer = s->answer;
    *answer = (paper_answer){.relaxed = HIGHS_STOPPED, .outcome = HIGHS_STOPPED, .ticks = -1};
    neap_status status =
        neap_paper_model_build(&s->model, p->allocator, p->graph, p->budget, partitioned, s->diag);
    answer->columns = s->model.lp.n_columns;
    answer->rows = s->model.lp.n_rows;
    if (status == NEAP_OK)
        status = solve_relaxation(s, s->diag);
    answer->bound = answer->lp_bound;
    answer->bound_ticks = whole_ticks(s, answer->bound);
    if (answer->relaxed == HIGHS_INFEASIBLE)
        answer->outcome = HIGHS_INFEASIBLE;
    return status;
}

neap_status neap_paper_model_relax(const planner *p, bool partitioned, paper_answer *answer,
                                   neap_diag *diag)
{
    search s = {.p = p, .answer = answer, .diag = diag};
    neap_status status = relax(&s, partitioned);
    neap_paper_model_clear(&s.model);
    return status;
}

neap_status neap_paper_model_solve(const planner *p, bool partitioned, incumbent *best,
                                   paper_answer *answer, neap_diag *diag)
{
    search s = {.p = p, .best = best, .answer = answer, .diag = diag};
    neap_status status = relax(&s, partitioned);
    bool open = answer->relaxed == HIGHS_SOLVED || answer->relaxed == HIGHS_GAVE_UP;
    if (status == NEAP_OK && open && !neap_planner_stopped(p)) {
        status = solve_program(&s, diag);
        answer->bound_ticks =
            answer->outcome == HIGHS_SOLVED ? answer->ticks : whole_ticks(&s, answer->bound);
    }
    neap_paper_model_clear(&s.model);
    return status;
}
