/* What each command does with good input, and with a budget that is too small. */

#include "golden.h"
#include "run_command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN(name) NEAP_SOURCE_DIR "/tests/cli/golden/" name ".txt"

/* Eight layers of one byte and one second each: small enough to follow by hand. */
#define CHAIN "chain --set layers=8 --device unit"

static const run_options IN_DATA = {.folder = NEAP_SOURCE_DIR "/tests/cli/data"};

static void check_lines(const char *const *lines, size_t count, const char *golden)
{
    transcript t = {0};
    for (size_t i = 0; i < count; i++)
        transcript_run(&t, NEAP_CLI, lines[i], &IN_DATA);
    transcript_check(&t, golden);
}

#define CHECK_LINES(lines, golden) check_lines(lines, sizeof lines / sizeof lines[0], golden)

static void plan(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "plan " CHAIN " --method store-all",
        "plan " CHAIN " --method store-all --json",
        "plan " CHAIN " --method sqrt --budget 80%",
        "plan " CHAIN " --method sqrt --budget 80% --json",
        "plan " CHAIN " --method set --option at=[3,6,8] --json",
        "plan tiny.json --method store-all --json",
        "plan tiny.json --method store-all --budget 150%",
        "plan tiny.json --method store-all -o -",
    };
    CHECK_LINES(LINES, GOLDEN("plan"));
}

static void chart(void **state)
{
    (void)state;
    static const char *const LINES[] = {"plan " CHAIN " --method sqrt --budget 80% --chart"};
    CHECK_LINES(LINES, GOLDEN("chart"));
}

/* Transfers to the host: plans, and what is short. */
static void offload(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "plan " CHAIN " --method offload-greedy --budget 6 --link 1B/s",
        "plan " CHAIN " --method offload-dp --budget 6 --link 1B/s --option slots=0 --json",
        "plan " CHAIN " --method offload --budget 4 --link 1B/s --duplex --json",
        "plan " CHAIN " --method offload --budget 8 --link 4B/s -o -",
        "plan " CHAIN " --method offload-dp --budget 6 --link 0.5B/s,0.75B/s --json",
        "plan " CHAIN " --method offload --budget 6",
        "plan " CHAIN " --method offload --budget 2 --link 1B/s",
        "plan " CHAIN " --method offload --budget 5 --link 1B/s --host-memory 2B",
        "plan " CHAIN " --method tflms --budget 6 --link 1B/s",
        "methods offload-dp",
    };
    CHECK_LINES(LINES, GOLDEN("offload"));
}

/* Values in pieces: the graph, plans for it, and whether the two belong together. */
static void split(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "graph tiny.json --split 80 -o -",
        "plan tiny.json --split 80 --method store-all -o -",
        "check tiny.json tiny.plan.json --split 80",
        "plan tiny.json --split 80 --keep h --method neap --json",
        "plan tiny.json --split 80 --keep h[3] --method neap",
        "graph tiny.json --split many",
    };
    CHECK_LINES(LINES, GOLDEN("split"));
}

static void check(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "check tiny.json tiny.plan.json",
        "check tiny.json tiny.plan.json --json",
        "check tiny.json tiny.plan.json --budget 4400",
        "check tiny.json tiny.plan.json --budget 4400 --json",
        "check tiny.json other.plan.json",
        "check tiny.json other.plan.json --any-graph",
        "check tiny.json too_early.plan.json",
        "check tiny.json over_budget.plan.json",
        "check tiny.json over_budget.plan.json --budget 100%",
        "check tiny.json offload.plan.json",
        "check tiny.json offload.plan.json --link 1MB/s --link-latency 10us",
        "check tiny.json offload.plan.json --link 1MB/s,2MB/s --duplex --host-memory 100",
        "check tiny.json tiny.json",
        "check tiny.plan.json tiny.json",
        "check tiny.json missing.json",
    };
    CHECK_LINES(LINES, GOLDEN("check"));
}

static void graph(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "graph " CHAIN,
        "graph " CHAIN " --json",
        "graph tiny.json",
        "graph tiny.json --json",
        "graph hostile_name.json",
        "graph hostile_name.json --json",
        "graph chain --set layers=1 --device unit -o -",
    };
    CHECK_LINES(LINES, GOLDEN("graph"));
}

static void compare_and_curve(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "compare " CHAIN " --budget 80% --method store-all,sqrt --json",
        "compare " CHAIN " --method store-all,sqrt --json",
        "curve " CHAIN " --method store-all,sqrt --budgets 60%,80%,100%",
        "curve " CHAIN " --method store-all,sqrt --points 12 --from 40%",
        "curve " CHAIN " --method sqrt --budgets 100% --json",
        "curve " CHAIN " --method pareto --budgets 100%,30%,50% --json",
    };
    CHECK_LINES(LINES, GOLDEN("compare"));
}

static void max_batch(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "max-batch alexnet --image 64 --device unit --budget 520MB --method sqrt --json",
        ("max-batch alexnet --image 64 --device flops --budget 520MB --method sqrt --json "
         "--extra-forward 0.1 --beyond 1"),
        "max-batch tiny.json --batch-of 2 --budget 5KiB --method store-all --json",
        "max-batch tiny.json --batch-of 2 --budget 4200 --method store-all --json",
        "max-batch tiny.json --batch-of 2 --budget 4200 --method store-all,sqrt",
        "max-batch resnet18 --budget 1MB --method greedy",
        ("plan alexnet --image 64 --device unit --budget 520MB --objective batch --method sqrt "
         "--json"),
        "plan tiny.json --budget 5KiB --objective batch --batch-of 2 --method store-all",
        "plan resnet18 --budget 1MB --objective batch --method greedy",
    };
    CHECK_LINES(LINES, GOLDEN("max_batch"));
}

/* The table: one row a method, the largest marked. */
static void max_batch_table(void **state)
{
    (void)state;
    run_result result;
    run_line(NEAP_CLI, "max-batch tiny.json --batch-of 2 --budget 5KiB --method store-all,sqrt",
             &IN_DATA, &result);
    assert_int_equal(result.code, 0);
    assert_string_equal(result.err, "");
    static const char *const PARTS[] = {
        "tiny\nlargest batch in 5.00 KiB, with at most 1 forward pass of extra time\n",
        "\nmethod       batch  to store-all     arena  overhead  proven  solved in\n",
        "\nstore-all *      5         1.00x  4.94 KiB    +0.00%  all  ",
        "\nsqrt             5         1.00x  4.94 KiB    +0.00%  all  ",
        "\nproven: the next batch is ruled out for this method, or for all. * the largest\n"};
    for (size_t i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++)
        if (!strstr(result.out, PARTS[i]))
            fail_msg("no \"%s\" in\n%s", PARTS[i], result.out);
    run_result_clear(&result);
}

/* The number after "key": in a JSON text. */
static double number_of(const char *json, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *found = strstr(json, quoted);
    assert_non_null(found);
    return strtod(found + strlen(quoted), NULL);
}

/* What max-batch finds, plan confirms: at that batch and not at the next. */
static void max_batch_agrees_with_plan(void **state)
{
    (void)state;
    run_result result;
    run_line(NEAP_CLI,
             "max-batch resnet18 --image 64 --budget 300MB --method greedy --json --extra-forward "
             "any",
             NULL, &result);
    assert_int_equal(result.code, 0);
    int batch = (int)number_of(result.out, "batch");
    run_result_clear(&result);
    for (int more = 0; more <= 1; more++) {
        char line[128];
        snprintf(line, sizeof line,
                 "plan resnet18 --image 64 --budget 300MB --method greedy --batch %d",
                 batch + more);
        run_line(NEAP_CLI, line, NULL, &result);
        assert_int_equal(result.code, more ? 3 : 0);
        run_result_clear(&result);
    }
}

static void infeasible(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "plan " CHAIN " --method store-all --budget 80%",
        "plan " CHAIN " --method sqrt --budget 1",
        "plan " CHAIN " --method sqrt --budget 1 --json",
        "plan " CHAIN " --budget 1",
        "compare " CHAIN " --budget 1 --method store-all,sqrt --json",
        "curve " CHAIN " --budgets 1,2 --method store-all,sqrt",
    };
    run_result result;
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++) {
        run_line(NEAP_CLI, LINES[i], NULL, &result);
        assert_int_equal(result.code, 3);
        assert_memory_equal(result.err, "neap: ", 6);
        assert_ptr_equal(strchr(result.err, '\n'), result.err + strlen(result.err) - 1);
        run_result_clear(&result);
    }
}

/* The message's advice is good advice. */
static void the_suggested_budget_works(void **state)
{
    (void)state;
    static const char *const MODELS[] = {CHAIN, "vgg16 --batch 2", "resnet18 --batch 2"};
    for (size_t i = 0; i < sizeof MODELS / sizeof MODELS[0]; i++) {
        char line[256];
        run_result result;
        snprintf(line, sizeof line, "plan %s --budget 2B --method sqrt --json", MODELS[i]);
        run_line(NEAP_CLI, line, NULL, &result);
        assert_int_equal(result.code, 3);
        const char *least = strstr(result.out, "\"floor_bytes\": ");
        assert_non_null(least);
        snprintf(line, sizeof line, "plan %s --budget %.*s --method sqrt", MODELS[i],
                 (int)strspn(least + 15, "0123456789"), least + 15);
        run_result_clear(&result);
        run_line(NEAP_CLI, line, NULL, &result);
        assert_int_equal(result.code, 3);
        const char *try = strstr(result.err, "; try ");
        assert_non_null(try);
        try += strlen("; try ");
        /* "--method X --budget SIZE", "--method X or --budget SIZE" or "--budget SIZE" */
        if (strstr(try, " or "))
            try = strstr(try, " or ") + strlen(" or ");
        size_t length = strcspn(try, "\n");
        snprintf(line, sizeof line, "plan %s %s%.*s", MODELS[i],
                 strstr(try, "--method") ? "" : "--method sqrt ", (int)length, try);
        run_result_clear(&result);
        run_line(NEAP_CLI, line, NULL, &result);
        if (result.code != 0)
            fail_msg("neap %s: %s", line, result.err);
        run_result_clear(&result);
    }
}

/* A bare number that is absurd as bytes. */
static void a_budget_without_a_unit(void **state)
{
    (void)state;
    run_result result;
    run_line(NEAP_CLI, "plan resnet18 --budget 50", NULL, &result);
    assert_int_equal(result.code, 2);
    assert_string_equal(result.err, "neap: --budget 50 is 50 bytes; did you mean 50% or 50GiB?\n");
    run_result_clear(&result);
    run_line(NEAP_CLI, "plan resnet18 --budget 50B", NULL, &result); /* said on purpose */
    assert_int_equal(result.code, 3);
    run_result_clear(&result);
}

static void a_stop_without_a_plan(void **state)
{
    (void)state;
    run_result result;
    run_line(NEAP_CLI, "plan resnet50 --batch 64 --budget 730MiB --time-limit 1ms", NULL, &result);
    assert_int_equal(result.code, 4);
    assert_non_null(strstr(result.err, "raise --time-limit"));
    run_result_clear(&result);
}

/* Nothing is planned or measured for a budget below what one op needs. */
static void a_hopeless_budget_is_answered_at_once(void **state)
{
    (void)state;
    static const char NEEDS[] = " is below 526 MiB, which op \"layer1.2.bn3.bw\" needs whatever is "
                                "recomputed";
    static const char *const LINES[] = {
        "plan resnet50 --batch 64 --budget 512MiB",
        "compare resnet50 --batch 64 --budget 512MiB",
        "curve resnet50 --batch 64 --budgets 256MiB,512MiB",
    };
    run_result result;
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++) {
        run_line(NEAP_CLI, LINES[i], NULL, &result);
        assert_int_equal(result.code, 3);
        assert_non_null(strstr(result.err, NEEDS));
        run_result_clear(&result);
    }
    run_line(NEAP_CLI, "train resnet50 --budget 64MiB --profile-cache none", NULL, &result);
    assert_int_equal(result.code, 3);
    assert_non_null(strstr(result.err, "needs whatever is recomputed"));
    run_result_clear(&result);
}

static void auto_takes_store_all_where_it_fits_and_another_where_not(void **state)
{
    (void)state;
    run_result result;
    run_line(NEAP_CLI, "plan " CHAIN " --json", NULL, &result);
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.out, "\"overhead\": 0,"));
    run_result_clear(&result);
    run_line(NEAP_CLI, "plan " CHAIN " --budget 80% --json", NULL, &result);
    assert_int_equal(result.code, 0);
    assert_null(strstr(result.out, "\"store-all\""));
    run_result_clear(&result);
}

static void a_plan_fits_its_budget_and_the_judge_agrees(void **state)
{
    (void)state;
    char *folder = make_temporary_folder();
    const run_options options = {.folder = folder};
    run_result plan_result, verdict;
    run_line(NEAP_CLI, "plan resnet50 --batch 4 --budget 80% --method sqrt --json -o plan.json",
             &options, &plan_result);
    assert_int_equal(plan_result.code, 0);
    run_line(NEAP_CLI, "check resnet50 plan.json --batch 4 --json", &options, &verdict);
    assert_int_equal(verdict.code, 0);
    static const char *const KEYS[] = {"budget_bytes", "peak_bytes",     "arena_bytes",
                                       "time",         "recomputed_ops", "base_time"};
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++)
        assert_true(number_of(plan_result.out, KEYS[i]) >= number_of(verdict.out, KEYS[i]) &&
                    number_of(plan_result.out, KEYS[i]) <= number_of(verdict.out, KEYS[i]));
    assert_true(number_of(verdict.out, "arena_bytes") <= number_of(verdict.out, "budget_bytes"));
    run_result_clear(&plan_result);
    run_result_clear(&verdict);
    remove_temporary_folder(folder);
}

static void percentages_are_of_the_natural_peak(void **state)
{
    (void)state;
    run_result whole, half;
    run_line(NEAP_CLI, "plan vgg16 --batch 2 --budget 100% --json", NULL, &whole);
    run_line(NEAP_CLI, "plan vgg16 --batch 2 --budget 250.5% --json", NULL, &half);
    assert_int_equal(whole.code, 0);
    assert_int_equal(half.code, 0);
    int64_t natural = (int64_t)number_of(whole.out, "natural_peak_bytes");
    assert_int_equal((int64_t)number_of(whole.out, "budget_bytes"), natural);
    assert_int_equal((int64_t)number_of(half.out, "budget_bytes"),
                     (int64_t)((double)natural * 2.505));
    run_result_clear(&whole);
    run_result_clear(&half);
}

static void models_take_their_options(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "graph unet --batch 1 --image 64x96 --json",
        "graph gpt2 --batch 1 --seq 32 --set layers=2 --dtype bf16 --json",
        "graph resnet18 --batch=2 --dtype=tf32 --optimizer=adam --kernels=torch --json",
        "graph resnet18 --batch 2 --device mygpu --devices mine.devices.json --json",
        "plan resnet18 --batch 2 --device h200 --link device --host-memory 1GiB --json",
        "plan resnet18 --batch 2 --link 12.2GB/s,13e9 --duplex --link-latency 10us --json",
        "plan resnet18 --batch 2 --time-limit 1min --threads 1 --seed 7 --alignment 256 --json",
    };
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++) {
        run_result result;
        run_line(NEAP_CLI, LINES[i], &IN_DATA, &result);
        if (result.code != 0)
            fail_msg("neap %s: %s", LINES[i], result.err);
        assert_string_equal(result.err, "");
        run_result_clear(&result);
    }
}

static void devices_come_from_the_environment_too(void **state)
{
    (void)state;
    run_result result;
    const run_options options = {.folder = NEAP_SOURCE_DIR "/tests/cli/data",
                                 .environment = "NEAP_DEVICES=:mine.devices.json:"};
    run_line(NEAP_CLI, "devices mygpu", &options, &result);
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.out, "a card of my own"));
    run_result_clear(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan),
        cmocka_unit_test(chart),
        cmocka_unit_test(offload),
        cmocka_unit_test(split),
        cmocka_unit_test(check),
        cmocka_unit_test(graph),
        cmocka_unit_test(compare_and_curve),
        cmocka_unit_test(max_batch),
        cmocka_unit_test(max_batch_table),
        cmocka_unit_test(max_batch_agrees_with_plan),
        cmocka_unit_test(infeasible),
        cmocka_unit_test(the_suggested_budget_works),
        cmocka_unit_test(a_budget_without_a_unit),
        cmocka_unit_test(a_stop_without_a_plan),
        cmocka_unit_test(a_hopeless_budget_is_answered_at_once),
        cmocka_unit_test(auto_takes_store_all_where_it_fits_and_another_where_not),
        cmocka_unit_test(a_plan_fits_its_budget_and_the_judge_agrees),
        cmocka_unit_test(percentages_are_of_the_natural_peak),
        cmocka_unit_test(models_take_their_options),
        cmocka_unit_test(devices_come_from_the_environment_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
