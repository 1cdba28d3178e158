/* explain.c - neap explain: what sets the peak, what a budget costs, and what would help. */

#include "command.h"
#include "explanation.h"
#include "measured.h"
#include "memory.h"
#include "parts.h"
#include "peak_ops.h"

#include <inttypes.h>
#include <neap/curve.h>
#include <string.h>

/* Shares of the time that is left, for the parts of the work in order. */
static const double PLAN_SHARE = 0.3, LEAST_SHARE = 0.3, CURVE_SHARE = 0.5, ALONE_SHARE = 0.95;
/* How far below the straight line a knee is at least. */
static const double LEAST_BEND = 0.05;

double explain_seconds(const explanation *e, double share)
{
    static const double LEAST = 0.05;
    double limit = e->settings->time_limit;
    double seconds = share * (e->begin + limit - cli_clock());
    return limit <= 0 ? 0 : seconds > LEAST ? seconds : LEAST;
}

int explain_solve(explanation *e, const cli_settings *settings, const cli_loaded *model,
                  int64_t budget, double seconds, cli_result *result)
{
    e->run.settings = settings;
    e->run.model = model;
    int code = cli_solve(&e->run, e->method, budget, seconds, result);
    e->run.settings = e->settings;
    e->run.model = &e->model;
    return code;
}

/* ---- The peak ---- */

static void rank_tensors(const neap_graph *graph, const uint32_t *live, explain_peak *peak)
{
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        int64_t bytes = neap_graph_value(graph, v)->bytes;
        uint32_t place = peak->n_tensors;
        if (live[v] == 0 || bytes == 0)
            continue;
        while (place > 0 && neap_graph_value(graph, peak->tensors[place - 1])->bytes < bytes)
            place--;
        if (place == EXPLAIN_TENSORS)
            continue;
        if (peak->n_tensors < EXPLAIN_TENSORS)
            peak->n_tensors++;
        for (uint32_t i = peak->n_tensors - 1; i > place; i--)
            peak->tensors[i] = peak->tensors[i - 1];
        peak->tensors[place] = v;
    }
}

static void rank_layers(const neap_graph *graph, const neap_layers *layers, const uint32_t *live,
                        int64_t *bytes, explain_peak *peak)
{
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        uint32_t layer = live[v] > 0 ? neap_layers_of_value(layers, v) : NEAP_NONE;
        if (layer != NEAP_NONE)
            bytes[layer] += neap_graph_value(graph, v)->bytes;
    }
    cli_layers_rank(layers, bytes, &peak->layers);
}

static int explain_natural(explanation *e)
{
    const neap_layers *layers = e->layers;
    const neap_graph *graph = e->model.graph;
    neap_diag diag;
    size_t n_values = (size_t)neap_graph_value_count(graph) + 1,
           n_layers = (size_t)neap_layers_count(layers) + 1;
    uint32_t *live = cli_memory_new(n_values, sizeof *live);
    int64_t *bytes = cli_memory_new(n_layers, sizeof *bytes);
    int code = live && bytes ? cli_parts_find(graph, NULL, &e->peak.parts) : cli_fail_memory();
    if (code == CLI_OK && cli_peak_live(graph, live, &e->peak.op, &diag) != NEAP_OK)
        code = cli_fail_diag(&diag);
    if (code == CLI_OK) {
        rank_tensors(graph, live, &e->peak);
        rank_layers(graph, layers, live, bytes, &e->peak);
    }
    cli_memory_release(live, n_values, sizeof *live);
    cli_memory_release(bytes, n_layers, sizeof *bytes);
    return code;
}

/* ---- Kernels with the least workspace ---- */

static uint32_t least_workspace(const neap_op *op)
{
    uint32_t best = 0;
    for (uint32_t k = 1; k < op->n_variants; k++)
        if (op->variants[k].workspace < op->variants[best].workspace ||
            (op->variants[k].workspace == op->variants[best].workspace &&
             op->variants[k].ticks < op->variants[best].ticks))
            best = k;
    return best;
}

static int explain_variants(explanation *e)
{
    const neap_graph *graph = e->model.graph;
    uint32_t n_ops = neap_graph_op_count(graph);
    size_t capacity = (size_t)n_ops + 1;
    int64_t ticks = 0, base = neap_graph_base_ticks(graph);
    neap_plan *plan = NULL;
    neap_timeline timeline = {0};
    neap_diag diag;
    uint32_t *variants = cli_memory_new(capacity, sizeof *variants);
    if (!variants)
        return cli_fail_memory();
    for (uint32_t o = 0; o < n_ops; o++) {
        const neap_op *op = neap_graph_op(graph, o);
        variants[o] = least_workspace(op);
        e->kernels.choices += op->n_variants > 1;
        ticks += op->variants[variants[o]].ticks;
    }
    neap_status status = NEAP_OK;
    if (e->kernels.choices > 0) {
        status = neap_plan_from_sequence(NULL, graph, neap_graph_ordinary_order(graph), n_ops,
                                         variants, "store-all", -1, &plan, &diag);
        if (status == NEAP_OK)
            status = neap_timeline_build(NULL, graph, plan, NULL, &timeline, &diag);
        e->kernels.peak = timeline.peak_bytes;
        if (status == NEAP_OK && e->model.alignment > 1)
            status = cli_plan_bytes(&e->model, plan, &e->kernels.peak, &diag);
        e->kernels.overhead = base > 0 ? (double)ticks / (double)base - 1 : 0;
        neap_timeline_clear(&timeline);
        neap_plan_destroy(plan);
    }
    cli_memory_release(variants, capacity, sizeof *variants);
    return status == NEAP_OK ? CLI_OK : cli_fail_diag(&diag);
}

/* ---- The plan for the budget ---- */

int64_t explain_host_state(const neap_graph *graph, const neap_plan *plan)
{
    size_t count;
    int64_t bytes = 0;
    const uint32_t *values = neap_plan_host_at_start(plan, &count);
    for (size_t i = 0; i < count; i++)
        bytes += neap_graph_value(graph, values[i])->bytes;
    return bytes;
}

/* Counts the steps; ticks[layer] gets the time of its recomputations. runs: zeros, one per op. */
static void count_steps(const neap_graph *graph, const neap_layers *layers, const neap_plan *plan,
                        uint32_t *runs, int64_t *ticks, explain_plan *found)
{
    const neap_step *steps = neap_plan_steps(plan);
    for (size_t s = 0; s < neap_plan_step_count(plan); s++) {
        const neap_step *step = &steps[s];
        if (step->kind != NEAP_COMPUTE)
            continue;
        int64_t time = neap_graph_op(graph, step->id)->variants[step->variant].ticks;
        found->in_place += step->in_place;
        if (runs[step->id]++ > 0) {
            ticks[neap_layers_of_op(layers, step->id)] += time;
            found->recompute_ticks += time;
        } else {
            found->other_kernels += step->variant != 0;
        }
    }
}

static int describe_plan(explanation *e)
{
    const neap_layers *layers = e->layers;
    size_t n_ops = (size_t)neap_graph_op_count(e->model.graph) + 1;
    size_t n_layers = (size_t)neap_layers_count(layers) + 1;
    uint32_t *runs = cli_memory_new(n_ops, sizeof *runs);
    int64_t *ticks = cli_memory_new(n_layers, sizeof *ticks);
    int code = runs && ticks ? CLI_OK : cli_fail_memory();
    if (code == CLI_OK) {
        count_steps(e->model.graph, layers, e->result.plan, runs, ticks, &e->plan);
        cli_layers_rank(layers, ticks, &e->plan.layers);
        e->plan.host_state = explain_host_state(e->model.graph, e->result.plan);
    }
    cli_memory_release(runs, n_ops, sizeof *runs);
    cli_memory_release(ticks, n_layers, sizeof *ticks);
    return code;
}

/* The plan with the least peak, for a budget that is infeasible. */
static int find_least(explanation *e)
{
    cli_settings settings = *e->settings;
    settings.objective = CLI_OBJECTIVE_PEAK;
    const neap_method *method = neap_methods_find(e->method);
    if (!method || !neap_method_takes_constraints(method))
        return CLI_OK;
    cli_progress_part(&e->run.progress, "the least memory", 0, 0);
    return explain_solve(e, &settings, &e->model, -1, explain_seconds(e, LEAST_SHARE), &e->least);
}

static int explain_budget(explanation *e)
{
    cli_progress_part(&e->run.progress, "the budget", 0, 0);
    int code = explain_solve(e, e->settings, &e->model, e->budget, explain_seconds(e, PLAN_SHARE),
                             &e->result);
    if (code != CLI_OK)
        return code;
    if (!e->result.solved)
        return cli_fail_unsupported(&e->model, e->method, &e->result.note);
    if (e->result.plan)
        return describe_plan(e);
    return cli_interrupted() ? CLI_OK : find_least(e);
}

/* ---- The curve ---- */

static void find_knee(explain_curve *c)
{
    int last = -1;
    double most = LEAST_BEND;
    c->first = c->knee = -1;
    for (int i = 0; i < (int)c->count; i++) {
        if (!c->points[i].feasible)
            continue;
        if (c->first < 0)
            c->first = i;
        last = i;
    }
    if (c->first < 0 || last - c->first < 2)
        return;
    const explain_point *a = &c->points[c->first], *b = &c->points[last];
    double width = (double)(b->budget - a->budget), height = a->overhead - b->overhead;
    if (height < EXPLAIN_NOTHING)
        return;
    for (int i = c->first + 1; i < last; i++) {
        const explain_point *p = &c->points[i];
        double below =
            1 - (double)(p->budget - a->budget) / width - (p->overhead - b->overhead) / height;
        if (p->feasible && below > most) {
            most = below;
            c->knee = i;
        }
    }
}

/* A plan that is known otherwise, and its addresses fit, is as good as one for the point. */
static void offer_plan(explain_point *point, const cli_result *known)
{
    if (!known->plan || !cli_result_has_addresses(known) ||
        known->figures->arena_bytes > point->budget ||
        (point->feasible && point->overhead <= known->figures->overhead))
        return;
    point->feasible = true;
    point->overhead = known->figures->overhead;
}

static void take_points(explanation *e, const int64_t *budgets, uint32_t count,
                        neap_solution **solutions)
{
    explain_curve *c = &e->curve;
    for (uint32_t i = 0; i < count; i++) {
        const neap_figures *f = neap_solution_figures(solutions[i]);
        bool feasible = neap_solution_plan(solutions[i]) && f->arena_bytes >= 0;
        c->points[i] = (explain_point){budgets[i], feasible, feasible ? f->overhead : 0};
        offer_plan(&c->points[i], &e->result);
        offer_plan(&c->points[i], &e->least);
        c->cut_short =
            c->cut_short || f->outcome == NEAP_TIME_LIMIT || f->outcome == NEAP_INTERRUPTED;
        neap_solution_destroy(solutions[i]);
    }
    c->count = count;
    find_knee(c);
}

/* Budgets from what no plan can beat, or a plan is known for, up to the natural peak. */
static int explain_tradeoff(explanation *e)
{
    int64_t budgets[EXPLAIN_POINTS], most = e->model.natural_peak;
    int64_t least = cli_floor(&e->model, e->model.graph, NULL);
    neap_solution *solutions[EXPLAIN_POINTS] = {NULL};
    neap_request request;
    neap_diag diag = {0};
    if (e->least.plan && e->least.figures->arena_bytes > least)
        least = e->least.figures->arena_bytes;
    uint32_t count = 0;
    for (int64_t i = 0; i < EXPLAIN_POINTS; i++) {
        int64_t budget =
            least + (int64_t)((double)(most - least) * (double)i / (EXPLAIN_POINTS - 1));
        if (budget > 0 && (count == 0 || budget > budgets[count - 1]))
            budgets[count++] = budget;
    }
    if (count < 2 || most <= least)
        return CLI_OK;
    cli_progress_part(&e->run.progress, "the curve", 0, 0);
    int code = cli_request_init(&e->run, e->method, &request);
    if (code != CLI_OK)
        return code;
    request.time_limit = explain_seconds(e, e->budget < 0 ? ALONE_SHARE : CURVE_SHARE);
    neap_status status = neap_curve_solve(NULL, &request, budgets, count, solutions, &diag);
    if (status == NEAP_UNSUPPORTED)
        return cli_fail_unsupported(&e->model, e->method, &diag);
    if (status != NEAP_OK)
        return cli_fail_diag(&diag);
    take_points(e, budgets, count, solutions);
    return CLI_OK;
}

/* ---- The command ---- */

static int load(explanation *e)
{
    cli_methods methods;
    int code = cli_methods_read(e->settings, &methods);
    if (code == CLI_OK && methods.count > 1)
        code = cli_fail(CLI_BAD_INPUT, "explain plans by one method; leave the others out of "
                                       "--method");
    if (code == CLI_OK)
        code = cli_methods_check_options(&methods, e->settings);
    if (code == CLI_OK)
        e->method = methods.names[0];
    cli_methods_clear(&methods);
    if (code == CLI_OK)
        code = cli_load_with_times(e->settings, &e->model);
    if (code == CLI_OK)
        code = cli_load_budget(&e->model, "budget", e->settings->budget, &e->budget);
    return code == CLI_OK ? cli_load_natural_peak(&e->model) : code;
}

static int find_out(explanation *e)
{
    neap_diag diag;
    if (neap_layers_find(NULL, e->model.graph, &e->layers, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    e->base_time = neap_graph_seconds(e->model.graph, neap_graph_base_ticks(e->model.graph));
    cli_run_begin(&e->run, e->settings, &e->model);
    e->run.progress.purpose = "explaining";
    int code = explain_natural(e);
    if (code == CLI_OK)
        code = explain_variants(e);
    if (code == CLI_OK && e->budget >= 0)
        code = explain_budget(e);
    if (code == CLI_OK && !cli_interrupted())
        code = explain_tradeoff(e);
    if (code == CLI_OK && e->budget >= 0)
        code = explain_try_changes(e);
    e->stopped = cli_interrupted();
    cli_run_end(&e->run);
    return code;
}

/* The last line, on stderr, where the explanation is not that of a plan. */
static int finish(const explanation *e)
{
    cli_text budget;
    if (e->stopped)
        return cli_fail(CLI_STOPPED, "interrupted: this is what is known so far");
    if (e->budget < 0 || e->result.plan)
        return CLI_OK;
    cli_bytes(&budget, e->budget);
    if (e->result.figures->outcome == NEAP_INFEASIBLE)
        return cli_fail(CLI_INFEASIBLE, "no plan fits %s; the explanation says what would help",
                        budget.chars);
    return cli_fail(CLI_STOPPED,
                    "%s found no plan for %s within the time limit; raise --time-limit or --budget",
                    e->method, budget.chars);
}

static int run_explain(const cli_settings *settings, neap_text *out)
{
    explanation e = {.settings = settings, .begin = cli_clock()};
    int code = load(&e);
    if (code == CLI_OK)
        code = find_out(&e);
    if (code == CLI_OK) {
        if (settings->json)
            explain_add_json(&e, out);
        else
            explain_add_text(&e, out);
        code = out->status == NEAP_OK ? finish(&e) : CLI_OK;
    }
    cli_result_clear(&e.result);
    cli_result_clear(&e.least);
    neap_layers_destroy(e.layers);
    cli_loaded_clear(&e.model);
    return code;
}

const cli_command cli_command_explain = {
    .name = "explain",
    .operands = "MODEL",
    .summary = "what sets the peak, what a budget costs, what would help",
    .about = "Says in plain words which op sets the peak of a step without a plan and what is in "
             "memory then, what --budget costs and which layers matter most, where the knee of the "
             "curve is, and what would help: a smaller batch, copies to the host, another number "
             "type, a little more memory. Every figure comes from a plan that was made and judged, "
             "or is proven. Without --budget it explains the peak and the knee.\n\n"
             "A layer is a forward op with its backward ops. The knee is the budget whose overhead "
             "is farthest below the straight line between the smallest and the largest budget of "
             "the curve. If no plan fits, the text says what sets the floor and what would make "
             "the budget feasible, and the exit status is 3. Ctrl-C ends the work and prints what "
             "is known.",
    .examples =
        {
            {"neap explain resnet50 --batch 64 --budget 50%", "why the step needs so much, and "
                                                              "what half of it costs"},
            {"neap explain gpt2 --optimizer adam --budget 4GiB --time-limit 60s",
             "with more time for better plans"},
            {"neap explain model.onnx --batch 32 --json", "the peak and the knee, for a script"},
        },
    .groups = CLI_GROUPS_MODEL | CLI_GROUP_SEARCH_LOG | CLI_GROUP_SOLVE | CLI_GROUP_LINK |
              CLI_GROUP_GAP | CLI_GROUP_BUDGET | CLI_GROUPS_MEASURED | CLI_GROUP_JSON,
    .least_operands = 1,
    .most_operands = 1,
    .run = run_explain,
};
