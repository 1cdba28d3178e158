/* train.c - neap train: measure, plan, lay out, run. */

#include "command.h"
#include "files.h"
#include "html_report.h"
#include "json.h"
#include "judged_plan.h"
#include "measured.h"
#include "memory.h"
#include "memory_csv.h"
#include "no_plan.h"
#include "onnx_file.h"
#include "output.h"
#include "planning.h"
#include "report.h"
#include "resume.h"
#include "step_times.h"
#include "trace_file.h"
#include "training.h"

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

/* One of the steps of a graph's optimizer, which may come from a file; NULL: it has none. */
static const neap_op *update_of(const neap_graph *graph)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        const neap_op *op = neap_graph_op(graph, o);
        if (op->n_updates > 0 && strcmp(op->type, "running_stats") != 0)
            return op;
    }
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

/* 1 if it is not known. */
static int64_t batch_of(const cli_training *t)
{
    int64_t batch = cli_batch_size(&t->settings, &t->planning.model);
    return batch > 0 ? batch : 1;
}

/* ---- Planning ---- */

static int judge_plan(cli_training *t)
{
    neap_verdict verdict;
    int code = cli_judge_plan(
        &t->planning.model, t->settings.plan_file, t->read_plan, t->planning.budget, "training",
        "give the same options as for planning, or plan again; a graph file of neap profile keeps "
        "its kernels on the machine that measured them",
        &verdict);
    if (code != CLI_OK)
        return code;
    t->plan = t->read_plan;
    t->predicted = verdict.time;
    t->peak = verdict.peak_bytes;
    return CLI_OK;
}

static int write_plan(const cli_training *t)
{
    neap_diag diag;
    if (t->settings.output && neap_plan_write_file(t->plan, t->settings.output, &diag) != NEAP_OK)
        return cli_fail_writing(&diag);
    return CLI_OK;
}

static int make_plan(cli_training *t, neap_text *out)
{
    cli_planning *p = &t->planning;
    bool constrained = cli_given_of(&t->settings, CLI_GROUP_CONSTRAINT) ||
                       t->settings.objective != CLI_OBJECTIVE_TIME;
    if (p->budget < 0 && !cli_is_given(&t->settings, "method") && !constrained)
        t->settings.method = "store-all";
    int code = cli_planning_solve(p);
    if (code != CLI_OK)
        return code;
    if (!p->result.plan && t->settings.json && p->result.solved) {
        cli_json json;
        cli_json_begin(&json, out);
        cli_report_json(&json, NULL, &p->model, &p->result,
                        p->explanation.length ? p->explanation.text : NULL);
    }
    if (!p->result.plan)
        return cli_planning_fail(p);
    if (cli_interrupted())
        return cli_fail(CLI_STOPPED, "interrupted while planning; nothing was trained");
    t->plan = p->result.plan;
    t->predicted = p->result.figures->time;
    t->peak = p->result.figures->peak_bytes;
    return write_plan(t);
}

/* ---- Training ---- */

int64_t cli_training_left(const cli_training *t)
{
    return t->settings.steps - t->first - t->done;
}

static int save(cli_training *t)
{
    neap_diag diag;
    neap_status status =
        cli_is_onnx(t->settings.save)
            ? cli_onnx_save(&t->planning.model, t->trainer, t->settings.save, &diag)
            : neap_trainer_save(t->trainer, t->settings.save, &diag);
    if (status == NEAP_OK)
        return CLI_OK;
    return cli_fail_writing(&diag);
}

static int count_step(cli_training *t, const neap_train_report *report)
{
    if (t->done == 0)
        t->first_loss = report->loss;
    t->last_loss = report->loss;
    cli_losses_add(&t->losses, report->loss);
    t->step_seconds[(size_t)t->done++ % t->step_capacity] = report->run.seconds;
    t->all_seconds += report->run.seconds + report->data_seconds;
    if (!t->settings.report)
        return CLI_OK;
    return cli_training_record_add(&t->record, report->step, report->loss, report->run.seconds);
}

/* Saves at the end, also if training failed: the weights are those after the last complete step. */
static int save_last(cli_training *t, int code)
{
    int saved = save(t);
    if (code == CLI_OK || saved != CLI_OK)
        return code == CLI_OK ? saved : code;
    return cli_fail(code, "what was trained up to step %lld is in %s",
                    (long long)(t->first + t->done), t->settings.save);
}

static int train(cli_training *t)
{
    int code = CLI_OK;
    bool failed = false, can_save = t->settings.save != NULL;
    neap_diag diag;
    neap_train_report report;
    while (code == CLI_OK && cli_training_left(t) > 0 && !cli_interrupted()) {
        failed = neap_trainer_step(t->trainer, &report, &diag) != NEAP_OK;
        if (failed)
            break;
        code = count_step(t, &report);
        if (code == CLI_OK)
            code = cli_train_log_add(t, &report);
        if (code == CLI_OK)
            code = cli_train_say_step(t, &report);
        bool due = t->settings.save_every > 0 && report.step % t->settings.save_every == 0;
        if (code == CLI_OK && can_save && due && cli_training_left(t) > 0) {
            code = save(t);
            can_save = code == CLI_OK;
        }
    }
    cli_train_end_steps(t);
    if (failed)
        code = cli_train_fail(&diag);
    return can_save && t->done > 0 ? save_last(t, code) : code;
}

/* ---- After training ---- */

/* The machine of the backend is the device. */
static int write_report(const cli_training *t, neap_text *out)
{
    const neap_report_training record = {.n_steps = t->record.count,
                                         .steps = t->record.steps,
                                         .losses = t->record.losses,
                                         .seconds = t->record.seconds,
                                         .predicted = t->predicted};
    cli_html_report report = {.settings = &t->settings,
                              .model = &t->planning.model,
                              .device = neap_backend_machine(t->measured.backend),
                              .training = &record};
    int code = t->read_plan ? cli_html_add_plan(&report, t->read_plan, "judged")
                            : cli_html_add(&report, &t->planning.result);
    if (code == CLI_OK)
        code = cli_html_deliver(&report, t->settings.report, out);
    cli_html_clear(&report);
    return code;
}

static int write_trace(cli_training *t)
{
    const neap_graph *graph = t->planning.model.graph;
    const neap_link *link = &t->planning.model.link;
    const neap_step_time *times = neap_runner_step_times(neap_trainer_runner(t->trainer));
    int code = cli_step_times_find(graph, t->plan, link, times, &t->times);
    t->has_times = code == CLI_OK;
    return code == CLI_OK
               ? cli_trace_file_write(t->settings.trace, graph, t->plan, link, times, t->arena)
               : code;
}

static int finish(cli_training *t, neap_text *out)
{
    int code = t->settings.report ? write_report(t, out) : CLI_OK;
    if (code != CLI_OK)
        return code;
    if (t->settings.memory_file && t->done > 0)
        code = cli_memory_csv_write(t->settings.memory_file, t->planning.model.graph, t->plan,
                                    &t->planning.model.link,
                                    neap_runner_step_memory(neap_trainer_runner(t->trainer)));
    if (code == CLI_OK && t->settings.trace && t->done > 0)
        code = write_trace(t);
    if (code != CLI_OK)
        return code;
    cli_train_judge_prediction(t);
    if (t->settings.json)
        cli_train_add_json(t, out);
    else if (t->done > 0)
        code = cli_train_add_summary(t, out);
    if (code != CLI_OK || cli_training_left(t) <= 0)
        return code;
    return cli_fail(CLI_STOPPED, "interrupted after step %lld of %lld%s%s",
                    (long long)(t->first + t->done), (long long)t->settings.steps,
                    t->settings.save && t->done > 0 ? "; --resume continues from " : "",
                    t->settings.save && t->done > 0 ? t->settings.save : "");
}

/* A plan that was made with a smaller --alignment gets other addresses here. */
int cli_training_check_arena(const cli_training *t)
{
    cli_text arena, above;
    int64_t budget = t->planning.budget;
    if (budget < 0 && t->read_plan)
        budget = neap_plan_budget(t->read_plan);
    if (budget < 0 || t->arena <= budget)
        return CLI_OK;
    if (t->read_plan)
        return cli_fail(CLI_INFEASIBLE,
                        "%s takes %s with addresses that are multiples of %lld, which is more than "
                        "the budget; plan again with --alignment %lld",
                        t->settings.plan_file, cli_bytes_above(&arena, t->arena),
                        (long long)t->settings.alignment, (long long)t->settings.alignment);
    return cli_fail(CLI_INFEASIBLE,
                    "the plan of %s fits the budget, but with addresses it takes %s; try "
                    "--budget %s, another --method, or more --time-limit",
                    neap_plan_method(t->plan), cli_bytes(&arena, t->arena),
                    cli_bytes_above(&above, t->arena));
}

static int start(cli_training *t)
{
    neap_diag diag;
    if (neap_trainer_create(NULL, t->planning.model.graph, t->plan, t->measured.backend,
                            &t->options, &t->trainer, &diag) != NEAP_OK)
        return cli_train_fail(&diag);
    t->arena = neap_runner_arena_bytes(neap_trainer_runner(t->trainer));
    int code = cli_training_check_arena(t);
    if (code != CLI_OK)
        return code;
    if (t->settings.resume && neap_trainer_resume(t->trainer, t->settings.resume, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    t->first = neap_trainer_steps(t->trainer);
    t->step_capacity =
        cli_training_left(t) < MOST_STEP_TIMES ? (size_t)cli_training_left(t) : MOST_STEP_TIMES;
    t->step_seconds = cli_memory_new(t->step_capacity, sizeof *t->step_seconds);
    if (!t->step_seconds)
        return cli_fail_memory();
    t->live = !t->settings.json && cli_live_terminal();
    code = cli_train_log_open(t);
    return code != CLI_OK || t->settings.json ? code : cli_train_say_plan(t);
}

/* ---- The command ---- */

static void set_options(cli_training *t)
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
    if (t->planning.model.binding) {
        cli_onnx_source_init(&t->source, t->planning.model.binding);
        o->source = &t->source.base;
    }
    o->run.poison = o->run.poison || s->poison;
    o->run.stress = (uint64_t)s->stress;
    o->run.trace_memory = s->memory_file != NULL;
    o->run.measure = s->trace != NULL;
    o->run.duplex = t->planning.model.link.duplex;
    if (s->pace)
        o->run.pace = t->planning.model.link;
}

/* Standard output is for what train says. */
static int check_names(const cli_settings *s)
{
    const struct {
        const char *option, *path;
    } files[] = {{"save", s->save},    {"save-plan", s->output}, {"save-memory", s->memory_file},
                 {"log", s->log_file}, {"trace", s->trace},      {"report", s->report}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (cli_is_stdout(files[i].path))
            return cli_fail(CLI_BAD_INPUT,
                            "--%s takes the name of a file; standard output is for what train says",
                            files[i].option);
    return CLI_OK;
}

static int check_settings(const cli_settings *s)
{
    if (cli_is_onnx(s->save) && !cli_is_onnx(s->operands[0]))
        return cli_fail(CLI_BAD_INPUT,
                        "--save %s: weights go back into the ONNX file that they came from; save "
                        "a built-in model as .safetensors",
                        s->save);
    if (s->save_every > 0 && !s->save)
        return cli_fail(CLI_BAD_INPUT, "--save-every needs --save FILE");
    if (s->verify && (s->save || s->resume))
        return cli_fail(CLI_BAD_INPUT, "--verify trains twice from the beginning; leave out --%s",
                        s->save ? "save" : "resume");
    if (s->link && strcmp(s->link, "device") == 0)
        return cli_fail_modelled_link();
    if (s->pace && !s->link)
        return cli_fail(CLI_BAD_INPUT, "--pace needs --link, such as --link 12.2GB/s");
    if (s->verify && (s->memory_file || s->log_file || s->trace || s->report))
        return cli_fail(CLI_BAD_INPUT, "--verify trains twice; --%s is for one training",
                        s->memory_file ? "save-memory"
                        : s->log_file  ? "log"
                        : s->trace     ? "trace"
                                       : "report");
    if (s->optimizer == NEAP_OPTIMIZER_NONE)
        return cli_fail(CLI_BAD_INPUT, "--optimizer none trains nothing; sgd keeps no state");
    if (s->dtype != NEAP_F32 &&
        (s->dtype != NEAP_BF16 || !s->backend || strncmp(s->backend, "cuda", 4) != 0))
        return cli_fail(
            CLI_BAD_INPUT,
            "--dtype %s is for planning; neap trains in f32, and in tf32 or bf16 with --backend "
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
    return check_names(s);
}

/* Checks files before kernels are measured, which takes a while. */
static int check_files(cli_training *t)
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
    if (code == CLI_OK && s->log_file)
        code = cli_train_log_check(s->log_file, s->resume != NULL);
    if (code == CLI_OK && s->plan_file &&
        neap_plan_read_file(NULL, s->plan_file, &t->read_plan, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    return code;
}

/*
 * Rejects a hopeless budget before kernels are measured. A percentage refers to a peak that is
 * known only after measuring.
 */
static int check_budget(cli_training *t, neap_text *out)
{
    cli_planning *p = &t->planning;
    const char *text = t->settings.budget;
    if (!text || strchr(text, '%') || t->read_plan)
        return CLI_OK;
    int code = cli_load_budget(&p->model, "budget", text, &p->budget);
    int64_t floor;
    if (code == CLI_OK)
        code = cli_no_plan_floor_unmeasured(&p->model, p->budget, &floor);
    if (code == CLI_INFEASIBLE && t->settings.json) {
        cli_json json;
        cli_json_begin(&json, out);
        cli_json_object(&json, NULL);
        cli_json_string(&json, "graph", neap_graph_name(p->model.graph));
        cli_json_string(&json, "status", "infeasible");
        cli_json_integer(&json, "budget_bytes", p->budget);
        cli_json_integer(&json, "floor_bytes", floor);
        cli_json_end_object(&json);
    }
    return code;
}

/* Kernels see values in pieces through memory pages. */
static int check_pieces(cli_training *t)
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

static int prepare(cli_training *t, cli_progress *progress, neap_text *out)
{
    cli_planning *p = &t->planning;
    p->settings = &t->settings;
    int code = cli_load(&t->settings, t->settings.operands[0], &p->model);
    if (code == CLI_OK && t->read_plan)
        code = cli_plan_is_for(&p->model, t->settings.plan_file, t->read_plan);
    if (code == CLI_OK)
        code = check_pieces(t);
    if (code == CLI_OK)
        code = check_budget(t, out);
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
    cli_training t = {.settings = *settings, .log = {.file = -1}};
    cli_progress whole, progress; /* the first catches Ctrl-C between the parts, too */
    int code = check_settings(settings);
    if (code != CLI_OK)
        return code;
    cli_progress_begin(&whole);
    code = check_files(&t);
    cli_progress_begin(&progress);
    if (code == CLI_OK)
        code = prepare(&t, &progress, out);
    cli_progress_end(&progress);
    if (code == CLI_OK)
        code = t.read_plan ? judge_plan(&t) : make_plan(&t, out);
    cli_progress_begin(&progress);
    if (code == CLI_OK) {
        t.runs = runs_of_step(t.planning.model.graph);
        t.batch = batch_of(&t) * t.runs;
        t.predicted *= (double)t.runs;
        set_options(&t);
        if (settings->verify)
            code = cli_train_verify(&t, &progress, out);
        else
            code = start(&t);
    }
    if (code == CLI_OK && !settings->verify)
        code = train(&t);
    cli_progress_end(&progress);
    cli_progress_end(&whole);
    if (code == CLI_OK && !settings->verify)
        code = finish(&t, out);
    cli_train_log_close(&t.log);
    cli_memory_release(t.step_seconds, t.step_capacity, sizeof *t.step_seconds);
    cli_training_record_clear(&t.record);
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
              CLI_GROUP_JSON | CLI_GROUP_REPORT,
    .least_operands = 1,
    .most_operands = 1,
    .run = run_train,
};
