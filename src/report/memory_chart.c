/*
 * neap/report.h: memory over time, for a terminal.
 *
 *     vgg19, neap: peak 9.80 GiB, 137 ms, 3.1% of it recomputing                     caption
 *      12 GiB ◆ natural peak 12.0 GiB
 *             │─────────────────────────────────────────────── budget 10.0 GiB ─
 *       8 GiB ┤           ▃▅███▆▂
 *                ...                                                              the plot: cells
 *           0 └────────────┬────────────┬────────────┬────────────┬──────────
 *             0          25 ms        50 ms        75 ms       100 ms
 *         ops FFFFFFFFFFFFFFFFFFFFFFFFFFFBBBBBBRRRBBBRRBBBBBBBBBBBBBBBBBBBBBB
 *        copy >>>>>>>>>>>>>>                  <<<<<<<<<
 *             F forward  B backward  R recomputing  > to the host  < back         legend
 *
 * A row's label names the value at its upper edge, so that 0 falls on the axis.
 */
#include "report/chart_columns.h"
#include "report/chart_size.h"
#include "report/clean_text.h"
#include "report/round_ticks.h"
#include "report/terminal_pen.h"

#include "base/fail.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <neap/report.h>
#include <neap/text.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/*
 * If the budget or natural peak exceeds this multiple of the plan's own peak, drawing it would
 * flatten the chart: it is named at the top instead.
 */
#define REACH 2.5

typedef struct cell {
    char glyph[4]; /* one character, padded with NULs */
    uint8_t ink;
    bool in_label;
} cell;

/* The scale of the y axis: a tick every `rows` rows, each `step` units higher. */
typedef struct y_scale {
    neap_byte_unit unit;
    neap_round step;
    int rows;
    double row_bytes;
} y_scale;

/* The signs in the strips below the axis. */
typedef enum sign {
    SIGN_FORWARD,
    SIGN_BACKWARD,
    SIGN_AGAIN,
    SIGN_PARTLY_AGAIN,
    SIGN_WAIT,
    SIGN_OUT,
    SIGN_IN,
    SIGN_BOTH,
    SIGN_NOTHING,
    SIGN_COUNT
} sign;

static const struct {
    const char *mark, *meaning;
    neap_ink ink;
} signs[SIGN_COUNT] = {
    [SIGN_FORWARD] = {"F", "forward", NEAP_INK_FORWARD},
    [SIGN_BACKWARD] = {"B", "backward", NEAP_INK_BACKWARD},
    [SIGN_AGAIN] = {"R", "recomputing", NEAP_INK_AGAIN},
    [SIGN_PARTLY_AGAIN] = {"r", "recomputing in part", NEAP_INK_AGAIN},
    [SIGN_WAIT] = {NULL, "waiting", NEAP_INK_AXIS}, /* its mark is a glyph of the alphabet */
    [SIGN_OUT] = {">", "to the host", NEAP_INK_COPY},
    [SIGN_IN] = {"<", "back", NEAP_INK_COPY},
    [SIGN_BOTH] = {"x", "both ways", NEAP_INK_COPY},
    [SIGN_NOTHING] = {" ", "", NEAP_INK_AXIS},
};

/* A size that is named in the plot if there is room, otherwise in the legend. */
typedef struct mark {
    const char *name;
    int64_t bytes; /* -1: none */
    neap_ink ink;
    bool named; /* in the plot */
} mark;

typedef struct chart {
    const neap_chart_options *options;
    const neap_graph *graph;
    const neap_plan *plan;
    const neap_timeline *timeline;
    neap_chart_columns columns;
    y_scale scale;
    int gutter;  /* characters before the axis */
    cell *cells; /* height rows of width, the lowest first */
    mark budget, natural;
    bool over_drawn;       /* some cell shows memory above the budget */
    bool used[SIGN_COUNT]; /* signs to be explained in the legend */
    neap_pen pen;
} chart;

static const char *glyph(const chart *c, int64_t which)
{
    return neap_pen_glyph(&c->pen, which);
}

static int characters(const char *text)
{
    return (int)neap_string_characters(text, strlen(text));
}

/* ---- The scale ---- */

static bool in_reach(const chart *c, int64_t bytes)
{
    return bytes >= 0 && (double)bytes <= REACH * (double)c->timeline->peak_bytes;
}

static int64_t highest(const chart *c)
{
    int64_t most = c->timeline->peak_bytes;
    for (size_t i = 0; i < c->columns.count; i++)
        if (c->columns.items[i].bytes > most)
            most = c->columns.items[i].bytes;
    if (in_reach(c, c->budget.bytes) && c->budget.bytes > most)
        most = c->budget.bytes;
    if (in_reach(c, c->natural.bytes) && c->natural.bytes > most)
        most = c->natural.bytes;
    return most > 0 ? most : 1;
}

/*
 * Ticks must be on the edges of rows, so the top of the scale is step * height / rows. Among all
 * round steps and rows per tick, this chooses the pair that wastes the least height.
 */
static y_scale choose_scale(double most, int height)
{
    y_scale best = {.unit = neap_byte_unit_for(most)};
    double most_units = most / best.unit.bytes;
    int most_rows = height / 2 < 5 ? height / 2 : 5;
    double best_top = HUGE_VAL;
    for (int rows = 2; rows <= (most_rows < 2 ? 2 : most_rows); rows++) {
        neap_round step = neap_round_up(most_units * rows / height);
        double top = step.step * height / rows;
        if (top >= best_top * (1 - 1e-9))
            continue;
        best_top = top;
        best.step = step;
        best.rows = rows;
        best.row_bytes = step.step * best.unit.bytes / rows;
    }
    return best;
}

/* The label of the row whose upper edge is `edge` rows above 0; "" if it has no tick. */
static void row_label(const y_scale *scale, int edge, char *label, size_t capacity)
{
    label[0] = '\0';
    if (edge % scale->rows != 0)
        return;
    double value = scale->step.step * (edge / scale->rows);
    if (edge == 0)
        snprintf(label, capacity, "0");
    else
        snprintf(label, capacity, "%.*f %s", scale->step.decimals, value, scale->unit.name);
}

static int gutter_for(const y_scale *scale, int height)
{
    int widest = 4; /* "copy" */
    for (int edge = 0; edge <= height; edge++) {
        char label[32];
        row_label(scale, edge, label, sizeof label);
        int width = (int)strlen(label);
        widest = width > widest ? width : widest;
    }
    return widest + 1;
}

/* ---- The plot ---- */

static cell *cell_at(const chart *c, int row, int column)
{
    return &c->cells[(size_t)row * c->columns.count + (size_t)column];
}

static void set_cell(cell *at, const char *glyph, neap_ink ink)
{
    memset(at->glyph, 0, sizeof at->glyph);
    size_t length = strlen(glyph);
    memcpy(at->glyph, glyph, length < sizeof at->glyph ? length : sizeof at->glyph - 1);
    at->ink = (uint8_t)ink;
}

/*
 * The row of a value; an edge belongs to the row below it. *third is 0, 1 or 2: the position within
 * the row, from the bottom.
 */
static int row_of(const chart *c, int64_t bytes, int *third)
{
    double rows = (double)bytes / c->scale.row_bytes;
    int row = (int)ceil(rows) - 1;
    if (row < 0)
        row = 0;
    if (row >= c->options->height)
        row = c->options->height - 1;
    int part = (int)ceil((rows - row) * 3) - 1;
    *third = part < 0 ? 0 : part > 2 ? 2 : part;
    return row;
}

/*
 * A full cell of the area. If memory is above the budget, the row of the budget line belongs to
 * both sides: coloured blocks show both, otherwise the larger part decides.
 */
static void draw_full_cell(chart *c, int row, int column, int budget_row, int64_t budget_eighths)
{
    cell *at = cell_at(c, row, column);
    bool above = row > budget_row || (row == budget_row && budget_eighths <= 4);
    if (row == budget_row && budget_eighths < 8 && c->options->color && c->options->unicode)
        set_cell(at, glyph(c, NEAP_GLYPH_AREA + budget_eighths), NEAP_INK_SPLIT);
    else if (!above)
        set_cell(at, glyph(c, NEAP_GLYPH_AREA + 8), NEAP_INK_AREA);
    else
        set_cell(at, glyph(c, c->options->color ? NEAP_GLYPH_AREA + 8 : NEAP_GLYPH_OVER),
                 NEAP_INK_OVER);
    c->over_drawn = c->over_drawn || (above && !c->options->color);
}

/* Heights are rounded down, so that memory within a budget never crosses its line. */
static int64_t eighths_of(const chart *c, int64_t bytes)
{
    return (int64_t)floor((double)bytes / c->scale.row_bytes * 8 * (1 + 1e-12));
}

static void draw_column(chart *c, int column)
{
    int64_t bytes = c->columns.items[column].bytes, budget = c->options->budget;
    bool over = budget >= 0 && bytes > budget;
    int third, budget_row = over ? row_of(c, budget, &third) : c->options->height;
    int64_t budget_eighths = over ? eighths_of(c, budget) - 8 * (int64_t)budget_row : 8;
    int64_t eighths = eighths_of(c, bytes);
    if (eighths == 0 && bytes > 0)
        eighths = 1;
    for (int row = 0; row < c->options->height; row++, eighths -= 8)
        if (eighths >= 8)
            draw_full_cell(c, row, column, budget_row, budget_eighths);
        else
            set_cell(cell_at(c, row, column),
                     glyph(c, NEAP_GLYPH_AREA + (eighths > 0 ? eighths : 0)),
                     eighths <= 0                ? NEAP_INK_NONE
                     : over && row >= budget_row ? NEAP_INK_OVER
                                                 : NEAP_INK_AREA);
}

static bool is_empty(const cell *at)
{
    return !at->in_label && (at->ink == NEAP_INK_NONE || at->ink == NEAP_INK_BUDGET);
}

/* Writes a label over empty cells of a row from a column on; false if a cell is not empty. */
static bool try_label(chart *c, int row, int column, const char *label, neap_ink ink)
{
    int length = characters(label);
    if (column < 0 || column + length > c->options->width)
        return false;
    for (int i = 0; i < length; i++)
        if (!is_empty(cell_at(c, row, column + i)))
            return false;
    for (int i = 0; i < length; i++) {
        neap_character character = neap_utf8_next(label);
        cell *at = cell_at(c, row, column + i);
        *at = (cell){.ink = (uint8_t)ink, .in_label = true};
        memcpy(at->glyph, character.shown, character.shown_length);
        label += character.length;
    }
    return true;
}

/* Names a mark at one of two columns of its row, preferably the first. */
static void name_mark(chart *c, mark *m, int inset, bool at_right)
{
    char size[32], label[64];
    int third, row = row_of(c, m->bytes, &third);
    neap_bytes_format(m->bytes, size, sizeof size);
    if (in_reach(c, m->bytes))
        snprintf(label, sizeof label, " %s %s ", m->name, size);
    else
        snprintf(label, sizeof label, " %s %s %s ", m->name, size, glyph(c, NEAP_GLYPH_UP));
    int right = c->options->width - characters(label) - inset;
    m->named = try_label(c, row, at_right ? right : inset, label, m->ink) ||
               try_label(c, row, at_right ? inset : right, label, m->ink);
}

/* Draws a line over empty cells, and its name. */
static void draw_budget(chart *c)
{
    int third, row = row_of(c, c->budget.bytes, &third);
    const char *line = glyph(c, NEAP_GLYPH_LINE + third);
    for (int column = 0; in_reach(c, c->budget.bytes) && column < c->options->width; column++)
        if (is_empty(cell_at(c, row, column)))
            set_cell(cell_at(c, row, column), line, c->budget.ink);
    name_mark(c, &c->budget, 1, true);
}

static neap_status draw_plot(chart *c, neap_diag *diag)
{
    size_t n_cells = c->columns.count * (size_t)c->options->height;
    neap_status status = NEAP_NEW(c->pen.out.allocator, n_cells, &c->cells, diag);
    if (status != NEAP_OK)
        return status;
    for (int column = 0; column < c->options->width; column++)
        draw_column(c, column);
    if (c->budget.bytes >= 0)
        draw_budget(c);
    if (c->natural.bytes >= 0)
        name_mark(c, &c->natural, 0, false);
    return NEAP_OK;
}

static void write_plot(chart *c)
{
    int third, natural_row = -1;
    if (in_reach(c, c->natural.bytes))
        natural_row = row_of(c, c->natural.bytes, &third);
    for (int row = c->options->height - 1; row >= 0; row--) {
        char label[32];
        row_label(&c->scale, row + 1, label, sizeof label);
        neap_pen_spaces(&c->pen, c->gutter - 1 - (int)strlen(label));
        neap_pen_put(&c->pen, NEAP_INK_AXIS, label);
        neap_pen_spaces(&c->pen, 1);
        if (row == natural_row)
            neap_pen_put_glyph(&c->pen, NEAP_INK_NATURAL, NEAP_GLYPH_NATURAL);
        else
            neap_pen_put_glyph(&c->pen, NEAP_INK_AXIS,
                               label[0] ? NEAP_GLYPH_TICK : NEAP_GLYPH_AXIS);
        for (int column = 0; column < c->options->width; column++) {
            const cell *at = cell_at(c, row, column);
            if (at->ink == NEAP_INK_NONE)
                neap_pen_spaces(&c->pen, 1);
            else
                neap_pen_put(&c->pen, (neap_ink)at->ink, at->glyph);
        }
        neap_pen_end_line(&c->pen);
    }
}

/* ---- Below the plot ---- */

typedef struct x_scale {
    const char *unit;
    double units; /* covered by the width */
    neap_round step;
} x_scale;

static x_scale choose_x_scale(const chart *c)
{
    x_scale x = {"steps", (double)c->columns.length, {0, 0}};
    if (!c->columns.by_step) {
        double seconds = neap_graph_seconds(c->graph, c->columns.length);
        neap_time_unit unit = neap_time_unit_for(seconds);
        x.unit = unit.name;
        x.units = seconds / unit.seconds;
    }
    x.step = neap_round_up(x.units * 14 / c->options->width);
    if (c->columns.by_step && x.step.decimals > 0)
        x.step = neap_round_up(x.step.step < 1 ? 1 : 5); /* a step cannot be halved */
    return x;
}

static int x_column(const chart *c, const x_scale *x, int tick)
{
    return (int)floor(x->step.step * tick / x->units * c->options->width + 1e-9);
}

static void write_axis(chart *c, const x_scale *x)
{
    neap_pen_spaces(&c->pen, c->gutter - 2);
    neap_pen_put(&c->pen, NEAP_INK_AXIS, "0 ");
    neap_pen_put_glyph(&c->pen, NEAP_INK_AXIS, NEAP_GLYPH_CORNER);
    int tick = 1;
    for (int column = 0; column < c->options->width; column++) {
        bool marked = column == x_column(c, x, tick);
        neap_pen_put_glyph(&c->pen, NEAP_INK_AXIS,
                           marked ? NEAP_GLYPH_FLOOR_TICK : NEAP_GLYPH_FLOOR);
        tick += marked;
    }
    neap_pen_end_line(&c->pen);
    neap_pen_spaces(&c->pen, c->gutter + 1);
    neap_pen_put(&c->pen, NEAP_INK_AXIS, "0");
    int written = 1;
    for (tick = 1; x_column(c, x, tick) < c->options->width; tick++) {
        char label[40];
        int length = snprintf(label, sizeof label, "%.*f %s", x->step.decimals, x->step.step * tick,
                              x->unit);
        int start = x_column(c, x, tick) - length / 2;
        if (start + length > c->options->width)
            start = c->options->width - length;
        if (start <= written)
            continue;
        neap_pen_spaces(&c->pen, start - written);
        neap_pen_put(&c->pen, NEAP_INK_AXIS, label);
        written = start + length;
    }
    neap_pen_end_line(&c->pen);
}

/* What fills the most of a column, if anything does. Waiting has to fill half: no op, however
   short, is to vanish behind it. */
static sign op_sign(const chart *c, const neap_chart_column *column)
{
    int most = NEAP_DOES_WAIT;
    int64_t work = 0;
    for (int i = 0; i < NEAP_DOES_WAIT; i++) {
        work += column->share[i];
        if (column->share[i] > 0 &&
            (most == NEAP_DOES_WAIT || column->share[i] > column->share[most]))
            most = i;
    }
    if (column->share[NEAP_DOES_WAIT] > work || most == NEAP_DOES_WAIT)
        return c->columns.by_step ? SIGN_NOTHING : SIGN_WAIT;
    if (most == NEAP_DOES_AGAIN)
        return SIGN_AGAIN;
    if (column->share[NEAP_DOES_AGAIN] > 0)
        return SIGN_PARTLY_AGAIN;
    return most == NEAP_DOES_BACKWARD ? SIGN_BACKWARD : SIGN_FORWARD;
}

static sign copy_sign(const chart *c, const neap_chart_column *column)
{
    (void)c;
    if (column->copies_out)
        return column->copies_in ? SIGN_BOTH : SIGN_OUT;
    return column->copies_in ? SIGN_IN : SIGN_NOTHING;
}

static const char *mark_of(const chart *c, sign which)
{
    return which == SIGN_WAIT ? glyph(c, NEAP_GLYPH_WAIT) : signs[which].mark;
}

/* A line with one sign per column; `title` has four characters. */
static void write_strip(chart *c, const char *title,
                        sign (*sign_of)(const chart *c, const neap_chart_column *column))
{
    neap_pen_spaces(&c->pen, c->gutter - 5);
    neap_pen_put(&c->pen, NEAP_INK_AXIS, title);
    neap_pen_spaces(&c->pen, 2);
    for (int i = 0; i < c->options->width; i++) {
        sign which = sign_of(c, &c->columns.items[i]);
        c->used[which] = true;
        neap_pen_put(&c->pen, signs[which].ink, mark_of(c, which));
    }
    neap_pen_end_line(&c->pen);
}

static void write_entry(chart *c, int *written, neap_ink ink, const char *sample,
                        const char *meaning)
{
    neap_pen_entry(&c->pen, written, c->gutter + 1, c->options->width, ink, sample, meaning);
}

static void write_mark(chart *c, int *written, const mark *m, const char *sample)
{
    char size[32], meaning[64];
    if (m->bytes < 0 || m->named)
        return;
    snprintf(meaning, sizeof meaning, "%s %s", m->name,
             neap_bytes_format(m->bytes, size, sizeof size));
    write_entry(c, written, m->ink, sample, meaning);
}

static void write_legend(chart *c)
{
    int written = 0;
    for (int i = 0; i < SIGN_NOTHING; i++)
        if (c->used[i])
            write_entry(c, &written, signs[i].ink, mark_of(c, (sign)i), signs[i].meaning);
    if (c->over_drawn)
        write_entry(c, &written, NEAP_INK_OVER, glyph(c, NEAP_GLYPH_OVER), "over the budget");
    write_mark(c, &written, &c->budget, glyph(c, NEAP_GLYPH_LINE + 1));
    write_mark(c, &written, &c->natural, glyph(c, NEAP_GLYPH_NATURAL));
    if (written > 0)
        neap_pen_end_line(&c->pen);
}

/* ---- The caption ---- */

static void append_times(const chart *c, neap_text *line)
{
    char text[40];
    if (c->columns.by_step) {
        neap_text_printf(line, ", %zu steps", c->timeline->n_steps);
        return;
    }
    double all = (double)c->columns.length;
    neap_text_printf(
        line, ", %s",
        neap_seconds_format(neap_graph_seconds(c->graph, c->columns.length), text, sizeof text));
    if (c->columns.again > 0)
        neap_text_printf(line, ", %.1f%% of it recomputing", 100 * (double)c->columns.again / all);
    if (c->timeline->idle_ticks > 0)
        neap_text_printf(line, ", %.1f%% waiting", 100 * (double)c->timeline->idle_ticks / all);
}

/* The figures after the names. */
static void append_facts(const chart *c, neap_text *line)
{
    char size[32];
    int64_t peak = c->timeline->peak_bytes, budget = c->options->budget;
    neap_text_printf(line, ": peak %s", neap_bytes_format(peak, size, sizeof size));
    if (budget >= 0 && peak > budget)
        neap_text_printf(line, " (%s over the budget)",
                         neap_bytes_format(peak - budget, size, sizeof size));
    append_times(c, line);
}

/* If the line is too short, the names are shortened first, to a third of it at least. */
static void write_caption(chart *c)
{
    neap_text names, facts;
    neap_text_init(&names, c->pen.out.allocator);
    neap_text_init(&facts, c->pen.out.allocator);
    const char *method = neap_plan_method(c->plan);
    neap_text_puts(&names, neap_graph_name(c->graph));
    if (*method)
        neap_text_printf(&names, ", %s", method);
    append_facts(c, &facts);
    if (names.status == NEAP_OK && facts.status == NEAP_OK) {
        size_t room = (size_t)(c->gutter + 1 + c->options->width);
        size_t needed = (size_t)characters(facts.text);
        size_t for_names = needed + room / 3 <= room ? room - needed : room / 3;
        const char *ellipsis = glyph(c, NEAP_GLYPH_ELLIPSIS);
        size_t written = neap_text_clean(&c->pen.out, names.text, for_names, ellipsis);
        neap_text_clean(&c->pen.out, facts.text, room - written, ellipsis);
    } else {
        c->pen.out.status = NEAP_NO_MEMORY;
    }
    neap_text_clear(&names);
    neap_text_clear(&facts);
    neap_pen_end_line(&c->pen);
}

/* ---- All of it ---- */

static neap_status write_chart(chart *c, char **text, size_t *length, neap_diag *diag)
{
    neap_status status = draw_plot(c, diag);
    if (status != NEAP_OK)
        return status;
    x_scale x = choose_x_scale(c);
    write_caption(c);
    write_plot(c);
    write_axis(c, &x);
    write_strip(c, " ops", op_sign);
    if (c->columns.copies)
        write_strip(c, "copy", copy_sign);
    write_legend(c);
    return neap_text_take(&c->pen.out, text, length, diag);
}

neap_status neap_report_memory_chart(neap_allocator *allocator, const neap_graph *graph,
                                     const neap_plan *plan, const neap_timeline *timeline,
                                     const neap_chart_options *options, char **text, size_t *length,
                                     neap_diag *diag)
{
    *text = NULL;
    *length = 0;
    neap_chart_options defaults;
    neap_chart_options_init(&defaults);
    chart c = {.options = options ? options : &defaults,
               .graph = graph,
               .plan = plan,
               .timeline = timeline};
    neap_status status = neap_chart_check_size(c.options, diag);
    if (status != NEAP_OK)
        return status;
    c.budget = (mark){"budget", c.options->budget, NEAP_INK_BUDGET, false};
    c.natural = (mark){"natural peak", c.options->natural_peak, NEAP_INK_NATURAL, false};
    allocator = neap_allocator_or_system(allocator);
    neap_text_init(&c.pen.out, allocator);
    c.pen.color = c.options->color;
    c.pen.unicode = c.options->unicode;
    size_t width = (size_t)c.options->width;
    status = neap_chart_columns_build(allocator, graph, plan, timeline, width, &c.columns, diag);
    if (status != NEAP_OK)
        return status;
    c.scale = choose_scale((double)highest(&c), c.options->height);
    c.gutter = gutter_for(&c.scale, c.options->height);
    status = write_chart(&c, text, length, diag);
    NEAP_DELETE(allocator, width * (size_t)c.options->height, c.cells);
    neap_text_clear(&c.pen.out);
    neap_chart_columns_clear(&c.columns);
    return status;
}
