#include "planners/neap/price_master.h"

#include <math.h>
#include <string.h>

enum { N = MASTER_ROWS };

static const double TOLERANCE = 1e-10;

/*
 * Rows: T - sum of ticks - slack = base for each time; sum of bytes + slack = room; the shares of
 * the lines add up to 1.
 */

static int bytes_row(const price_master *m)
{
    return m->n_times;
}

static int one_row(const price_master *m)
{
    return m->n_times + 1;
}

static int n_rows(const price_master *m)
{
    return m->n_times + 2;
}

/* Solves B x = right (B by columns) or, if `left`, x B = right; false: singular. */
static bool solve(const price_master *m, const double right[N], bool left, double x[N])
{
    double a[N][N + 1];
    int n = n_rows(m);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            a[i][j] = left ? m->basis[i][j] : m->basis[j][i];
        a[i][n] = right[i];
    }
    for (int k = 0; k < n; k++) {
        int pivot = k;
        for (int i = k + 1; i < n; i++)
            pivot = fabs(a[i][k]) > fabs(a[pivot][k]) ? i : pivot;
        if (fabs(a[pivot][k]) < 1e-13)
            return false;
        for (int j = 0; j <= n; j++) {
            double other = a[k][j];
            a[k][j] = a[pivot][j];
            a[pivot][j] = other;
        }
        for (int i = 0; i < n; i++)
            for (int j = n; j >= k && i != k; j--)
                a[i][j] -= a[i][k] / a[k][k] * a[k][j];
    }
    for (int i = 0; i < n; i++)
        x[i] = a[i][n] / a[i][i];
    return true;
}

static void column_of(const price_master *m, const master_line *line, double column[N])
{
    for (int i = 0; i < m->n_times; i++)
        column[i] = -(double)line->ticks[i] / m->tick_unit;
    column[bytes_row(m)] = (double)line->bytes / m->byte_unit;
    column[one_row(m)] = 1;
}

/* Sets values and prices; false: numerical trouble. */
static bool price(price_master *m, double duals[N])
{
    double cost[N] = {0};
    cost[m->time_column] = 1;
    if (!solve(m, m->side, false, m->values) || !solve(m, cost, true, duals))
        return false;
    m->time = m->values[m->time_column] * m->tick_unit;
    for (int i = 0; i < m->n_times; i++)
        m->weights[i] = duals[i] > 0 ? duals[i] : 0;
    m->price = duals[bytes_row(m)] < 0 ? -duals[bytes_row(m)] * m->tick_unit / m->byte_unit : 0;
    m->line_price = duals[one_row(m)];
    return true;
}

/* The column enters the basis; the one that reaches zero first leaves. */
static bool enter(price_master *m, const double column[N], double duals[N])
{
    double step[N];
    int leaving = -1;
    if (!solve(m, column, false, step))
        return false;
    for (int i = 0; i < n_rows(m); i++)
        if (step[i] > 1e-9 && i != m->time_column &&
            (leaving < 0 || m->values[i] * step[leaving] < m->values[leaving] * step[i]))
            leaving = i;
    if (leaving < 0)
        return false;
    memcpy(m->basis[leaving], column, sizeof m->basis[leaving]);
    return price(m, duals);
}

/* Lets slacks with a negative price enter, so that the prices are a dual solution. */
static bool clear_slacks(price_master *m, double duals[N])
{
    for (int round = 0; round < 50; round++) {
        double column[N] = {0}, least = -TOLERANCE;
        int worst = -1;
        for (int i = 0; i <= bytes_row(m); i++) {
            double reduced = i == bytes_row(m) ? -duals[i] : duals[i];
            worst = reduced < least ? i : worst;
            least = fmin(reduced, least);
        }
        if (worst < 0)
            return true;
        column[worst] = worst == bytes_row(m) ? 1 : -1;
        if (!enter(m, column, duals))
            return false;
    }
    return true;
}

bool neap_price_master_begin(price_master *m, int n_times, const int64_t *base, int64_t room,
                             const master_line *line)
{
    double duals[N];
    int largest = 0;
    *m = (price_master){
        .n_times = n_times, .tick_unit = (double)base[0] + 1, .byte_unit = (double)room + 1};
    for (int i = 0; i < m->n_times; i++) {
        m->side[i] = (double)base[i] / m->tick_unit;
        m->basis[i][i] = -1;
        if (base[i] + line->ticks[i] > base[largest] + line->ticks[largest])
            largest = i;
    }
    m->side[bytes_row(m)] = (double)room / m->byte_unit;
    m->side[one_row(m)] = 1;
    m->basis[bytes_row(m)][bytes_row(m)] = 1;
    column_of(m, line, m->basis[one_row(m)]);
    for (int i = 0; i < n_rows(m); i++) /* T replaces the tightest slack */
        m->basis[largest][i] = i < m->n_times;
    m->time_column = largest;
    return price(m, duals) && clear_slacks(m, duals);
}

bool neap_price_master_add(price_master *m, const master_line *line)
{
    double column[N], duals[N], reduced = -m->line_price;
    column_of(m, line, column);
    for (int i = 0; i < m->n_times; i++)
        reduced += m->weights[i] * -column[i];
    reduced += m->price * m->byte_unit / m->tick_unit * column[bytes_row(m)];
    if (reduced > -TOLERANCE)
        return false;
    return enter(m, column, duals) && clear_slacks(m, duals);
}
