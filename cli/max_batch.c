/* max_batch.c - neap max-batch: how large a batch fits into a budget, by method. */

#include "command.h"
#include "memory.h"
#include "output.h"
#include "report.h"

#include <inttypes.h>
#include <neap/batch.h>
#include <string.h>

/* What one method made of it. All zero is nothing. */
typedef struct row {
    bool solved; /* false: the method cannot do this at all; `note` says why */
    neap_batch_result result;
    neap_diag note;
} row;

typedef struct max_batch {
    const cli_settings *settings;
    cli_loaded model;
    int64_t budget;
    int64_t most; /* batches that the model takes */
    double time_limit;
    cli_methods methods;
    row *rows;       /* one a method */
    uint32_t n_done; /* of them; fewer than methods after Ctrl-C */
} max_batch;

/* ---- What is asked ---- */

/* A size that has nothing to do with batches: there is no step yet of which it could be a part. */
static int read_budget(max_batch *m)
{
    const char *text = m->settings->budget;
    if (!text)
        return cli_fail(CLI_BAD_INPUT, "max-batch needs a --budget, such as 16GB");
    if (strchr(text, '%'))
        return cli_fail(CLI_BAD_INPUT,
                        "--budget %s: of which batch? max-batch takes a size, such as 16GB", text);
    return cli_load_budget(&m->model, "budget", text, &m->budget);
}

/* One method has the time it wants; of several, or all, each has a share of a person's patience. */
static int read_methods(max_batch *m)
{
    const char *text = m->settings->method;
    bool is_auto = !text || strcmp(text, "auto") == 0;
    bool all = is_auto || strcmp(text, "all") == 0;
    if (is_auto && neap_methods_find("neap"))
        text = "neap";
    else if (all)
        text = NULL;
    int code = cli_methods_read(text, m->settings->link != NULL, &m->methods);
    if (code == CLI_OK)
        code = cli_methods_check_options(&m->methods, m->settings);
    m->time_limit = m->methods.count > 1 ? cli_limit_of_many(m->settings) : m->settings->time_limit;
    return code;
}

/* The batch is what is looked for; a file's is known to its owner alone. */
static int check_batch(max_batch *m)
{
    const cli_settings *s = m->settings;
    const neap_model *model = m->model.model;
    for (uint32_t i = 0; i < s->n_sizes; i++)
        if (strcmp(s->sizes[i].name, "batch") == 0)
            return cli_fail(CLI_BAD_INPUT,
                            "the batch is what max-batch finds; leave out --set batch=%" PRId64,
                            s->sizes[i].value);
    if (!model && s->batch_of < 1)
        return cli_fail(CLI_BAD_INPUT,
                        "%s was made for one batch; say which with --batch-of N, and its sizes and "
                        "times grow from there",
                        s->operands[0]);
    m->most = INT64_C(1) << 20;
    if (!model)
        return CLI_OK;
    if (s->batch_of > 0)
        return cli_fail(CLI_BAD_INPUT, "--batch-of is for graph files; %s knows its own sizes",
                        s->operands[0]);
    for (uint32_t i = 0; i < neap_model_param_count(model); i++) {
        const neap_model_param *param = neap_model_param_at(model, i);
        if (strcmp(param->name, "batch") == 0) {
            m->most = param->most;
            return CLI_OK;
        }
    }
    return cli_fail(CLI_BAD_INPUT, "%s has no batch", neap_model_name(model));
}

/* ---- The search ---- */

static neap_status graph_of(void *context, int64_t batch, neap_graph **graph, neap_diag *diag)
{
    const max_batch *m = context;
    if (m->model.model)
        return cli_load_batch(m->settings, &m->model, batch, graph, diag);
    return neap_batch_scale(NULL, m->model.graph, m->settings->batch_of, batch, graph, diag);
}

static int search(max_batch *m, cli_run *run, const char *method, row *r)
{
    const cli_settings *s = m->settings;
    neap_option_setting *options = NULL;
    if (s->n_options > 0) {
        options = cli_memory_new(s->n_options, sizeof *options);
        if (!options)
            return cli_fail_memory();
    }
    neap_batch_request request;
    neap_batch_request_init(&request, graph_of, m, method);
    request.solve.budget = m->budget;
    request.solve.link = m->model.link;
    request.solve.threads = s->threads;
    request.solve.seed = s->seed;
    request.solve.alignment = s->alignment;
    request.solve.n_options = options ? cli_select_options(s, method, options) : 0;
    request.solve.options = options;
    request.solve.progress = &run->progress.base;
    request.extra_forward = s->extra_forward;
    request.most = m->most;
    request.time_limit = m->time_limit;
    request.beyond = s->beyond;
    neap_status status = neap_batch_search(NULL, &request, &r->result, &r->note);
    cli_memory_release(options, s->n_options, sizeof *options);
    r->solved = status == NEAP_OK;
    return r->solved || status == NEAP_UNSUPPORTED ? CLI_OK : cli_fail_diag(&r->note);
}

static int search_all(max_batch *m)
{
    m->rows = cli_memory_new(m->methods.count, sizeof *m->rows);
    if (!m->rows)
        return cli_fail_memory();
    int code = CLI_OK;
    cli_run run;
    cli_run_begin(&run, m->settings, &m->model);
    while (code == CLI_OK && m->n_done < m->methods.count && !cli_interrupted()) {
        const char *name = m->methods.names[m->n_done];
        cli_progress_part(&run.progress, name, m->n_done, m->methods.count);
        code = search(m, &run, name, &m->rows[m->n_done]);
        m->n_done++;
    }
    cli_run_end(&run);
    return code;
}

/* The row with the largest batch, the first of them; NULL: none fits. */
static const row *find_best(const max_batch *m)
{
    const row *best = NULL;
    for (uint32_t i = 0; i < m->n_done; i++)
        if (m->rows[i].result.batch > (best ? best->result.batch : 0))
            best = &m->rows[i];
    return best;
}

static const char *model_name(const max_batch *m)
{
    return m->model.model ? neap_model_name(m->model.model) : neap_graph_name(m->model.graph);
}

/* ---- The table ---- */

static const char *proof_words(neap_batch_proof proof)
{
    static const char *const WORDS[] = {"no", "this method", "all methods"};
    return WORDS[proof];
}

static void add_row(cli_table *table, const char *method, const row *r, bool best)
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

static void add_table(const max_batch *m, cli_buffer *out)
{
    static const cli_column COLUMNS[] = {
        {"method", false}, {"batch", true},  {"to store-all", true},
        {"peak", true},    {"arena", true},  {"overhead", true},
        {"proven", false}, {"solves", true}, {"solved in", true}};
    const row *best = find_best(m);
    double extra = m->settings->extra_forward;
    cli_text budget;
    cli_styled(out, CLI_BOLD, "%s", model_name(m));
    if (m->model.device)
        cli_styled(out, CLI_DIM, " on %s", m->model.device->name);
    cli_styled(out, CLI_PLAIN, ", the largest batch in %s", cli_bytes(&budget, m->budget));
    if (extra >= 0)
        cli_styled(out, CLI_DIM, " (at most %.4g forward pass%s more than every op once)", extra,
                   extra > 1 ? "es" : "");
    cli_buffer_text(out, "\n\n");
    cli_table table;
    cli_table_init(&table, COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0], 0);
    for (uint32_t i = 0; i < m->n_done; i++)
        add_row(&table, m->methods.names[i], &m->rows[i], best == &m->rows[i]);
    cli_table_finish(&table, out);
    cli_styled(out, CLI_DIM, "proven: whose plans cannot do the next batch.%s",
               best ? " * the largest" : "");
    cli_buffer_text(out, "\n");
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

static void add_json_row(cli_json *json, const max_batch *m, const char *method, const row *r)
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
    cli_json_string(
        json, "status",
        !r->solved ? "unsupported"
        : figures  ? neap_outcome_name(figures->outcome)
        : result->next == NEAP_BATCH_STOPPED
            ? neap_outcome_name(result->interrupted ? NEAP_INTERRUPTED : NEAP_TIME_LIMIT)
            : neap_outcome_name(NEAP_INFEASIBLE));
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

static void add_json(const max_batch *m, cli_buffer *out)
{
    cli_json json;
    cli_json_begin(&json, out);
    cli_json_array(&json, NULL);
    for (uint32_t i = 0; i < m->n_done; i++)
        add_json_row(&json, m, m->methods.names[i], &m->rows[i]);
    cli_json_end_array(&json);
}

/* ---- Nothing fits ---- */

/* The trial of batch 1, or NULL. */
static const neap_batch_trial *first_batch(const row *r)
{
    for (size_t i = r->result.n_trials; i-- > 0;)
        if (r->result.trials[i].batch == 1)
            return &r->result.trials[i];
    return NULL;
}

static int nothing_fits(const max_batch *m)
{
    const char *lowest = NULL, *slow = NULL;
    int64_t bytes = INT64_MAX;
    bool stopped = false;
    for (uint32_t i = 0; i < m->n_done; i++) {
        const neap_batch_trial *t = first_batch(&m->rows[i]);
        if (t && t->peak_bytes >= 0)
            slow = m->methods.names[i];
        if (t && t->least_budget > 0 && t->least_budget < bytes) {
            bytes = t->least_budget;
            lowest = m->methods.names[i];
        }
        stopped = stopped || (m->rows[i].solved && (!t || t->verdict == NEAP_BATCH_STOPPED));
    }
    cli_text budget, least, size;
    if (m->n_done == 1 && !m->rows[0].solved)
        return cli_fail_diag(&m->rows[0].note);
    if (slow)
        return cli_fail(
            CLI_INFEASIBLE,
            "batch 1 fits into %s by %s, but takes more than %.4g forward pass%s longer "
            "than every op once; raise --extra-forward",
            cli_bytes(&budget, m->budget), slow, m->settings->extra_forward,
            m->settings->extra_forward > 1 ? "es" : "");
    if (stopped)
        return cli_fail(CLI_FAILED, "no batch was found within the time limit; raise --time-limit, "
                                    "or try another --method");
    if (!lowest)
        return cli_fail(CLI_INFEASIBLE, "no method here has a plan at batch 1");
    cli_bytes_pair(&budget, m->budget, &least, bytes);
    return cli_fail(CLI_INFEASIBLE,
                    "budget %s is below what batch 1 takes, %s by %s; try --budget %s",
                    budget.chars, least.chars, lowest, cli_bytes_above(&size, bytes));
}

/* ---- The command ---- */

static int show(const max_batch *m, cli_buffer *out)
{
    const row *best = find_best(m);
    if (m->settings->json)
        add_json(m, out);
    else if (best)
        add_table(m, out);
    if (cli_interrupted())
        return cli_fail(CLI_FAILED, "interrupted: %u of %u methods were tried", m->n_done,
                        m->methods.count);
    return best ? CLI_OK : nothing_fits(m);
}

static int run_max_batch(const cli_settings *settings, cli_buffer *out)
{
    max_batch m = {.settings = settings};
    int code = read_methods(&m);
    if (code == CLI_OK)
        code = cli_load(settings, settings->operands[0], &m.model);
    if (code == CLI_OK)
        code = check_batch(&m);
    if (code == CLI_OK)
        code = read_budget(&m);
    if (code == CLI_OK)
        code = search_all(&m);
    if (code == CLI_OK)
        code = show(&m, out);
    for (uint32_t i = 0; i < m.n_done; i++)
        neap_batch_result_clear(&m.rows[i].result);
    cli_memory_release(m.rows, m.methods.count, sizeof *m.rows);
    cli_methods_clear(&m.methods);
    cli_loaded_clear(&m.model);
    return code;
}

const cli_command cli_command_max_batch = {
    .name = "max-batch",
    .operands = "MODEL",
    .summary = "the largest batch that trains within a budget",
    .about =
        "Finds, by each method, the largest batch of MODEL that trains within --budget and at most "
        "one forward pass longer than running every op once (--extra-forward). Each batch that is "
        "tried is built, planned and judged. The answer is a batch with such a plan, where the "
        "next "
        "one has none; \"proven\" says of whose plans that is certain: of this method's, of all "
        "there are, or of none, when time was up. Without --method all are asked; the time limit "
        "is "
        "for all batches that one method tries.\n\n"
        "MODEL is a built-in network (neap models) or a graph file. A file has one batch, which "
        "--batch-of names: parameters and their gradients keep their sizes, other sizes and all "
        "times grow with the batch. If not even batch 1 fits, the exit status is 3 and the message "
        "says what would.",
    .examples =
        {
            {"neap max-batch vgg19 --budget 16GB --device flops",
             "all methods, costs in FLOPs, as in Checkmate's figure 6"},
            {"neap max-batch unet --image 416x608 --budget 16GB --method rotor,greedy",
             "two of them, on an H200's times"},
            {"neap max-batch graph.json --batch-of 32 --budget 8GiB --json",
             "a graph of your own, made for a batch of 32"},
        },
    .groups = (CLI_GROUPS_MODEL & ~CLI_GROUP_BATCH) | CLI_GROUP_LINK | CLI_GROUP_MAX_BATCH |
              CLI_GROUP_SOLVE | CLI_GROUP_JSON,
    .least_operands = 1,
    .most_operands = 1,
    .run = run_max_batch,
};
