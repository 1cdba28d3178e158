#include "planners/neap/start_linear.h"

#include "base/fail.h"

#include <math.h>
#include <string.h>

enum {
    PRICE_STEPS = 14,
    SHARE_STEPS = 8,
    SHALLOW = 2 /* tasks this close to the graph's inputs are recomputed for any segment */
};

/* Prices that are tried, as multiples of all ticks per byte. */
static const double LEAST_PRICE = 1e-4, MOST_PRICE = 1e5;

/* How many segments. */
static const uint32_t segment_counts[] = {64, 8, 512, 4096};

/* A price for late tasks, and one for those before them. */
typedef struct prices {
    double late, early; /* ticks for a byte */
    uint32_t late_from; /* task */
} prices;

typedef struct linear_start {
    neap_allocator *allocator;
    neap_arena arena;
    const problem *x;
    int64_t budget;         /* for tensors and workspaces only */
    uint32_t moment;        /* a task; those before it are divided into segments */
    bool *spans;            /* by tensor: made before the moment, used after it but not by it */
    bool *held;             /* by tensor: used by the moment's task and made before */
    uint32_t *segment;      /* by task before the moment */
    uint32_t *depth;        /* by task: tasks between it and the graph's inputs, at most */
    uint32_t *n_early;      /* by tensor: readers before the moment */
    double *remake_ticks;   /* by task before the moment: an estimate, with its inputs */
    bool *needed, *kept;    /* by tensor: after the moment; and held since its first run */
    bool *remade;           /* by task before the moment: what it makes is dropped */
    bool *done;             /* by task: it has run again */
    uint32_t *stack, *next; /* of tasks that run again; the reads of each that have been seen */
    uint32_t *blockers;     /* by update: readers of what it overwrites that still run again */
    uint32_t *late, n_late; /* updates that wait for these */
    int64_t *room;          /* by task: bytes that its workspace may take */
    search_plan trial, *best;
} linear_start;

/* ---- The moment ---- */

static void note_run(linear_start *s, uint32_t task, int64_t live)
{
    int64_t room = s->budget - live;
    if (room < s->room[task])
        s->room[task] = room;
}

/* Takes the fastest variant of each task that fits wherever it runs; sets ticks and peak. */
static void choose_variants(linear_start *s)
{
    const problem *x = s->x;
    search_plan *t = &s->trial;
    int64_t peak = 0;
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        uint32_t v = x->variant_start[k];
        while (x->variants[v].workspace > s->room[k] && v + 1 < x->variant_start[k + 1])
            v++;
        t->list.choice[k] = v - x->variant_start[k];
        int64_t most = s->budget - s->room[k] + x->variants[v].workspace;
        peak = most > peak ? most : peak;
    }
    t->ticks = 0;
    for (uint32_t i = 0; i < t->list.n; i++) {
        uint32_t k = t->list.tasks[i];
        t->ticks += x->variants[x->variant_start[k] + t->list.choice[k]].ticks;
    }
    t->peak = peak + problem_device_bytes(x);
    t->found = true;
}

/* Bytes from the end to the beginning: a tensor is held before a use, until it is made. Returns
   where the bytes, without workspaces, are the most. */
static uint32_t measure(linear_start *s)
{
    const problem *x = s->x;
    const compute_list *list = &s->trial.list;
    bool *held_later = s->needed;
    int64_t live = 0, most = -1;
    uint32_t at = 0;
    for (uint32_t k = 0; k < x->n_tasks; k++)
        s->room[k] = INT64_MAX;
    for (uint32_t t = 0; t < x->n_tensors; t++) {
        held_later[t] = x->is_output[t];
        live += held_later[t] ? x->bytes[t] : 0;
    }
    int64_t at_end = live;
    for (uint32_t i = list->n; i-- > 0;) {
        uint32_t k = list->tasks[i];
        for (uint32_t j = x->makes.start[k]; j < x->makes.start[k + 1]; j++) {
            uint32_t t = x->makes.items[j];
            live -= held_later[t] ? x->bytes[t] : 0;
            held_later[t] = false;
        }
        bool in_place = x->in_place[k] != NEAP_NONE && !held_later[x->in_place[k]];
        for (uint32_t j = x->reads.start[k]; j < x->reads.start[k + 1]; j++) {
            uint32_t t = x->reads.items[j];
            live += held_later[t] ? 0 : x->bytes[t];
            held_later[t] = true;
        }
        int64_t bytes = live + x->made_bytes[k] - (in_place ? task_in_place_bytes(x, k) : 0);
        note_run(s, k, bytes);
        if (bytes >= most) {
            most = bytes;
            at = i;
        }
    }
    choose_variants(s);
    if (at_end + problem_device_bytes(x) > s->trial.peak)
        s->trial.peak = at_end + problem_device_bytes(x);
    return at;
}

static void mark_moment(linear_start *s)
{
    const problem *x = s->x;
    for (uint32_t t = 0; t < x->n_tensors; t++) {
        uint32_t n = x->readers.start[t + 1];
        uint32_t last = n > x->readers.start[t] ? x->readers.items[n - 1] : 0;
        bool before = x->producer[t] < s->moment;
        s->spans[t] = before && (last > s->moment || x->is_output[t]);
    }
    for (uint32_t k = 0; k < s->moment; k++)
        for (uint32_t j = x->reads.start[k]; j < x->reads.start[k + 1]; j++) {
            uint32_t t = x->reads.items[j], depth = s->depth[x->producer[t]] + 1;
            s->n_early[t]++;
            s->depth[k] = depth > s->depth[k] ? depth : s->depth[k];
        }
    for (uint32_t i = x->reads.start[s->moment]; i < x->reads.start[s->moment + 1]; i++) {
        s->held[x->reads.items[i]] = true;
        s->spans[x->reads.items[i]] = false;
    }
}

/* Segments make equally many bytes that span the moment. */
static void divide(linear_start *s, uint32_t n_segments)
{
    const problem *x = s->x;
    double all = 0, sum = 0;
    for (uint32_t t = 0; t < x->n_tensors; t++)
        all += s->spans[t] ? (double)x->bytes[t] : 0;
    for (uint32_t k = 0; k < s->moment; k++) {
        s->segment[k] = (uint32_t)(sum / (all + 1) * n_segments);
        for (uint32_t j = x->makes.start[k]; j < x->makes.start[k + 1]; j++)
            sum += s->spans[x->makes.items[j]] ? (double)x->bytes[x->makes.items[j]] : 0;
    }
}

/* ---- Kept or dropped ---- */

static double price_of(const prices *p, uint32_t task)
{
    return task < p->late_from ? p->early : p->late;
}

/* Whether all that a task makes may be dropped. It then delays updates of what it reads, which must
   not make anything that others wait for. */
static bool may_drop(const linear_start *s, uint32_t task)
{
    const problem *x = s->x;
    for (uint32_t j = x->updated_by.start[task]; j < x->updated_by.start[task + 1]; j++) {
        uint32_t update = x->updated_by.items[j];
        if (x->makes.start[update] < x->makes.start[update + 1])
            return false;
    }
    for (uint32_t j = x->makes.start[task]; j < x->makes.start[task + 1]; j++) {
        uint32_t t = x->makes.items[j];
        if (!tensor_can_recompute(x, t) || s->held[t] || s->kept[t] || x->is_output[t])
            return false;
    }
    return true;
}

/* What it costs to have a tensor after the moment, if nothing else needs it. */
static double have_ticks(const linear_start *s, const prices *p, uint32_t tensor)
{
    uint32_t task = s->x->producer[tensor];
    double keep = price_of(p, task) * (double)s->x->bytes[tensor];
    return keep < s->remake_ticks[task] ? keep : s->remake_ticks[task];
}

/* Whether a task that is recomputed may have its input recomputed, too. */
static bool is_at_hand(const linear_start *s, uint32_t task, uint32_t from)
{
    return s->segment[from] == s->segment[task] || s->depth[from] <= SHALLOW;
}

/* The additional cost of an input of a task that is recomputed; its readers share it. */
static double input_ticks(const linear_start *s, const prices *p, uint32_t task, uint32_t tensor)
{
    uint32_t from = s->x->producer[tensor];
    if (s->held[tensor] || s->kept[tensor])
        return 0;
    double have = have_ticks(s, p, tensor);
    if (is_at_hand(s, task, from))
        return s->needed[tensor] ? 0 : have / s->n_early[tensor];
    double keep = price_of(p, from) * (double)s->x->bytes[tensor];
    return (s->needed[tensor] ? keep - have : keep) / s->n_early[tensor];
}

static double find_remake_ticks(const linear_start *s, const prices *p, uint32_t task)
{
    const problem *x = s->x;
    double sum = (double)task_ticks(x, task);
    for (uint32_t j = x->reads.start[task]; j < x->reads.start[task + 1]; j++)
        sum += input_ticks(s, p, task, x->reads.items[j]);
    return sum;
}

static void need_inputs(linear_start *s, uint32_t task)
{
    const problem *x = s->x;
    for (uint32_t j = x->reads.start[task]; j < x->reads.start[task + 1]; j++) {
        uint32_t t = x->reads.items[j];
        s->needed[t] = true;
        if (!is_at_hand(s, task, x->producer[t]))
            s->kept[t] = true;
    }
}

/* Estimates from the first task on, then decides from the last on: readers before what they read.
 */
static void decide(linear_start *s, const prices *p)
{
    const problem *x = s->x;
    for (uint32_t t = 0; t < x->n_tensors; t++) {
        s->needed[t] = s->spans[t];
        s->kept[t] = false;
    }
    for (uint32_t k = 0; k < s->moment; k++)
        s->remake_ticks[k] = may_drop(s, k) ? find_remake_ticks(s, p, k) : (double)INFINITY;
    for (uint32_t k = s->moment; k-- > 0;) {
        double keep = 0;
        for (uint32_t j = x->makes.start[k]; j < x->makes.start[k + 1]; j++)
            keep += s->needed[x->makes.items[j]] ? (double)x->bytes[x->makes.items[j]] : 0;
        keep *= price_of(p, k);
        s->remade[k] = keep > 0 && may_drop(s, k) && find_remake_ticks(s, p, k) < keep;
        if (s->remade[k])
            need_inputs(s, k);
    }
}

/* ---- The list ---- */

static void run_task(linear_start *s, uint32_t task)
{
    s->trial.list.tasks[s->trial.list.n++] = task;
}

/* The next input of the task on top of the stack that must run again first; NEAP_NONE: none. */
static uint32_t missing_producer(linear_start *s, uint32_t depth)
{
    const problem *x = s->x;
    uint32_t task = s->stack[depth];
    while (s->next[depth] < x->reads.start[task + 1]) {
        uint32_t from = x->producer[x->reads.items[s->next[depth]++]];
        if (from < s->moment && s->remade[from] && !s->done[from])
            return from;
    }
    return NEAP_NONE;
}

/* A task that has run again no longer delays updates. */
static void note_again(linear_start *s, uint32_t task)
{
    const id_lists *by = &s->x->updated_by;
    for (uint32_t i = by->start[task]; i < by->start[task + 1] && task < s->moment; i++)
        s->blockers[by->items[i]]--;
    s->done[task] = true;
}

/* Runs a task and, before it, those of its inputs that were dropped. */
static void run_with_inputs(linear_start *s, uint32_t task)
{
    const problem *x = s->x;
    uint32_t depth = 0;
    s->stack[0] = task;
    s->next[0] = x->reads.start[task];
    for (;;) {
        uint32_t missing = missing_producer(s, depth);
        if (missing != NEAP_NONE) {
            s->stack[++depth] = missing;
            s->next[depth] = x->reads.start[missing];
            continue;
        }
        note_again(s, s->stack[depth]);
        run_task(s, s->stack[depth]);
        if (depth-- == 0)
            return;
    }
}

/* Runs the inputs of a task that were dropped. */
static void run_inputs(linear_start *s, uint32_t task)
{
    const problem *x = s->x;
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        uint32_t from = x->producer[x->reads.items[i]];
        if (from < s->moment && s->remade[from] && !s->done[from])
            run_with_inputs(s, from);
    }
}

static void count_blockers(linear_start *s)
{
    const problem *x = s->x;
    memset(s->blockers, 0, x->n_tasks * sizeof *s->blockers);
    for (uint32_t k = 0; k < s->moment; k++)
        for (uint32_t i = x->updated_by.start[k]; i < x->updated_by.start[k + 1]; i++)
            s->blockers[x->updated_by.items[i]] += s->remade[k];
}

/* Runs the late updates that wait for nothing any more. */
static void run_late(linear_start *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_late; i++) {
        if (s->blockers[s->late[i]] == 0)
            run_with_inputs(s, s->late[i]);
        else
            s->late[n++] = s->late[i];
    }
    s->n_late = n;
}

/* Runs a task; an update waits if what it overwrites will be read again. */
static void run_in_turn(linear_start *s, uint32_t task)
{
    if (s->blockers[task] > 0)
        s->late[s->n_late++] = task;
    else if (task < s->moment)
        run_task(s, task);
    else
        run_with_inputs(s, task);
    run_late(s);
}

static void build_list(linear_start *s)
{
    s->trial.list.n = s->n_late = 0;
    memset(s->done, 0, s->x->n_tasks * sizeof *s->done);
    count_blockers(s);
    for (uint32_t k = 0; k < s->x->n_tasks; k++)
        run_in_turn(s, k);
    /* The rest waits for what nobody else needs. */
    for (uint32_t i = 0; i < s->n_late; i++)
        run_inputs(s, s->late[i]);
    for (uint32_t i = 0; i < s->n_late; i++)
        run_task(s, s->late[i]);
}

/* ---- Attempts ---- */

/* Keeps the trial if it is better than the best. Whether it fits. */
static bool keep_better(linear_start *s)
{
    int64_t budget = s->budget + problem_device_bytes(s->x);
    const search_plan *a = &s->trial, *b = s->best;
    bool fits = a->peak <= budget, other_fits = b->found && b->peak <= budget;
    bool better = !b->found || (fits != other_fits ? fits
                                : fits             ? a->ticks < b->ticks
                                                   : a->peak < b->peak);
    if (better) {
        search_plan old = *s->best;
        *s->best = s->trial;
        s->trial = old;
    }
    return fits;
}

static neap_status reserve(linear_start *s, neap_diag *diag)
{
    compute_list *list = &s->trial.list;
    if (!list->choice)
        NEAP_TRY(NEAP_NEW(s->allocator, s->x->n_tasks, &list->choice, diag));
    return NEAP_RESERVE(s->allocator, (size_t)s->x->n_tasks + s->moment, &list->tasks,
                        &list->capacity, diag);
}

static neap_status attempt(linear_start *s, const prices *p, bool *fits, neap_diag *diag)
{
    NEAP_TRY(reserve(s, diag));
    decide(s, p);
    build_list(s);
    measure(s);
    *fits = keep_better(s);
    return NEAP_OK;
}

/* The lowest price that fits, then as many late tasks as fit at a lower one. */
static neap_status bisect(linear_start *s, double unit, bool (*stop)(void *context), void *context,
                          neap_diag *diag)
{
    double low = LEAST_PRICE * unit, high = MOST_PRICE * unit;
    bool fits;
    NEAP_TRY(attempt(s, &(prices){high, high, 0}, &fits, diag));
    if (!fits)
        return NEAP_OK;
    for (int i = 0; i < PRICE_STEPS && !stop(context); i++) {
        double middle = sqrt(low * high);
        NEAP_TRY(attempt(s, &(prices){middle, middle, 0}, &fits, diag));
        *(fits ? &high : &low) = middle;
    }
    double none = 0, all = 1; /* shares of the tasks that are late */
    for (int i = 0; i < SHARE_STEPS && !stop(context); i++) {
        double share = (none + all) / 2;
        uint32_t from = (uint32_t)((1 - share) * s->moment);
        NEAP_TRY(attempt(s, &(prices){low, high, from}, &fits, diag));
        *(fits ? &none : &all) = share;
    }
    return NEAP_OK;
}

static neap_status take_arrays(linear_start *s, neap_diag *diag)
{
    const problem *x = s->x;
    size_t n = (size_t)x->n_tasks + 1, m = x->n_tensors;
    bool ok = NEAP_TAKE(&s->arena, m, s->spans) && NEAP_TAKE(&s->arena, m, s->held) &&
              NEAP_TAKE(&s->arena, n, s->segment) && NEAP_TAKE(&s->arena, n, s->depth) &&
              NEAP_TAKE(&s->arena, m, s->n_early) && NEAP_TAKE(&s->arena, n, s->remake_ticks) &&
              NEAP_TAKE(&s->arena, m, s->needed) && NEAP_TAKE(&s->arena, m, s->kept) &&
              NEAP_TAKE(&s->arena, n, s->remade) && NEAP_TAKE(&s->arena, n, s->done) &&
              NEAP_TAKE(&s->arena, n, s->stack) && NEAP_TAKE(&s->arena, n, s->next) &&
              NEAP_TAKE(&s->arena, n, s->blockers) && NEAP_TAKE(&s->arena, n, s->late) &&
              NEAP_TAKE(&s->arena, n, s->room);
    return ok ? NEAP_OK : neap_fail_no_memory(diag);
}

/* Every task once; then the moment is known. */
static neap_status begin(linear_start *s, bool *fits, neap_diag *diag)
{
    NEAP_TRY(take_arrays(s, diag));
    NEAP_TRY(reserve(s, diag));
    s->trial.list.n = 0;
    for (uint32_t k = 0; k < s->x->n_tasks; k++)
        run_task(s, k);
    s->moment = measure(s);
    *fits = keep_better(s);
    mark_moment(s);
    return NEAP_OK;
}

neap_status neap_start_linear(neap_allocator *allocator, const problem *x, int64_t budget,
                              bool (*stop)(void *context), void *context, search_plan *plan,
                              neap_diag *diag)
{
    linear_start s = {
        .allocator = allocator, .x = x, .budget = budget - problem_device_bytes(x), .best = plan};
    double all_bytes = 1;
    bool fits = true;
    neap_arena_init(&s.arena, allocator);
    neap_status status = x->n_tasks > 0 ? begin(&s, &fits, diag) : NEAP_OK;
    for (uint32_t t = 0; t < x->n_tensors; t++)
        all_bytes += (double)x->bytes[t];
    double unit = ((double)x->least_ticks + 1) / all_bytes;
    for (size_t i = 0; i < sizeof segment_counts / sizeof *segment_counts && !fits; i++) {
        if (status != NEAP_OK || (i > 0 && stop(context)))
            break;
        divide(&s, segment_counts[i]);
        status = bisect(&s, unit, stop, context, diag);
    }
    neap_compute_list_clear(allocator, x, &s.trial.list);
    neap_arena_clear(&s.arena);
    return status;
}
