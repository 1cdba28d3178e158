#include "batch_search.h"

#include "measured.h"
#include "memory.h"
#include "no_plan.h"
#include "output.h"

#include <inttypes.h>
#include <neap/split.h>
#include <string.h>

/* ---- Checking the request ---- */

/* Reads the budget as a size: a percentage would refer to a step, and there is none yet. */
static int read_budget(cli_batch_search *m)
{
    const char *text = m->settings->budget;
    if (!text)
        return cli_fail(CLI_BAD_INPUT, "%s needs a --budget, such as 16GB", m->who);
    if (strchr(text, '%'))
        return cli_fail(CLI_BAD_INPUT, "--budget %s: of which batch? %s takes a size, such as 16GB",
                        text, m->who);
    return cli_load_budget(&m->model, "budget", text, &m->budget);
}

/* The default time limit is for several methods. */
static int read_methods(cli_batch_search *m)
{
    int code = cli_methods_read(m->settings, &m->methods);
    if (code == CLI_OK)
        code = cli_methods_check_options(&m->methods, m->settings);
    bool limited = m->methods.count > 1 || cli_is_given(m->settings, "time-limit");
    m->time_limit = limited ? m->settings->time_limit : 0;
    return code;
}

/*
 * Rejects a given batch, since it is the result of the search. For a file, the user must state its
 * batch.
 */
static int check_batch(cli_batch_search *m)
{
    const cli_settings *s = m->settings;
    const neap_model *model = m->model.model;
    for (uint32_t i = 0; i < s->n_sizes; i++)
        if (strcmp(s->sizes[i].name, "batch") == 0)
            return cli_fail(CLI_BAD_INPUT, "the batch is what %s finds; leave out %s%" PRId64,
                            m->who, m->batch_option, s->sizes[i].value);
    if (!cli_has_batches(&m->model) && s->batch_of < 1)
        return cli_fail(CLI_BAD_INPUT,
                        "%s was made for one batch; say which with --batch-of N, and its sizes and "
                        "times grow from there",
                        s->operands[0]);
    m->most = INT64_C(1) << 20;
    if (!cli_has_batches(&m->model))
        return CLI_OK;
    if (s->batch_of > 0)
        return cli_fail(CLI_BAD_INPUT, "--batch-of is for graph files; %s knows its own sizes",
                        s->operands[0]);
    if (!model)
        return CLI_OK;
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

/* Kernels of a batch whose ops exceed the budget need no times. */
static neap_status measure(const cli_batch_search *m, neap_graph *graph, neap_diag *diag)
{
    int64_t floor = m->model.moves_state ? neap_graph_travel_floor_bytes(graph, NULL)
                                         : neap_graph_floor_bytes(graph, NULL);
    return floor > m->budget
               ? NEAP_OK
               : cli_profile_graph(m->settings, &m->model, m->backend, m->progress, graph, diag);
}

static neap_status keep_measured(cli_batch_search *m, int64_t batch, const neap_graph *graph,
                                 neap_diag *diag)
{
    if (m->n_measured == m->measured_capacity) {
        size_t larger = m->measured_capacity ? 2 * m->measured_capacity : 8;
        cli_measured_batch *grown = cli_memory_new(larger, sizeof *grown);
        if (!grown)
            return diag->status = NEAP_NO_MEMORY;
        if (m->n_measured > 0)
            memcpy(grown, m->measured, m->n_measured * sizeof *grown);
        cli_memory_release(m->measured, m->measured_capacity, sizeof *grown);
        m->measured = grown;
        m->measured_capacity = larger;
    }
    cli_measured_batch *kept = &m->measured[m->n_measured];
    neap_status status = neap_graph_write_text(graph, NULL, &kept->text, &kept->length, diag);
    kept->batch = batch;
    m->n_measured += status == NEAP_OK;
    return status;
}

static neap_status measured_graph(cli_batch_search *m, int64_t batch, neap_graph **graph,
                                  neap_diag *diag)
{
    for (size_t i = 0; i < m->n_measured; i++)
        if (m->measured[i].batch == batch)
            return neap_graph_read_text(NULL, m->measured[i].text, m->measured[i].length,
                                        "a measured graph", graph, diag);
    neap_status status = cli_load_batch(m->settings, &m->model, batch, graph, diag);
    if (status != NEAP_OK)
        return status;
    status = measure(m, *graph, diag);
    m->interrupted = status != NEAP_OK && cli_interrupted();
    return status == NEAP_OK ? keep_measured(m, batch, *graph, diag) : status;
}

neap_status cli_batch_graph(void *context, int64_t batch, neap_graph **graph, neap_diag *diag)
{
    cli_batch_search *m = context;
    neap_status status;
    *graph = NULL;
    if (cli_has_batches(&m->model) && m->backend) {
        status = measured_graph(m, batch, graph, diag);
    } else if (cli_has_batches(&m->model)) {
        status = cli_load_batch(m->settings, &m->model, batch, graph, diag);
    } else {
        status = neap_batch_scale(NULL, neap_graph_whole(m->model.graph), m->settings->batch_of,
                                  batch, graph, diag);
        if (status == NEAP_OK && m->settings->split > 0)
            status = neap_graph_split(graph, m->settings->split, diag);
    }
    if (status != NEAP_OK) {
        neap_graph_destroy(*graph);
        *graph = NULL;
    }
    return status;
}

static int search(cli_batch_search *m, cli_run *run, const char *method, cli_batch_row *r)
{
    const cli_settings *s = m->settings;
    neap_batch_request request;
    neap_batch_request_init(&request, cli_batch_graph, m, method);
    int code = cli_request_init(run, method, &request.solve);
    if (code != CLI_OK)
        return code;
    request.solve.budget = m->budget;
    request.extra_forward = s->extra_forward;
    request.most = m->most;
    request.time_limit = m->time_limit;
    request.beyond = s->beyond;
    neap_status status = neap_batch_search(NULL, &request, &r->result, &r->note);
    r->solved = status == NEAP_OK;
    if (m->interrupted) { /* what other methods found counts */
        m->message = r->note;
        return CLI_OK;
    }
    return r->solved || status == NEAP_UNSUPPORTED ? CLI_OK : cli_fail_diag(&r->note);
}

static int search_all(cli_batch_search *m)
{
    m->rows = cli_memory_new(m->methods.count, sizeof *m->rows);
    if (!m->rows)
        return cli_fail_memory();
    int code = CLI_OK;
    cli_run run;
    cli_run_begin(&run, m->settings, &m->model);
    m->progress = &run.progress;
    if (m->settings->log)
        cli_progress_log(&run.progress, 0); /* every batch has its own times */
    while (code == CLI_OK && m->n_done < m->methods.count && !cli_interrupted()) {
        const char *name = m->methods.names[m->n_done];
        cli_progress_part(&run.progress, name, m->n_done, m->methods.count);
        code = search(m, &run, name, &m->rows[m->n_done]);
        m->n_done += !m->interrupted;
    }
    cli_run_end(&run);
    m->progress = NULL;
    return code;
}

cli_batch_row *cli_batch_search_best(const cli_batch_search *m)
{
    cli_batch_row *best = NULL;
    for (uint32_t i = 0; i < m->n_done; i++)
        if (m->rows[i].result.batch > (best ? best->result.batch : 0))
            best = &m->rows[i];
    return best;
}

/* ---- Nothing fits ---- */

/* The trial of batch 1, or NULL. */
static const neap_batch_trial *first_batch(const cli_batch_row *r)
{
    for (size_t i = r->result.n_trials; i-- > 0;)
        if (r->result.trials[i].batch == 1)
            return &r->result.trials[i];
    return NULL;
}

/* If no plan is possible at all: writes the line and returns the exit code. */
static int check_floor(cli_batch_search *m)
{
    neap_diag diag;
    neap_graph *graph;
    uint32_t op;
    if (cli_batch_graph(m, 1, &graph, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    int64_t bytes = cli_floor(&m->model, graph, &op);
    int code =
        cli_no_plan_floor(&m->model, graph, "even for batch 1, budget", m->budget, bytes, op, "");
    neap_graph_destroy(graph);
    return code;
}

int cli_batch_search_fail(cli_batch_search *m)
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
    if (m->interrupted)
        return cli_fail(CLI_STOPPED, "%s", m->message.message);
    if (m->n_done == 1 && !m->rows[0].solved)
        return cli_fail_unsupported(&m->model, m->methods.names[0], &m->rows[0].note);
    if (slow)
        return cli_fail(
            CLI_INFEASIBLE,
            "batch 1 fits into %s by %s, but takes more than %.4g forward pass%s longer "
            "than every op once; raise --extra-forward",
            cli_bytes(&budget, m->budget), slow, m->settings->extra_forward,
            m->settings->extra_forward > 1 ? "es" : "");
    if (stopped)
        return cli_fail(CLI_STOPPED,
                        "no batch was found within the time limit; raise --time-limit, "
                        "or try another --method");
    int code = check_floor(m);
    if (code != CLI_OK)
        return code;
    if (!lowest)
        return cli_fail(CLI_INFEASIBLE, "no method here has a plan at batch 1");
    cli_bytes_pair(&budget, m->budget, &least, bytes);
    return cli_fail(CLI_INFEASIBLE,
                    "budget %s is below the least found for batch 1, %s by %s; try --budget %s",
                    budget.chars, least.chars, lowest, cli_bytes_above(&size, bytes));
}

/* ---- The whole search ---- */

/* Times of a file grow from those it has; a model in pieces has no kernels. */
static int open_backend(cli_batch_search *m)
{
    const cli_settings *s = m->settings;
    if (!cli_has_batches(&m->model) || s->split > 0)
        return cli_fail(CLI_BAD_INPUT,
                        "--backend measures models in whole values, not graph files; leave "
                        "out %s",
                        cli_has_batches(&m->model) ? "--split" : "--backend");
    m->model.device = NULL;
    return cli_backend_open(s, &m->model, &m->backend);
}

int cli_batch_search_run(cli_batch_search *m)
{
    const cli_settings *settings = m->settings;
    int code = read_methods(m);
    if (code == CLI_OK)
        code = cli_load(settings, settings->operands[0], &m->model);
    if (code == CLI_OK)
        code = check_batch(m);
    if (code == CLI_OK && settings->backend)
        code = open_backend(m);
    if (code == CLI_OK)
        code = read_budget(m);
    if (code == CLI_OK)
        code = search_all(m);
    return code;
}

void cli_batch_search_clear(cli_batch_search *m)
{
    for (uint32_t i = 0; i < m->n_done; i++)
        neap_batch_result_clear(&m->rows[i].result);
    cli_memory_release(m->rows, m->methods.count, sizeof *m->rows);
    cli_methods_clear(&m->methods);
    for (size_t i = 0; i < m->n_measured; i++)
        neap_release(NULL, m->measured[i].text, m->measured[i].length + 1);
    cli_memory_release(m->measured, m->measured_capacity, sizeof *m->measured);
    neap_backend_close(m->backend);
    cli_loaded_clear(&m->model);
}
