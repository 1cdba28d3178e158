#include "progress.h"

#include "output.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_int interrupts; /* lock-free: a signal handler may store it, any thread may load it */
/* Ctrl-C, and the signal that schedulers send before they kill. */
static const int SIGNALS[] = {SIGINT, SIGTERM};
enum { N_SIGNALS = sizeof SIGNALS / sizeof SIGNALS[0] };
static struct sigaction old_actions[N_SIGNALS];
static int held; /* number that have begun and not ended: the outermost sets the handler */

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    atomic_store(&interrupts, 1);
}

bool cli_interrupted(void)
{
    return atomic_load(&interrupts) != 0;
}

double cli_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool cancelled(neap_progress *base)
{
    (void)base;
    return cli_interrupted();
}

enum { BAR_WIDTH = 10 };

/* "  [=====     ] 45%" */
static const char *show_bar(cli_text *text, double fraction)
{
    double share = fraction < 1 ? fraction : 1;
    char bar[BAR_WIDTH + 1];
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < (int)(share * BAR_WIDTH) ? '=' : ' ';
    bar[BAR_WIDTH] = '\0';
    return cli_format(text, "[%s] %.0f%%", bar, 100 * share);
}

/* Appends a piece of the line if all of it fits. */
static void add_piece(neap_text *line, size_t width, const char *piece)
{
    if (cli_text_width(neap_text_get(line)) + 2 + cli_text_width(piece) < width)
        neap_text_printf(line, "  %s", piece);
}

/* "[3/12] sqrt, budget 2.59 GiB: planning" */
static void add_activity(const cli_progress *progress, const neap_progress_event *event,
                         neap_text *line)
{
    if (progress->purpose)
        neap_text_printf(line, "%s: ", progress->purpose);
    if (progress->total > 1)
        neap_text_printf(line, "[%u/%u] ", progress->done + 1, progress->total);
    neap_text_puts(line, progress->label ? progress->label : "");
    if (event && event->part)
        neap_text_printf(line, ", %s", event->part);
    if (event && event->phase && (!progress->label || strcmp(event->phase, progress->label) != 0))
        neap_text_printf(line, "%s%s", progress->label ? ": " : "", event->phase);
}

/* "[3/12] sqrt: planning  12 s  best 1.23 s  bound 1.11 s  [====      ] 45%  (Ctrl-C stops)": what
   does not fit in the terminal is left out. */
static void compose(const cli_progress *progress, const neap_progress_event *event, double elapsed,
                    neap_text *line)
{
    cli_text text, time;
    size_t width = (size_t)cli_terminal_width(STDERR_FILENO);
    bool has_best = event && event->best_time >= 0;
    add_activity(progress, event, line);
    add_piece(line, width, cli_format(&text, "%.0f s", elapsed));
    if (has_best)
        add_piece(line, width, cli_format(&text, "best %s", cli_seconds(&time, event->best_time)));
    if (event && event->bound_time >= 0)
        add_piece(line, width,
                  cli_format(&text, "bound %s", cli_seconds(&time, event->bound_time)));
    if (event && event->fraction >= 0)
        add_piece(line, width, show_bar(&text, event->fraction));
    add_piece(line, width,
              cli_interrupted() ? "stopping"
              : has_best        ? "(Ctrl-C keeps the best plan so far)"
                                : "(Ctrl-C stops)");
}

/* Ten times a second, and whenever the phase changes, so that the line stays correct. */
static bool is_due(const cli_progress *progress, const char *phase, double now)
{
    bool same = phase == progress->phase ||
                (phase && progress->phase && strcmp(phase, progress->phase) == 0);
    return progress->shown < 0 || now - progress->shown >= 0.1 || !same;
}

static void show(cli_progress *progress, const neap_progress_event *event)
{
    double now = cli_clock();
    const char *phase = event ? event->phase : NULL;
    if (!progress->on_terminal || now - progress->begin < 1 || !is_due(progress, phase, now))
        return;
    neap_text line = {0};
    compose(progress, event, now - progress->begin, &line);
    if (line.status == NEAP_OK) /* cut at the terminal's width, or the rest would not be erased */
        fprintf(stderr, "\r%.*s\033[K", cli_terminal_width(STDERR_FILENO) - 1,
                neap_text_get(&line));
    fflush(stderr);
    neap_text_clear(&line);
    progress->shown = now;
    progress->phase = phase;
}

/* "[3/12] sqrt, budget 2.59 GiB", as far as there is more than one. */
static void name_section(const cli_progress *progress, const neap_progress_event *event,
                         neap_text *title)
{
    bool several = progress->total > 1;
    if (several)
        neap_text_printf(title, "[%u/%u] %s", progress->done + 1, progress->total, progress->label);
    if (event->part)
        neap_text_printf(title, "%s%s", several ? ", " : "", event->part);
}

static void write_log(cli_progress *progress, const neap_progress_event *event)
{
    if (event->best_time < 0 && event->bound_time < 0)
        return;
    neap_text title = {0}, lines = {0};
    name_section(progress, event, &title);
    cli_solve_log_section(&progress->log, neap_text_get(&title));
    cli_solve_log_add(&progress->log, cli_clock() - progress->begin, event->best_time,
                      event->bound_time, event->fraction >= 1, &lines);
    if (lines.length > 0 && lines.status == NEAP_OK) {
        fprintf(stderr, "%s%s", progress->shown >= 0 ? "\r\033[K" : "", lines.text);
        fflush(stderr);
    }
    neap_text_clear(&title);
    neap_text_clear(&lines);
}

static void report(neap_progress *base, const neap_progress_event *event)
{
    cli_progress *progress = (cli_progress *)base; /* base is its first member */
    if (progress->logs)
        write_log(progress, event);
    show(progress, event);
}

/* Once: the next Ctrl-C ends the process. */
static void catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    action.sa_flags = (int)(SA_RESETHAND | SA_RESTART);
    for (int i = 0; i < N_SIGNALS; i++) {
        sigaction(SIGNALS[i], &action, &old_actions[i]);
        if (old_actions[i].sa_handler == SIG_IGN) /* as the caller set it: nohup */
            sigaction(SIGNALS[i], &old_actions[i], NULL);
    }
}

bool cli_live_terminal(void)
{
    const char *terminal = getenv("TERM");
    return isatty(STDERR_FILENO) && terminal && *terminal && strcmp(terminal, "dumb") != 0;
}

void cli_progress_begin(cli_progress *progress)
{
    *progress = (cli_progress){.base = {report, cancelled}, .begin = cli_clock(), .shown = -1};
    progress->on_terminal = cli_live_terminal();
    if (held++ == 0)
        catch_interrupts();
}

void cli_progress_log(cli_progress *progress, double base_time)
{
    progress->logs = true;
    cli_solve_log_init(&progress->log, base_time);
}

void cli_progress_part(cli_progress *progress, const char *label, uint32_t done, uint32_t total)
{
    progress->label = label;
    progress->done = done;
    progress->total = total;
    show(progress, NULL);
}

void cli_progress_end(cli_progress *progress)
{
    if (progress->shown >= 0) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    if (--held > 0)
        return;
    for (int i = 0; i < N_SIGNALS; i++)
        sigaction(SIGNALS[i], &old_actions[i], NULL);
}
