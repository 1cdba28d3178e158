/*
 * What sets of checkpoints cost on the chain view of a model, as judged plans.
 *
 *     least_peak_set MODEL NAME=VALUE,... SET...
 *
 * A SET is a list such as 3,6,24 (numbered as in Table 2 of Hong et al.), one of hong, hong-static
 * and acg, or "all": no checkpoint, so that everything is kept. The graph is that of training by
 * SGD with momentum. Prints JSON:
 *
 *     {"n": 24, "d": [bytes ...], "base": bytes, "n_forward": ops, "op_phases": [...],
 *      "op_results": [bytes ...], "sets": [{"checkpoints": [...], "peak": bytes,
 *      "phases": [[at the end, highest], ...]}, ...]}
 *
 * Phases are the paper's training phase indices 1 .. 2n: layer i forward is i, backward 2n + 1 - i.
 * For each phase there are two numbers of live bytes from the plan's timeline: at the end of the
 * phase, and the most during it. They exclude the results of the step (parameters' gradients, the
 * loss). `base` is what is live before the first op: parameters, optimizer state and the input.
 * op_phases and op_results have the phase of each op, 0 for the loss, and the bytes that it adds to
 * the results of the step.
 */
#include "planners/chain/least_peak.h"

#include <neap/check.h>
#include <neap/models.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    neap_graph *graph;
    planner planner;
    neap_request request;
    least_peak_view view;
    bool *chosen;        /* n + 1 */
    int64_t (*phase)[2]; /* 2n + 1: as printed; [0] unused */
} bench;

static void check(neap_status status, const neap_diag *diag)
{
    if (status == NEAP_OK)
        return;
    fprintf(stderr, "%s\n", diag->message);
    exit(1);
}

static void *new_items(size_t count, size_t size)
{
    void *items = calloc(count, size);
    if (!items) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return items;
}

/* ---- The graph ---- */

/* NAME=VALUE,NAME=VALUE; the text is cut up. */
static uint32_t read_settings(char *text, neap_model_setting *settings)
{
    uint32_t count = 0;
    while (text && *text) {
        char *end = strchr(text, ','), *equals = strchr(text, '=');
        if (!equals) {
            fprintf(stderr, "a setting is NAME=VALUE, not %s\n", text);
            exit(2);
        }
        *equals = '\0';
        settings[count++] = (neap_model_setting){text, strtoll(equals + 1, NULL, 10)};
        text = end ? end + 1 : NULL;
    }
    return count;
}

static void build(bench *b, const char *name, char *settings_text)
{
    neap_diag diag = {0};
    neap_model_options options;
    neap_model_setting *settings = new_items(strlen(settings_text) + 1, sizeof *settings);
    const neap_model *model = neap_models_find(name);
    if (!model) {
        fprintf(stderr, "unknown model %s\n", name);
        exit(2);
    }
    neap_model_options_init(&options);
    options.n_settings = read_settings(settings_text, settings);
    options.settings = settings;
    check(neap_model_build(NULL, model, &options, &b->graph, &diag), &diag);
    free(settings);
    neap_request_init(&b->request, b->graph, "sqrt");
    b->planner = (planner){.allocator = neap_allocator_system(),
                           .request = &b->request,
                           .graph = b->graph,
                           .budget = INT64_MAX};
    check(neap_planner_view_build(&b->planner, (chain_view){0}, &b->view, &diag), &diag);
    b->chosen = new_items((size_t)b->view.n + 1, sizeof *b->chosen);
    b->phase = new_items(2 * (size_t)b->view.n + 1, sizeof *b->phase);
}

/* ---- Sets ---- */

static void choose(bench *b, const char *set)
{
    static const struct {
        const char *name;
        least_peak_solver *solve;
    } solvers[] = {{"hong", neap_hong_linear},
                   {"hong-static", neap_hong_static},
                   {"acg", neap_segment_term_search}};
    const least_peak_problem problem = {.n = b->view.n, .d = b->view.d, .inner = b->view.inner};
    least_peak_answer answer = {.chosen = b->chosen};
    neap_diag diag = {0};
    for (size_t i = 0; i < sizeof solvers / sizeof *solvers; i++) {
        if (strcmp(solvers[i].name, set) == 0) {
            check(solvers[i].solve(&problem, &answer, &diag), &diag);
            return;
        }
    }
    memset(b->chosen, 0, (size_t)b->view.n + 1);
    b->chosen[0] = b->chosen[b->view.n] = true;
    if (strcmp(set, "all") == 0)
        return;
    for (const char *at = set; *at;) {
        char *end;
        unsigned long i = strtoul(at, &end, 10);
        if (end == at || i > b->view.n) {
            fprintf(stderr, "a set is a list of layers up to %" PRIu32 ", not %s\n", b->view.n,
                    set);
            exit(2);
        }
        b->chosen[i] = true;
        at = *end ? end + 1 : end;
    }
}

/* ---- The judged plan ---- */

/* The phase of each op: forward of its stage, or backward; 0 for the loss. */
static uint32_t *phases_of_ops(const bench *b)
{
    const uint32_t n = b->view.n, n_ops = neap_graph_op_count(b->graph);
    uint32_t *phases = new_items(n_ops + 1, sizeof *phases);
    for (uint32_t i = 1; i <= n; i++) {
        const neap_stage *stage = &b->view.chain.stages[i - 1];
        for (uint32_t o = stage->first_op; o < stage->end_op; o++)
            phases[o] = i;
        for (uint32_t o = stage->first_backward; o < stage->end_backward; o++)
            phases[o] = 2 * n + 1 - i;
    }
    return phases;
}

/* What an op adds to the results of the step, which stay once they are there. */
static int64_t results_of(const bench *b, uint32_t op_id)
{
    const neap_op *op = neap_graph_op(b->graph, op_id);
    int64_t bytes = 0;
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (neap_graph_is_output(b->graph, op->outputs[i]))
            bytes += neap_graph_value(b->graph, op->outputs[i])->bytes;
    return bytes;
}

/* A phase without an op (a view) leaves everything as it was. */
static void fill_empty_phases(bench *b)
{
    for (uint32_t i = 1; i <= 2 * b->view.n; i++)
        if (b->phase[i][1] == 0)
            b->phase[i][0] = b->phase[i][1] = b->phase[i - 1][0];
}

/* A recomputed op belongs to the backward phase that needs it: that of the next backward op.
 */
static void measure(bench *b, const neap_plan *plan)
{
    neap_diag diag = {0};
    neap_timeline timeline;
    check(neap_timeline_build(NULL, b->graph, plan, NULL, &timeline, &diag), &diag);
    uint32_t *phases = phases_of_ops(b), phase = 0, forward_left = b->view.chain.n_forward;
    const neap_step *steps = neap_plan_steps(plan);
    int64_t waiting = 0, results = 0;
    for (uint32_t i = 0; i <= 2 * b->view.n; i++)
        b->phase[i][0] = b->phase[i][1] = 0;
    for (size_t s = 0; s < timeline.n_steps; s++) {
        bool compute = steps[s].kind == NEAP_COMPUTE;
        bool again = compute && forward_left == 0 && steps[s].id < b->view.chain.n_forward;
        if (compute && !again)
            results += results_of(b, steps[s].id);
        int64_t live = timeline.steps[s].live_bytes - results;
        waiting = live > waiting ? live : waiting;
        if (again)
            phase = 0; /* not known yet */
        else if (compute)
            phase = phases[steps[s].id];
        if (compute && forward_left)
            forward_left--;
        if (phase == 0)
            continue;
        b->phase[phase][0] = timeline.steps[s].after_bytes - results;
        if (waiting > b->phase[phase][1])
            b->phase[phase][1] = waiting;
        waiting = 0;
    }
    fill_empty_phases(b);
    free(phases);
    neap_timeline_clear(&timeline);
}

static int64_t judge(bench *b)
{
    neap_diag diag = {0};
    neap_verdict verdict;
    draft d = {.least_budget = -1};
    check(neap_planner_use_segments(&b->planner, &d, &b->view.chain, b->chosen, NULL, &diag),
          &diag);
    check(neap_check(NULL, b->graph, d.plan, NULL, &verdict, &diag), &diag);
    if (!verdict.accepted) {
        fprintf(stderr, "the judge rejects the plan: %s\n", verdict.reason);
        exit(1);
    }
    measure(b, d.plan);
    neap_plan_destroy(d.plan);
    return verdict.peak_bytes;
}

/* ---- Output ---- */

static void print_set(bench *b, const char *set)
{
    choose(b, set);
    int64_t peak = judge(b);
    const char *comma = "";
    printf("{\"checkpoints\": [");
    for (uint32_t i = 1; i <= b->view.n; i++) {
        if (b->chosen[i]) {
            printf("%s%" PRIu32, comma, i);
            comma = ", ";
        }
    }
    printf("], \"peak\": %" PRId64 ", \"phases\": [", peak);
    for (uint32_t i = 1; i <= 2 * b->view.n; i++)
        printf("%s[%" PRId64 ", %" PRId64 "]", i > 1 ? ", " : "", b->phase[i][0], b->phase[i][1]);
    printf("]}");
}

static void print_ops(const bench *b)
{
    uint32_t *phases = phases_of_ops(b), n_ops = neap_graph_op_count(b->graph);
    printf("], \"n_forward\": %" PRIu32 ", \"op_phases\": [", b->view.chain.n_forward);
    for (uint32_t o = 0; o < n_ops; o++)
        printf("%s%" PRIu32, o ? ", " : "", phases[o]);
    printf("], \"op_results\": [");
    for (uint32_t o = 0; o < n_ops; o++)
        printf("%s%" PRId64, o ? ", " : "", results_of(b, o));
    free(phases);
}

int main(int argc, char **argv)
{
    bench b = {0};
    if (argc < 4) {
        fprintf(stderr, "usage: least_peak_set MODEL NAME=VALUE,... SET...\n");
        return 2;
    }
    build(&b, argv[1], argv[2]);
    int64_t moments = (int64_t)sizeof(float) * neap_graph_parameter_count(b.graph);
    printf("{\"n\": %" PRIu32 ", \"base\": %" PRId64 ", \"d\": [", b.view.n,
           neap_graph_base_bytes(b.graph) + moments);
    for (uint32_t i = 0; i <= b.view.n; i++)
        printf("%s%" PRId64, i ? ", " : "", b.view.d[i]);
    print_ops(&b);
    printf("], \"sets\": [");
    for (int i = 3; i < argc; i++) {
        printf("%s", i > 3 ? ", " : "");
        print_set(&b, argv[i]);
    }
    printf("]}\n");
    free(b.chosen);
    free(b.phase);
    neap_planner_view_clear(&b.view);
    neap_graph_destroy(b.graph);
    return 0;
}
