/* Threads that work in lockstep, and the allocator they share. */
#define _GNU_SOURCE /* sched_setaffinity */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/team.h"
#include "failing_allocator.h"
#include "settings.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, ROUNDS = 200 };

/* ---- Teams ---- */

/* As many members as the process may use processors, not as the machine has. */
static void test_size_follows_affinity(void **state)
{
    (void)state;
#ifdef __linux__
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(neap_team_size(0, MOST),
                     CPU_COUNT(&before) < MOST ? CPU_COUNT(&before) : MOST);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(neap_team_size(0, MOST), 1);
    assert_int_equal(neap_team_size(3, MOST), 3);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
#else
    skip_because("only Linux tells which processors a process may use");
#endif
}

typedef struct counting_job {
    neap_job base;
    unsigned n_members;            /* as each of them sees it */
    unsigned runs[MOST];           /* by member */
    unsigned counts[ROUNDS][MOST]; /* by round and member */
    unsigned wrong;                /* rounds in which a member saw another behind */
} counting_job;

/* After each meeting, everybody has counted. */
static void count(neap_job *self, neap_team *team, unsigned member)
{
    counting_job *job = (counting_job *)self;
    unsigned n = neap_team_members(team);
    job->runs[member]++;
    if (member == 0)
        job->n_members = n;
    for (unsigned round = 0; round < ROUNDS; round++) {
        job->counts[round][member] = round + 1;
        neap_team_meet(team);
        unsigned behind = 0;
        for (unsigned i = 0; i < n; i++)
            behind += job->counts[round][i] != round + 1;
        if (behind > 0 && member == 0)
            job->wrong++;
    }
}

static void test_team(void **state)
{
    (void)state;
    static const unsigned sizes[] = {1, 2, 3, 7, MOST};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        counting_job *job = calloc(1, sizeof *job);
        assert_non_null(job);
        job->base.run = count;
        neap_team_run(&job->base, sizes[s]);
        assert_true(job->n_members >= 1 && job->n_members <= sizes[s]);
        for (unsigned i = 0; i < MOST; i++)
            assert_int_equal(job->runs[i], i < job->n_members ? 1 : 0);
        assert_int_equal(job->wrong, 0);
        free(job);
    }
}

static void test_team_size(void **state)
{
    (void)state;
    assert_int_equal(neap_team_size(1, 16), 1);
    assert_int_equal(neap_team_size(3, 16), 3);
    assert_int_equal(neap_team_size(99, 16), 16);
    assert_int_equal(neap_team_size(5, 1), 1);
    unsigned all = neap_team_size(0, 1000);
    assert_true(all >= 1 && all <= 1000);
    assert_true(neap_team_size(-1, 4) >= 1);
}

/* ---- The shared allocator ---- */

typedef struct allocating_job {
    neap_job base;
    neap_allocator *allocator;
    unsigned spoilt[MOST]; /* blocks whose contents changed, by member */
} allocating_job;

static void allocate(neap_job *self, neap_team *team, unsigned member)
{
    allocating_job *job = (allocating_job *)self;
    (void)team;
    unsigned char *blocks[50] = {NULL};
    size_t capacities[50] = {0};
    for (size_t i = 0; i < 50 * ROUNDS / 10; i++) {
        size_t k = i * 7 % 50, old = capacities[k];
        if (NEAP_RESERVE(job->allocator, old + 10, &blocks[k], &capacities[k], NULL) != NEAP_OK)
            continue;
        for (size_t b = 0; b < old; b++)
            job->spoilt[member] += blocks[k][b] != (unsigned char)(member + 1);
        memset(blocks[k], (int)member + 1, capacities[k]);
    }
    for (size_t k = 0; k < 50; k++)
        NEAP_DELETE(job->allocator, capacities[k], blocks[k]);
}

/* The inner allocator's counts are not made for threads: they are correct nevertheless. */
static void test_shared_allocator(void **state)
{
    (void)state;
    failing_allocator inner;
    neap_shared_allocator shared;
    failing_allocator_init(&inner);
    assert_true(neap_shared_allocator_init(&shared, &inner.base));
    allocating_job job = {.base = {allocate}, .allocator = &shared.base};
    neap_team_run(&job.base, 4);
    for (unsigned i = 0; i < MOST; i++)
        assert_int_equal(job.spoilt[i], 0);
    assert_int_equal(inner.live_blocks, 0);
    assert_int_equal(inner.live_bytes, 0);
    assert_null(inner.fault);
    inner.fail_from = 0;
    int *array;
    assert_int_equal(NEAP_NEW(&shared.base, 5, &array, NULL), NEAP_NO_MEMORY);
    neap_shared_allocator_clear(&shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_follows_affinity),
        cmocka_unit_test(test_team),
        cmocka_unit_test(test_team_size),
        cmocka_unit_test(test_shared_allocator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
