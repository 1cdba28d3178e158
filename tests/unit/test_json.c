/*
 * The JSON reader: the grammar, every truncation, numbers to the last bit, strings to the last
 * byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "random_plan.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- Helpers ---- */

/* A reader over a copy that ends where the text does, so that a sanitizer sees a read beyond it. */
typedef struct opened {
    json_reader r;
    neap_diag diag;
    char *copy;
} opened;

static void open_bytes(opened *o, const char *text, size_t length)
{
    *o = (opened){.copy = malloc(length + (length == 0))};
    assert_non_null(o->copy);
    memcpy(o->copy, text, length);
    neap_json_init(&o->r, NULL, "t", o->copy, length, &o->diag);
}

static void open_text(opened *o, const char *text)
{
    open_bytes(o, text, strlen(text));
}

static void close_text(opened *o)
{
    neap_json_clear(&o->r);
    free(o->copy);
}

/* Whether the text is one JSON value; `message` (NULL: any) is what is said if not. */
static bool parses(const char *text, size_t length, const char *message)
{
    opened o;
    open_bytes(&o, text, length);
    neap_json_skip(&o.r, NULL);
    neap_json_end(&o.r);
    bool ok = neap_json_ok(&o.r);
    if (!ok) {
        assert_int_equal(o.r.status, NEAP_INVALID);
        assert_int_equal(o.diag.status, NEAP_INVALID);
        assert_int_equal(strncmp(o.diag.message, "t:", 2), 0);
        assert_null(strchr(o.diag.message, '\n'));
        if (message)
            assert_string_equal(o.diag.message, message);
    }
    close_text(&o);
    return ok;
}

static uint64_t random_bits(random_source *random)
{
    return (uint64_t)random_below(random, UINT32_MAX) << 32 | random_below(random, UINT32_MAX);
}

/* ---- The grammar ---- */

static void test_accepts(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0",
        "-0",
        "1",
        "-1",
        "10",
        "1.0",
        "0.5",
        "1e5",
        "1E5",
        "1e+5",
        "1e-5",
        "-0.0e-0",
        "1e400", /* by its form a number; reading it as a double is another matter */
        "123456789012345678901234567890",
        "true",
        "false",
        "null",
        "\"\"",
        "\"a\"",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\"",
        "\"\\ud83d\\ude00\"",
        "\"\x7f\"",
        "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "[1]",
        "[1,2]",
        "[[],{}]",
        "{\"a\":1}",
        "{\"a\":1,\"b\":[2,{\"c\":null}]}",
        "{\"a\":1,\"a\":2}", /* what a repeated key means is the caller's to say */
        " \t\r\n1 \t\r\n",
        " { \"a\" : [ 1 , 2 ] } ",
        "\xef\xbb\xbf{}", /* a byte-order mark */
        "\xef\xbb\xbf \"\xef\xbb\xbf\"",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (!parses(texts[i], strlen(texts[i]), NULL))
            fail_msg("refused: %s", texts[i]);
}

static void test_rejects(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "t:1:1: the text ends where a value was expected; the file is cut off"},
        {"  ", "t:1:3: the text ends where a value was expected; the file is cut off"},
        {"nul", "t:1:1: expected a value"},
        {"nule", "t:1:1: expected a value"},
        {"tru", "t:1:1: expected true or false"},
        {"True", "t:1:1: expected a value"},
        {"NaN", "t:1:1: expected a finite number, not NaN or Infinity"},
        {"Infinity", "t:1:1: expected a finite number, not NaN or Infinity"},
        {"-Infinity", "t:1:1: expected a finite number, not NaN or Infinity"},
        {"nan", "t:1:1: expected a value"},
        {"inf", "t:1:1: expected a value"},
        {"01", "t:1:1: a number may not have leading zeros"},
        {"-01", "t:1:1: a number may not have leading zeros"},
        {"00", "t:1:1: a number may not have leading zeros"},
        {"-", "t:1:1: digits must follow the minus sign"},
        {"--1", "t:1:1: digits must follow the minus sign"},
        {"- 1", "t:1:1: digits must follow the minus sign"},
        {"+1", "t:1:1: expected a value"},
        {".5", "t:1:1: expected a value"},
        {"1.", "t:1:1: digits must follow the decimal point"},
        {"1.e5", "t:1:1: digits must follow the decimal point"},
        {"1e", "t:1:1: digits must follow the exponent"},
        {"1e+", "t:1:1: digits must follow the exponent"},
        {"1e5.5", "t:1:4: unexpected text after the end of the object"},
        {"0x10", "t:1:2: unexpected text after the end of the object"},
        {"1,5", "t:1:2: unexpected text after the end of the object"},
        {"1 2", "t:1:3: unexpected text after the end of the object"},
        {"truefalse", "t:1:5: unexpected text after the end of the object"},
        {"[1]]", "t:1:4: unexpected text after the end of the object"},
        {"{}x", "t:1:3: unexpected text after the end of the object"},
        {"[1 2]", "t:1:4: expected ',' or ']'"},
        {"[1;2]", "t:1:3: expected ',' or ']'"},
        {"[1}", "t:1:3: expected ',' or ']'"},
        {"[1,]", "t:1:4: remove the comma before ']'"},
        {"[,1]", "t:1:2: expected a value"},
        {"[1,,2]", "t:1:4: expected a value"},
        {"{\"a\":1,}", "t:1:8: remove the comma before '}'"},
        {"{,}", "t:1:2: expected a string"},
        {"{a:1}", "t:1:2: expected a string"},
        {"{'a':1}", "t:1:2: expected a string"},
        {"{1:1}", "t:1:2: expected a string"},
        {"{\"a\"}", "t:1:5: expected ':'"},
        {"{\"a\" 1}", "t:1:6: expected ':'"},
        {"{\"a\":}", "t:1:6: expected a value"},
        {"{\"a\":1 \"b\":2}", "t:1:8: expected ',' or '}'"},
        {"{\"a\":1]", "t:1:7: expected ',' or '}'"},
        {"[1\n,2\n,\n  x]", "t:4:3: expected a value"},
        {"// no\n1", "t:1:1: expected a value"},
        {"\xef\xbb\xbf[x]", "t:1:2: expected a value"}, /* columns as an editor counts them */
        {"\xef\xbb\xbf\xef\xbb\xbf[]", "t:1:1: expected a value"},
        {"\xef\xbb", "t:1:1: expected a value"},
        {"\xff\xfe{", "t:1:1: the text is in UTF-16; save it as UTF-8"},
        {"\xfe\xff{", "t:1:1: the text is in UTF-16; save it as UTF-8"},
        {"\"abc", "t:1:5: the text ends inside a string; the file is cut off"},
        {"\"a\\", "t:1:4: unknown escape in a string"},
        {"\"\\x41\"", "t:1:3: unknown escape in a string"},
        {"\"\\U0041\"", "t:1:3: unknown escape in a string"},
        {"\"\\u004\"", "t:1:7: four hexadecimal digits must follow \\u"},
        {"\"\\u00g0\"", "t:1:6: four hexadecimal digits must follow \\u"},
        {"\"\\ud800\"", "t:1:8: the second half of a surrogate pair is missing"},
        {"\"\\ud800x\"", "t:1:8: the second half of a surrogate pair is missing"},
        {"\"\\ud800\\n\"", "t:1:8: the second half of a surrogate pair is missing"},
        {"\"\\ud800\\u0041\"",
         "t:1:14: the second half of a surrogate pair must be \\udc00 to \\udfff"},
        {"\"\\ud800\\ud800\"",
         "t:1:14: the second half of a surrogate pair must be \\udc00 to \\udfff"},
        {"\"\\ud800\\ue000\"",
         "t:1:14: the second half of a surrogate pair must be \\udc00 to \\udfff"},
        {"\"\\udc00\"",
         "t:1:8: a surrogate needs its other half: \\ud800 to \\udbff, then \\udc00 to \\udfff"},
        {"\"\\udfff\\ud800\"",
         "t:1:8: a surrogate needs its other half: \\ud800 to \\udbff, then \\udc00 to \\udfff"},
        {"\"\\u0000\"", "t:1:8: a string may not contain a NUL"},
        {"\"a\tb\"", "t:1:3: a control character in a string must be written \\u0009"},
        {"\"a\nb\"", "t:1:3: a control character in a string must be written \\u000a"},
        {"\"\\n\x1f\"", "t:1:4: a control character in a string must be written \\u001f"},
        {"\"\xff\"", "t:1:2: a string is not valid UTF-8"},
        {"\"\\n\xc3\"", "t:1:4: a string is not valid UTF-8"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        if (parses(cases[i].text, strlen(cases[i].text), cases[i].message))
            fail_msg("accepted: %s", cases[i].text);
}

static void test_rejects_nul_bytes(void **state)
{
    (void)state;
    assert_false(parses("\0", 1, NULL));
    assert_false(parses("{\0}\0", 4, "t:1:1: the text is in UTF-16; save it as UTF-8"));
    assert_false(parses("\0{\0}", 4, "t:1:1: the text is in UTF-16; save it as UTF-8"));
    assert_false(parses("1\0", 2, "t:1:2: unexpected text after the end of the object"));
    assert_false(
        parses("\"a\0\"", 4, "t:1:3: a control character in a string must be written \\u0000"));
    assert_false(parses("[1,\0]", 5, NULL));
    assert_false(parses("{\"a\":1}\0{}", 10, NULL));
}

/* Read field by field, as the readers of files do. */
static void read_sample(json_reader *r)
{
    json_string key;
    neap_json_begin_object(r);
    while (neap_json_next_key(r, &key)) {
        if (neap_json_key_is(key, "text"))
            neap_json_text(r);
        else if (neap_json_key_is(key, "whole"))
            neap_json_i64(r);
        else if (neap_json_key_is(key, "real"))
            neap_json_double(r);
        else if (neap_json_key_is(key, "id"))
            neap_json_u32(r, 100);
        else if (neap_json_key_is(key, "flag"))
            neap_json_bool(r);
        else if (neap_json_key_is(key, "list")) {
            neap_json_begin_array(r);
            while (neap_json_next_item(r))
                neap_json_i64(r);
        } else
            neap_json_skip(r, NULL);
    }
    neap_json_end(r);
}

static const char sample[] =
    "{\"text\": \"a\\u00e9\\ud83d\\ude00\xc3\xa9\\n\", \"whole\": -12e2, \"real\": 0.1250e-3,\n"
    " \"id\": 7, \"flag\": true, \"list\": [1, 2.0, 30e0], \"other\": {\"a\": [null, false, {}, "
    "\"\"]}}";

static void test_every_truncation_is_refused(void **state)
{
    (void)state;
    opened o;
    size_t length = sizeof sample - 1;
    open_bytes(&o, sample, length);
    read_sample(&o.r);
    assert_string_equal(o.diag.message, "");
    assert_true(neap_json_ok(&o.r));
    close_text(&o);
    for (size_t cut = 0; cut < length; cut++) {
        assert_false(parses(sample, cut, NULL));
        open_bytes(&o, sample, cut);
        read_sample(&o.r);
        assert_int_equal(o.r.status, NEAP_INVALID);
        close_text(&o);
    }
}

/* No byte of the sample may be replaced by a NUL, a quote or a bracket and crash the reader. */
static void test_every_byte_damaged(void **state)
{
    (void)state;
    static const char damage[] = "\0\"\\{}[]:,0-e.u\xff\n ";
    char text[sizeof sample];
    for (size_t i = 0; i < sizeof sample - 1; i++)
        for (size_t k = 0; k < sizeof damage - 1; k++) {
            memcpy(text, sample, sizeof sample);
            text[i] = damage[k];
            opened o;
            open_bytes(&o, text, sizeof sample - 1);
            read_sample(&o.r);
            assert_true(neap_json_ok(&o.r) || o.r.status == NEAP_INVALID);
            assert_true(neap_json_ok(&o.r) == (o.diag.message[0] == '\0'));
            close_text(&o);
        }
}

static void check_depth(size_t depth, bool accepted)
{
    static const char *const shapes[][3] = {{"[", "1", "]"}, {"{\"a\":", "{}", "}"}};
    for (size_t s = 0; s < COUNT_OF(shapes); s++) {
        char text[8192] = "";
        size_t length = 0, deeper = s; /* the innermost {} is one more */
        for (size_t i = 0; i < depth - deeper; i++)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s", shapes[s][0]);
        length += (size_t)snprintf(text + length, sizeof text - length, "%s", shapes[s][1]);
        for (size_t i = 0; i < depth - deeper; i++)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s", shapes[s][2]);
        assert_true(parses(text, length, NULL) == accepted);
    }
}

static void test_depth(void **state)
{
    (void)state;
    check_depth(1, true);
    check_depth(512, true);
    check_depth(513, false);
    check_depth(1000, false);
    char *open_only = malloc(1000000);
    assert_non_null(open_only);
    memset(open_only, '[', 1000000);
    assert_false(parses(open_only, 1000000, "t:1:513: nested more than 512 levels deep"));
    free(open_only);
}

static void test_depth_is_given_back(void **state)
{
    (void)state;
    char text[6 * 1000 + 3] = "[", *end = text + 1;
    for (int i = 0; i < 1000; i++, end += 6)
        memcpy(end, i ? ",[[1]]" : "[[[1]]", 6);
    memcpy(end, "]]", 2);
    assert_true(parses(text, (size_t)(end - text) + 2, NULL));
}

/* ---- The interface ---- */

static void test_errors_are_sticky(void **state)
{
    (void)state;
    opened o;
    json_string key = {"untouched", 9}, raw;
    uint32_t seen = 0;
    open_text(&o, "[x, 5, true, \"a\", {}, []]");
    assert_true(neap_json_begin_array(&o.r));
    assert_true(neap_json_next_item(&o.r));
    assert_int_equal(neap_json_i64(&o.r), 0);
    assert_false(neap_json_ok(&o.r));
    char first[NEAP_DIAG_CAPACITY];
    strcpy(first, o.diag.message);
    assert_string_equal(first, "t:1:2: expected a number");
    assert_false(neap_json_next_item(&o.r));
    assert_int_equal(neap_json_i64(&o.r), 0);
    assert_int_equal(neap_json_u32(&o.r, 9), 0);
    assert_true(neap_json_double(&o.r) == 0);
    assert_false(neap_json_bool(&o.r));
    assert_int_equal(neap_json_text(&o.r).length, 0);
    assert_false(neap_json_begin_object(&o.r));
    assert_false(neap_json_begin_array(&o.r));
    assert_false(neap_json_next_key(&o.r, &key));
    assert_false(neap_json_peek_real(&o.r));
    assert_false(neap_json_peek_null(&o.r));
    neap_json_skip(&o.r, &raw);
    assert_int_equal(raw.length, 0);
    neap_json_once(&o.r, &seen, 1, "a");
    neap_json_once(&o.r, &seen, 1, "a");
    neap_json_end(&o.r);
    assert_false(neap_json_fail(&o.r, "another"));
    assert_string_equal(o.diag.message, first);
    close_text(&o);
}

static void test_without_a_diagnostic(void **state)
{
    (void)state;
    json_reader r;
    neap_json_init(&r, NULL, "t", "[}", 2, NULL);
    neap_json_skip(&r, NULL);
    assert_int_equal(r.status, NEAP_INVALID);
    neap_json_clear(&r);
}

static void test_wrong_types(void **state)
{
    (void)state;
    opened o;
    open_text(&o, "\"1\"");
    neap_json_i64(&o.r);
    assert_string_equal(o.diag.message, "t:1:1: expected a number");
    close_text(&o);
    open_text(&o, " 1");
    neap_json_text(&o.r);
    assert_string_equal(o.diag.message, "t:1:2: expected a string");
    close_text(&o);
    open_text(&o, "1");
    neap_json_bool(&o.r);
    assert_string_equal(o.diag.message, "t:1:1: expected true or false");
    close_text(&o);
    open_text(&o, "[]");
    neap_json_begin_object(&o.r);
    assert_string_equal(o.diag.message, "t:1:1: expected an object '{'");
    close_text(&o);
    open_text(&o, "{}");
    neap_json_begin_array(&o.r);
    assert_string_equal(o.diag.message, "t:1:1: expected an array '['");
    close_text(&o);
    open_text(&o, "");
    neap_json_begin_object(&o.r);
    assert_string_equal(
        o.diag.message,
        "t:1:1: the text ends where an object '{' was expected; the file is cut off");
    close_text(&o);
}

static void test_peeking(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool real, null;
    } cases[] = {
        {"1", false, false},    {"-1", false, false},    {" 1.0", true, false},
        {"1e0", true, false},   {"-1E0", true, false},   {"null", false, true},
        {"\"\"", false, false}, {"[1.5]", false, false}, {"true", false, false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        opened o;
        open_text(&o, cases[i].text);
        assert_true(neap_json_peek_real(&o.r) == cases[i].real);
        assert_true(neap_json_peek_null(&o.r) == cases[i].null);
        neap_json_skip(&o.r, NULL); /* nothing was consumed */
        neap_json_end(&o.r);
        assert_true(neap_json_ok(&o.r));
        close_text(&o);
    }
}

static void test_skip_gives_the_text(void **state)
{
    (void)state;
    static const char *const values[] = {
        "1.50", "\"a\\u0041\"", "true",  "null",       "[ 1, {\"a\" : 2} ]",
        "{ }",  "-0.0",         "1e400", "{\"x\":[]}",
    };
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        char text[64];
        opened o;
        json_string raw;
        snprintf(text, sizeof text, "[ %s , 7]", values[i]);
        open_text(&o, text);
        neap_json_begin_array(&o.r);
        assert_true(neap_json_next_item(&o.r));
        neap_json_skip(&o.r, &raw);
        assert_int_equal(raw.length, strlen(values[i]));
        assert_memory_equal(raw.text, values[i], raw.length);
        assert_true(neap_json_next_item(&o.r));
        assert_int_equal(neap_json_i64(&o.r), 7);
        assert_false(neap_json_next_item(&o.r));
        neap_json_end(&o.r);
        assert_true(neap_json_ok(&o.r));
        close_text(&o);
    }
}

static void test_once(void **state)
{
    (void)state;
    opened o;
    json_string key;
    uint32_t seen = 0;
    open_text(&o, "{\"a\": 1,\n \"b\": 2, \"a\": 3}");
    neap_json_begin_object(&o.r);
    while (neap_json_next_key(&o.r, &key)) {
        neap_json_once(&o.r, &seen, neap_json_key_is(key, "a") ? 1 : 2,
                       neap_json_key_is(key, "a") ? "a" : "b");
        neap_json_i64(&o.r);
    }
    assert_string_equal(o.diag.message, "t:2:14: \"a\" is given twice");
    assert_int_equal(seen, 3);
    close_text(&o);
}

static void test_key_is(void **state)
{
    (void)state;
    json_string key = {"bytes_moved", 5};
    assert_true(neap_json_key_is(key, "bytes"));
    assert_false(neap_json_key_is(key, "byte"));
    assert_false(neap_json_key_is(key, "bytes_moved"));
    assert_false(neap_json_key_is(key, "bytez"));
    assert_true(neap_json_key_is((json_string){"", 0}, ""));
}

/* ---- Whole numbers ---- */

static bool read_i64(const char *text, int64_t *value, char *message)
{
    opened o;
    open_text(&o, text);
    *value = neap_json_i64(&o.r);
    neap_json_end(&o.r);
    bool ok = neap_json_ok(&o.r);
    strcpy(message, o.diag.message);
    close_text(&o);
    return ok;
}

static void test_i64(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"-0", 0},
        {"7", 7},
        {"-7", -7},
        {"9223372036854775807", INT64_MAX},
        {"9223372036854775806", INT64_MAX - 1},
        {"-9223372036854775807", -INT64_MAX},
        {"1e3", 1000},
        {"1E+3", 1000},
        {"4.0", 4},
        {"-4.0", -4},
        {"0.0", 0},
        {"-0.0", 0},
        {"1.5e1", 15},
        {"2500e-2", 25},
        {"24e9", 24000000000},
        {"9007199254740991.0", 9007199254740991},
        {"9.007199254740992e15", 9007199254740992},
        {"0e99", 0},
        {"0.000e-99", 0},
        {"120.50e1", 1205},
        {"1000e-3", 1},
    };
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"9223372036854775808", "t:1:1: number too large: at most 9223372036854775807"},
        {"9223372036854775817", "t:1:1: number too large: at most 9223372036854775807"},
        {"18446744073709551616", "t:1:1: number too large: at most 9223372036854775807"},
        {"99999999999999999999", "t:1:1: number too large: at most 9223372036854775807"},
        {"0.5", "t:1:1: expected a whole number"},
        {"-1.25", "t:1:1: expected a whole number"},
        {"1e-1", "t:1:1: expected a whole number"},
        {"1e-400", "t:1:1: expected a whole number"},
    };
    int64_t value;
    char message[NEAP_DIAG_CAPACITY];
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        if (!read_i64(good[i].text, &value, message))
            fail_msg("%s: %s", good[i].text, message);
        assert_int_equal(value, good[i].value);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_false(read_i64(bad[i].text, &value, message));
        assert_int_equal(value, 0);
        assert_string_equal(message, bad[i].message);
    }
}

/* A number that cannot be had exactly is refused, never changed. */
static void test_i64_is_never_another_number(void **state)
{
    (void)state;
    int64_t value;
    char message[NEAP_DIAG_CAPACITY];
    static const struct {
        const char *text;
        int64_t value; /* 0: not whole, or too large */
    } cases[] = {
        {"9007199254740993.0", 9007199254740993},
        {"9007199254740993e0", 9007199254740993},
        {"-9007199254740993.0", -9007199254740993},
        {"9223372036854775807.0", INT64_MAX},
        {"1e18", 1000000000000000000},
        {"9007199254740991.4", 0},
        {"1.00000000000000000001", 0},
        {"9223372036854775808.0", 0},
        {"1e19", 0},
        {"1e400", 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        if (read_i64(cases[i].text, &value, message) && value != cases[i].value)
            fail_msg("%s is read as %lld", cases[i].text, (long long)value);
}

static void test_i64_random(void **state)
{
    (void)state;
    random_source random = {20240601};
    print_message("seed %llu\n", (unsigned long long)random.state);
    char text[32], message[NEAP_DIAG_CAPACITY];
    for (int i = 0; i < 20000; i++) {
        int64_t number = (int64_t)(random_bits(&random) >> (1 + random_below(&random, 62))), value;
        number = random_below(&random, 2) ? number : -number;
        snprintf(text, sizeof text, "%lld", (long long)number);
        assert_true(read_i64(text, &value, message));
        assert_int_equal(value, number);
    }
}

static void test_u32(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t most;
        const char *message; /* NULL: fine */
    } cases[] = {
        {"0", 0, NULL},
        {"1", 0, "t:1:1: expected a number from 0 to 0, not 1"},
        {"4294967294", UINT32_MAX - 1, NULL},
        {"4294967295", UINT32_MAX, NULL},
        {"4294967295", UINT32_MAX - 1,
         "t:1:1: expected a number from 0 to 4294967294, not 4294967295"},
        {"4294967296", UINT32_MAX, "t:1:1: expected a number from 0 to 4294967295, not 4294967296"},
        {" -1", 5, "t:1:2: expected a number from 0 to 5, not -1"},
        {"3e0", 5, NULL},
        {"1.5", 5, "t:1:1: expected a whole number"},
        {"\"1\"", 5, "t:1:1: expected a number"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        opened o;
        open_text(&o, cases[i].text);
        uint32_t value = neap_json_u32(&o.r, cases[i].most);
        assert_string_equal(o.diag.message, cases[i].message ? cases[i].message : "");
        assert_true(value == (cases[i].message ? 0 : (uint32_t)strtod(cases[i].text, NULL)));
        close_text(&o);
    }
}

/* ---- Doubles ---- */

/* By the C library, in the C locale that tests run in. */
static void check_double(const char *text)
{
    opened o;
    double expected = strtod(text, NULL);
    open_text(&o, text);
    double value = neap_json_double(&o.r);
    neap_json_end(&o.r);
    if (isfinite(expected)) {
        if (!neap_json_ok(&o.r) || memcmp(&value, &expected, sizeof value) != 0)
            fail_msg("%s: read as %.17g, not %.17g; %s", text, value, expected, o.diag.message);
    } else {
        assert_string_equal(o.diag.message, "t:1:1: number out of range: at most 1.8e308");
        assert_true(value == 0);
    }
    close_text(&o);
}

static void test_doubles_at_the_edges(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0",
        "-0",
        "0.0",
        "-0.0",
        "0e0",
        "0e99999999999999999999",
        "0e-99999999999999999999",
        "1e-99999999999999999999",
        "0.1",
        "0.3",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "1.7976931348623159e308", /* rounds to infinity */
        "-1.7976931348623159e308",
        "1e308",
        "1e309",
        "1e99999999999999999999",
        "2.2250738585072014e-308",
        "2.2250738585072011e-308", /* the one that hung PHP */
        "4.9406564584124654e-324",
        "2.4703282292062327e-324", /* half of it: rounds to 0 */
        "2.4703282292062328e-324",
        "1e-400",
        "9007199254740992",
        "9007199254740993", /* a tie */
        "9007199254740993.0000000000000000000000000000000001",
        "9007199254740995",
        "123456789012345",
        "1234567890123456",
        "999999999999999e22", /* the last of the fast path */
        "999999999999999e23",
        "1000000000000000e22",
        "1e22",
        "1e23",
        "1e-22",
        "1e-23",
        "999999999999999e-22",
        "0.000000000000000000000001",
        "0.00000000000000000000000000000000000000000000000000123",
        "100000000000000000000000000000000000000000000000",
        "6.02214076e23",
        "8.41e21",
        "2.0e-3",
        "5e-324",
        "0.500000000000000166533453693773481063544750213623046875",
        "3.518437208883201171875e13",
        "62.5364939768271845828",
        "8.10109172351e-10",
        "1.50000000000000011102230246251565",
        "1e15",
        "1e16",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        check_double(texts[i]);
}

static void test_doubles_random(void **state)
{
    (void)state;
    random_source random = {20240602};
    print_message("seed %llu\n", (unsigned long long)random.state);
    for (int i = 0; i < 40000; i++) {
        char text[96];
        size_t length = 0;
        uint32_t whole = 1 + random_below(&random, 20), fraction = random_below(&random, 25);
        if (random_below(&random, 2))
            text[length++] = '-';
        text[length++] = (char)('0' + random_below(&random, 10));
        if (text[length - 1] != '0')
            for (uint32_t d = 1; d < whole; d++)
                text[length++] = (char)('0' + random_below(&random, 10));
        if (fraction)
            text[length++] = '.';
        for (uint32_t d = 0; d < fraction; d++)
            text[length++] =
                (char)('0' + (random_below(&random, 4) ? random_below(&random, 10) : 0));
        int most = random_below(&random, 3) ? 30 : 340; /* mostly around the fast path's end */
        if (random_below(&random, 3))
            length += (size_t)snprintf(text + length, sizeof text - length, "e%s%d",
                                       random_below(&random, 2) ? "-" : "",
                                       (int)random_below(&random, (uint32_t)most));
        text[length] = '\0';
        check_double(text);
    }
}

/* The doubles themselves and the midpoints between them, where rounding is hardest. */
static void test_doubles_random_bits(void **state)
{
    (void)state;
    random_source random = {20240603};
    print_message("seed %llu\n", (unsigned long long)random.state);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = random_bits(&random);
        double number;
        char text[1600];
        memcpy(&number, &bits, sizeof number);
        if (!isfinite(number))
            continue;
        snprintf(text, sizeof text, "%.17g", number);
        check_double(text);
        snprintf(text, sizeof text, "%.*e", 14 + (int)random_below(&random, 20), number);
        check_double(text);
        if (i % 20 == 0) { /* exactly half a unit above, to all its digits */
            int exponent;
            double mantissa = frexp(number, &exponent);
            long double half = (long double)mantissa +
                               ldexpl(copysignl(1, (long double)number), -DBL_MANT_DIG - 1);
            snprintf(text, sizeof text, "%.800Le", ldexpl(half, exponent));
            check_double(text);
        }
    }
}

/* ---- Strings ---- */

static void check_string(const char *text, size_t length, const char *expected, size_t size)
{
    opened o;
    open_bytes(&o, text, length);
    json_string string = neap_json_text(&o.r);
    neap_json_end(&o.r);
    if (!neap_json_ok(&o.r))
        fail_msg("%.*s: %s", (int)length, text, o.diag.message);
    assert_int_equal(string.length, size);
    assert_memory_equal(string.text, expected, size);
    close_text(&o);
}

static void test_escapes(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
        {"\"\\u0041\\u00e9\\u20AC\\uD83D\\uDE00\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\"plain then \\u0041 then plain\"", "plain then A then plain"},
        {"\"\\ud800\\udc00\"", "\xf0\x90\x80\x80"},
        {"\"\\udbff\\udfff\"", "\xf4\x8f\xbf\xbf"},
        {"\"\\u0001\\u007f\\u0080\\u07ff\\u0800\\uffff\"",
         "\x01\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"},
        {"\"\"", ""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        check_string(cases[i][0], strlen(cases[i][0]), cases[i][1], strlen(cases[i][1]));
}

static size_t encode(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf00 >> length & 0xff) | code);
    return length;
}

/* Every code point there is, escaped and plain: one long string each. */
static void test_every_code_point(void **state)
{
    (void)state;
    char *escaped = malloc(13 * 0x110000), *plain = malloc(5 * 0x110000), *expected = plain + 1;
    assert_true(escaped && plain);
    size_t e = 0, p = 0, from = 0;
    escaped[e++] = '"';
    plain[0] = '"';
    for (uint32_t code = 1; code < 0x110000; code++) {
        if (code >= 0xd800 && code < 0xe000)
            continue;
        if (code < 0x10000)
            e += (size_t)sprintf(escaped + e, "\\u%04x", code);
        else
            e += (size_t)sprintf(escaped + e, "\\u%04X\\u%04X", 0xd800 + ((code - 0x10000) >> 10),
                                 0xdc00 + (code & 0x3ff));
        p += encode(code, expected + p);
        if (code == '\\')
            from = p;
    }
    escaped[e++] = '"';
    check_string(escaped, e, expected, p);
    expected[p] = '"';
    expected[from - 1] = '"'; /* what follows the backslash has nothing that needs an escape */
    check_string(expected + from - 1, p - from + 2, expected + from, p - from);
    free(escaped);
    free(plain);
}

/* By decoding: the shortest form of a code point that is no surrogate. */
static bool is_utf8(const unsigned char *s, size_t length)
{
    for (size_t i = 0; i < length;) {
        uint32_t code = s[i];
        size_t more = code < 0x80       ? 0
                      : code >> 5 == 6  ? 1
                      : code >> 4 == 14 ? 2
                      : code >> 3 == 30 ? 3
                                        : 9;
        if (i + more >= length)
            return false;
        code = more ? code & (0x3fu >> more) : code;
        for (size_t k = 1; k <= more; k++) {
            if (s[i + k] >> 6 != 2)
                return false;
            code = code << 6 | (s[i + k] & 0x3f);
        }
        char shortest[4];
        if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ||
            encode(code, shortest) != more + 1)
            return false;
        i += more + 1;
    }
    return true;
}

static void check_utf8(const unsigned char *bytes, size_t length)
{
    char text[8] = "\"";
    for (size_t i = 0; i < length; i++)
        if (bytes[i] < 0x20 || bytes[i] == '"' || bytes[i] == '\\')
            return;
    memcpy(text + 1, bytes, length);
    text[length + 1] = '"';
    assert_true(parses(text, length + 2, NULL) == is_utf8(bytes, length));
}

static void test_utf8(void **state)
{
    (void)state;
    random_source random = {20240604};
    print_message("seed %llu\n", (unsigned long long)random.state);
    for (unsigned a = 0x80; a < 0x100; a++)
        for (unsigned b = 0; b < 0x100; b++)
            check_utf8((unsigned char[]){(unsigned char)a, (unsigned char)b}, 2);
    static const unsigned char edges[] = {0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0x41};
    for (unsigned a = 0xe0; a < 0x100; a++)
        for (unsigned b = 0; b < 0x100; b++)
            for (size_t c = 0; c < sizeof edges; c++) {
                unsigned char bytes[] = {(unsigned char)a, (unsigned char)b, edges[c],
                                         edges[random_below(&random, sizeof edges)]};
                check_utf8(bytes, 3);
                check_utf8(bytes, 4);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts),
        cmocka_unit_test(test_rejects),
        cmocka_unit_test(test_rejects_nul_bytes),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_every_byte_damaged),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_depth_is_given_back),
        cmocka_unit_test(test_errors_are_sticky),
        cmocka_unit_test(test_without_a_diagnostic),
        cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_peeking),
        cmocka_unit_test(test_skip_gives_the_text),
        cmocka_unit_test(test_once),
        cmocka_unit_test(test_key_is),
        cmocka_unit_test(test_i64),
        cmocka_unit_test(test_i64_is_never_another_number),
        cmocka_unit_test(test_i64_random),
        cmocka_unit_test(test_u32),
        cmocka_unit_test(test_doubles_at_the_edges),
        cmocka_unit_test(test_doubles_random),
        cmocka_unit_test(test_doubles_random_bits),
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_every_code_point),
        cmocka_unit_test(test_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
