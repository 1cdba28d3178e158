#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The length of the UTF-8 sequence at `text` (RFC 3629: no surrogates, nothing overlong), 0 if it
 * is none. */
static size_t sequence_length(const unsigned char *text)
{
    if (text[0] < 0x80)
        return 1;
    size_t length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc2 || text[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
        (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
        return 0;
    return length;
}

static void add_string(cli_buffer *out, const char *text)
{
    cli_buffer_text(out, "\"");
    while (*text) {
        size_t length = sequence_length((const unsigned char *)text);
        if (length == 0)
            cli_buffer_text(out, "\xef\xbf\xbd");
        else if (*text == '"' || *text == '\\')
            cli_buffer_print(out, "\\%c", *text);
        else if (*text == '\n')
            cli_buffer_text(out, "\\n");
        else if (*text == '\t')
            cli_buffer_text(out, "\\t");
        else if ((unsigned char)*text < 0x20 || *text == 0x7f)
            cli_buffer_print(out, "\\u%04x", (unsigned)*text);
        else
            cli_buffer_add(out, text, length);
        text += length ? length : 1;
    }
    cli_buffer_text(out, "\"");
}

static void new_line(cli_json *json)
{
    cli_buffer_text(json->out, "\n");
    cli_buffer_repeat(json->out, ' ', 2 * (size_t)json->depth);
}

/* What stands before a value: the comma after the last one, and its key. */
static void begin_value(cli_json *json, const char *key)
{
    if (json->depth > 0) {
        cli_buffer_text(json->out, json->first ? "" : ",");
        new_line(json);
    }
    json->first = false;
    if (key) {
        add_string(json->out, key);
        cli_buffer_text(json->out, ": ");
    }
}

static void open_group(cli_json *json, const char *key, const char *bracket)
{
    begin_value(json, key);
    cli_buffer_text(json->out, bracket);
    json->depth++;
    json->first = true;
}

static void close_group(cli_json *json, const char *bracket)
{
    json->depth--;
    if (!json->first)
        new_line(json);
    json->first = false;
    cli_buffer_text(json->out, bracket);
    if (json->depth == 0)
        cli_buffer_text(json->out, "\n");
}

void cli_json_begin(cli_json *json, cli_buffer *out)
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
        add_string(json->out, text);
    else
        cli_buffer_text(json->out, "null");
}

void cli_json_integer(cli_json *json, const char *key, int64_t number)
{
    begin_value(json, key);
    cli_buffer_print(json->out, "%" PRId64, number);
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
    if (!isfinite(number)) {
        cli_buffer_text(json->out, "null");
        return;
    }
    char digits[64];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, number);
        double same = strtod(digits, NULL);
        if (!(same < number) && !(same > number))
            break;
    }
    cli_buffer_text(json->out, digits);
}

void cli_json_bool(cli_json *json, const char *key, bool truth)
{
    begin_value(json, key);
    cli_buffer_text(json->out, truth ? "true" : "false");
}

void cli_json_null(cli_json *json, const char *key)
{
    begin_value(json, key);
    cli_buffer_text(json->out, "null");
}

void cli_json_integers(cli_json *json, const char *key, const int64_t *items, size_t count)
{
    begin_value(json, key);
    cli_buffer_text(json->out, "[");
    for (size_t i = 0; i < count; i++)
        cli_buffer_print(json->out, "%s%" PRId64, i ? ", " : "", items[i]);
    cli_buffer_text(json->out, "]");
}
