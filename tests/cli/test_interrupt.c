/*
 * Ctrl-C in every phase of neap train and neap profile: one line, exit status 4, and complete
 * files. The test recognizes a phase by the process's output, its files and the signals it catches.
 */
#include "json_fields.h"
#include "picture_files.h"
#include "run_command.h"
#include "settings.h"
#include "training_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SMALL_NETWORK "lstm --set hidden=8 --set layers=1 --set vocab=20 --seq 8 --batch 2 "
/* Plain C measures the first kernels at once, and takes a good while for the others. */
#define LARGE_WITHOUT_BATCH                                                                        \
    "gpt2 --set layers=1 --set hidden=256 --set heads=8 --set vocab=50 --seq 256 --backend ref "
#define LARGE LARGE_WITHOUT_BATCH "--batch 4 "

static run_options here; /* in the folder that all tests share */

static int make_folder(void **state)
{
    *state = make_temporary_folder();
    here.folder = *state;
    run_result result;
    run_line(NEAP_CLI, "train " SMALL_GPT2 "--steps 1", &here, &result);
    assert_int_equal(result.code, 0); /* measured once and for all */
    run_result_clear(&result);
    return 0;
}

static int remove_folder(void **state)
{
    remove_folder_tree(*state);
    return 0;
}

static void pause_for(int milliseconds)
{
    struct timespec pause = {.tv_nsec = milliseconds * 1000000L};
    nanosleep(&pause, NULL);
}

static void expect_error(const run_result *result, const char *expected)
{
    if (result->code != 4 || strcmp(result->err, expected) != 0)
        fail_msg("exit %d: %s%s", result->code, result->out, result->err);
}

/* ---- Before training ---- */

static void while_measuring(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "train " LARGE "--profile-cache kept.json --save never.st --json",
        "profile " LARGE "--profile-cache kept.json --json",
        "profile " LARGE "--profile-cache kept.json -o never.st",
    };
    char *cache = join_path(here.folder, "kept.json"), *never = join_path(here.folder, "never.st");
    run_result result;
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++) {
        run_child child;
        run_start(NEAP_CLI, LINES[i], &here, &child);
        assert_true(run_wait_handler(&child, SIGINT));
        run_wait_cpu(&child, 500);
        run_signal(&child, SIGINT);
        run_finish(&child, &result);
        expect_error(&result, "neap: interrupted while measuring kernels; the times of those that "
                              "were measured are kept\n");
        assert_string_equal(result.out, "");
        run_result_clear(&result);
        assert_int_not_equal(access(never, F_OK), 0);
    }
    char *text = read_text_file(cache);
    assert_non_null(text); /* and the next reader takes it */
    assert_non_null(strstr(text, "\"seconds\": "));
    run_line(NEAP_CLI, "profile " SMALL_NETWORK "--backend ref --profile-cache kept.json", &here,
             &result);
    assert_int_equal(result.code, 0);
    assert_string_equal(result.err, "");
    run_result_clear(&result);
    char *more = read_text_file(cache);
    size_t whole = strlen(text) - strlen("\n]}\n");
    assert_memory_equal(more, text, whole); /* what was measured before is still there */
    assert_true(strlen(more) > strlen(text));
    free(more);
    free(text);
    free(cache);
    free(never);
}

/* Two at once: what one measures is not lost when the other writes. */
static void another_measures_meanwhile(void **state)
{
    (void)state;
    run_child child;
    run_result result;
    run_start(NEAP_CLI, "profile " LARGE "--profile-cache both.json", &here, &child);
    assert_true(run_wait_handler(&child, SIGINT));
    assert_true(run_wait_cpu(&child, 500)); /* has read the file, which is not there yet */
    run_line(NEAP_CLI, "profile " SMALL_NETWORK "--backend ref --profile-cache both.json --json",
             &here, &result);
    double kernels = json_number(result.out, "kernels");
    assert_true(json_number(result.out, "measured") == kernels);
    run_result_clear(&result);
    run_signal(&child, SIGINT);
    run_finish(&child, &result);
    assert_int_equal(result.code, 4);
    run_result_clear(&result);
    run_line(NEAP_CLI, "profile " SMALL_NETWORK "--backend ref --profile-cache both.json --json",
             &here, &result);
    assert_true(json_number(result.out, "measured") == 0);
    run_result_clear(&result);
    char *cache = join_path(here.folder, "both.json"), *text = read_text_file(cache);
    assert_non_null(strstr(text, "\"op\": \"layer_norm")); /* the large one's are there as well */
    free(text);
    free(cache);
}

static void while_measuring_without_a_cache(void **state)
{
    (void)state;
    run_child child;
    run_result result;
    run_start(NEAP_CLI, "profile " LARGE "--profile-cache none", &here, &child);
    assert_true(run_wait_handler(&child, SIGINT));
    run_signal(&child, SIGINT);
    run_finish(&child, &result);
    expect_error(&result, "neap: interrupted while measuring kernels; without a --profile-cache "
                          "nothing is kept\n");
    run_result_clear(&result);
    run_start(NEAP_CLI, "profile " LARGE "--profile-cache /dev/null", &here, &child);
    assert_true(run_wait_handler(&child, SIGINT));
    run_signal(&child, SIGINT);
    run_finish(&child, &result);
    expect_error(&result, "neap: measured times are not kept: /dev/null is not an ordinary file\n"
                          "neap: interrupted while measuring kernels\n");
    run_result_clear(&result);
}

/* Every batch has kernels of its own. */
static void while_measuring_batches(void **state)
{
    (void)state;
    run_child child;
    run_result result;
    run_start(NEAP_CLI, "max-batch " LARGE_WITHOUT_BATCH "--budget 60MiB --profile-cache some.json",
              &here, &child);
    assert_true(run_wait_handler(&child, SIGINT));
    run_wait_cpu(&child, 500);
    run_signal(&child, SIGINT);
    run_finish(&child, &result);
    expect_error(&result, "neap: interrupted: 0 of 1 methods were tried\n");
    run_result_clear(&result);
    char *cache = join_path(here.folder, "some.json"), *text = read_text_file(cache);
    assert_non_null(strstr(text, "\"seconds\": ")); /* what was measured is kept */
    free(text);
    free(cache);
}

/* The file of measured times is written when measuring is over: then it plans. */
static void while_planning(void **state)
{
    (void)state;
    need_highs();
    run_child child;
    run_result result;
    char *cache = join_path(here.folder, "planning.json");
    run_start(NEAP_CLI,
              "train gpt2 --set layers=3 --set hidden=32 --set heads=2 --set vocab=50 --seq 32 "
              "--batch 8 --backend ref --profile-cache planning.json --method checkmate "
              "--budget 70% --time-limit 60 --save never.st",
              &here, &child);
    for (int i = 0; i < 30000 && access(cache, F_OK) != 0; i++)
        pause_for(1);
    pause_for(100);
    run_signal(&child, SIGINT);
    run_finish(&child, &result);
    assert_int_equal(result.code, 4);
    if (strcmp(result.err, "neap: interrupted while planning; nothing was trained\n") != 0 &&
        strcmp(result.err, "neap: interrupted before checkmate found a plan\n") != 0)
        fail_msg("%s%s", result.out, result.err);
    assert_string_equal(result.out, "");
    run_result_clear(&result);
    free(cache);
}

/* ---- Training ---- */

/* Interrupted trainings saved what they did, and that is what an uninterrupted one does. */
static void while_training(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "train " SMALL_GPT2 "--steps 100000 --save stopped.st",
        "train " SMALL_GPT2 "--steps 100000 --save stopped.st --save-every 1",
    };
    char *stopped = join_path(here.folder, "stopped.st"), *whole = join_path(here.folder, "w.st");
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++) {
        run_child child;
        run_result result;
        run_start(NEAP_CLI, LINES[i], &here, &child);
        assert_true(run_wait_output(&child, "\nstep 1/"));
        run_signal(&child, i == 0 ? SIGINT : SIGTERM);
        run_finish(&child, &result);
        int step = 0;
        char expected[128], line[512];
        assert_int_equal(
            sscanf(result.err, "neap: interrupted after step %d of 100000; --resume", &step), 1);
        snprintf(expected, sizeof expected,
                 "neap: interrupted after step %d of 100000; --resume continues from stopped.st\n",
                 step);
        expect_error(&result, expected);
        assert_non_null(strstr(result.out, "\nwritten to stopped.st\n"));
        run_result_clear(&result);

        snprintf(line, sizeof line, "train " SMALL_GPT2 "--steps %d --save w.st", step);
        run_line(NEAP_CLI, line, &here, &result);
        assert_int_equal(result.code, 0);
        run_result_clear(&result);
        size_t size, other;
        unsigned char *one = read_file_bytes(stopped, &size), *two = read_file_bytes(whole, &other);
        assert_int_equal(size, other);
        assert_memory_equal(one, two, size);
        free(one);
        free(two);
    }
    free(stopped);
    free(whole);
}

static void while_training_with_nothing_to_save(void **state)
{
    (void)state;
    run_child child;
    run_result result;
    run_start(NEAP_CLI, "train " SMALL_GPT2 "--steps 100000", &here, &child);
    assert_true(run_wait_output(&child, "\nstep 1/"));
    run_signal(&child, SIGINT);
    run_finish(&child, &result);
    assert_int_equal(result.code, 4);
    assert_null(strstr(result.err, "--resume"));
    assert_non_null(strstr(result.err, " of 100000\n"));
    run_result_clear(&result);
}

/* Nothing shows before it ends; by then it has long been at it. */
static void while_training_or_verifying_silently(void **state)
{
    (void)state;
    run_child child;
    run_result result;
    run_start(NEAP_CLI, "train " SMALL_GPT2 "--steps 100000 --json", &here, &child);
    assert_true(run_wait_cpu(&child, 1000));
    run_signal(&child, SIGINT);
    run_finish(&child, &result);
    assert_int_equal(result.code, 4);
    char expected[128];
    double steps = json_number(result.out, "steps");
    assert_true(steps >= 1);
    snprintf(expected, sizeof expected, "neap: interrupted after step %.0f of 100000\n", steps);
    assert_string_equal(result.err, expected);
    run_result_clear(&result);

    run_start(NEAP_CLI, "train " SMALL_GPT2 "--steps 10000 --verify --json", &here, &child);
    assert_true(run_wait_cpu(&child, 1000));
    run_signal(&child, SIGINT);
    run_finish(&child, &result);
    expect_error(&result, "neap: interrupted before a step was compared\n");
    assert_string_equal(result.out, "");
    run_result_clear(&result);
}

/* ---- Saving ---- */

/* A pipe that nobody reads yet: the training waits in the midst of saving. */
static void start_saving(run_child *child)
{
    char *pipe = join_path(here.folder, "pipe.st");
    unlink(pipe);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    run_start(NEAP_CLI, "train " SMALL_LSTM "--steps 3 --save pipe.st --save-every 1", &here,
              child);
    assert_true(run_wait_output(child, "\nstep 1/3"));
    pause_for(100);
    free(pipe);
}

static void while_saving(void **state)
{
    (void)state;
    run_child child;
    run_result result;
    start_saving(&child);
    run_signal(&child, SIGINT);
    pause_for(100);
    char *pipe = join_path(here.folder, "pipe.st");
    int reader = open(pipe, O_RDWR | O_NONBLOCK); /* has room for the whole of it */
    assert_true(reader >= 0);
    run_finish(&child, &result);
    expect_error(&result, "neap: interrupted after step 1 of 3; --resume continues from pipe.st\n");
    run_result_clear(&result);
    close(reader);
    free(pipe);
}

static void the_second_one_ends_it_at_once(void **state)
{
    (void)state;
    run_child child;
    run_result result;
    start_saving(&child);
    run_signal(&child, SIGINT);
    pause_for(100);
    run_signal(&child, SIGINT);
    run_finish(&child, &result);
    assert_int_equal(result.code, 128 + SIGINT);
    run_result_clear(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_measuring),
        cmocka_unit_test(while_measuring_without_a_cache),
        cmocka_unit_test(while_measuring_batches),
        cmocka_unit_test(another_measures_meanwhile),
        cmocka_unit_test(while_planning),
        cmocka_unit_test(while_training),
        cmocka_unit_test(while_training_with_nothing_to_save),
        cmocka_unit_test(while_training_or_verifying_silently),
        cmocka_unit_test(while_saving),
        cmocka_unit_test(the_second_one_ends_it_at_once),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
