/* ONNX files as a user gives them to the command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "onnx_bytes.h"
#include "run_command.h"

#include <neap/onnx.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct folder {
    char *path;
    run_options options;
} folder;

static int make_files(void **state)
{
    folder *f = calloc(1, sizeof *f);
    neap_text graph = {0}, model = {0};
    f->path = make_temporary_folder();
    f->options.folder = f->path;
    onnx_large_graph(&graph);
    onnx_make_model(&model, &graph, 0);
    free(onnx_write(&model, f->path, "large.onnx"));
    onnx_small_graph(&graph);
    onnx_make_model(&model, &graph, 0);
    free(onnx_write(&model, f->path, "small.onnx"));
    onnx_normed_graph(&graph);
    onnx_make_model(&model, &graph, 0);
    free(onnx_write(&model, f->path, "normed.onnx"));
    *state = f;
    return 0;
}

static int remove_files(void **state)
{
    folder *f = *state;
    remove_temporary_folder(f->path);
    free(f);
    return 0;
}

/* Runs neap in the folder; the result must have these words on stdout, or on stderr if it fails. */
static void expect(const folder *f, const char *line, int code, const char *words)
{
    run_result result;
    run_line(NEAP_CLI, line, &f->options, &result);
    const char *text = code == 0 ? result.out : result.err;
    if (result.code != code || !strstr(text, words))
        fail_msg("neap %s: exit %d, not %d, \"%s\" in:\n%s%s", line, result.code, code, words,
                 result.out, result.err);
    run_result_clear(&result);
}

static void commands_take_onnx_files(void **state)
{
    const folder *f = *state;
    expect(f, "graph large.onnx --batch 4", 0, "most at the peak");
    expect(f, "graph ./large.onnx --batch 4 --json", 0, "\"parameters\": 312");
    expect(f, "plan large.onnx --batch 4 --budget 100%", 0, "large_b4");
    expect(f, "max-batch small.onnx --budget 10kB --method store-all", 0, "small");
}

static void training_changes_the_file(void **state)
{
    const folder *f = *state;
    char *before = join_path(f->path, "large.onnx"), *after = join_path(f->path, "trained.onnx");
    struct stat old, new;
    expect(f,
           "train large.onnx --batch 4 --budget 90% --steps 3 --backend ref --profile-cache none "
           "--save trained.onnx",
           0, "written to trained.onnx");
    assert_int_equal(stat(before, &old), 0);
    assert_int_equal(stat(after, &new), 0);
    assert_int_equal(old.st_size, new.st_size);
    expect(f, "train trained.onnx --batch 4 --steps 2 --backend ref --profile-cache none --verify",
           0, "equal to the bit");
    free(before);
    free(after);
}

/* The variances of a file with normed.onnx's initializers. */
static void read_variances(const folder *f, const char *name, float numbers[3])
{
    char *path = join_path(f->path, name);
    neap_onnx *file;
    neap_onnx_options options;
    neap_graph *graph;
    neap_onnx_binding *binding;
    neap_diag diag;
    bool found;
    neap_onnx_options_init(&options);
    options.training.optimizer = NEAP_OPTIMIZER_SGD;
    assert_int_equal(neap_onnx_open(NULL, path, &file, &diag), NEAP_OK);
    assert_int_equal(neap_onnx_build(file, &options, &graph, &binding, &diag), NEAP_OK);
    assert_int_equal(neap_onnx_fill(binding, "variance2", NEAP_F32, numbers, 3, &found, &diag),
                     NEAP_OK);
    assert_true(found);
    neap_graph_destroy(graph);
    neap_onnx_binding_destroy(binding);
    neap_onnx_close(file);
    free(path);
}

/* By any plan, with micro-batches, and across a checkpoint; of two layers that share them, too. */
static void running_statistics_advance(void **state)
{
#define TRAIN "train normed.onnx --batch 4 --optimizer sgd --backend ref --profile-cache none "
    const folder *f = *state;
    float before[3], whole[3], resumed[3], frozen[3];
    expect(f, TRAIN "--steps 3 --accumulate 2 --budget 97% --verify", 0, "equal to the bit");
    expect(f, TRAIN "--steps 4 --accumulate 2 --save whole.onnx", 0, "written to whole.onnx");
    expect(f, TRAIN "--steps 2 --accumulate 2 --save part.st", 0, "part.st");
    expect(f, TRAIN "--steps 4 --accumulate 2 --resume part.st --save resumed.onnx", 0,
           "written to resumed.onnx");
    expect(f, TRAIN "--steps 1 --batch-norm frozen --save frozen.onnx", 0, "frozen.onnx");
    read_variances(f, "normed.onnx", before);
    read_variances(f, "whole.onnx", whole);
    read_variances(f, "resumed.onnx", resumed);
    read_variances(f, "frozen.onnx", frozen);
    assert_memory_equal(whole, resumed, sizeof whole);
    assert_memory_equal(before, frozen, sizeof before);
    for (int c = 0; c < 3; c++)
        assert_true(before[c] != whole[c]);
    run_result result;
    run_line(NEAP_CLI, TRAIN "--steps 1", &f->options, &result);
    assert_non_null(strstr(result.err, "3 batch normalizations use the statistics of the batch and "
                                       "advance those of the file"));
    run_result_clear(&result);
#undef TRAIN
}

static void mistakes_have_one_line(void **state)
{
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"graph nothing.onnx", "nothing.onnx"},
        {"graph large.onnx --image 32", "--image is for built-in models"},
        {"graph large.onnx --set sequence=7", "sequence"},
        {"graph large.onnx --loss none", "another loss"},
        {"graph large.onnx --loss-output z", "no output is named \"z\""},
        {"graph resnet18 --loss mse", "--loss is for ONNX files"},
        {"train resnet18 --save a.onnx", "the ONNX file that they came from"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_result result;
        expect(*state, cases[i].line, 2, cases[i].words);
        run_line(NEAP_CLI, cases[i].line, &((const folder *)*state)->options, &result);
        const char *end = strchr(result.err, '\n');
        assert_true(end && end[1] == '\0');
        assert_string_equal(result.out, "");
        run_result_clear(&result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_take_onnx_files),
        cmocka_unit_test(training_changes_the_file),
        cmocka_unit_test(running_statistics_advance),
        cmocka_unit_test(mistakes_have_one_line),
    };
    if (!neap_onnx_available())
        return 0;
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
