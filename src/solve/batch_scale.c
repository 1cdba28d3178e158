/* neap_batch_scale: the graph for one batch from that for another, using only the graph file. */
#include <neap/batch.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"
#include "planners/common/batch_sizes.h"

#include <inttypes.h>

typedef struct scaling {
    neap_allocator *allocator;
    const neap_graph *graph;
    int64_t from, to;
    bool *kept; /* by storage: its size does not depend on the batch */
    neap_graph_builder *builder;
    neap_variant *variants; /* of the current op */
    size_t variant_capacity;
} scaling;

/* ceil(bytes * to / from), computed from the quotient and the remainder by `from`. Unknown counts
   are negative and stay so. False on overflow. */
static bool scale_bytes(const scaling *s, int64_t bytes, int64_t *scaled)
{
    int64_t whole, rest;
    *scaled = bytes;
    if (bytes < 0)
        return true;
    if (!neap_mul_i64(bytes / s->from, s->to, &whole) ||
        !neap_mul_i64(bytes % s->from, s->to, &rest))
        return false;
    return neap_add_i64(whole, rest / s->from + (rest % s->from > 0), scaled);
}

static neap_status fail_size(const scaling *s, const char *name, neap_diag *diag)
{
    return neap_fail(diag, NEAP_INVALID,
                     "\"%s\" cannot be scaled from a batch of %" PRId64 " to one of %" PRId64
                     ": its size exceeds 2^63",
                     name, s->from, s->to);
}

static neap_status add_value(const scaling *s, uint32_t id, neap_diag *diag)
{
    const neap_value *value = neap_graph_value(s->graph, id);
    bool kept = s->kept[value->storage];
    neap_value_desc desc;
    neap_value_describe(value, &desc);
    if (!kept) {
        desc.rank = 0;
        desc.shape = NULL;
    }
    if (!kept && !scale_bytes(s, value->bytes, &desc.bytes))
        return fail_size(s, value->name, diag);
    return neap_graph_builder_add_value(s->builder, &desc, NULL, diag);
}

static neap_status add_op(scaling *s, uint32_t id, neap_diag *diag)
{
    const neap_op *op = neap_graph_op(s->graph, id);
    neap_op_desc desc;
    neap_op_describe(op, &desc);
    if (neap_batch_is_op_fixed(s->graph, s->kept, id))
        return neap_graph_builder_add_op(s->builder, &desc, NULL, diag);
    neap_status status =
        NEAP_RESERVE(s->allocator, op->n_variants, &s->variants, &s->variant_capacity, diag);
    if (status != NEAP_OK)
        return status;
    bool fits = scale_bytes(s, op->flops, &desc.flops) &&
                scale_bytes(s, op->bytes_moved, &desc.bytes_moved);
    for (uint32_t k = 0; k < op->n_variants && fits; k++) {
        s->variants[k].kernel = op->variants[k].kernel;
        s->variants[k].seconds = op->variants[k].seconds * (double)s->to / (double)s->from;
        fits = scale_bytes(s, op->variants[k].workspace, &s->variants[k].workspace);
    }
    if (!fits)
        return fail_size(s, op->name, diag);
    desc.variants = s->variants;
    return neap_graph_builder_add_op(s->builder, &desc, NULL, diag);
}

static neap_status add_all(scaling *s, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    uint32_t n_outputs;
    const uint32_t *outputs = neap_graph_outputs(s->graph, &n_outputs);
    for (uint32_t v = 0; v < neap_graph_value_count(s->graph) && status == NEAP_OK; v++)
        status = add_value(s, v, diag);
    for (uint32_t o = 0; o < neap_graph_op_count(s->graph) && status == NEAP_OK; o++)
        status = add_op(s, o, diag);
    for (uint32_t i = 0; i < n_outputs && status == NEAP_OK; i++)
        status = neap_graph_builder_add_output(s->builder, outputs[i], diag);
    return status;
}

neap_status neap_batch_scale(neap_allocator *allocator, const neap_graph *graph, int64_t from,
                             int64_t to, neap_graph **scaled, neap_diag *diag)
{
    *scaled = NULL;
    if (from < 1 || to < 1)
        return neap_fail(diag, NEAP_INVALID, "a batch is 1 or more, not %" PRId64,
                         from < 1 ? from : to);
    allocator = neap_allocator_or_system(allocator);
    scaling s = {.allocator = allocator, .graph = graph, .from = from, .to = to};
    uint32_t n_values = neap_graph_value_count(graph);
    neap_status status = NEAP_NEW(allocator, n_values, &s.kept, diag);
    if (status == NEAP_OK)
        status = neap_graph_builder_create(allocator, neap_graph_name(graph), &s.builder, diag);
    if (status != NEAP_OK)
        goto done;
    neap_batch_mark_fixed(graph, s.kept);
    neap_graph_builder_set_fixed_bytes(s.builder, neap_graph_fixed_bytes(graph));
    status = add_all(&s, diag);
    if (status == NEAP_OK)
        status = neap_graph_builder_finish(s.builder, scaled, diag);
done:
    neap_graph_builder_destroy(s.builder);
    NEAP_DELETE(allocator, s.variant_capacity, s.variants);
    NEAP_DELETE(allocator, n_values, s.kept);
    return status;
}
