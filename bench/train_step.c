/*
 * Times training steps of a built-in network that keep everything.
 *
 *     train_step MODEL BATCH THREADS [STEPS]
 *
 * With STEPS, runs that many steps and prints the seconds by op type, using each op's best time.
 * Without, runs one step for each line of input and prints elapsed and CPU seconds, so that a
 * script can alternate with another program. Every op runs variant 0. Parameters and data are
 * random, of the usual magnitude.
 */
#include <neap/models.h>
#include <neap/run.h>
#include <neap/solve.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static neap_diag diag;

static void must(neap_status status)
{
    if (status != NEAP_OK) {
        fprintf(stderr, "%s\n", diag.message);
        exit(1);
    }
}

static float draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(*state >> 40) * 0x1p-23f - 1;
}

static void fill(neap_runner *runner, const neap_graph *graph, uint32_t value, uint64_t *state)
{
    const neap_value *v = neap_graph_value(graph, value);
    neap_array array;
    must(neap_runner_array(runner, value, &array, &diag));
    char *block = malloc((size_t)(array.elements * neap_dtype_bytes(array.dtype)));
    float *numbers = (float *)(void *)block;
    int64_t *labels = (int64_t *)(void *)block;
    float size = 1;
    if (strcmp(v->kind, NEAP_KIND_PARAMETER) == 0 && v->rank > 1)
        size = sqrtf(6 / (float)(array.elements / v->shape[0]));
    if (!block)
        exit(1);
    for (int64_t i = 0; i < array.elements; i++)
        if (array.dtype == NEAP_I64)
            labels[i] = i * 37 % 10;
        else
            numbers[i] = v->rank == 1 ? 1 : size * draw(state);
    must(neap_runner_write(runner, value, block, &diag));
    free(block);
}

/* ---- Seconds by op type ---- */

typedef struct sum {
    const char *type;
    double seconds;
    int ops;
} sum;

static int by_seconds(const void *a, const void *b)
{
    double x = ((const sum *)a)->seconds, y = ((const sum *)b)->seconds;
    return (x < y) - (x > y);
}

static void print_types(const neap_graph *graph, const neap_plan *plan, const double *best)
{
    sum sums[80] = {{NULL, 0, 0}};
    size_t count = 0;
    double total = 0;
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        const neap_step *step = &neap_plan_steps(plan)[i];
        if (step->kind != NEAP_COMPUTE)
            continue;
        const char *type = neap_graph_op(graph, step->id)->type;
        size_t at = 0;
        while (at < count && strcmp(sums[at].type, type) != 0)
            at++;
        if (at == count)
            sums[count++].type = type;
        sums[at].seconds += best[i];
        sums[at].ops++;
        total += best[i];
        if (getenv("TRAIN_STEP_OPS"))
            fprintf(stderr, "%9.3f ms  %-20s %s\n", best[i] * 1e3, type,
                    neap_graph_op(graph, step->id)->name);
    }
    qsort(sums, count, sizeof *sums, by_seconds);
    for (size_t i = 0; i < count; i++)
        printf("%-28s %4d ops %9.2f ms\n", sums[i].type, sums[i].ops, sums[i].seconds * 1e3);
    printf("%-28s          %9.2f ms\n", "all", total * 1e3);
}

static void run_many(neap_runner *runner, const neap_graph *graph, const neap_plan *plan, int steps)
{
    size_t count = neap_plan_step_count(plan);
    double *best = malloc(count * sizeof *best);
    if (!best)
        exit(1);
    for (int s = 0; s < steps; s++) {
        neap_run_report report;
        must(neap_runner_step(runner, 1, &report, &diag));
        const neap_step_time *times = neap_runner_step_times(runner);
        for (size_t i = 0; i < count; i++)
            if (s == 0 || times[i].end - times[i].begin < best[i])
                best[i] = times[i].end - times[i].begin;
        printf("step %d: %.1f ms\n", s, report.seconds * 1e3);
    }
    print_types(graph, plan, best);
    free(best);
}

/* The natural order again, every op in variant 0: planners would take those that need least. */
static neap_plan *with_variant_0(const neap_plan *plan)
{
    neap_plan *made;
    must(neap_plan_create(NULL, neap_plan_graph_name(plan), "given", -1, &made, &diag));
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        neap_step step = neap_plan_steps(plan)[i];
        step.variant = 0;
        must(neap_plan_append(made, step, &diag));
    }
    return made;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: train_step MODEL BATCH THREADS [STEPS]\n");
        return 2;
    }
    neap_backend *backend;
    neap_graph *graph;
    neap_runner *runner;
    neap_solution *solution;
    neap_model_setting batch = {"batch", strtol(argv[2], NULL, 10)};
    neap_model_options model;
    neap_model_options_init(&model);
    model.n_settings = 1;
    model.settings = &batch;
    if (!neap_models_find(argv[1])) {
        fprintf(stderr, "no model %s\n", argv[1]);
        return 2;
    }
    must(neap_model_build(NULL, neap_models_find(argv[1]), &model, &graph, &diag));
    must(neap_backend_open(NULL, "onednn", (int)strtol(argv[3], NULL, 10), &backend, &diag));
    must(neap_backend_fit(backend, graph, &diag));
    neap_request request;
    neap_request_init(&request, graph, "store-all");
    request.alignment = NEAP_RUN_ALIGNMENT;
    must(neap_solve(NULL, &request, &solution, &diag));
    neap_plan *plan = with_variant_0(neap_solution_plan(solution));
    neap_solution_destroy(solution);
    neap_run_options options;
    neap_run_options_init(&options);
    options.measure = argc > 4;
    must(neap_runner_create(NULL, graph, plan, backend, &options, &runner, &diag));
    uint64_t state = 1;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (neap_graph_value(graph, v)->producer == NEAP_NONE)
            fill(runner, graph, v, &state);
    if (argc > 4)
        run_many(runner, graph, plan, (int)strtol(argv[4], NULL, 10));
    for (int c; argc == 4 && (c = getchar()) != EOF;)
        if (c == '\n') {
            neap_run_report report;
            clock_t begin = clock();
            must(neap_runner_step(runner, 1, &report, &diag));
            printf("%.6f %.6f\n", report.seconds, (double)(clock() - begin) / CLOCKS_PER_SEC);
            fflush(stdout);
        }
    neap_runner_destroy(runner);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
    neap_backend_close(backend);
    return 0;
}
