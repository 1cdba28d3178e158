/*
 * json.h - writes JSON into a text, indented by two spaces per level.
 *
 * A key is NULL for an item of an array and for the outermost value. Strings and
 * numbers are written as by neap/text.h. What is not finite is null.
 */
#ifndef NEAP_CLI_JSON_H
#define NEAP_CLI_JSON_H

#include <neap/text.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct cli_json {
    neap_text *out;
    int depth;
    bool first; /* the innermost object or array is still empty */
} cli_json;

void cli_json_begin(cli_json *json, neap_text *out);
void cli_json_object(cli_json *json, const char *key);
void cli_json_end_object(cli_json *json);
void cli_json_array(cli_json *json, const char *key);
void cli_json_end_array(cli_json *json);

void cli_json_string(cli_json *json, const char *key, const char *text); /* NULL is null */
void cli_json_integer(cli_json *json, const char *key, int64_t number);
void cli_json_size(cli_json *json, const char *key, int64_t bytes); /* negative is null */
void cli_json_real(cli_json *json, const char *key, double number);
void cli_json_bool(cli_json *json, const char *key, bool truth);
void cli_json_null(cli_json *json, const char *key);
/* A list of numbers, on one line. */
void cli_json_integers(cli_json *json, const char *key, const int64_t *items, size_t count);

#endif
