/*
 * The planners' byte profile compared with an array that does every addition element by element.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=10000 test_byte_profile     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_allocator.h"
#include "planners/common/byte_profile.h"
#include "random_plan.h"
#include "settings.h"

#include <inttypes.h>

enum { MOST_PLACES = 300 };

static void check_questions(const byte_profile *p, const int64_t *plain, uint32_t from,
                            uint32_t end, int64_t level)
{
    uint32_t first = from, behind = end;
    while (first < end && plain[first] <= level)
        first++;
    while (behind > from && plain[behind - 1] <= level)
        behind--;
    assert_int_equal(neap_byte_profile_first_over(p, from, end, level), first);
    assert_int_equal(neap_byte_profile_behind_over(p, from, end, level), behind);
    for (uint32_t i = 0; i < p->n; i++)
        assert_int_equal(byte_profile_at(p, i), plain[i]);
}

static void test_against_an_array(void **state)
{
    (void)state;
    uint64_t seed = setting("NEAP_TEST_SEED", 20240702), count = setting("NEAP_TEST_COUNT", 300);
    print_message("seed %" PRIu64 "\n", seed);
    random_source random = {seed};
    failing_allocator allocator;
    failing_allocator_init(&allocator);
    int64_t plain[MOST_PLACES];
    byte_profile p = {0};
    for (uint64_t round = 0; round < count; round++) {
        uint32_t n = 1 + random_below(&random, MOST_PLACES);
        assert_int_equal(neap_byte_profile_resize(&p, &allocator.base, n, NULL), NEAP_OK);
        for (uint32_t i = 0; i < n; i++)
            p.bytes[i] = plain[i] = (int64_t)random_below(&random, 100);
        neap_byte_profile_start(&p);
        for (int step = 0; step < 60; step++) {
            uint32_t from = random_below(&random, n + 1);
            uint32_t end = from + random_below(&random, n + 1 - from);
            int64_t bytes = (int64_t)random_below(&random, 90) - 30;
            if (step % 2 == 0) {
                neap_byte_profile_add(&p, from, end, bytes);
                for (uint32_t i = from; i < end; i++)
                    plain[i] += bytes;
            } else {
                check_questions(&p, plain, from, end, 50 + 10 * bytes);
            }
        }
    }
    neap_byte_profile_clear(&p, &allocator.base);
    assert_int_equal(allocator.live_blocks, 0);
    assert_null(allocator.fault);
}

static void test_without_memory(void **state)
{
    (void)state;
    failing_allocator allocator;
    failing_allocator_init(&allocator);
    byte_profile p = {0};
    allocator.fail_from = 0;
    assert_int_equal(neap_byte_profile_resize(&p, &allocator.base, 5, NULL), NEAP_NO_MEMORY);
    neap_byte_profile_clear(&p, &allocator.base);
    assert_null(allocator.fault);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_an_array),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
