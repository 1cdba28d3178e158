/*
 * hong-quadratic: the checkpoints with the least peak if values are freed after their last use, in
 * O(n^2).
 *
 * Hong, Tsai, Wang, Liu and Wu, "GPU Memory Usage Optimization for Backward Propagation in Deep
 * Network Training", section 4: Algorithm 5 for the dynamic checkpoint selection problem. While the
 * segment between neighbouring checkpoints h < i is in its backward phase, memory holds (equation
 * 9)
 *
 *     m(i) = sum of checkpoints up to i  +  sum of d_{h+1} .. d_{i-1}  +  max of d_h .. d_{i-1},
 *
 * the last term for the gradients; the peak is the largest m(i). With M(i) the least peak from
 * layer i on, given that i is a checkpoint and nothing before it counts,
 *
 *     M(n) = d_n,   M(i) = d_i + min over j > i of max(M(j), U(i, j)),
 *     U(i, j) = sum of d_{i+1} .. d_j  +  max of d_i .. d_{j-1}.
 *
 * j may be n (equation 13 leaves it out, Algorithm 5 does not), and the answer here is M(0): the
 * input is a checkpoint and counts. This is the plain form that `hong` is tested against; both find
 * the same optimum. O(n) memory.
 */
#include "planners/chain/least_peak.h"

#include "base/fail.h"

/* M(i) from all M(j), j > i; *next gets the best j. */
static uint64_t least_from(uint32_t n, const int64_t *d, const uint64_t *m, uint32_t i,
                           uint32_t *next)
{
    uint64_t best = UINT64_MAX, sum = 0;
    int64_t largest = 0;
    for (uint32_t j = i + 1; j <= n; j++) {
        sum += (uint64_t)d[j];
        largest = d[j - 1] > largest ? d[j - 1] : largest;
        uint64_t u = sum + (uint64_t)largest;
        uint64_t peak = m[j] > u ? m[j] : u;
        if (peak < best) {
            best = peak;
            *next = j;
        }
    }
    return best + (uint64_t)d[i];
}

neap_status neap_hong_quadratic(const least_peak_problem *problem, least_peak_answer *answer,
                                neap_diag *diag)
{
    const uint32_t n = problem->n;
    const int64_t *d = problem->d;
    uint64_t *m;    /* M(i) */
    uint32_t *next; /* the checkpoint after i */
    neap_arena arena;
    NEAP_TRY(neap_least_peak_check(problem, diag));
    neap_arena_init(&arena, problem->allocator);
    if (!NEAP_TAKE(&arena, (size_t)n + 1, m) || !NEAP_TAKE(&arena, (size_t)n + 1, next)) {
        neap_arena_clear(&arena);
        return neap_fail_no_memory(diag);
    }
    answer->stopped = false;
    m[n] = (uint64_t)d[n];
    for (uint32_t i = n; i-- > 0;) {
        if (problem->planner && i % 64 == 0 && neap_planner_stopped(problem->planner))
            answer->stopped = true;
        /* Once stopped, every remaining layer becomes a checkpoint. */
        m[i] = least_from(answer->stopped ? i + 1 : n, d, m, i, &next[i]);
    }
    answer->objective = m[0];
    neap_least_peak_follow(next, n, answer);
    neap_arena_clear(&arena);
    return NEAP_OK;
}

static neap_status plan_hong_quadratic(const planner *p, draft *d, neap_diag *diag)
{
    return neap_planner_use_least_peak(p, d, neap_hong_quadratic, diag);
}

const neap_method neap_method_hong_quadratic = {
    .name = "hong-quadratic",
    .summary = "least peak where checkpoints go once used, O(n^2)",
    .source = "Hong et al., GPU Memory Usage Optimization for Backward Propagation, Algorithm 5",
    NEAP_METHOD_OPTIONS(neap_least_peak_options),
    .plan = plan_hong_quadratic,
};
