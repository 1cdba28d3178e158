/*
 * Growing text buffers: numbers that read back to the same bits, JSON strings, strings made safe to
 * print; also in a locale with a decimal comma.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "random_plan.h"
#include "settings.h"

#include <neap/text.h>

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* Characters that are not shown: C1 controls, marks of direction, separators, without width. */
#define HIDDEN                                                                                     \
    "\xc2\x80\xc2\x9b"                                                                             \
    "31m\xc2\x9f\xd8\x9c\xe2\x80\x8b\xe2\x80\x8e\xe2\x80\xa8\xe2\x80\xae\xe2\x81\xa6"              \
    "\xe2\x81\xa9\xef\xbb\xbf"

static uint64_t random_bits(random_source *random)
{
    return (uint64_t)random_below(random, UINT32_MAX) << 32 | random_below(random, UINT32_MAX);
}

/* A number by neap's own reader; fails the test if it is none. */
static double read_number(const char *text, size_t length)
{
    json_reader r;
    neap_diag diag = {0};
    neap_json_init(&r, NULL, "t", text, length, &diag);
    double number = neap_json_double(&r);
    neap_json_end(&r);
    neap_json_clear(&r);
    if (r.status != NEAP_OK)
        fail_msg("%.*s: %s", (int)length, text, diag.message);
    return number;
}

static void expect_json_text(const char *text, size_t length, const char *expected)
{
    json_reader r;
    neap_json_init(&r, NULL, "t", text, length, NULL);
    json_string string = neap_json_text(&r);
    neap_json_end(&r);
    assert_int_equal(r.status, NEAP_OK);
    assert_int_equal(string.length, strlen(expected));
    assert_memory_equal(string.text, expected, string.length);
    neap_json_clear(&r);
}

static void test_text_grows(void **state)
{
    (void)state;
    neap_text text;
    char *taken, expected[3001];
    size_t length;
    neap_text_init(&text, NULL);
    for (int i = 0; i < 1000; i++) {
        neap_text_putc(&text, 'a');
        neap_text_append(&text, "bcd", 2);
        memcpy(expected + 3 * i, "abc", 3);
    }
    assert_int_equal(text.length, 3000);
    assert_int_equal(text.text[3000], '\0');
    assert_int_equal(neap_text_take(&text, &taken, &length, NULL), NEAP_OK);
    assert_int_equal(length, 3000);
    assert_memory_equal(taken, expected, 3000);
    neap_release(NULL, taken, length + 1);
    assert_null(text.text);
    assert_int_equal(neap_text_take(&text, &taken, &length, NULL), NEAP_OK);
    assert_int_equal(length, 0);
    assert_string_equal(taken, "");
    neap_release(NULL, taken, 1);
}

static void test_text_printf(void **state)
{
    (void)state;
    neap_text text;
    char wide[600];
    neap_text_init(&text, NULL);
    for (int width = 250; width < 262; width++) { /* around the size of its small buffer */
        neap_text_clear(&text);
        neap_text_printf(&text, "<%*d>", width, 7);
        snprintf(wide, sizeof wide, "<%*d>", width, 7);
        assert_string_equal(text.text, wide);
    }
    neap_text_clear(&text);
    neap_text_printf(&text, "%s", "");
    assert_string_equal(text.text, "");
    neap_text_clear(&text);
}

static void test_text_repeat(void **state)
{
    (void)state;
    neap_text text = {0}; /* all zero is an empty text */
    assert_string_equal(neap_text_get(&text), "");
    neap_text_repeat(&text, ' ', 0);
    neap_text_repeat(&text, 'x', 3);
    assert_string_equal(neap_text_get(&text), "xxx");
    text.length = 0;
    neap_text_repeat(&text, 'y', 100);
    assert_int_equal(strspn(neap_text_get(&text), "y"), 100);
    assert_int_equal(text.length, 100);
    assert_int_equal(text.status, NEAP_OK);
    neap_text_repeat(&text, 'z', SIZE_MAX - 50); /* its end would wrap around */
    assert_int_equal(text.status, NEAP_NO_MEMORY);
    neap_text_puts(&text, "more");
    assert_int_equal(text.length, 100);
    neap_text_clear(&text);
    assert_string_equal(neap_text_get(&text), "");
    assert_int_equal(text.status, NEAP_OK);
}

static void test_text_i64(void **state)
{
    (void)state;
    static const int64_t numbers[] = {0, -1, 42, INT64_MAX, INT64_MIN};
    static const char *const texts[] = {"0", "-1", "42", "9223372036854775807",
                                        "-9223372036854775808"};
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        neap_text text;
        neap_text_init(&text, NULL);
        neap_text_i64(&text, numbers[i]);
        assert_string_equal(text.text, texts[i]);
        neap_text_clear(&text);
    }
}

/* Without leading and trailing zeros. */
static int significant_digits(const char *text)
{
    int digits = 0, last = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text < '0' || *text > '9')
            continue;
        digits += digits > 0 || *text != '0';
        last = *text != '0' ? digits : last;
    }
    return last;
}

static int fewest_digits(double number)
{
    char text[40];
    int digits = 0;
    do
        snprintf(text, sizeof text, "%.*e", digits++, number);
    while (strtod(text, NULL) != number);
    return digits;
}

/* Reads back to the same bits; no fewer digits would do. */
static void check_written(double number)
{
    neap_text text;
    char copy[64] = "";
    neap_text_init(&text, NULL);
    neap_text_double(&text, number);
    assert_true(text.length < sizeof copy);
    memcpy(copy, text.text, text.length);
    neap_text_clear(&text);
    double again = read_number(copy, strlen(copy));
    if (memcmp(&again, &number, sizeof number) != 0)
        fail_msg("%a is written %s, read as %a", number, copy, again);
    if (number != 0 && significant_digits(copy) != fewest_digits(number))
        fail_msg("%a is written %s, but %d digits would do", number, copy, fewest_digits(number));
}

static void test_text_double(void **state)
{
    (void)state;
    static const struct {
        double number;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0.0"},
        {1, "1"},
        {-1.5, "-1.5"},
        {0.1, "0.1"},
        {0.001, "0.001"},
        {1e15, "1e+15"},
        {1e300, "1e+300"},
        {1e-6, "1e-06"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1.0 / 3, "0.3333333333333333"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {DBL_MIN, "2.2250738585072014e-308"},
        {123456789012345, "123456789012345"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        neap_text text;
        neap_text_init(&text, NULL);
        neap_text_double(&text, cases[i].number);
        assert_string_equal(text.text, cases[i].text);
        neap_text_clear(&text);
        check_written(cases[i].number);
    }
    check_written(DBL_TRUE_MIN);
    check_written(-DBL_TRUE_MIN);
    check_written(1e-310);
}

static void write_random_doubles(int count)
{
    random_source random = {20240605};
    print_message("seed %llu\n", (unsigned long long)random.state);
    for (int i = 0; i < count; i++) {
        uint64_t bits = random_bits(&random);
        double number;
        memcpy(&number, &bits, sizeof number);
        if (isfinite(number))
            check_written(number);
        check_written((double)random_below(&random, 1000000) / 1e6);
        check_written((double)(int64_t)random_bits(&random) * 1e-15);
    }
}

static void test_text_double_random(void **state)
{
    (void)state;
    write_random_doubles(20000);
}

static void test_text_json_string(void **state)
{
    (void)state;
    char every[256], *c = every;
    for (int i = 1; i < 0x80; i++)
        *c++ = (char)i;
    strcpy(c, "\xc3\xa9\xf0\x9f\x98\x80");
    neap_text text;
    neap_text_init(&text, NULL);
    neap_text_json_string(&text, every);
    expect_json_text(text.text, text.length, every);
    neap_text_clear(&text);
    neap_text_json_string(&text, "a\"b\\c\n\t\r\x01\x1f\x7f/");
    assert_string_equal(text.text, "\"a\\\"b\\\\c\\n\\t\\r\\u0001\\u001f\\u007f/\"");
    neap_text_clear(&text);
    neap_text_json_string(&text, HIDDEN "é");
    assert_string_equal(text.text, "\"\\u0080\\u009b31m\\u009f\\u061c\\u200b\\u200e\\u2028\\u202e"
                                   "\\u2066\\u2069\\ufeffé\"");
    expect_json_text(text.text, text.length, HIDDEN "é");
    neap_text_clear(&text);
    neap_text_json_string(&text, "a\xff\xc3(\xed\xa0\x80\xe2\x82"); /* not UTF-8 */
    assert_string_equal(text.text, "\"a\\ufffd\\ufffd(\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
    neap_text_clear(&text);
    neap_text_json_string(&text, "");
    assert_string_equal(text.text, "\"\"");
    neap_text_clear(&text);
}

/* ---- Strings for a terminal ---- */

static void expect_clean(const char *string, const char *expected)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%s", string);
    assert_int_equal(neap_string_clean(copy), strlen(expected));
    assert_string_equal(copy, expected);
}

static void test_string_clean(void **state)
{
    (void)state;
    expect_clean("", "");
    expect_clean("conv1 é 漢 \xf0\x9f\x98\x80 e\xcc\x81", "conv1 é 漢 \xf0\x9f\x98\x80 e\xcc\x81");
    expect_clean("a\nb\x1b[31m\x7f", "a?b?[31m?");
    expect_clean(HIDDEN, "??31m?????????");
    expect_clean("\xc2\xa0|\xe2\x80\xa7|\xe2\x81\x9f|\xef\xbb\xbe", /* next to what is hidden */
                 "\xc2\xa0|\xe2\x80\xa7|\xe2\x81\x9f|\xef\xbb\xbe");
    expect_clean("\xff|\xc0\xaf|\xed\xa0\x80|\xf4\x90\x80\x80|\x9b|", "?|??|???|????|?|");
    expect_clean("cut \xe2\x82", "cut "); /* half a character at the end */
    expect_clean("cut \xf0\x9f\x98", "cut ");
    expect_clean("cut \xc3", "cut ");
    expect_clean("bad \xe2\xc3x", "bad ??x");
}

/* No byte that a terminal could take for a control, whatever the string is; and well-formed. */
static void test_string_clean_random(void **state)
{
    (void)state;
    random_source random = {20261115};
    print_message("seed %llu\n", (unsigned long long)random.state);
    for (int round = 0; round < 20000; round++) {
        char string[24], again[24];
        size_t length = random_below(&random, sizeof string);
        for (size_t i = 0; i < length; i++) {
            static const unsigned char bytes[] = {0x1b, 'a', 0x80, 0x9b, 0xc2, 0xe2, 0xef, 0xf0};
            string[i] = (char)(random_below(&random, 2) ? bytes[random_below(&random, 8)]
                                                        : 1 + random_below(&random, 255));
        }
        string[length] = '\0';
        size_t kept = neap_string_clean(string);
        assert_int_equal(kept, strlen(string));
        assert_true(kept <= length);
        for (size_t i = 0; i < kept; i++) {
            unsigned char c = (unsigned char)string[i], next = (unsigned char)string[i + 1];
            assert_true(c >= 0x20 && c != 0x7f);
            assert_false(c == 0xc2 && next < 0xa0);
        }
        memcpy(again, string, sizeof again);
        neap_string_clean(again);
        assert_string_equal(again, string);
        neap_text text = {0};
        neap_text_json_string(&text, string);
        expect_json_text(text.text, text.length, string);
        neap_text_clear(&text);
    }
}

static void test_string_characters(void **state)
{
    (void)state;
    assert_int_equal(neap_string_characters("", 0), 0);
    assert_int_equal(neap_string_characters("aé漢\xf0\x9f\x98\x80", 10), 4);
    assert_int_equal(neap_string_characters("aé漢\xf0\x9f\x98\x80", 7),
                     4); /* one byte of the last */
    assert_int_equal(neap_string_characters("\xff\xc3(", 3), 3);
}

/* ---- Another decimal point ---- */

static void test_comma_locale(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE",       "fr_FR.UTF-8",
                                        "fr_FR.utf8",  "fr_FR",      "pl_PL.UTF-8", "nb_NO.UTF-8"};
    bool found = false;
    for (size_t i = 0; i < COUNT_OF(names) && !found; i++)
        found = setlocale(LC_ALL, names[i]) && strcmp(localeconv()->decimal_point, ",") == 0;
    if (!found) {
        setlocale(LC_ALL, "C");
        skip_because("no locale with a decimal comma is installed");
    }
    static const char *const numbers[] = {"1.5", "0.12345678901234567", "1e-30", "-2.5e3"};
    static const double expected[] = {1.5, 0.12345678901234567, 1e-30, -2500};
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        assert_true(read_number(numbers[i], strlen(numbers[i])) == expected[i]);
    write_random_doubles(2000);
    int64_t bytes = -1;
    assert_int_equal(neap_bytes_parse("1.5MB", &bytes, NULL), NEAP_OK);
    assert_int_equal(bytes, 1500000);
}

static int back_to_c(void **state)
{
    (void)state;
    return setlocale(LC_ALL, "C") ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_grows),
        cmocka_unit_test(test_text_printf),
        cmocka_unit_test(test_text_repeat),
        cmocka_unit_test(test_text_i64),
        cmocka_unit_test(test_text_double),
        cmocka_unit_test(test_text_double_random),
        cmocka_unit_test(test_text_json_string),
        cmocka_unit_test(test_string_clean),
        cmocka_unit_test(test_string_clean_random),
        cmocka_unit_test(test_string_characters),
        cmocka_unit_test_teardown(test_comma_locale, back_to_c),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
