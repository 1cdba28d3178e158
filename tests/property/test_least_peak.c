/*
 * The least-peak methods as pure functions (src/planners/chain/least_peak.h) against exhaustive
 * search over all sets of checkpoints of random chains, each by its own formula written out here;
 * the linear algorithm against the quadratic one on long chains; sizes at the edge of 63 bits.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=100000 test_least_peak     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_allocator.h"
#include "planners/chain/least_peak.h"
#include "planners/common/size_sweep.h"
#include "random_plan.h"
#include "settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Under a sanitizer the long chains are shorter. */
#define SLOW ONE_IN(10)

enum { MOST_LAYERS = 12 };

/* ---- Chains ---- */

typedef struct chain {
    uint32_t n;
    int64_t *d, *inner; /* n + 1, n + 2 */
    bool *chosen;       /* n + 1 */
} chain;

static void *items(size_t count, size_t size)
{
    void *array = calloc(count, size);
    assert_non_null(array);
    return array;
}

static chain new_chain(uint32_t n)
{
    return (chain){n, items((size_t)n + 1, sizeof(int64_t)), items((size_t)n + 2, sizeof(int64_t)),
                   items((size_t)n + 1, sizeof(bool))};
}

static void delete_chain(chain *c)
{
    free(c->d);
    free(c->inner);
    free(c->chosen);
}

enum { SMALL, TIES, WITH_ZEROS, WIDE, FALLING, RISING, SAWTOOTH, N_KINDS };

static int64_t random_size(random_source *random, int kind, uint32_t i, uint32_t n)
{
    switch (kind) {
    case SMALL:
        return 1 + random_below(random, 9);
    case TIES:
        return 1 + random_below(random, 2);
    case WITH_ZEROS:
        return random_below(random, 2) ? random_below(random, 6) : 0;
    case WIDE:
        return (int64_t)1 << random_below(random, 30);
    case FALLING:
        return (int64_t)(n - i + 1) * 3 + random_below(random, 5);
    case RISING:
        return (int64_t)i * 3 + random_below(random, 5);
    default:
        return i % 3 ? 1 + random_below(random, 4) : 20 + random_below(random, 20);
    }
}

static void fill(chain *c, random_source *random, int kind)
{
    for (uint32_t i = 0; i <= c->n; i++)
        c->d[i] = random_size(random, kind, i, c->n);
    for (uint32_t i = 1; i <= c->n + 1; i++)
        c->inner[i] = random_below(random, 2) ? random_size(random, kind, i, c->n) : 0;
}

static void print_chain(const chain *c)
{
    printf("d =");
    for (uint32_t i = 0; i <= c->n; i++)
        printf(" %" PRId64 "%s", c->d[i], c->chosen[i] ? "*" : "");
    printf("\ninner =");
    for (uint32_t i = 0; i <= c->n + 1; i++)
        printf(" %" PRId64, c->inner[i]);
    printf("\n");
}

/* ---- The formulas, word for word ---- */

/* Equation 6, with what is inside the layers; inner may be NULL. */
static uint64_t equation_6(uint32_t n, const int64_t *d, const int64_t *inner, const bool *chosen)
{
    uint64_t checkpoints = 0, segment = 0, largest = 0;
    for (uint32_t i = 0; i <= n + 1; i++) {
        segment += inner ? (uint64_t)inner[i] : 0;
        if (segment > largest)
            largest = segment;
        if (i <= n && chosen[i]) {
            checkpoints += (uint64_t)d[i];
            segment = 0;
        } else if (i <= n) {
            segment += (uint64_t)d[i];
        }
    }
    return checkpoints + largest;
}

/* Equation 9: the largest m(i) over the checkpoints i. */
static uint64_t equation_9(uint32_t n, const int64_t *d, const bool *chosen)
{
    uint64_t checkpoints = (uint64_t)d[0], peak = checkpoints;
    uint32_t h = 0;
    for (uint32_t i = 1; i <= n; i++) {
        if (!chosen[i])
            continue;
        uint64_t between = 0, largest = 0;
        checkpoints += (uint64_t)d[i];
        for (uint32_t k = h; k < i; k++) {
            between += k > h ? (uint64_t)d[k] : 0;
            largest = (uint64_t)d[k] > largest ? (uint64_t)d[k] : largest;
        }
        if (checkpoints + between + largest > peak)
            peak = checkpoints + between + largest;
        h = i;
    }
    return peak;
}

typedef struct tried {
    const char *name;
    least_peak_solver *solve;
    uint64_t (*objective)(const chain *c, const bool *chosen);
} tried;

static uint64_t by_6(const chain *c, const bool *chosen)
{
    return equation_6(c->n, c->d, NULL, chosen);
}

static uint64_t by_6_inside(const chain *c, const bool *chosen)
{
    return equation_6(c->n, c->d, c->inner, chosen);
}

static uint64_t by_9(const chain *c, const bool *chosen)
{
    return equation_9(c->n, c->d, chosen);
}

static const tried all[] = {
    {"hong-static", neap_hong_static, by_6},
    {"acg", neap_segment_term_search, by_6_inside},
    {"hong-quadratic", neap_hong_quadratic, by_9},
    {"hong", neap_hong_linear, by_9},
};
enum { N_TRIED = sizeof all / sizeof *all };

/* Solves and checks that the answer is a set of checkpoints with the objective it claims. */
static uint64_t solve(const tried *t, chain *c)
{
    const least_peak_problem problem = {.n = c->n, .d = c->d, .inner = c->inner};
    least_peak_answer answer = {.chosen = c->chosen};
    neap_diag diag = {0};
    if (t->solve(&problem, &answer, &diag) != NEAP_OK)
        fail_msg("%s: %s", t->name, diag.message);
    assert_false(answer.stopped);
    assert_true(c->chosen[0] && c->chosen[c->n]);
    if (answer.objective != t->objective(c, c->chosen)) {
        print_chain(c);
        fail_msg("%s claims %" PRIu64 " for a set of %" PRIu64, t->name, answer.objective,
                 t->objective(c, c->chosen));
    }
    return answer.objective;
}

static uint64_t least_of_all(const tried *t, const chain *c)
{
    bool chosen[MOST_LAYERS + 1] = {true};
    uint64_t least = UINT64_MAX;
    for (uint32_t set = 0; set < 1u << (c->n > 1 ? c->n - 1 : 0); set++) {
        for (uint32_t i = 1; i < c->n; i++)
            chosen[i] = set >> (i - 1) & 1;
        chosen[c->n] = true;
        uint64_t value = t->objective(c, chosen);
        least = value < least ? value : least;
    }
    return least;
}

/* ---- Tests ---- */

static void test_against_all_sets(void **state)
{
    (void)state;
    uint64_t seed = setting("NEAP_TEST_SEED", 20240607);
    uint64_t count = setting("NEAP_TEST_COUNT", 14000 / SLOW);
    random_source random = {seed};
    printf("seed %" PRIu64 ", %" PRIu64 " chains\n", seed, count);
    for (uint64_t k = 0; k < count; k++) {
        chain c = new_chain(random_below(&random, k % 20 ? 9 : MOST_LAYERS + 1));
        fill(&c, &random, (int)(k % N_KINDS));
        for (int t = 0; t < N_TRIED; t++) {
            uint64_t found = solve(&all[t], &c), least = least_of_all(&all[t], &c);
            if (found != least) {
                print_chain(&c);
                fail_msg("chain %" PRIu64 ": %s finds %" PRIu64 ", the least is %" PRIu64, k,
                         all[t].name, found, least);
            }
        }
        delete_chain(&c);
    }
}

static void test_no_layers_and_one(void **state)
{
    (void)state;
    for (int t = 0; t < N_TRIED; t++) {
        chain none = new_chain(0), one = new_chain(1);
        none.d[0] = one.d[0] = 5;
        one.d[1] = 7;
        none.inner[1] = one.inner[1] = one.inner[2] = 3;
        bool inside = all[t].solve == neap_segment_term_search, nine = all[t].objective == by_9;
        assert_int_equal(solve(&all[t], &none), inside ? 8 : 5);
        assert_int_equal(solve(&all[t], &one), nine ? 17 : inside ? 15 : 12);
        delete_chain(&none);
        delete_chain(&one);
    }
}

static void test_linear_equals_quadratic(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 5)};
    for (int k = 0; k < 6 * N_KINDS; k++) {
        chain c = new_chain(1000 / SLOW + random_below(&random, 5000 / SLOW));
        fill(&c, &random, k % N_KINDS);
        uint64_t quadratic = solve(&all[2], &c), linear = solve(&all[3], &c);
        if (linear != quadratic)
            fail_msg("chain %d of %" PRIu32 " layers: hong finds %" PRIu64
                     ", hong-quadratic %" PRIu64,
                     k, c.n, linear, quadratic);
        delete_chain(&c);
    }
}

/* hong-static leaves most segment sums out; on chains too long for all sets, a path for every sum
 * must agree. */
static uint64_t static_by_all_sums(const chain *c)
{
    uint64_t best = UINT64_MAX, *path = items((size_t)c->n + 1, sizeof *path);
    for (uint32_t a = 0; a <= c->n; a++) {
        uint64_t term = 0;
        for (uint32_t b = a; b < c->n; term += (uint64_t)c->d[++b]) {
            path[0] = (uint64_t)c->d[0];
            for (uint32_t j = 1; j <= c->n; j++) {
                uint64_t segment = 0, least = UINT64_MAX;
                for (uint32_t i = j; i-- > 0 && segment <= term; segment += (uint64_t)c->d[i])
                    least = path[i] < least ? path[i] : least;
                path[j] = least + (uint64_t)c->d[j];
            }
            best = path[c->n] + term < best ? path[c->n] + term : best;
        }
    }
    free(path);
    return best;
}

static void test_static_against_all_sums(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 11)};
    for (int k = 0; k < 20 * N_KINDS / SLOW; k++) {
        chain c = new_chain(30 + random_below(&random, 30));
        fill(&c, &random, k % N_KINDS);
        assert_int_equal(solve(&all[0], &c), static_by_all_sums(&c));
        delete_chain(&c);
    }
}

static void test_long_chains(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {2071, 100000};
    random_source random = {3};
    for (size_t k = 0; k < 2; k++) {
        for (int kind = 0; kind < N_KINDS; kind++) {
            chain c = new_chain(lengths[k] / SLOW);
            fill(&c, &random, kind);
            for (int t = 0; t < N_TRIED; t++)
                if (k == 0 || all[t].solve != neap_hong_quadratic)
                    solve(&all[t], &c);
            delete_chain(&c);
        }
    }
}

/* n equal layers: the least n / s + s is known, and so is that few terms are looked at. */
static void test_equal_layers(void **state)
{
    (void)state;
    chain c = new_chain(9999);
    for (uint32_t i = 1; i <= c.n; i++)
        c.d[i] = 1;
    const least_peak_problem problem = {.n = c.n, .d = c.d};
    least_peak_answer answer = {.chosen = c.chosen};
    assert_int_equal(neap_segment_term_search(&problem, &answer, NULL), NEAP_OK);
    assert_int_equal(answer.objective, 199); /* 100 checkpoints, 99 between any two */
    assert_true(answer.paths < 500);         /* of 9,998 different segments */
    delete_chain(&c);
}

/* Sums near 2^63, and an equation 9 beyond it. */
static void test_huge_sizes(void **state)
{
    (void)state;
    chain c = new_chain(3);
    for (uint32_t i = 0; i <= 3; i++)
        c.d[i] = INT64_MAX / 4 - 3;
    for (int t = 0; t < N_TRIED; t++)
        assert_true(solve(&all[t], &c) == least_of_all(&all[t], &c));
    assert_true(solve(&all[3], &c) > INT64_MAX / 4 * 3);
    chain two = new_chain(1);
    two.d[0] = two.d[1] = (int64_t)1 << 62;
    two.d[1]--;
    assert_true(solve(&all[3], &two) == ((uint64_t)3 << 62) - 1);
    assert_true(solve(&all[0], &two) == INT64_MAX);

    for (int t = 0; t < N_TRIED; t++) {
        const least_peak_problem problem = {.n = 1, .d = two.d};
        least_peak_answer answer = {.chosen = two.chosen};
        neap_diag diag = {0};
        two.d[1] = (int64_t)1 << 62; /* the sum is 2^63 */
        assert_int_equal(all[t].solve(&problem, &answer, &diag), NEAP_INVALID);
        assert_non_null(strstr(diag.message, "size 1 of the chain"));
        two.d[1] = -1;
        assert_int_equal(all[t].solve(&problem, &answer, &diag), NEAP_INVALID);
    }
    delete_chain(&c);
    delete_chain(&two);
}

/* x, y and the checkpoints for a chain done by hand. */
static void test_greedy_by_hand(void **state)
{
    (void)state;
    static const int64_t d[] = {100, 4, 3, 2, 5, 1}, inner[] = {0, 0, 2, 0, 0, 0, 4};
    bool chosen[6];
    int64_t x, y;
    neap_greedy_split(5, d, inner, 6, chosen, &x, &y); /* 4 + 5 > 6; 2 + 5 > 6; 1 + 4 */
    assert_true(chosen[0] && !chosen[1] && chosen[2] && !chosen[3] && chosen[4] && chosen[5]);
    assert_int_equal(x, 3 + 5);
    assert_int_equal(y, 9);
    neap_greedy_split(5, d, inner, 0, chosen, &x, &y);
    assert_int_equal(x, 4 + 3 + 2 + 5 + 1);
    assert_int_equal(y, 5);
    neap_greedy_split(5, d, inner, INT64_MAX, chosen, &x, &y);
    assert_true(!chosen[1] && !chosen[2] && !chosen[3] && !chosen[4] && chosen[5]);
    assert_int_equal(x, 0);
    assert_int_equal(y, 21);
    neap_greedy_split(0, d, NULL, 6, chosen, &x, &y);
    assert_true(chosen[0] && x == 0 && y == 0);
}

/* Every allocation fails once, in turn. */
static void test_no_memory(void **state)
{
    (void)state;
    random_source random = {1};
    chain c = new_chain(50);
    fill(&c, &random, SMALL);
    for (int t = 0; t < N_TRIED; t++) {
        neap_status status = NEAP_NO_MEMORY;
        for (size_t working = 0; status != NEAP_OK; working++) {
            failing_allocator a;
            failing_allocator_init(&a);
            a.fail_from = working;
            a.fail_end = SIZE_MAX;
            const least_peak_problem problem = {
                .allocator = &a.base, .n = c.n, .d = c.d, .inner = c.inner};
            least_peak_answer answer = {.chosen = c.chosen};
            assert_true(working < 10);
            status = all[t].solve(&problem, &answer, NULL);
            assert_int_equal(a.live_blocks, 0);
            assert_null(a.fault);
            assert_true(status == NEAP_OK || status == NEAP_NO_MEMORY);
        }
    }
    delete_chain(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_all_sets),
        cmocka_unit_test(test_no_layers_and_one),
        cmocka_unit_test(test_linear_equals_quadratic),
        cmocka_unit_test(test_static_against_all_sums),
        cmocka_unit_test(test_long_chains),
        cmocka_unit_test(test_equal_layers),
        cmocka_unit_test(test_huge_sizes),
        cmocka_unit_test(test_greedy_by_hand),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
