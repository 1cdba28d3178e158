/* train.c - neap train: measure, plan, lay out, run. */

#include "command.h"
#include "explain.h"
#include "files.h"
#include "json.h"
#include "measured.h"
#include "memory.h"
#include "output.h"
#include "planning.h"
#include "report.h"
#include "resume.h"
#include "trace.h"

#include <neap/check.h>
#include <neap/data.h>
#include <neap/safetensors.h>
#include <neap/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The number of recent steps whose times are kept. */
enum { MOST_STEP_TIMES = 10000 };

typedef struct training {
    cli_settings settings; /* with the defaults of training */
    cli_planning planning;
    cli_measured measured;
    neap_plan *read_plan;         /* from --plan; NULL: planned here */
    neap_safetensors *checkpoint; /* from --resume; NULL: starts from scratch */
    const neap_plan *plan;        /* the plan in use */
    double predicted;             /* predicted seconds of a step */
    int64_t peak, arena;
    neap_train_options options;
    neap_trainer *trainer;
    int64_t batch;
    int64_t first; /* steps done before, from a checkpoint */
    int64_t done;  /* steps done now */
    double first_loss, last_loss;
    double *step_seconds; /* of the last steps, without data */
    size_t step_capacity;
    double all_seconds;
    bool live; /* a line on the terminal that is rewritten */
} training;

/* One of the updates of a graph, which may come from a file; NULL: it has none. */
static const neap_op *update_of(const neap_graph *graph)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (neap_graph_op(graph, o)->n_updates > 0)
            return neap_graph_op(graph, o);
    return NULL;
}

/* Micro-batches of a step: runs of the plan. */
static int64_t runs_of_step(const neap_graph *graph)
{
    const neap_op *update = update_of(graph);
    for (uint32_t i = 0; update && i < update->n_attrs; i++)
        if (strcmp(update->attrs[i].name, "accumulate") == 0 && update->attrs[i].integer > 1)
            return update->attrs[i].integer;
    return 1;
}

/* The arena may be too large for the machine: the message includes its size. */
static int fail_run(const neap_diag *diag)
{
    return diag->status == NEAP_NO_MEMORY ? cli_fail(CLI_FAILED, "%s", diag->message)
                                          : cli_fail_diag(diag);
}

/* ---- Planning ---- */

static int judge_plan(training *t)
{
    neap_diag diag;
    neap_verdict verdict;
    neap_check_options options;
    const char *path = t->settings.plan_file, *made_for = neap_plan_graph_name(t->read_plan);
    const char *graph = neap_graph_name(t->planning.model.graph);
    if (strcmp(made_for, graph) != 0)
        return cli_fail(CLI_BAD_INPUT, "%s is a plan for \"%s\", not for \"%s\"", path, made_for,
                        graph);
    neap_check_options_init(&options);
    options.budget = t->planning.budget < 0 ? -1 : t->planning.budget;
    options.link = t->planning.model.link.out_bandwidth > 0 ? &t->planning.model.link : NULL;
    if (neap_check(NULL, t->planning.model.graph, t->read_plan, &options, &verdict, &diag) !=
        NEAP_OK)
        return cli_fail_diag(&diag);
    if (!verdict.accepted)
        return cli_fail(
            CLI_BAD_INPUT,
            "%s is no plan for this training: %s; if kernels were measured again since, plan again",
            path, verdict.reason);
    t->plan = t->read_plan;
    t->predicted = verdict.time;
    t->peak = verdict.peak_bytes;
    return CLI_OK;
}

static int write_plan(const training *t)
{
    neap_diag diag;
    if (t->settings.output && neap_plan_write_file(t->plan, t->settings.output, &diag) != NEAP_OK)
        return cli_fail_writing(&diag);
    return CLI_OK;
}

static int make_plan(training *t)
{
    cli_planning *p = &t->planning;
    bool constrained = cli_given_of(&t->settings, CLI_GROUP_CONSTRAINT) ||
                       t->settings.objective != CLI_OBJECTIVE_TIME;
    if (p->budget < 0 && !cli_is_given(&t->settings, "method") && !constrained)
        t->settings.method = "store-all";
    int code = cli_planning_solve(p);
    if (code != CLI_OK)
        return code;
    if (!p->result.plan)
        return cli_planning_fail(p);
    if (cli_interrupted())
        return cli_fail(CLI_STOPPED, "interrupted while planning; nothing was trained");
    t->plan = p->result.plan;
    t->predicted = p->result.figures->time;
    t->peak = p->result.figures->peak_bytes;
    return write_plan(t);
}

/* ---- The report before training ---- */

static int64_t batch_of(const training *t)
{
    for (uint32_t i = 0; i < t->settings.n_sizes; i++)
        if (strcmp(t->settings.sizes[i].name, "batch") == 0)
            return t->settings.sizes[i].value;
    const neap_model *model = t->planning.model.model;
    for (uint32_t i = 0; model && i < neap_model_param_count(model); i++)
        if (strcmp(neap_model_param_at(model, i)->name, "batch") == 0)
            return neap_model_param_at(model, i)->default_value;
    const neap_graph *graph = t->planning.model.graph;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        const neap_value *value = neap_graph_value(graph, v);
        if (strcmp(value->kind, NEAP_KIND_INPUT) == 0 && value->rank > 1)
            return value->shape[0];
    }
    return 1;
}

/* "12.9% slower than": compares two times whose ratio is `ratio`. */
static const char *against(cli_text *text, double ratio)
{
    double percent = 100 * (ratio - 1);
    if (ratio >= 2)
        return cli_format(text, "%.1f times as long as", ratio);
    if (percent < 0.05 && percent > -0.05)
        return "as fast as";
    return percent > 0 ? cli_format(text, "%.1f%% slower than", percent)
                       : cli_format(text, "%.1f%% faster than", -percent);
}

static void add_memory(const training *t, cli_table *table)
{
    int64_t natural = t->planning.model.natural_peak;
    cli_text text, other, context;
    if (t->planning.budget >= 0)
        cli_fact(table, "budget", CLI_PLAIN, cli_bytes(&text, t->planning.budget),
                 "%s without a plan", cli_bytes(&other, natural));
    cli_fact(table, "arena", CLI_BOLD, cli_bytes(&text, t->arena),
             "%.1f%% of that without a plan; live at most %s",
             natural > 0 ? 100 * (double)t->arena / (double)natural : 100,
             cli_bytes(&other, t->peak));
    neap_device_memory memory;
    if (t->settings.device_memory &&
        neap_backend_memory(t->measured.backend, &memory, NULL) == NEAP_OK)
        cli_fact(table, "GPU", CLI_PLAIN, cli_bytes(&text, memory.used),
                 "in use: the arena, %s for libraries and kernels, %s for the context and other "
                 "programs",
                 cli_bytes(&other, memory.used - memory.used_before - t->arena),
                 cli_bytes(&context, memory.used_before));
    if (neap_runner_host_bytes(neap_trainer_runner(t->trainer)) > 0)
        cli_fact(table, "host", CLI_PLAIN,
                 cli_bytes(&text, neap_runner_host_bytes(neap_trainer_runner(t->trainer))),
                 "for tensors that are moved out and back");
}

static int say_plan(const training *t)
{
    const neap_graph *graph = t->planning.model.graph;
    double base =
        neap_graph_seconds(graph, neap_graph_base_ticks(graph)) * (double)runs_of_step(graph);
    neap_text out = {0};
    cli_table table;
    cli_text text, other;
    cli_report_title(&out, &t->planning.model);
    neap_text_puts(&out, "\n");
    cli_facts_init(&table);
    cli_fact(&table, "backend", CLI_PLAIN, neap_backend_name(t->measured.backend), "%s",
             neap_backend_machine(t->measured.backend));
    cli_fact(&table, "method", CLI_PLAIN, neap_plan_method(t->plan), "%s",
             t->planning.result.solution ? neap_solution_message(t->planning.result.solution)
                                         : "as the file says");
    add_memory(t, &table);
    cli_fact(&table, "step", CLI_PLAIN, cli_seconds(&text, t->predicted),
             "predicted from measured kernels");
    if (base > 0)
        cli_fact(&table, "", CLI_PLAIN, "", "%s one run of every op",
                 against(&other, t->predicted / base));
    cli_table_finish(&table, &out);
    int code = out.status != NEAP_OK ? cli_fail_memory() : cli_stdout_write(out.text, out.length);
    neap_text_clear(&out);
    return code;
}

/* ---- Training ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The typical time of a step: the median. Sorts the list. */
static double typical_seconds(const training *t)
{
    size_t count = (size_t)t->done < t->step_capacity ? (size_t)t->done : t->step_capacity;
    if (count == 0)
        return 0;
    qsort(t->step_seconds, count, sizeof *t->step_seconds, compare_doubles);
    return t->step_seconds[count / 2];
}

/* "step 12/50  loss 2.3026  31.2 samples/s  512 ms, 1.2% slower than predicted"; without the
   comparison where it does not fit into 80 columns. */
static void compose(const training *t, const neap_train_report *report, neap_text *line)
{
    cli_text step, over, note;
    double all = report->run.seconds + report->data_seconds;
    neap_text_printf(line, "step %lld/%lld  loss %.4f  %.1f samples/s  %s", (long long)report->step,
                     (long long)t->settings.steps, report->loss,
                     all > 0 ? (double)t->batch / all : 0, cli_seconds(&step, report->run.seconds));
    if (!(t->predicted > 0))
        return;
    cli_format(&note, ", %s predicted", against(&over, report->run.seconds / t->predicted));
    if (line->length + strlen(note.chars) <= 80)
        neap_text_puts(line, note.chars);
}

/* Number of remaining steps. */
static int64_t left(const training *t)
{
    return t->settings.steps - t->first - t->done;
}

static bool worth_a_line(const training *t)
{
    int64_t every = t->settings.steps > 20 ? t->settings.steps / 20 : 1;
    return !t->settings.json && (t->done == 1 || left(t) == 0 || t->done % every == 0);
}

static int say_step(const training *t, const neap_train_report *report)
{
    int code = CLI_OK;
    neap_text line = {0};
    if (!t->live && !worth_a_line(t))
        return CLI_OK;
    compose(t, report, &line);
    if (line.status != NEAP_OK) {
        code = cli_fail_memory();
    } else if (t->live) {
        fprintf(stderr, "\r%.*s\033[K", cli_terminal_width(STDERR_FILENO) - 1, line.text);
        fflush(stderr);
    } else {
        neap_text_puts(&line, "\n");
        code = cli_stdout_write(line.text, line.length);
    }
    neap_text_clear(&line);
    return code;
}

static int save(training *t)
{
    neap_diag diag;
    if (neap_trainer_save(t->trainer, t->settings.save, &diag) == NEAP_OK)
        return CLI_OK;
    return cli_fail_writing(&diag);
}

static void count_step(training *t, const neap_train_report *report)
{
    if (t->done == 0)
        t->first_loss = report->loss;
    t->last_loss = report->loss;
    t->step_seconds[(size_t)t->done++ % t->step_capacity] = report->run.seconds;
    t->all_seconds += report->run.seconds + report->data_seconds;
}

/* Saves at the end, also if training failed: the weights are those after the last complete step. */
static int save_last(training *t, int code)
{
    int saved = save(t);
    if (code == CLI_OK || saved != CLI_OK)
        return code == CLI_OK ? saved : code;
    return cli_fail(code, "what was trained up to step %lld is in %s",
                    (long long)(t->first + t->done), t->settings.save);
}

static int train(training *t)
{
    int code = CLI_OK;
    bool failed = false, can_save = t->settings.save != NULL;
    neap_diag diag;
    neap_train_report report;
    while (code == CLI_OK && left(t) > 0 && !cli_interrupted()) {
        failed = neap_trainer_step(t->trainer, &report, &diag) != NEAP_OK;
        if (failed)
            break;
        count_step(t, &report);
        code = say_step(t, &report);
        bool due = t->settings.save_every > 0 && report.step % t->settings.save_every == 0;
        if (code == CLI_OK && can_save && due && left(t) > 0) {
            code = save(t);
            can_save = code == CLI_OK;
        }
    }
    if (t->live && t->done > 0)
        fputs("\n", stderr);
    if (failed)
        code = fail_run(&diag);
    return can_save && t->done > 0 ? save_last(t, code) : code;
}

/* ---- The report after training ---- */

static int64_t resident_peak(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : -1;
}

static void add_json(const training *t, neap_text *out)
{
    const neap_graph *graph = t->planning.model.graph;
    cli_json json;
    cli_json_begin(&json, out);
    cli_json_object(&json, NULL);
    cli_json_string(&json, "graph", neap_graph_name(graph));
    cli_json_string(&json, "backend", neap_backend_name(t->measured.backend));
    cli_json_string(&json, "machine", neap_backend_machine(t->measured.backend));
    cli_json_string(&json, "method", neap_plan_method(t->plan));
    cli_json_size(&json, "budget_bytes", t->planning.budget);
    cli_json_integer(&json, "natural_peak_bytes", t->planning.model.natural_peak);
    cli_json_integer(&json, "peak_bytes", t->peak);
    cli_json_integer(&json, "arena_bytes", t->arena);
    cli_json_integer(&json, "host_bytes", neap_runner_host_bytes(neap_trainer_runner(t->trainer)));
    cli_json_size(&json, "resident_peak_bytes", resident_peak());
    cli_json_real(&json, "base_time", neap_graph_seconds(graph, neap_graph_base_ticks(graph)));
    cli_json_real(&json, "predicted_time", t->predicted);
    cli_json_real(&json, "step_time", typical_seconds(t));
    cli_json_real(&json, "seconds", t->all_seconds);
    cli_json_integer(&json, "batch", t->batch);
    cli_json_integer(&json, "first_step", t->first + 1);
    cli_json_integer(&json, "steps", t->done);
    cli_json_real(&json, "first_loss", t->first_loss);
    cli_json_real(&json, "last_loss", t->last_loss);
    cli_json_string(&json, "saved", t->settings.save);
    cli_json_end_object(&json);
}

static void add_summary(const training *t, neap_text *out)
{
    cli_text step, over;
    double typical = typical_seconds(t);
    neap_text_printf(out, "%lld step%s, loss %.4f to %.4f, %.2f samples/s\n", (long long)t->done,
                     t->done == 1 ? "" : "s", t->first_loss, t->last_loss,
                     t->all_seconds > 0 ? (double)(t->done * t->batch) / t->all_seconds : 0);
    neap_text_printf(out, "a step takes %s", cli_seconds(&step, typical));
    if (t->predicted > 0)
        neap_text_printf(out, ", %s predicted", against(&over, typical / t->predicted));
    neap_text_puts(out, "\n");
    if (t->settings.save)
        neap_text_printf(out, "written to %s\n", t->settings.save);
}

/*
 * Warns if even the fastest step takes eight times the predicted time, or the median an eighth of
 * it: the kernels were measured on a busy machine, or on another one.
 */
static void judge_prediction(const training *t)
{
    const double most = 8, least_seconds = 0.01;
    double typical = typical_seconds(t), fastest = t->step_seconds[0]; /* sorted now */
    cli_text real, predicted;
    bool slow =
        t->done >= 3 && fastest > most * t->predicted && fastest - t->predicted > least_seconds;
    bool fast = most * typical < t->predicted && t->predicted - typical > least_seconds;
    if (t->done == 0 || !(t->predicted > 0) || (!slow && !fast))
        return;
    cli_fail(CLI_OK, "a step takes %s, not the %s that measured kernels predict",
             cli_seconds(&real, slow ? fastest : typical), cli_seconds(&predicted, t->predicted));
    cli_measured_doubt(&t->settings, &t->planning.model, &t->measured);
}

static int finish(const training *t, neap_text *out)
{
    int code = CLI_OK;
    if (t->settings.memory_file && t->done > 0)
        code = cli_trace_write(t->settings.memory_file, t->planning.model.graph, t->plan,
                               &t->planning.model.link,
                               neap_runner_step_memory(neap_trainer_runner(t->trainer)));
    if (code != CLI_OK)
        return code;
    judge_prediction(t);
    if (t->settings.json)
        add_json(t, out);
    else if (t->done > 0)
        add_summary(t, out);
    if (left(t) <= 0)
        return CLI_OK;
    return cli_fail(CLI_STOPPED, "interrupted after step %lld of %lld%s%s",
                    (long long)(t->first + t->done), (long long)t->settings.steps,
                    t->settings.save && t->done > 0 ? "; --resume continues from " : "",
                    t->settings.save && t->done > 0 ? t->settings.save : "");
}

static int start(training *t)
{
    neap_diag diag;
    if (neap_trainer_create(NULL, t->planning.model.graph, t->plan, t->measured.backend,
                            &t->options, &t->trainer, &diag) != NEAP_OK)
        return fail_run(&diag);
    t->arena = neap_runner_arena_bytes(neap_trainer_runner(t->trainer));
    if (t->planning.budget >= 0 && t->arena > t->planning.budget) {
        cli_text arena, above;
        return cli_fail(CLI_INFEASIBLE,
                        "the plan of %s fits the budget, but with addresses it takes %s; try "
                        "--budget %s, another --method, or more --time-limit",
                        neap_plan_method(t->plan), cli_bytes(&arena, t->arena),
                        cli_bytes_above(&above, t->arena));
    }
    if (t->settings.resume && neap_trainer_resume(t->trainer, t->settings.resume, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    t->first = neap_trainer_steps(t->trainer);
    if (left(t) <= 0)
        return cli_fail(CLI_BAD_INPUT,
                        "%s has %lld steps done already; --steps says how many there are in all",
                        t->settings.resume, (long long)t->first);
    t->step_capacity = left(t) < MOST_STEP_TIMES ? (size_t)left(t) : MOST_STEP_TIMES;
    t->step_seconds = cli_memory_new(t->step_capacity, sizeof *t->step_seconds);
    if (!t->step_seconds)
        return cli_fail_memory();
    t->live = !t->settings.json && isatty(STDERR_FILENO) && cli_terminal_width(STDERR_FILENO) > 0;
    return t->settings.json ? CLI_OK : say_plan(t);
}

/* ---- Verifying ---- */

static void add_verdict(const neap_verify_report *report, neap_text *out)
{
    cli_text plan, plain, plan_time, plain_time;
    neap_text_printf(out, "%s: %lld step%s, %llu losses, weights and states compared\n",
                     report->equal ? "equal to the bit" : "NOT equal", (long long)report->steps,
                     report->steps == 1 ? "" : "s", (unsigned long long)report->compared);
    neap_text_printf(out, "  with the plan   arena %s, a step in %s\n",
                     cli_bytes(&plan, report->plan_arena),
                     cli_seconds(&plan_time, report->plan_seconds));
    neap_text_printf(out, "  without         arena %s, a step in %s\n",
                     cli_bytes(&plain, report->plain_arena),
                     cli_seconds(&plain_time, report->plain_seconds));
}

static void add_verdict_json(const neap_verify_report *report, neap_text *out)
{
    cli_json json;
    cli_json_begin(&json, out);
    cli_json_object(&json, NULL);
    cli_json_bool(&json, "equal", report->equal);
    cli_json_integer(&json, "steps", report->steps);
    cli_json_integer(&json, "compared", (int64_t)report->compared);
    cli_json_real(&json, "last_loss", report->loss);
    cli_json_integer(&json, "plan_arena_bytes", report->plan_arena);
    cli_json_integer(&json, "plain_arena_bytes", report->plain_arena);
    cli_json_real(&json, "plan_step_time", report->plan_seconds);
    cli_json_real(&json, "plain_step_time", report->plain_seconds);
    cli_json_end_object(&json);
}

static int verify(training *t, cli_progress *progress, neap_text *out)
{
    neap_diag diag;
    neap_verify_report report;
    cli_progress_part(progress, "verifying", 0, 0);
    if (neap_train_verify(NULL, t->planning.model.graph, t->plan, t->measured.backend, &t->options,
                          t->settings.steps, &progress->base, &report, &diag) != NEAP_OK)
        return fail_run(&diag);
    if (report.interrupted && report.steps == 0)
        return cli_fail(CLI_STOPPED, "interrupted before a step was compared");
    if (t->settings.json)
        add_verdict_json(&report, out);
    else
        add_verdict(&report, out);
    if (report.interrupted)
        return cli_fail(CLI_STOPPED, "interrupted: %lld of %lld steps were compared",
                        (long long)report.steps, (long long)t->settings.steps);
    if (!report.equal)
        return cli_fail(CLI_FAILED, "step %lld: %s differs; please report it",
                        (long long)report.differs_step, report.differs);
    return CLI_OK;
}

/* ---- The command ---- */

static void set_options(training *t)
{
    const cli_settings *s = &t->settings;
    const neap_op *update = update_of(t->planning.model.graph);
    bool adam = update && strncmp(update->type, "adam", 4) == 0;
    bool has_rate = cli_is_given(s, "rate") ||
                    (t->checkpoint && neap_safetensors_metadata(t->checkpoint, "rate"));
    neap_train_options *o = &t->options;
    neap_train_options_init(o);
    o->rate.kind = s->cosine ? NEAP_LR_COSINE : NEAP_LR_CONSTANT;
    o->rate.peak = adam && !has_rate ? CLI_ADAM_RATE : s->learning_rate;
    o->rate.warmup = s->warmup;
    o->rate.steps = s->steps;
    o->seed = s->seed;
    o->data = s->data;
    o->run.poison = o->run.poison || s->poison;
    o->run.stress = (uint64_t)s->stress;
    o->run.trace_memory = s->memory_file != NULL;
    o->run.duplex = t->planning.model.link.duplex;
    if (s->pace)
        o->run.pace = t->planning.model.link;
}

static int check_settings(const cli_settings *s)
{
    if (s->save_every > 0 && !s->save)
        return cli_fail(CLI_BAD_INPUT, "--save-every needs --save FILE");
    if (s->verify && (s->save || s->resume))
        return cli_fail(CLI_BAD_INPUT, "--verify trains twice from the beginning; leave out --%s",
                        s->save ? "save" : "resume");
    if (s->pace && !s->link)
        return cli_fail(CLI_BAD_INPUT, "--pace needs --link, such as --link 12.2GB/s");
    if (s->verify && s->memory_file)
        return cli_fail(CLI_BAD_INPUT, "--verify trains twice; --save-memory is for one training");
    if (s->optimizer == NEAP_OPTIMIZER_NONE)
        return cli_fail(CLI_BAD_INPUT, "--optimizer none trains nothing; sgd keeps no state");
    if (s->dtype != NEAP_F32 &&
        (s->dtype != NEAP_BF16 || !s->backend || strncmp(s->backend, "cuda", 4) != 0))
        return cli_fail(
            CLI_BAD_INPUT,
            "--dtype %s is for planning; neap trains in f32, and in bf16 with --backend "
            "cuda",
            neap_dtype_name((neap_dtype)s->dtype));
    if (s->kernels == NEAP_KERNELS_LAYER)
        return cli_fail(CLI_BAD_INPUT, "--kernels layer is a model of memory, for planning: there "
                                       "are no such kernels; train with lean or torch");
    if (s->objective == CLI_OBJECTIVE_BATCH)
        return cli_fail(CLI_BAD_INPUT, "train takes its batch from --batch; neap max-batch finds "
                                       "the largest");
    const char *constraint = cli_given_of(s, CLI_GROUP_CONSTRAINT | CLI_GROUP_OBJECTIVE);
    if (s->plan_file && constraint)
        return cli_fail(CLI_BAD_INPUT, "--plan is a plan already; leave out --%s", constraint);
    if (s->alignment % NEAP_RUN_ALIGNMENT != 0)
        return cli_fail(CLI_BAD_INPUT, "--alignment %lld: kernels need a multiple of %d",
                        (long long)s->alignment, NEAP_RUN_ALIGNMENT);
    if (s->plan_file && s->output)
        return cli_fail(CLI_BAD_INPUT, "--plan and --save-plan cannot both be given");
    if (cli_is_stdout(s->save) || cli_is_stdout(s->output) || cli_is_stdout(s->memory_file))
        return cli_fail(CLI_BAD_INPUT,
                        "--%s takes the name of a file; standard output is for "
                        "what train says",
                        cli_is_stdout(s->save)     ? "save"
                        : cli_is_stdout(s->output) ? "save-plan"
                                                   : "save-memory");
    return CLI_OK;
}

/* Checks files before kernels are measured, which takes a while. */
static int check_files(training *t)
{
    const cli_settings *s = &t->settings;
    neap_diag diag;
    int code = CLI_OK;
    if (s->resume)
        code = cli_resume_settings(&t->settings, &t->checkpoint);
    if (code == CLI_OK && cli_is_given(s, "momentum") && s->optimizer != NEAP_OPTIMIZER_MOMENTUM)
        return cli_fail(CLI_BAD_INPUT, "--momentum is for --optimizer momentum");
    if (code == CLI_OK && s->data) {
        neap_dataset *dataset;
        if (neap_dataset_open(NULL, s->data, NULL, &dataset, &diag) != NEAP_OK)
            return cli_fail_diag(&diag);
        neap_dataset_close(dataset);
    }
    if (code == CLI_OK && s->plan_file &&
        neap_plan_read_file(NULL, s->plan_file, &t->read_plan, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    return code;
}

/*
 * Rejects a hopeless budget before kernels are measured. A percentage refers to a peak that is
 * known only after measuring.
 */
static int check_budget(training *t)
{
    cli_planning *p = &t->planning;
    const char *text = t->settings.budget;
    if (!text || strchr(text, '%') || t->read_plan)
        return CLI_OK;
    int code = cli_load_budget(&p->model, "budget", text, &p->budget);
    return code == CLI_OK ? cli_explain_floor_unmeasured(&p->model, p->budget) : code;
}

/* Kernels see values in pieces through memory pages. */
static int check_pieces(training *t)
{
    const cli_settings *s = &t->settings;
    int64_t needed = neap_run_alignment(t->planning.model.graph);
    bool split = needed != NEAP_RUN_ALIGNMENT;
    if (split &&
        (s->split % needed != 0 || (cli_is_given(s, "alignment") && s->alignment % needed != 0)))
        return cli_fail(CLI_BAD_INPUT,
                        "--%s %lld: to train with values in pieces, it must be a multiple of a "
                        "memory page, %lld bytes",
                        s->split % needed != 0 ? "split" : "alignment",
                        (long long)(s->split % needed != 0 ? s->split : s->alignment),
                        (long long)needed);
    if (split && !cli_is_given(s, "alignment"))
        t->settings.alignment = t->planning.model.alignment = needed;
    return CLI_OK;
}

static int prepare(training *t, cli_progress *progress)
{
    cli_planning *p = &t->planning;
    p->settings = &t->settings;
    int code = cli_load(&t->settings, t->settings.operands[0], &p->model);
    if (code == CLI_OK)
        code = check_pieces(t);
    if (code == CLI_OK)
        code = check_budget(t);
    if (code == CLI_OK)
        code = cli_measure(&t->settings, &p->model, progress, &t->measured);
    if (code == CLI_OK)
        code = cli_load_natural_peak(&p->model);
    if (code == CLI_OK)
        code = cli_load_budget(&p->model, "budget", t->settings.budget, &p->budget);
    return code;
}

static int run_train(const cli_settings *settings, neap_text *out)
{
    training t = {.settings = *settings};
    cli_progress whole, progress; /* the first catches Ctrl-C between the parts, too */
    int code = check_settings(settings);
    if (code != CLI_OK)
        return code;
    cli_progress_begin(&whole);
    code = check_files(&t);
    cli_progress_begin(&progress);
    if (code == CLI_OK)
        code = prepare(&t, &progress);
    cli_progress_end(&progress);
    if (code == CLI_OK)
        code = t.read_plan ? judge_plan(&t) : make_plan(&t);
    cli_progress_begin(&progress);
    if (code == CLI_OK) {
        int64_t runs = runs_of_step(t.planning.model.graph);
        t.batch = batch_of(&t) * runs;
        t.predicted *= (double)runs;
        set_options(&t);
        if (settings->verify)
            code = verify(&t, &progress, out);
        else
            code = start(&t);
    }
    if (code == CLI_OK && !settings->verify)
        code = train(&t);
    cli_progress_end(&progress);
    cli_progress_end(&whole);
    if (code == CLI_OK && !settings->verify)
        code = finish(&t, out);
    cli_memory_release(t.step_seconds, t.step_capacity, sizeof *t.step_seconds);
    neap_trainer_destroy(t.trainer);
    neap_plan_destroy(t.read_plan);
    neap_safetensors_close(t.checkpoint);
    cli_planning_clear(&t.planning);
    cli_measured_clear(&t.measured);
    return code;
}

const cli_command cli_command_train = {
    .name = "train",
    .operands = "MODEL",
    .summary = "train a network within a memory budget, for real",
    .about = "Measures the kernels of MODEL on this machine, or reads their times from the profile "
             "cache, plans a training step within --budget, and trains in one arena of exactly the "
             "planned size, with every tensor at its planned address. The plan does not change the "
             "results: they equal those of training without a plan bit for bit, which --verify "
             "checks.\n\n"
             "Without --budget every op runs once. Of several methods, the best plan is used. The "
             "seed determines all random numbers: weights, batches and dropout. Checkpoints are "
             "safetensors files that are replaced in one step, so a crash loses at most the steps "
             "since the last one; --resume continues exactly where the checkpoint left off. Ctrl-C "
             "stops after the current step and saves.",
    .examples =
        {
            {"neap train resnet50 --batch 16 --budget 600MiB --steps 50",
             "50 steps on synthetic images, in 600 MiB"},
            {"neap train resnet18 --image 32 --set classes=10 --data cifar10:DIR "
             "--save a.st",
             "on CIFAR-10, with a checkpoint at the end"},
            {"neap train unet --batch 2 --budget 40% --steps 2 --verify",
             "check that the plan does not change a bit"},
            {"neap train vgg19 --batch 128 --budget 5GiB --backend cuda",
             "on an NVIDIA GPU; neap devices says what that needs"},
        },
    .groups = CLI_GROUPS_SIZES | CLI_GROUP_BATCH | CLI_GROUPS_PLAN | CLI_GROUP_BUDGET |
              CLI_GROUP_SPLIT | CLI_GROUP_OBJECTIVE | CLI_GROUPS_RUN | CLI_GROUP_TRAIN |
              CLI_GROUP_JSON,
    .least_operands = 1,
    .most_operands = 1,
    .run = run_train,
};
