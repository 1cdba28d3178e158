#include "planners/checkmate/stage_search.h"
#include "base/clock.h"

#include "base/memory.h"
#include "base/random.h"
#include "planners/checkmate/stage_runs.h"

#include <math.h>
#include <stdlib.h>

/* A drop brings at most so many runs with it: chains of recomputations that are longer pay off
   rarely, and looking for them everywhere costs most of the time. */
#define MOST_NEEDED 48

/* Small graphs are searched through sooner. */
#define ROUNDS_AN_OP 10u

typedef struct change {
    slot at;
    bool inserted;
} change;

typedef struct drop {
    double score; /* overflow removed for time added; 0: no drop */
    uint32_t n;
    slot needed[MOST_NEEDED]; /* runs to insert */
} drop;

typedef struct candidate {
    double key;
    slot at;
} candidate;

typedef struct stage_search {
    const planner *p;
    stage_runs state;
    int64_t room;
    uint64_t random;
    double noise;
    change *journal; /* since the last accepted schedule */
    size_t n_journal, journal_capacity;
    candidate *list;
    size_t list_capacity;
    int64_t *overflow; /* per stage */
    neap_diag *diag;
} stage_search;

/* ---- Changes that can be taken back ---- */

static neap_status note(stage_search *x, slot at, bool inserted)
{
    neap_status status =
        NEAP_RESERVE(x->p->allocator, x->n_journal + 1, &x->journal, &x->journal_capacity, x->diag);
    if (status == NEAP_OK)
        x->journal[x->n_journal++] = (change){at, inserted};
    return status;
}

static neap_status insert(stage_search *x, slot at)
{
    neap_status status = note(x, at, true);
    return status == NEAP_OK ? neap_stage_runs_insert(&x->state, at, x->diag) : status;
}

static neap_status take_out(stage_search *x, slot at)
{
    neap_status status = note(x, at, false);
    if (status == NEAP_OK)
        neap_stage_runs_remove(&x->state, at);
    return status;
}

static neap_status take_back(stage_search *x, size_t to)
{
    neap_status status = NEAP_OK;
    while (x->n_journal > to && status == NEAP_OK) {
        change last = x->journal[--x->n_journal];
        if (last.inserted)
            neap_stage_runs_remove(&x->state, last.at);
        else
            status = neap_stage_runs_insert(&x->state, last.at, x->diag);
    }
    return status;
}

/* ---- Repair ---- */

static bool is_needed(const drop *d, slot at)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (d->needed[i].op == at.op)
            return true;
    return false;
}

/* Adds the run and what it needs in the same stage; false where that cannot be, or is more than
   `most_ticks`. A storage that is gone is held a little longer if it fits, else made again. */
static bool gather(const stage_search *x, drop *d, slot at, int64_t *ticks, int64_t most_ticks)
{
    const stage_runs *state = &x->state;
    *ticks += state->ticks[at.op];
    if (d->n == MOST_NEEDED || *ticks > most_ticks)
        return false;
    d->needed[d->n++] = at;
    for (size_t i = state->reads.start[at.op]; i < state->reads.start[at.op + 1]; i++) {
        uint32_t s = state->reads.items[i];
        const neap_value *storage = neap_graph_value(state->graph, s);
        slot maker = {at.stage, storage->producer};
        touches t = neap_stage_runs_touches(state, s, at);
        if (t.next == NEXT_USES || is_needed(d, maker))
            continue;
        if (neap_stage_profile_most(&state->profile, slot_next(t.before), at) + storage->bytes <=
            x->room)
            continue;
        if (!slot_before(t.before, maker) || !gather(x, d, maker, ticks, most_ticks))
            return false;
    }
    return true;
}

/* Overflow that dropping so many bytes between two slots removes, summed over stages. */
static double relief(const stage_search *x, slot from, slot to, int64_t bytes)
{
    double sum = 0;
    for (uint32_t t = from.stage; t <= to.stage && t < x->state.n_ops; t++) {
        int64_t over = x->overflow[t] < bytes ? x->overflow[t] : bytes;
        if (over > 0 && ((t != from.stage && t != to.stage) || from.stage == to.stage))
            sum += (double)over;
        else if (over > 0)
            sum += 0.5 * (double)over;
    }
    return sum;
}

/* Looks at dropping a storage that only waits at the overfull slot; keeps the better. */
static void consider_drop(stage_search *x, uint32_t s, slot peak, drop *best)
{
    const stage_runs *state = &x->state;
    const neap_value *storage = neap_graph_value(state->graph, s);
    touches t = neap_stage_runs_touches(state, s, peak);
    if (t.next != NEXT_USES || !t.made_before)
        return;
    slot last = {state->n_ops - 1, state->n_ops - 1};
    slot use = t.behind.stage < state->n_ops ? t.behind : last;
    slot at = {use.stage, storage->producer};
    if (!slot_before(peak, at) || !slot_before(at, use))
        return;
    double gain = relief(x, slot_next(t.before), slot_previous(at), storage->bytes) *
                  (1 + x->noise * neap_random_real(&x->random));
    double epsilon = 1e-6 * (double)neap_graph_least_ticks(state->graph) + 1;
    double most = best->score > 0 ? gain / best->score - epsilon : 1e18;
    drop d = {0};
    int64_t ticks = 0;
    if (gain <= 0 || most < 0 || !gather(x, &d, at, &ticks, (int64_t)most))
        return;
    d.score = gain / ((double)ticks + epsilon);
    if (d.score > best->score)
        *best = d;
}

static bool touches_slot(const stage_runs *state, uint32_t s, slot at)
{
    if (!neap_stage_runs_has(state, at))
        return false;
    if (neap_graph_value(state->graph, s)->producer == at.op)
        return true;
    for (size_t i = state->reads.start[at.op]; i < state->reads.start[at.op + 1]; i++)
        if (state->reads.items[i] == s)
            return true;
    return false;
}

static int by_op(const void *left, const void *right)
{
    const slot *a = left, *b = right;
    return a->op < b->op ? -1 : a->op > b->op;
}

/* Drops storages until nothing is overfull; *repaired false where no drop helps. */
static neap_status repair(stage_search *x, bool *repaired)
{
    stage_runs *state = &x->state;
    uint32_t n_values = neap_graph_value_count(state->graph);
    for (uint32_t step = 0; step < 8 * state->n_ops; step++) {
        uint32_t worst = 0;
        for (uint32_t t = 0; t < state->n_ops; t++) {
            x->overflow[t] = state->profile.most[t] - x->room;
            worst = x->overflow[t] > x->overflow[worst] ? t : worst;
        }
        *repaired = x->overflow[worst] <= 0;
        if (*repaired)
            return NEAP_OK;
        slot peak = neap_stage_profile_peak(&state->profile, worst);
        drop best = {0};
        for (uint32_t s = 0; s < n_values; s++) {
            const neap_value *value = neap_graph_value(state->graph, s);
            if (value->storage != s || value->producer == NEAP_NONE || value->bytes == 0 ||
                value->producer >= peak.stage || touches_slot(state, s, peak))
                continue;
            consider_drop(x, s, peak, &best);
        }
        if (best.score <= 0)
            return NEAP_OK;
        qsort(best.needed, best.n, sizeof *best.needed, by_op);
        for (uint32_t i = 0; i < best.n; i++) {
            neap_status status =
                neap_stage_runs_has(state, best.needed[i]) ? NEAP_OK : insert(x, best.needed[i]);
            if (status != NEAP_OK)
                return status;
        }
    }
    *repaired = false;
    return NEAP_OK;
}

/* ---- Prune ---- */

static int by_key(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return slot_before(a->at, b->at) ? -1 : slot_before(b->at, a->at);
}

/* All recomputations, with keys drawn around their ticks. */
static neap_status list_repeated(stage_search *x, size_t *count)
{
    const stage_runs *state = &x->state;
    size_t n = 0;
    for (uint32_t k = 0; k < state->n_ops; k++)
        for (uint32_t i = 1; i < state->runs[k].n; i++) {
            neap_status status =
                NEAP_RESERVE(x->p->allocator, n + 1, &x->list, &x->list_capacity, x->diag);
            if (status != NEAP_OK)
                return status;
            double key = (double)state->ticks[k] * (1 + x->noise * neap_random_real(&x->random));
            x->list[n++] = (candidate){key, {state->runs[k].stages[i], k}};
        }
    *count = n;
    return NEAP_OK;
}

static neap_status prune(stage_search *x)
{
    size_t n;
    neap_status status = list_repeated(x, &n);
    if (status == NEAP_OK && n > 0)
        qsort(x->list, n, sizeof *x->list, by_key);
    for (size_t i = 0; i < n && status == NEAP_OK; i++) {
        size_t mark = x->n_journal;
        status = take_out(x, x->list[i].at);
        if (status == NEAP_OK && neap_stage_runs_peak(&x->state) > x->room)
            status = take_back(x, mark);
    }
    return status;
}

/* ---- Ruin ---- */

static neap_status ruin(stage_search *x)
{
    size_t n;
    neap_status status = list_repeated(x, &n);
    if (status != NEAP_OK || n == 0)
        return status;
    slot centre = x->list[neap_random_below(&x->random, (uint32_t)n)].at;
    uint32_t kind = neap_random_below(&x->random, 10), n_ops = x->state.n_ops;
    uint32_t width =
        1 + neap_random_below(&x->random, 2 + n_ops / (2 + neap_random_below(&x->random, 20)));
    double share = kind < 8 ? 0.4 + 0.6 * neap_random_real(&x->random)
                            : 0.05 + 0.25 * neap_random_real(&x->random);
    for (size_t i = 0; i < n && status == NEAP_OK; i++) {
        slot at = x->list[i].at;
        uint32_t away =
            kind < 5   ? at.stage > centre.stage ? at.stage - centre.stage : centre.stage - at.stage
            : kind < 8 ? at.op > centre.op ? at.op - centre.op : centre.op - at.op
                       : 0;
        if (away <= width && neap_random_real(&x->random) < share)
            status = take_out(x, at);
    }
    return status;
}

/* ---- The search ---- */

static neap_status offer(stage_search *x, incumbent *best)
{
    uint32_t *sequence = NULL;
    size_t length = 0, capacity = 0;
    neap_status status =
        neap_stage_runs_sequence(&x->state, &sequence, &length, &capacity, x->diag);
    if (status == NEAP_OK)
        status = neap_incumbent_offer_trimmed(best, x->p, sequence, length, NULL, x->diag);
    NEAP_DELETE(x->p->allocator, capacity, sequence);
    return status;
}

static neap_status one_round(stage_search *x, double heat, int64_t *current, int64_t *least,
                             bool *improved)
{
    bool repaired = false;
    *improved = false;
    x->noise = 0.1 + 0.9 * neap_random_real(&x->random);
    neap_status status = ruin(x);
    if (status == NEAP_OK)
        status = repair(x, &repaired);
    if (status == NEAP_OK && repaired)
        status = prune(x);
    if (status != NEAP_OK)
        return status;
    int64_t ticks = x->state.total_ticks;
    double overhead = (double)(*current - neap_graph_least_ticks(x->state.graph));
    double limit = (double)*current - heat * overhead * log(1e-9 + neap_random_real(&x->random));
    if (!repaired || (double)ticks > limit)
        return take_back(x, 0);
    x->n_journal = 0;
    *current = ticks;
    *improved = ticks < *least;
    *least = ticks < *least ? ticks : *least;
    return NEAP_OK;
}

static bool is_time_up(const planner *p)
{
    double limit = p->request->time_limit;
    return neap_planner_stopped(p) || (limit > 0 && neap_clock_seconds() - p->started > limit / 3);
}

static neap_status search(stage_search *x, incumbent *best, uint32_t rounds)
{
    bool repaired, improved;
    if (rounds > ROUNDS_AN_OP * x->state.n_ops)
        rounds = ROUNDS_AN_OP * x->state.n_ops;
    neap_status status = repair(x, &repaired);
    if (status != NEAP_OK || !repaired)
        return status;
    status = prune(x);
    x->n_journal = 0;
    if (status == NEAP_OK)
        status = offer(x, best);
    int64_t current = x->state.total_ticks, least = current;
    int64_t target = x->p->request->target_time > 0 ? neap_planner_target_ticks(x->p) : -1;
    for (uint32_t r = 0; r < rounds && status == NEAP_OK && !is_time_up(x->p); r++) {
        double heat = 0.004 * (1 - (double)r / rounds);
        status = one_round(x, heat, &current, &least, &improved);
        if (status == NEAP_OK && improved)
            status = offer(x, best);
        if (best->ticks <= target)
            break;
        neap_planner_report_search(x->p, best->ticks == INT64_MAX ? -1 : best->ticks, -1);
    }
    return status;
}

static neap_status open_search(stage_search *x, const planner *p, neap_diag *diag)
{
    *x = (stage_search){.p = p,
                        .room = p->budget - neap_graph_base_bytes(p->graph),
                        .random = p->request->seed,
                        .diag = diag};
    neap_status status = neap_stage_runs_init(&x->state, p->allocator, p->graph, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(p->allocator, x->state.n_ops, &x->overflow, diag);
    return status;
}

static void close_search(stage_search *x)
{
    neap_allocator *a = x->p->allocator;
    NEAP_DELETE(a, x->state.n_ops, x->overflow);
    neap_stage_runs_clear(&x->state);
    NEAP_DELETE(a, x->journal_capacity, x->journal);
    NEAP_DELETE(a, x->list_capacity, x->list);
}

static bool is_searchable(const planner *p)
{
    uint32_t n_ops = neap_graph_op_count(p->graph);
    return n_ops > 0 && n_ops <= STAGE_SEARCH_MOST_OPS;
}

neap_status neap_stage_search_improve(const planner *p, incumbent *best, uint32_t rounds,
                                      neap_diag *diag)
{
    stage_search x;
    if (!is_searchable(p))
        return NEAP_OK;
    neap_status status = open_search(&x, p, diag);
    if (status == NEAP_OK)
        status = search(&x, best, rounds);
    close_search(&x);
    return status;
}

/* One plan within `budget`, from the natural order; *found false where repair fails. */
static neap_status reach(const planner *p, incumbent *best, int64_t budget, bool *found,
                         neap_diag *diag)
{
    stage_search x;
    *found = false;
    neap_status status = open_search(&x, p, diag);
    x.room = budget - neap_graph_base_bytes(p->graph);
    if (status == NEAP_OK)
        status = repair(&x, found);
    if (status == NEAP_OK && *found)
        status = offer(&x, best);
    close_search(&x);
    return status;
}

neap_status neap_stage_search_tighten(const planner *p, incumbent *best, neap_diag *diag)
{
    int64_t low = neap_graph_floor_bytes(p->graph, NULL) - 1;
    neap_status status = NEAP_OK;
    if (!is_searchable(p) || !best->tightest.plan)
        return NEAP_OK;
    int64_t high = best->tightest.predicted_peak;
    while (high - low > 1 && status == NEAP_OK && !neap_planner_stopped(p)) {
        int64_t middle = low + (high - low) / 2;
        bool found;
        status = reach(p, best, middle, &found, diag);
        if (found)
            high = middle;
        else
            low = middle;
        if (best->tightest.predicted_peak < high)
            high = best->tightest.predicted_peak;
    }
    return status;
}

/* Takes over a sequence's recomputations. */
static neap_status load(stage_search *x, const uint32_t *sequence, size_t length)
{
    neap_status status = NEAP_OK;
    uint32_t stage = 0;
    for (size_t i = 0; i < length && status == NEAP_OK; i++) {
        slot at = {stage, sequence[i]};
        if (at.op == stage)
            stage++;
        else if (at.op < stage && !x->state.only_views[at.op] &&
                 !neap_stage_runs_has(&x->state, at))
            status = neap_stage_runs_insert(&x->state, at, x->diag);
    }
    return status;
}

neap_status neap_stage_search_repair(const planner *p, incumbent *best, const uint32_t *sequence,
                                     size_t length, neap_diag *diag)
{
    stage_search x;
    bool repaired = false;
    if (!is_searchable(p))
        return NEAP_OK;
    neap_status status = open_search(&x, p, diag);
    if (status == NEAP_OK)
        status = load(&x, sequence, length);
    if (status == NEAP_OK)
        status = repair(&x, &repaired);
    if (status == NEAP_OK && repaired)
        status = prune(&x);
    if (status == NEAP_OK && repaired)
        status = offer(&x, best);
    close_search(&x);
    return status;
}
