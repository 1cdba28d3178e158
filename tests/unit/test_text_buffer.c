/*
 * The text buffer: growth, numbers that read back to the same bits, JSON strings; in a locale with
 * a decimal comma too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "random_plan.h"

#include <neap/text.h>

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

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
    assert_string_equal(text.text, "\"a\\\"b\\\\c\\n\\t\\r\\u0001\\u001f\x7f/\"");
    neap_text_clear(&text);
    neap_text_json_string(&text, "");
    assert_string_equal(text.text, "\"\"");
    neap_text_clear(&text);
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
        print_message("no locale with a decimal comma is installed\n");
        skip();
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
        cmocka_unit_test(test_text_i64),
        cmocka_unit_test(test_text_double),
        cmocka_unit_test(test_text_double_random),
        cmocka_unit_test(test_text_json_string),
        cmocka_unit_test_teardown(test_comma_locale, back_to_c),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
