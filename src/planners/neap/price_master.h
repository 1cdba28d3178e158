/*
 * The best prices of memory and of several kinds of time, by column generation (Dantzig and Wolfe
 * 1960): a linear program with a row for each, one for memory and one more; the caller adds its
 * columns, the cuts, one at a time.
 *
 * A line is the cost of a cut: ticks[i] in addition to base[i] for each inequality i that bounds
 * the time, and bytes. The program finds the least T such that for some mixture of the lines
 *
 *     T >= base[i] + ticks[i]   for all i,      bytes <= room
 *
 * and the dual values are prices: weights of the inequalities, which sum to 1, and a price per
 * byte. Floating point suffices: for any prices, the caller proves its bound in exact arithmetic.
 */
#ifndef NEAP_PLANNERS_NEAP_PRICE_MASTER_H
#define NEAP_PLANNERS_NEAP_PRICE_MASTER_H

#include <stdbool.h>
#include <stdint.h>

enum { MASTER_TIMES = 9, MASTER_ROWS = MASTER_TIMES + 2 }; /* at most */

typedef struct master_line {
    int64_t ticks[MASTER_TIMES], bytes;
} master_line;

typedef struct price_master {
    int n_times;
    double tick_unit, byte_unit;
    double side[MASTER_ROWS];
    double basis[MASTER_ROWS][MASTER_ROWS]; /* columns */
    int time_column;                        /* T: always in the basis */
    double values[MASTER_ROWS];
    double weights[MASTER_TIMES], price; /* in ticks and bytes */
    double time;                         /* T: approximately the most that any prices prove */
    double line_price;                   /* scaled: a line with a lower price is worth adding */
} price_master;

/* Starts with one line whose bytes are within the room; false: numerical trouble. */
bool neap_price_master_begin(price_master *m, int n_times, const int64_t *base, int64_t room,
                             const master_line *line);
/* Adds a line and finds new prices; false: it changes nothing. */
bool neap_price_master_add(price_master *m, const master_line *line);

#endif
