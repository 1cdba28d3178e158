/*
 * The best prices of memory and of four kinds of time, by column generation (Dantzig and Wolfe
 * 1960): a linear program with six rows whose columns, the cuts, come from outside one at a time.
 *
 * A line is what a cut costs: ticks[i] on top of base[i] for each inequality i that bounds the
 * time, and bytes. The least T is sought such that for some mixture of the lines
 *
 *     T >= base[i] + ticks[i]   for all i,      bytes <= room
 *
 * and the dual values are prices: weights of the inequalities, which add up to 1, and a price of
 * bytes. Numbers are ordinary floating point: whatever prices come out, the caller proves its bound
 * by them with its own, safe arithmetic.
 */
#ifndef NEAP_PLANNERS_NEAP_PRICE_MASTER_H
#define NEAP_PLANNERS_NEAP_PRICE_MASTER_H

#include <stdbool.h>
#include <stdint.h>

enum { MASTER_TIMES = 4, MASTER_ROWS = MASTER_TIMES + 2 };

typedef struct master_line {
    int64_t ticks[MASTER_TIMES], bytes;
} master_line;

typedef struct price_master {
    double tick_unit, byte_unit;
    double side[MASTER_ROWS];
    double basis[MASTER_ROWS][MASTER_ROWS]; /* columns */
    bool is_time[MASTER_ROWS];              /* the column of T */
    double values[MASTER_ROWS];
    /* the prices, in ticks and bytes */
    double weights[MASTER_TIMES], price;
    double time;       /* T: about the most that any prices prove */
    double line_price; /* scaled: a line whose price is less is worth adding */
} price_master;

/* Begins with one line whose bytes are within the room; false: numerical trouble. */
bool neap_price_master_begin(price_master *m, const int64_t base[MASTER_TIMES], int64_t room,
                             const master_line *line);
/* Adds a line, and finds new prices; false: it changes nothing. */
bool neap_price_master_add(price_master *m, const master_line *line);

#endif
