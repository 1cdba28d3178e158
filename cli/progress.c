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
/* Ctrl-C, and what a scheduler sends before it kills. */
static const int SIGNALS[] = {SIGINT, SIGTERM};
enum { N_SIGNALS = sizeof SIGNALS / sizeof SIGNALS[0] };
static struct sigaction old_actions[N_SIGNALS];
static int held; /* how many have begun and not ended: the outermost sets the handler */

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

enum { BAR_WIDTH = 20 };

/* "[=========           ] 45%" */
static void add_bar(double fraction, neap_text *line)
{
    double share = fraction < 1 ? fraction : 1;
    size_t filled = (size_t)(share * BAR_WIDTH);
    neap_text_puts(line, "  [");
    neap_text_repeat(line, '=', filled);
    neap_text_repeat(line, ' ', BAR_WIDTH - filled);
    neap_text_printf(line, "] %.0f%%", 100 * share);
}

/* "[3/12] sqrt: layout  [=========           ] 45%  best 1.23 s  bound 1.11 s  12.0 s" */
static void compose(const cli_progress *progress, const neap_progress_event *event, double elapsed,
                    neap_text *line)
{
    cli_text text;
    if (progress->total > 1)
        neap_text_printf(line, "[%u/%u] ", progress->done + 1, progress->total);
    if (progress->label)
        neap_text_puts(line, progress->label);
    if (event && event->phase && (!progress->label || strcmp(event->phase, progress->label) != 0))
        neap_text_printf(line, "%s%s", progress->label ? ": " : "", event->phase);
    if (event && event->fraction >= 0)
        add_bar(event->fraction, line);
    if (event && event->best_time >= 0)
        neap_text_printf(line, "  best %s", cli_seconds(&text, event->best_time));
    if (event && event->bound_time >= 0)
        neap_text_printf(line, "  bound %s", cli_seconds(&text, event->bound_time));
    neap_text_printf(line, "  %.0f s", elapsed);
    neap_text_puts(line, cli_interrupted() ? "  stopping" : "  (Ctrl-C keeps the best so far)");
}

static void show(cli_progress *progress, const neap_progress_event *event)
{
    double now = cli_clock();
    if (!progress->on_terminal || now - progress->begin < 1 ||
        (progress->shown >= 0 && now - progress->shown < 0.1))
        return;
    neap_text line = {0};
    compose(progress, event, now - progress->begin, &line);
    if (line.status == NEAP_OK) /* cut at the terminal's width, or its end would stay behind */
        fprintf(stderr, "\r%.*s\033[K", cli_terminal_width(STDERR_FILENO) - 1, line.text);
    fflush(stderr);
    neap_text_clear(&line);
    progress->shown = now;
}

/* "[3/12] sqrt, budget 2.59 GiB", as far as there is more than one. */
static void name_section(const cli_progress *progress, const neap_progress_event *event,
                         neap_text *title)
{
    bool several = progress->total > 1;
    bool phased = event->phase && progress->label && strcmp(event->phase, progress->label) != 0;
    if (several)
        neap_text_printf(title, "[%u/%u] %s", progress->done + 1, progress->total, progress->label);
    if (phased)
        neap_text_printf(title, "%s%s", several ? ", " : "", event->phase);
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
        if (old_actions[i].sa_handler == SIG_IGN) /* a caller's wish, such as nohup's */
            sigaction(SIGNALS[i], &old_actions[i], NULL);
    }
}

void cli_progress_begin(cli_progress *progress)
{
    const char *terminal = getenv("TERM");
    *progress = (cli_progress){.base = {report, cancelled}, .begin = cli_clock(), .shown = -1};
    progress->on_terminal =
        isatty(STDERR_FILENO) && terminal && *terminal && strcmp(terminal, "dumb") != 0;
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
