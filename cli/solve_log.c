#include "solve_log.h"

#include "output.h"

#include <stdio.h>
#include <string.h>

/* Seconds from one line to the next, at least. */
static const double PAUSE = 0.25;

void cli_solve_log_init(cli_solve_log *log, double base_time)
{
    *log = (cli_solve_log){.base_time = base_time, .best = -1, .bound = -1, .shown = -1};
}

void cli_solve_log_section(cli_solve_log *log, const char *title)
{
    char cut[sizeof log->section];
    snprintf(cut, sizeof cut, "%s", title);
    if (strcmp(cut, log->section) == 0)
        return;
    memcpy(log->section, cut, sizeof cut);
    log->best = log->bound = log->shown = -1;
}

/* With a digit more than elsewhere: small improvements are the point. */
static const char *fine_seconds(cli_text *text, double seconds)
{
    static const char *const UNITS[] = {"s", "ms", "us", "ns"};
    size_t unit = 0;
    while (seconds > 0 && seconds < 1 && unit < 3) {
        seconds *= 1e3;
        unit++;
    }
    int digits = seconds < 10 ? 3 : seconds < 100 ? 2 : 1;
    return cli_format(text, "%.*f %s", digits, seconds, UNITS[unit]);
}

static void add_seconds(neap_text *line, double seconds)
{
    cli_text text;
    neap_text_printf(line, "  %11s", seconds < 0 ? "-" : fine_seconds(&text, seconds));
}

/* How much more a time is than another, where both are known. */
static void add_excess(neap_text *line, int width, double time, double than)
{
    cli_text text;
    bool known = time >= 0 && than > 0;
    neap_text_printf(line, "  %*s", width,
                     known ? cli_format(&text, "%.1f%%", 100 * (time / than - 1)) : "-");
}

static void add_line(cli_solve_log *log, double seconds, double best, double bound,
                     neap_text *lines)
{
    if (!log->headed)
        neap_text_puts(lines, "   seconds    best time  overhead        bound      gap\n");
    if (log->shown < 0 && *log->section)
        neap_text_printf(lines, "%s\n", log->section);
    neap_text_printf(lines, "%10.2f", seconds);
    add_seconds(lines, best);
    add_excess(lines, 8, best, log->base_time);
    add_seconds(lines, bound);
    add_excess(lines, 7, best, bound);
    neap_text_puts(lines, "\n");
    log->headed = true;
    log->shown = seconds;
    log->best = best;
    log->bound = bound;
}

void cli_solve_log_add(cli_solve_log *log, double seconds, double best, double bound, bool at_end,
                       neap_text *lines)
{
    if (best < 0 || (log->best >= 0 && log->best < best)) /* what was known stays known */
        best = log->best;
    bool better = best >= 0 && (log->best < 0 || best < log->best);
    bool new = better || bound > log->bound || (bound >= 0 && bound < log->bound);
    bool due = log->shown < 0 || seconds - log->shown >= PAUSE;
    if ((new && (due || at_end)) || (at_end && log->shown < 0))
        add_line(log, seconds, best, bound, lines);
}
