/* The copy engines: order within a lane, waiting across lanes, a full queue, timely shutdown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "run/copier.h"

#include <stdlib.h>
#include <string.h>

#define BYTES  (1 << 16)
#define CHAIN  200
#define NO_ONE ((run_ticket){0})

static run_copier *create(bool duplex, size_t capacity)
{
    run_copier *copier = NULL;
    neap_diag diag;
    if (neap_run_copier_create(neap_allocator_or_system(NULL), duplex, capacity, &copier, &diag) !=
        NEAP_OK)
        fail_msg("%s", diag.message);
    return copier;
}

static unsigned char *block(int byte)
{
    unsigned char *bytes = malloc(BYTES);
    assert_non_null(bytes);
    memset(bytes, byte, BYTES);
    return bytes;
}

/* There and back again, each copy of what the last one brought, faster than any could end. */
static void go_to_and_fro(bool duplex, size_t capacity)
{
    run_copier *copier = create(duplex, capacity);
    unsigned char *blocks[CHAIN + 1];
    run_ticket last = NO_ONE;
    for (int i = 0; i <= CHAIN; i++)
        blocks[i] = block(i ? 0 : 0x5a);
    for (int i = 0; i < CHAIN; i++)
        last = neap_run_copier_start(copier, i % 2 ? RUN_IN : RUN_OUT, blocks[i + 1], blocks[i],
                                     BYTES, last);
    neap_run_copier_wait(copier, last);
    assert_false(neap_run_copier_wait(copier, last)); /* it has ended */
    for (int i = 0; i <= CHAIN; i++) {
        for (int k = 0; k < BYTES; k++)
            assert_int_equal(blocks[i][k], 0x5a);
        free(blocks[i]);
    }
    neap_run_copier_destroy(copier);
}

static void test_copies_wait_for_one_another(void **state)
{
    (void)state;
    go_to_and_fro(false, CHAIN);
    go_to_and_fro(true, CHAIN);
}

static void test_a_full_queue_waits(void **state)
{
    (void)state;
    go_to_and_fro(false, 1);
    go_to_and_fro(true, 1);
    go_to_and_fro(true, 3);
    go_to_and_fro(false, 0); /* one at least */
}

static void test_a_lane_keeps_its_order(void **state)
{
    (void)state;
    run_copier *copier = create(true, 64);
    unsigned char *to = block(0), *from[64];
    run_ticket last = NO_ONE;
    for (int i = 0; i < 64; i++) {
        from[i] = block(i + 1);
        last = neap_run_copier_start(copier, RUN_IN, to, from[i], BYTES, NO_ONE);
    }
    neap_run_copier_wait(copier, last);
    assert_int_equal(to[0], 64);
    assert_int_equal(to[BYTES - 1], 64);
    for (int i = 0; i < 64; i++)
        free(from[i]);
    free(to);
    neap_run_copier_destroy(copier);
}

static void test_destroying_ends_all_copies(void **state)
{
    (void)state;
    for (int duplex = 0; duplex < 2; duplex++) {
        run_copier *copier = create(duplex, 16);
        unsigned char *from = block(7), *to[16];
        for (int i = 0; i < 16; i++) {
            to[i] = block(0);
            neap_run_copier_start(copier, i % 2 ? RUN_IN : RUN_OUT, to[i], from, BYTES, NO_ONE);
        }
        neap_run_copier_destroy(copier);
        for (int i = 0; i < 16; i++) {
            assert_memory_equal(to[i], from, BYTES);
            free(to[i]);
        }
        free(from);
    }
}

static void test_nothing_to_wait_for(void **state)
{
    (void)state;
    run_copier *copier = create(true, 1);
    unsigned char byte = 1, other = 2;
    assert_false(neap_run_copier_wait(copier, NO_ONE));
    neap_run_copier_wait(copier, neap_run_copier_start(copier, RUN_OUT, &other, &byte, 0, NO_ONE));
    assert_int_equal(other, 2); /* no bytes */
    neap_run_copier_destroy(copier);
    neap_run_copier_destroy(NULL);
}

/* Copies one after the other, or both ways at once, in the time of the link and hardly more. */
static void check_pace(bool duplex, double least, double most)
{
    run_copier *copier = create(duplex, 4);
    unsigned char *a = block(1), *b = block(2), *c = block(3), *d = block(4);
    neap_run_copier_pace(
        copier,
        &(neap_link){.out_bandwidth = BYTES / 0.02, .in_bandwidth = BYTES / 0.03, .latency = 0.01});
    double begin = neap_clock_seconds();
    run_ticket out = neap_run_copier_start(copier, RUN_OUT, b, a, BYTES, NO_ONE);
    run_ticket in = neap_run_copier_start(copier, RUN_IN, d, c, BYTES, NO_ONE);
    neap_run_copier_wait(copier, out);
    neap_run_copier_wait(copier, in);
    double seconds = neap_clock_seconds() - begin;
    if (seconds < least || seconds > most)
        fail_msg("%g s, not %g to %g", seconds, least, most);
    assert_true(b[0] == 1 && d[BYTES - 1] == 3);
    neap_run_copier_destroy(copier);
    free(a);
    free(b);
    free(c);
    free(d);
}

static void test_pace(void **state)
{
    (void)state;
    check_pace(false, 0.0699, 2);
    check_pace(true, 0.0399, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_wait_for_one_another),
        cmocka_unit_test(test_a_full_queue_waits),
        cmocka_unit_test(test_a_lane_keeps_its_order),
        cmocka_unit_test(test_destroying_ends_all_copies),
        cmocka_unit_test(test_nothing_to_wait_for),
        cmocka_unit_test(test_pace),
    };
    return cmocka_run_group_tests_name("copier", tests, NULL, NULL);
}
