/* The interpreter of reference_ops.h. The kernels are in reference_ops_*.c. */
#include "reference_ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *type;
    ref_kernel *run;
} kernels[] = {
#define X(type) {#type, ref_##type},
#include "graph/ops.def"
#undef X
};

static ref_kernel *kernel_of(const neap_op *op)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].type, op->type) == 0)
            return kernels[i].run;
    fail_msg("op \"%s\": no reference kernel for \"%s\"", op->name, op->type);
    return NULL;
}

/* ---- For kernels ---- */

static const neap_attr *attr_of(const ref_call *call, const char *name, bool is_real)
{
    for (uint32_t i = 0; i < call->op->n_attrs; i++)
        if (strcmp(call->op->attrs[i].name, name) == 0 && call->op->attrs[i].is_real == is_real)
            return &call->op->attrs[i];
    fail_msg("op \"%s\" (%s) lacks the attribute \"%s\"", call->op->name, call->op->type, name);
    return NULL;
}

int64_t ref_int(const ref_call *call, const char *name)
{
    return attr_of(call, name, false)->integer;
}

double ref_real(const ref_call *call, const char *name)
{
    return attr_of(call, name, true)->real;
}

double ref_random(const ref_call *call, int64_t index)
{
    if (!call->op->random)
        fail_msg("op \"%s\" (%s) draws random numbers but is not marked", call->op->name,
                 call->op->type);
    random_source random = {call->seed ^ ((uint64_t)index * UINT64_C(0x9E3779B97F4A7C15))};
    return random_below(&random, 1u << 20) / (double)(1u << 20);
}

void ref_operands(const ref_call *call, uint32_t n_inputs, uint32_t n_outputs)
{
    if (call->op->n_inputs != n_inputs || call->op->n_outputs != n_outputs)
        fail_msg("op \"%s\" (%s) reads %u and writes %u values, its kernel %u and %u",
                 call->op->name, call->op->type, call->op->n_inputs, call->op->n_outputs, n_inputs,
                 n_outputs);
}

int64_t ref_extent(const ref_tensor *x, uint32_t first, uint32_t last)
{
    int64_t extent = 1;
    for (uint32_t d = first; d < last; d++)
        extent *= x->shape[d];
    return extent;
}

/* ---- Values ---- */

static ref_tensor new_tensor(const neap_value *value)
{
    ref_tensor x = {.dtype = value->dtype, .rank = value->rank};
    assert_in_range(value->rank, 1, NEAP_MAX_RANK);
    memcpy(x.shape, value->shape, value->rank * sizeof *x.shape);
    x.n = ref_extent(&x, 0, x.rank);
    x.at = calloc((size_t)x.n, sizeof *x.at);
    assert_non_null(x.at);
    return x;
}

ref_tensor ref_copy(const ref_tensor *x)
{
    ref_tensor copy = *x;
    copy.at = malloc((size_t)x->n * sizeof *x->at);
    assert_non_null(copy.at);
    memcpy(copy.at, x->at, (size_t)x->n * sizeof *x->at);
    return copy;
}

void ref_clear(ref_tensor *x)
{
    free(x->at);
    x->at = NULL;
}

static bool is_float(neap_dtype dtype)
{
    return dtype == NEAP_F32 || dtype == NEAP_F16 || dtype == NEAP_BF16 || dtype == NEAP_F64;
}

static double uniform(random_source *random, double low, double high)
{
    return low + (high - low) * (random_below(random, 1u << 30) / (double)(1u << 30));
}

static int64_t attr_or_one(const neap_op *op, const char *name)
{
    for (uint32_t i = 0; i < op->n_attrs; i++)
        if (strcmp(op->attrs[i].name, name) == 0)
            return op->attrs[i].integer;
    return 1;
}

/* Numbers below this are plausible for the integers that an op reads as input i. */
static int64_t integer_limit(const neap_graph *graph, const neap_op *op, uint32_t i)
{
    const neap_value *read = neap_graph_value(graph, op->inputs[i]);
    const neap_value *first = neap_graph_value(graph, op->inputs[0]);
    const neap_value *output = neap_graph_value(graph, op->outputs[0]);
    if (strcmp(op->type, "embedding") == 0)
        return neap_graph_value(graph, op->inputs[1])->shape[0];
    if (strcmp(op->type, "embedding_bw") == 0)
        return output->shape[0];
    if (strcmp(op->type, "dropout_bw") == 0)
        return 2;
    if (strcmp(op->type, "xent") == 0 || strcmp(op->type, "nll") == 0)
        return first->shape[1];
    if (strcmp(op->type, "xent_bw") == 0 || strcmp(op->type, "nll_bw") == 0)
        return output->shape[1];
    if (read->dtype != NEAP_I64)
        return attr_or_one(op, "kernel_h") * attr_or_one(op, "kernel_w");
    const neap_value *image = strcmp(op->type, "max_unpool2d_bw") == 0 ? first : output;
    return image->shape[2] * image->shape[3];
}

static void fill_input(const neap_graph *graph, uint32_t value, ref_tensor *x,
                       random_source *random)
{
    uint32_t n_readers;
    const uint32_t *readers = neap_graph_readers(graph, value, &n_readers);
    const neap_op *reader = n_readers ? neap_graph_op(graph, readers[0]) : NULL;
    for (uint32_t i = 0; reader && !is_float(x->dtype) && i < reader->n_inputs; i++)
        if (reader->inputs[i] == value) {
            int64_t limit = integer_limit(graph, reader, i);
            for (int64_t k = 0; k < x->n; k++)
                x->at[k] = random_below(random, (uint32_t)limit);
        }
    for (int64_t k = 0; is_float(x->dtype) && k < x->n; k++)
        x->at[k] = uniform(random, -1.5, 1.5);
}

static bool is_loss_gradient(const neap_graph *graph, const char *name)
{
    uint32_t count;
    const uint32_t *outputs = neap_graph_outputs(graph, &count);
    const char *loss = neap_graph_value(graph, outputs[0])->name;
    return strncmp(name, loss, strlen(loss)) == 0 && strcmp(name + strlen(loss), ".grad") == 0;
}

void ref_run_init(ref_run *run, const neap_graph *graph, uint64_t seed)
{
    random_source random = {seed};
    uint32_t count = neap_graph_value_count(graph);
    run->graph = graph;
    run->values = calloc(count, sizeof *run->values);
    assert_non_null(run->values);
    for (uint32_t v = 0; v < count; v++) {
        const neap_value *value = neap_graph_value(graph, v);
        ref_tensor *x = &run->values[v];
        *x = new_tensor(value);
        if (value->producer != NEAP_NONE)
            for (int64_t k = 0; k < x->n; k++)
                x->at[k] = nan("");
        else if (is_loss_gradient(graph, value->name))
            x->at[0] = 1.25;
        else
            fill_input(graph, v, x, &random);
    }
}

void ref_run_clear(ref_run *run)
{
    for (uint32_t v = 0; v < neap_graph_value_count(run->graph); v++)
        ref_clear(&run->values[v]);
    free(run->values);
}

/* ---- Ops ---- */

/* A backward op replays the random state of its forward op, which its name begins with. */
static uint64_t seed_of(const neap_op *op)
{
    size_t length = strlen(op->name);
    if (length > 3 && strcmp(op->name + length - 3, ".bw") == 0)
        length -= 3;
    uint64_t hash = UINT64_C(0xCBF29CE484222325); /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)op->name[i]) * UINT64_C(0x100000001B3);
    return hash;
}

void ref_run_op(const ref_run *run, uint32_t id, const ref_tensor *in, ref_tensor *out)
{
    const neap_op *op = neap_graph_op(run->graph, id);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        out[i] = new_tensor(neap_graph_value(run->graph, op->outputs[i]));
    ref_call call = {.op = op, .in = in, .out = out, .seed = op->random ? seed_of(op) : 0};
    kernel_of(op)(&call);
}

static void run_in_graph(ref_run *run, uint32_t id)
{
    const neap_op *op = neap_graph_op(run->graph, id);
    ref_tensor *in = calloc(op->n_inputs, sizeof *in), *out = calloc(op->n_outputs, sizeof *out);
    assert_non_null(in);
    assert_non_null(out);
    for (uint32_t i = 0; i < op->n_inputs; i++)
        in[i] = run->values[op->inputs[i]];
    ref_run_op(run, id, in, out);
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        ref_clear(&run->values[op->outputs[i]]);
        run->values[op->outputs[i]] = out[i];
    }
    free(in);
    free(out);
}

void ref_run_pass(ref_run *run, neap_pass pass)
{
    for (uint32_t id = 0; id < neap_graph_op_count(run->graph); id++)
        if (neap_graph_op(run->graph, id)->pass == pass)
            run_in_graph(run, id);
}

void ref_scramble(const ref_run *run, uint32_t id, uint32_t i, ref_tensor *x, random_source *random)
{
    const neap_op *op = neap_graph_op(run->graph, id);
    int64_t limit = is_float(x->dtype) ? 0 : integer_limit(run->graph, op, i);
    bool differs = false;
    assert_int_not_equal(limit, 1);
    while (!differs)
        for (int64_t k = 0; k < x->n; k++) {
            double old = x->at[k];
            x->at[k] = limit ? random_below(random, (uint32_t)limit) : uniform(random, -1.5, 1.5);
            differs = differs || x->at[k] != old;
        }
}
