#include "report_block.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a key or position leads to inside of a value. */
static block_value inside(block_value value, const char *key, size_t length, const char *path)
{
    json_reader r;
    neap_diag diag = {0};
    json_string raw = {NULL, 0}, name;
    bool found = false;
    neap_json_init(&r, NULL, path, value.text, value.length, &diag);
    if (*value.text == '[') {
        size_t wanted = (size_t)strtoul(key, NULL, 10), at = 0;
        neap_json_begin_array(&r);
        while (!found && neap_json_next_item(&r)) {
            neap_json_skip(&r, &raw);
            found = at++ == wanted;
        }
    } else {
        neap_json_begin_object(&r);
        while (!found && neap_json_next_key(&r, &name)) {
            found = name.length == length && memcmp(name.text, key, length) == 0;
            neap_json_skip(&r, &raw);
        }
    }
    if (!found)
        fail_msg("the data has no %s: %s", path, diag.message);
    neap_json_clear(&r);
    return (block_value){raw.text, raw.length};
}

block_value block_at(const char *json, const char *path)
{
    block_value value = {json, strlen(json)};
    for (const char *key = path; *key;) {
        size_t length = strcspn(key, ".");
        value = inside(value, key, length, path);
        key += length + (key[length] == '.');
    }
    return value;
}

double block_number(const char *json, const char *path, double fallback)
{
    block_value value = block_at(json, path);
    return *value.text == 'n' ? fallback : strtod(value.text, NULL);
}

char *block_string(const char *json, const char *path)
{
    block_value value = block_at(json, path);
    if (*value.text == 'n')
        return NULL;
    json_reader r;
    neap_json_init(&r, NULL, path, value.text, value.length, NULL);
    json_string string = neap_json_text(&r);
    assert_int_equal(r.status, NEAP_OK);
    char *copy = strndup(string.text, string.length);
    assert_non_null(copy);
    neap_json_clear(&r);
    return copy;
}

block_column block_integers(const char *json, const char *path)
{
    block_value value = block_at(json, path);
    block_column column = {0, malloc((value.length + 1) * sizeof(int64_t))};
    json_reader r;
    neap_diag diag = {0};
    assert_non_null(column.items);
    neap_json_init(&r, NULL, path, value.text, value.length, &diag);
    neap_json_begin_array(&r);
    while (neap_json_next_item(&r))
        column.items[column.count++] = neap_json_i64(&r);
    if (r.status != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_json_clear(&r);
    return column;
}

size_t block_count(const char *json, const char *path)
{
    block_value value = block_at(json, path);
    json_reader r;
    size_t count = 0;
    neap_json_init(&r, NULL, path, value.text, value.length, NULL);
    neap_json_begin_array(&r);
    for (; neap_json_next_item(&r); count++)
        neap_json_skip(&r, NULL);
    assert_int_equal(r.status, NEAP_OK);
    neap_json_clear(&r);
    return count;
}

char *block_of_page(const char *html)
{
    static const char OPEN[] = "<script type=\"application/json\" id=\"neap-data\">";
    const char *begin = strstr(html, OPEN);
    assert_non_null(begin);
    begin += strlen(OPEN);
    const char *end = strstr(begin, "</script>");
    assert_non_null(end);
    assert_null(strstr(end, OPEN));
    char *copy = strndup(begin, (size_t)(end - begin));
    assert_non_null(copy);
    return copy;
}
