/* neap train: what it trains, what it prints, and what it rejects. */

#include "golden.h"
#include "json_fields.h"
#include "picture_files.h"
#include "run_command.h"
#include "trace_check.h"
#include "training_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <neap/text.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA NEAP_SOURCE_DIR "/tests/cli/data"

static run_options here; /* in the folder that all tests share */

static int make_folder(void **state)
{
    *state = make_temporary_folder();
    here.folder = *state;
    return 0;
}

static int remove_folder(void **state)
{
    remove_folder_tree(*state);
    return 0;
}

/* Runs neap; any exit status but this fails the test. */
static void run(const char *line, int code, run_result *result)
{
    run_line(NEAP_CLI, line, &here, result);
    if (result->code != code)
        fail_msg("neap %s: exit %d\n%s%s", line, result->code, result->out, result->err);
}

static void expect_field(const char *json, const char *name, const char *expected)
{
    char *value = json_field(json, name);
    assert_string_equal(value, expected);
    free(value);
}

/* The last loss, to all its digits, of a training with --json. */
static char *last_loss(const char *line)
{
    run_result result;
    run(line, 0, &result);
    assert_string_equal(result.err, "");
    char *loss = json_field(result.out, "last_loss");
    run_result_clear(&result);
    return loss;
}

static void expect_losses(const char *a, const char *b, bool equal)
{
    char *one = last_loss(a), *other = last_loss(b);
    if ((strcmp(one, other) == 0) != equal)
        fail_msg("%s: loss %s\n%s: loss %s", a, one, b, other);
    free(one);
    free(other);
}

/* ---- Training ---- */

static void without_a_budget(void **state)
{
    (void)state;
    run_result result;
    run("train " SMALL_GPT2 "--steps 3 --json", 0, &result);
    expect_field(result.out, "backend", "\"ref\"");
    expect_field(result.out, "method", "\"store-all\"");
    expect_field(result.out, "budget_bytes", "null");
    expect_field(result.out, "batch", "8");
    expect_field(result.out, "first_step", "1");
    expect_field(result.out, "steps", "3");
    expect_field(result.out, "host_bytes", "0");
    expect_field(result.out, "saved", "null");
    double peak = json_number(result.out, "peak_bytes");
    assert_true(peak > 0 && peak <= json_number(result.out, "arena_bytes"));
    assert_true(json_number(result.out, "predicted_time") > 0);
    assert_true(json_number(result.out, "step_time") > 0);
    assert_true(fabs(json_number(result.out, "first_loss") - log(50)) < 0.5); /* knows nothing */
    assert_true(json_number(result.out, "last_loss") < json_number(result.out, "first_loss"));
    run_result_clear(&result);
}

static void what_a_person_sees(void **state)
{
    (void)state;
    static const char *const PARTS[] = {
        "gpt2_b8\n",        "backend  ref",   "method   store-all", "\nstep 1/3  loss 3.",
        "\nstep 2/3  loss", "\nstep 3/3  l",  " samples/s",         "\n3 steps, loss 3.",
        "  arena ",         "% of that with", "live at most",
    };
    run_result result;
    run("train " SMALL_GPT2 "--steps 3", 0, &result);
    for (size_t i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++)
        if (!strstr(result.out, PARTS[i]))
            fail_msg("\"%s\" is missing: %s", PARTS[i], result.out);
    run_result_clear(&result);
    run("train " SMALL_LSTM "--steps 100", 0, &result); /* not a line for each */
    assert_non_null(strstr(result.out, "\nstep 1/100 "));
    assert_null(strstr(result.out, "\nstep 2/100 "));
    assert_non_null(strstr(result.out, "\nstep 5/100 "));
    assert_non_null(strstr(result.out, "\nstep 100/100 "));
    run_result_clear(&result);
}

static void lines_fit_a_terminal(void **state)
{
    (void)state;
    run_result result;
    run("train " SMALL_GPT2_TIGHT "--steps 20 --time-limit 1 --save lines.st", 0, &result);
    for (const char *line = result.out, *end; (end = strchr(line, '\n')); line = end + 1)
        if (neap_string_characters(line, (size_t)(end - line)) > 80)
            fail_msg("more than 80 columns: %.*s", (int)(end - line), line);
    assert_non_null(strstr(result.out, "  predicted from measured kernels\n"));
    assert_non_null(strstr(result.out, " one run of every op\n"));
    assert_non_null(strstr(result.out, " predicted\n"));
    run_result_clear(&result);
}

static void a_budget_holds_and_changes_nothing(void **state)
{
    (void)state;
    run_result result;
    run("train " SMALL_GPT2_TIGHT "--steps 3 --json", 0, &result);
    double budget = json_number(result.out, "budget_bytes");
    double arena = json_number(result.out, "arena_bytes");
    assert_true(arena <= budget && budget < json_number(result.out, "natural_peak_bytes"));
    assert_true(json_number(result.out, "predicted_time") > json_number(result.out, "base_time"));
    run_result_clear(&result);
    expect_losses("train " SMALL_GPT2 "--steps 3 --json",
                  "train " SMALL_GPT2_TIGHT "--steps 3 --json", true);
}

static void every_optimizer_verifies(void **state)
{
    (void)state;
    static const char *const OPTIMIZERS[] = {"sgd", "momentum", "adam", "adamw",
                                             "adamw --clip-norm 0.1 --accumulate 2"};
    for (size_t i = 0; i < sizeof OPTIMIZERS / sizeof OPTIMIZERS[0]; i++) {
        char line[512];
        run_result result;
        snprintf(line, sizeof line, "train %s--optimizer %s --poison --steps 2 --verify",
                 SMALL_GPT2_TIGHT, OPTIMIZERS[i]);
        run(line, 0, &result);
        assert_non_null(strstr(result.out, "equal to the bit: 2 steps"));
        run_result_clear(&result);
    }
    static const char *const LINES[] = {
        "train " SMALL_RESNET "--budget 99% --method greedy --steps 1 --verify --json",
        "train " SMALL_GPT2 "--method offload --budget 75% --link 1GB/s --steps 2 --verify --json",
        "train " SMALL_GPT2 "--method offload --budget 90% --link 1GB/s --split 4KiB --steps 2 "
        "--poison --verify --json",
    };
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++) {
        run_result result;
        run(LINES[i], 0, &result);
        expect_field(result.out, "equal", "true");
        assert_true(json_number(result.out, "compared") > 0);
        assert_true(json_number(result.out, "plan_arena_bytes") <
                    json_number(result.out, "plain_arena_bytes"));
        run_result_clear(&result);
    }
}

/* Options that change what is computed change the loss, the others do not. */
static void what_the_losses_depend_on(void **state)
{
    (void)state;
    static const char BASE[] = "train " SMALL_VGG "--steps 4 --json";
    static const struct {
        const char *more;
        bool equal;
    } CASES[] = {
        {"", true},
        {" --seed 0", true},
        {" --seed 1", false},
        {" --seed 18446744073709551615", false},
        {" --budget 100% --method greedy", true},
        {" --threads 1", true},
        {" --optimizer sgd", true},
        {" --optimizer momentum", false},
        {" --optimizer adam", false},
        {" --clip-norm 1e9", true},
        {" --clip-norm 0.1", false},
        {" --accumulate 1", true},
        {" --accumulate 2", false},
        {" --rate 0.01", true},
        {" --rate 0.02", false},
        {" --weight-decay 0.1", false},
        {" --warmup 3", false},
        {" --cosine", false},
        {" --data synthetic", true},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char line[512];
        snprintf(line, sizeof line, "%s%s", BASE, CASES[i].more);
        expect_losses(BASE, line, CASES[i].equal);
    }
}

static void a_training_that_explodes_is_still_json(void **state)
{
    (void)state;
    run_result result;
    run("train " SMALL_GPT2 "--rate 1e30 --steps 3 --json", 0, &result);
    expect_field(result.out, "last_loss", "null");
    run_result_clear(&result);
}

/* A line for each step of the plan, and what is measured is near the plan. */
static void memory_is_recorded(void **state)
{
    run_result result;
    run("train " SMALL_GPT2_TIGHT "--steps 2 --save-memory memory.csv --save-plan m.json", 0,
        &result);
    run_result_clear(&result);
    char *path = join_path(*state, "memory.csv"), *text = read_text_file(path);
    static const char HEAD[] = "step,kind,id,name,planned_during,planned_after,resident_during,"
                               "resident_after\n0,compute,0,\"";
    assert_non_null(text);
    assert_memory_equal(text, HEAD, sizeof HEAD - 1);
    const char *last = text;
    size_t steps = 0;
    for (const char *at = strchr(text, '\n'); at[1]; at = strchr(at + 1, '\n'), steps++)
        last = at + 1;
    char kind[16];
    unsigned id;
    size_t step;
    double planned[2], resident[2];
    assert_int_equal(sscanf(last, "%zu,%15[a-z],%u,\"%*[^\"]\",%lf,%lf,%lf,%lf", &step, kind, &id,
                            &planned[0], &planned[1], &resident[0], &resident[1]),
                     7);
    assert_int_equal(step, steps - 1);
    assert_true(planned[1] > 0 && resident[1] > 0.5 * planned[1]);
    free(text);
    free(path);
}

/* ---- The line, the chart, the log, the trace ---- */

/* The last line that training wrote over, without what erases the rest. */
static char *live_line(const char *out, const char *step)
{
    const char *at = out, *last = NULL;
    while ((at = strchr(at, '\r')))
        if (strncmp(++at, step, strlen(step)) == 0)
            last = at;
    if (!last)
        fail_msg("no line \"%s\": %s", step, out);
    size_t length = strcspn(last, "\033\r\n");
    char *line = malloc(length + 1);
    assert_non_null(line);
    memcpy(line, last, length);
    line[length] = '\0';
    return line;
}

/* On a narrow terminal, what is least wanted is left out; nothing is cut in the middle. */
static void the_line_fits_the_terminal(void **state)
{
    (void)state;
    static const struct {
        int columns;
        const char *step, *has, *lacks;
    } CASES[] = {{200, "step 3/3  loss ", " samples/s", NULL},
                 {80, "step 3/3  loss ", "s, ", NULL},
                 {30, "step 3/3  loss ", "loss 2.", "predicted"},
                 {24, "step 3/3  loss ", "loss 2.", " samples"},
                 {16, "3/3 2.", "3/3 2.", "step"},
                 {6, "3/3 2", "3/3 2", "."}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        run_options options = {
            .folder = here.folder, .terminal = true, .errors = true, .columns = CASES[i].columns};
        run_result result;
        run_line(NEAP_CLI, "train " SMALL_LSTM "--steps 3", &options, &result);
        assert_int_equal(result.code, 0);
        char *line = live_line(result.out, CASES[i].step);
        if (strlen(line) >= (size_t)CASES[i].columns || !strstr(line, CASES[i].has) ||
            (CASES[i].lacks && strstr(line, CASES[i].lacks)))
            fail_msg("%d columns: \"%s\"", CASES[i].columns, line);
        free(line);
        run_result_clear(&result);
    }
}

static void losses_are_drawn(void **state)
{
    (void)state;
    run_result result;
    run("train " SMALL_LSTM "--steps 40", 0, &result);
    const char *chart = strstr(result.out, "\nloss\n");
    assert_non_null(chart);
    assert_non_null(strstr(chart, "\xe2\x94\xa4")); /* a tick of the axis */
    assert_non_null(strstr(chart, "step"));
    assert_non_null(strstr(chart, " 40\n40 steps, loss "));
    run_result_clear(&result);
    run("train " SMALL_LSTM "--steps 4", 0, &result); /* the lines show as much */
    assert_null(strstr(result.out, "\nloss\n"));
    run_result_clear(&result);
    run("train " SMALL_GPT2 "--rate 1e30 --steps 6", 0, &result);
    assert_non_null(strstr(result.out, "x not a finite number\n"));
    assert_non_null(strstr(result.out, " to nan, "));
    run_result_clear(&result);
}

/* The fields of a line of JSON, with their values left out: "step, loss, ..." */
static char *fields_of(const char *line)
{
    char *names = calloc(strlen(line) + 1, 1);
    assert_non_null(names);
    for (const char *at = line; (at = strchr(at, '"')); at++) {
        const char *end = strchr(at + 1, '"');
        assert_non_null(end);
        if (end[1] == ':')
            strncat(names, at, (size_t)(end - at) + 1);
        at = end;
    }
    return names;
}

/* Every line is an object on its own, with the same fields and the next step. */
static void expect_log(const char *text, int64_t first, int64_t count)
{
    char *fields = NULL;
    for (int64_t i = 0; i < count; i++) {
        const char *end = strchr(text, '\n');
        if (!end)
            fail_msg("%d lines of %d", (int)i, (int)count);
        char *line = malloc((size_t)(end - text) + 1);
        assert_non_null(line);
        memcpy(line, text, (size_t)(end - text));
        line[end - text] = '\0';
        assert_true(line[0] == '{' && line[strlen(line) - 1] == '}');
        long long step;
        assert_int_equal(sscanf(line, "{\"step\": %lld, ", &step), 1);
        assert_int_equal(step, first + i);
        char *names = fields_of(line);
        if (fields)
            assert_string_equal(names, fields);
        free(fields);
        fields = names;
        free(line);
        text = end + 1;
    }
    assert_string_equal(text, "");
    static const char *const WANTED[] = {
        "loss", "learning_rate",     "seconds",     "samples_per_second",
        "time", "predicted_seconds", "arena_bytes", "peak_bytes"};
    for (size_t i = 0; i < sizeof WANTED / sizeof WANTED[0]; i++)
        assert_non_null(strstr(fields, WANTED[i]));
    free(fields);
}

static void steps_are_logged(void **state)
{
    run_result result;
    char *path = join_path(*state, "steps.jsonl");
    write_text_file(path, "what was there before");
    run("train " SMALL_LSTM "--steps 3 --log steps.jsonl --save log.st", 0, &result);
    run_result_clear(&result);
    char *text = read_text_file(path);
    expect_log(text, 1, 3);
    free(text);

    FILE *file = fopen(path, "a"); /* a crash in the middle of a line */
    assert_non_null(file);
    fputs("{\"step\": 4, \"loss\": 2.5, \"learni", file);
    fclose(file);
    run("train " SMALL_LSTM "--steps 5 --log steps.jsonl --resume log.st", 0, &result);
    run_result_clear(&result);
    text = read_text_file(path);
    expect_log(text, 1, 5);
    free(text);

    run("train " SMALL_GPT2 "--rate 1e30 --steps 6 --log nan.jsonl", 0, &result);
    run_result_clear(&result);
    char *other = join_path(*state, "nan.jsonl");
    text = read_text_file(other);
    expect_log(text, 1, 6);
    assert_non_null(strstr(text, "\"loss\": null"));
    assert_null(strstr(text, "nan"));
    free(text);
    free(other);
    free(path);
}

/* --resume with the wrong file leaves it as it is; so does a training that does not begin. */
static void other_files_are_not_logs(void **state)
{
    run_result result;
    char *path = join_path(*state, "notes.txt");
    write_text_file(path, "my notes\n");
    run("train " SMALL_LSTM "--steps 1 --save notes.st", 0, &result);
    run_result_clear(&result);
    run("train " SMALL_LSTM "--steps 2 --log notes.txt --resume notes.st", 2, &result);
    assert_non_null(strstr(result.err, "notes.txt is not a log of neap train"));
    run_result_clear(&result);
    run("train " SMALL_LSTM "--steps 2 --log notes.txt --budget 1KiB", 3, &result);
    run_result_clear(&result);
    char *text = read_text_file(path);
    assert_string_equal(text, "my notes\n");
    free(text);
    free(path);
    run("train " SMALL_LSTM "--steps 2 --log /dev/full --save full.st", 1, &result);
    assert_non_null(strstr(result.err, "cannot write /dev/full: No space left on device"));
    assert_non_null(strstr(result.err, "what was trained up to step 1 is in full.st"));
    run_result_clear(&result);
}

static void check_trace(const char *folder, const char *name, trace_facts *facts)
{
    char *path = join_path(folder, name), *text = read_text_file(path);
    assert_non_null(text);
    trace_check(text, facts);
    free(text);
    free(path);
}

static void a_step_is_traced(void **state)
{
    run_result result;
    trace_facts f;
    run("train " SMALL_GPT2_TIGHT "--steps 2 --trace trace.json --json", 0, &result);
    check_trace(*state, "trace.json", &f);
    assert_string_equal(f.times, "measured");
    assert_true(f.arena == json_number(result.out, "arena_bytes"));
    assert_true(f.most_live == json_number(result.out, "peak_bytes"));
    size_t again = 0;
    for (size_t i = 0; i < f.n_slices; i++)
        again += f.slices[i].recomputation;
    assert_true(again > 0);
    const char *times = strstr(result.out, "\"times\": {");
    assert_non_null(times);
    assert_true(json_number(strstr(times, "\"computing_alone\""), "measured") > 0);
    assert_true(json_number(times, "out_bytes") == 0);
    trace_facts_clear(&f);
    run_result_clear(&result);

    run("train " SMALL_GPT2 "--budget 80% --method offload-greedy --link 1GB/s --duplex --steps 2 "
        "--trace copies.json",
        0, &result);
    assert_non_null(strstr(result.out, "\ntrace of the last step in copies.json"));
    assert_non_null(strstr(result.out, "\nthe last step "));
    assert_non_null(strstr(result.out, "\ncomputing, beside copies "));
    assert_non_null(strstr(result.out, "\ncopies from the host "));
    check_trace(*state, "copies.json", &f);
    assert_string_equal(f.times, "measured");
    assert_true(trace_count(&f, 2) > 0 && trace_count(&f, 2) == trace_count(&f, 3));
    assert_int_equal(f.n_flows, trace_count(&f, 3));
    trace_facts_clear(&f);
    run_result_clear(&result);
}

static void a_plan_is_traced(void **state)
{
    run_result result;
    trace_facts f;
    run("plan resnet18 --batch 32 --budget 80% --method offload-greedy --link device --trace "
        "p.json",
        0, &result);
    assert_non_null(strstr(result.out, "p.json"));
    check_trace(*state, "p.json", &f);
    assert_string_equal(f.times, "planned");
    assert_true(trace_count(&f, 1) > 100 && f.n_flows > 0);
    trace_facts_clear(&f);
    run_result_clear(&result);
}

static void a_saved_plan_trains_again(void **state)
{
    (void)state;
    run_result first, again;
    run("train " SMALL_GPT2_TIGHT "--steps 2 --save-plan gpt2.plan.json --json", 0, &first);
    run("train " SMALL_GPT2 "--steps 2 --plan gpt2.plan.json --json", 0, &again);
    static const char *const SAME[] = {"method",    "peak_bytes",     "arena_bytes",
                                       "last_loss", "predicted_time", "natural_peak_bytes"};
    for (size_t i = 0; i < sizeof SAME / sizeof SAME[0]; i++) {
        char *value = json_field(first.out, SAME[i]);
        expect_field(again.out, SAME[i], value);
        free(value);
    }
    run_result_clear(&first);
    run_result_clear(&again);
    run("train " SMALL_RESNET "--plan gpt2.plan.json", 2, &again);
    assert_string_equal(
        again.err, "neap: gpt2.plan.json is a plan for \"gpt2_b8\", not for \"resnet18_b2\"\n");
    run_result_clear(&again);
    run("train " SMALL_GPT2 "--plan gpt2.plan.json --budget 100KiB", 2, &again);
    assert_non_null(strstr(again.err, "the budget is 100 KiB"));
    run_result_clear(&again);
    run("train " SMALL_GPT2 "--set layers=1 --plan gpt2.plan.json", 2, &again); /* the same name */
    assert_non_null(strstr(again.err, "is no plan for this training: "));
    run_result_clear(&again);
}

/* ---- Data ---- */

static void files_of_pictures(void **state)
{
    char *mnist = make_subfolder(*state, "mnist"), *cifar10 = make_subfolder(*state, "cifar10");
    char *images = make_subfolder(*state, "images");
    write_mnist(mnist, 12, 28, 28, 10);
    write_cifar10(cifar10, 2);
    write_image_folders(images);
    static const char *const SPECS[] = {"mnist:mnist", "cifar10:cifar10", "images:images"};
    for (size_t i = 0; i < sizeof SPECS / sizeof SPECS[0]; i++) {
        char line[512];
        snprintf(line, sizeof line, "train " SMALL_RESNET "--steps 3 --json --data %s", SPECS[i]);
        expect_losses(line, line, true);
        expect_losses(line, "train " SMALL_RESNET "--steps 3 --json", false);
    }
    run_result result;
    run("train resnet18 --set width=10 --set classes=4 --image 32" KERNELS "--data mnist:mnist", 2,
        &result);
    assert_non_null(strstr(result.err, "classes"));
    run_result_clear(&result);
    run("train " SMALL_GPT2 "--data mnist:mnist", 2, &result);
    assert_string_equal(result.err,
                        "neap: \"gpt2_b8\" reads tokens; only synthetic data has them\n");
    run_result_clear(&result);
    run("train unet --set width=2 --image 32 --batch 1" KERNELS "--data images:images", 2, &result);
    assert_non_null(strstr(result.err, "needs a label for every pixel"));
    run_result_clear(&result);

    /* A picture that breaks while training: the step says so, and what was saved stays. */
    size_t size;
    char *broken = join_path(images, "a/red.ppm");
    unsigned char *whole = read_file_bytes(broken, &size);
    write_text_file(broken, "P6 2 2 255\n...");
    run("train " SMALL_RESNET "--batch 1 --seed 1 --steps 9 --data images:images --save part.st", 2,
        &result);
    assert_non_null(strstr(result.err, "red.ppm"));
    int step = 0;
    const char *told = strstr(result.err, "\nneap: what was trained up to step ");
    assert_true(told &&
                sscanf(told, "\nneap: what was trained up to step %d is in part.st\n", &step) == 1);
    run_result_clear(&result);
    write_file_bytes(broken, whole, size); /* the checkpoint knows which data set it was */
    char line[512];
    snprintf(line, sizeof line, "train " SMALL_RESNET "--batch 1 --steps %d --resume part.st",
             step + 1);
    run(line, 0, &result);
    run_result_clear(&result);
    free(whole);
    free(broken);
    free(mnist);
    free(cifar10);
    free(images);
}

/* ---- Refusals ---- */

/* One line each, before anything is measured. */
static void refused(void **state)
{
    static const char *const LINES[] = {
        "train",
        "train resnet8",
        "train gpt2 --steps 0",
        "train gpt2 --steps 1e3",
        "train gpt2 --save-every 2",
        "train gpt2 --save net.st --save-every 0",
        "train gpt2 --verify --save net.st",
        "train gpt2 --verify --resume net.st",
        "train gpt2 --optimizer adam --momentum 0.5",
        "train gpt2 --optimizer none",
        "train gpt2 --accumulate 0",
        "train gpt2 --clip-norm -1",
        "train gpt2 --momentum -1",
        "train gpt2 --rate inf",
        "train gpt2 --warmup -1",
        "train gpt2 --alignment 32",
        "train gpt2 --pace",
        "train gpt2 --link device",
        "train gpt2 --dtype tf32",
        "train resnet18 --split 1e6",
        "train resnet18 --split 1MiB --alignment 64",
        "train resnet18 --split 0",
        "train gpt2 --kernels layer",
        "profile gpt2 --kernels layer",
        "train gpt2 --plan a --save-plan b",
        "train gpt2 --data nothing",
        "train gpt2 --data mnist:nowhere",
        "train gpt2 --data images:.",
        "train gpt2 --save -",
        "train gpt2 --save-plan -",
        "train gpt2 --save-memory -",
        "train gpt2 --verify --save-memory memory.csv",
        "train gpt2 --log -",
        "train gpt2 --verify --log log.jsonl",
        "train gpt2 --log nowhere/log.jsonl",
        "train gpt2 --log",
        "train gpt2 --log --budget 50%",
        "train gpt2 --trace -",
        "train gpt2 --verify --trace trace.json",
        "train gpt2 --trace nowhere/trace.json",
        "plan gpt2 --trace -",
        "plan gpt2 --trace .",
        "train gpt2 --save-memory nowhere/memory.csv",
        "train gpt2 --save nowhere/net.st",
        "train gpt2 --save .",
        "train gpt2 --save-plan nowhere/plan.json",
        "train gpt2 --resume nowhere.st",
        "train gpt2 --resume .",
        "train gpt2 --plan nowhere.json",
        "train gpt2 --profile-cache -",
        "train gpt2 --backend ref --dtype f16",
        "train gpt2 --backend ref --gpu 1",
        "train gpt2 --backend ref --device-memory",
        "plan gpt2 --budget 50% --nondeterministic",
        "plan gpt2 --budget 50% --link measured",
        "profile gpt2 --backend ref --link 12GB/s",
        "profile gpt2 --backend ref --batch 1 --seq 8 --set layers=1 --link measured",
        "train vgg19 --batch 1048576 --image 448 --backend ref", /* beyond 47 bits of addresses */
        "train chain --backend ref",
        "train " DATA "/tiny.json --backend ref",
        "train " DATA "/malformed.json --backend ref",
    };
    transcript t = {0};
    char *folder = make_subfolder(*state, "refused");
    const run_options options = {.folder = folder, .environment = "XDG_CACHE_HOME=cache"};
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++)
        transcript_run(&t, NEAP_CLI, LINES[i], &options);
    for (char *at; (at = strstr(t.text, NEAP_SOURCE_DIR "/"));) { /* wherever neap lies */
        size_t rest = strlen(at + sizeof NEAP_SOURCE_DIR) + 1;
        memmove(at, at + sizeof NEAP_SOURCE_DIR, rest);
        t.length -= sizeof NEAP_SOURCE_DIR;
    }
    transcript_check(&t, NEAP_SOURCE_DIR "/tests/cli/golden/train.txt");
    char *cache = join_path(folder, "cache");
    assert_null(read_text_file(cache));
    free(cache);
    free(folder);
}

static void an_unknown_backend_is_told_which_there_are(void **state)
{
    (void)state;
    run_result result;
    run("train gpt2 --backend abacus", 2, &result);
    assert_non_null(strstr(result.err, "no backend \"abacus\" in this build; it has null, ref"));
    run_result_clear(&result);
}

/* What it takes without a plan is the budget that always works, addresses included. */
static void too_small_a_budget_is_told_what_works(void **state)
{
    (void)state;
    run_result result;
    run("train " SMALL_LSTM "--budget 1KiB", 3, &result); /* before anything is measured */
    assert_non_null(strstr(result.err, " is below 6.31 KiB, which the parameters and state ("));
    run_result_clear(&result);
    run("train " SMALL_LSTM "--method greedy --budget 70%", 3, &result);
    assert_string_equal(result.out, "");
    assert_non_null(strstr(result.err, "; store-all needs "));
    assert_non_null(strstr(result.err, "; try --method "));
    run_result_clear(&result);
    run("train " SMALL_LSTM "--steps 1 --budget 100%", 0, &result);
    run_result_clear(&result);
}

static void a_reader_that_leaves_ends_the_training(void **state)
{
    (void)state;
    run_result result;
    const run_options full = {.folder = here.folder, .output_path = "/dev/full"};
    run_line(NEAP_CLI, "train " SMALL_LSTM "--steps 1000000 --save never.st", &full, &result);
    assert_int_equal(result.code, 1);
    assert_non_null(strstr(result.err, "cannot write to standard output"));
    run_result_clear(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_budget),
        cmocka_unit_test(what_a_person_sees),
        cmocka_unit_test(lines_fit_a_terminal),
        cmocka_unit_test(a_budget_holds_and_changes_nothing),
        cmocka_unit_test(every_optimizer_verifies),
        cmocka_unit_test(what_the_losses_depend_on),
        cmocka_unit_test(a_training_that_explodes_is_still_json),
        cmocka_unit_test(memory_is_recorded),
        cmocka_unit_test(the_line_fits_the_terminal),
        cmocka_unit_test(losses_are_drawn),
        cmocka_unit_test(steps_are_logged),
        cmocka_unit_test(other_files_are_not_logs),
        cmocka_unit_test(a_step_is_traced),
        cmocka_unit_test(a_plan_is_traced),
        cmocka_unit_test(a_saved_plan_trains_again),
        cmocka_unit_test(files_of_pictures),
        cmocka_unit_test(refused),
        cmocka_unit_test(an_unknown_backend_is_told_which_there_are),
        cmocka_unit_test(too_small_a_budget_is_told_what_works),
        cmocka_unit_test(a_reader_that_leaves_ends_the_training),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
