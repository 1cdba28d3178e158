#include "json.h"

#include <inttypes.h>
#include <math.h>

static void new_line(cli_json *json)
{
    neap_text_puts(json->out, "\n");
    neap_text_repeat(json->out, ' ', 2 * (size_t)json->depth);
}

/* Writes the comma after the previous value, if any, and the key. */
static void begin_value(cli_json *json, const char *key)
{
    if (json->depth > 0) {
        neap_text_puts(json->out, json->first ? "" : ",");
        new_line(json);
    }
    json->first = false;
    if (key) {
        neap_text_json_string(json->out, key);
        neap_text_puts(json->out, ": ");
    }
}

static void open_group(cli_json *json, const char *key, const char *bracket)
{
    begin_value(json, key);
    neap_text_puts(json->out, bracket);
    json->depth++;
    json->first = true;
}

static void close_group(cli_json *json, const char *bracket)
{
    json->depth--;
    if (!json->first)
        new_line(json);
    json->first = false;
    neap_text_puts(json->out, bracket);
    if (json->depth == 0)
        neap_text_puts(json->out, "\n");
}

void cli_json_begin(cli_json *json, neap_text *out)
{
    *json = (cli_json){.out = out, .first = true};
}

void cli_json_object(cli_json *json, const char *key)
{
    open_group(json, key, "{");
}

void cli_json_end_object(cli_json *json)
{
    close_group(json, "}");
}

void cli_json_array(cli_json *json, const char *key)
{
    open_group(json, key, "[");
}

void cli_json_end_array(cli_json *json)
{
    close_group(json, "]");
}

void cli_json_string(cli_json *json, const char *key, const char *text)
{
    begin_value(json, key);
    if (text)
        neap_text_json_string(json->out, text);
    else
        neap_text_puts(json->out, "null");
}

void cli_json_integer(cli_json *json, const char *key, int64_t number)
{
    begin_value(json, key);
    neap_text_printf(json->out, "%" PRId64, number);
}

void cli_json_size(cli_json *json, const char *key, int64_t bytes)
{
    if (bytes < 0)
        cli_json_null(json, key);
    else
        cli_json_integer(json, key, bytes);
}

void cli_json_real(cli_json *json, const char *key, double number)
{
    begin_value(json, key);
    if (isfinite(number))
        neap_text_double(json->out, number);
    else
        neap_text_puts(json->out, "null");
}

void cli_json_bool(cli_json *json, const char *key, bool truth)
{
    begin_value(json, key);
    neap_text_puts(json->out, truth ? "true" : "false");
}

void cli_json_null(cli_json *json, const char *key)
{
    begin_value(json, key);
    neap_text_puts(json->out, "null");
}

void cli_json_integers(cli_json *json, const char *key, const int64_t *items, size_t count)
{
    begin_value(json, key);
    neap_text_puts(json->out, "[");
    for (size_t i = 0; i < count; i++)
        neap_text_printf(json->out, "%s%" PRId64, i ? ", " : "", items[i]);
    neap_text_puts(json->out, "]");
}
