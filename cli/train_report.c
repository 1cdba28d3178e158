/* train_report.c - what neap train says before and after the steps. */
#include "files.h"
#include "json.h"
#include "output.h"
#include "report.h"
#include "step_times.h"
#include "training.h"

#include <math.h>
#include <neap/report.h>
#include <stdlib.h>
#include <sys/resource.h>

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double cli_training_typical_seconds(const cli_training *t)
{
    size_t count = (size_t)t->done < t->step_capacity ? (size_t)t->done : t->step_capacity;
    if (count == 0)
        return 0;
    qsort(t->step_seconds, count, sizeof *t->step_seconds, compare_doubles);
    return t->step_seconds[count / 2];
}

const char *cli_loss(cli_text *text, double loss)
{
    if (isnan(loss))
        return "nan";
    return cli_format(text, fabs(loss) < 1e6 ? "%.4f" : "%.4g", loss);
}

const char *cli_against(cli_text *text, double ratio)
{
    double percent = 100 * (ratio - 1);
    if (ratio >= 2)
        return cli_format(text, "%.1f times as long as", ratio);
    if (percent < 0.05 && percent > -0.05)
        return "as fast as";
    return percent > 0 ? cli_format(text, "%.1f%% slower than", percent)
                       : cli_format(text, "%.1f%% faster than", -percent);
}

/* ---- The report before training ---- */

static void add_memory(const cli_training *t, cli_table *table)
{
    int64_t natural = t->planning.model.natural_peak;
    cli_text text, other, context, others;
    if (t->planning.budget >= 0)
        cli_fact(table, "budget", CLI_PLAIN, cli_bytes(&text, t->planning.budget),
                 "%s without a plan", cli_bytes(&other, natural));
    cli_fact(table, "arena", CLI_BOLD, cli_bytes(&text, t->arena),
             "%.1f%% of that without a plan; live at most %s",
             natural > 0 ? 100 * (double)t->arena / (double)natural : 100,
             cli_bytes(&other, t->peak));
    neap_device_memory memory;
    bool known = t->settings.device_memory &&
                 neap_backend_memory(t->measured.backend, &memory, NULL) == NEAP_OK;
    if (known && memory.context >= 0)
        cli_fact(table, "GPU", CLI_PLAIN, cli_bytes(&text, memory.used),
                 "in use: the arena, %s for libraries and kernels, %s for the context, %s by other "
                 "programs",
                 cli_bytes(&other, memory.used - memory.used_before - t->arena),
                 cli_bytes(&context, memory.context),
                 cli_bytes(&others, memory.used_before - memory.context));
    else if (known)
        cli_fact(table, "GPU", CLI_PLAIN, cli_bytes(&text, memory.used),
                 "in use: the arena, %s for libraries and kernels, %s for the context and other "
                 "programs (NVML would tell them apart)",
                 cli_bytes(&other, memory.used - memory.used_before - t->arena),
                 cli_bytes(&context, memory.used_before));
    if (neap_runner_host_bytes(neap_trainer_runner(t->trainer)) > 0)
        cli_fact(table, "host", CLI_PLAIN,
                 cli_bytes(&text, neap_runner_host_bytes(neap_trainer_runner(t->trainer))),
                 "for tensors that are moved out and back");
}

int cli_train_say_plan(const cli_training *t)
{
    const neap_graph *graph = t->planning.model.graph;
    double base = neap_graph_seconds(graph, neap_graph_base_ticks(graph)) * (double)t->runs;
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
                 cli_against(&other, t->predicted / base));
    cli_table_finish(&table, &out);
    int code = out.status != NEAP_OK ? cli_fail_memory() : cli_stdout_write(out.text, out.length);
    neap_text_clear(&out);
    return code;
}

/* ---- The report after training ---- */

static int64_t resident_peak(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : -1;
}

void cli_train_add_json(const cli_training *t, neap_text *out)
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
    cli_report_link_json(&json, &t->planning.model.link);
    cli_json_size(&json, "resident_peak_bytes", resident_peak());
    cli_json_real(&json, "base_time", neap_graph_seconds(graph, neap_graph_base_ticks(graph)));
    cli_json_real(&json, "predicted_time", t->predicted);
    cli_json_real(&json, "step_time", cli_training_typical_seconds(t));
    cli_json_real(&json, "seconds", t->all_seconds);
    cli_json_integer(&json, "batch", t->batch);
    cli_json_integer(&json, "first_step", t->first + 1);
    cli_json_integer(&json, "steps", t->done);
    cli_json_real(&json, "first_loss", t->first_loss);
    cli_json_real(&json, "last_loss", t->last_loss);
    cli_json_string(&json, "saved", t->settings.save);
    if (t->has_times)
        cli_step_times_json(&json, &t->times);
    cli_json_end_object(&json);
}

/* The losses, if there are more than a few. */
static int add_chart(const cli_training *t, neap_text *out)
{
    enum { LEAST_STEPS = 5, SCALE = 12 };
    neap_diag diag;
    neap_series_options options;
    char *text;
    size_t length;
    if (t->done < LEAST_STEPS)
        return CLI_OK;
    neap_series_options_init(&options);
    options.width = cli_width() - SCALE;
    options.color = cli_colors();
    options.unicode = cli_unicode();
    options.title = "loss";
    options.x_name = "step";
    options.first = t->first + 1;
    options.last = t->first + t->done;
    if (neap_report_series_chart(NULL, t->losses.means, t->losses.count, &options, &text, &length,
                                 &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    neap_text_append(out, text, length);
    neap_release(NULL, text, length + 1);
    return CLI_OK;
}

int cli_train_add_summary(const cli_training *t, neap_text *out)
{
    cli_text step, over, first, last;
    double typical = cli_training_typical_seconds(t);
    int code = add_chart(t, out);
    neap_text_printf(out, "%lld step%s, loss %s to %s, %.2f samples/s\n", (long long)t->done,
                     t->done == 1 ? "" : "s", cli_loss(&first, t->first_loss),
                     cli_loss(&last, t->last_loss),
                     t->all_seconds > 0 ? (double)(t->done * t->batch) / t->all_seconds : 0);
    neap_text_printf(out, "a step takes %s", cli_seconds(&step, typical));
    if (t->predicted > 0)
        neap_text_printf(out, ", %s predicted", cli_against(&over, typical / t->predicted));
    neap_text_puts(out, "\n");
    if (t->has_times)
        cli_step_times_add(out, &t->times);
    if (t->settings.save)
        neap_text_printf(out, "written to %s\n", t->settings.save);
    if (t->settings.trace)
        neap_text_printf(out, "trace of the last step in %s, for Perfetto or Chrome\n",
                         t->settings.trace);
    if (t->settings.report)
        neap_text_printf(out, "report in %s\n", t->settings.report);
    return code;
}

static bool has_copies(const neap_plan *plan)
{
    const neap_step *steps = neap_plan_steps(plan);
    for (size_t i = 0; i < neap_plan_step_count(plan); i++)
        if (steps[i].kind == NEAP_OFFLOAD || steps[i].kind == NEAP_PREFETCH)
            return true;
    return false;
}

/* Copies may be as wrong as kernels, which are then not to blame. */
void cli_train_judge_prediction(const cli_training *t)
{
    const double most = 8, least_seconds = 0.01;
    double typical = cli_training_typical_seconds(t), fastest = t->step_seconds[0]; /* sorted now */
    cli_text real, predicted;
    bool slow =
        t->done >= 3 && fastest > most * t->predicted && fastest - t->predicted > least_seconds;
    bool fast = most * typical < t->predicted && t->predicted - typical > least_seconds;
    if (t->done == 0 || !(t->predicted > 0) || (!slow && !fast))
        return;
    bool copies = has_copies(t->plan);
    cli_fail(CLI_OK, "a step takes %s, not the %s that measured kernels%s predict",
             cli_seconds(&real, slow ? fastest : typical), cli_seconds(&predicted, t->predicted),
             copies ? " and --link" : "");
    if (!copies)
        cli_measured_doubt(&t->settings, &t->planning.model, &t->measured);
}
