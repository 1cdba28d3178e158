/* Building the program of paper_model.h; names as in the paper, section 4. */
#include "planners/checkmate/paper_model.h"

#include "base/fail.h"
#include "base/memory.h"
#include "planners/checkmate/frontier_model.h"

#include <math.h>

/* U is a share of the budget; its rows count thousandths, so that small values are not lost. */
#define ROW_SCALE 1000.0

typedef struct builder {
    paper_model *m;
    sparse_model *lp;
    const neap_graph *graph;
    const paper_graph *nodes;
    const paper_options *options;
    uint32_t n;
    double bytes_scale; /* of the rows of memory */
    int32_t *S_storage; /* n x n_values: S of a storage; of one with a single value, that value's */
    int32_t *FREE;      /* parallel to nodes->deps: FREE[t][i][k] of the frontier at hand */
    int32_t *by_variant; /* n x variants: R by this one; of an op with a single one, R itself */
    uint32_t n_variants;
    int32_t P; /* with by_batch: the peak */
} builder;

uint64_t neap_paper_model_columns(const neap_graph *graph, bool partitioned)
{
    uint64_t n = neap_graph_op_count(graph), columns = 0;
    for (uint32_t k = 0; k < n; k++) {
        const neap_op *op = neap_graph_op(graph, k);
        uint64_t frontiers = partitioned ? n - k : n, variants = op->n_variants;
        /* R and U; S, that of a storage, what it takes, FREE; R by variant, and the choice */
        columns += frontiers * (2 + op->n_inputs + 4 * (uint64_t)op->n_outputs);
        columns += variants > 1 ? (frontiers + 1) * variants : 0;
    }
    return columns + n + 1;
}

static int32_t R(const builder *b, uint32_t t, uint32_t k)
{
    return b->m->R[(size_t)t * b->n + k];
}

static int32_t S(const builder *b, uint32_t t, uint32_t value)
{
    return b->m->S[(size_t)t * b->m->n_values + value];
}

/* Of the frontier behind the last too, where nothing is kept but outputs. */
static int32_t S_storage(const builder *b, uint32_t t, uint32_t storage)
{
    return t < b->n ? b->S_storage[(size_t)t * b->m->n_values + storage] : PAPER_ZERO;
}

/* Whether S is the constant 1: behind the last frontier, for an output. The paper's v_n is the last
   to run, and needs no word about that. */
static bool stays(const builder *b, uint32_t t, uint32_t storage)
{
    return t == b->n && !b->nodes->terminal && b->nodes->stays[storage];
}

static void add(builder *b, int32_t column, double coefficient)
{
    if (column != PAPER_ZERO)
        neap_sparse_row_add(b->lp, column, coefficient);
}

static uint32_t maker_of(const builder *b, uint32_t value)
{
    return neap_graph_value(b->graph, value)->producer;
}

/* ---- Variants ---- */

static uint32_t variant_count(const builder *b, uint32_t k)
{
    return b->m->variant_start[k + 1] - b->m->variant_start[k];
}

static const neap_variant *variant_at(const builder *b, uint32_t i, uint32_t k)
{
    return &neap_graph_op(b->graph, k)->variants[b->m->variants[i]];
}

/* One of them is the op's. */
static void choose_variants(builder *b, uint32_t k)
{
    paper_model *m = b->m;
    for (uint32_t i = m->variant_start[k]; i < m->variant_start[k + 1]; i++)
        m->chosen[i] =
            variant_count(b, k) > 1 ? neap_sparse_column(b->lp, 0, 1, 0, true) : PAPER_ZERO;
    if (variant_count(b, k) < 2)
        return;
    neap_sparse_row_begin(b->lp);
    for (uint32_t i = m->variant_start[k]; i < m->variant_start[k + 1]; i++)
        add(b, m->chosen[i], 1);
    neap_sparse_row_end(b->lp, 1, 1);
}

static neap_status collect_variants(builder *b, neap_arena *scratch, neap_diag *diag)
{
    paper_model *m = b->m;
    size_t total = 0;
    uint32_t count = 0;
    for (uint32_t k = 0; k < b->n; k++)
        total += neap_graph_op(b->graph, k)->n_variants;
    if (!NEAP_TAKE(&m->arena, b->n + (size_t)1, m->variant_start) ||
        !NEAP_TAKE(&m->arena, total, m->variants) || !NEAP_TAKE(&m->arena, total, m->chosen))
        return neap_fail_no_memory(diag);
    for (uint32_t k = 0; k < b->n; k++) {
        const neap_op *op = neap_graph_op(b->graph, k);
        m->variant_start[k] = count;
        for (uint32_t q = 0; q < op->n_variants; q++)
            if (!neap_frontier_variant_is_dominated(op, q))
                m->variants[count++] = q;
    }
    m->variant_start[b->n] = b->n_variants = count;
    if (!NEAP_TAKE(scratch, (size_t)b->n * count, b->by_variant))
        return neap_fail_no_memory(diag);
    for (uint32_t k = 0; k < b->n; k++)
        choose_variants(b, k);
    return NEAP_OK;
}

static double cost_of(const builder *b, uint32_t i, uint32_t k)
{
    double cost = (double)variant_at(b, i, k)->ticks * b->m->ticks_scale;
    return b->options->by_batch ? 0 : cost;
}

/* R is the sum of the runs by each variant, and only the chosen one runs. */
static void split_run(builder *b, uint32_t t, uint32_t k)
{
    paper_model *m = b->m;
    uint32_t begin = m->variant_start[k], end = m->variant_start[k + 1];
    int32_t *by_variant = b->by_variant + (size_t)t * b->n_variants;
    bool splits = end - begin > 1 && R(b, t, k) != PAPER_ZERO;
    for (uint32_t i = begin; i < end; i++) {
        by_variant[i] =
            splits ? neap_sparse_column(b->lp, 0, 1, cost_of(b, i, k), true) : R(b, t, k);
        if (!splits)
            continue;
        neap_sparse_row_begin(b->lp);
        add(b, by_variant[i], 1);
        add(b, m->chosen[i], -1);
        neap_sparse_row_end(b->lp, -HUGE_VAL, 0);
    }
    if (!splits)
        return;
    neap_sparse_row_begin(b->lp);
    add(b, R(b, t, k), -1);
    for (uint32_t i = begin; i < end; i++)
        add(b, by_variant[i], 1);
    neap_sparse_row_end(b->lp, 0, 0);
}

/* ---- Rows (1) and (8) ---- */

static bool keeps(const builder *b, uint32_t t, uint32_t maker)
{
    return b->m->partitioned ? maker < t : t > 0; /* (8b), (1d) */
}

static void add_schedule_columns(builder *b)
{
    paper_model *m = b->m;
    for (uint32_t t = 0; t < b->n; t++)
        for (uint32_t k = 0; k < b->n; k++) {
            const neap_op *op = neap_graph_op(b->graph, k);
            double cost = variant_count(b, k) > 1 ? 0 : cost_of(b, m->variant_start[k], k);
            bool runs = !m->partitioned || k <= t;           /* (8c) */
            double least = m->partitioned && k == t ? 1 : 0; /* (8a) */
            m->R[(size_t)t * b->n + k] =
                runs ? neap_sparse_column(b->lp, least, 1, cost, true) : PAPER_ZERO;
            split_run(b, t, k);
            for (uint32_t i = 0; i < op->n_outputs; i++) {
                uint32_t v = op->outputs[i];
                bool kept = keeps(b, t, k) && neap_paper_graph_is_wanted(b->nodes, v);
                m->S[(size_t)t * m->n_values + v] =
                    kept ? neap_sparse_column(b->lp, 0, 1, 0, true) : PAPER_ZERO;
            }
        }
}

/* A storage is kept while one of its values is. */
static void add_storage_columns(builder *b)
{
    paper_model *m = b->m;
    for (size_t cell = 0; cell < (size_t)b->n * m->n_values; cell++)
        b->S_storage[cell] = m->S[cell];
    for (uint32_t t = 0; t < b->n; t++) {
        int32_t *row = b->S_storage + (size_t)t * m->n_values;
        for (uint32_t s = 0; s < m->n_values; s++)
            if (b->nodes->bytes[s] > 0 && b->nodes->on_it[s] > 1 && keeps(b, t, maker_of(b, s)))
                row[s] = neap_sparse_column(b->lp, 0, 1, 0, true);
        for (uint32_t v = 0; v < m->n_values; v++) {
            uint32_t s = neap_graph_value(b->graph, v)->storage;
            if (S(b, t, v) == PAPER_ZERO || b->nodes->bytes[s] == 0 || b->nodes->on_it[s] < 2)
                continue;
            neap_sparse_row_begin(b->lp);
            add(b, S(b, t, v), 1);
            add(b, row[s], -1);
            neap_sparse_row_end(b->lp, -HUGE_VAL, 0);
        }
    }
}

/* What is there at an op, (1b), or kept into frontier t, (1c): `what` <= R + S of
   frontier `from`. */
static void add_presence(builder *b, int32_t what, uint32_t from, uint32_t value)
{
    neap_sparse_row_begin(b->lp);
    add(b, what, 1);
    add(b, R(b, from, maker_of(b, value)), -1);
    add(b, S(b, from, value), -1);
    neap_sparse_row_end(b->lp, -HUGE_VAL, 0);
}

static bool reads_before(const neap_op *op, uint32_t end, uint32_t value)
{
    for (uint32_t i = 0; i < end; i++)
        if (op->inputs[i] == value)
            return true;
    return false;
}

static void add_presences(builder *b)
{
    for (uint32_t t = 0; t < b->n; t++)
        for (uint32_t k = 0; k < b->n; k++) {
            const neap_op *op = neap_graph_op(b->graph, k);
            for (uint32_t i = 0; R(b, t, k) != PAPER_ZERO && i < op->n_inputs; i++)
                if (maker_of(b, op->inputs[i]) != NEAP_NONE && !reads_before(op, i, op->inputs[i]))
                    add_presence(b, R(b, t, k), t, op->inputs[i]);
            for (uint32_t i = 0; i < op->n_outputs; i++)
                if (S(b, t, op->outputs[i]) != PAPER_ZERO)
                    add_presence(b, S(b, t, op->outputs[i]), t - 1, op->outputs[i]);
        }
}

/* (1e), and what is resident at the end. */
static void add_completion(builder *b)
{
    uint32_t first = b->nodes->terminal ? b->n - 1 : 0, n_outputs;
    const uint32_t *outputs = neap_graph_outputs(b->graph, &n_outputs);
    for (uint32_t k = first; k < b->n && !b->m->partitioned; k++) {
        neap_sparse_row_begin(b->lp);
        for (uint32_t t = 0; t < b->n; t++)
            add(b, R(b, t, k), 1);
        neap_sparse_row_end(b->lp, 1, HUGE_VAL);
    }
    for (uint32_t i = 0; i < n_outputs && !b->nodes->terminal; i++) {
        uint32_t maker = maker_of(b, outputs[i]);
        if (maker == NEAP_NONE)
            continue;
        neap_sparse_row_begin(b->lp);
        add(b, R(b, b->n - 1, maker), 1);
        add(b, S(b, b->n - 1, outputs[i]), 1);
        neap_sparse_row_end(b->lp, 1, HUGE_VAL);
    }
}

/* ---- FREE: (7a) to (7c) ---- */

/* Adds num_hazards(t, i, k) to the row, without its constant; *most is kappa. Returns the constant.
 */
static double add_hazards(builder *b, uint32_t t, uint32_t i, uint32_t k, double *most)
{
    const paper_graph *g = b->nodes;
    bool certain = b->m->partitioned && k == t;
    bool kept = stays(b, t + 1, i);
    *most = certain ? 0 : 1;
    add(b, R(b, t, k), -1);
    if (kept || S_storage(b, t + 1, i) != PAPER_ZERO)
        ++*most;
    add(b, S_storage(b, t + 1, i), 1);
    for (uint32_t u = g->users_start[i]; u < g->users_start[i + 1]; u++)
        if (g->users[u] > k && R(b, t, g->users[u]) != PAPER_ZERO) {
            add(b, R(b, t, g->users[u]), 1);
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

static double bytes_of(const builder *b, uint32_t storage)
{
    return (double)b->nodes->bytes[storage] * b->bytes_scale;
}

/* U[t][0] of the paper: what a frontier begins with. */
static int32_t add_first_use(builder *b, uint32_t t)
{
    int32_t use = neap_sparse_column(b->lp, 0, 1, 0, false);
    neap_sparse_row_begin(b->lp);
    add(b, use, ROW_SCALE);
    for (uint32_t s = 0; s < b->m->n_values; s++)
        if (b->nodes->bytes[s] > 0)
            add(b, S_storage(b, t, s), -bytes_of(b, s));
    double constant = (double)b->nodes->base * b->bytes_scale;
    neap_sparse_row_end(b->lp, constant, constant);
    return use;
}

/* mem_freed of op k, added to a row that has U before it with -1. */
static void add_freed(builder *b, uint32_t t, uint32_t k)
{
    const neap_op *op = neap_graph_op(b->graph, k);
    for (uint32_t e = b->nodes->deps_start[k]; e < b->nodes->deps_start[k + 1]; e++)
        add(b, b->FREE[e], bytes_of(b, b->nodes->deps[e]));
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (b->nodes->bytes[op->outputs[i]] > 0 &&
            neap_paper_graph_is_idle(b->nodes, op->outputs[i]))
            add(b, R(b, t, k), bytes_of(b, op->outputs[i]));
}

/* The column for a storage that op k, its maker, brings into memory: R, or where a value on it may
   be kept, what R is beyond S. */
static int32_t add_taken(builder *b, uint32_t t, uint32_t k, uint32_t storage)
{
    int32_t kept = S_storage(b, t, storage);
    if (b->nodes->on_it[storage] < 2 || kept == PAPER_ZERO || R(b, t, k) == PAPER_ZERO)
        return R(b, t, k);
    int32_t taken = neap_sparse_column(b->lp, 0, 1, 0, false);
    neap_sparse_row_begin(b->lp);
    add(b, R(b, t, k), 1);
    add(b, kept, -1);
    add(b, taken, -1);
    neap_sparse_row_end(b->lp, -HUGE_VAL, 0);
    return taken;
}

/* U[t][k] and workspace are within the budget, or within P. */
static void add_limit(builder *b, uint32_t t, int32_t use, uint32_t k)
{
    const paper_model *m = b->m;
    bool has_workspace = false;
    for (uint32_t i = m->variant_start[k]; i < m->variant_start[k + 1]; i++)
        has_workspace = has_workspace || variant_at(b, i, k)->workspace > 0;
    if (!has_workspace && b->P == PAPER_ZERO)
        return; /* the column's bound says so */
    neap_sparse_row_begin(b->lp);
    add(b, use, ROW_SCALE);
    add(b, b->P, -ROW_SCALE);
    for (uint32_t i = m->variant_start[k]; has_workspace && i < m->variant_start[k + 1]; i++)
        add(b, b->by_variant[(size_t)t * b->n_variants + i],
            (double)variant_at(b, i, k)->workspace * b->bytes_scale);
    neap_sparse_row_end(b->lp, -HUGE_VAL, b->P == PAPER_ZERO ? ROW_SCALE : 0);
}

/* U[t][k] from U[t][k - 1]. */
static int32_t add_use(builder *b, uint32_t t, uint32_t k, int32_t before, const int32_t *taken)
{
    const neap_op *op = neap_graph_op(b->graph, k);
    int32_t use = neap_sparse_column(b->lp, 0, 1, 0, false);
    neap_sparse_row_begin(b->lp);
    add(b, use, ROW_SCALE);
    add(b, before, -ROW_SCALE);
    if (k > 0)
        add_freed(b, t, k - 1);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (b->nodes->bytes[op->outputs[i]] > 0)
            add(b, taken[op->outputs[i]], -bytes_of(b, op->outputs[i]));
    neap_sparse_row_end(b->lp, 0, 0);
    return use;
}

/* `taken` is scratch, one entry per value. */
static void add_frontier(builder *b, uint32_t t, int32_t *taken)
{
    const paper_graph *g = b->nodes;
    uint32_t end = b->m->partitioned ? t + 1 : b->n; /* of the ops that may run */
    for (uint32_t k = 0; k < end; k++)
        for (uint32_t e = g->deps_start[k]; e < g->deps_start[k + 1]; e++)
            b->FREE[e] = add_free(b, t, g->deps[e], k);
    int32_t use = add_first_use(b, t);
    /* Partitioned, U is the same for all ops that the frontier has not: one of them will do. */
    for (uint32_t k = 0; k < end + (end < b->n ? 1 : 0); k++) {
        const neap_op *op = neap_graph_op(b->graph, k);
        for (uint32_t i = 0; i < op->n_outputs; i++)
            taken[op->outputs[i]] =
                g->bytes[op->outputs[i]] > 0 ? add_taken(b, t, k, op->outputs[i]) : PAPER_ZERO;
        use = add_use(b, t, k, use, taken);
        if (k < end)
            add_limit(b, t, use, k);
    }
}

/* ---- All together ---- */

/* (10), where P is what is minimised. */
static void add_time_limit(builder *b)
{
    if (!b->options->by_batch)
        return;
    neap_sparse_row_begin(b->lp);
    for (uint32_t t = 0; t < b->n; t++)
        for (uint32_t k = 0; k < b->n; k++)
            for (uint32_t i = b->m->variant_start[k]; i < b->m->variant_start[k + 1]; i++)
                add(b, b->by_variant[(size_t)t * b->n_variants + i],
                    (double)variant_at(b, i, k)->ticks * b->m->ticks_scale);
    neap_sparse_row_end(b->lp, -HUGE_VAL, (double)b->options->most_ticks * b->m->ticks_scale);
}

static void set_scales(builder *b)
{
    int64_t all = b->nodes->all > 0 ? b->nodes->all : 1, budget = b->options->budget;
    int64_t ticks = neap_graph_least_ticks(b->graph);
    if (b->options->by_batch || budget > all) /* more is of no use */
        budget = all;
    b->bytes_scale = ROW_SCALE / (double)budget;
    b->m->bytes_scale = b->bytes_scale;
    b->m->ticks_scale = ticks > 0 ? 1000.0 / (double)ticks : 1;
}

static neap_status build(builder *b, neap_arena *scratch, neap_diag *diag)
{
    paper_model *m = b->m;
    size_t cells = (size_t)b->n * m->n_values;
    int32_t *taken;
    NEAP_TRY(neap_paper_graph_init(&m->nodes, &m->arena, b->graph, b->options->by_batch, diag));
    if (!NEAP_TAKE(&m->arena, (size_t)b->n * b->n, m->R) || !NEAP_TAKE(&m->arena, cells, m->S) ||
        !NEAP_TAKE(scratch, cells, b->S_storage) || !NEAP_TAKE(scratch, m->n_values, taken) ||
        !NEAP_TAKE(scratch, m->nodes.deps_start[b->n], b->FREE))
        return neap_fail_no_memory(diag);
    for (size_t cell = 0; cell < cells; cell++)
        m->S[cell] = PAPER_ZERO; /* inputs' for good */
    set_scales(b);
    NEAP_TRY(collect_variants(b, scratch, diag));
    double floor = (double)m->nodes.floor / (double)(m->nodes.all > 0 ? m->nodes.all : 1);
    b->P =
        b->options->by_batch ? neap_sparse_column(b->lp, floor, 1, ROW_SCALE, false) : PAPER_ZERO;
    add_schedule_columns(b);
    add_storage_columns(b);
    add_presences(b);
    add_completion(b);
    add_time_limit(b);
    for (uint32_t t = 0; t < b->n && !m->lp.failed; t++)
        add_frontier(b, t, taken);
    return neap_sparse_model_status(&m->lp, diag);
}

neap_status neap_paper_model_build(paper_model *m, neap_allocator *allocator,
                                   const neap_graph *graph, const paper_options *options,
                                   neap_diag *diag)
{
    uint32_t n = neap_graph_op_count(graph);
    *m = (paper_model){.graph = graph,
                       .partitioned = options->partitioned,
                       .n = n,
                       .n_values = neap_graph_value_count(graph)};
    builder b = {
        .m = m, .lp = &m->lp, .graph = graph, .nodes = &m->nodes, .options = options, .n = n};
    neap_arena scratch;
    neap_arena_init(&scratch, allocator);
    neap_arena_init(&m->arena, allocator);
    neap_sparse_model_init(&m->lp, allocator);
    neap_status status = build(&b, &scratch, diag);
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

uint32_t neap_paper_model_variant(const paper_model *m, const double *values, uint32_t op)
{
    uint32_t begin = m->variant_start[op], end = m->variant_start[op + 1];
    for (uint32_t i = begin; i < end; i++)
        if (m->chosen[i] == PAPER_ZERO || values[m->chosen[i]] > 0.5)
            return m->variants[i];
    return m->variants[begin];
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
        *ticks +=
            neap_graph_op(m->graph, k)->variants[neap_paper_model_variant(m, values, k)].ticks;
        if (sequence)
            sequence[length] = k;
        length++;
    }
    return length;
}
