/*
 * neap/cost.h: the time of every op by the roofline model (Williams, Waterman and Patterson, CACM
 * 2009).
 *
 *     time = launch + max(flops / (compute_efficiency * rate), bytes / (memory_efficiency *
 * bandwidth))
 *
 * Counts are those the op carries, else those of its type and shapes. The rate is that of the op's
 * arithmetic for convolutions and matrix products, and the f32 rate for the ops known to have none
 * of either: these do a few operations a byte and wait for memory on every device.
 */
#include "base/fail.h"
#include "base/memory.h"
#include "graph/graph_internal.h"

#include <neap/cost.h>
#include <neap/network.h>

#include <stdio.h>

static const char *const math_names[NEAP_MATH_COUNT] = {"f32", "tf32", "f16", "bf16", "f64"};

/* What one op does, every number known. */
typedef struct work {
    double flops;
    double bytes;
    bool products;  /* convolutions or matrix products among the flops */
    neap_math math; /* that the flops run in */
} work;

/* An op that only renames storage: a reshape, a slice. */
static bool is_view(const neap_graph *graph, const neap_op *op)
{
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (neap_graph_value(graph, op->outputs[i])->view_of == NEAP_NONE)
            return false;
    return op->n_outputs > 0;
}

static bool is_floating(neap_dtype dtype)
{
    return dtype == NEAP_F32 || dtype == NEAP_F16 || dtype == NEAP_BF16 || dtype == NEAP_F64;
}

/* The type of the first floating-point value of a list, or NEAP_DTYPE_UNKNOWN. */
static neap_dtype floating_type(const neap_graph *graph, const uint32_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        neap_dtype dtype = neap_graph_value(graph, values[i])->dtype;
        if (is_floating(dtype))
            return dtype;
    }
    return NEAP_DTYPE_UNKNOWN;
}

/* What an op's products run in: its own type, or `math` for f32 and for types the graph does not
 * say. */
static neap_math math_of(const neap_graph *graph, const neap_op *op, neap_math math)
{
    neap_dtype dtype = floating_type(graph, op->outputs, op->n_outputs);
    if (dtype == NEAP_DTYPE_UNKNOWN)
        dtype = floating_type(graph, op->inputs, op->n_inputs);
    switch (dtype) {
    case NEAP_F16:
        return NEAP_MATH_F16;
    case NEAP_BF16:
        return NEAP_MATH_BF16;
    case NEAP_F64:
        return NEAP_MATH_F64;
    default:
        return math;
    }
}

/*
 * Only a type that neap knows, and knows to hold no product, runs at the vector rate. The flops
 * that a file gives for a type of its own count as products: if they are not, the op waits for
 * memory anyway.
 */
static neap_status work_of(const neap_graph *graph, uint32_t id, neap_math math, work *w,
                           neap_diag *diag)
{
    const neap_op *op = neap_graph_op(graph, id);
    neap_op_count count = neap_op_count_work(graph, id);
    if (!count.known && is_view(graph, op)) {
        count = (neap_op_count){.known = true};
    } else if (!count.known && (op->flops < 0 || op->bytes_moved < 0)) {
        return neap_fail(
            diag, NEAP_INVALID,
            "op %u \"%s\" of type \"%s\" has no \"%s\", and neap cannot count them: it "
            "does not know the type, or values have no shape; give the counts, or the "
            "times as measured",
            id, op->name, op->type, op->flops < 0 ? "flops" : "bytes_moved");
    }
    w->flops = (double)(op->flops >= 0 ? op->flops : count.flops);
    w->bytes = (double)(op->bytes_moved >= 0 ? op->bytes_moved : count.bytes_moved);
    w->products = !count.known || count.macs > 0;
    w->math = w->products ? math_of(graph, op, math) : NEAP_MATH_F32;
    return NEAP_OK;
}

static neap_status fail_math(const neap_device *device, const neap_op *op, neap_math math,
                             neap_diag *diag)
{
    char has[64] = "";
    size_t length = 0;
    for (int i = 0; i < NEAP_MATH_COUNT; i++)
        if (device->flops[i] > 0)
            length += (size_t)snprintf(has + length, sizeof has - length, "%s%s",
                                       length ? ", " : "", math_names[i]);
    return neap_fail(diag, NEAP_INVALID,
                     "device %s has no %s arithmetic, which op \"%s\" needs; it has %s",
                     device->name, math_names[math], op->name, length ? has : "none");
}

static neap_status time_of(const neap_graph *graph, uint32_t id, const neap_device *device,
                           neap_math math, double *seconds, neap_diag *diag)
{
    const neap_op *op = neap_graph_op(graph, id);
    *seconds = 0;
    if (device->unit) {
        *seconds = is_view(graph, op) ? 0 : 1;
        return NEAP_OK;
    }
    work w = {.flops = 0};
    neap_status status = work_of(graph, id, math, &w, diag);
    if (status != NEAP_OK || (w.flops == 0 && w.bytes == 0))
        return status;
    double rate = device->compute_efficiency * device->flops[w.math];
    if (w.products && w.flops > 0 && rate <= 0)
        return fail_math(device, op, w.math, diag);
    double computing = rate > 0 ? w.flops / rate : 0;
    double moving = w.bytes / (device->memory_efficiency * device->bandwidth);
    *seconds = device->launch + (computing > moving ? computing : moving);
    return NEAP_OK;
}

/* A caller may have made the device; a file's were checked when read. */
static neap_status check_device(const neap_device *device, neap_diag *diag)
{
    if (device->unit || (device->bandwidth > 0 && device->compute_efficiency > 0 &&
                         device->memory_efficiency > 0 && device->launch >= 0))
        return NEAP_OK;
    return neap_fail(
        diag, NEAP_INVALID,
        "device %s needs a bandwidth and efficiencies above 0, and a launch of 0 or more",
        device->name);
}

neap_status neap_cost_apply(neap_graph *graph, const neap_device *device, neap_math math,
                            neap_diag *diag)
{
    if (math != NEAP_MATH_F32 && math != NEAP_MATH_TF32)
        return neap_fail(diag, NEAP_INVALID, "f32 products run in f32 or tf32, nothing else");
    neap_status status = check_device(device, diag);
    if (status != NEAP_OK)
        return status;
    uint32_t n_ops = neap_graph_op_count(graph);
    neap_variant *variants;
    status = NEAP_NEW(graph->allocator, n_ops, &variants, diag);
    for (uint32_t i = 0; i < n_ops && status == NEAP_OK; i++) {
        variants[i].workspace = neap_graph_op(graph, i)->variants[0].workspace;
        status = time_of(graph, i, device, math, &variants[i].seconds, diag);
    }
    if (status == NEAP_OK)
        status = neap_graph_set_variants(graph, variants, NULL, diag);
    NEAP_DELETE(graph->allocator, n_ops, variants);
    return status;
}
