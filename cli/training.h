/* training.h - one run of neap train, and its parts: what is said, logged and drawn. */
#ifndef NEAP_CLI_TRAINING_H
#define NEAP_CLI_TRAINING_H

#include "losses.h"
#include "measured.h"
#include "onnx_file.h"
#include "planning.h"
#include "train_log.h"
#include "training_record.h"

#include <neap/report.h>
#include <neap/safetensors.h>
#include <neap/train.h>

typedef struct cli_training {
    cli_settings settings; /* with the defaults of training */
    cli_planning planning;
    cli_measured measured;
    neap_plan *read_plan;         /* from --plan; NULL: planned here */
    neap_safetensors *checkpoint; /* from --resume; NULL: starts from scratch */
    const neap_plan *plan;        /* the plan in use */
    double predicted;             /* predicted seconds of a step */
    int64_t peak, arena;
    neap_train_options options;
    cli_onnx_source source; /* of an ONNX file */
    neap_trainer *trainer;
    int64_t runs;  /* of the plan in a step: micro-batches */
    int64_t batch; /* of all of them */
    int64_t first; /* steps done before, from a checkpoint */
    int64_t done;  /* steps done now */
    double first_loss, last_loss;
    cli_losses losses;
    double *step_seconds; /* of the last steps, without data */
    size_t step_capacity;
    double all_seconds;
    bool live;   /* a line on the terminal that is rewritten */
    double said; /* when a step was last reported, on cli_clock */
    cli_train_log log;
    cli_training_record record; /* of --report */
    bool has_times;             /* of the last step, by --trace */
    neap_time_parts times;
} cli_training;

/* Number of remaining steps. */
int64_t cli_training_left(const cli_training *t);
/* Whether the arena is within the budget, or the plan's own: an exit code. */
int cli_training_check_arena(const cli_training *t);
/* The typical time of a step: the median. Sorts the list of times. */
double cli_training_typical_seconds(const cli_training *t);

/* ---- train_report.c: before and after ---- */

/* "2.3026", "nan" */
const char *cli_loss(cli_text *text, double loss);
/* "12.9% slower than": compares two times whose ratio is `ratio`. */
const char *cli_against(cli_text *text, double ratio);
/* What was planned, on standard output. Returns an exit code. */
int cli_train_say_plan(const cli_training *t);
/* What was trained: as JSON, or for people, with a chart of the losses. */
void cli_train_add_json(const cli_training *t, neap_text *out);
int cli_train_add_summary(const cli_training *t, neap_text *out);
/*
 * Warns if even the fastest step takes eight times the predicted time, or the median an eighth of
 * it: the kernels were measured on a busy machine, or on another one.
 */
void cli_train_judge_prediction(const cli_training *t);

/* ---- train_progress.c ---- */

/*
 * After a step: rewrites one line on a terminal; elsewhere prints a line for the first step, the
 * last, and one in twenty of those between. Returns an exit code.
 */
int cli_train_say_step(cli_training *t, const neap_train_report *report);
/* Ends the line on the terminal. */
void cli_train_end_steps(const cli_training *t);

/* ---- train_verify.c ---- */

int cli_train_verify(cli_training *t, cli_progress *progress, neap_text *out);
/* The error line of a failed run. The arena may be too large for the machine: the message includes
   its size. */
int cli_train_fail(const neap_diag *diag);

#endif
