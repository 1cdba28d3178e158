/* train_progress.c - a line after a step: the pieces that fit the width, the most wanted first. */
#include "files.h"
#include "output.h"
#include "progress.h"
#include "training.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* In the order of the line. */
enum {
    PIECE_STEP,
    PIECE_LOSS,
    PIECE_RATE,
    PIECE_TIME,
    PIECE_PREDICTED,
    PIECE_MEMORY,
    PIECE_LEFT,
    N_PIECES
};

static const int WANTED[N_PIECES] = {PIECE_STEP,      PIECE_LOSS, PIECE_TIME,  PIECE_LEFT,
                                     PIECE_PREDICTED, PIECE_RATE, PIECE_MEMORY};

/* The pieces with what separates them from the one before. An empty one is left out. */
static void make_pieces(const cli_training *t, const neap_train_report *report,
                        cli_text pieces[N_PIECES])
{
    cli_text text;
    double all = report->run.seconds + report->data_seconds;
    int64_t left = cli_training_left(t);
    for (int i = 0; i < N_PIECES; i++)
        pieces[i].chars[0] = '\0';
    cli_format(&pieces[PIECE_STEP], "step %lld/%lld", (long long)report->step,
               (long long)t->settings.steps);
    cli_format(&pieces[PIECE_LOSS], "  loss %s", cli_loss(&text, report->loss));
    if (all > 0)
        cli_format(&pieces[PIECE_RATE], "  %.1f samples/s", (double)t->batch / all);
    cli_format(&pieces[PIECE_TIME], "  %s", cli_seconds(&text, report->run.seconds));
    if (t->predicted > 0)
        cli_format(&pieces[PIECE_PREDICTED], ", %s predicted",
                   cli_against(&text, report->run.seconds / t->predicted));
    cli_format(&pieces[PIECE_MEMORY], "  %s", cli_bytes(&text, t->arena));
    double rest = t->done > 0 ? t->all_seconds / (double)t->done * (double)left : 0;
    if (rest >= 1)
        cli_format(&pieces[PIECE_LEFT], "  %s left", cli_seconds(&text, rest));
}

/*
 * "step 12/50  loss 2.3026  31.2 samples/s  512 ms, 1.2% slower than predicted  600 MiB  19 s left"
 * within `width` columns. Where not even step and loss fit, "12/50 2.3026".
 */
static void compose(const cli_training *t, const neap_train_report *report, size_t width,
                    neap_text *line)
{
    cli_text pieces[N_PIECES], *step = &pieces[PIECE_STEP];
    bool chosen[N_PIECES] = {false};
    size_t used = 0;
    make_pieces(t, report, pieces);
    if (strlen(step->chars) + strlen(pieces[PIECE_LOSS].chars) > width) {
        cli_text loss;
        cli_format(step, "%lld/%lld %s", (long long)report->step, (long long)t->settings.steps,
                   cli_loss(&loss, report->loss));
        neap_text_append(line, step->chars,
                         strlen(step->chars) < width ? strlen(step->chars) : width);
        return;
    }
    for (int i = 0; i < N_PIECES; i++) {
        size_t length = cli_text_width(pieces[WANTED[i]].chars);
        chosen[WANTED[i]] = used + length <= width;
        used += chosen[WANTED[i]] ? length : 0;
    }
    chosen[PIECE_PREDICTED] = chosen[PIECE_PREDICTED] && chosen[PIECE_TIME];
    for (int i = 0; i < N_PIECES; i++)
        if (chosen[i])
            neap_text_puts(line, pieces[i].chars);
}

/* One step in twenty, and one a minute where that is more. */
static bool worth_a_line(const cli_training *t, double now)
{
    int64_t every = t->settings.steps > 20 ? t->settings.steps / 20 : 1;
    return t->done == 1 || cli_training_left(t) == 0 || t->done % every == 0 || now - t->said >= 60;
}

/* Ten times a second at most, so that short steps do not wait for the terminal. */
static bool is_due(const cli_training *t, double now)
{
    return t->done == 1 || cli_training_left(t) == 0 || now - t->said >= 0.1;
}

int cli_train_say_step(cli_training *t, const neap_train_report *report)
{
    int code = CLI_OK;
    double now = cli_clock();
    neap_text line = {0};
    if (t->settings.json || !(t->live ? is_due(t, now) : worth_a_line(t, now)))
        return CLI_OK;
    t->said = now;
    int width = t->live ? cli_terminal_width(STDERR_FILENO) - 1 : 80;
    compose(t, report, width > 0 ? (size_t)width : 1, &line);
    if (!t->live)
        neap_text_puts(&line, "\n");
    if (line.status != NEAP_OK) {
        code = cli_fail_memory();
    } else if (t->live) {
        fprintf(stderr, "\r%s\033[K", line.text);
        fflush(stderr);
    } else {
        code = cli_stdout_write(line.text, line.length);
    }
    neap_text_clear(&line);
    return code;
}

void cli_train_end_steps(const cli_training *t)
{
    if (t->live && t->done > 0)
        fputs("\n", stderr);
}
