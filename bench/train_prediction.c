/*
 * Compares the time of training with its plan's prediction, on a machine whose speed drifts:
 *
 *     train_prediction ROUNDS PLAN MODEL [NAME=VALUE ...]
 *
 * Each round measures all kernels again, judges the plan with these times, and trains one step, so
 * that prediction and measurement see the machine in the same state. Prints the medians over the
 * rounds: seconds predicted, seconds measured, and their ratio.
 */
#include <neap/neap.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ROUNDS   99
#define MOST_SETTINGS 16

static neap_diag diag;

static int fail(const char *what)
{
    fprintf(stderr, "train_prediction: %s: %s\n", what, diag.message);
    return 1;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *numbers, int count)
{
    qsort(numbers, (size_t)count, sizeof *numbers, compare_doubles);
    return numbers[count / 2];
}

static neap_status build(int count, char **words, neap_graph **graph)
{
    neap_model_setting settings[MOST_SETTINGS];
    neap_model_options options;
    neap_model_options_init(&options);
    const neap_model *model = neap_models_find(words[0]);
    for (int i = 1; i < count && i <= MOST_SETTINGS; i++) {
        char *equals = strchr(words[i], '=');
        if (!equals)
            break;
        *equals = '\0';
        settings[i - 1] = (neap_model_setting){words[i], strtoll(equals + 1, NULL, 10)};
        options.n_settings++;
    }
    options.settings = settings;
    return model ? neap_model_build(NULL, model, &options, graph, &diag) : NEAP_INVALID;
}

/* What the plan takes by times measured now. */
static neap_status predict(neap_graph *graph, const neap_plan *plan, neap_backend *backend,
                           double *seconds)
{
    neap_profile_options options;
    neap_check_options check;
    neap_verdict verdict;
    neap_profile_options_init(&options);
    options.repetitions = 1;
    neap_check_options_init(&check);
    check.budget = INT64_MAX;
    neap_status status = neap_profile(NULL, graph, backend, &options, NULL, &diag);
    if (status == NEAP_OK)
        status = neap_check(NULL, graph, plan, &check, &verdict, &diag);
    *seconds = verdict.time;
    return status;
}

static int compare(neap_graph *graph, const neap_plan *plan, neap_backend *backend, int rounds)
{
    double predicted[MOST_ROUNDS], measured[MOST_ROUNDS], ratios[MOST_ROUNDS];
    neap_train_report report;
    neap_trainer *trainer = NULL;
    if (neap_trainer_create(NULL, graph, plan, backend, NULL, &trainer, &diag) != NEAP_OK)
        return fail("training");
    neap_status status = neap_trainer_step(trainer, NULL, &diag); /* touches the memory */
    for (int i = 0; i < rounds && status == NEAP_OK; i++) {
        status = predict(graph, plan, backend, &predicted[i]);
        if (status == NEAP_OK)
            status = neap_trainer_step(trainer, &report, &diag);
        measured[i] = report.run.seconds;
        ratios[i] = measured[i] / predicted[i];
    }
    neap_trainer_destroy(trainer);
    if (status != NEAP_OK)
        return fail("a round");
    double ratio = median(ratios, rounds);
    printf("%.6f %.6f %.4f\n", median(predicted, rounds), median(measured, rounds), ratio);
    return 0;
}

int main(int argc, char **argv)
{
    neap_graph *graph = NULL;
    neap_backend *backend = NULL;
    neap_plan *plan = NULL;
    int rounds = argc > 3 ? atoi(argv[1]) : 0, code = 1;
    if (rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: train_prediction ROUNDS PLAN MODEL [NAME=VALUE ...]\n");
        return 2;
    }
    if (build(argc - 3, argv + 3, &graph) != NEAP_OK)
        code = fail(argv[3]);
    else if (neap_backend_open(NULL, neap_backends_default(), 0, &backend, &diag) != NEAP_OK ||
             neap_backend_fit(backend, graph, &diag) != NEAP_OK)
        code = fail("backend");
    else if (neap_plan_read_file(NULL, argv[2], &plan, &diag) != NEAP_OK)
        code = fail(argv[2]);
    else
        code = compare(graph, plan, backend, rounds);
    neap_plan_destroy(plan);
    neap_backend_close(backend);
    neap_graph_destroy(graph);
    return code;
}
