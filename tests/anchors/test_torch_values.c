/*
 * Every built-in network's loss and gradients against PyTorch's, which tools/torch_values.py wrote
 * to tests/data/torch/: in double precision on the ref backend's kernels, and in f32 on every
 * backend that runs kernels, through the executor, by a plan that keeps everything.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "named_inputs.h"
#include "reference_ops.h"
#include "usable_backends.h"

#include <neap/models.h>
#include <neap/plan.h>
#include <neap/run.h>

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER NEAP_SOURCE_DIR "/tests/data/torch"
/*
 * Shares of a gradient's norm; a gradient that is 0 is held against the largest of the network. In
 * f32 a multiple of what rounding does to the network's gradients, as the file says, comes on top;
 * where that is more than can be told from an error, as in the deepest, the loss must do.
 */
#define TOLERANCE_F64    1e-8
#define TOLERANCE_F32    1e-5
#define ROUNDINGS        10
#define MOST_SENSITIVITY 0.01
#define LOSS_F32         1e-3

enum { MOST_SETTINGS = 16 };

typedef struct gradient {
    char *name; /* of the parameter */
    double norm, projection;
} gradient;

typedef struct values {
    char name[64]; /* of the file, without .txt */
    char network[64], kernels[16];
    char keys[MOST_SETTINGS][32];
    neap_model_setting settings[MOST_SETTINGS];
    uint32_t n_settings;
    double loss, sensitivity, largest_norm;
    gradient *gradients; /* in the order of the graph's outputs, after the loss */
    size_t n_gradients;
} values;

/* ---- Files ---- */

static void read_setting(values *v, const char *line)
{
    long long number;
    assert_true(v->n_settings < MOST_SETTINGS);
    assert_int_equal(sscanf(line, "set %31s %lld", v->keys[v->n_settings], &number), 2);
    v->settings[v->n_settings] = (neap_model_setting){v->keys[v->n_settings], number};
    v->n_settings++;
}

static void read_gradient(values *v, const char *line)
{
    char name[256];
    gradient g;
    assert_int_equal(sscanf(line, "gradient %255s %lf %lf", name, &g.norm, &g.projection), 3);
    g.name = malloc(strlen(name) + 1);
    v->gradients = realloc(v->gradients, (v->n_gradients + 1) * sizeof g);
    assert_non_null(g.name);
    assert_non_null(v->gradients);
    memcpy(g.name, name, strlen(name) + 1);
    v->gradients[v->n_gradients++] = g;
    v->largest_norm = fmax(v->largest_norm, g.norm);
}

static void read_values(values *v)
{
    char path[1024], line[512];
    snprintf(path, sizeof path, FOLDER "/%s.txt", v->name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "set ", 4) == 0)
            read_setting(v, line);
        else if (strncmp(line, "gradient ", 9) == 0)
            read_gradient(v, line);
        else if (sscanf(line, "loss %lf", &v->loss) != 1 &&
                 sscanf(line, "sensitivity %lf", &v->sensitivity) != 1 &&
                 sscanf(line, "network %63s", v->network) != 1 &&
                 sscanf(line, "kernels %15s", v->kernels) != 1)
            fail_msg("%s: %s", path, line);
    fclose(file);
}

static neap_graph *build(const values *v)
{
    neap_model_options options;
    neap_graph *graph;
    neap_diag diag = {0};
    const neap_model *model = neap_models_find(v->network);
    assert_non_null(model);
    neap_model_options_init(&options);
    options.kernels = strcmp(v->kernels, "torch") == 0 ? NEAP_KERNELS_TORCH : NEAP_KERNELS_LEAN;
    options.n_settings = v->n_settings;
    options.settings = v->settings;
    if (neap_model_build(NULL, model, &options, &graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    return graph;
}

/* ---- Comparing ---- */

static void check_loss(const values *v, const char *what, double loss, double tolerance)
{
    if (!(fabs(loss - v->loss) <= tolerance * v->loss))
        fail_msg("%s in %s: the loss is %.9g, PyTorch's is %.9g", v->name, what, loss, v->loss);
}

/* Element i of a gradient, as double or float. */
typedef struct numbers {
    const double *wide;
    const float *narrow;
} numbers;

static void check_gradient(const values *v, const char *what, const gradient *g, numbers found,
                           int64_t count, double tolerance)
{
    double squares = 0, projection = 0;
    for (int64_t i = 0; i < count; i++) {
        double number = found.wide ? found.wide[i] : (double)found.narrow[i];
        squares += number * number;
        projection += number * named_weight(g->name, i);
    }
    double room = tolerance * (g->norm + 1e-3 * v->largest_norm);
    if (!(fabs(sqrt(squares) - g->norm) <= room && fabs(projection - g->projection) <= room))
        fail_msg("%s in %s: the gradient of %s has norm %.9g and projection %.9g, PyTorch's %.9g "
                 "and %.9g",
                 v->name, what, g->name, sqrt(squares), projection, g->norm, g->projection);
}

/* ---- In double precision ---- */

static void check_in_f64(const values *v, const neap_graph *graph)
{
    ref_run run;
    uint32_t n_outputs;
    const uint32_t *outputs = neap_graph_outputs(graph, &n_outputs);
    ref_run_init(&run, graph, NAMED_STEP_SEED);
    for (uint32_t value = 0; value < neap_graph_value_count(graph); value++)
        if (neap_graph_value(graph, value)->producer == NEAP_NONE) {
            named_input input = named_input_of(graph, value);
            for (int64_t i = 0; i < run.values[value].n; i++)
                run.values[value].at[i] = named_input_at(&input, i);
        }
    ref_run_pass(&run, NEAP_FORWARD);
    ref_run_pass(&run, NEAP_BACKWARD);
    assert_int_equal(n_outputs, v->n_gradients + 1);
    check_loss(v, "f64", run.values[outputs[0]].at[0], TOLERANCE_F64);
    for (size_t i = 0; i < v->n_gradients; i++) {
        const ref_tensor *found = &run.values[outputs[i + 1]];
        check_gradient(v, "f64", &v->gradients[i], (numbers){.wide = found->at}, found->n,
                       TOLERANCE_F64);
    }
    ref_run_clear(&run);
}

/* ---- On a backend, as training runs ---- */

static int64_t elements_of(const neap_value *value)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < value->rank; d++)
        count *= value->shape[d];
    return count;
}

static void *new_elements(const neap_value *value)
{
    void *elements = calloc((size_t)elements_of(value), (size_t)neap_dtype_bytes(value->dtype));
    assert_non_null(elements);
    return elements;
}

static void write_inputs(const neap_graph *graph, neap_runner *runner)
{
    neap_diag diag = {0};
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        const neap_value *value = neap_graph_value(graph, v);
        if (value->producer != NEAP_NONE)
            continue;
        void *elements = new_elements(value);
        named_input_fill(graph, v, elements);
        if (neap_runner_write(runner, v, elements, &diag) != NEAP_OK)
            fail_msg("%s", diag.message);
        free(elements);
    }
}

static void check_outputs(const values *v, const char *what, const neap_graph *graph,
                          neap_runner *runner)
{
    uint32_t count;
    neap_diag diag = {0};
    const uint32_t *outputs = neap_graph_outputs(graph, &count);
    double tolerance = TOLERANCE_F32 + ROUNDINGS * v->sensitivity;
    assert_int_equal(count, v->n_gradients + 1);
    for (uint32_t i = 0; i < count; i++) {
        const neap_value *value = neap_graph_value(graph, outputs[i]);
        float *elements = new_elements(value);
        assert_int_equal(value->dtype, NEAP_F32);
        if (neap_runner_read(runner, outputs[i], elements, &diag) != NEAP_OK)
            fail_msg("%s", diag.message);
        if (i == 0)
            check_loss(v, what, (double)elements[0], LOSS_F32);
        else if (v->sensitivity < MOST_SENSITIVITY)
            check_gradient(v, what, &v->gradients[i - 1], (numbers){.narrow = elements},
                           elements_of(value), tolerance);
        free(elements);
    }
}

/* Every op once, nothing freed: with every value at a place of its own there is nothing to lay
   out. */
static neap_plan *keep_all(const neap_graph *graph)
{
    neap_plan *plan;
    neap_diag diag = {0};
    if (neap_plan_create(NULL, neap_graph_name(graph), "keep", -1, &plan, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    for (uint32_t op = 0; op < neap_graph_op_count(graph); op++)
        if (neap_plan_append(plan, (neap_step){.kind = NEAP_COMPUTE, .id = op}, &diag) != NEAP_OK)
            fail_msg("%s", diag.message);
    return plan;
}

static void run_plan(const values *v, const neap_graph *graph, neap_backend *backend)
{
    neap_runner *runner;
    neap_diag diag = {0};
    neap_plan *plan = keep_all(graph);
    if (neap_runner_create(NULL, graph, plan, backend, NULL, &runner, &diag) != NEAP_OK)
        fail_msg("%s: %s", v->name, diag.message);
    write_inputs(graph, runner);
    if (neap_runner_step(runner, NAMED_STEP_SEED, NULL, &diag) != NEAP_OK)
        fail_msg("%s: %s", v->name, diag.message);
    check_outputs(v, neap_backend_name(backend), graph, runner);
    neap_runner_destroy(runner);
    neap_plan_destroy(plan);
}

static void check_in_f32(const values *v, neap_graph *graph, const char *name)
{
    neap_backend *backend;
    neap_diag diag = {0};
    if (neap_backend_open(NULL, name, 0, &backend, &diag) != NEAP_OK ||
        neap_backend_fit(backend, graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    run_plan(v, graph, backend);
    neap_backend_close(backend);
}

/* ---- Tests ---- */

static values *cases;
static size_t n_cases;

static void test_values(void **state)
{
    values *v = *state;
    read_values(v);
    neap_graph *graph = build(v);
    check_in_f64(v, graph);
    for (uint32_t i = 0; i < neap_backends_count(); i++)
        if (backend_computes(neap_backends_name(i)) &&
            backend_is_for_case(neap_backends_name(i), (size_t)(v - cases)))
            check_in_f32(v, graph, neap_backends_name(i));
    neap_graph_destroy(graph);
}

static bool is_covered(const char *network)
{
    for (size_t i = 0; i < n_cases; i++)
        if (strcmp(cases[i].network, network) == 0)
            return true;
    return false;
}

/* All but `chain`, whose ops are none that can be computed. */
static void test_all_networks(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < neap_models_count(); i++) {
        const char *name = neap_model_name(neap_models_at(i));
        if (!is_covered(name) && strcmp(name, "chain") != 0)
            fail_msg("%s has no file in tests/data/torch; tools/torch_values.py makes one", name);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const values *)a)->name, ((const values *)b)->name);
}

static bool find_cases(void)
{
    DIR *folder = opendir(FOLDER);
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        size_t length = strlen(entry->d_name);
        if (length <= 4 || strcmp(entry->d_name + length - 4, ".txt") != 0)
            continue;
        values *more = realloc(cases, (n_cases + 1) * sizeof *cases);
        if (!more)
            break;
        cases = more;
        cases[n_cases] = (values){0};
        snprintf(cases[n_cases++].name, sizeof cases->name, "%.*s", (int)length - 4, entry->d_name);
    }
    if (folder)
        closedir(folder);
    if (cases)
        qsort(cases, n_cases, sizeof *cases, by_name);
    return cases != NULL;
}

static void clear_cases(void)
{
    for (size_t i = 0; i < n_cases; i++) {
        for (size_t k = 0; k < cases[i].n_gradients; k++)
            free(cases[i].gradients[k].name);
        free(cases[i].gradients);
    }
    free(cases);
}

/* The first argument selects tests by a pattern: "resnet*". */
int main(int argc, char **argv)
{
    bool found = find_cases();
    struct CMUnitTest *tests = calloc(n_cases + 1, sizeof *tests);
    int failed = 1;
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (found && tests) {
        for (size_t i = 0; i < n_cases; i++)
            tests[i] = (struct CMUnitTest){
                .name = cases[i].name, .test_func = test_values, .initial_state = &cases[i]};
        tests[n_cases] =
            (struct CMUnitTest){.name = "every network", .test_func = test_all_networks};
        failed = _cmocka_run_group_tests("torch_values", tests, n_cases + 1, NULL, NULL);
    }
    clear_cases();
    free(tests);
    return failed;
}
