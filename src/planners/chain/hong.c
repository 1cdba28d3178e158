/*
 * hong: the checkpoints with the least peak where what is done with goes at once, in O(n).
 *
 * Hong, Tsai, Wang, Liu and Wu, "GPU Memory Usage Optimization for Backward Propagation in Deep
 * Network Training", section 4.2: Algorithm 6, put right. M, U and the objective (equation 9, from
 * d_0) are those of hong_quadratic.c:
 *
 *     M(n) = d_n,   M(i) = d_i + min over j > i of max(M(j), U(i, j)),
 *     U(i, j) = sum of d_{i+1} .. d_j  +  max of d_i .. d_{j-1}.
 *
 * U rises with j (Lemma 1), so a j is of use only if M(j) is less than every M between i and j
 * (Lemma 3): the queue Q keeps those, where M falls as j grows. Of max(M(j), U(i, j)) over Q, M
 * decides at the left and U at the right; the minimum is at one of the two neighbours of the
 * crossing, and the crossing only moves left as i does (Lemma 4).
 *
 * What the printed algorithm gets wrong, and what is done here:
 *
 *   - Line 13 compares j with j + 1. The right neighbour is the *successor of j in Q*. Here
 * candidates leave Q at its right end once U(i, j) >= M(j); the last one to leave is that
 * successor, and what is then at the end is j.
 *   - Lines 4 and 14 start from the j* of before, which may have left Q at line 15. Here nothing is
 * remembered but Q: a j that left at step i is never needed again. For every i' < i the sum in
 * U(i', j) has d_i more than that in U(i, j), and the maximum is over a larger range, so U(i', j)
 * >= d_i + U(i, j) >= M(i); and U(i', i) <= U(i', j). So i itself, as the next checkpoint, is at
 * least as good, and i is in Q, or something better than i.
 *   - Line 10 computes the maximum in U(i, j') from that in U(i, j), over a range that contains its
 * own: tracking one number cannot shrink. Both ends of the range only move left, so a monotone
 * deque W has it, O(1) a step.
 *
 * Every layer enters and leaves Q and W once, and the sum in U follows the end of Q to the left:
 * O(n) time and memory, two comparisons or so a layer.
 */
#include "planners/chain/least_peak.h"

#include "base/memory.h"

/* Indices that fall from `begin` to `end`; both ends move only forward in the array but for pops at
 * `end`. */
typedef struct falling {
    uint32_t *items;
    uint32_t begin, end;
} falling;

typedef struct linear {
    const int64_t *d;
    uint64_t *m;    /* M(i), for those i that are in Q */
    uint32_t *next; /* the checkpoint behind i */
    falling q;      /* items[begin], the largest index, is the right end */
    falling w;      /* indices k of i .. right - 1, d_k falling towards i: d of items[begin] is the
                       maximum */
    uint64_t sum;   /* of d_{i+1} .. d_right, where right is the right end of Q */
} linear;

static void push_window(linear *s, uint32_t i)
{
    falling *w = &s->w;
    while (w->end > w->begin && s->d[w->items[w->end - 1]] <= s->d[i])
        w->end--;
    w->items[w->end++] = i;
}

/* Takes the right end out of Q; sum and window follow to the next. */
static void drop_right(linear *s)
{
    uint32_t old = s->q.items[s->q.begin++];
    if (s->q.begin == s->q.end)
        return;
    uint32_t right = s->q.items[s->q.begin];
    for (uint32_t k = right + 1; k <= old; k++)
        s->sum -= (uint64_t)s->d[k];
    while (s->w.items[s->w.begin] >= right)
        s->w.begin++;
}

/* M(i), given Q for i + 1. */
static uint64_t least_from(linear *s, uint32_t i, uint32_t *next)
{
    uint64_t best = UINT64_MAX;
    s->sum += (uint64_t)s->d[i + 1];
    push_window(s, i);
    while (s->q.begin < s->q.end) {
        uint32_t j = s->q.items[s->q.begin];
        uint64_t u = s->sum + (uint64_t)s->d[s->w.items[s->w.begin]];
        if (u < s->m[j]) {         /* left of the crossing: M(j) decides */
            if (s->m[j] <= best) { /* a tie: more checkpoints, less to compute again */
                best = s->m[j];
                *next = j;
            }
            break;
        }
        best = u; /* right of it: U(i, j) decides, and falls from one j to the next */
        *next = j;
        drop_right(s);
    }
    return best + (uint64_t)s->d[i];
}

/* Adds i at the left end, after taking out all that are no better. */
static void push_left(linear *s, uint32_t i)
{
    falling *q = &s->q;
    while (q->end > q->begin && s->m[q->items[q->end - 1]] >= s->m[i])
        q->end--;
    if (q->end == q->begin) { /* i is the right end as well: the range before it is empty */
        s->sum = 0;
        s->w.begin = s->w.end = 0;
    }
    q->items[q->end++] = i;
}

neap_status neap_hong_linear(const least_peak_problem *problem, least_peak_answer *answer,
                             neap_diag *diag)
{
    neap_allocator *allocator = neap_allocator_or_system(problem->allocator);
    const uint32_t n = problem->n;
    const size_t length = (size_t)n + 1;
    linear s = {.d = problem->d};
    neap_status status = neap_least_peak_check(problem, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, length, &s.m, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, length, &s.next, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, length, &s.q.items, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, length, &s.w.items, diag);
    if (status != NEAP_OK)
        goto done;

    s.m[n] = (uint64_t)s.d[n];
    push_left(&s, n);
    for (uint32_t i = n; i-- > 0;) {
        s.m[i] = least_from(&s, i, &s.next[i]);
        push_left(&s, i);
    }
    answer->objective = s.m[0];
    answer->stopped = false;
    for (uint32_t i = 0, at = 0; i <= n; i++) {
        answer->chosen[i] = i == at;
        if (i == at)
            at = s.next[i];
    }
done:
    NEAP_DELETE(allocator, length, s.m);
    NEAP_DELETE(allocator, length, s.next);
    NEAP_DELETE(allocator, length, s.q.items);
    NEAP_DELETE(allocator, length, s.w.items);
    return status;
}

static neap_status plan_hong(const planner *p, draft *d, neap_diag *diag)
{
    return planner_use_least_peak(p, d, neap_hong_linear, diag);
}

const neap_method method_hong = {
    .name = "hong",
    .summary = "least peak where checkpoints go once used, O(n)",
    .source = "Hong et al., GPU Memory Usage Optimization for Backward Propagation, Algorithm 6",
    .plan = plan_hong,
};
