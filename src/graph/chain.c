/*
 * The chain view: where do few storages separate past from future?
 *
 * Forward: a storage crosses the boundary after op p if it is produced at or before p and read by
 * a forward op after p. One pass over the storages adds each to the boundaries it crosses as a
 * difference array, with the sum of ids beside the count, so that a boundary crossed once knows by
 * which. Those boundaries are the cuts of the view; chain_cuts.c adds others to the fine view.
 *
 * Backward: for a cut after stage i let `low` be the last backward op that reads something made
 * after the cut, and `high` the first that reads something made before it (its own storages aside).
 * Any boundary between them is right; where low > high the cut is dropped. The one wanted is where
 * the cut's own gradient has just been made: behind the ops that read parameters of later stages,
 * if that can be, and where the gradients that cross are as large as the cut; of equals the first
 * that leaves the stage behind some work.
 *
 * O(ops + values + reads), but for the search of the best boundary, which looks at each backward op
 * once a cut whose range holds it; the ranges of different cuts hardly overlap.
 */
#include "base/fail.h"
#include "base/memory.h"
#include "graph/chain_internal.h"

#include <string.h>

#define SIDE_SHARE 1000
#define SIDE_SPAN  4

static uint32_t count_forward(const neap_graph *graph)
{
    uint32_t n = 0;
    while (n < graph->n_ops && graph->ops[n].pass == NEAP_FORWARD)
        n++;
    return n;
}

static const neap_value *storage_of(const chain_builder *b, uint32_t value)
{
    return &b->graph->values[b->graph->values[value].storage];
}

static void clear_marks(chain_builder *b)
{
    for (size_t v = 0; v < b->graph->n_values; v++)
        b->seen[v] = 0;
}

/* ---- Forward cuts ---- */

static void find_reaches(chain_builder *b)
{
    const neap_graph *graph = b->graph;
    for (uint32_t o = 0; o < b->n_forward; o++) {
        const neap_op *op = &graph->ops[o];
        for (uint32_t i = 0; i < op->n_inputs; i++)
            b->reaches[graph->values[op->inputs[i]].storage].last = o;
        for (uint32_t i = 0; i < op->n_outputs; i++) {
            reach *r = &b->reaches[graph->values[op->outputs[i]].storage];
            if (r->forward || storage_of(b, op->outputs[i])->producer == NEAP_NONE)
                continue;
            r->forward = true;
            r->first = r->last = o;
        }
    }
}

static void find_sides(chain_builder *b)
{
    const neap_graph *graph = b->graph;
    int64_t forward_bytes = 0;
    for (size_t v = 0; v < graph->n_values; v++)
        if (b->reaches[v].forward)
            forward_bytes += graph->values[v].bytes;
    for (uint32_t v = 0; v < graph->n_values; v++) {
        uint32_t storage = graph->values[v].storage;
        const reach *r = &b->reaches[storage];
        bool side = r->forward && graph->values[storage].bytes <= forward_bytes / SIDE_SHARE &&
                    r->last - r->first >= b->n_forward / SIDE_SPAN && r->last > r->first + 1;
        b->chain->is_side[v] = side || graph->values[storage].producer == NEAP_NONE;
        if (side && storage == v)
            b->chain->side_bytes += graph->values[v].bytes;
    }
}

static void find_crossings(chain_builder *b)
{
    for (size_t v = 0; v < b->graph->n_values; v++) {
        const reach *r = &b->reaches[v];
        if (!chain_may_cross(b, (uint32_t)v))
            continue;
        b->crossings[r->first].count++;
        b->crossings[r->first].id_sum += (int64_t)v;
        b->crossings[r->last].count--;
        b->crossings[r->last].id_sum -= (int64_t)v;
    }
    for (uint32_t p = 1; p < b->n_forward; p++) {
        b->crossings[p].count += b->crossings[p - 1].count;
        b->crossings[p].id_sum += b->crossings[p - 1].id_sum;
    }
}

/* Boundaries inside a layer are no cuts, whatever crosses them. */
static void close_layers(chain_builder *b)
{
    for (uint32_t p = 0; p < b->n_forward; p++)
        if (b->graph->ops[p].inside_layer)
            b->crossings[p].count = INT64_MAX;
}

/* Boundaries crossed by one storage; of several in a row with the same one (views of it), the last.
 */
static void find_boundaries(chain_builder *b)
{
    uint32_t previous = NEAP_NONE;
    for (uint32_t p = 0; p + 1 < b->n_forward; p++) {
        if (b->crossings[p].count != 1)
            continue;
        if (previous != NEAP_NONE && b->crossings[previous].id_sum == b->crossings[p].id_sum)
            b->is_boundary[previous] = false;
        b->is_boundary[p] = true;
        previous = p;
    }
}

static void make_stages(chain_builder *b)
{
    neap_chain *chain = b->chain;
    uint32_t begin = 0;
    for (uint32_t p = 0; p < b->n_forward; p++)
        if (b->is_boundary[p] || p + 1 == b->n_forward) {
            chain->stages[chain->n_stages++] = (neap_stage){.first_op = begin, .end_op = p + 1};
            begin = p + 1;
        }
}

static void number_stages(chain_builder *b)
{
    for (uint32_t i = 0; i < b->chain->n_stages; i++)
        for (uint32_t o = b->chain->stages[i].first_op; o < b->chain->stages[i].end_op; o++)
            b->stage_of[o] = i;
}

/* Whether a storage leaves the stage that makes it. */
static bool leaves_stage(const chain_builder *b, uint32_t storage)
{
    const reach *r = &b->reaches[storage];
    return chain_may_cross(b, storage) && !b->chain->is_carried[storage] &&
           b->stage_of[r->last] > b->stage_of[r->first];
}

static int64_t cut_bytes(const chain_builder *b, const neap_stage *stage)
{
    int64_t bytes = 0;
    for (uint32_t k = 0; k < stage->n_cuts; k++)
        bytes += b->graph->values[stage->cuts[k]].bytes;
    return bytes;
}

/* Lists the storages that leave each stage. A storage that is not carried leaves only one. */
static void list_cuts(chain_builder *b)
{
    neap_chain *chain = b->chain;
    uint32_t at = 0;
    for (uint32_t v = 0; v < b->graph->n_values; v++)
        if (leaves_stage(b, v))
            chain->stages[b->stage_of[b->reaches[v].first]].n_cuts++;
    for (uint32_t i = 0; i < chain->n_stages; i++) {
        chain->stages[i].cuts = chain->cuts + at;
        at += chain->stages[i].n_cuts;
        chain->stages[i].n_cuts = 0;
    }
    for (uint32_t v = 0; v < b->graph->n_values; v++)
        if (leaves_stage(b, v)) {
            neap_stage *stage = &chain->stages[b->stage_of[b->reaches[v].first]];
            chain->cuts[(stage->cuts - chain->cuts) + stage->n_cuts++] = v;
        }
}

/* ---- Backward cuts ---- */

/* seen[v]: for an input, one past the only stage that reads it in the forward part; 0 where there
 * are several or none. */
static void find_parameter_stages(chain_builder *b)
{
    const neap_graph *graph = b->graph;
    clear_marks(b);
    for (uint32_t o = 0; o < b->n_forward; o++)
        for (uint32_t k = 0; k < graph->ops[o].n_inputs; k++) {
            uint32_t storage = graph->values[graph->ops[o].inputs[k]].storage;
            uint32_t stage = b->stage_of[o] + 1;
            if (graph->values[storage].producer == NEAP_NONE)
                b->seen[storage] =
                    b->seen[storage] && b->seen[storage] != stage ? NEAP_NONE : stage;
        }
}

/*
 * For the cut after each stage: low is one past the last backward op that reads a value of a later
 * stage, high the first that reads one of this stage or an earlier one, other than the cut. A value
 * of stage s bounds low for the cuts after stages before s and high for those after s and later
 * ones: set where it is strongest, then carried over the stages.
 */
static void find_backward_ranges(chain_builder *b)
{
    const neap_graph *graph = b->graph;
    neap_chain *chain = b->chain;
    uint32_t n = chain->n_stages;
    find_parameter_stages(b);
    for (uint32_t i = 0; i < n; i++) {
        b->low[i] = b->wanted[i] = b->n_forward;
        b->high[i] = b->n_ops;
    }
    for (uint32_t o = b->n_forward; o < b->n_ops; o++) {
        const neap_op *op = &graph->ops[o];
        for (uint32_t k = 0; k < op->n_inputs; k++) {
            uint32_t value = op->inputs[k], storage = graph->values[value].storage;
            uint32_t maker = graph->values[value].producer, parameter = b->seen[storage];
            if (graph->values[storage].producer == NEAP_NONE && parameter > 1 &&
                parameter != NEAP_NONE)
                b->wanted[parameter - 2] = o + 1;
            if (maker == NEAP_NONE || maker >= b->n_forward || chain->is_side[value] ||
                chain->is_carried[value])
                continue;
            uint32_t stage = b->stage_of[maker];
            if (stage > 0)
                b->low[stage - 1] = o + 1;
            /* The cut behind `stage` may be read after its boundary; the cuts behind later stages
             * may not. */
            bool is_cut = neap_stage_cuts(&chain->stages[stage], storage);
            uint32_t bounded = is_cut ? stage + 1 : stage;
            if (bounded < n && o < b->high[bounded])
                b->high[bounded] = o;
        }
    }
    for (uint32_t i = n; i-- > 0;) {
        if (i + 1 < n && b->low[i + 1] > b->low[i])
            b->low[i] = b->low[i + 1];
        if (b->low[i] > b->wanted[i])
            b->wanted[i] = b->low[i];
    }
    for (uint32_t i = 1; i < n; i++)
        if (b->high[i - 1] < b->high[i])
            b->high[i] = b->high[i - 1];
}

/* gradient_bytes[o]: storages made in the backward part before op o that it or a later op reads. */
static void find_gradient_bytes(chain_builder *b)
{
    const neap_graph *graph = b->graph;
    clear_marks(b); /* seen[v]: of a storage, its last reader in the backward part */
    for (uint32_t o = b->n_forward; o < b->n_ops; o++)
        for (uint32_t k = 0; k < graph->ops[o].n_inputs; k++)
            b->seen[graph->values[graph->ops[o].inputs[k]].storage] = o;
    for (uint32_t v = 0; v < graph->n_values; v++) {
        uint32_t maker = graph->values[v].producer;
        if (graph->values[v].view_of != NEAP_NONE || maker == NEAP_NONE || maker < b->n_forward ||
            b->seen[v] <= maker)
            continue;
        b->gradient_bytes[maker + 1] += graph->values[v].bytes;
        b->gradient_bytes[b->seen[v] + 1] -= graph->values[v].bytes;
    }
    for (uint32_t o = b->n_forward; o < b->n_ops; o++)
        b->gradient_bytes[o + 1] += b->gradient_bytes[o];
}

static bool does_work(const chain_builder *b, uint32_t o)
{
    const neap_op *op = &b->graph->ops[o];
    for (uint32_t k = 0; k < op->n_outputs; k++)
        if (b->graph->values[op->outputs[k]].view_of == NEAP_NONE)
            return true;
    return false;
}

/* The best boundary in low .. high for a cut of so many bytes, the one behind it lying at `at`. */
static uint32_t choose_boundary(const chain_builder *b, uint32_t at, uint32_t low, uint32_t high,
                                int64_t bytes)
{
    uint32_t best = low;
    int64_t best_excess = INT64_MAX;
    bool works = false, best_works = false;
    for (uint32_t o = at; o <= high; o++) {
        int64_t excess = b->gradient_bytes[o] - bytes;
        excess = excess < 0 ? -excess : excess;
        if (o >= low && (excess < best_excess || (excess == best_excess && works && !best_works))) {
            best = o;
            best_excess = excess;
            best_works = works;
        }
        if (excess == 0 && best_works && best == o)
            break;
        works = works || (o < high && does_work(b, o));
    }
    return best;
}

/*
 * Places the backward boundary of each cut, from the last stage to the first, and drops cuts that
 * have none. The last stage has no cut: its backward ops begin with the backward part.
 */
static void place_backward_cuts(chain_builder *b)
{
    neap_chain *chain = b->chain;
    uint32_t n = chain->n_stages, kept = n - 1, at = b->n_forward;
    chain->stages[n - 1].first_backward = b->n_forward;
    for (uint32_t i = n - 1; i-- > 0;) {
        uint32_t low = b->low[i] > at ? b->low[i] : at, high = b->high[i];
        if (low > high) { /* merged with the next stage */
            chain->stages[kept].first_op = chain->stages[i].first_op;
            continue;
        }
        if (b->wanted[i] > low && b->wanted[i] <= high)
            low = b->wanted[i];
        at = choose_boundary(b, at, low, high, cut_bytes(b, &chain->stages[i]));
        chain->stages[kept].end_backward = at;
        kept--;
        chain->stages[kept] = chain->stages[i];
        chain->stages[kept].first_backward = at;
        chain->stages[kept].gradient_bytes = b->gradient_bytes[at];
    }
    chain->stages[kept].end_backward = b->n_ops;
    chain->n_stages = n - kept;
    memmove(chain->stages, chain->stages + kept, chain->n_stages * sizeof *chain->stages);
}

/* ---- Sizes ---- */

static void add_op(chain_builder *b, neap_stage *stage, uint32_t o, bool backward)
{
    const neap_op *op = &b->graph->ops[o];
    *(backward ? &stage->backward_ticks : &stage->forward_ticks) += op->variants[0].ticks;
    if (op->variants[0].workspace > stage->workspace)
        stage->workspace = op->variants[0].workspace;
    if (!backward)
        return;
    for (uint32_t k = 0; k < op->n_outputs; k++) {
        uint32_t value = op->outputs[k];
        if (b->graph->is_output[value])
            stage->result_bytes += storage_of(b, value)->bytes;
    }
}

/* Storages made by this stage, other than its cut, that its backward ops read; each once. */
static void measure_saved(chain_builder *b, neap_stage *stage, uint32_t mark)
{
    for (uint32_t o = stage->first_backward; o < stage->end_backward; o++) {
        const neap_op *op = &b->graph->ops[o];
        for (uint32_t k = 0; k < op->n_inputs; k++) {
            uint32_t storage = b->graph->values[op->inputs[k]].storage;
            const reach *r = &b->reaches[storage];
            bool inside = r->forward && r->first >= stage->first_op && r->first < stage->end_op;
            if (!inside || neap_stage_cuts(stage, storage) || b->chain->is_side[storage] ||
                b->chain->is_carried[storage] || b->seen[storage] == mark)
                continue;
            b->seen[storage] = mark;
            stage->saved_bytes += b->graph->values[storage].bytes;
        }
    }
}

static int64_t data_bytes(const chain_builder *b)
{
    const neap_stage *first = &b->chain->stages[0];
    int64_t bytes = 0;
    for (uint32_t o = first->first_op; o < first->end_op; o++)
        for (uint32_t k = 0; k < b->graph->ops[o].n_inputs; k++) {
            uint32_t value = b->graph->ops[o].inputs[k];
            if (strcmp(b->graph->values[value].kind, NEAP_KIND_INPUT) != 0 ||
                b->seen[value] == NEAP_NONE)
                continue;
            b->seen[value] = NEAP_NONE;
            bytes += b->graph->values[value].bytes;
        }
    return bytes;
}

static void measure_stages(chain_builder *b)
{
    neap_chain *chain = b->chain;
    clear_marks(b);
    chain->input_bytes = data_bytes(b);
    int64_t entering = chain->input_bytes;
    for (uint32_t i = 0; i < chain->n_stages; i++) {
        neap_stage *stage = &chain->stages[i];
        for (uint32_t o = stage->first_op; o < stage->end_op; o++)
            add_op(b, stage, o, false);
        for (uint32_t o = stage->first_backward; o < stage->end_backward; o++)
            add_op(b, stage, o, true);
        stage->input_bytes = entering;
        stage->output_bytes = cut_bytes(b, stage);
        entering = stage->output_bytes;
        measure_saved(b, stage, i + 1);
    }
}

static void note_readers(chain_builder *b, uint32_t first, uint32_t end, uint32_t stage)
{
    for (uint32_t o = first; o < end; o++) {
        const neap_op *op = &b->graph->ops[o];
        if (op->n_outputs > 0 && !does_work(b, o))
            continue; /* it only makes views, which take no memory */
        for (uint32_t k = 0; k < op->n_inputs; k++) {
            uint32_t storage = b->graph->values[op->inputs[k]].storage;
            if (b->chain->is_carried[storage] && stage < b->chain->needed_by[storage])
                b->chain->needed_by[storage] = stage;
        }
    }
}

/* What nothing but views reads counts as needed by the last stage. */
static void measure_carried(chain_builder *b)
{
    neap_chain *chain = b->chain;
    bool any = false;
    for (uint32_t v = 0; v < b->graph->n_values; v++) {
        chain->needed_by[v] = chain->n_stages - 1;
        any = any || chain->is_carried[v];
        if (chain->is_carried[v] && b->graph->values[v].storage == v)
            chain->carried_bytes += b->graph->values[v].bytes;
    }
    for (uint32_t i = 0; i < chain->n_stages && any; i++) {
        note_readers(b, chain->stages[i].first_op, chain->stages[i].end_op, i);
        note_readers(b, chain->stages[i].first_backward, chain->stages[i].end_backward, i);
    }
}

static neap_status allocate(chain_builder *b, neap_diag *diag)
{
    size_t n_values = b->graph->n_values, n_forward = b->n_forward;
    neap_status status = NEAP_NEW(b->allocator, n_values, &b->reaches, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(b->allocator, n_forward, &b->crossings, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(b->allocator, (size_t)b->n_ops + 1, &b->gradient_bytes, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(b->allocator, n_forward, &b->stage_of, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(b->allocator, n_forward, &b->low, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(b->allocator, n_forward, &b->high, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(b->allocator, n_forward, &b->wanted, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(b->allocator, n_values, &b->seen, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(b->allocator, n_forward, &b->chain->stages, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(b->allocator, n_forward, &b->is_boundary, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(b->allocator, n_values, &b->chain->is_side, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(b->allocator, n_values, &b->chain->is_carried, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(b->allocator, n_values, &b->chain->needed_by, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(b->allocator, n_values, &b->chain->cuts, diag);
    return status;
}

/* most_stages: of the fine view; 0: the single one */
static neap_status build(neap_allocator *allocator, const neap_graph *graph, uint32_t most_stages,
                         neap_chain *chain, neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    uint32_t n_forward = count_forward(graph);
    *chain = (neap_chain){
        .n_forward = n_forward, .n_values = (uint32_t)graph->n_values, .allocator = allocator};
    chain_builder b = {.allocator = allocator,
                       .graph = graph,
                       .chain = chain,
                       .n_ops = (uint32_t)graph->n_ops,
                       .n_forward = n_forward};
    neap_status status = allocate(&b, diag);
    if (status == NEAP_OK && n_forward > 0) {
        find_reaches(&b);
        find_sides(&b);
        find_crossings(&b);
        close_layers(&b);
        find_boundaries(&b);
        if (most_stages > 0)
            status = neap_chain_add_boundaries(&b, most_stages, diag);
    }
    if (status == NEAP_OK && n_forward > 0) {
        make_stages(&b);
        number_stages(&b);
        list_cuts(&b);
        find_backward_ranges(&b);
        find_gradient_bytes(&b);
        place_backward_cuts(&b);
        measure_stages(&b);
        measure_carried(&b);
    }
    NEAP_DELETE(allocator, graph->n_values, b.reaches);
    NEAP_DELETE(allocator, n_forward, b.crossings);
    NEAP_DELETE(allocator, (size_t)b.n_ops + 1, b.gradient_bytes);
    NEAP_DELETE(allocator, n_forward, b.stage_of);
    NEAP_DELETE(allocator, n_forward, b.low);
    NEAP_DELETE(allocator, n_forward, b.high);
    NEAP_DELETE(allocator, n_forward, b.wanted);
    NEAP_DELETE(allocator, graph->n_values, b.seen);
    NEAP_DELETE(allocator, n_forward, b.is_boundary);
    if (status != NEAP_OK)
        neap_chain_clear(chain);
    return status;
}

neap_status neap_chain_build(neap_allocator *allocator, const neap_graph *graph, neap_chain *chain,
                             neap_diag *diag)
{
    return build(allocator, graph, 0, chain, diag);
}

neap_status neap_chain_build_fine(neap_allocator *allocator, const neap_graph *graph,
                                  uint32_t most_stages, neap_chain *chain, neap_diag *diag)
{
    return build(allocator, graph, most_stages ? most_stages : UINT32_MAX, chain, diag);
}

void neap_chain_clear(neap_chain *chain)
{
    NEAP_DELETE(chain->allocator, chain->n_forward, chain->stages);
    NEAP_DELETE(chain->allocator, chain->n_values, chain->is_side);
    NEAP_DELETE(chain->allocator, chain->n_values, chain->is_carried);
    NEAP_DELETE(chain->allocator, chain->n_values, chain->needed_by);
    NEAP_DELETE(chain->allocator, chain->n_values, chain->cuts);
    *chain = (neap_chain){.allocator = chain->allocator};
}

bool neap_stage_cuts(const neap_stage *stage, uint32_t storage)
{
    uint32_t low = 0, high = stage->n_cuts;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (stage->cuts[middle] < storage)
            low = middle + 1;
        else
            high = middle;
    }
    return low < stage->n_cuts && stage->cuts[low] == storage;
}
