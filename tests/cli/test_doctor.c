/* neap doctor and neap --version: what works on this machine, and what is built in. */

#include "run_command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <neap/components.h>
#include <neap/version.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The status of a check in the JSON text: it must be this one. */
static void expect_status(const char *json, const char *check, const char *status)
{
    char name[64], line[64];
    snprintf(name, sizeof name, "\"name\": \"%s\"", check);
    snprintf(line, sizeof line, "\"status\": \"%s\"", status);
    const char *at = strstr(json, name);
    if (!at)
        fail_msg("no check %s in\n%s", check, json);
    const char *found = strstr(at, "\"status\": ");
    assert_non_null(found);
    if (strncmp(found, line, strlen(line)) != 0)
        fail_msg("%s: %.*s, not %s", check, (int)strcspn(found, "\n"), found, status);
}

static void run_doctor(const char *environment, run_result *result)
{
    const run_options options = {.environment = environment};
    run_line(NEAP_CLI, "doctor --json", &options, result);
    assert_int_equal(result->code, 0);
    assert_string_equal(result->err, "");
    assert_non_null(strstr(result->out, "\"works\": true"));
}

static void what_is_built_in_works(void **state)
{
    (void)state;
    run_result result;
    run_doctor("NEAP_CUDA_PATH=none", &result);
    expect_status(result.out, "planning", "ok");
    expect_status(result.out, "memory", "ok");
    expect_status(result.out, "threads", "ok");
    expect_status(result.out, "kernels", NEAP_HAS_ONEDNN ? "ok" : "missing");
    expect_status(result.out, "solver", NEAP_HAS_HIGHS ? "ok" : "missing");
    expect_status(result.out, "PNG", NEAP_HAS_PNG ? "ok" : "missing");
    expect_status(result.out, "ONNX", NEAP_HAS_ONNX ? "ok" : "missing");
    expect_status(result.out, "terminal", "ok");
    static const char *const NONE[] = {"GPU", "driver", "NVRTC", "cuDNN", "cuBLASLt", "NVML"};
    for (size_t i = 0; i < sizeof NONE / sizeof NONE[0]; i++)
        expect_status(result.out, NONE[i], "missing");
    run_result_clear(&result);
}

/* Each has a remedy, and nothing of it is essential. */
static void what_is_missing_is_said(void **state)
{
    (void)state;
    run_result result;
    run_doctor("XDG_CACHE_HOME=/proc/nowhere", &result);
    expect_status(result.out, "cache", "failed");
    assert_non_null(strstr(result.out, "\"remedy\": \"set XDG_CACHE_HOME to a folder"));
    run_result_clear(&result);
    if (getenv("TMPDIR"))
        return; /* it is passed on, and comes first */
    run_doctor("TMPDIR=/nowhere", &result);
    expect_status(result.out, "PNG", NEAP_HAS_PNG ? "failed" : "missing");
    expect_status(result.out, "ONNX", NEAP_HAS_ONNX ? "failed" : "missing");
    run_result_clear(&result);
}

static void a_line_for_each_check(void **state)
{
    (void)state;
    run_result result;
    const run_options no_gpu = {.environment = "NEAP_CUDA_PATH=none"};
    run_line(NEAP_CLI, "doctor", &no_gpu, &result);
    assert_int_equal(result.code, 0);
    static const char *const PARTS[] = {"\nplanning  ok ", "\nmemory    ok ", "\ndriver    missing",
                                        " To do: "};
    for (size_t i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++)
        if (!strstr(result.out, PARTS[i]))
            fail_msg("no \"%s\" in\n%s", PARTS[i], result.out);
    run_result_clear(&result);
}

/* The first line is the version alone; then one line or more for each component. */
static void the_version_lists_what_is_built_in(void **state)
{
    (void)state;
    run_result result;
    run_line(NEAP_CLI, "--version", NULL, &result);
    assert_int_equal(result.code, 0);
    char line[64];
    snprintf(line, sizeof line, "neap %s\n", neap_version());
    assert_memory_equal(result.out, line, strlen(line));
    for (uint32_t i = 0; i < neap_components_count(); i++) {
        char version[NEAP_COMPONENT_VERSION];
        snprintf(line, sizeof line, "\n  %s ", neap_components_name(i));
        const char *row = strstr(result.out, line);
        if (!row)
            fail_msg("no %s in\n%s", neap_components_name(i), result.out);
        neap_components_version(i, version, sizeof version);
        assert_non_null(strstr(row, *version ? version : "not built in"));
        assert_true(*neap_components_purpose(i));
    }
    run_result_clear(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_built_in_works),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(a_line_for_each_check),
        cmocka_unit_test(the_version_lists_what_is_built_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
