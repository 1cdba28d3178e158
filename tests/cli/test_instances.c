/*
 * Every graph in shared/instances, next to the project, is read and planned by store-all, and its
 * plan is checked.
 */

#include "run_command.h"
#include "settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static void plan_and_check(const char *path, const char *folder)
{
    char line[1024];
    run_result result;
    const run_options options = {.folder = folder};
    snprintf(line, sizeof line, "plan %s --method store-all --budget 100%% -o plan.json", path);
    run_line(NEAP_CLI, line, &options, &result);
    if (result.code != 0)
        fail_msg("%s: exit %d: %s", path, result.code, result.err);
    run_result_clear(&result);
    snprintf(line, sizeof line, "check %s plan.json", path);
    run_line(NEAP_CLI, line, &options, &result);
    if (result.code != 0 || strncmp(result.out, "accepted", 8) != 0)
        fail_msg("%s: exit %d: %s%s", path, result.code, result.out, result.err);
    run_result_clear(&result);
}

static void every_instance(void **state)
{
    (void)state;
    const char *instances = need_instances();
    DIR *entries = opendir(instances);
    assert_non_null(entries);
    char *folder = make_temporary_folder();
    int count = 0;
    for (struct dirent *entry; (entry = readdir(entries));)
        if (ends_with(entry->d_name, ".json")) {
            char *path = join_path(instances, entry->d_name);
            plan_and_check(path, folder);
            free(path);
            count++;
        }
    closedir(entries);
    remove_temporary_folder(folder);
    print_message("%d instances planned and checked\n", count);
    assert_true(count > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_instance)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
