/*
 * src/base except JSON: status and messages, checked sizes, arrays, the arena, formatted sizes and
 * durations, the nearest name, files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/columns.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/memory.h"
#include "failing_allocator.h"
#include "random_plan.h"
#include "run_command.h"
#include "settings.h"

#include <neap/text.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- Status ---- */

static void test_status_names(void **state)
{
    (void)state;
    static const char *const names[] = {"ok", "invalid",     "no_memory",
                                        "io", "unsupported", "internal"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        assert_string_equal(neap_status_name((neap_status)i), names[i]);
    assert_string_equal(neap_status_name((neap_status)77), "unknown");
    assert_string_equal(neap_version(), NEAP_VERSION_STRING);
}

static void test_fail(void **state)
{
    (void)state;
    neap_diag diag = {0};
    assert_int_equal(neap_fail(&diag, NEAP_IO, "%s %d", "one", 2), NEAP_IO);
    assert_int_equal(diag.status, NEAP_IO);
    assert_string_equal(diag.message, "one 2");
    assert_int_equal(neap_fail(NULL, NEAP_INVALID, "nobody listens"), NEAP_INVALID);
    assert_int_equal(neap_fail_no_memory(&diag), NEAP_NO_MEMORY);
    assert_string_equal(diag.message, "out of memory");
    assert_int_equal(neap_fail_no_memory(NULL), NEAP_NO_MEMORY);
}

static void test_messages_are_one_line(void **state)
{
    (void)state;
    neap_diag diag = {0};
    neap_fail(&diag, NEAP_INVALID, "a%sb", "\n\r\t\x1b[31m\x7f");
    assert_string_equal(diag.message, "a????[31m?b");
    neap_fail(&diag, NEAP_INVALID, "op \"%s\"",
              "\xc2\x9b"
              "31m\xe2\x80\xae\xe2\x80\xa8\xff");
    assert_string_equal(diag.message, "op \"?31m???\"");
}

/* "A longer message ends in ...", and is UTF-8 still wherever the cut falls. */
static void test_long_messages(void **state)
{
    (void)state;
    char name[3 * NEAP_DIAG_CAPACITY];
    neap_diag diag = {0};
    memset(name, 'a', sizeof name);
    name[NEAP_DIAG_CAPACITY - 1] = '\0';
    neap_fail(&diag, NEAP_INVALID, "%s", name); /* fits to the byte */
    assert_string_equal(diag.message, name);
    name[NEAP_DIAG_CAPACITY - 1] = 'a';
    name[NEAP_DIAG_CAPACITY] = '\0';
    neap_fail(&diag, NEAP_INVALID, "%s", name);
    assert_int_equal(strlen(diag.message), NEAP_DIAG_CAPACITY - 1);
    assert_string_equal(diag.message + NEAP_DIAG_CAPACITY - 5, "a...");

    for (size_t i = 0; i + 3 < sizeof name; i += 3)
        memcpy(name + i, "\xe2\x82\xac", 3); /* three bytes a character */
    name[sizeof name / 3 * 3 - 3] = '\0';
    for (int shift = 0; shift < 3; shift++) {
        neap_fail(&diag, NEAP_INVALID, "%.*s%s", shift, "xx", name);
        const char *rest = diag.message + shift;
        while (strncmp(rest, "\xe2\x82\xac", 3) == 0)
            rest += 3;
        assert_string_equal(rest, "...");
        assert_true(strlen(diag.message) > NEAP_DIAG_CAPACITY - 5);
    }
}

/* ---- Sizes ---- */

static void test_checked_add(void **state)
{
    (void)state;
    static const struct {
        int64_t a, b;
        bool fits;
    } cases[] = {
        {0, 0, true},
        {INT64_MAX, 0, true},
        {INT64_MAX, 1, false},
        {INT64_MAX - 1, 1, true},
        {INT64_MAX, INT64_MAX, false},
        {INT64_MIN, 0, true},
        {INT64_MIN, -1, false},
        {INT64_MIN + 1, -1, true},
        {INT64_MIN, INT64_MIN, false},
        {INT64_MAX, INT64_MIN, true},
        {-5, 3, true},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (int swapped = 0; swapped < 2; swapped++) {
            int64_t a = swapped ? cases[i].b : cases[i].a, b = swapped ? cases[i].a : cases[i].b;
            int64_t sum = 77;
            assert_true(neap_add_i64(a, b, &sum) == cases[i].fits);
            assert_int_equal(sum, cases[i].fits ? a + b : 77);
        }
}

static void test_checked_mul(void **state)
{
    (void)state;
    static const struct {
        int64_t a, b;
        bool fits;
    } cases[] = {
        {0, 0, true},
        {0, INT64_MAX, true},
        {1, INT64_MAX, true},
        {2, INT64_MAX, false},
        {2, INT64_MAX / 2, true},
        {INT64_C(1) << 31, INT64_C(1) << 31, true},
        {INT64_C(1) << 32, INT64_C(1) << 31, false},
        {3037000499, 3037000499, true},
        {3037000500, 3037000500, false},
        {INT64_MAX, INT64_MAX, false},
        {-1, 5, false},
        {-1, 0, false},
        {INT64_MIN, 1, false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (int swapped = 0; swapped < 2; swapped++) {
            int64_t a = swapped ? cases[i].b : cases[i].a, b = swapped ? cases[i].a : cases[i].b;
            int64_t product = 77;
            assert_true(neap_mul_i64(a, b, &product) == cases[i].fits);
            assert_int_equal(product, cases[i].fits ? a * b : 77);
        }
    size_t size = 77;
    assert_true(neap_mul_size(0, SIZE_MAX, &size) && size == 0);
    assert_true(neap_mul_size(SIZE_MAX, 1, &size) && size == SIZE_MAX);
    size = 77;
    assert_false(neap_mul_size(SIZE_MAX / 2 + 1, 2, &size));
    assert_false(neap_mul_size(2, SIZE_MAX, &size));
    assert_int_equal(size, 77);
}

/* ---- Arrays ---- */

static void test_new_array(void **state)
{
    (void)state;
    failing_allocator allocator;
    failing_allocator_init(&allocator);
    neap_diag diag = {0};
    int *array = (int *)&diag;
    assert_int_equal(NEAP_NEW(&allocator.base, 0, &array, NULL), NEAP_OK);
    assert_null(array);
    NEAP_DELETE(&allocator.base, 0, array);
    assert_int_equal(allocator.calls, 0);
    assert_int_equal(NEAP_NEW(&allocator.base, 1000, &array, NULL), NEAP_OK);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(array[i], 0);
    NEAP_DELETE(&allocator.base, 1000, array);
    assert_int_equal(NEAP_NEW(&allocator.base, SIZE_MAX / 2, &array, &diag), NEAP_NO_MEMORY);
    assert_null(array);
    assert_int_equal(diag.status, NEAP_NO_MEMORY);
    allocator.fail_from = allocator.calls;
    assert_int_equal(NEAP_NEW(&allocator.base, 1, &array, NULL), NEAP_NO_MEMORY);
    assert_null(array);
    assert_int_equal(allocator.live_blocks, 0);
    assert_null(allocator.fault);
}

static void test_reserve(void **state)
{
    (void)state;
    failing_allocator allocator;
    failing_allocator_init(&allocator);
    uint64_t *items = NULL;
    size_t capacity = 0;
    for (size_t n = 1; n <= 5000; n++) {
        assert_int_equal(NEAP_RESERVE(&allocator.base, n, &items, &capacity, NULL), NEAP_OK);
        assert_true(capacity >= n);
        for (size_t i = n - 1; i < capacity; i++)
            assert_true(items[i] == 0); /* new room is zeroed */
        items[n - 1] = n;
        assert_true(items[n / 2] == n / 2 + 1);
    }
    assert_true(allocator.calls < 40); /* grows by a share, not by one */
    uint64_t *before = items;
    size_t old = capacity;
    allocator.fail_from = 0;
    assert_int_equal(NEAP_RESERVE(&allocator.base, capacity + 1, &items, &capacity, NULL),
                     NEAP_NO_MEMORY);
    assert_int_equal(NEAP_RESERVE(&allocator.base, SIZE_MAX / 4, &items, &capacity, NULL),
                     NEAP_NO_MEMORY);
    assert_ptr_equal(items, before);
    assert_int_equal(capacity, old);
    NEAP_DELETE(&allocator.base, capacity, items);
    assert_int_equal(allocator.live_blocks, 0);
    assert_null(allocator.fault);
}

static neap_status reserve_three(neap_columns *columns, failing_allocator *allocator, size_t n,
                                 uint64_t **longs, bool **flags, uint32_t **ids)
{
    return NEAP_RESERVE_COLUMNS(columns, &allocator->base, n, NULL, NEAP_COLUMN(longs),
                                NEAP_COLUMN(flags), NEAP_COLUMN(ids));
}

static void test_columns(void **state)
{
    (void)state;
    failing_allocator allocator;
    failing_allocator_init(&allocator);
    neap_columns columns = {0};
    uint64_t *longs = NULL;
    bool *flags = NULL;
    uint32_t *ids = NULL;
    for (size_t n = 1; n <= 3000; n++) {
        assert_int_equal(reserve_three(&columns, &allocator, n, &longs, &flags, &ids), NEAP_OK);
        assert_true(columns.capacity >= n);
        assert_int_equal((uintptr_t)ids % alignof(max_align_t), 0);
        for (size_t i = n - 1; i < columns.capacity; i++)
            assert_true(longs[i] == 0 && !flags[i] && ids[i] == 0); /* new room is zeroed */
        longs[n - 1] = n;
        flags[n - 1] = n % 3 == 0;
        ids[n - 1] = (uint32_t)~n;
        size_t k = n / 2;
        assert_true(longs[k] == k + 1 && flags[k] == ((k + 1) % 3 == 0) &&
                    ids[k] == ~(k + 1) % (UINT64_C(1) << 32));
    }
    assert_int_equal(allocator.live_blocks, 1);
    assert_true(allocator.calls < 40);
    uint64_t *before = longs;
    allocator.fail_from = 0;
    assert_int_equal(
        reserve_three(&columns, &allocator, columns.capacity + 1, &longs, &flags, &ids),
        NEAP_NO_MEMORY);
    assert_int_equal(reserve_three(&columns, &allocator, SIZE_MAX / 16, &longs, &flags, &ids),
                     NEAP_NO_MEMORY);
    assert_ptr_equal(longs, before);
    assert_true(longs[2999] == 3000);
    neap_columns_clear(&columns, &allocator.base);
    neap_columns_clear(&columns, &allocator.base);
    assert_int_equal(allocator.live_blocks, 0);
    assert_null(allocator.fault);
}

static void test_release(void **state)
{
    (void)state;
    neap_release(NULL, NULL, 0);
    int *array;
    assert_int_equal(NEAP_NEW(NULL, 3, &array, NULL), NEAP_OK);
    neap_release(NULL, array, 3 * sizeof *array);
}

/* ---- Arena ---- */

static void test_arena(void **state)
{
    (void)state;
    random_source random = {7};
    failing_allocator allocator;
    failing_allocator_init(&allocator);
    neap_arena arena;
    neap_arena_init(&arena, &allocator.base);
    unsigned char *blocks[2000];
    size_t sizes[2000];
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        sizes[i] =
            i % 100 == 99 ? 100000 + random_below(&random, 2000000) : random_below(&random, 300);
        blocks[i] = neap_arena_alloc(&arena, sizes[i], 1);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % alignof(max_align_t), 0);
        for (size_t k = 0; k < sizes[i]; k++)
            if (blocks[i][k] != 0)
                fail_msg("byte %zu of block %zu is not zero", k, i);
        memset(blocks[i], (int)(i & 0xff), sizes[i]);
    }
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        for (size_t k = 0; k < sizes[i]; k++)
            if (blocks[i][k] != (i & 0xff))
                fail_msg("block %zu overlaps another", i);
    assert_true(allocator.calls < 100);
    neap_arena_clear(&arena);
    assert_int_equal(allocator.live_blocks, 0);
    assert_non_null(neap_arena_alloc(&arena, 1, 1)); /* and can be used again */
    neap_arena_clear(&arena);
    neap_arena_clear(&arena);
    assert_int_equal(allocator.live_bytes, 0);
    assert_null(allocator.fault);
}

static void test_arena_edges(void **state)
{
    (void)state;
    failing_allocator allocator;
    failing_allocator_init(&allocator);
    neap_arena arena;
    neap_arena_init(&arena, &allocator.base);
    void *empty = neap_arena_alloc(&arena, 0, 8), *another = neap_arena_alloc(&arena, 8, 0);
    assert_true(empty && another && empty != another);
    assert_null(neap_arena_alloc(&arena, SIZE_MAX, 1));
    assert_null(neap_arena_alloc(&arena, SIZE_MAX - 20, 1));
    assert_null(neap_arena_alloc(&arena, SIZE_MAX / 2, 2));
    assert_null(neap_arena_alloc(&arena, SIZE_MAX / 4, 8));
    assert_non_null(neap_arena_copy(&arena, NULL, 0, 8));
    const int numbers[] = {1, 2, 3};
    int *copy = neap_arena_copy(&arena, numbers, 3, sizeof *numbers);
    assert_memory_equal(copy, numbers, sizeof numbers);
    char *text = neap_arena_text(&arena, "abcdef", 3);
    assert_string_equal(text, "abc");
    assert_string_equal(neap_arena_text(&arena, NULL, 0), "");
    allocator.fail_from = 0;
    assert_null(neap_arena_alloc(&arena, 1 << 20, 1));
    assert_null(neap_arena_text(&arena, text, 1 << 20));
    assert_non_null(neap_arena_alloc(&arena, 8, 1)); /* there is room in the chunk */
    assert_string_equal(text, "abc");
    neap_arena_clear(&arena);
    assert_int_equal(allocator.live_blocks, 0);
    assert_null(allocator.fault);
}

/* ---- Sizes and durations for people ---- */

static void test_bytes_parse(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } cases[] = {
        {"0", 0},
        {"1", 1},
        {"1024", 1024},
        {"512B", 512},
        {"512 b", 512},
        {"300k", 300000},
        {"300K", 300000},
        {"1kB", 1000},
        {"1KB", 1000},
        {"1KiB", 1024},
        {"1kib", 1024},
        {"1.5MB", 1500000},
        {"1.5 MB", 1500000},
        {"1.5   mb", 1500000},
        {"1.5MiB", 1572864},
        {"2M", 2000000},
        {"8GiB", INT64_C(8589934592)},
        {"8 gib", INT64_C(8589934592)},
        {"3G", INT64_C(3000000000)},
        {"3GB", INT64_C(3000000000)},
        {"1T", INT64_C(1000000000000)},
        {"1TB", INT64_C(1000000000000)},
        {"1TiB", INT64_C(1099511627776)},
        {"5e9", INT64_C(5000000000)},
        {"5E+9", INT64_C(5000000000)},
        {"1e3k", 1000000},
        {".5k", 500},
        {"0.5", 0},
        {"1.999", 1},
        {"0.001kB", 1},
        {"0.3kB", 300},
        {"1.001k", 1001},
        {"1.1GiB", INT64_C(1181116006)},
        {"8388607TiB", INT64_C(9223370937343148032)},
        {"9007199254740992", INT64_C(9007199254740992)},
        {"9007199254740993", INT64_C(9007199254740993)},
        {"9223372036854775807", INT64_MAX},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int64_t bytes = -1;
        neap_diag diag = {0};
        if (neap_bytes_parse(cases[i].text, &bytes, &diag) != NEAP_OK)
            fail_msg("%s: %s", cases[i].text, diag.message);
        if (bytes != cases[i].bytes)
            fail_msg("%s: %lld", cases[i].text, (long long)bytes);
    }
}

static void test_bytes_parse_refuses(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",         " ",     " 1",   "-1",    "+1",     "-0",    "abc",   "GiB", ".",
        ".k",       "1e",    "1ee3", "1..5",  "1.5.5",  "0x10",  "0X10",  "inf", "nan",
        "infinity", "1,5MB", "1 2",  "1GiBs", "1 Gi B", "1Gi",   "1kbit", "1P",  "1 %",
        "50%",      "1GiB ", "1\n",  "--1",   "1e+",    "1KiBB",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        int64_t bytes = 77;
        neap_diag diag = {0};
        if (neap_bytes_parse(texts[i], &bytes, &diag) != NEAP_INVALID)
            fail_msg("\"%s\" is read as %lld", texts[i], (long long)bytes);
        assert_int_equal(bytes, 77);
        assert_non_null(strstr(diag.message, "is not a size in bytes; write it like 8GiB"));
    }
    static const char *const large[] = {
        "9223372036854775808", "8388608TiB", "1e19", "1e400", "9.3e18", "92233720368547758070"};
    for (size_t i = 0; i < COUNT_OF(large); i++) {
        int64_t bytes = 77;
        neap_diag diag = {0};
        if (neap_bytes_parse(large[i], &bytes, &diag) != NEAP_INVALID)
            fail_msg("\"%s\" is read as %lld", large[i], (long long)bytes);
        assert_int_equal(bytes, 77);
        assert_non_null(strstr(diag.message, "is more bytes than fit in 63 bits"));
    }
    int64_t bytes;
    assert_int_equal(neap_bytes_parse("x", &bytes, NULL), NEAP_INVALID);
}

static void test_bytes_format(void **state)
{
    (void)state;
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1, "1 B"},
        {512, "512 B"},
        {999, "999 B"},
        {1000, "0.98 KiB"},
        {1024, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {10239, "10.0 KiB"},
        {102399, "100 KiB"},
        {1023487, "999 KiB"},
        {1023488, "0.98 MiB"},
        {1048576, "1.00 MiB"},
        {1572864, "1.50 MiB"},
        {INT64_C(11167060000), "10.4 GiB"},
        {INT64_C(1) << 40, "1.00 TiB"},
        {INT64_C(1) << 50, "1.00 PiB"},
        {INT64_C(1) << 60, "1.00 EiB"},
        {INT64_MAX, "8.00 EiB"},
        {-1, "-1 B"},
        {-512, "-512 B"},
        {-1536, "-1.50 KiB"},
        {INT64_C(-104857600), "-100 MiB"},
        {INT64_MIN, "-8.00 EiB"},
    };
    char buffer[32];
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_ptr_equal(neap_bytes_format(cases[i].bytes, buffer, sizeof buffer), buffer);
        assert_string_equal(buffer, cases[i].text);
    }
    assert_string_equal(neap_bytes_format(1536, buffer, 4), "1.5"); /* never past the end */
}

/* Three digits, a binary unit, and less than half a digit off. */
static void test_bytes_format_random(void **state)
{
    (void)state;
    random_source random = {20240606};
    print_message("seed %llu\n", (unsigned long long)random.state);
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    for (int i = 0; i < 50000; i++) {
        uint64_t bits =
            (uint64_t)random_below(&random, UINT32_MAX) << 32 | random_below(&random, UINT32_MAX);
        int64_t bytes = (int64_t)(bits >> (1 + random_below(&random, 60)));
        char buffer[32], unit[8];
        double number;
        neap_bytes_format(bytes, buffer, sizeof buffer);
        assert_int_equal(sscanf(buffer, "%lf %7s", &number, unit), 2);
        size_t u = 0;
        while (u < COUNT_OF(units) && strcmp(units[u], unit) != 0)
            u++;
        assert_true(u < COUNT_OF(units));
        assert_true(number < 1000);
        double exact = (double)bytes / pow(1024, (double)u);
        double digit = exact >= 99.95 ? 1 : exact >= 9.995 ? 0.1 : 0.01;
        if (fabs(number - exact) > digit / 2 * (1 + 1e-9))
            fail_msg("%lld is written %s", (long long)bytes, buffer);
        assert_true(strlen(buffer) <= 8);
    }
}

static void test_seconds_format(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0, "0 s"},
        {1e-10, "0.10 ns"},
        {1e-9, "1.00 ns"},
        {123e-9, "123 ns"},
        {12.34e-6, "12.3 us"},
        {4.56e-3, "4.56 ms"},
        {0.5, "500 ms"},
        {0.9996, "1.00 s"}, /* three digits, not "1000 ms" */
        {999.7e-6, "1.00 ms"},
        {999.7e-9, "1.00 us"},
        {1, "1.00 s"},
        {1.23, "1.23 s"},
        {59.96, "60.0 s"},
        {599, "599 s"},
        {600, "0 h 10 min"},
        {3600, "1 h 00 min"},
        {7500, "2 h 05 min"},
        {86399, "23 h 59 min"},
        {360000, "3.6e+05 s"},
        {-0.5, "-500 ms"},
    };
    char buffer[32];
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_ptr_equal(neap_seconds_format(cases[i].seconds, buffer, sizeof buffer), buffer);
        assert_string_equal(buffer, cases[i].text);
    }
    assert_string_equal(neap_seconds_format(1.23, buffer, 4), "1.2");
    neap_seconds_format((double)NAN, buffer, sizeof buffer);
    neap_seconds_format(HUGE_VAL, buffer, sizeof buffer);
    neap_seconds_format(-1e300, buffer, sizeof buffer);
}

/* ---- The nearest name ---- */

static const char *suggest(const char *wrong, const char *const *names, size_t count)
{
    neap_suggestion suggestion;
    neap_suggestion_begin(&suggestion, wrong);
    for (size_t i = 0; i < count; i++)
        neap_suggestion_offer(&suggestion, names[i]);
    return suggestion.best;
}

static void test_suggestions(void **state)
{
    (void)state;
    static const char *const names[] = {"sqrt", "store-all", "resnet50", "resnet152", "vgg19"};
    static const struct {
        const char *wrong, *meant;
    } cases[] = {
        {"srqt", "sqrt"}, /* neighbours swapped */
        {"sqr", "sqrt"},  /* one left out */
        {"storeall", "store-all"},
        {"resnet5", "resnet50"},
        {"resnet1", "resnet152"}, /* an abbreviation */
        {"vgg", "vgg19"},
        {"quicksort", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *found = suggest(cases[i].wrong, names, COUNT_OF(names));
        if (cases[i].meant)
            assert_string_equal(found, cases[i].meant);
        else
            assert_null(found);
    }
    char longer[200];
    memset(longer, 'x', sizeof longer);
    longer[199] = '\0';
    assert_null(suggest(longer, names, COUNT_OF(names)));
}

/* ---- Files ---- */

static int make_folder(void **state)
{
    *state = make_temporary_folder();
    return 0;
}

static int remove_folder(void **state)
{
    remove_temporary_folder(*state);
    return 0;
}

static int count_entries(const char *folder)
{
    int count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count - 2; /* . and .. */
}

static mode_t mode_of(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_mode & 07777;
}

static void expect_contents(const char *path, const char *expected, size_t length)
{
    char *text;
    size_t read;
    neap_diag diag = {0};
    if (neap_file_read(NULL, path, &text, &read, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(read, length);
    assert_memory_equal(text, expected, length);
    assert_int_equal(text[length], '\0');
    neap_release(NULL, text, read + 1);
}

static void expect_failure(neap_status status, const neap_diag *diag, const char *what,
                           const char *path, int reason)
{
    char expected[NEAP_DIAG_CAPACITY];
    snprintf(expected, sizeof expected, "cannot %s %s: %s", what, path, strerror(reason));
    assert_int_equal(status, NEAP_IO);
    assert_int_equal(diag->status, NEAP_IO);
    assert_string_equal(diag->message, expected);
}

static void test_file_write_and_read(void **state)
{
    char *path = join_path(*state, "new");
    mode_t mask = umask(027);
    umask(027);
    assert_int_equal(neap_file_write(NULL, path, "", 0, NULL), NEAP_OK);
    assert_int_equal(mode_of(path), 0640);
    expect_contents(path, "", 0);
    umask(mask);

    size_t length = 300000; /* several blocks, with NULs */
    char *text = malloc(length);
    assert_non_null(text);
    for (size_t i = 0; i < length; i++)
        text[i] = (char)(i * 31 >> 3);
    assert_int_equal(chmod(path, 0604), 0);
    assert_int_equal(neap_file_write(NULL, path, text, length, NULL), NEAP_OK);
    assert_int_equal(mode_of(path), 0604); /* kept, not what a new file would have */
    expect_contents(path, text, length);
    assert_int_equal(neap_file_write(NULL, path, "short", 5, NULL), NEAP_OK);
    expect_contents(path, "short", 5);
    assert_int_equal(count_entries(*state), 1);
    free(text);
    free(path);
}

/* A reader that has the old file open continues with the old contents. */
static void test_file_write_replaces(void **state)
{
    char *path = join_path(*state, "file"), seen[8] = "";
    assert_int_equal(neap_file_write(NULL, path, "old", 3, NULL), NEAP_OK);
    FILE *reader = fopen(path, "r");
    assert_non_null(reader);
    assert_int_equal(neap_file_write(NULL, path, "new!", 4, NULL), NEAP_OK);
    assert_non_null(fgets(seen, sizeof seen, reader));
    fclose(reader);
    assert_string_equal(seen, "old");
    expect_contents(path, "new!", 4);
    free(path);
}

static void test_file_write_fails_halfway(void **state)
{
    char *path = join_path(*state, "file");
    neap_diag diag = {0};
    assert_int_equal(neap_file_write(NULL, path, "old", 3, NULL), NEAP_OK);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 1000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    char *large = calloc(1, 5000);
    assert_non_null(large);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    neap_status status = neap_file_write(NULL, path, large, 5000, &diag);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    expect_failure(status, &diag, "write", path, EFBIG);
    expect_contents(path, "old", 3);
    assert_int_equal(count_entries(*state), 1);
    free(large);
    free(path);
}

static void test_file_write_without_memory(void **state)
{
    char *path = join_path(*state, "file");
    neap_diag diag = {0};
    failing_allocator allocator;
    failing_allocator_init(&allocator);
    assert_int_equal(neap_file_write(NULL, path, "old", 3, NULL), NEAP_OK);
    allocator.fail_from = 0;
    assert_int_equal(neap_file_write(&allocator.base, path, "new", 3, &diag), NEAP_NO_MEMORY);
    expect_contents(path, "old", 3);
    char *text = path;
    size_t length = 7;
    assert_int_equal(neap_file_read(&allocator.base, path, &text, &length, &diag), NEAP_NO_MEMORY);
    assert_null(text);
    assert_int_equal(length, 0);
    assert_int_equal(allocator.live_blocks, 0);
    free(path);
}

/* A link stays one: what it points to is replaced. */
static void test_file_write_through_a_link(void **state)
{
    char *path = join_path(*state, "file"), *link_path = join_path(*state, "link");
    struct stat status;
    assert_int_equal(neap_file_write(NULL, path, "old", 3, NULL), NEAP_OK);
    assert_int_equal(symlink("file", link_path), 0);
    assert_int_equal(neap_file_write(NULL, link_path, "new", 3, NULL), NEAP_OK);
    expect_contents(path, "new", 3);
    assert_int_equal(lstat(link_path, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(count_entries(*state), 2);
    free(path);
    free(link_path);
}

static void test_file_bad_places(void **state)
{
    char *missing = join_path(*state, "missing/file"), *text;
    const char *folder = *state;
    size_t length;
    neap_diag diag = {0};
    neap_status status = neap_file_write(NULL, missing, "a", 1, &diag);
    expect_failure(status, &diag, "write", missing, ENOENT);
    status = neap_file_read(NULL, missing, &text, &length, &diag);
    expect_failure(status, &diag, "read", missing, ENOENT);
    assert_null(text);
    status = neap_file_write(NULL, folder, "a", 1, &diag);
    expect_failure(status, &diag, "write", folder, EISDIR);
    status = neap_file_read(NULL, folder, &text, &length, &diag);
    expect_failure(status, &diag, "read", folder, EISDIR);
    assert_int_equal(neap_file_read(NULL, "", &text, &length, &diag), NEAP_IO);
    assert_int_equal(count_entries(folder), 0);
    free(missing);
}

/* What the child of the next test finds; root becomes nobody first, for root may do anything. */
static int try_unwritable(const char *folder, const char *path)
{
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return 77;
    char expected[NEAP_DIAG_CAPACITY];
    neap_diag diag = {0};
    snprintf(expected, sizeof expected, "cannot write %s: %s", path, strerror(EACCES));
    if (access(folder, X_OK) != 0)
        return 77;
    if (neap_file_write(NULL, path, "new", 3, &diag) != NEAP_IO)
        return 1;
    return strcmp(diag.message, expected) == 0 ? 0 : 2;
}

static void test_file_unwritable_folder(void **state)
{
    char *path = join_path(*state, "file");
    assert_int_equal(neap_file_write(NULL, path, "old", 3, NULL), NEAP_OK);
    assert_int_equal(chmod(*state, 0555), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(try_unwritable(*state, path));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(chmod(*state, 0755), 0);
    expect_contents(path, "old", 3);
    free(path);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip_because("root cannot become another user here");
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_file_devices(void **state)
{
    (void)state;
    neap_diag diag = {0};
    char *text, path[32], seen[8] = "";
    size_t length;
    if (access("/dev/full", W_OK) == 0) {
        neap_status status = neap_file_write(NULL, "/dev/full", "a", 1, &diag);
        expect_failure(status, &diag, "write", "/dev/full", ENOSPC);
        assert_int_equal(access("/dev/full", W_OK), 0); /* not replaced */
    }
    assert_int_equal(neap_file_write(NULL, "/dev/null", "a", 1, &diag), NEAP_OK);
    assert_int_equal(neap_file_read(NULL, "/dev/null", &text, &length, &diag), NEAP_OK);
    assert_int_equal(length, 0);
    neap_release(NULL, text, 1);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    assert_int_equal(neap_file_write(NULL, path, "piped", 5, &diag), NEAP_OK);
    assert_int_equal(read(ends[0], seen, sizeof seen), 5);
    assert_string_equal(seen, "piped");
    close(ends[0]);
    close(ends[1]);
}

/* "-" is standard input or output. */
static void test_file_streams(void **state)
{
    char *path = join_path(*state, "stream"), *text = NULL;
    size_t length = 0;
    neap_diag diag = {0};
    fflush(NULL);
    int in = dup(STDIN_FILENO), out = dup(STDOUT_FILENO);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(in >= 0 && out >= 0 && file >= 0);
    dup2(file, STDOUT_FILENO);
    neap_status written = neap_file_write(NULL, "-", "out", 3, &diag);
    dup2(out, STDOUT_FILENO);
    lseek(file, 0, SEEK_SET);
    dup2(file, STDIN_FILENO);
    neap_status was_read = neap_file_read(NULL, "-", &text, &length, &diag);
    dup2(in, STDIN_FILENO);
    close(in);
    close(out);
    close(file);
    assert_int_equal(written, NEAP_OK);
    assert_int_equal(was_read, NEAP_OK);
    assert_int_equal(length, 3);
    assert_string_equal(text, "out");
    neap_release(NULL, text, length + 1);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_names),
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_messages_are_one_line),
        cmocka_unit_test(test_long_messages),
        cmocka_unit_test(test_checked_add),
        cmocka_unit_test(test_checked_mul),
        cmocka_unit_test(test_new_array),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_release),
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_arena_edges),
        cmocka_unit_test(test_bytes_parse),
        cmocka_unit_test(test_bytes_parse_refuses),
        cmocka_unit_test(test_bytes_format),
        cmocka_unit_test(test_bytes_format_random),
        cmocka_unit_test(test_seconds_format),
        cmocka_unit_test(test_suggestions),
        cmocka_unit_test_setup_teardown(test_file_write_and_read, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_file_write_replaces, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_file_write_fails_halfway, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_file_write_without_memory, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_file_write_through_a_link, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_file_bad_places, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_file_unwritable_folder, make_folder, remove_folder),
        cmocka_unit_test(test_file_devices),
        cmocka_unit_test_setup_teardown(test_file_streams, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
