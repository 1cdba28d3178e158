#include "planners/chain/least_peak.h"

#include "base/fail.h"

typedef struct segmenter {
    const neap_graph *graph;
    const neap_chain *chain;
    uint32_t n_ops, n_forward;
    uint32_t *segment; /* per forward op */
    uint32_t n_segments;
    bool *crosses;     /* per value: survives, because a forward op of a later segment reads it */
    bool *again;       /* per forward op: runs again in the backward pass */
    uint32_t last;     /* the segment that is kept whole */
    uint32_t *begin;   /* n_segments + 1: where its ops begin in `members` */
    uint32_t *members; /* forward ops by segment, rising */
    bool *done;        /* per segment: recomputed already */
    uint32_t *sequence;
    size_t length;
} segmenter;

static void number_segments(segmenter *s, const bool *chosen)
{
    for (uint32_t i = 0; i < s->chain->n_stages; i++) {
        const neap_stage *stage = &s->chain->stages[i];
        for (uint32_t o = stage->first_op; o < stage->end_op; o++)
            s->segment[o] = s->n_segments;
        bool last = i + 1 == s->chain->n_stages, last_cut = i + 2 == s->chain->n_stages;
        if (last || (chosen[i + 1] && !last_cut))
            s->n_segments++;
    }
    s->last = s->n_segments - 1;
}

static void find_crossing_values(segmenter *s)
{
    for (uint32_t o = 0; o < s->n_forward; o++) {
        const neap_op *op = neap_graph_op(s->graph, o);
        for (uint32_t i = 0; i < op->n_inputs; i++) {
            uint32_t maker = neap_graph_value(s->graph, op->inputs[i])->producer;
            if (maker != NEAP_NONE && s->segment[maker] < s->segment[o])
                s->crosses[op->inputs[i]] = true;
        }
    }
}

static int64_t storage_bytes(const segmenter *s, uint32_t value)
{
    return neap_graph_value(s->graph, neap_graph_value(s->graph, value)->storage)->bytes;
}

/*
 * Whether to keep all outputs of an op: one of them survives anyway, and the others (a pool's
 * indices, saved statistics) are at most half as large, so keeping them beats running it again.
 */
static bool keeps_all(const segmenter *s, const neap_op *op)
{
    int64_t crossing = 0, rest = 0;
    bool any = false;
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        bool crosses = s->crosses[op->outputs[i]];
        *(crosses ? &crossing : &rest) += storage_bytes(s, op->outputs[i]);
        any = any || crosses;
    }
    return any && rest <= crossing / 2;
}

/* Marks the producer of a value to run again, unless the value survives. */
static void want_again(segmenter *s, uint32_t value)
{
    uint32_t maker = neap_graph_value(s->graph, value)->producer;
    if (maker == NEAP_NONE || maker >= s->n_forward || s->segment[maker] == s->last ||
        s->crosses[value] || keeps_all(s, neap_graph_op(s->graph, maker)))
        return;
    s->again[maker] = true;
}

/*
 * Marks what the backward part reads to run again, and what that needs within its segment. Ops are
 * in execution order, so one sweep from the last to the first closes the set.
 */
static void find_recomputed(segmenter *s)
{
    for (uint32_t o = s->n_ops; o-- > 0;) {
        const neap_op *op = neap_graph_op(s->graph, o);
        if (o < s->n_forward && !s->again[o])
            continue;
        for (uint32_t i = 0; i < op->n_inputs; i++)
            want_again(s, op->inputs[i]);
    }
}

/* Lists the ops of each segment. */
static void list_members(segmenter *s)
{
    for (uint32_t o = 0; o < s->n_forward; o++)
        s->begin[s->segment[o] + 1]++;
    for (uint32_t i = 0; i < s->n_segments; i++)
        s->begin[i + 1] += s->begin[i];
    for (uint32_t o = 0; o < s->n_forward; o++)
        s->members[s->begin[s->segment[o]]++] = o;
    for (uint32_t i = s->n_segments; i > 0; i--) /* each has moved to the next one's begin */
        s->begin[i] = s->begin[i - 1];
    if (s->n_segments > 0)
        s->begin[0] = 0;
}

static void run_dropped(segmenter *s, uint32_t o);

static void run_segment_again(segmenter *s, uint32_t segment)
{
    s->done[segment] = true;
    for (uint32_t i = s->begin[segment]; i < s->begin[segment + 1]; i++) {
        uint32_t o = s->members[i];
        if (!s->again[o])
            continue;
        run_dropped(s, o);
        s->sequence[s->length++] = o;
    }
}

/* Computes the segments again that op o reads from. Only an op between several parts of a divided
 * segment finds any when it is computed again itself. */
static void run_dropped(segmenter *s, uint32_t o)
{
    const neap_op *op = neap_graph_op(s->graph, o);
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        uint32_t maker = neap_graph_value(s->graph, op->inputs[i])->producer;
        if (maker != NEAP_NONE && maker < s->n_forward && s->again[maker] &&
            !s->done[s->segment[maker]])
            run_segment_again(s, s->segment[maker]);
    }
}

static void write_sequence(segmenter *s)
{
    for (uint32_t o = 0; o < s->n_forward; o++)
        s->sequence[s->length++] = o;
    for (uint32_t o = s->n_forward; o < s->n_ops; o++) {
        run_dropped(s, o);
        s->sequence[s->length++] = o;
    }
}

/* ---- Segments that are divided ---- */

static uint32_t find_root(uint32_t *root, uint32_t o)
{
    while (root[o] != o)
        o = root[o] = root[root[o]];
    return o;
}

static void keep_inside(segmenter *s, const bool *inside, bool *divided)
{
    for (uint32_t o = 0; o < s->n_forward; o++) {
        const neap_op *op = neap_graph_op(s->graph, o);
        for (uint32_t i = 0; i < op->n_outputs; i++) {
            uint32_t storage = neap_graph_value(s->graph, op->outputs[i])->storage;
            if (inside[storage]) {
                s->crosses[op->outputs[i]] = true;
                divided[s->segment[o]] = true;
            }
        }
    }
}

/* The op of the same segment that makes an input of o that is dropped, or NEAP_NONE. */
static uint32_t dropped_maker(const segmenter *s, uint32_t o, uint32_t value)
{
    uint32_t maker = neap_graph_value(s->graph, value)->producer;
    if (maker == NEAP_NONE || s->segment[maker] != s->segment[o] || s->crosses[value])
        return NEAP_NONE;
    return maker;
}

/* Whether what op o makes is kept, as far as forward ops read it. */
static bool makes_kept(const segmenter *s, const bool *read, uint32_t o)
{
    const neap_op *op = neap_graph_op(s->graph, o);
    bool any = false;
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        if (s->crosses[op->outputs[i]])
            any = true;
        else if (read[op->outputs[i]])
            return false;
    }
    return any;
}

/*
 * Joins ops through dropped values. An op that makes checkpoints joins nothing: it goes with the
 * part that it reads from or, if it reads from several, is a part of its own.
 */
static void join_ops(segmenter *s, const bool *divided, const bool *read, uint32_t *root)
{
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t o = 0; o < s->n_forward; o++) {
            const neap_op *op = neap_graph_op(s->graph, o);
            uint32_t only = NEAP_NONE;
            if (!divided[s->segment[o]] || makes_kept(s, read, o) != (pass == 1))
                continue;
            for (uint32_t i = 0; i < op->n_inputs; i++) {
                uint32_t maker = dropped_maker(s, o, op->inputs[i]);
                if (maker == NEAP_NONE)
                    continue;
                maker = find_root(root, maker);
                if (pass == 0)
                    root[maker] = find_root(root, o);
                else
                    only = only == NEAP_NONE || only == maker ? maker : o;
            }
            if (pass == 1 && only != NEAP_NONE)
                root[o] = only;
        }
    }
}

/* Gives the parts of divided segments numbers of their own; the last op's part is the last. */
static void number_parts(segmenter *s, const bool *divided, uint32_t *root, uint32_t *number)
{
    uint32_t count = s->n_segments, last = s->last;
    for (uint32_t o = 0; o < s->n_forward; o++) {
        if (!divided[s->segment[o]])
            continue;
        uint32_t r = find_root(root, o);
        if (number[r] == 0)
            number[r] = ++count;
        if (s->segment[o] == s->last)
            last = number[r] - 1;
    }
    for (uint32_t o = 0; o < s->n_forward; o++)
        if (divided[s->segment[o]])
            s->segment[o] = number[find_root(root, o)] - 1;
    s->n_segments = count;
    s->last = last;
}

/* Divides segments into the parts that checkpoints separate, those inside among them. The last one,
 * which is kept, is only divided by those inside. */
static bool divide_segments(segmenter *s, neap_arena *arena, const bool *inside)
{
    bool *divided, *read;
    uint32_t *root, *number;
    if (!NEAP_TAKE(arena, s->n_segments, divided) || !NEAP_TAKE(arena, s->n_forward, root) ||
        !NEAP_TAKE(arena, s->n_forward, number) ||
        !NEAP_TAKE(arena, neap_graph_value_count(s->graph), read))
        return false;
    for (uint32_t o = 0; o < s->n_forward; o++) {
        const neap_op *op = neap_graph_op(s->graph, o);
        root[o] = o;
        for (uint32_t i = 0; i < op->n_inputs; i++)
            read[op->inputs[i]] = true;
    }
    for (uint32_t i = 0; i < s->n_segments; i++)
        divided[i] = i != s->last;
    keep_inside(s, inside, divided);
    join_ops(s, divided, read, root);
    number_parts(s, divided, root, number);
    return true;
}

static neap_status use(segmenter *s, const planner *p, draft *d, neap_arena *arena,
                       const bool *chosen, const bool *inside, neap_diag *diag)
{
    if (!NEAP_TAKE(arena, s->n_forward, s->segment) ||
        !NEAP_TAKE(arena, neap_graph_value_count(p->graph), s->crosses) ||
        !NEAP_TAKE(arena, s->n_forward, s->again) || !NEAP_TAKE(arena, s->n_forward, s->members) ||
        !NEAP_TAKE(arena, (size_t)s->n_ops + s->n_forward, s->sequence))
        return neap_fail_no_memory(diag);
    number_segments(s, chosen);
    find_crossing_values(s);
    if ((inside && !divide_segments(s, arena, inside)) ||
        !NEAP_TAKE(arena, s->n_segments, s->done) ||
        !NEAP_TAKE(arena, (size_t)s->n_segments + 1, s->begin))
        return neap_fail_no_memory(diag);
    find_recomputed(s);
    list_members(s);
    write_sequence(s);
    return neap_planner_use_sequence(p, d, s->sequence, s->length, diag);
}

neap_status neap_planner_use_segments(const planner *p, draft *d, const neap_chain *chain,
                                      const bool *chosen, const bool *inside, neap_diag *diag)
{
    segmenter s = {.graph = p->graph,
                   .chain = chain,
                   .n_ops = neap_graph_op_count(p->graph),
                   .n_forward = chain->n_forward};
    neap_arena arena;
    neap_arena_init(&arena, p->allocator);
    neap_status status = use(&s, p, d, &arena, chosen, inside, diag);
    neap_arena_clear(&arena);
    return status;
}
