/*
 * Checkpoints of neap train: a resumed run is identical to the bit, broken checkpoints are
 * rejected, and whatever happens while one is written, either the old or the new one exists.
 */
#include "picture_files.h"
#include "random_plan.h"
#include "run_command.h"
#include "settings.h"
#include "training_lines.h"

#include <neap/status.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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

/* Runs neap train with what is given; any exit status but this fails the test. */
static void train(run_result *result, int code, const char *network, const char *format, ...)
    NEAP_PRINTF(4, 5);

static void train(run_result *result, int code, const char *network, const char *format, ...)
{
    char rest[512], line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rest, sizeof rest, format, arguments);
    va_end(arguments);
    snprintf(line, sizeof line, "train %s%s", network, rest);
    run_line(NEAP_CLI, line, &here, result);
    if (result->code != code)
        fail_msg("neap %s: exit %d\n%s%s", line, result->code, result->out, result->err);
}

#define TRAIN(network, ...)                                                                        \
    do {                                                                                           \
        run_result train_result;                                                                   \
        train(&train_result, 0, network, __VA_ARGS__);                                             \
        run_result_clear(&train_result);                                                           \
    } while (0)

/* ---- Files of the folder ---- */

static unsigned char *contents(const char *name, size_t *size)
{
    char *path = join_path(here.folder, name);
    unsigned char *bytes = read_file_bytes(path, size);
    free(path);
    return bytes;
}

static void put(const char *name, const void *bytes, size_t size)
{
    char *path = join_path(here.folder, name);
    write_file_bytes(path, bytes, size);
    free(path);
}

static bool exists(const char *name)
{
    char *path = join_path(here.folder, name);
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

static void expect_same_bytes(const char *a, const char *b)
{
    size_t size, other;
    unsigned char *one = contents(a, &size), *two = contents(b, &other);
    if (size != other || memcmp(one, two, size) != 0)
        fail_msg("%s (%zu bytes) and %s (%zu) differ", a, size, b, other);
    free(one);
    free(two);
}

static void expect_other_bytes(const char *a, const char *b)
{
    size_t size, other;
    unsigned char *one = contents(a, &size), *two = contents(b, &other);
    assert_true(size != other || memcmp(one, two, size) != 0);
    free(one);
    free(two);
}

/* Names in the folder that begin with this one and go on: drafts. */
static int drafts(const char *name)
{
    DIR *entries = opendir(here.folder);
    int count = 0;
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));)
        count +=
            strncmp(entry->d_name, name, strlen(name)) == 0 && strlen(entry->d_name) > strlen(name);
    closedir(entries);
    return count;
}

/* ---- Going on ---- */

/* A training in one go and one in parts, the later ones by other plans, write the same file. */
static void going_on_is_exact(void **state)
{
    (void)state;
    static const struct {
        const char *network, *tight, *options;
    } CASES[] = {
        {SMALL_GPT2, SMALL_GPT2_TIGHT, "--optimizer sgd"},
        {SMALL_GPT2, SMALL_GPT2_TIGHT, "--optimizer momentum --weight-decay 0.01"},
        {SMALL_GPT2_TIGHT, SMALL_GPT2, "--optimizer adam --warmup 4"},
        {SMALL_VGG, SMALL_VGG, "--optimizer adam --weight-decay 0.1"}, /* with dropout */
        {SMALL_RESNET, SMALL_RESNET, "--optimizer momentum --momentum 0.5 --poison"},
        {SMALL_GPT2, SMALL_GPT2, "--optimizer adamw --clip-norm 0.5 --accumulate 2"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const char *options = CASES[i].options;
        TRAIN(CASES[i].network, "%s --seed 7 --steps 5 --save whole.st", options);
        TRAIN(CASES[i].network, "%s --seed 7 --steps 2 --save parts.st", options);
        expect_other_bytes("whole.st", "parts.st");
        /* the seed is the file's */
        TRAIN(CASES[i].tight, "%s --steps 4 --resume parts.st --save parts.st", options);
        TRAIN(CASES[i].network, "%s --steps 5 --resume parts.st --save parts.st", options);
        expect_same_bytes("whole.st", "parts.st");
        TRAIN(CASES[i].network, "%s --seed 8 --steps 5 --save other.st", options);
        expect_other_bytes("whole.st", "other.st");
    }
}

#define MUCH_STATE                                                                                 \
    "gpt2 --set layers=2 --set hidden=32 --set heads=2 --set vocab=50 --seq 16 --batch 4" KERNELS
#define ON_HOST "--budget 80% --link 20GB/s --duplex --state host --time-limit 0.3 "

/* A plan that has state on the host saves the same file, and either continues the other's. */
static void state_on_the_host_is_saved(void **state)
{
    (void)state;
    static const char *const OPTIONS[] = {"--optimizer sgd", "--optimizer momentum",
                                          "--optimizer adam", "--optimizer adamw"};
    for (size_t i = 0; i < sizeof OPTIONS / sizeof *OPTIONS; i++) {
        TRAIN(MUCH_STATE, "%s --seed 7 --steps 4 --save whole.st", OPTIONS[i]);
        TRAIN(MUCH_STATE ON_HOST, "%s --seed 7 --steps 2 --save parts.st --save-plan plan.json",
              OPTIONS[i]);
        char *path = join_path(here.folder, "plan.json"), *plan = read_text_file(path);
        assert_true(plan && strstr(plan, "\"host_at_start\""));
        free(plan);
        free(path);
        TRAIN(MUCH_STATE, "%s --steps 3 --resume parts.st --save parts.st", OPTIONS[i]);
        TRAIN(MUCH_STATE ON_HOST, "%s --steps 4 --resume parts.st --save parts.st", OPTIONS[i]);
        expect_same_bytes("whole.st", "parts.st");
    }
}

/* In bf16, weights are f32 masters in the file; other backends go on with a file in f32. */
static void types_and_backends(void **state)
{
    (void)state;
    static const char gpt2[] = "gpt2 --batch 2 --seq 8 --set vocab=24 --set hidden=8 --set heads=2 "
                               "--set layers=2 --profile-cache none --optimizer adam ";
    run_result result;
    TRAIN(gpt2, "--backend cuda-emulation --dtype bf16 --steps 4 --save all");
    TRAIN(gpt2, "--backend cuda-emulation --dtype bf16 --steps 2 --save half");
    TRAIN(gpt2, "--backend cuda-emulation --dtype bf16 --steps 4 --resume half --save both");
    expect_same_bytes("all", "both");
    train(&result, 2, gpt2, "--backend cuda-emulation --steps 4 --resume half");
    assert_non_null(strstr(result.err, "half was trained with parameters in bf16"));
    run_result_clear(&result);
    TRAIN(gpt2, "--backend ref --steps 2 --save ref");
    TRAIN(gpt2, "--backend cuda-emulation --steps 3 --resume ref --save more");
    TRAIN(gpt2, "--backend ref --steps 4 --resume more");
    train(&result, 2, gpt2, "--backend cuda-emulation --dtype bf16 --steps 4 --resume ref");
    assert_non_null(strstr(result.err, "ref was trained with parameters in f32"));
    run_result_clear(&result);
}

static void saving_on_the_way_changes_nothing(void **state)
{
    (void)state;
    run_result result;
    TRAIN(SMALL_VGG, "--steps 5 --save whole.st");
    train(&result, 0, SMALL_VGG, "--steps 5 --save every.st --save-every 2");
    assert_non_null(strstr(result.out, "\nwritten to every.st\n"));
    run_result_clear(&result);
    expect_same_bytes("whole.st", "every.st");
    train(&result, 2, SMALL_VGG, "--steps 5 --resume every.st");
    assert_string_equal(result.err, "neap: every.st has 5 steps done already; --steps says how "
                                    "many there are in all\n");
    run_result_clear(&result);
    assert_int_equal(drafts("every.st"), 0);
}

/* ---- What is refused ---- */

/* Resuming from "bad.st" is refused with one line that has this in it, and changes no file. */
static void expect_refusal(const char *network, const char *what)
{
    run_result result;
    put("kept.st", "precious", 8);
    train(&result, 2, network, "--steps 9 --resume bad.st --save kept.st");
    assert_string_equal(result.out, "");
    const char *end = strchr(result.err, '\n');
    if (memcmp(result.err, "neap: ", 6) != 0 || !end || end[1] || !strstr(result.err, "bad.st") ||
        (what && !strstr(result.err, what)))
        fail_msg("not one line on bad.st%s%s: %s", what ? " with " : "", what ? what : "",
                 result.err);
    run_result_clear(&result);
    size_t size;
    unsigned char *kept = contents("kept.st", &size);
    assert_int_equal(size, 8);
    assert_memory_equal(kept, "precious", 8);
    free(kept);
}

static void cut_off_anywhere(void **state)
{
    (void)state;
    size_t size, header = 0;
    TRAIN(SMALL_LSTM, "--steps 1 --save good.st");
    unsigned char *bytes = contents("good.st", &size);
    for (size_t i = 8; i-- > 0;)
        header = header << 8 | bytes[i];
    assert_true(header > 100 && 8 + header < size);
    size_t cuts[64], count = 0;
    for (size_t i = 0; i <= 9; i++)
        cuts[count++] = i;
    for (size_t i = 1; i < 8; i++)
        cuts[count++] = 8 + header * i / 8;
    for (size_t i = 0; i < 3; i++)
        cuts[count++] = 8 + header - 1 + i;
    for (size_t i = 1; i < 8; i++)
        cuts[count++] = 8 + header + (size - 8 - header) * i / 8 / 4 * 4;
    cuts[count++] = size - 4;
    cuts[count++] = size - 1;
    for (size_t i = 0; i < count; i += ONE_IN(2)) {
        put("bad.st", bytes, cuts[i]);
        expect_refusal(SMALL_LSTM, NULL);
    }
    unsigned char *longer = malloc(size + 1);
    assert_non_null(longer);
    memcpy(longer, bytes, size);
    longer[size] = 0;
    put("bad.st", longer, size + 1);
    expect_refusal(SMALL_LSTM, NULL);
    free(longer);
    free(bytes);
}

/* The checkpoint with a text of its header replaced by another of the same length. */
static void put_changed(const unsigned char *bytes, size_t size, const char *from, const char *to)
{
    unsigned char *copy = malloc(size);
    size_t length = strlen(from);
    bool found = false;
    assert_non_null(copy);
    assert_int_equal(length, strlen(to));
    memcpy(copy, bytes, size);
    for (size_t i = 8; i + length <= size && !found; i++)
        if (memcmp(copy + i, from, length) == 0) {
            memcpy(copy + i, to, length);
            found = true;
        }
    if (!found)
        fail_msg("the header has no %s", from);
    put("bad.st", copy, size);
    free(copy);
}

static void a_header_that_says_something_else(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *said;
    } CASES[] = {
        {"\"step\":\"1\"", "\"step\":\"x\"", "has no valid step"},
        {"\"step\":\"1\"", "\"step\":\"\"}", NULL},
        {"\"step\":\"1\"", "\"stop\":\"1\"", "has no valid step"},
        {"\"seed\":\"0\"", "\"seed\":\"-\"", "has no valid seed"},
        {"\"optimizer\":\"", "\"optimiser\":\"", "names no optimizer"},
        {"\"optimizer\":\"momentum\"", "\"optimizer\":\"momentun\"", "momentun"},
        {"\"__metadata__\"", "\"__metedata__\"", NULL},
        {"\"F32\"", "\"F16\"", NULL},
        {"\"F32\"", "\"I32\"", "the shape or type differs for"},
        {"\"F32\"", "\"X32\"", NULL},
        {"\"shape\":[", "\"shope\":[", NULL},
        {"\"data_offsets\":[0", "\"data_offsets\":[4", NULL},
        {"\"optimizer.momentum.", "\"optimizer.nomentum.", "it lacks \"optimizer.momentum."},
        {"{", "[", NULL},
        {"\"", "\xff", NULL},
    };
    size_t size;
    TRAIN(SMALL_LSTM, "--optimizer momentum --steps 1 --save good.st");
    unsigned char *bytes = contents("good.st", &size);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        put_changed(bytes, size, CASES[i].from, CASES[i].to);
        expect_refusal(SMALL_LSTM, CASES[i].said);
    }
    free(bytes);
}

static void a_file_of_another_training(void **state)
{
    (void)state;
    run_result result;
    TRAIN(SMALL_VGG, "--optimizer momentum --steps 1 --save bad.st");
    expect_refusal(SMALL_LSTM, "is a checkpoint of vgg11_b2, not of lstm_b2: it lacks");
    expect_refusal(SMALL_VGG "--set classes=11 ", "the shape or type differs for");
    expect_refusal(SMALL_VGG "--optimizer adam ",
                   "was trained with the optimizer momentum; resume with that, not with adam");
    expect_refusal(SMALL_VGG "--optimizer sgd ", "was trained with the optimizer momentum");
    put("bad.st", "", 0);
    expect_refusal(SMALL_LSTM, NULL);
    put("bad.st", "\0\0\0\0\0\0\0\x80{}", 10); /* a header of 2^63 bytes */
    expect_refusal(SMALL_LSTM, NULL);
    put("bad.st", "\2\0\0\0\0\0\0\0{}", 10);
    expect_refusal(SMALL_LSTM, "names no optimizer");
    train(&result, 2, SMALL_LSTM, "--steps 9 --resume /dev/null");
    assert_string_equal(result.err, "neap: cannot read /dev/null: not an ordinary file\n");
    run_result_clear(&result);
}

/* What decides the result and is not given is the file's; what is given and differs is refused. */
static void a_changed_training_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *options, *said;
    } CASES[] = {
        {"--seed 8 ", "bad.st was trained with --seed 7, not 8; leave out --seed"},
        {"--data images:. ", "bad.st was trained with --data synthetic, not images:.; leave out"},
        {"--batch 4 ", "was trained with inputs \"input_ids 8x32, position_ids 32, labels 256, "
                       "loss.grad 1\", not \"input_ids 4x32"},
        {"--seq 16 ", "continue with the same batch and sizes"},
        {"--accumulate 2 ", "was trained with 1 micro-batch in a step, not 2"},
    };
    static const char OPTIONS[] =
        "--optimizer momentum --seed 7 --rate 0.1 --momentum 0.5 --weight-decay 0.01 --warmup 3 ";
    TRAIN(SMALL_GPT2, "%s--steps 2 --save bad.st", OPTIONS);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char network[512];
        snprintf(network, sizeof network, SMALL_GPT2 "%s", CASES[i].options);
        expect_refusal(network, CASES[i].said);
    }
    TRAIN(SMALL_GPT2, "--steps 4 --resume bad.st --save parts.st");
    TRAIN(SMALL_GPT2, "%s--steps 4 --save whole.st", OPTIONS);
    expect_same_bytes("whole.st", "parts.st");
}

static void a_changed_rate_is_said(void **state)
{
    (void)state;
    run_result result;
    TRAIN(SMALL_LSTM, "--rate 0.1 --steps 2 --cosine --save rate.st");
    train(&result, 0, SMALL_LSTM, "--rate 0.2 --steps 4 --resume rate.st");
    assert_string_equal(
        result.err, "neap: rate.st was trained with --rate 0.1; this training continues with 0.2\n"
                    "neap: rate.st was trained with --cosine to step 2; it now ends at step 4\n");
    run_result_clear(&result);
    train(&result, 0, SMALL_LSTM, "--rate 0.1 --steps 4 --warmup 2 --resume rate.st");
    assert_non_null(strstr(result.err, "--warmup 0; this training continues with 2\n"));
    run_result_clear(&result);
}

/* One bit of a tensor, of the texts or of the checksums is another. */
static void flipped_bits_are_found(void **state)
{
    (void)state;
    size_t size, header = 0;
    TRAIN(SMALL_LSTM, "--steps 1 --save good.st");
    unsigned char *bytes = contents("good.st", &size);
    for (size_t i = 8; i-- > 0;)
        header = header << 8 | bytes[i];
    for (size_t i = 0; i < 12; i++) {
        size_t at = i == 11 ? size - 1 : 8 + header + (size - 8 - header) * i / 11;
        bytes[at] ^= (unsigned char)(1 << i % 8);
        put("bad.st", bytes, size);
        expect_refusal(SMALL_LSTM, "bad.st is damaged: the data of \"");
        bytes[at] ^= (unsigned char)(1 << i % 8);
    }
    static const char *const CHANGES[][2] = {
        {"\"step\":\"1\"", "\"step\":\"3\""},         {"\"seed\":\"0\"", "\"seed\":\"2\""},
        {"\"network\":\"lstm", "\"network\":\"mstm"}, {"\"checksum\":", "\"checkson\":"},
        {"\"checksums\":", "\"checksonx\":"},
    };
    for (size_t i = 0; i < sizeof CHANGES / sizeof CHANGES[0]; i++) {
        put_changed(bytes, size, CHANGES[i][0], CHANGES[i][1]);
        expect_refusal(SMALL_LSTM, "its header does not match its checksum");
    }
    free(bytes);
}

static void an_older_checkpoint_says_so(void **state)
{
    (void)state;
    size_t size;
    run_result result;
    TRAIN(SMALL_LSTM, "--steps 1 --save good.st");
    unsigned char *bytes = contents("good.st", &size);
    put_changed(bytes, size, "neap checkpoint 2", "neap checkpoint 1");
    train(&result, 0, SMALL_LSTM, "--steps 2 --resume bad.st");
    assert_string_equal(result.err,
                        "neap: bad.st is of an older neap: it records neither rate nor batch and "
                        "has no checksums; none of these is checked\n");
    run_result_clear(&result);
    train(&result, 2, SMALL_LSTM, "--steps 1 --resume bad.st");
    assert_non_null(strstr(result.err, "bad.st has 1 steps done already; --steps says"));
    run_result_clear(&result);
    put_changed(bytes, size, "neap checkpoint 2", "neap checkpoint 3");
    expect_refusal(SMALL_LSTM, "its format is neither");
    free(bytes);
}

/* ---- Where it cannot be written ---- */

/* neap under a limit on the size of files, in KiB: a disk that becomes full. */
static void train_limited(run_result *result, int limit, const char *network, const char *rest)
{
    char line[1024];
    int begin = snprintf(line, sizeof line, "-c ulimit\t-f\t%d;exec\t%s\ttrain\t", limit, NEAP_CLI);
    snprintf(line + begin, sizeof line - (size_t)begin, "%s%s", network, rest);
    for (char *c = line + begin; *c; c++)
        if (*c == ' ')
            *c = '\t'; /* one word to run_line, several to the shell */
    run_line("/bin/bash", line, &here, result);
}

static void a_full_disk_leaves_the_old_file(void **state)
{
    (void)state;
    run_result result;
    TRAIN(SMALL_GPT2, "--optimizer momentum --steps 1 --save full.st");
    TRAIN(SMALL_GPT2, "--optimizer momentum --steps 1 --save copy.st");
    expect_same_bytes("full.st", "copy.st");
    static const int LIMITS[] = {1, 100, 460};
    for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; i++) {
        train_limited(&result, LIMITS[i], SMALL_GPT2,
                      "--steps 4 --resume full.st --save full.st --save-every 1 --json");
        assert_int_equal(result.code, 1);
        assert_string_equal(result.out, "");
        assert_non_null(
            strstr(result.err, "neap: cannot write full.st: File too large; it takes "));
        assert_non_null(strstr(result.err, "an earlier file is unchanged\n"));
        run_result_clear(&result);
        expect_same_bytes("full.st", "copy.st");
        train_limited(&result, LIMITS[i], SMALL_GPT2,
                      "--optimizer momentum --steps 1 --save new.st --json");
        assert_int_equal(result.code, 1);
        run_result_clear(&result);
        assert_false(exists("new.st"));
        assert_int_equal(drafts("full.st") + drafts("new.st"), 0);
    }
    TRAIN(SMALL_GPT2, "--steps 4 --resume full.st --save full.st"); /* with room again */
    TRAIN(SMALL_GPT2, "--optimizer momentum --steps 4 --save copy.st");
    expect_same_bytes("full.st", "copy.st");
    train(&result, 1, SMALL_LSTM, "--steps 1 --save /dev/full");
    assert_non_null(strstr(result.err, "cannot write /dev/full: No space left on device"));
    run_result_clear(&result);
}

/* Not after hours of training, but before the first kernel is measured. */
static void a_place_that_cannot_be_written_is_found_at_once(void **state)
{
    (void)state;
    run_result result;
    char *folder = join_path(here.folder, "locked");
    assert_int_equal(mkdir(folder, 0555), 0);
    train(&result, 2, SMALL_LSTM, "--save nowhere/net.st --profile-cache unused.json");
    assert_string_equal(result.out, "");
    assert_string_equal(result.err,
                        "neap: cannot write nowhere/net.st: folder nowhere: No such file or "
                        "directory\n");
    run_result_clear(&result);
    if (geteuid() != 0) { /* who may do everything is not stopped */
        train(&result, 2, SMALL_LSTM, "--save locked/net.st --profile-cache unused.json");
        assert_string_equal(result.out, "");
        assert_non_null(strstr(result.err, "folder locked: Permission denied"));
        run_result_clear(&result);
    }
    assert_false(exists("unused.json"));
    assert_int_equal(rmdir(folder), 0);
    free(folder);
}

/* ---- Killed ---- */

#define KILLED MUCH_STATE "--steps 30 --cosine --optimizer adam "

/* The line that trains on, or from the beginning where nothing was saved yet. */
static const char *killed_line(bool on_host, char *line, size_t size)
{
    snprintf(line, size, "train " KILLED "--save killed.st --save-every 1 %s%s",
             on_host ? ON_HOST : "", exists("killed.st") ? "--resume killed.st" : "");
    return line;
}

/* To the last step. */
static void finish_killed(bool on_host)
{
    run_result result;
    char line[512];
    run_line(NEAP_CLI, killed_line(on_host, line, sizeof line), &here, &result);
    if (result.code != 0 && !strstr(result.err, "has 30 steps done already"))
        fail_msg("exit %d: %s", result.code, result.err);
    run_result_clear(&result);
}

/* Killed while it trains and saves, again and again, from where it was killed the last time; every
   other time by a plan that has state on the host. */
static void killed_at_any_moment(void **state)
{
    (void)state;
    random_source random = {20260115};
    int killed = 0;
    char *path = join_path(here.folder, "killed.st");
    print_message("seed %llu\n", (unsigned long long)random.state);
    TRAIN(KILLED, "--save whole.st");
    for (int life = 0; life < 12 / ONE_IN(3); life++) {
        run_child child;
        run_result result;
        char line[512];
        run_start(NEAP_CLI, killed_line(life % 2, line, sizeof line), &here, &child);
        bool begun = run_wait_output(&child, "\nstep ");
        struct timespec pause = {.tv_nsec = (long)random_below(&random, 40000) * 1000};
        nanosleep(&pause, NULL);
        run_signal(&child, SIGKILL);
        run_finish(&child, &result);
        bool cut_short = result.code == 128 + SIGKILL;
        assert_true(cut_short || !begun || result.code == 0);
        killed += cut_short;
        run_result_clear(&result);
        if (!cut_short || life % 4 == 3) {
            finish_killed(life % 4 == 1);
            expect_same_bytes("whole.st", "killed.st");
            unlink(path);
        }
    }
    print_message("killed %d times\n", killed);
    assert_true(killed > 0);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(going_on_is_exact),
        cmocka_unit_test(state_on_the_host_is_saved),
        cmocka_unit_test(types_and_backends),
        cmocka_unit_test(saving_on_the_way_changes_nothing),
        cmocka_unit_test(cut_off_anywhere),
        cmocka_unit_test(a_header_that_says_something_else),
        cmocka_unit_test(a_file_of_another_training),
        cmocka_unit_test(a_changed_training_is_refused),
        cmocka_unit_test(a_changed_rate_is_said),
        cmocka_unit_test(flipped_bits_are_found),
        cmocka_unit_test(an_older_checkpoint_says_so),
        cmocka_unit_test(a_full_disk_leaves_the_old_file),
        cmocka_unit_test(a_place_that_cannot_be_written_is_found_at_once),
        cmocka_unit_test(killed_at_any_moment),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
