/*
 * The two relaxations of offload_oracle.h, by linear programs that say nothing more than what the
 * relaxations are, and the paper's ordered schedules by simulation from both ends.
 *
 * The programs. Time is cut into 2 n intervals: the pause before op k, of a length to be found, and
 * the run of op k. What is transferred, of which value and which way, is a number for each
 * interval. The order within an interval is of no account: everything that leaves goes first, so
 * that memory falls and then rises, and it is enough to look at it where an op begins and ends. One
 * copy at a time means that the sum of all transfers of an interval takes no longer than it.
 *
 * A value is whole while an op reads it. On a chain only one stretch between two readers has ops in
 * it, from op `from` (the next layer's forward op) to op `to` (its backward op), and only there is
 * it worth anything to be away: where a pause is all that lies between two readers, what leaves in
 * it and comes back in it could stay. It may be copied as soon as it is made, but what is copied
 * while `from` runs is released when that ends.
 *
 * With integer amounts for whole values the second relaxation is solved by branch and bound over
 * which values leave; a value not decided yet may leave in part.
 */
#include "offload_oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEVER (-1.0)

typedef enum fate { UNDECIDED = 0, STAYS, LEAVES } fate;

/* A movable value that is worth moving. */
typedef struct traveller {
    double bytes;
    uint32_t made, from, to;
} traveller;

typedef struct relaxed {
    uint32_t n_ops, count;
    traveller who[MOST_MOVABLE];      /* in the order they are made */
    double seconds[MOST_OFFLOAD_OPS]; /* of the ops */
    double total;                     /* of all */
    double missing[MOST_OFFLOAD_OPS]; /* bytes that have to be away while the op runs; or below 0 */
    double out_rate, in_rate;         /* seconds a byte */
} relaxed;

static relaxed relaxed_of(const offload_problem *p, int64_t budget)
{
    relaxed r = {.n_ops = p->n_ops,
                 .out_rate = 1 / p->link.out_bandwidth,
                 .in_rate = 1 / p->link.in_bandwidth};
    assert_false(p->link.duplex);
    assert_true(p->link.latency == 0);
    for (uint32_t k = 0; k < p->n_ops; k++) {
        r.seconds[k] = neap_graph_op(p->graph, k)->variants[0].seconds;
        r.total += r.seconds[k];
        r.missing[k] = (double)(p->all[k] - budget);
    }
    for (uint32_t i = 0; i < p->n_movable; i++) {
        const movable *m = &p->movables[i];
        uint32_t last = m->made, stretches = 0;
        traveller t = {.bytes = (double)m->bytes, .made = m->made};
        for (uint32_t k = m->made + 1; k < p->n_ops; k++) {
            if (!(m->readers >> k & 1))
                continue;
            if (k > last + 1) {
                t.from = last;
                t.to = k;
                stretches++;
            }
            last = k;
        }
        assert_true(stretches <= 1);
        if (stretches)
            r.who[r.count++] = t;
    }
    return r;
}

/* ---- A linear program: the least cost of x >= 0 with rows x <= limits ---- */

/*
 * The dual simplex method on a dense tableau. Costs are not negative, so that x = 0 is a beginning
 * whatever the limits. Most costs are 0: that it goes in circles is prevented by small costs of
 * their own for all columns, far above rounding and far below what a test compares.
 */
typedef struct program {
    uint32_t n_rows, n_columns;
    double *cells; /* n_rows + 1 rows of n_columns + 1: the last row is costs, the last column
                      limits */
    uint32_t *row_is, *column_is; /* the variable there; from n_columns on they are slacks */
} program;

static double *cell(const program *lp, uint32_t row, uint32_t column)
{
    return &lp->cells[(size_t)row * (lp->n_columns + 1) + column];
}

static program program_create(uint32_t n_rows, uint32_t n_columns)
{
    program lp = {n_rows, n_columns, NULL, NULL, NULL};
    lp.cells = calloc((size_t)(n_rows + 1) * (n_columns + 1), sizeof *lp.cells);
    lp.row_is = malloc((n_rows + 1) * sizeof *lp.row_is);
    lp.column_is = malloc((n_columns + 1) * sizeof *lp.column_is);
    assert_true(lp.cells && lp.row_is && lp.column_is);
    for (uint32_t i = 0; i < n_rows; i++)
        lp.row_is[i] = n_columns + i;
    for (uint32_t j = 0; j < n_columns; j++) {
        lp.column_is[j] = j;
        *cell(&lp, n_rows, j) = 1e-9 * (1 + 0.37 * (double)(j * 7919 % 1009) / 1009);
    }
    return lp;
}

static void program_destroy(program *lp)
{
    free(lp->cells);
    free(lp->row_is);
    free(lp->column_is);
}

static void pivot(program *lp, uint32_t row, uint32_t column)
{
    double by = *cell(lp, row, column);
    *cell(lp, row, column) = 1;
    for (uint32_t j = 0; j <= lp->n_columns; j++)
        *cell(lp, row, j) /= by;
    for (uint32_t i = 0; i <= lp->n_rows; i++) {
        double times = *cell(lp, i, column);
        if (i == row || times == 0)
            continue;
        *cell(lp, i, column) = 0;
        const double *from = cell(lp, row, 0);
        double *to = cell(lp, i, 0);
        for (uint32_t j = 0; j <= lp->n_columns; j++)
            to[j] -= times * from[j];
    }
    uint32_t variable = lp->row_is[row];
    lp->row_is[row] = lp->column_is[column];
    lp->column_is[column] = variable;
}

/* Whether there is a solution; solution[j] is then x_j. */
static bool program_solve(program *lp, double *solution)
{
    const double tiny = 1e-9;
    for (uint32_t round = 0;; round++) {
        uint32_t row = 0, column = lp->n_columns;
        double least = -tiny, ratio = HUGE_VAL;
        assert_true(round < 100000);
        for (uint32_t i = 0; i < lp->n_rows; i++)
            if (*cell(lp, i, lp->n_columns) < least) {
                least = *cell(lp, i, lp->n_columns);
                row = i;
            }
        if (least == -tiny)
            break;
        for (uint32_t j = 0; j < lp->n_columns; j++) {
            double by = *cell(lp, row, j), cost = *cell(lp, lp->n_rows, j);
            if (by < -tiny && cost / -by < ratio) {
                ratio = cost / -by;
                column = j;
            }
        }
        if (column == lp->n_columns)
            return false;
        pivot(lp, row, column);
    }
    for (uint32_t j = 0; j < lp->n_columns; j++)
        solution[j] = 0;
    for (uint32_t i = 0; i < lp->n_rows; i++)
        if (lp->row_is[i] < lp->n_columns)
            solution[lp->row_is[i]] = *cell(lp, i, lp->n_columns);
    return true;
}

/* ---- The relaxations as programs ---- */

/* Interval 2 k is the pause before op k, interval 2 k + 1 its run. */
static uint32_t pause_before(uint32_t op)
{
    return 2 * op;
}

static uint32_t run_of(uint32_t op)
{
    return 2 * op + 1;
}

/* Columns: the pauses, then for each traveller its bytes out and in by interval. */
typedef struct columns {
    uint32_t out[MOST_MOVABLE], in[MOST_MOVABLE]; /* of the first interval */
    uint32_t count;
} columns;

static uint32_t first_out(const traveller *t)
{
    return pause_before(t->made + 1);
}

static uint32_t first_in(const traveller *t)
{
    return pause_before(t->from + 1);
}

static columns lay_out(const relaxed *r, const fate *fates)
{
    columns c = {.count = r->n_ops};
    for (uint32_t i = 0; i < r->count; i++) {
        const traveller *t = &r->who[i];
        if (fates[i] == STAYS)
            continue;
        c.out[i] = c.count;
        c.in[i] = c.out[i] + pause_before(t->to) - first_out(t) + 1;
        c.count = c.in[i] + pause_before(t->to) - first_in(t) + 1;
    }
    return c;
}

/* Adds `times` the bytes that left (or came back) up to an interval, that included. */
static void add_up_to(program *lp, uint32_t row, uint32_t first_column, uint32_t first_interval,
                      uint32_t interval, double times)
{
    for (uint32_t t = first_interval; t <= interval; t++)
        *cell(lp, row, first_column + t - first_interval) += times;
}

/* The bytes of a traveller that are away after an interval. */
static void add_away(program *lp, uint32_t row, const columns *c, const traveller *t, uint32_t i,
                     uint32_t interval, double times)
{
    add_up_to(lp, row, c->out[i], first_out(t), interval, times);
    add_up_to(lp, row, c->in[i], first_in(t), interval, -times);
}

static uint32_t add_engine_rows(program *lp, uint32_t row, const relaxed *r, const columns *c,
                                const fate *fates)
{
    for (uint32_t interval = 0; interval < 2 * r->n_ops; interval++, row++) {
        uint32_t op = interval / 2;
        for (uint32_t i = 0; i < r->count; i++) {
            const traveller *t = &r->who[i];
            if (fates[i] == STAYS || interval > pause_before(t->to))
                continue;
            if (interval >= first_out(t))
                *cell(lp, row, c->out[i] + interval - first_out(t)) = r->out_rate;
            if (interval >= first_in(t))
                *cell(lp, row, c->in[i] + interval - first_in(t)) = r->in_rate;
        }
        if (interval == pause_before(op))
            *cell(lp, row, op) = -1;
        else
            *cell(lp, row, lp->n_columns) = r->seconds[op];
    }
    return row;
}

static uint32_t add_memory_rows(program *lp, uint32_t row, const relaxed *r, const columns *c,
                                const fate *fates)
{
    for (uint32_t op = 0; op < r->n_ops; op++)
        for (uint32_t interval = pause_before(op); interval <= run_of(op); interval++, row++) {
            *cell(lp, row, lp->n_columns) = -r->missing[op];
            for (uint32_t i = 0; i < r->count; i++) {
                const traveller *t = &r->who[i];
                if (fates[i] != STAYS && t->from < op && op < t->to)
                    add_away(lp, row, c, t, i, interval, -1);
            }
        }
    return row;
}

/* All that has left comes back, and not before it has left. */
static uint32_t add_traveller_rows(program *lp, uint32_t row, const relaxed *r, const columns *c,
                                   const fate *fates)
{
    for (uint32_t i = 0; i < r->count; i++) {
        const traveller *t = &r->who[i];
        if (fates[i] == STAYS)
            continue;
        for (uint32_t interval = first_in(t); interval <= pause_before(t->to); interval++)
            add_away(lp, row++, c, t, i, interval, -1);
        add_away(lp, row++, c, t, i, pause_before(t->to), 1);
        add_up_to(lp, row, c->out[i], first_out(t), pause_before(t->to), 1);
        *cell(lp, row++, lp->n_columns) = t->bytes;
        if (fates[i] == LEAVES) {
            add_up_to(lp, row, c->out[i], first_out(t), pause_before(t->to), -1);
            *cell(lp, row++, lp->n_columns) = -t->bytes;
        }
    }
    return row;
}

static uint32_t count_rows(const relaxed *r, const fate *fates)
{
    uint32_t rows = 4 * r->n_ops;
    for (uint32_t i = 0; i < r->count; i++) {
        const traveller *t = &r->who[i];
        if (fates[i] != STAYS)
            rows += pause_before(t->to) - first_in(t) + 3 + (fates[i] == LEAVES);
    }
    return rows;
}

/* The least time, or NEVER; part[i] is how much of each traveller leaves. */
static double solve_program(const relaxed *r, const fate *fates, double *part)
{
    columns c = lay_out(r, fates);
    program lp = program_create(count_rows(r, fates), c.count);
    double *solution = malloc(c.count * sizeof *solution), time = r->total;
    assert_non_null(solution);
    for (uint32_t k = 0; k < r->n_ops; k++)
        *cell(&lp, lp.n_rows, k) += 1;
    uint32_t row = add_engine_rows(&lp, 0, r, &c, fates);
    row = add_memory_rows(&lp, row, r, &c, fates);
    row = add_traveller_rows(&lp, row, r, &c, fates);
    assert_int_equal(row, lp.n_rows);
    if (program_solve(&lp, solution)) {
        for (uint32_t k = 0; k < r->n_ops; k++)
            time += solution[k];
        for (uint32_t i = 0; i < r->count; i++) {
            part[i] = 0;
            for (uint32_t j = c.out[i]; fates[i] != STAYS && j < c.in[i]; j++)
                part[i] += solution[j];
        }
    } else {
        time = NEVER;
    }
    free(solution);
    program_destroy(&lp);
    return time;
}

double offload_fractional_time(const offload_problem *problem, int64_t budget)
{
    relaxed r = relaxed_of(problem, budget);
    fate fates[MOST_MOVABLE] = {UNDECIDED};
    double part[MOST_MOVABLE];
    return solve_program(&r, fates, part);
}

static void branch(const relaxed *r, fate *fates, double *best)
{
    double part[MOST_MOVABLE], farthest = 1e-7;
    uint32_t at = r->count;
    double time = solve_program(r, fates, part);
    if (time < 0 || (*best >= 0 && time >= *best - 1e-9))
        return;
    for (uint32_t i = 0; i < r->count; i++) {
        double apart = fmin(part[i], r->who[i].bytes - part[i]);
        if (fates[i] == UNDECIDED && apart > farthest) {
            farthest = apart;
            at = i;
        }
    }
    if (at == r->count) {
        *best = time;
        return;
    }
    bool leave_first = part[at] > r->who[at].bytes / 2;
    for (int turn = 0; turn < 2; turn++) {
        fates[at] = leave_first == (turn == 0) ? LEAVES : STAYS;
        branch(r, fates, best);
    }
    fates[at] = UNDECIDED;
}

double offload_interrupted_time(const offload_problem *problem, int64_t budget)
{
    relaxed r = relaxed_of(problem, budget);
    fate fates[MOST_MOVABLE] = {UNDECIDED};
    double best = NEVER;
    branch(&r, fates, &best);
    return best;
}

/* ---- Ordered schedules, from both ends ---- */

/*
 * Let a set of travellers leave in the order they are made and come back in the reverse order, all
 * of them leaving first. From the beginning, with every op and every byte out as early as can be
 * and nothing coming back, op k begins no earlier than early[k], and the last byte has left no
 * earlier than all_out. From the end backwards, with everything as late as can be and nothing
 * leaving, the end is at least late[k] after op k begins, and at least all_in after the first byte
 * comes back. So a schedule takes at least
 *
 *     max(all_out + all_in, end of the last `from` + all_in, max over k of early[k] + late[k]),
 *
 * and that is enough: let the bytes go out by the first and come in by the second simulation, and
 * the ops begin by the first, or by the second from the first `to` on. Before the first byte
 * returns, the memory is that of the first simulation; after the last has left, that of the second,
 * in which op k begins no earlier than it does here. The middle term is left out with `overlap`.
 */

/*
 * One simulation. The other one is the same on the problem run backwards, where `to` is what `from`
 * is here. A value can be copied after op ready, and is released after op hold.
 */
typedef struct one_end {
    uint32_t n_ops, count;
    const double *seconds, *missing;
    double bytes[MOST_MOVABLE];
    uint32_t ready[MOST_MOVABLE], hold[MOST_MOVABLE];
    double rate;
    double begin[MOST_OFFLOAD_OPS]; /* found: of each op */
    double done;                    /* and of the last copy */
} one_end;

static bool simulate(one_end *s)
{
    double start[MOST_MOVABLE], clock = 0, engine = 0;
    uint32_t started = 0;
    for (uint32_t k = 0; k < s->n_ops; k++) {
        double gone = 0;
        uint32_t i = 0;
        for (; s->missing[k] > 0 && gone < s->missing[k]; i++) {
            if (i == s->count || s->hold[i] >= k)
                return false;
            double rest = fmin(s->bytes[i], s->missing[k] - gone);
            clock = fmax(clock, start[i] + rest * s->rate);
            gone += s->bytes[i];
        }
        s->begin[k] = clock;
        clock += s->seconds[k];
        for (; started < s->count && s->ready[started] <= k; started++) {
            start[started] = fmax(engine, clock);
            engine = start[started] + s->bytes[started] * s->rate;
        }
    }
    s->done = engine;
    return true;
}

static double ordered_time_of(const relaxed *r, uint32_t set, bool overlap)
{
    double seconds[MOST_OFFLOAD_OPS], missing[MOST_OFFLOAD_OPS];
    uint32_t n = r->n_ops;
    one_end out = {.n_ops = n, .seconds = r->seconds, .missing = r->missing, .rate = r->out_rate};
    one_end in = {.n_ops = n, .seconds = seconds, .missing = missing, .rate = r->in_rate};
    for (uint32_t k = 0; k < n; k++) {
        seconds[k] = r->seconds[n - 1 - k];
        missing[k] = r->missing[n - 1 - k];
    }
    for (uint32_t i = 0; i < r->count; i++)
        if (set >> i & 1) {
            const traveller *t = &r->who[i];
            uint32_t at = out.count++;
            in.count = out.count;
            out.bytes[at] = in.bytes[at] = t->bytes;
            out.ready[at] = t->made;
            out.hold[at] = t->from;
            in.ready[at] = in.hold[at] = n - 1 - t->to;
        }
    if (!simulate(&out) || !simulate(&in))
        return NEVER;
    double time = r->total;
    for (uint32_t k = 0; k < n; k++)
        time = fmax(time, out.begin[k] + r->seconds[k] + in.begin[n - 1 - k]);
    if (out.count > 0) {
        uint32_t from = out.hold[out.count - 1];
        time = fmax(time, out.done + in.done);
        if (!overlap)
            time = fmax(time, out.begin[from] + r->seconds[from] + in.done);
    }
    return time;
}

double offload_ordered_time(const offload_problem *problem, int64_t budget, bool overlap)
{
    relaxed r = relaxed_of(problem, budget);
    double best = NEVER;
    for (uint32_t set = 0; set < 1u << r.count; set++) {
        double time = ordered_time_of(&r, set, overlap);
        if (time >= 0 && (best < 0 || time < best))
            best = time;
    }
    return best;
}
