/*
 * neap's judge against the independent one of tests/oracle, on random graphs and plans: legal ones,
 * altered ones, with addresses, with links, within and past budgets. Both must accept and reject
 * the same plans, blame the same step, and come to the same peak, time, recomputations and bytes
 * offloaded.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=5000 test_judge_oracle     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "settings.h"

#include "base/json.h"

#include <neap/check.h>
#include <neap/layout.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ORACLE NEAP_SOURCE_DIR "/tests/oracle"

/* One line of judge_many.py. */
typedef struct judgement {
    uint32_t number;
    neap_link link;
    int64_t budget, step;
    bool ok;
    int64_t peak, recomputed, offloaded;
    double time, compute_time;
} judgement;

static judgement read_judgement(const char *text)
{
    judgement j = {0};
    json_reader r;
    json_string key;
    neap_diag diag = {0};
    neap_json_init(&r, NULL, "judge_many.py", text, strlen(text), &diag);
    neap_json_begin_object(&r);
    while (neap_json_next_key(&r, &key)) {
        if (neap_json_key_is(key, "number"))
            j.number = neap_json_u32(&r, UINT32_MAX);
        else if (neap_json_key_is(key, "out"))
            j.link.out_bandwidth = neap_json_double(&r);
        else if (neap_json_key_is(key, "in"))
            j.link.in_bandwidth = neap_json_double(&r);
        else if (neap_json_key_is(key, "latency"))
            j.link.latency = neap_json_double(&r);
        else if (neap_json_key_is(key, "duplex"))
            j.link.duplex = neap_json_bool(&r);
        else if (neap_json_key_is(key, "budget"))
            j.budget = neap_json_i64(&r);
        else if (neap_json_key_is(key, "ok"))
            j.ok = neap_json_bool(&r);
        else if (neap_json_key_is(key, "step"))
            j.step = neap_json_i64(&r);
        else if (neap_json_key_is(key, "peak"))
            j.peak = neap_json_i64(&r);
        else if (neap_json_key_is(key, "time"))
            j.time = neap_json_double(&r);
        else if (neap_json_key_is(key, "compute_time"))
            j.compute_time = neap_json_double(&r);
        else if (neap_json_key_is(key, "recomputed"))
            j.recomputed = neap_json_i64(&r);
        else if (neap_json_key_is(key, "offloaded_bytes"))
            j.offloaded = neap_json_i64(&r);
        else
            neap_json_fail(&r, "an unknown field");
    }
    neap_json_end(&r);
    neap_json_clear(&r);
    if (r.status != NEAP_OK)
        fail_msg("%s", diag.message);
    return j;
}

typedef struct pair {
    uint32_t number;
    neap_graph *graph;
    neap_plan *plan;
} pair;

static void clear_pair(pair *p)
{
    neap_plan_destroy(p->plan);
    neap_graph_destroy(p->graph);
    *p = (pair){UINT32_MAX, NULL, NULL};
}

static void read_pair(pair *p, const char *folder, uint32_t number)
{
    char path[512];
    neap_diag diag = {0};
    clear_pair(p);
    p->number = number;
    snprintf(path, sizeof path, "%s/%03u.graph.json", folder, (unsigned)number);
    if (neap_graph_read_file(NULL, path, &p->graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    snprintf(path, sizeof path, "%s/%03u.plan.json", folder, (unsigned)number);
    if (neap_plan_read_file(NULL, path, &p->plan, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
}

/* The oracle's times are exact, ours are in ticks, to the nearest for each transfer. */
static bool is_near(const pair *p, double ours, double theirs)
{
    double tick = 1 / (double)neap_graph_ticks_per_second(p->graph);
    return fabs(ours - theirs) <=
           tick * (double)(neap_plan_step_count(p->plan) + 1) + 1e-12 * theirs;
}

static void compare(const pair *p, const judgement *j)
{
    neap_check_options options;
    neap_check_options_init(&options);
    options.link = j->link.out_bandwidth > 0 ? &j->link : NULL;
    options.budget = j->budget < 0 ? INT64_MAX : j->budget;
    neap_verdict v;
    assert_int_equal(neap_check(NULL, p->graph, p->plan, &options, &v, NULL), NEAP_OK);
    int64_t step = v.step == SIZE_MAX ? -1 : (int64_t)v.step;
    bool same = v.accepted == j->ok && step == j->step;
    if (same && j->ok)
        same = v.peak_bytes == j->peak && (int64_t)v.recomputed_ops == j->recomputed &&
               v.offloaded_bytes == j->offloaded && is_near(p, v.time, j->time) &&
               is_near(p, neap_graph_seconds(p->graph, v.compute_ticks), j->compute_time);
    if (!same)
        fail_msg("%03u, link %g/%g, budget %lld: accepted %d (%s) at step %lld, peak %lld, time "
                 "%.17g, recomputed %llu, offloaded %lld; the oracle: %d, step %lld, %lld, %.17g, "
                 "%lld, %lld",
                 (unsigned)j->number, j->link.out_bandwidth, j->link.in_bandwidth,
                 (long long)j->budget, v.accepted, v.reason, (long long)step,
                 (long long)v.peak_bytes, v.time, (unsigned long long)v.recomputed_ops,
                 (long long)v.offloaded_bytes, j->ok, (long long)j->step, (long long)j->peak,
                 j->time, (long long)j->recomputed, (long long)j->offloaded);
}

/* The timeline has the judge's figures, and the layout's addresses pass the judge. */
static void compare_others(const pair *p, const judgement *j)
{
    const neap_link *link = j->link.out_bandwidth > 0 ? &j->link : NULL;
    neap_check_options options = {.budget = INT64_MAX, .link = link};
    neap_verdict v;
    neap_timeline t;
    neap_diag diag = {0};
    assert_int_equal(neap_check(NULL, p->graph, p->plan, &options, &v, NULL), NEAP_OK);
    if (neap_timeline_build(NULL, p->graph, p->plan, link, &t, &diag) != NEAP_OK)
        fail_msg("%03u: %s", (unsigned)j->number, diag.message);
    assert_int_equal(t.peak_bytes, v.peak_bytes);
    assert_int_equal(t.makespan_ticks, v.ticks);
    neap_timeline_clear(&t);
    if (neap_layout_assign(NULL, p->graph, p->plan, NULL, &diag) != NEAP_OK)
        fail_msg("%03u: %s", (unsigned)j->number, diag.message);
    assert_int_equal(neap_check(NULL, p->graph, p->plan, &options, &v, NULL), NEAP_OK);
    if (!v.accepted)
        fail_msg("%03u, with addresses: %s", (unsigned)j->number, v.reason);
    assert_true(v.arena_bytes >= v.peak_bytes);
}

static void run_shell(const char *command)
{
    if (system(command) != 0)
        fail_msg("failed: %s", command);
}

static void test_the_two_judges_agree(void **state)
{
    (void)state;
    need_python();
    unsigned long seed = (unsigned long)setting("NEAP_TEST_SEED", 1);
    unsigned long count = (unsigned long)setting("NEAP_TEST_COUNT", 800 / ONE_IN(8));
    const char *tmp = getenv("TMPDIR");
    char folder[256], command[1024], line[1024];
    snprintf(folder, sizeof folder, "%s/neap-oracle-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    assert_non_null(mkdtemp(folder));
    print_message("seed %lu, %lu graphs and plans\n", seed, count);
    snprintf(command, sizeof command, "python3 -B '%s/random_graph.py' %lu %lu '%s'", ORACLE, seed,
             count, folder);
    run_shell(command);

    snprintf(command, sizeof command, "python3 -B '%s/judge_many.py' '%s'", ORACLE, folder);
    FILE *oracle = popen(command, "r");
    assert_non_null(oracle);
    pair p = {UINT32_MAX, NULL, NULL};
    unsigned judged = 0, accepted = 0;
    while (fgets(line, sizeof line, oracle)) {
        judgement j = read_judgement(line);
        if (j.number != p.number)
            read_pair(&p, folder, j.number);
        compare(&p, &j);
        if (j.ok && j.link.duplex && j.budget < 0) { /* once for each plan */
            compare_others(&p, &j);
            read_pair(&p, folder, j.number); /* without the new addresses */
        }
        judged++;
        accepted += j.ok;
    }
    assert_int_equal(pclose(oracle), 0);
    clear_pair(&p);
    print_message("%u judgements agree, %u of them accept\n", judged, accepted);
    assert_true(judged >= 4 * count && accepted > judged / 10 && accepted < judged * 9 / 10);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    run_shell(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_two_judges_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
