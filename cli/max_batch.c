/* max_batch.c - neap max-batch: how large a batch fits into a budget, by method. */

#include "batch_search.h"
#include "command.h"
#include "csv.h"
#include "files.h"
#include "output.h"
#include "report.h"

#include <inttypes.h>

static const char *model_name(const cli_batch_search *m)
{
    return m->model.model ? neap_model_name(m->model.model) : neap_graph_name(m->model.graph);
}

/* What became of a method: the outcome of its plan, or why it has none. */
static const char *status_of(const cli_batch_row *r)
{
    const neap_batch_result *result = &r->result;
    if (!r->solved)
        return "unsupported";
    if (result->batch > 0)
        return neap_outcome_name(neap_solution_figures(result->solution)->outcome);
    if (result->next == NEAP_BATCH_STOPPED)
        return neap_outcome_name(result->interrupted ? NEAP_INTERRUPTED : NEAP_TIME_LIMIT);
    return neap_outcome_name(NEAP_INFEASIBLE);
}

/* ---- The table ---- */

static const char *proof_words(neap_batch_proof proof)
{
    static const char *const WORDS[] = {"no", "method", "all"};
    return WORDS[proof];
}

static void add_row(cli_table *table, const char *method, const cli_batch_row *r, bool best)
{
    cli_text text;
    cli_style style = best ? CLI_BOLD : CLI_PLAIN;
    const neap_batch_result *result = &r->result;
    cli_cell(table, style, "%s%s", method, best ? " *" : "");
    if (result->batch > 0) {
        const neap_figures *figures = neap_solution_figures(result->solution);
        cli_cell(table, style, "%" PRId64, result->batch);
        if (result->store_all > 0)
            cli_cell(table, style, "%.2fx", (double)result->batch / (double)result->store_all);
        else
            cli_cell(table, CLI_DIM, "-");
        cli_cell(table, style, "%s", cli_bytes(&text, figures->peak_bytes));
        cli_cell(table, style, "%s", cli_bytes(&text, figures->arena_bytes));
        cli_cell(table, style, "%s", cli_percent(&text, figures->overhead));
    } else {
        cli_cell(table, CLI_BAD, "%s", r->solved ? "none" : "unsupported");
        for (int i = 0; i < 4; i++)
            cli_cell(table, CLI_DIM, "-");
    }
    cli_cell(table, r->solved && result->proof != NEAP_BATCH_UNPROVEN ? CLI_GOOD : CLI_DIM, "%s",
             r->solved ? proof_words(result->proof) : "-");
    cli_cell(table, CLI_DIM, "%u", result->n_solved);
    if (r->solved)
        cli_cell(table, CLI_DIM, "%s", cli_seconds(&text, result->seconds));
    else
        cli_cell(table, CLI_DIM, "-");
}

static void add_table(const cli_batch_search *m, neap_text *out)
{
    static const cli_column COLUMNS[] = {
        {"method", false, false}, {"batch", true, false}, {"to store-all", true, false},
        {"peak", true, true},     {"arena", true, false}, {"overhead", true, false},
        {"proven", false, false}, {"solves", true, true}, {"solved in", true, false}};
    const cli_batch_row *best = cli_batch_search_best(m);
    double extra = m->settings->extra_forward;
    cli_text budget;
    cli_styled(out, CLI_BOLD, "%s", model_name(m));
    if (m->model.device)
        cli_styled(out, CLI_DIM, " on %s", m->model.device->name);
    neap_text_printf(out, "\nlargest batch in %s", cli_bytes(&budget, m->budget));
    if (extra >= 0)
        cli_styled(out, CLI_DIM, ", with at most %.4g forward pass%s of extra time", extra,
                   extra > 1 ? "es" : "");
    neap_text_puts(out, "\n\n");
    cli_table table;
    cli_table_init(&table, COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0], 0);
    for (uint32_t i = 0; i < m->n_done; i++)
        add_row(&table, m->methods.names[i], &m->rows[i], best == &m->rows[i]);
    cli_table_finish(&table, out);
    cli_styled(out, CLI_DIM, "proven: the next batch is ruled out for this method, or for all.%s",
               best ? " * the largest" : "");
    neap_text_puts(out, "\n");
}

/* ---- JSON ---- */

static void add_real(cli_json *json, const char *key, double number, bool exists)
{
    if (exists)
        cli_json_real(json, key, number);
    else
        cli_json_null(json, key);
}

static void add_trial(cli_json *json, const neap_batch_trial *t)
{
    bool has_plan = t->peak_bytes >= 0;
    cli_json_object(json, NULL);
    cli_json_integer(json, "batch", t->batch);
    cli_json_string(json, "verdict", neap_batch_verdict_name(t->verdict));
    cli_json_string(json, "proven",
                    t->verdict == NEAP_BATCH_FITS ? NULL : neap_batch_proof_name(t->proof));
    cli_json_string(json, "status", t->solved ? neap_outcome_name(t->outcome) : NULL);
    cli_json_size(json, "peak_bytes", t->peak_bytes);
    add_real(json, "time", t->time, has_plan);
    add_real(json, "overhead", t->overhead, has_plan);
    add_real(json, "target_time", t->target_time, t->target_time > 0);
    cli_json_size(json, "least_budget_bytes", t->least_budget);
    cli_json_real(json, "solve_seconds", t->seconds);
    cli_json_end_object(json);
}

static void add_json_row(cli_json *json, const cli_batch_search *m, const char *method,
                         const cli_batch_row *r)
{
    const neap_batch_result *result = &r->result;
    const neap_figures *figures =
        result->batch > 0 ? neap_solution_figures(result->solution) : NULL;
    double extra = m->settings->extra_forward;
    cli_json_object(json, NULL);
    cli_json_string(json, "graph", model_name(m));
    cli_json_string(json, "method", method);
    cli_json_integer(json, "budget_bytes", m->budget);
    add_real(json, "extra_forward", extra, extra >= 0);
    cli_json_string(json, "status", status_of(r));
    cli_json_size(json, "batch", figures ? result->batch : -1);
    cli_json_size(json, "store_all_batch", result->store_all > 0 ? result->store_all : -1);
    add_real(json, "ratio",
             figures && result->store_all > 0 ? (double)result->batch / (double)result->store_all
                                              : 0,
             figures && result->store_all > 0);
    cli_json_string(json, "next", r->solved ? neap_batch_verdict_name(result->next) : NULL);
    cli_json_string(json, "proven", r->solved ? neap_batch_proof_name(result->proof) : NULL);
    cli_json_size(json, "peak_bytes", figures ? figures->peak_bytes : -1);
    cli_json_size(json, "arena_bytes", figures ? figures->arena_bytes : -1);
    add_real(json, "time", figures ? figures->time : 0, figures != NULL);
    add_real(json, "base_time", figures ? figures->base_time : 0, figures != NULL);
    add_real(json, "overhead", figures ? figures->overhead : 0, figures != NULL);
    cli_json_size(json, "recomputed_ops", figures ? (int64_t)figures->recomputed_ops : -1);
    cli_json_integer(json, "solves", result->n_solved);
    cli_json_real(json, "solve_seconds", result->seconds);
    cli_json_array(json, "trials");
    for (size_t i = 0; i < result->n_trials; i++)
        add_trial(json, &result->trials[i]);
    cli_json_end_array(json);
    if (!r->solved)
        cli_json_string(json, "message", r->note.message);
    cli_json_end_object(json);
}

static void add_json(const cli_batch_search *m, neap_text *out)
{
    cli_json json;
    cli_json_begin(&json, out);
    cli_json_array(&json, NULL);
    for (uint32_t i = 0; i < m->n_done; i++)
        add_json_row(&json, m, m->methods.names[i], &m->rows[i]);
    cli_json_end_array(&json);
}

/* ---- CSV ---- */

static void add_csv_row(cli_csv *csv, const cli_batch_search *m, const char *method,
                        const cli_batch_row *r)
{
    const neap_batch_result *result = &r->result;
    cli_csv_word(csv, method);
    cli_csv_integer(csv, m->budget);
    cli_csv_word(csv, status_of(r));
    cli_csv_size(csv, result->batch > 0 ? result->batch : -1);
    cli_csv_size(csv, result->store_all > 0 ? result->store_all : -1);
    cli_csv_word(csv, r->solved ? neap_batch_verdict_name(result->next) : NULL);
    cli_csv_word(csv, r->solved ? neap_batch_proof_name(result->proof) : NULL);
    if (result->batch > 0) {
        const neap_figures *figures = neap_solution_figures(result->solution);
        cli_csv_size(csv, figures->peak_bytes);
        cli_csv_size(csv, figures->arena_bytes);
        cli_csv_real(csv, figures->time);
        cli_csv_real(csv, figures->base_time);
        cli_csv_real(csv, figures->overhead);
        cli_csv_integer(csv, (int64_t)figures->recomputed_ops);
    } else {
        cli_csv_none(csv, 6);
    }
    cli_csv_integer(csv, result->n_solved);
    cli_csv_real(csv, result->seconds);
    cli_csv_end_row(csv);
}

static int write_csv(const cli_batch_search *m, neap_text *out)
{
    cli_csv csv;
    cli_csv_begin(&csv, "method,budget_bytes,status,batch,store_all_batch,next,proven,peak_bytes,"
                        "arena_bytes,time,base_time,overhead,recomputed_ops,solves,solve_seconds");
    for (uint32_t i = 0; i < m->n_done; i++)
        add_csv_row(&csv, m, m->methods.names[i], &m->rows[i]);
    return cli_csv_deliver(&csv, m->settings->csv, out);
}

/* ---- The command ---- */

static int show(cli_batch_search *m, neap_text *out)
{
    const cli_batch_row *best = cli_batch_search_best(m);
    int code = m->settings->csv ? write_csv(m, out) : CLI_OK;
    if (code != CLI_OK)
        return code;
    if (m->settings->json)
        add_json(m, out);
    else if (best && !cli_stdout_taken(m->settings))
        add_table(m, out);
    if (cli_interrupted())
        return cli_fail(CLI_STOPPED, "interrupted: %u of %u methods were tried", m->n_done,
                        m->methods.count);
    return best ? CLI_OK : cli_batch_search_fail(m);
}

static int run_max_batch(const cli_settings *settings, neap_text *out)
{
    cli_batch_search m = {.settings = settings, .who = "max-batch", .batch_option = "--set batch="};
    int code = cli_batch_search_run(&m);
    if (code == CLI_OK)
        code = show(&m, out);
    cli_batch_search_clear(&m);
    return code;
}

const cli_command cli_command_max_batch = {
    .name = "max-batch",
    .operands = "MODEL",
    .summary = "the largest batch that trains within a budget",
    .about =
        "Finds the largest batch of MODEL that trains within --budget, with a step that takes "
        "at most one forward pass longer than one run of every op (--extra-forward). Each "
        "batch that is tried is built, planned and judged. The result is a batch with such a "
        "plan, where the next batch has none. \"proven\" says for which plans that is certain: "
        "those of this method, those of all methods, or no, if the time limit stopped the "
        "search. The time limit is for all batches that one method tries.\n\n"
        "MODEL is a built-in network (neap models), an ONNX file or a graph file. A graph file is "
        "made for one batch, which --batch-of gives: parameters and their gradients keep their "
        "sizes, "
        "other sizes and all times scale with the batch. If not even batch 1 fits, the exit "
        "status is 3 and the message names a budget that works.",
    .examples =
        {
            {"neap max-batch vgg19 --budget 16GB --device flops --method all",
             "all methods, costs in FLOPs, as in Checkmate's figure 6"},
            {"neap max-batch unet --image 416x608 --budget 16GB --method rotor,greedy",
             "two methods, with the times of an H200"},
            {"neap max-batch graph.json --batch-of 32 --budget 8GiB --json",
             "your own graph, made for a batch of 32"},
        },
    .groups = (CLI_GROUPS_MODEL & ~CLI_GROUP_BATCH) | CLI_GROUP_LINK | CLI_GROUP_MAX_BATCH |
              CLI_GROUP_BATCHES | CLI_GROUP_SOLVE | CLI_GROUPS_MEASURED | CLI_GROUP_CSV |
              CLI_GROUP_JSON | CLI_GROUP_SEARCH_LOG,
    .least_operands = 1,
    .most_operands = 1,
    .run = run_max_batch,
};
