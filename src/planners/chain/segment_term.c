/*
 * The least sum of checkpoints and largest segment, over all sets of checkpoints of a chain.
 *
 * Let c_s be the least sum of checkpoints such that no segment exceeds s. The answer is the least s
 * + c_s over all s that are the size of some segment: n(n+1)/2 of them at most. One c_s is a
 * shortest path over the layers, where j is reached from i if the segment between them has at most
 * s bytes. Those i form a window whose two ends only move right, so a monotone queue finds each
 * minimum and c_s costs O(n) (Algorithm 3 of Hong et al.; the accessibility graph of Feng and
 * Huang). Trying every s would take O(n^3). Two facts avoid nearly all of them:
 *
 *   1. c_s never rises as s grows. So if `best` is the least sum known, no s' <= s with s' + c_s >=
 * best is better: one path at s settles the range best - c_s .. s.
 *   2. The path found at s has a largest segment a <= s, and c is constant from a to s.
 *
 * So a sweep from the largest s to the smallest continues at min(best - c_s, a) - 1. For a given
 * `best` no other choice of points settles the range with fewer paths. Coarse sweeps come first so
 * that `best` is good early: they require an improvement by a quarter, by a 32nd and so on, and
 * take longer strides. The last sweep requires one byte: that is the proof.
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

typedef struct search {
    const least_peak_problem *problem;
    uint32_t n;
    const int64_t *d;
    int64_t *through;  /* n + 1: bytes made by layers 1 .. i */
    int64_t *path;     /* n + 1: least sum of checkpoints 0 .. j, j among them */
    uint32_t *from;    /* n + 1: the checkpoint before j on that path */
    uint32_t *queue;   /* n + 1: candidates for `from`, their `path` rising */
    int64_t least;     /* no s below it has a path */
    int64_t best;      /* least s + c_s so far */
    int64_t best_term; /* the s it was found with */
    uint32_t paths;    /* solved */
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
static int64_t shortest_path(search *s, int64_t most, int64_t *largest)
{
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
    s->paths++;
    return s->path[s->n];
}

/* The improvement that a sweep requires: best / 2^shift. */
enum { COARSEST = 2, MIDDLE = 5, FINE = 8, EXACT = 63 };

/*
 * Goes through all s from the largest to the smallest, except those that cannot improve on `best`
 * by more than best / 2^shift. Returns false if asked to stop; the coarsest sweep always completes.
 */
static bool sweep(search *s, int shift)
{
    int64_t most = s->through[s->n] > s->least ? s->through[s->n] : s->least;
    while (most >= s->least) {
        if (shift != COARSEST && s->problem->planner && neap_planner_stopped(s->problem->planner))
            return false;
        int64_t largest, stored = shortest_path(s, most, &largest);
        if (stored < s->best - largest) {
            s->best = stored + largest;
            s->best_term = largest;
        }
        int64_t useful = s->best - (s->best >> shift) - stored; /* less than this may improve */
        most = (useful < largest ? useful : largest) - 1;
    }
    return true;
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

static void choose(search *s, least_peak_answer *answer)
{
    int64_t largest;
    shortest_path(s, s->best_term, &largest);
    for (uint32_t i = 0; i <= s->n; i++)
        answer->chosen[i] = false;
    for (uint32_t j = s->n; j > 0; j = s->from[j])
        answer->chosen[j] = true;
    answer->chosen[0] = true;
    answer->objective = (uint64_t)s->best;
}

static void find_best(search *s, least_peak_answer *answer)
{
    static const int shifts[] = {COARSEST, MIDDLE, FINE, EXACT};
    int64_t largest;
    prepare(s);
    s->best = shortest_path(s, s->least, &largest) + largest; /* so that there is an answer */
    s->best_term = largest;
    answer->stopped = false;
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts && !answer->stopped; i++)
        answer->stopped = !sweep(s, shifts[i]);
    choose(s, answer);
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
    answer->paths = s.paths;
    neap_arena_clear(&arena);
    return taken ? NEAP_OK : neap_fail_no_memory(diag);
}
