/*
 * hong: the checkpoints with the least peak if values are freed after their last use, in O(n).
 *
 * Hong, Tsai, Wang, Liu and Wu, "GPU Memory Usage Optimization for Backward Propagation in Deep
 * Network Training", section 4.2: Algorithm 6, corrected. M, U and the objective (equation 9, from
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
 * Errors of the printed algorithm, and their corrections here:
 *
 *   - Line 13 compares j with j + 1. The right neighbour is the *successor of j in Q*. Here
 * candidates leave Q at its right end once U(i, j) >= M(j); the last one to leave is that
 * successor, and what is then at the end is j.
 *   - Lines 4 and 14 start from the j* of before, which may have left Q at line 15. Here nothing is
 * kept but Q: a j that left at step i is never needed again. For every i' < i the sum in
 * U(i', j) has d_i more than that in U(i, j), and the maximum is over a larger range, so U(i', j)
 * >= d_i + U(i, j) >= M(i); and U(i', i) <= U(i', j). So i itself, as the next checkpoint, is at
 * least as good, and i is in Q, or something better than i.
 *   - Line 10 computes the maximum in U(i, j') from that in U(i, j), over a range that contains its
 * own: tracking one number cannot shrink. Both ends of the range only move left, so a monotone
 * deque W has it, O(1) a step.
 *
 * Every layer enters and leaves Q and W once, and the sum in U follows the right end of Q: O(n)
 * time. M is kept for the entries of Q only, and Q and W are only as long as a segment, so the
 * working set stays in cache: ten million layers take well under a second.
 */
#include "planners/chain/least_peak.h"

#include "base/fail.h"
#include "base/memory.h"

#include <string.h>

typedef struct entry {
    uint64_t value; /* M(j) in Q, d_k in W */
    uint32_t index;
} entry;

/*
 * A deque of entries whose indices fall from items[begin], the right end, to items[end - 1], the
 * left end. Entries come in at the left and go out at both ends.
 */
typedef struct falling {
    entry *items;
    size_t begin, end, capacity;
} falling;

typedef struct linear {
    neap_allocator *allocator;
    const int64_t *d;
    uint32_t *next; /* the checkpoint after i */
    falling q;      /* M falls to the right */
    falling w; /* d_k for k of i .. right - 1, falling to the left: the right end is the maximum */
    uint64_t sum; /* of d_{i+1} .. d_right, where right is the right end of Q */
} linear;

static bool is_empty(const falling *f)
{
    return f->begin == f->end;
}

/* When the room is used up, moves the entries to the front if that frees half of it. */
static neap_status push(const linear *s, falling *f, uint32_t index, uint64_t value,
                        neap_diag *diag)
{
    if (f->end == f->capacity && f->begin > f->capacity / 2) {
        memmove(f->items, f->items + f->begin, (f->end - f->begin) * sizeof *f->items);
        f->end -= f->begin;
        f->begin = 0;
    }
    if (f->end == f->capacity)
        NEAP_TRY(NEAP_RESERVE(s->allocator, f->capacity + 16, &f->items, &f->capacity, diag));
    f->items[f->end++] = (entry){value, index};
    return NEAP_OK;
}

static neap_status push_window(linear *s, uint32_t i, neap_diag *diag)
{
    uint64_t size = (uint64_t)s->d[i];
    while (!is_empty(&s->w) && s->w.items[s->w.end - 1].value <= size)
        s->w.end--;
    return push(s, &s->w, i, size, diag);
}

/* Takes the right end out of Q; sum and window follow to the next. */
static void drop_right(linear *s)
{
    uint32_t old = s->q.items[s->q.begin++].index;
    if (is_empty(&s->q))
        return;
    uint32_t right = s->q.items[s->q.begin].index;
    for (uint32_t k = right + 1; k <= old; k++)
        s->sum -= (uint64_t)s->d[k];
    while (s->w.items[s->w.begin].index >= right) /* the last, i, is less */
        s->w.begin++;
}

/* M(i), given Q for i + 1 and the window with i. */
static uint64_t least_from(linear *s, uint32_t i)
{
    uint64_t best = UINT64_MAX;
    s->sum += (uint64_t)s->d[i + 1];
    while (!is_empty(&s->q)) {
        entry j = s->q.items[s->q.begin];
        uint64_t u = s->sum + s->w.items[s->w.begin].value;
        if (u < j.value) {         /* left of the crossing: M(j) decides */
            if (j.value <= best) { /* a tie: more checkpoints, less to compute again */
                best = j.value;
                s->next[i] = j.index;
            }
            break;
        }
        best = u; /* right of it: U(i, j) decides, and falls from one j to the next */
        s->next[i] = j.index;
        drop_right(s);
    }
    return best + (uint64_t)s->d[i];
}

/* Adds i to Q at the left, after removing all entries that are no better. */
static neap_status push_left(linear *s, uint32_t i, uint64_t m, neap_diag *diag)
{
    while (!is_empty(&s->q) && s->q.items[s->q.end - 1].value >= m)
        s->q.end--;
    if (is_empty(&s->q)) { /* i is the right end as well: the range before it is empty */
        s->sum = 0;
        s->w.begin = s->w.end = 0;
    }
    return push(s, &s->q, i, m, diag);
}

neap_status neap_hong_linear(const least_peak_problem *problem, least_peak_answer *answer,
                             neap_diag *diag)
{
    const uint32_t n = problem->n;
    linear s = {.allocator = neap_allocator_or_system(problem->allocator), .d = problem->d};
    neap_status status = neap_least_peak_check(problem, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(s.allocator, (size_t)n + 1, &s.next, diag);
    if (status != NEAP_OK)
        goto done;

    answer->objective = (uint64_t)s.d[n];
    answer->stopped = false;
    status = push_left(&s, n, answer->objective, diag);
    for (uint32_t i = n; status == NEAP_OK && i-- > 0;) {
        status = push_window(&s, i, diag);
        if (status == NEAP_OK) {
            answer->objective = least_from(&s, i);
            status = push_left(&s, i, answer->objective, diag);
        }
    }
    if (status == NEAP_OK)
        neap_least_peak_follow(s.next, n, answer);
done:
    NEAP_DELETE(s.allocator, (size_t)n + 1, s.next);
    NEAP_DELETE(s.allocator, s.q.capacity, s.q.items);
    NEAP_DELETE(s.allocator, s.w.capacity, s.w.items);
    return status;
}

static neap_status plan_hong(const planner *p, draft *d, neap_diag *diag)
{
    return neap_planner_use_least_peak(p, d, neap_hong_linear, diag);
}

const neap_method neap_method_hong = {
    .name = "hong",
    .summary = "least peak where checkpoints go once used, O(n)",
    .source = "Hong et al., GPU Memory Usage Optimization for Backward Propagation, Algorithm 6",
    NEAP_METHOD_OPTIONS(neap_least_peak_options),
    .plan = plan_hong,
};
