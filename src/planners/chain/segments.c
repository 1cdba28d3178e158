#include "planners/chain/least_peak.h"

#include "base/fail.h"

typedef struct segmenter {
    const neap_graph *graph;
    const neap_chain *chain;
    uint32_t n_ops, n_forward;
    uint32_t *segment; /* per forward op */
    uint32_t n_segments;
    bool *crosses;         /* per value: read by a forward op of a later segment */
    bool *again;           /* per forward op: runs again in the backward pass */
    uint32_t *segment_end; /* per segment: its first op is the end of the one before */
    bool *done;            /* per segment: recomputed already */
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
            s->segment_end[s->n_segments++] = stage->end_op;
    }
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
    if (maker == NEAP_NONE || maker >= s->n_forward || s->segment[maker] + 1 == s->n_segments ||
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

static void run_segment_again(segmenter *s, uint32_t segment)
{
    uint32_t begin = segment ? s->segment_end[segment - 1] : 0;
    for (uint32_t o = begin; o < s->segment_end[segment]; o++)
        if (s->again[o])
            s->sequence[s->length++] = o;
    s->done[segment] = true;
}

static void write_sequence(segmenter *s)
{
    for (uint32_t o = 0; o < s->n_forward; o++)
        s->sequence[s->length++] = o;
    for (uint32_t o = s->n_forward; o < s->n_ops; o++) {
        const neap_op *op = neap_graph_op(s->graph, o);
        for (uint32_t i = 0; i < op->n_inputs; i++) {
            uint32_t maker = neap_graph_value(s->graph, op->inputs[i])->producer;
            if (maker != NEAP_NONE && maker < s->n_forward && s->again[maker] &&
                !s->done[s->segment[maker]])
                run_segment_again(s, s->segment[maker]);
        }
        s->sequence[s->length++] = o;
    }
}

neap_status neap_planner_use_segments(const planner *p, draft *d, const neap_chain *chain,
                                      const bool *chosen, neap_diag *diag)
{
    segmenter s = {.graph = p->graph,
                   .chain = chain,
                   .n_ops = neap_graph_op_count(p->graph),
                   .n_forward = chain->n_forward};
    neap_status status = NEAP_OK;
    neap_arena arena;
    neap_arena_init(&arena, p->allocator);
    if (NEAP_TAKE(&arena, s.n_forward, s.segment) &&
        NEAP_TAKE(&arena, neap_graph_value_count(p->graph), s.crosses) &&
        NEAP_TAKE(&arena, s.n_forward, s.again) &&
        NEAP_TAKE(&arena, chain->n_stages, s.segment_end) &&
        NEAP_TAKE(&arena, chain->n_stages, s.done) &&
        NEAP_TAKE(&arena, (size_t)s.n_ops + s.n_forward, s.sequence)) {
        number_segments(&s, chosen);
        find_crossing_values(&s);
        find_recomputed(&s);
        write_sequence(&s);
        status = neap_planner_use_sequence(p, d, s.sequence, s.length, diag);
    } else {
        status = neap_fail_no_memory(diag);
    }
    neap_arena_clear(&arena);
    return status;
}
