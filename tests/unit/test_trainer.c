/* neap/train.h: what a trainer rejects, and checkpoints as a program uses them. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "picture_files.h"
#include "run_command.h"
#include "small_networks.h"
#include "usable_backends.h"

#include <neap/safetensors.h>
#include <neap/solve.h>
#include <neap/train.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A network, its backend and the plan that computes every op once. */
typedef struct setting {
    neap_graph *graph;
    neap_backend *backend;
    neap_solution *solution;
    neap_train_options options;
    char *folder;
} setting;

static void open_graph_on(setting *s, const char *backend, neap_graph *graph)
{
    neap_diag diag;
    s->graph = graph;
    assert_int_equal(neap_backend_open(NULL, backend, 1, &s->backend, &diag), NEAP_OK);
    assert_int_equal(neap_backend_fit(s->backend, s->graph, &diag), NEAP_OK);
    neap_request request;
    neap_request_init(&request, s->graph, "store-all");
    request.alignment = NEAP_RUN_ALIGNMENT;
    assert_int_equal(neap_solve(NULL, &request, &s->solution, &diag), NEAP_OK);
    neap_train_options_init(&s->options);
    s->options.rate.peak = 0.01;
    s->folder = make_temporary_folder();
}

static void open_graph(setting *s, neap_graph *graph)
{
    open_graph_on(s, "ref", graph);
}

static void open_setting(setting *s, const char *network, neap_optimizer optimizer)
{
    open_graph(s, small_network_build(small_networks_find(network), optimizer));
}

static void close_setting(setting *s)
{
    neap_solution_destroy(s->solution);
    neap_backend_close(s->backend);
    neap_graph_destroy(s->graph);
    remove_folder_tree(s->folder);
}

static neap_trainer *create(const setting *s, uint64_t seed)
{
    neap_diag diag;
    neap_trainer *trainer;
    neap_train_options options = s->options;
    options.seed = seed;
    if (neap_trainer_create(NULL, s->graph, neap_solution_plan(s->solution), s->backend, &options,
                            &trainer, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    return trainer;
}

static double step(neap_trainer *trainer)
{
    neap_diag diag;
    neap_train_report report;
    int64_t before = neap_trainer_steps(trainer);
    if (neap_trainer_step(trainer, &report, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(report.step, before + 1);
    assert_int_equal(neap_trainer_steps(trainer), before + 1);
    return report.loss;
}

static void expect_equal(double a, double b)
{
    assert_memory_equal(&a, &b, sizeof a);
}

/* ---- Checkpoints ---- */

static void a_checkpoint_is_a_file_for_everyone(void **state)
{
    (void)state;
    setting s;
    neap_diag diag;
    neap_safetensors *file;
    open_setting(&s, "gpt2", NEAP_OPTIMIZER_ADAM);
    char *path = join_path(s.folder, "net.st");
    neap_trainer *trainer = create(&s, UINT64_MAX);
    step(trainer);
    assert_int_equal(neap_trainer_save(trainer, path, &diag), NEAP_OK);
    assert_int_equal(neap_safetensors_open(NULL, path, &file, &diag), NEAP_OK);
    assert_string_equal(neap_safetensors_metadata(file, "optimizer"), "adam");
    assert_string_equal(neap_safetensors_metadata(file, "step"), "1");
    assert_string_equal(neap_safetensors_metadata(file, "seed"), "18446744073709551615");
    assert_string_equal(neap_safetensors_metadata(file, "network"), neap_graph_name(s.graph));
    uint32_t parameters = 0;
    for (uint32_t v = 0; v < neap_graph_value_count(s.graph); v++) {
        const neap_value *value = neap_graph_value(s.graph, v);
        if (strcmp(value->kind, NEAP_KIND_PARAMETER) != 0)
            continue;
        static const char *const PREFIXES[] = {"", "optimizer.m.", "optimizer.v."};
        for (int i = 0; i < 3; i++) {
            char name[256];
            snprintf(name, sizeof name, "%s%s", PREFIXES[i], value->name);
            const neap_safetensors_entry *entry = neap_safetensors_find(file, name);
            assert_non_null(entry);
            assert_int_equal(entry->bytes, value->bytes);
            assert_int_equal(entry->rank, value->rank);
        }
        parameters++;
    }
    assert_int_equal(neap_safetensors_count(file), 3 * parameters);
    neap_safetensors_close(file);
    neap_trainer_destroy(trainer);
    free(path);
    close_setting(&s);
}

/* A trainer that could not resume is as it was; one that could is the one that saved. */
static void resuming_is_all_or_nothing(void **state)
{
    (void)state;
    setting s;
    neap_diag diag;
    open_setting(&s, "gpt2", NEAP_OPTIMIZER_MOMENTUM);
    char *good = join_path(s.folder, "good.st"), *bad = join_path(s.folder, "bad.st");
    neap_trainer *first = create(&s, 5), *second = create(&s, 6), *third = create(&s, 6);
    step(first);
    step(first);
    assert_int_equal(neap_trainer_save(first, good, &diag), NEAP_OK);
    size_t size;
    unsigned char *bytes = read_file_bytes(good, &size);
    static const char *const SPOILED[] = {
        "\"step\":", "\"seed\":", "\"optimizer\":", "\"optimizer.momentum."};
    for (size_t i = 0; i < sizeof SPOILED / sizeof SPOILED[0]; i++) {
        size_t at = 8;
        while (memcmp(bytes + at, SPOILED[i], strlen(SPOILED[i])) != 0)
            at++;
        bytes[at + 1] = 'X';
        write_file_bytes(bad, bytes, size);
        bytes[at + 1] = (unsigned char)SPOILED[i][1];
        assert_int_equal(neap_trainer_resume(second, bad, &diag), NEAP_INVALID);
        assert_non_null(strstr(diag.message, "bad.st"));
    }
    write_file_bytes(bad, bytes, size - 1);
    assert_int_equal(neap_trainer_resume(second, bad, &diag), NEAP_INVALID);
    assert_int_equal(neap_trainer_resume(second, s.folder, &diag), NEAP_IO);
    assert_int_equal(neap_trainer_steps(second), 0);
    assert_int_equal(neap_trainer_seed(second), 6);
    expect_equal(step(second), step(third));
    expect_equal(step(second), step(third));

    assert_int_equal(neap_trainer_resume(second, good, &diag), NEAP_OK);
    assert_int_equal(neap_trainer_steps(second), 2);
    assert_int_equal(neap_trainer_seed(second), 5);
    for (int i = 0; i < 3; i++)
        expect_equal(step(second), step(first));
    free(bytes);
    free(good);
    free(bad);
    neap_trainer_destroy(first);
    neap_trainer_destroy(second);
    neap_trainer_destroy(third);
    close_setting(&s);
}

/* ---- Micro-batches ---- */

static neap_graph *build_in_parts(int64_t batch, int64_t accumulate, double clip_norm)
{
    const neap_model_setting sizes[] = {
        {"batch", batch}, {"image", 32}, {"width", 4}, {"classes", 5}, {"norm_groups", 1}};
    neap_model_options options;
    neap_graph *graph;
    neap_diag diag;
    neap_model_options_init(&options);
    options.settings = sizes;
    options.n_settings = 5;
    options.training.optimizer = NEAP_OPTIMIZER_ADAM;
    options.training.accumulate = accumulate;
    options.training.clip_norm = clip_norm;
    if (neap_model_build(NULL, neap_models_find("resnet18"), &options, &graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    return graph;
}

/* The same samples in one batch and in micro-batches, of a network that normalises each by itself.
   Sums begin at zero again in every step. */
static void micro_batches_make_a_step(void **state)
{
    (void)state;
    double losses[2][3];
    for (int parts = 1; parts <= 2; parts++) {
        setting s;
        open_graph(&s, build_in_parts(8 / parts, parts, 0.5));
        neap_trainer *trainer = create(&s, 3);
        for (int i = 0; i < 3; i++)
            losses[parts - 1][i] = step(trainer);
        if (parts == 2) {
            neap_diag diag;
            neap_safetensors *file;
            char *path = join_path(s.folder, "net.st");
            assert_int_equal(neap_trainer_save(trainer, path, &diag), NEAP_OK);
            assert_int_equal(neap_safetensors_open(NULL, path, &file, &diag), NEAP_OK);
            assert_string_equal(neap_safetensors_metadata(file, "accumulate"), "2");
            assert_string_equal(neap_safetensors_metadata(file, "clip_norm"), "0.5");
            neap_safetensors_close(file);
            free(path);
        }
        neap_trainer_destroy(trainer);
        close_setting(&s);
    }
    for (int i = 0; i < 3; i++)
        if (fabs(losses[0][i] - losses[1][i]) > 1e-3 * losses[0][i])
            fail_msg("step %d: loss %g in one batch, %g in two", i + 1, losses[0][i], losses[1][i]);
}

/* ---- Running statistics ---- */

enum { CHANNELS = 3, PIXELS = 6 * 6, SAMPLES = 4 };

/* Batch normalisation of the images themselves: its statistics depend on the data alone. */
static neap_graph *build_normed(int64_t accumulate)
{
    neap_network *net;
    neap_graph *graph = NULL;
    neap_training training;
    neap_diag diag;
    neap_training_init(&training);
    training.optimizer = NEAP_OPTIMIZER_MOMENTUM;
    training.accumulate = accumulate;
    assert_int_equal(neap_network_create(NULL, "normed", NEAP_F32, &net, &diag), NEAP_OK);
    neap_tensor x = neap_net_input(net, "x", NEAP_F32, 4, (int64_t[]){SAMPLES, CHANNELS, 6, 6});
    neap_tensor labels = neap_net_input(net, "labels", NEAP_I64, 1, (int64_t[]){SAMPLES});
    x = neap_net_batch_norm(net, "bn", x, 1e-3);
    neap_net_keep_statistics(net, x, "bn.running_mean", "bn.running_var", 0.75);
    x = neap_net_linear(net, "fc", neap_net_flatten(net, "flat", x, 1), 4, true);
    if (neap_network_finish(net, neap_net_cross_entropy(net, "loss", x, labels), &training, &graph,
                            &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_network_destroy(net);
    return graph;
}

typedef struct statistics {
    float mean[CHANNELS], variance[CHANNELS];
} statistics;

static statistics read_statistics(neap_trainer *trainer)
{
    statistics s;
    neap_diag diag;
    assert_int_equal(neap_trainer_read(trainer, "bn.running_mean", s.mean, CHANNELS, &diag),
                     NEAP_OK);
    assert_int_equal(neap_trainer_read(trainer, "bn.running_var", s.variance, CHANNELS, &diag),
                     NEAP_OK);
    return s;
}

/* By the definition, in two passes over the images of the step that ran last. */
static void advance_plainly(neap_trainer *trainer, double *mean, double *variance)
{
    enum { COUNT = SAMPLES * PIXELS };
    float images[SAMPLES][CHANNELS][PIXELS];
    neap_diag diag;
    assert_int_equal(neap_runner_read(neap_trainer_runner(trainer), 0, images, &diag), NEAP_OK);
    for (int c = 0; c < CHANNELS; c++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < COUNT; i++)
            sum += (double)images[i / PIXELS][c][i % PIXELS];
        for (int i = 0; i < COUNT; i++)
            squares += pow((double)images[i / PIXELS][c][i % PIXELS] - sum / COUNT, 2);
        mean[c] = 0.75 * mean[c] + 0.25 * (sum / COUNT);
        variance[c] = 0.75 * variance[c] + 0.25 * (squares / COUNT);
    }
}

static void statistics_advance_with_every_batch(void **state)
{
    (void)state;
    double mean[CHANNELS] = {0}, variance[CHANNELS] = {1, 1, 1};
    setting s, parts;
    open_graph(&s, build_normed(1));
    neap_trainer *trainer = create(&s, 7);
    for (int i = 0; i < 6; i++) {
        statistics is = read_statistics(trainer);
        for (int c = 0; c < CHANNELS; c++)
            if (fabs((double)is.mean[c] - mean[c]) > 1e-6 ||
                fabs((double)is.variance[c] - variance[c]) > 1e-6)
                fail_msg("step %d, channel %d: mean %.9g, not %.9g; variance %.9g, not %.9g", i, c,
                         (double)is.mean[c], mean[c], (double)is.variance[c], variance[c]);
        step(trainer);
        advance_plainly(trainer, mean, variance);
    }
    open_graph(&parts, build_normed(3)); /* two steps of three micro-batches */
    neap_trainer *slow = create(&parts, 7);
    step(slow);
    step(slow);
    statistics one = read_statistics(trainer), other = read_statistics(slow);
    assert_memory_equal(&one, &other, sizeof one);
    neap_trainer_destroy(slow);
    neap_trainer_destroy(trainer);
    close_setting(&parts);
    close_setting(&s);
}

/* On any backend, in statistics as elsewhere: a clamp of variances below 0 would turn it into 0. */
static void what_is_not_a_number_stays(void **state)
{
    (void)state;
    static const float WRONG[] = {NAN, INFINITY};
    for (uint32_t b = 0; b < neap_backends_count(); b++)
        for (int i = 0; i < 2 && backend_computes(neap_backends_name(b)); i++) {
            const char *backend = neap_backends_name(b);
            float images[SAMPLES][CHANNELS][PIXELS];
            setting s;
            neap_diag diag;
            open_graph_on(&s, backend, build_normed(1));
            neap_trainer *trainer = create(&s, 7);
            neap_runner *runner = neap_trainer_runner(trainer);
            step(trainer);
            assert_int_equal(neap_runner_read(runner, 0, images, &diag), NEAP_OK);
            images[2][1][5] = WRONG[i];
            assert_int_equal(neap_runner_write(runner, 0, images, &diag), NEAP_OK);
            assert_int_equal(neap_runner_step(runner, 1, NULL, &diag), NEAP_OK);
            statistics is = read_statistics(trainer);
            for (int c = 0; c < CHANNELS; c++)
                if (isnan(is.variance[c]) != (c == 1) || isfinite(is.mean[c]) != (c != 1))
                    fail_msg("%s, %g: channel %d has mean %g and variance %g", backend,
                             (double)WRONG[i], c, (double)is.mean[c], (double)is.variance[c]);
            neap_trainer_destroy(trainer);
            close_setting(&s);
        }
}

static void statistics_are_in_checkpoints(void **state)
{
    (void)state;
    setting s;
    neap_diag diag;
    neap_safetensors *file;
    open_graph(&s, build_normed(1));
    char *path = join_path(s.folder, "normed.st");
    neap_trainer *whole = create(&s, 7), *rest = create(&s, 7);
    step(whole);
    step(whole);
    assert_int_equal(neap_trainer_save(whole, path, &diag), NEAP_OK);
    statistics saved = read_statistics(whole);
    assert_int_equal(neap_safetensors_open(NULL, path, &file, &diag), NEAP_OK);
    const neap_safetensors_entry *entry = neap_safetensors_find(file, "bn.running_var");
    float variance[CHANNELS];
    assert_non_null(entry);
    assert_int_equal(neap_safetensors_read(file, entry, variance, sizeof variance, &diag), NEAP_OK);
    assert_memory_equal(variance, saved.variance, sizeof variance);
    neap_safetensors_close(file);
    if (neap_trainer_resume(rest, path, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    expect_equal(step(whole), step(rest));
    statistics one = read_statistics(whole), other = read_statistics(rest);
    assert_memory_equal(&one, &other, sizeof one);
    assert_true(memcmp(&one, &saved, sizeof one) != 0);
    neap_trainer_destroy(rest);
    neap_trainer_destroy(whole);
    free(path);
    close_setting(&s);
}

/* ---- What is refused ---- */

static void expect_no_trainer(const setting *s, neap_status status, const char *said)
{
    neap_diag diag = {.message = ""};
    neap_trainer *trainer = NULL;
    assert_int_equal(neap_trainer_create(NULL, s->graph, neap_solution_plan(s->solution),
                                         s->backend, &s->options, &trainer, &diag),
                     status);
    assert_null(trainer);
    if (!strstr(diag.message, said))
        fail_msg("not a word of \"%s\": %s", said, diag.message);
}

static void options_that_cannot_be(void **state)
{
    (void)state;
    setting s;
    open_setting(&s, "gpt2", NEAP_OPTIMIZER_MOMENTUM);
    const neap_train_options good = s.options;
    s.options.rate.peak = -1;
    expect_no_trainer(&s, NEAP_INVALID, "");
    s.options = good;
    s.options.data = "cifar10:/nowhere";
    expect_no_trainer(&s, NEAP_UNSUPPORTED, "reads tokens");
    close_setting(&s);
    open_setting(&s, "gpt2", NEAP_OPTIMIZER_NONE);
    expect_no_trainer(&s, NEAP_UNSUPPORTED, "build it with an optimizer");
    close_setting(&s);
}

/* ---- Verifying ---- */

typedef struct impatient {
    neap_progress base;
    int patience; /* how often it is asked before it says stop */
} impatient;

static bool has_enough(neap_progress *base)
{
    return ((impatient *)base)->patience-- <= 0;
}

static void verifying_can_be_stopped(void **state)
{
    (void)state;
    setting s;
    neap_diag diag;
    neap_verify_report report;
    open_setting(&s, "gpt2", NEAP_OPTIMIZER_MOMENTUM);
    const neap_plan *plan = neap_solution_plan(s.solution);
    assert_int_equal(
        neap_train_verify(NULL, s.graph, plan, s.backend, &s.options, 0, NULL, &report, &diag),
        NEAP_INVALID);
    assert_int_equal(neap_train_verify(NULL, s.graph, plan, s.backend, &s.options, INT64_MAX, NULL,
                                       &report, &diag),
                     NEAP_NO_MEMORY);
    for (int patience = 0; patience < 6; patience++) {
        impatient progress = {.base = {.cancelled = has_enough}, .patience = patience};
        assert_int_equal(neap_train_verify(NULL, s.graph, plan, s.backend, &s.options, 2,
                                           &progress.base, &report, &diag),
                         NEAP_OK);
        assert_true(report.equal);
        assert_int_equal(report.interrupted, patience < 4);
        assert_int_equal(report.steps, patience < 2 ? 0 : patience < 4 ? patience - 2 : 2);
    }
    close_setting(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_is_a_file_for_everyone),
        cmocka_unit_test(resuming_is_all_or_nothing),
        cmocka_unit_test(micro_batches_make_a_step),
        cmocka_unit_test(statistics_advance_with_every_batch),
        cmocka_unit_test(what_is_not_a_number_stays),
        cmocka_unit_test(statistics_are_in_checkpoints),
        cmocka_unit_test(options_that_cannot_be),
        cmocka_unit_test(verifying_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
