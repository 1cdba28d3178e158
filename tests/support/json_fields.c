#include "json_fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *json_field(const char *json, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = strstr(json, key);
    if (!at)
        fail_msg("there is no %s in: %s", name, json);
    at += strlen(key);
    size_t length = strcspn(at, "\n");
    if (length > 0 && at[length - 1] == ',')
        length--;
    char *value = strndup(at, length);
    assert_non_null(value);
    return value;
}

double json_number(const char *json, const char *name)
{
    char *value = json_field(json, name), *end;
    double number = strtod(value, &end);
    if (end == value || *end)
        fail_msg("%s is no number: %s", name, value);
    free(value);
    return number;
}
