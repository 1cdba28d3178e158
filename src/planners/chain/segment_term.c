/*
 * The least sum of checkpoints and largest segment, over all sets of checkpoints of a chain.
 *
 * Let c_s be the least sum of checkpoints such that no segment exceeds s. The answer is the least s
 * + c_s over all s that are the size of some segment: n(n+1)/2 of them at most. One c_s is a
 * shortest path over the layers, where j is reached from i if the segment between them has at most
 * s bytes. Those i form a window whose two ends only move right, so a monotone queue finds each
 * minimum and c_s costs O(n) (Algorithm 3 of Hong et al.; the accessibility graph of Feng and
 * Huang). Trying every s would take O(n^3); term_sweep.h avoids nearly all of them.
 *
 * The number of paths is about the integral of ds / (s + c_s - best). In practice it is 20 to 35 on
 * the built-in networks and grows as n^0.16 on longer chains, 200 for a million layers
 * (bench/hong_growth). In the worst case every segment sum is tried, O(n^3) as in the paper.
 *
 * Departures from Algorithm 3: d_n is always a checkpoint, as the paper's text assumes but M(n, s)
 * does not enforce; ties prefer the nearer checkpoint, which gives smaller segments for the same
 * sum.
 */
#include "planners/chain/least_peak.h"

#include "base/fail.h"
#include "planners/chain/term_sweep.h"

typedef struct search {
    const least_peak_problem *problem;
    uint32_t n;
    const int64_t *d;
    int64_t *through; /* n + 1: bytes made by layers 1 .. i */
    int64_t *path;    /* n + 1: least sum of checkpoints 0 .. j, j among them */
    uint32_t *from;   /* n + 1: the checkpoint before j on that path */
    uint32_t *queue;  /* n + 1: candidates for `from`, their `path` rising */
    int64_t least;    /* no s below it has a path */
} search;

/* Bytes of the segment between checkpoints i < j. */
static int64_t segment(const search *s, uint32_t i, uint32_t j)
{
    return s->through[j] - s->d[j] - s->through[i];
}

/*
 * Solves for the term `most`: returns c_s and sets *largest to the path's largest segment. `most`
 * is at least s->least, so that the step from j - 1 to j is always allowed.
 */
static int64_t shortest_path(void *context, int64_t most, int64_t *largest)
{
    search *s = context;
    uint32_t head = 0, tail = 0; /* the queue is queue[head .. tail - 1] */
    s->path[0] = s->d[0];
    for (uint32_t j = 1; j <= s->n; j++) {
        while (tail > head && s->path[s->queue[tail - 1]] >= s->path[j - 1])
            tail--;
        s->queue[tail++] = j - 1;
        while (segment(s, s->queue[head], j) > most)
            head++;
        s->from[j] = s->queue[head];
        s->path[j] = s->path[s->queue[head]] + s->d[j];
    }
    *largest = s->least;
    for (uint32_t j = s->n; j > 0; j = s->from[j])
        if (segment(s, s->from[j], j) > *largest)
            *largest = segment(s, s->from[j], j);
    return s->path[s->n];
}

static void prepare(search *s)
{
    const int64_t *inner = s->problem->inner;
    s->least = inner ? inner[s->n + 1] : 0;
    for (uint32_t i = 1; i <= s->n; i++) {
        int64_t own = inner ? inner[i] : 0;
        s->through[i] = s->through[i - 1] + own + s->d[i];
        if (own > s->least)
            s->least = own;
    }
}

static void choose(search *s, int64_t term, least_peak_answer *answer)
{
    int64_t largest;
    shortest_path(s, term, &largest);
    for (uint32_t i = 0; i <= s->n; i++)
        answer->chosen[i] = false;
    for (uint32_t j = s->n; j > 0; j = s->from[j])
        answer->chosen[j] = true;
    answer->chosen[0] = true;
}

static void find_best(search *s, least_peak_answer *answer)
{
    prepare(s);
    term_sweep sweep = {.stored = shortest_path,
                        .context = s,
                        .planner = s->problem->planner,
                        .least = s->least,
                        .most = s->through[s->n]};
    neap_term_sweep_run(&sweep);
    choose(s, sweep.best_term, answer);
    answer->objective = (uint64_t)sweep.best;
    answer->stopped = sweep.stopped;
    answer->paths = sweep.tried + 1;
}

neap_status neap_segment_term_search(const least_peak_problem *problem, least_peak_answer *answer,
                                     neap_diag *diag)
{
    search s = {.problem = problem, .n = problem->n, .d = problem->d};
    size_t length = (size_t)problem->n + 1;
    neap_arena arena;
    NEAP_TRY(neap_least_peak_check(problem, diag));
    neap_arena_init(&arena, problem->allocator);
    bool taken = NEAP_TAKE(&arena, length, s.through) && NEAP_TAKE(&arena, length, s.path) &&
                 NEAP_TAKE(&arena, length, s.from) && NEAP_TAKE(&arena, length, s.queue);
    if (taken)
        find_best(&s, answer);
    neap_arena_clear(&arena);
    return taken ? NEAP_OK : neap_fail_no_memory(diag);
}
