#include "planners/common/trim.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct trimmer {
    neap_allocator *allocator;
    const neap_graph *graph;
    size_t capacity;     /* of the sequences below */
    uint32_t *candidate; /* a sequence that is tried */
    uint32_t *dying;     /* values that die behind each position, from the last to the first ... */
    size_t dying_capacity;
    size_t *dying_end;   /* ... and where each position's end */
    bool *needed;        /* per value, in the scan backwards */
    bool *resident;      /* per value */
    uint32_t *residents; /* per storage: how many of its values are resident */
    int64_t *workspace;  /* per op, of its leanest variant */
} trimmer;

static neap_status trimmer_init(trimmer *x, neap_allocator *allocator, const neap_graph *graph,
                                size_t length, neap_diag *diag)
{
    uint32_t n_values = neap_graph_value_count(graph), n_ops = neap_graph_op_count(graph);
    *x = (trimmer){.allocator = allocator, .graph = graph, .capacity = length};
    neap_status status = NEAP_NEW(allocator, length, &x->candidate, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, length, &x->dying_end, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_values, &x->needed, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_values, &x->resident, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_values, &x->residents, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_ops, &x->workspace, diag);
    for (uint32_t o = 0; o < n_ops && status == NEAP_OK; o++) {
        const neap_op *op = neap_graph_op(graph, o);
        x->workspace[o] = op->variants[0].workspace;
        for (uint32_t q = 1; q < op->n_variants; q++)
            if (op->variants[q].workspace < x->workspace[o])
                x->workspace[o] = op->variants[q].workspace;
    }
    return status;
}

static void trimmer_clear(trimmer *x)
{
    uint32_t n_values = neap_graph_value_count(x->graph), n_ops = neap_graph_op_count(x->graph);
    NEAP_DELETE(x->allocator, x->capacity, x->candidate);
    NEAP_DELETE(x->allocator, x->dying_capacity, x->dying);
    NEAP_DELETE(x->allocator, x->capacity, x->dying_end);
    NEAP_DELETE(x->allocator, n_values, x->needed);
    NEAP_DELETE(x->allocator, n_values, x->resident);
    NEAP_DELETE(x->allocator, n_values, x->residents);
    NEAP_DELETE(x->allocator, n_ops, x->workspace);
}

/* Which values die behind which position: as in neap_plan_from_sequence. */
static neap_status find_deaths(trimmer *x, const uint32_t *sequence, size_t length, neap_diag *diag)
{
    const neap_graph *graph = x->graph;
    neap_status status = NEAP_OK;
    size_t n = 0;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        x->needed[v] =
            neap_graph_is_output(graph, v) || neap_graph_value(graph, v)->producer == NEAP_NONE;
    for (size_t at = length; at-- > 0;) {
        const neap_op *op = neap_graph_op(graph, sequence[at]);
        size_t most = n + op->n_outputs + op->n_inputs;
        status = NEAP_RESERVE(x->allocator, most, &x->dying, &x->dying_capacity, diag);
        if (status != NEAP_OK)
            return status;
        for (uint32_t i = 0; i < op->n_outputs; i++) {
            if (!x->needed[op->outputs[i]])
                x->dying[n++] = op->outputs[i];
            x->needed[op->outputs[i]] = false;
        }
        for (uint32_t i = 0; i < op->n_inputs; i++) {
            if (!x->needed[op->inputs[i]])
                x->dying[n++] = op->inputs[i];
            x->needed[op->inputs[i]] = true;
        }
        x->dying_end[at] = n;
    }
    return NEAP_OK;
}

static neap_status measure(trimmer *x, const uint32_t *sequence, size_t length, int64_t *peak,
                           neap_diag *diag)
{
    const neap_graph *graph = x->graph;
    neap_status status = find_deaths(x, sequence, length, diag);
    if (status != NEAP_OK)
        return status;
    int64_t live = neap_graph_base_bytes(graph);
    *peak = live;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        x->resident[v] = neap_graph_value(graph, v)->producer == NEAP_NONE;
        x->residents[v] = 0;
    }
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        x->residents[neap_graph_value(graph, v)->storage] += x->resident[v];
    for (size_t at = 0; at < length; at++) {
        const neap_op *op = neap_graph_op(graph, sequence[at]);
        for (uint32_t i = 0; i < op->n_outputs; i++) {
            uint32_t v = op->outputs[i], s = neap_graph_value(graph, v)->storage;
            if (!x->resident[v] && x->residents[s]++ == 0)
                live += neap_graph_value(graph, s)->bytes;
            x->resident[v] = true;
        }
        if (live + x->workspace[sequence[at]] > *peak)
            *peak = live + x->workspace[sequence[at]];
        for (size_t i = at + 1 < length ? x->dying_end[at + 1] : 0; i < x->dying_end[at]; i++) {
            uint32_t v = x->dying[i], s = neap_graph_value(graph, v)->storage;
            if (x->resident[v] && --x->residents[s] == 0)
                live -= neap_graph_value(graph, s)->bytes;
            x->resident[v] = false;
        }
    }
    return NEAP_OK;
}

neap_status neap_sequence_peak(neap_allocator *allocator, const neap_graph *graph,
                               const uint32_t *sequence, size_t length, int64_t *peak,
                               neap_diag *diag)
{
    trimmer x;
    neap_status status = trimmer_init(&x, allocator, graph, length, diag);
    if (status == NEAP_OK)
        status = measure(&x, sequence, length, peak, diag);
    trimmer_clear(&x);
    return status;
}

/* Removes recomputations whose outputs nothing reads before they are made again; positions from
   the last to the first, so that what they alone read goes too. */
static size_t drop_unread(trimmer *x, uint32_t *sequence, size_t length)
{
    const neap_graph *graph = x->graph;
    uint32_t n_values = neap_graph_value_count(graph);
    size_t kept = length;
    for (uint32_t v = 0; v < n_values; v++) {
        x->needed[v] = neap_graph_is_output(graph, v);
        x->resident[v] = false;
    }
    for (size_t at = 0; at < length; at++) /* first runs stay: dying_end serves as a mark */
        x->dying_end[at] = 0;
    for (size_t at = 0; at < length; at++) {
        const neap_op *op = neap_graph_op(graph, sequence[at]);
        bool first = op->n_outputs == 0 || !x->resident[op->outputs[0]];
        for (uint32_t i = 0; i < op->n_outputs; i++)
            x->resident[op->outputs[i]] = true;
        x->dying_end[at] = first;
    }
    for (size_t at = length; at-- > 0;) {
        const neap_op *op = neap_graph_op(graph, sequence[at]);
        bool read = x->dying_end[at] != 0;
        for (uint32_t i = 0; i < op->n_outputs; i++)
            read = read || x->needed[op->outputs[i]];
        if (!read)
            continue;
        for (uint32_t i = 0; i < op->n_outputs; i++)
            x->needed[op->outputs[i]] = false;
        for (uint32_t i = 0; i < op->n_inputs; i++)
            x->needed[op->inputs[i]] = true;
        sequence[--kept] = sequence[at];
    }
    memmove(sequence, sequence + kept, (length - kept) * sizeof *sequence);
    return length - kept;
}

typedef struct repetition {
    int64_t ticks;
    uint32_t op, nth; /* its nth run */
} repetition;

static int slowest_first(const void *left, const void *right)
{
    const repetition *a = left, *b = right;
    if (a->ticks != b->ticks)
        return a->ticks > b->ticks ? -1 : 1;
    if (a->op != b->op)
        return a->op < b->op ? -1 : 1;
    return a->nth < b->nth ? -1 : a->nth > b->nth;
}

/* All recomputations, slowest first. `runs` counts per op and is zero before and after. */
static size_t list_repetitions(const neap_graph *graph, const uint32_t *sequence, size_t length,
                               uint32_t *runs, repetition *list)
{
    size_t n = 0;
    for (size_t at = 0; at < length; at++) {
        uint32_t op = sequence[at], nth = runs[op]++;
        if (nth > 0)
            list[n++] = (repetition){neap_graph_op(graph, op)->variants[0].ticks, op, nth};
    }
    for (size_t at = 0; at < length; at++)
        runs[sequence[at]] = 0;
    qsort(list, n, sizeof *list, slowest_first);
    return n;
}

/* Whether all runs of the one's op were tried before those of the other's. */
static bool comes_before(const repetition *a, const repetition *b)
{
    return a->ticks > b->ticks || (a->ticks == b->ticks && a->op < b->op);
}

/* Into x->candidate: the sequence without one recomputation and what only it read. */
static size_t leave_out(trimmer *x, const uint32_t *sequence, size_t length, const repetition *out)
{
    size_t n = 0;
    uint32_t nth = 0;
    for (size_t at = 0; at < length; at++)
        if (sequence[at] != out->op || nth++ != out->nth)
            x->candidate[n++] = sequence[at];
    return drop_unread(x, x->candidate, n);
}

/* One round over all recomputations. What does not fit is left for the next one: it may fit once
   others have gone that ran where its value would stay. */
static neap_status trim_round(trimmer *x, int64_t budget, repetition *list, uint32_t *runs,
                              uint32_t *sequence, size_t *length, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    size_t n = list_repetitions(x->graph, sequence, *length, runs, list);
    for (size_t c = 0; c < n && status == NEAP_OK;) {
        size_t tried = leave_out(x, sequence, *length, &list[c]);
        int64_t peak;
        status = measure(x, x->candidate, tried, &peak, diag);
        if (status == NEAP_OK && peak <= budget) {
            repetition out = list[c];
            memcpy(sequence, x->candidate, tried * sizeof *sequence);
            *length = tried;
            n = list_repetitions(x->graph, sequence, *length, runs, list);
            for (c = 0; c < n && comes_before(&list[c], &out);) /* others may have gone along */
                c++;
        } else {
            c++;
        }
    }
    return status;
}

neap_status neap_trim_sequence(neap_allocator *allocator, const neap_graph *graph, int64_t budget,
                               uint32_t *sequence, size_t *length, neap_diag *diag)
{
    trimmer x;
    size_t capacity = *length;
    if (capacity == 0)
        return NEAP_OK;
    uint32_t n_ops = neap_graph_op_count(graph), *runs = NULL;
    repetition *list = NULL;
    neap_status status = trimmer_init(&x, allocator, graph, capacity, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, capacity, &list, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_ops, &runs, diag);
    if (status == NEAP_OK) {
        *length = drop_unread(&x, sequence, *length);
        for (size_t before = capacity + 1; *length < before && status == NEAP_OK;) {
            before = *length; /* the rounds behind the first are short */
            status = trim_round(&x, budget, list, runs, sequence, length, diag);
        }
    }
    trimmer_clear(&x);
    NEAP_DELETE(allocator, capacity, list);
    NEAP_DELETE(allocator, n_ops, runs);
    return status;
}
