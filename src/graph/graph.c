/* neap/graph.h: reading a graph, and what is derived once from its lists. */
#include "graph/graph_internal.h"

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

#define MOST_TICKS 1e15 /* of one execution of all ops */
#define MOST_SCALE 15   /* a tick is at least 10^-15 s */

/* ---- Types ---- */

static const struct {
    const char *name;
    int64_t bytes;
} dtypes[] = {
    [NEAP_DTYPE_UNKNOWN] = {"", 0}, [NEAP_F32] = {"f32", 4}, [NEAP_F16] = {"f16", 2},
    [NEAP_BF16] = {"bf16", 2},      [NEAP_F64] = {"f64", 8}, [NEAP_I64] = {"i64", 8},
    [NEAP_I32] = {"i32", 4},        [NEAP_U8] = {"u8", 1},
};
#define N_DTYPES (sizeof dtypes / sizeof *dtypes)

const char *neap_dtype_name(neap_dtype dtype)
{
    return (size_t)dtype < N_DTYPES ? dtypes[dtype].name : "";
}

neap_dtype neap_dtype_from_name(const char *name)
{
    for (size_t i = 1; i < N_DTYPES; i++)
        if (strcmp(name, dtypes[i].name) == 0)
            return (neap_dtype)i;
    return NEAP_DTYPE_UNKNOWN;
}

int64_t neap_dtype_bytes(neap_dtype dtype)
{
    return (size_t)dtype < N_DTYPES ? dtypes[dtype].bytes : 0;
}

/* ---- Accessors ---- */

const char *neap_graph_name(const neap_graph *graph)
{
    return graph->name;
}

uint32_t neap_graph_op_count(const neap_graph *graph)
{
    return (uint32_t)graph->n_ops;
}

uint32_t neap_graph_value_count(const neap_graph *graph)
{
    return (uint32_t)graph->n_values;
}

const neap_op *neap_graph_op(const neap_graph *graph, uint32_t id)
{
    return &graph->ops[id];
}

const neap_value *neap_graph_value(const neap_graph *graph, uint32_t id)
{
    return &graph->values[id];
}

const char *neap_graph_measured_on(const neap_graph *graph)
{
    return graph->measured_on;
}

int64_t neap_graph_fixed_bytes(const neap_graph *graph)
{
    return graph->fixed_bytes;
}

int64_t neap_graph_base_bytes(const neap_graph *graph)
{
    return graph->base_bytes;
}

const uint32_t *neap_graph_outputs(const neap_graph *graph, uint32_t *count)
{
    *count = (uint32_t)graph->n_outputs;
    return graph->outputs;
}

bool neap_graph_is_output(const neap_graph *graph, uint32_t value)
{
    return graph->is_output[value];
}

const uint32_t *neap_graph_readers(const neap_graph *graph, uint32_t value, uint32_t *count)
{
    *count = graph->reader_start[value + 1] - graph->reader_start[value];
    return graph->readers + graph->reader_start[value];
}

const uint32_t *neap_graph_ordinary_order(const neap_graph *graph)
{
    return graph->ordinary_order;
}

bool neap_graph_is_side_update(const neap_graph *graph, uint32_t op)
{
    return graph->is_side_update[op];
}

int64_t neap_graph_ticks_per_second(const neap_graph *graph)
{
    return graph->ticks_per_second;
}

int64_t neap_graph_base_ticks(const neap_graph *graph)
{
    return graph->base_ticks;
}

int64_t neap_graph_least_ticks(const neap_graph *graph)
{
    return graph->least_ticks;
}

double neap_graph_seconds(const neap_graph *graph, int64_t ticks)
{
    return (double)ticks / (double)graph->ticks_per_second;
}

int64_t neap_graph_parameter_count(const neap_graph *graph)
{
    int64_t count = 0;
    for (size_t v = 0; v < graph->n_values; v++) {
        const neap_value *value = &graph->values[v];
        if (strcmp(value->kind, NEAP_KIND_PARAMETER) != 0 || value->view_of != NEAP_NONE)
            continue;
        int64_t size = neap_dtype_bytes(value->dtype);
        count += value->bytes / (size ? size : 4);
    }
    return count;
}

/* A real is cut off; one beyond 2^62 is that. */
int64_t neap_attr_int(const neap_attr *attr)
{
    double limit = 0x1p62;
    if (!attr->is_real)
        return attr->integer;
    return attr->real > -limit && attr->real < limit ? (int64_t)attr->real : INT64_C(1) << 62;
}

int64_t neap_op_attr_int(const neap_op *op, const char *name, int64_t fallback)
{
    for (uint32_t i = 0; i < op->n_attrs; i++)
        if (strcmp(op->attrs[i].name, name) == 0)
            return neap_attr_int(&op->attrs[i]);
    return fallback;
}

double neap_op_attr_real(const neap_op *op, const char *name, double fallback)
{
    for (uint32_t i = 0; i < op->n_attrs; i++)
        if (strcmp(op->attrs[i].name, name) == 0)
            return op->attrs[i].is_real ? op->attrs[i].real : (double)op->attrs[i].integer;
    return fallback;
}

void neap_graph_destroy(neap_graph *graph)
{
    if (!graph)
        return;
    neap_allocator *allocator = graph->allocator;
    neap_graph_destroy(graph->whole);
    NEAP_DELETE(allocator, graph->value_capacity, graph->values);
    NEAP_DELETE(allocator, graph->op_capacity, graph->ops);
    NEAP_DELETE(allocator, graph->output_capacity, graph->outputs);
    neap_arena_clear(&graph->arena);
    NEAP_DELETE(allocator, 1, graph);
}

/* ---- Derivation ---- */

/*
 * Views may stand before what they are views of, and chains of them may be long: follow each to a
 * value that is resolved, then resolve the way back. The validator has excluded cycles.
 */
void neap_graph_derive_storages(neap_graph *graph)
{
    for (size_t v = 0; v < graph->n_values; v++)
        graph->values[v].storage = NEAP_NONE;
    for (uint32_t v = 0; v < graph->n_values; v++) {
        uint32_t root = v;
        while (graph->values[root].storage == NEAP_NONE && graph->values[root].view_of != NEAP_NONE)
            root = graph->values[root].view_of;
        if (graph->values[root].storage != NEAP_NONE)
            root = graph->values[root].storage;
        for (uint32_t at = v; graph->values[at].storage == NEAP_NONE;) {
            uint32_t next = graph->values[at].view_of;
            graph->values[at].storage = root;
            if (next != NEAP_NONE)
                at = next;
        }
    }
}

static void derive_base_bytes(neap_graph *graph)
{
    /* A storage of the input values counts once: where its owner stands. */
    graph->base_bytes = graph->fixed_bytes;
    for (size_t v = 0; v < graph->n_values; v++)
        if (graph->values[v].view_of == NEAP_NONE && graph->values[v].producer == NEAP_NONE)
            graph->base_bytes += graph->values[v].bytes;
}

/* Whether no other op reads what the op overwrites; `readings` counts readers by storage. */
static bool has_own_state(const neap_graph *graph, const neap_op *op, const uint32_t *readings)
{
    for (uint32_t i = 0; i < op->n_updates; i++)
        if (readings[graph->values[op->updates[i]].storage] > 1)
            return false;
    return op->n_updates > 0;
}

/* Whether its inputs are results of one op, and at least one is, and inputs of the graph. */
static bool follows_one_op(const neap_graph *graph, const neap_op *op)
{
    uint32_t maker = NEAP_NONE;
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        uint32_t producer = graph->values[op->inputs[i]].producer;
        if (producer != NEAP_NONE && maker != NEAP_NONE && producer != maker)
            return false;
        maker = producer != NEAP_NONE ? producer : maker;
    }
    return maker != NEAP_NONE && graph->ops[maker].n_updates == 0;
}

static bool needs_no_workspace(const neap_op *op)
{
    for (uint32_t k = 0; k < op->n_variants; k++)
        if (op->variants[k].workspace == 0)
            return true;
    return false;
}

static bool derive_side_updates(neap_graph *graph)
{
    bool *is_side = neap_arena_alloc(&graph->arena, graph->n_ops, sizeof *is_side);
    uint32_t *readings = neap_arena_alloc(&graph->arena, graph->n_values, sizeof *readings);
    uint32_t *last = neap_arena_alloc(&graph->arena, graph->n_values, sizeof *last);
    if (!is_side || !readings || !last)
        return false;
    for (uint32_t o = 0; o < graph->n_ops; o++)
        for (uint32_t i = 0; i < graph->ops[o].n_inputs; i++) {
            uint32_t storage = graph->values[graph->ops[o].inputs[i]].storage;
            readings[storage] += last[storage] != o + 1;
            last[storage] = o + 1;
        }
    for (uint32_t o = 0; o < graph->n_ops; o++) {
        const neap_op *op = &graph->ops[o];
        is_side[o] = op->n_outputs == 0 && has_own_state(graph, op, readings) &&
                     follows_one_op(graph, op) && needs_no_workspace(op);
    }
    graph->is_side_update = is_side;
    return true;
}

/* What updates state, and what needs its results, is late. The order stays one in which every op
   finds its inputs: nothing early reads what is late, and readers of state precede its update. */
static bool derive_ordinary_order(neap_graph *graph)
{
    uint32_t *order = neap_arena_alloc(&graph->arena, graph->n_ops, sizeof *order), n = 0;
    bool *late = neap_arena_alloc(&graph->arena, graph->n_ops, sizeof *late);
    if (!order || !late)
        return false;
    for (uint32_t o = 0; o < graph->n_ops; o++) {
        const neap_op *op = &graph->ops[o];
        late[o] = op->n_updates > 0 && !graph->is_side_update[o];
        for (uint32_t i = 0; i < op->n_inputs && !late[o]; i++) {
            uint32_t producer = graph->values[op->inputs[i]].producer;
            late[o] = producer != NEAP_NONE && late[producer];
        }
        graph->is_side_update[o] = graph->is_side_update[o] && !late[o];
        if (!late[o])
            order[n++] = o;
    }
    for (uint32_t o = 0; o < graph->n_ops; o++)
        if (late[o])
            order[n++] = o;
    graph->ordinary_order = order;
    return true;
}

static bool derive_readers(neap_graph *graph)
{
    size_t n_reads = 0;
    for (size_t o = 0; o < graph->n_ops; o++)
        n_reads += graph->ops[o].n_inputs;
    graph->reader_start = neap_arena_alloc(&graph->arena, graph->n_values + 1, sizeof(uint32_t));
    graph->readers = neap_arena_alloc(&graph->arena, n_reads, sizeof(uint32_t));
    uint32_t *last = neap_arena_alloc(&graph->arena, graph->n_values, sizeof(uint32_t));
    if (!graph->reader_start || !graph->readers || !last || n_reads >= UINT32_MAX)
        return false;
    uint32_t *start = graph->reader_start;
    /* Count each reader once, then place: last[v] is the last op seen reading v, plus one. */
    for (uint32_t o = 0; o < graph->n_ops; o++)
        for (uint32_t i = 0; i < graph->ops[o].n_inputs; i++) {
            uint32_t v = graph->ops[o].inputs[i];
            if (last[v] != o + 1)
                start[v + 1]++;
            last[v] = o + 1;
        }
    for (size_t v = 0; v < graph->n_values; v++)
        start[v + 1] += start[v];
    memset(last, 0, graph->n_values * sizeof *last);
    for (uint32_t o = 0; o < graph->n_ops; o++)
        for (uint32_t i = 0; i < graph->ops[o].n_inputs; i++) {
            uint32_t v = graph->ops[o].inputs[i];
            if (last[v] != o + 1)
                graph->readers[start[v]++] = o;
            last[v] = o + 1;
        }
    for (size_t v = graph->n_values; v > 0; v--)
        start[v] = start[v - 1];
    start[0] = 0;
    return true;
}

void neap_graph_clear_in_place(neap_graph *graph)
{
    for (size_t o = 0; o < graph->n_ops; o++)
        graph->ops[o].in_place_input = graph->ops[o].in_place_output = NEAP_NONE;
    if (graph->whole)
        neap_graph_clear_in_place(graph->whole);
    neap_graph_derive_floors(graph);
}

static double longest_seconds(const neap_op *op)
{
    double longest = 0;
    for (uint32_t k = 0; k < op->n_variants; k++)
        if (op->variants[k].seconds > longest)
            longest = op->variants[k].seconds;
    return longest;
}

/* The power of ten that makes one execution of all ops at most MOST_TICKS; 0 if there is none. */
static int64_t choose_ticks_per_second(const neap_graph *graph)
{
    double total = 0;
    for (size_t o = 0; o < graph->n_ops; o++)
        total += longest_seconds(&graph->ops[o]);
    if (!(total <= MOST_TICKS))
        return 0;
    int64_t scale = 1;
    for (int i = 0; i < MOST_SCALE && total * (double)scale * 10 <= MOST_TICKS; i++)
        scale *= 10;
    return scale;
}

static neap_status derive_ticks(neap_graph *graph, neap_diag *diag)
{
    int64_t scale = choose_ticks_per_second(graph);
    if (scale == 0)
        return neap_fail(diag, NEAP_INVALID,
                         "the ops' times sum to more than 1e15 seconds; scale them down");
    graph->ticks_per_second = scale;
    graph->base_ticks = graph->least_ticks = 0;
    for (size_t o = 0; o < graph->n_ops; o++) {
        neap_op *op = &graph->ops[o];
        neap_variant *variants =
            neap_arena_copy(&graph->arena, op->variants, op->n_variants, sizeof *variants);
        if (!variants)
            return neap_fail_no_memory(diag);
        int64_t least = INT64_MAX;
        for (uint32_t k = 0; k < op->n_variants; k++) {
            variants[k].ticks = llround(variants[k].seconds * (double)scale);
            if (variants[k].ticks < least)
                least = variants[k].ticks;
        }
        op->variants = variants;
        graph->base_ticks += variants[0].ticks;
        graph->least_ticks += least;
    }
    return NEAP_OK;
}

neap_status neap_graph_derive(neap_graph *graph, neap_diag *diag)
{
    for (size_t v = 0; v < graph->n_values; v++)
        graph->values[v].producer = NEAP_NONE;
    for (uint32_t o = 0; o < graph->n_ops; o++) {
        for (uint32_t i = 0; i < graph->ops[o].n_outputs; i++)
            graph->values[graph->ops[o].outputs[i]].producer = o;
        for (uint32_t i = 0; i < graph->ops[o].n_updates; i++)
            graph->values[graph->ops[o].updates[i]].updater = o;
    }
    graph->is_output = neap_arena_alloc(&graph->arena, graph->n_values, sizeof(bool));
    graph->seen = neap_arena_alloc(&graph->arena, graph->n_values, sizeof *graph->seen);
    if (!graph->is_output || !graph->seen || !derive_readers(graph) ||
        !derive_side_updates(graph) || !derive_ordinary_order(graph))
        return neap_fail_no_memory(diag);
    for (size_t i = 0; i < graph->n_outputs; i++)
        graph->is_output[graph->outputs[i]] = true;
    derive_base_bytes(graph);
    neap_graph_derive_floors(graph);
    return derive_ticks(graph, diag);
}

/* A bound on the sum that the ticks are chosen by: every op's slowest. */
static neap_status check_variants(const neap_graph *graph, const neap_variant *variants,
                                  const uint32_t *counts, size_t *n_variants, neap_diag *diag)
{
    double total = 0;
    size_t next = 0;
    for (size_t o = 0; o < graph->n_ops; o++) {
        double longest = 0;
        for (uint32_t k = 0; k < (counts ? counts[o] : 1); k++, next++) {
            double seconds = variants[next].seconds;
            if (!(seconds >= 0) || !isfinite(seconds) || variants[next].workspace < 0)
                return neap_fail(diag, NEAP_INVALID,
                                 "op %zu \"%s\": a time must be finite and 0 or more, not %g", o,
                                 graph->ops[o].name, seconds);
            longest = fmax(longest, seconds);
        }
        total += longest;
    }
    *n_variants = next;
    if (!(total <= MOST_TICKS))
        return neap_fail(diag, NEAP_INVALID, "the ops' times sum to more than 1e15 seconds");
    return NEAP_OK;
}

neap_status neap_graph_set_variants(neap_graph *graph, const neap_variant *variants,
                                    const uint32_t *counts, neap_diag *diag)
{
    size_t n_variants = 0, next = 0;
    neap_status status = check_variants(graph, variants, counts, &n_variants, diag);
    if (status != NEAP_OK)
        return status;
    const neap_graph before = *graph;
    neap_op *old_ops = neap_arena_copy(&graph->arena, graph->ops, graph->n_ops, sizeof *old_ops);
    neap_variant *kept = neap_arena_copy(&graph->arena, variants, n_variants, sizeof *kept);
    if (!kept || !old_ops)
        return neap_fail_no_memory(diag);
    for (size_t o = 0; o < graph->n_ops; o++) {
        graph->ops[o].variants = &kept[next];
        graph->ops[o].n_variants = counts ? counts[o] : 1;
        /* A file has the number of a kernel in the list, even of a single one. */
        graph->ops[o].lists_variants = graph->ops[o].n_variants > 1 || kept[next].kernel > 0;
        next += graph->ops[o].n_variants;
    }
    status = derive_ticks(graph, diag);
    if (status == NEAP_OK && !(derive_side_updates(graph) && derive_ordinary_order(graph)))
        status = neap_fail_no_memory(diag);
    if (status == NEAP_OK) {
        graph->measured_on = NULL;
        neap_graph_derive_floors(graph);
    } else { /* unchanged, except for memory taken from the arena */
        neap_arena arena = graph->arena;
        *graph = before;
        graph->arena = arena;
        if (graph->n_ops)
            memcpy(graph->ops, old_ops, graph->n_ops * sizeof *old_ops);
    }
    return status;
}

neap_status neap_graph_set_measured_on(neap_graph *graph, const char *machine, neap_diag *diag)
{
    const char *kept = neap_arena_text(&graph->arena, machine, strlen(machine));
    if (!kept)
        return neap_fail_no_memory(diag);
    graph->measured_on = kept;
    return NEAP_OK;
}
